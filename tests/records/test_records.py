"""Records are stored and read back unchanged, and invalid ones raise clear errors."""

import msgspec
import pytest

from brimful import Text
from brimful.errors import InvalidValue
from brimful.records import (
    LoreEntry,
    Memory,
    Message,
    Persona,
    Response,
    Room,
    Summary,
    Usage,
    User,
)
from brimful.records.character import Character

RECORDS = [
    User(id="ada", name="Ada"),
    Persona(id="helper", prompt="You help.", overrides={"pools.recent.max_items": 50}, lorebooks=("world",)),
    Persona(id="nova", character=Character(description="A pilot."), completion=800, provider="ollama"),
    Room(id="general", goal="Ship the demo", headers=("Be brief.",), user="ada"),
    Message(id="m1", room="general", content="Hi", sender="Ada", at=7),
    Message(id="m2", room="general", content=(Text(text="Hi"),), role="assistant"),
    Memory(id="k1", content="Ada likes tea.", persona="helper", importance=1),
    LoreEntry(id="e1", lorebook="world", content="Eldoria is a forest.", keys=("Eldoria",)),
    Summary(id="s1", room="general", content="They met.", cluster="general/2026-11-15", first=1, last=9),
    Response(id="r1", context="c1", room="general", usage=Usage(prompt=12, completion=3)),
]


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: type(record).__name__)
def test_a_record_written_out_is_read_back_equal(record):
    assert msgspec.json.decode(msgspec.json.encode(record), type=type(record)) == record


def test_a_record_says_what_it_is_when_it_is_written_out():
    assert msgspec.json.decode(msgspec.json.encode(RECORDS[0]))["record"] == "user"


@pytest.mark.parametrize(
    ("build", "field"),
    [
        (lambda: User(id=""), "id"),
        (lambda: User(id="a\0b"), "id"),
        (lambda: User(id="a\ud800"), "id"),
        (lambda: User(id="a", metadata={"x": object()}), "metadata"),
        (lambda: Persona(id="a", lorebooks=["x"]), "lorebooks"),
        (lambda: Persona(id="a", completion=0), "completion"),
        (lambda: Persona(id="a", character={"description": "x"}), "character"),
        (lambda: Character(examples=3), "character.examples"),
        (lambda: Room(id="a", headers=("x", 3)), "headers[1]"),
        (lambda: Room(id="a", created=float("nan")), "created"),
        (lambda: Message(id="a", room="", content="x"), "room"),
        (lambda: Message(id="a", room="r", content=3), "content"),
        (lambda: Message(id="a", room="r", content=()), "content"),
        (lambda: Message(id="a", room="r", content="x", role="robot"), "role"),
        (lambda: Message(id="a", room="r", content="x", at=float("inf")), "at"),
        (lambda: Memory(id="a", content="x", importance=2), "importance"),
        (lambda: Memory(id="a", content="x", type="psychic"), "type"),
        (lambda: Message(id="a", room="r", content="x", seq=2**63), "seq"),
        (lambda: Message(id="a", room="r", content="x", seq=-1), "seq"),
        (lambda: Memory(id="a", content="x", accesses=2**63), "accesses"),
        (lambda: Memory(id="a", content="x", pinned=None), "pinned"),
        (lambda: LoreEntry(id="a", lorebook="w", content="x", order=2**63), "order"),
        (lambda: Summary(id="a", room="r", content="x", cluster="c", last=1.5), "last"),
        (lambda: Message(id="a", room="r", content="x", edited="now"), "edited"),
        (lambda: Memory(id="a", content="x", accessed=b"x"), "accessed"),
        (lambda: Response(id="a", context="c", room="r", seconds="fast"), "seconds"),
        (lambda: Response(id="a", context="c", room="r", seconds=float("nan")), "seconds"),
        (lambda: Response(id="a", context="c", room="r", usage={"prompt": 1}), "usage"),
        (lambda: Usage(prompt=-1), "usage.prompt"),
        (lambda: Usage(prompt=1.5), "usage.prompt"),
    ],
)
def test_values_that_no_store_can_return_are_refused_by_name(build, field):
    with pytest.raises(InvalidValue) as refused:
        build()
    assert refused.value.field == field


def test_lone_surrogates_in_content_are_replaced_since_no_file_can_hold_them():
    assert Message(id="a", room="r", content="x\ud800").content == "x�"
