"""No tenant can read, search or change another's data, by any method or on the server."""

from contextlib import suppress

import numpy as np
import psycopg
import pytest
from psycopg import sql

from brimful.errors import BrimfulError, InvalidValue, StoreUnavailable, UnknownRecord
from brimful.packagers import memory
from brimful.records import Lorebook, Persona, Response, Room, Snapshot, User
from brimful.records.own_calls import OwnSpending, SpendingLimit
from brimful.records.removal import RemovalReport
from brimful.records.usage import UsageReport
from brimful.stores.store import RoomContents, Store
from brimful.stores.tables.own_calls import Charge
from brimful.stores.tables.room_counts import Sum
from stores.samples import known, make_entry, make_message, nearest, occurring, summed, words
from strategies import COUNTER
from support import build

SECRET = "belongs to the other tenant"  # noqa: S105 - a text to look for
LIMIT = SpendingLimit(tokens_per_day=9)
VECTOR = np.ones(8, dtype=np.float32)


def context(text):
    return build([memory(text, counter=COUNTER, id="k1")])


async def all_of(records):
    return [record async for record in records]


async def required(store, id):
    try:
        return await store.require(User, id)
    except UnknownRecord:
        return None


CALLS = {
    "oldest_event": lambda store: store.oldest_event(),
    "put": lambda store: store.put(User(id="ada", name="mine")),
    "get": lambda store: store.get(User, "ada"),
    "require": lambda store: required(store, "ada"),
    "get_many": lambda store: store.get_many(User, ["ada"]),
    "list_records": lambda store: store.list_records(User),
    "rooms_of": lambda store: store.rooms_of("ada"),
    "count_messages": lambda store: store.count_messages(["general"]),
    "remove": lambda store: store.remove(Room, "general"),
    "post": lambda store: store.post([make_message("m1", "mine"), make_message("m9", "mine")]),
    "history": lambda store: store.history("general", tokenizer="t"),
    "messages": lambda store: store.messages(["m1", "m2"]),
    "messages_at": lambda store: store.messages_at("general", [1, 2]),
    "edit": lambda store: store.edit("m2", "mine", words("mine"), at=1.0),
    "hide": lambda store: store.hide(["m1", "m2"], superseded=True),
    "delete": lambda store: store.delete("m2", erase=True),
    "save_memories": lambda store: store.save_memories([known("k1", "mine")]),
    "memories": lambda store: store.memories(),
    "count_memories": lambda store: store.count_memories(),
    "memory_users": lambda store: store.memory_users(),
    "memory_scopes": lambda store: store.memory_scopes("memory:", limit=9),
    "update_memory": lambda store: store.update_memory("k1", {"content": "mine"}, lambda memory: words(memory.content)),
    "remove_memories": lambda store: store.remove_memories(prefix="k"),
    "pin": lambda store: store.pin("k2"),
    "remove_memory": lambda store: store.remove_memory("k2", erase=True),
    "record_access": lambda store: store.record_access(["k1", "k2"], at=1.0),
    "save_lore": lambda store: store.save_lore([make_entry("e1", "mine")]),
    "lore": lambda store: store.lore(["world"]),
    "remove_lore": lambda store: store.remove_lore("e2"),
    "save_summaries": lambda store: store.save_summaries([summed("s1", "mine")]),
    "summaries": lambda store: store.summaries("general"),
    "participants": lambda store: store.participants("general", persona="helper", user="ada"),
    "room_contents": lambda store: store.room_contents(
        "general",
        memories=["memory:::"],
        max_pinned=9,
        limit=9,
        tokenizer="t",
        counter="t",
        scopes=["room:general", "memory:::"],
    ),
    "save_room_counts": lambda store: store.save_room_counts(
        "general", "t", "1.1", [Sum(first=1, last=9, messages=9, tokens=9)]
    ),
    "remove_summary": lambda store: store.remove_summary("s2"),
    "save_context": lambda store: store.save_context(Snapshot(id="c9", room="general", context=context("mine"))),
    "snapshot": lambda store: store.snapshot("c1"),
    "build": lambda store: store.build("c1"),
    "builds": lambda store: store.builds(),
    "agent_runs": lambda store: store.agent_runs(["c1"]),
    "run_contexts": lambda store: store.run_contexts("c1"),
    "candidate_contents": lambda store: store.candidate_contents({"c1": [0]}),
    "inclusions": lambda store: store.inclusions(item="k1"),
    "save_records": lambda store: store.save_records([Snapshot(id="c9", room="general", context=context("mine"))]),
    "remove_context": lambda store: store.remove_context("c1"),
    "rate_response": lambda store: store.rate_response("r1", None),
    "save_response": lambda store: store.save_response(Response(id="r9", context="c1", room="general")),
    "responses": lambda store: store.responses(),
    "contexts_of": lambda store: store.contexts_of("m1"),
    "follow": lambda store: store.follow("0"),
    "statistics": lambda store: store.statistics(by="persona"),
    "prune": lambda store: store.prune(before=9e9),
    "save_usage": lambda store: store.save_usage(UsageReport(id="o9", model="m", route="r")),
    "usage_reports": lambda store: store.usage_reports("m", "r"),
    "accuracy": lambda store: store.accuracy(),
    "reserve_own_call": lambda store: store.reserve_own_call("learn", Charge(), LIMIT, now=1.0),
    "settle_own_call": lambda store: store.settle_own_call("learn", 0, Charge(), Charge(prompt=7)),
    "own_spending": lambda store: store.own_spending(now=1.0),
    "load_records": lambda store: store.load_records(
        [User(id="zoe"), known("k9", "mine")[0]], lambda record: words(record.content)
    ),
    "export_records": lambda store: all_of(store.export_records()),
    "counts": lambda store: store.counts("t", ["b2:a"]),
    "save_counts": lambda store: store.save_counts("t", {"b2:b": 1}),
    "find_postings": lambda store: occurring(store, ["room:general", "memory:::"], SECRET.split()),
    "search_vectors": lambda store: nearest(store, ["room:general", "memory:::"], "e", VECTOR, limit=9),
    "deleted_messages": lambda store: store.deleted_messages(["m1", "m2"], room="general"),
    "documents": lambda store: store.documents(list(range(1, 100))),
    "count_undivided": lambda store: store.count_undivided(),
    "divide_documents": lambda store: store.divide_documents(lambda record, _start: words(record.content)),
    "scope_version": lambda store: store.scope_version(["room:general", "memory:::"]),
    "use_embedder": lambda store: store.use_embedder("e"),
    "drop_embedder": lambda store: store.drop_embedder("e"),
    "embedders": lambda store: store.embedders(),
    "backlog": lambda store: store.backlog("e"),
    "save_vectors": lambda store: store.save_vectors("e", list(range(1, 100)), np.ones((99, 8), dtype=np.float32)),
    "index_progress": lambda store: store.index_progress("e"),
    "add_job": lambda store: store.add_job("count", "t"),
    "list_contents": lambda store: store.list_contents(),
}


