"""Export, import into an empty store and export again: the bytes are identical."""

import asyncio
import itertools
import tempfile
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from brimful.core.content import Media, Text, ToolCall, ToolResult
from brimful.engine import Engine
from brimful.engine.transfer import ImportTally, import_records
from brimful.formats import Reader
from brimful.records import Lorebook, LoreEntry, Memory, Message, Persona, Room, Summary, User
from brimful.records.character import Character
from strategies import examples

NUMBERS = itertools.count()
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
NAME = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=12)
DATA = st.dictionaries(
    TEXT, st.recursive(st.none() | st.booleans() | st.integers(-(2**53), 2**53) | TEXT, st.lists), max_size=3
)
TIME = st.floats(0, 2e9)
SHARE = st.floats(0, 1)
PARTS = st.one_of(
    st.builds(Text, text=TEXT),
    st.builds(
        Media, modality=st.just("image"), url=st.just("https://example.org/a.png"), width=st.none() | st.integers(1, 9)
    ),
)
CALLS = st.builds(ToolCall, id=NAME, name=NAME, arguments=st.just('{"a": 1}'))
RESULTS = st.builds(ToolResult, id=NAME, content=TEXT, name=NAME, is_error=st.booleans())


@st.composite
def messages(draw, room, number):
    role = draw(st.sampled_from(["system", "user", "assistant", "tool"]))
    parts = RESULTS if role == "tool" else PARTS | CALLS if role == "assistant" else PARTS
    content = draw(st.lists(parts, min_size=1, max_size=3).map(tuple) | (TEXT if role != "tool" else st.nothing()))
    return Message(
        id=f"m{number}",
        room=room,
        content=content,
        sender=draw(TEXT),
        role=role,
        at=draw(TIME),
        edited=draw(st.none() | TIME),
        metadata=draw(DATA),
    )


@st.composite
def stores(draw):
    """All that a store may hold, in an order in which it can be written."""
    users = [User(id=id, name=draw(TEXT), metadata=draw(DATA)) for id in draw(st.sets(NAME, max_size=2))]
    books = [Lorebook(id=id, name=draw(TEXT), settings=draw(DATA)) for id in draw(st.sets(NAME, max_size=2))]
    personas = [
        Persona(
            id=id,
            name=draw(TEXT),
            prompt=draw(TEXT),
            character=draw(st.none() | st.builds(Character, description=TEXT, greeting=TEXT)),
            lorebooks=tuple(book.id for book in books),
            completion=draw(st.none() | st.integers(1, 10**6)),
            metadata=draw(DATA),
        )
        for id in draw(st.sets(NAME, max_size=2))
    ]
    rooms = [
        Room(id=id, name=draw(TEXT), user=draw(st.none() | NAME), persona=draw(st.none() | NAME), metadata=draw(DATA))
        for id in draw(st.sets(NAME, min_size=1, max_size=3))
    ]
    said = [draw(messages(draw(st.sampled_from(rooms)).id, number)) for number in range(draw(st.integers(0, 8)))]
    lore = [
        LoreEntry(
            id=f"e{at}",
            lorebook=draw(st.sampled_from(books)).id,
            content=draw(TEXT),
            keys=tuple(draw(st.lists(NAME, max_size=2))),
            order=draw(st.integers(-5, 5)),
            importance=draw(SHARE),
            settings=draw(DATA),
        )
        for at in range(draw(st.integers(0, 3)) if books else 0)
    ]
    memories = [
        Memory(id=f"k{at}", content=draw(TEXT), pinned=draw(st.booleans()), at=draw(TIME), importance=draw(SHARE))
        for at in range(draw(st.integers(0, 3)))
    ]
    summaries = [
        Summary(id=f"s{at}", room=rooms[0].id, content=draw(TEXT), cluster=draw(TEXT), covers=("m0",), at=draw(TIME))
        for at in range(draw(st.integers(0, 2)))
    ]
    return [*users, *personas, *books, *rooms, *lore, *said, *summaries, *memories]


async def exported(engine):
    return b"".join([msgspec.json.encode(record) + b"\n" async for record in engine.store.export_records()])


async def story(url, records):
    number = next(NUMBERS)
    async with Engine(url, tenant=f"a{number}", embedder=None) as engine:
        for record in records:
            await engine.load([record])
        out = await exported(engine)
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "all.jsonl"
        path.write_bytes(out)
        async with Engine(url, tenant=f"b{number}", embedder=None) as engine:
            tally = ImportTally()
            await import_records(engine, Reader([str(path)], format="records").records(), tally)
            assert tally.make_report().skipped == ()
            return out, await exported(engine)


@pytest.mark.parametrize("sort", ["sqlite", "postgres"])
@settings(max_examples=examples(15), suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(records=stores())
def test_exported_records_can_be_imported_and_exported_again(request, sort, records):
    before, after = asyncio.run(story(request.getfixturevalue(f"{sort}_url"), records))
    assert after == before
    assert len(before.splitlines()) == len(records)
