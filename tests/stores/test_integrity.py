"""Checks, backups and exports: nothing is lost between two databases of any kind."""

import asyncio
import sqlite3
from pathlib import Path

import numpy as np
import psycopg
import pytest

from brimful.errors import StoreError
from brimful.records import Memory, Room, Snapshot
from brimful.records.search import IndexEntry
from brimful.stores import connect
from brimful.stores.admin.backup import COPIED_TABLES
from stores.samples import known, make_entry, make_message, nearest, occurring, summed, words
from stores.test_tenants import SECRET, context, fill, seen


def indexed(record):
    return words(record.content) if isinstance(record.content, str) else IndexEntry()


async def worked(database):
    """Leave the traces of some time: edits, deletions, erased contents, another embedder."""
    await fill(database.tenant("acme"), "tea for two")
    await fill(database.tenant("other"), SECRET)
    store = database.tenant("acme")
    await store.post([make_message(f"x{number}", f"message number {number}") for number in range(1200)])
    await store.edit("x1", "edited text", words("edited text"), at=5.0)
    await store.delete("x2")
    await store.delete("x3", erase=True)
    await store.save_memories([known("k1", "changed memory", pinned=True)])
    await store.use_embedder("f")
    documents = await store.backlog("f", limit=50)
    rows = np.random.default_rng(1).normal(size=(len(documents), 8)).astype(np.float32)
    await store.save_vectors("f", [each.doc for each in documents], rows)


async def state(store):
    """Return all that a store tells."""
    return [
        await seen(store),
        await store.history("general", limit=2000),
        await occurring(store, ["room:general", "memory:::"], ["message", "number", "7", "edited", "tea"], limit=100),
        await nearest(store, ["room:general"], "f", np.ones(8, dtype=np.float32), limit=20),
        await store.backlog("f"),
        await store.embedders(),
        await store.scope_version(["room:general"]),
        await store.inclusions(),
    ]


def alike(one, other):
    """Cosines differ in their last digits where vectors are told anew."""
    near, again = one.pop(3), other.pop(3)
    assert [(each.doc, each.seq) for each in near] == [(each.doc, each.seq) for each in again]
    assert [each.similarity for each in near] == pytest.approx([each.similarity for each in again], abs=2e-3)
    assert repr(one) == repr(other)


def test_a_sound_database_passes_its_check(database, run):
    run(worked(database))
    assert [each for each in run(database.check()) if each.level == "error"] == []
    assert run(database.tenants()) == ["acme", "other"]


POSTGRES_DAMAGE = {
    "UPDATE term_counts SET documents = documents + 1": "DELETE FROM term_blocks WHERE segment = 1",
    "DELETE FROM term_counts": "DELETE FROM documents WHERE kind = 'message'",
}


@pytest.mark.parametrize(
    ("damage", "what"),
    [
        ("UPDATE scopes SET words = words + 1", "scopes whose totals are wrong"),
        ("UPDATE term_counts SET documents = documents + 1", "terms whose documents are wrong"),
        ("DELETE FROM term_counts", "terms whose documents are wrong"),
        ("UPDATE contents SET uses = uses + 1", "contents whose number of uses is wrong"),
        ("DELETE FROM contents", "records whose content is gone"),
        ("DELETE FROM memories", "documents of the index that lead to no record"),
        ("UPDATE rooms SET last = 99", "rooms whose messages are not numbered without gaps"),
        ("UPDATE contents SET uses = 0 WHERE uses > 0", "contents that nothing refers to"),
    ],
)
def test_a_check_finds_what_is_wrong(url, run, damage, what):
    async def filled():
        async with connect(url) as database:
            await fill(database.tenant("acme"), "tea")
            await database.tenant("acme").post([make_message("lone", "said in no context")])

    async def checked():
        async with connect(url) as database:
            return [each.text for each in await database.check()]

    run(filled())
    assert run(checked()) == []
    if url.startswith("sqlite"):
        connection = sqlite3.connect(url.removeprefix("sqlite:///"))
        connection.execute(damage)
        connection.commit()
        connection.close()
    else:
        with psycopg.connect(url) as connection:
            connection.execute(POSTGRES_DAMAGE.get(damage, damage))
    assert any(what in found for found in run(checked()))


def test_a_backup_restores_everything(url, tmp_path, run, request):
    """SQLite to SQLite, and PostgreSQL through a file to a new PostgreSQL database."""
    told_of = []

    async def backed_up():
        async with connect(url) as database:
            await worked(database)
            await database.backup(tmp_path / "copy.db", lambda done, total: told_of.append((done, total)))
            with pytest.raises(StoreError, match="is not empty"):
                await database.restore(tmp_path / "copy.db")
            return await state(database.tenant("acme")), await seen(database.tenant("other"))

    before = run(backed_up())
    assert told_of
    assert told_of[-1][0] == told_of[-1][1]
    assert not (tmp_path / "copy.db.part").exists()
    empty = f"sqlite:///{tmp_path}/new.db" if url.startswith("sqlite") else request.getfixturevalue("another_postgres")

    async def restored():
        async with connect(empty) as database:
            await database.restore(tmp_path / "copy.db")
            assert [each for each in await database.check() if each.level == "error"] == []
            after = await state(database.tenant("acme")), await seen(database.tenant("other"))
            assert (await database.tenant("acme").post([make_message("next")]))[0].seq == before[0][1][
                0
            ].message.seq + 1
            await database.tenant("acme").post([make_message("next", room="new"), make_message("more", room="new")])
            return after

    after = run(restored())
    alike(before[0], after[0])
    assert repr(before[1]) == repr(after[1])


