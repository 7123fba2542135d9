"""Imports: in batches, each id once, and searchable."""

import json
import random

import pytest

from brimful.counting import count_texts
from brimful.engine.transfer import (
    ID_TOO_LONG,
    MAX_LOCATIONS,
    MAX_REASONS,
    OTHER_REASONS,
    BatchLimits,
    ImportTally,
    import_records,
)
from brimful.errors import InvalidValue
from brimful.formats import Format, Skipped, Source, detect_format
from brimful.records import Lorebook, LoreEntry, Memory, Message


def take(source, engine, tally, importer=None, **options):
    return import_records(engine, (importer or detect_format(source)).read(source), tally, **options)


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "den.jsonl"
    rows = [{"role": "user", "content": f"Number {at} is of the {'tea' if at == 7 else 'day'}."} for at in range(20)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(path)


def test_batches_are_bounded_by_number_and_by_size(run, new_engine, path):
    sizes = []

    class Watched:
        def __init__(self, engine):
            self.engine, self.store = engine, engine.store

        async def load(self, records, **options):
            sizes.append(len(records))
            await self.engine.load(records, **options)

    async def story():
        async with new_engine(embedder=None) as engine:
            for limit in ({"max_records": 6}, {"max_bytes": 600}):
                tally = ImportTally()
                with Source(path, room=str(limit)) as source:
                    await take(source, Watched(engine), tally, limits=BatchLimits(**limit), index=False)
                assert tally.make_report().records == {"message": 20}

    run(story())
    assert sizes[:4] == [6, 6, 6, 2]
    assert set(sizes[4:]) < {2, 3, 4, 5}


def test_messages_are_written_with_their_counts(run, new_engine, path):
    async def story():
        async with new_engine(embedder=None, model="gpt-4o") as engine:
            with Source(path) as source:
                await take(source, engine, ImportTally(), index=False)
            page = await engine.store.history("den", tokenizer="o200k_base")
            assert [entry.tokens for entry in page] == count_texts(
                "o200k_base", [each.message.content for each in page]
            )

    run(story())


def test_an_import_that_fails_reads_no_further(run, new_engine):
    read = []

    def items():
        for at in range(9):
            read.append(at)
            yield Message(id=f"m{at}", room="den", content="Hi")

    class Failing:
        def __init__(self, engine):
            self.store = engine.store

        async def load(self, _records, **_options):
            raise InvalidValue("records", "cannot be written")

    async def story():
        async with new_engine(embedder=None) as engine:
            with pytest.raises(InvalidValue):
                await import_records(Failing(engine), items(), ImportTally(), limits=BatchLimits(max_records=2))

    run(story())
    assert len(read) < 9


def test_imported_messages_can_be_found(run, new_engine, path):
    async def story():
        async with new_engine(embedder=None) as engine:
            with Source(path) as source:
                await take(source, engine, ImportTally())
            await engine.remember_many([Memory(id="k", content="Tea is brown."), Memory(id="n", content="No.")])
            return await engine.search("Which one is of the tea?", room="den")

    found = run(story())
    assert {type(hit.record) for hit in found.hits} == {Message, Memory}
    best = next(hit.record for hit in found.hits if isinstance(hit.record, Message))
    assert best.content == "Number 7 is of the tea."


def test_reasons_and_locations_are_limited_however_much_is_skipped(run, new_engine, path):
    many = Format(
        name="many",
        description="",
        recognizes=lambda _: True,
        read=lambda _: (Skipped(f"at {at}", f"reason {at % 60}") for at in range(6000)),
    )

    async def story():
        tally = ImportTally()
        async with new_engine(embedder=None) as engine:
            with Source(path) as source:
                await take(source, engine, tally, many)
        return tally.make_report()

    skipped = run(story()).skipped
    assert sum(skips.count for skips in skipped) == 6000
    assert len(skipped) == MAX_REASONS + 1
    assert skipped[0].reason == OTHER_REASONS
    assert all(len(skips.locations) == MAX_LOCATIONS for skips in skipped)


def test_an_id_that_is_too_long_for_an_index_skips_only_its_record(run, new_engine):
    long = "".join(random.Random(1).choices("abcdefghijklmnopqrstuvwxyz", k=5000))
    found = [
        Message(id="a", room="r", content="Hi"),
        Message(id=long, room="r", content="Hi"),
        Message(id="b", room=long, content="Hi"),
        Message(id="c", room="r", content="Hi"),
    ]

    async def story():
        tally = ImportTally()
        async with new_engine(embedder=None) as engine:
            await import_records(engine, iter(found), tally)
        return tally.make_report()

    taken = run(story())
    assert taken.records == {"message": 2}
    assert [(skips.reason, skips.count) for skips in taken.skipped] == [(ID_TOO_LONG, 2)]


def test_an_entry_with_an_expression_over_a_limit_is_skipped_and_named(run, new_engine):
    keys = {"bad": "/a{200000000}/", "good": "tower"}
    records = [LoreEntry(id=f"w/{id}", lorebook="w", content="It fell.", keys=(key,)) for id, key in keys.items()]

    async def scenario():
        tally = ImportTally()
        async with new_engine() as engine:
            await import_records(engine, iter([Lorebook(id="w"), *records]), tally)
            with pytest.raises(InvalidValue, match="200,000,000 elements"):
                await engine.write_lore(records)
            return [entry.id for entry in await engine.store.lore(["w"])], tally.make_report()

    ids, report = run(scenario())
    assert ids == ["w/good"]
    [group] = report.skipped
    assert group.locations == ("w/bad",)
    assert group.reason == (
        "the regular expression '/a{200000000}/' unrolls to 200,000,000 elements; the limit is 20,000"
    )
