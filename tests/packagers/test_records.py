"""Records of a store become packages with their ids."""

import msgspec
import pytest

from brimful import Media, Text, ToolCall, ToolResult
from brimful.core.labels import labeled_text
from brimful.packagers.records import (
    package_header,
    package_lore_entry,
    package_memory,
    package_message,
    package_recalled_message,
    package_summary,
    plain_text,
)
from brimful.records import LoreEntry, Memory, Message, Persona, Room, Summary
from brimful.records.character import Character
from strategies import COUNTER

CALL = ToolCall(id="c1", name="weather", arguments='{"city": "Paris"}')


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        (Message(id="m", room="r", content="hi"), "message-recent"),
        (Message(id="m", room="r", content=(Text(text="Look."), CALL), role="assistant"), "tool-call"),
        (Message(id="m", room="r", content=(ToolResult(id="c1", content="Rain"),), role="tool"), "tool-result"),
    ],
)
def test_a_message_of_the_recent_history_stands_as_a_message(message, kind):
    package = package_message(message, counter=COUNTER)
    assert (package.id, package.kind, package.role) == ("m", kind, message.role)


def test_the_message_to_answer_may_not_be_dropped():
    package = package_message(
        Message(id="m", room="r", content="hi", sender="Ada", seq=7, at=5.0), counter=COUNTER, current=True
    )
    assert (package.kind, package.flex.can_drop, package.name) == ("message-current", False, "Ada")
    assert (package.position, package.timestamp) == (7, 5.0)


def test_a_recalled_message_is_text_even_if_it_was_a_tool_call():
    message = Message(id="m", room="r", content=(Text(text="Let me look."), CALL), role="assistant", at=1_700_000_000)
    package = package_recalled_message(message, counter=COUNTER, source="general")
    assert package.kind == "message-older"
    assert package.content == 'Let me look.\n[called weather: {"city": "Paris"}]'
    assert package.metadata["source"] == "general"


def test_a_recalled_tool_result_is_text_without_a_role():
    message = Message(id="m", room="r", content=(ToolResult(id="c1", content="Rain"),), role="tool")
    package = package_recalled_message(message, counter=COUNTER)
    assert package.role is None
    assert labeled_text(package) == "(tool): Rain\n"
    assert (
        labeled_text(package_recalled_message(msgspec.structs.replace(message, sender="weather"), counter=COUNTER))
        == "weather: Rain\n"
    )


def test_metadata_of_a_record_pin_nothing_and_are_no_place():
    metadata = {"pinned": True, "source": "slack", "mood": "good"}
    message = Message(id="m", room="r", content="Hi", metadata=metadata)
    own = {"pinned": True, "mood": "good", "sender": "", "sender_type": "user"}
    assert package_message(message, counter=COUNTER).metadata == own
    assert package_recalled_message(message, counter=COUNTER).metadata == own
    assert package_recalled_message(message, counter=COUNTER, source="den").metadata == {**own, "source": "den"}
    memory = Memory(id="k", content="Tea.", metadata=metadata)
    facts = {"memory_type": "semantic", "accesses": 0}
    assert package_memory(memory, counter=COUNTER).metadata == {**metadata, **facts}
    pinned = package_memory(msgspec.structs.replace(memory, pinned=True), counter=COUNTER)
    assert pinned.pinned
    assert not package_memory(memory, counter=COUNTER).pinned
    assert not package_message(message, counter=COUNTER).pinned


def test_a_memory_brings_its_worth_and_its_source():
    record = Memory(id="k", content="Ada likes tea.", type="episodic", importance=0.9, source="chat", pinned=True, at=3)
    package = package_memory(record, counter=COUNTER, relevance=0.4)
    assert (package.id, package.kind, package.importance, package.relevance) == ("k", "memory-episodic", 0.9, 0.4)
    assert package.metadata == {"source": "chat", "memory_type": "episodic", "accesses": 0}
    assert package.pinned


def test_lore_stands_in_its_authors_order_and_a_constant_entry_is_pinned():
    package = package_lore_entry(
        LoreEntry(id="e", lorebook="w", content="A forest.", constant=True, order=40), counter=COUNTER, book="W"
    )
    assert (package.position, package.metadata, package.pinned) == (40, {"source": "W"}, True)


def test_a_summary_covers_what_its_record_says():
    record = Summary(id="s", room="r", content="They met.", cluster="day-1", covers=("m1", "m2"))
    package = package_summary(record, counter=COUNTER)
    assert (package.kind, package.cluster, package.covers) == ("summary", "day-1", ("m1", "m2"))


def test_a_context_begins_with_the_persona_then_the_headers_then_the_goal():
    persona = Persona(id="helper", prompt="You help.")
    room = Room(id="r", headers=("Be brief.", "Be kind."), goal="Ship it")
    packages = package_header(persona, room, counter=COUNTER, available=900)
    assert [package.content for package in packages] == [
        "You help.",
        "Be brief.",
        "Be kind.",
        "Goal of this conversation: Ship it",
    ]
    assert [package.position for package in packages] == [0, 1, 2, 3]
    assert package_header(None, Room(id="r"), counter=COUNTER, available=900) == []


def test_a_character_stands_behind_the_prompt_and_only_its_examples_may_go():
    character = Character(prompt="Be the pilot.", description="A pilot.", examples="Roger that.")
    persona = Persona(id="nova", name="Nova", character=character)
    own, sheet, examples = package_header(persona, Room(id="r"), counter=COUNTER, available=900)
    assert (own.content, sheet.content) == ("Be the pilot.", "Description: A pilot.")
    assert examples.content == "How Nova talks:\nRoger that."
    assert [package.flex.can_drop for package in (own, sheet, examples)] == [False, False, True]
    said = msgspec.structs.replace(persona, prompt="Be brief.")
    overridden = package_header(said, Room(id="r"), counter=COUNTER, available=900)
    assert overridden[0].content == "Be brief."


def test_examples_are_held_back_where_they_take_more_than_a_quarter_of_what_is_left():
    persona = Persona(id="nova", prompt="Be brief.", character=Character(examples="Roger that."))
    own, examples = package_header(persona, Room(id="r"), counter=COUNTER, available=10_000)
    least = own.tokens.upper + 4 * examples.tokens.upper
    for available, held in ((least, False), (least - 1, True), (0, True)):
        beginning = package_header(persona, Room(id="r"), counter=COUNTER, available=available)
        assert [bool(each.excluded) for each in beginning] == [False, held]


def test_plain_text_names_what_is_no_text():
    content = (
        Text(text="See"),
        Media(modality="image", url="https://example.org/a.png"),
        ToolResult(id="c", content="42"),
    )
    assert plain_text(content) == "See\n[image]\n42"