def test_a_backup_of_postgres_is_a_store_in_sqlite(postgres_url, tmp_path, run):
    async def story():
        async with connect(postgres_url) as database:
            await worked(database)
            await database.backup(tmp_path / "copy.db")
            before = await state(database.tenant("acme"))
        async with connect(f"sqlite:///{tmp_path}/copy.db") as copy:
            return before, await state(copy.tenant("acme"))

    alike(*run(story()))


def test_a_backup_is_one_state_while_others_write(sqlite_url, tmp_path, run):
    async def story():
        async with connect(sqlite_url) as database:
            store = database.tenant("acme")
            await store.post([make_message(f"m{number}", "some text " * 50) for number in range(3000)])
            writing = asyncio.create_task(_write_on(store))
            await database.backup(tmp_path / "copy.db")
            writing.cancel()
            await asyncio.gather(writing, return_exceptions=True)
        async with connect(f"sqlite:///{tmp_path}/copy.db") as copy:
            return await copy.check(), len(await copy.tenant("acme").history("general", limit=9999))

    found, count = run(story())
    assert found == []
    assert count >= 3000


async def _write_on(store):
    for number in range(10_000):
        await store.post([make_message(f"w{number}", "more text " * 50)])


def test_every_table_is_copied(sqlite_url, run):
    async def opened():
        async with connect(sqlite_url):
            pass

    run(opened())
    connection = sqlite3.connect(sqlite_url.removeprefix("sqlite:///"))
    for table, (_, columns) in COPIED_TABLES.items():
        found = {row[1] for row in connection.execute(f"PRAGMA table_info({table})")}
        assert found - {"tenant"} == set(columns) - {"tenant"}, table
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    connection.close()
    own = {name for name in tables if name.startswith(("text_index", "vector_log", "vector_blocks", "sqlite_"))}
    ephemeral = {"rate_limits", "trimmed_requests"}
    assert tables - own - ephemeral - {"migrations", "vectors", "term_counts"} == set(COPIED_TABLES)


@pytest.mark.parametrize("table", ["contents", "messages", "rooms", "text_index_data", "tenants"])
def test_a_check_of_a_damaged_file_tells_what_is_damaged(sqlite_url, run, table):
    path = Path(sqlite_url.removeprefix("sqlite:///"))

    async def filled():
        async with connect(sqlite_url) as database:
            await database.tenant("acme").post([make_message(f"m{number}", "some text " * 40) for number in range(500)])

    async def checked():
        async with connect(sqlite_url) as database:
            return [(each.level, each.text.split(":")[0]) for each in await database.check()]

    run(filled())
    connection = sqlite3.connect(path)
    (page,) = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = ?", (table,)).fetchone()
    connection.close()
    whole = bytearray(path.read_bytes())
    whole[(page - 1) * 4096 : page * 4096] = b"\xaa" * 4096
    path.write_bytes(whole)
    found = run(checked())
    assert found[0] == ("error", "the file is damaged")
    assert {level for level, _ in found} == {"error"}


# -- records ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("other", ["sqlite", "postgres"])
def test_records_go_out_and_come_in_as_they_were(database, run, tmp_path, request, other):
    target = f"sqlite:///{tmp_path}/other.db" if other == "sqlite" else request.getfixturevalue("another_postgres")

    async def story():
        store = database.tenant("acme")
        await worked(database)
        await store.record_access(["k1"], at=9.0)
        records = [record async for record in store.export_records()]
        async with connect(target) as copy:
            assert await copy.tenant("acme").load_records(records, indexed) == len(records)
            assert await copy.tenant("acme").load_records(records, indexed) == len(records)
            again = [record async for record in copy.tenant("acme").export_records()]
            history = await copy.tenant("acme").history("general", limit=2000)
            found = await occurring(copy.tenant("acme"), ["room:general"], ["message", "edited"])
        return records, again, history, await store.history("general", limit=2000), found

    records, again, history, before, found = run(story())
    assert {type(record).__name__ for record in records} == {
        *("User", "Persona", "Lorebook", "Room", "LoreEntry", "Message", "Summary", "Snapshot", "Response", "Memory"),
        "UsageReport",
    }
    assert again == records
    assert history == before
    assert found.document_frequency == (1197, 1)


def test_a_store_of_nothing_has_no_records(store, run):
    async def all_of():
        return [record async for record in store.export_records()]

    assert run(all_of()) == []
    assert run(store.load_records([], indexed)) == 0


def test_records_of_one_kind_are_read_page_by_page(store, run):
    async def story():
        await store.save_memories([known(f"k{number:04d}", f"memory {number}") for number in range(1001)])
        await store.save_lore([make_entry(f"e{number:04d}", f"entry {number}") for number in range(501)])
        await store.save_summaries([summed(f"s{number}") for number in range(3)])
        await store.put(Room(id="general"))
        await store.save_context(Snapshot(id="c1", room="general", context=context("tea")))
        return [record async for record in store.export_records()]

    records = run(story())
    assert len([record for record in records if isinstance(record, Memory)]) == 1001
    assert len(records) == 1001 + 501 + 3 + 1 + 1 + 1
