"""The exporter restores every field of an imported file, known or not."""

import json
import tempfile
from pathlib import Path

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from brimful.formats import Reader, registry, write_card, write_chat_head, write_chat_line, write_openai_messages
from brimful.formats.character_card import card_lorebook_id
from brimful.records import Lorebook, LoreEntry, Message, Persona, Room
from formats import samples
from formats.test_damage import changed, paths
from strategies import examples

JUNK = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=6),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)
MORE = st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), max_size=5), JUNK, max_size=2)


def read(name, data):
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / name
        path.write_bytes(data)
        return list(Reader([str(path)], formats=registry.BUILTIN_FORMATS).records())


def of(kind, records):
    return [each for each in records if isinstance(each, kind)]


@st.composite
def cards(draw):
    card = draw(st.sampled_from([samples.v1_card(), samples.v2_card(), samples.v3_card()]))
    way = draw(st.sampled_from([way for way in paths(card) if way and way[0] not in ("spec", "spec_version")]))
    card = changed(card, way, draw(JUNK))
    if isinstance(card.get("data"), dict):
        card = {**card, "data": {**draw(MORE), **card["data"]}}
    return {**draw(MORE), **card}


@settings(max_examples=examples(100))
@given(cards())
def test_a_card_comes_back_as_it_was(card):
    data = samples.png(samples.text_chunk("ccv3", card))
    records = read("nova.png", data)
    for persona in of(Persona, records):  # or it was refused
        book = next(iter(of(Lorebook, records)), None)
        assert write_card(persona, book, of(LoreEntry, records)) == card


@st.composite
def chats(draw):
    rows = samples.tavern_chat()
    for at in draw(st.lists(st.integers(1, len(rows) - 1), max_size=2)):
        way = draw(st.sampled_from([way for way in paths(rows[at]) if way and way != ("mes",)]))
        rows[at] = {**draw(MORE), **changed(rows[at], way, draw(JUNK))}
    return rows


@settings(max_examples=examples(80))
@given(chats())
def test_a_chat_comes_back_as_it_was(rows):
    records = read("x.jsonl", samples.lines(rows))
    (room,) = of(Room, records)
    results = [write_chat_head(room, user="", character=""), *map(write_chat_line, of(Message, records))]
    assert results == rows


def test_an_edited_message_is_written_to_the_selected_swipe():
    message = of(Message, read("x.jsonl", samples.lines(samples.tavern_chat())))[0]
    line = write_chat_line(msgspec.structs.replace(message, content="Come in.", edited=1.0))
    assert (line["mes"], line["swipes"]) == ("Come in.", ["Hello, Ada!", "Come in."])


def test_a_room_of_ours_becomes_a_chat_and_is_read_again():
    room = Room(id="den", created=1_700_000_000.0)
    message = Message(id="m1", room="den", content="Hi", sender="Ada", at=1_700_000_001.5)
    rows = [write_chat_head(room, user="Ada", character="Nova"), write_chat_line(message)]
    records = read("x.jsonl", samples.lines(rows))
    (again,) = of(Message, records)
    assert (again.content, again.sender, again.role, again.at) == ("Hi", "Ada", "user", 1_700_000_001.5)
    assert of(Room, records)[0].created == 1_700_000_000.0


def test_messages_in_openais_form_are_read_again():
    (message,) = of(Message, read("x.jsonl", json.dumps({"role": "user", "content": "Hi", "id": 1}).encode()))
    assert list(write_openai_messages(message)) == [
        {"role": "user", "content": "Hi", "id": "x/1", "timestamp": message.at}
    ]


def world():
    """Return a lorebook as SillyTavern's folder holds it, and its entries."""
    records = read("Eldoria.json", samples.written(samples.world_info()))
    return of(Lorebook, records)[0], of(LoreEntry, records)


def test_a_new_card_has_its_book_in_the_form_of_cards():
    data = write_card(Persona(id="nova", lorebooks=("Eldoria",)), *world())["data"]["character_book"]
    assert [each["keys"] for each in data["entries"]] == [["eldoria", "forest"]]
    assert "spec" not in data


def test_a_card_that_came_without_a_book_gains_none():
    (persona,) = of(Persona, read("luna.json", samples.written(samples.v1_card("Luna"), indent=1)))
    linked = msgspec.structs.replace(persona, lorebooks=("Eldoria",))
    assert card_lorebook_id(linked) is None
    assert write_card(linked, *world()) == samples.v1_card("Luna")
    assert card_lorebook_id(Persona(id="nova", lorebooks=("Eldoria",))) == "Eldoria"