NO_CONTENTS = RoomContents(summaries=[], pinned=[], newest=[], versions={})


async def fill(store, text):
    await store.use_embedder("e")
    await store.put(User(id="ada", name=text))
    await store.put(Persona(id="helper", prompt=text))
    await store.put(Lorebook(id="world", name=text))
    await store.put(Room(id="general", goal=text, user="ada"))
    await store.post([make_message("m1", text), make_message("m2", f"{text} again")])
    await store.save_memories([known("k1", text), known("k2", f"{text} again")])
    await store.save_lore([make_entry("e1", text), make_entry("e2", text)])
    await store.save_summaries([summed("s1", text), summed("s2", text)])
    await store.save_context(Snapshot(id="c1", room="general", context=context(text)))
    await store.save_response(Response(id="r1", context="c1", room="general", metadata={"text": text}))
    await store.save_usage(UsageReport(id="o1", model="m", route="r", room=text, counted=7, reported=8))
    await store.save_counts("t", {"b2:a": 7})
    await store.reserve_own_call("learn", Charge(prompt=9), LIMIT, now=1.0)
    waiting = [each.doc for each in await store.backlog("e")]
    await store.save_vectors("e", waiting[:2], np.ones((2, 8), dtype=np.float32))


async def seen(store):
    """Return all that a tenant can read."""
    return [
        await CALLS[name](store)
        for name in (
            *("get", "list_records", "history", "memories", "lore", "summaries", "snapshot", "responses", "counts"),
            *("build", "builds", "follow", "statistics"),
        )
    ] + [
        await store.usage_reports("m", "r"),
        await store.accuracy(),
        await store.own_spending(now=1.0),
        await store.index_progress("e"),
        await occurring(store, ["room:general"], SECRET.split()),
        await store.documents([1, 2]),
    ]


def test_every_method_of_a_store_has_its_call_here():
    methods = {name for name in vars(Store) if not name.startswith("_")}
    assert set(CALLS) == methods


def test_no_method_reaches_another_tenant(database, run):
    other = database.tenant("other")
    run(fill(other, SECRET))
    before = repr(run(seen(other)))
    telling = (
        "add_job",
        "reserve_own_call",
        "post",
        "find_postings",
        "index_progress",
        "embedders",
        "load_records",
        "follow",
        "prune",
    )
    for name, call in CALLS.items():
        found = run(call(database.tenant(f"new-{name}")))
        assert SECRET not in repr(found), name
        assert (
            found
            in (None, False, [], {}, "", ([], []), (None, None, None), NO_CONTENTS, OwnSpending(), RemovalReport())
            or name in telling
        ), name
    assert repr(run(seen(other))) == before


def test_the_same_ids_are_other_records_for_another_tenant(database, run):
    other, mine = database.tenant("other"), None
    run(fill(other, SECRET))
    before = repr(run(seen(other)))
    for name, call in CALLS.items():
        if mine is None:
            mine = database.tenant(f"before-{name}")
            run(fill(mine, "mine"))
            own = repr(run(seen(mine)))
        with suppress(BrimfulError):
            assert SECRET not in repr(run(call(mine))), name
        now = repr(run(seen(mine)))
        assert SECRET not in now, name
        if now != own:  # the next call meets records that no other has changed
            mine = None
    assert repr(run(seen(other))) == before


TABLES = """
SELECT c.relname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'tenant'
WHERE c.relkind = 'r' AND c.relnamespace = 'public'::regnamespace
"""


def count(connection, table):
    return connection.execute(sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier(table))).fetchone()[0]


@pytest.mark.parametrize("tenant", [None, "mine"])
def test_the_server_shows_no_row_of_another_tenant(postgres_url, run, tenant):
    from brimful.stores import connect  # noqa: PLC0415 - the one test that needs no store of its own

    async def filled():
        async with connect(postgres_url) as database:
            await fill(database.tenant("other"), SECRET)

    run(filled())
    with psycopg.connect(postgres_url) as connection:
        tables = [name for (name,) in connection.execute(TABLES)]
        assert len(tables) > 15
        full = {name for name in tables if count(connection, name)}
        assert {"messages", "contents", "vectors", "documents", "snapshots", "own_calls"} <= full
        connection.execute("SET ROLE brimful_app")
        if tenant:
            connection.execute("SELECT set_config('brimful.tenant', %s, false)", (tenant,))
        for name in tables:
            assert count(connection, name) == 0, name
            assert connection.execute(sql.SQL("DELETE FROM {}").format(sql.Identifier(name))).rowcount == 0
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("INSERT INTO users (tenant, id, body) VALUES ('other', 'x', '')")


def test_tenants_are_listed_in_pages(database, run):
    names = [f"t{number:04}" for number in range(1_203)]

    async def insert(name):
        await database.tenant(name).put(User(id="ada", name="Ada"))

    async def listed():
        for name in names:
            await insert(name)
        pages = await database.tenants(limit=2), await database.tenants(after="t1200", limit=5)
        return pages, await all_of(database.all_tenants()), await database.tenants(limit=0)

    pages, everyone, none = run(listed())
    assert pages == (["t0000", "t0001"], ["t1201", "t1202"])
    assert (everyone, none) == (names, [])
    assert run(database.has_tenant("t0007"))
    assert not run(database.has_tenant("t7"))
    with pytest.raises(InvalidValue, match="limit"):
        run(database.tenants(limit=-1))


def test_a_database_that_answers_can_be_pinged(database, run):
    run(database.ping())
    run(database.close())
    with pytest.raises(StoreUnavailable):
        run(database.ping())
