"""Every statement finds its rows by a key beyond the tenant, and reads no more than it needs."""

import re
import sqlite3

import numpy as np
import pytest

from brimful.packagers import memory
from brimful.records import Lorebook, Persona, Response, Room, Snapshot, User
from brimful.records.usage import UsageReport
from brimful.stores.backends.sqlite import SqliteDriver
from brimful.stores.encryption.keyring import Keyring
from brimful.stores.store import Store
from brimful.stores.tables.room_counts import Sum
from brimful.stores.urls import parse_url
from stores.samples import known, make_entry, make_message, nearest, occurring, summed, words
from strategies import COUNTER
from support import build

SMALL = {"embedders", "data_keys", "log_ends", "json_each", "sqlite_sequence", "p", "waiting"}
"""What has a handful of rows, the postings of one term, and the part of a queue that is counted."""
WHOLE = (
    "SELECT (SELECT count(*)",  # progress counts all
    "SELECT tenant, :id, doc FROM documents",  # a new embedder waits for all
    "DELETE FROM memories WHERE tenant = :tenant AND",  # whoever is removed takes all memories along
    "DELETE FROM vectors WHERE tenant = :tenant AND embedder = :id",
    "DELETE FROM embedding_queue WHERE tenant = :tenant AND embedder = :id",
    "DELETE FROM vector_log WHERE tenant",
    "SELECT body FROM responses WHERE tenant = :tenant ORDER BY",
)


class Recording(SqliteDriver):
    """A database that remembers its statements."""

    def __init__(self, target):
        super().__init__(target, wait=1.0)
        self.said = set()
        spoken = self.dialect.statement

        def statement(sql):
            self.said.add(sql)
            return spoken(sql)

        self.dialect.statement = statement


async def everything(store):
    await store.use_embedder("e")
    for record in (User(id="ada"), Persona(id="helper"), Lorebook(id="world"), Room(id="general", user="ada")):
        await store.put(record)
    await store.list_records(User, after="a", limit=3)
    await store.rooms_of("ada")
    await store.count_messages(["general"])
    await store.post([make_message("m1"), make_message("m2")])
    await store.edit("m1", "Tea", words("tea"), at=1.0)
    await store.hide(["m2"], superseded=True)
    await store.delete("m2", erase=True)
    await store.history("general", before=9, tokenizer="t")
    await summed_up(store)
    await store.save_memories([known("k1", user="ada")])
    await store.save_memories([known("k1", user="ada")])
    for chosen in ({"ids": ["k1"]}, {"scopes": ["memory::ada:"], "types": ["semantic"], "pinned": True, "before": 9.0}):
        await store.memories(**chosen)
    await store.memories(scopes=["memory::ada:"])
    await filtered(store)
    await store.pin("k1")
    await store.record_access(["k1"], at=1.0)
    await store.save_lore([make_entry("e1")])
    await store.lore(["world"])
    await store.lore(ids=["e1"])
    await store.save_summaries([summed("s1")])
    await store.summaries("general")
    await store.summaries(ids=["s1"])
    context = build([memory("Ada drinks tea", counter=COUNTER, id="k1")])
    await store.save_context(Snapshot(id="c1", room="general", context=context))
    await store.snapshot("c1")
    await listed(store)
    await store.inclusions(item="k1")
    await store.inclusions(snapshot="c1")
    await store.save_response(Response(id="r1", context="c1", room="general"))
    await store.responses(room="general")
    await store.responses(context="c1")
    await logged(store)
    await observed(store)
    await store.save_counts("t", {"b2:a": 1})
    await store.counts("t", ["b2:a"])
    await occurring(store, ["room:general"], ["tea"])
    await occurring(store, ["room:general"], ["tea"], limit=0)
    documents = await store.backlog("e")
    await store.save_vectors("e", [each.doc for each in documents], np.ones((len(documents), 8), dtype=np.float32))
    await nearest(store, ["room:general"], "e", np.ones(8, dtype=np.float32), limit=3)
    await store.documents([each.doc for each in documents])
    await store.scope_version(["room:general"])
    await store.remove_memory("k1", erase=True)
    await store.remove_lore("e1")
    await store.remove_summary("s1")
    for kind, id in ((Room, "general"), (User, "ada"), (Persona, "helper"), (Lorebook, "world")):
        await store.remove(kind, id)
    await store.drop_embedder("e")


async def summed_up(store):
    await store.messages(["m1"])
    await store.messages_at("general", [1])
    scopes = ["room:general"]
    read = await store.room_contents(
        "general", memories=[], max_pinned=1, limit=1, tokenizer="t", counter="t", scopes=scopes
    )
    sums = [Sum(first=1, last=2, messages=2, tokens=9)]
    await store.save_room_counts("general", "t", read.versions["room:general"], sums)


async def filtered(store):
    await store.memories(prefix="k", user_prefix="a")
    await store.memories(user="ada", metadata={"why": 1})
    await store.memories(before=9.0, after="k1")
    await store.memory_users(prefix="a", after="aa")
    await store.memory_scopes("memory::a", limit=9)
    await store.count_memories(user="ada")
    await store.update_memory("k1", {"content": "tea"}, lambda memory: words(memory.content))
    await store.remove_memories(user="bob")


async def pruned(store):
    context = build([memory("Ada drinks tea", counter=COUNTER, id="k1")])
    await store.save_context(Snapshot(id="c2", room="general", context=context))
    await store.save_response(Response(id="r2", context="c2", room="general"))
    await store.prune(before=9e9, dry_run=True)
    await store.prune(before=9e9)


async def listed(store):
    await store.builds()
    await store.builds(before=9, limit=3)
    await store.builds(room="general", since=1.0, until=9.0)
    await store.builds(persona="p", before=9)
    await store.builds(model="m")
    await store.builds(user="u")
    await store.builds(room="general", message="m1")
    await store.builds(since=1.0, until=9.0)
    await store.builds(run="c1")
    for model in (None, "m"):
        await store.builds(by_run=True, model=model)
    await store.agent_runs(["c1"])
    await store.run_contexts("c1")
    await store.candidate_contents({"c1": [0]})


async def logged(store):
    await store.responses(message="m1")
    await store.follow("0")
    await store.statistics(since=1.0, until=90_000.0, persona="p", room="general", by="day")
    await store.statistics()
    await store.statistics(since=1.0, until=90_000.0, by="user")


async def observed(store):
    await store.save_usage(UsageReport(id="o1", model="m", route="r", room="general"))
    await store.usage_reports("m", "r", before=9.0)
    await store.usage_reports("m", "r", unusual=True)
    await store.usage_reports(ids=["o1"])
    await store.accuracy(since=1.0)
    await store.accuracy(since=1.0, model="m")


@pytest.fixture
def plans(tmp_path, run):
    """Return the plan of every statement, line by line."""
    driver = Recording(parse_url(f"sqlite:///{tmp_path}/store.db"))
    run(driver.open(migrate=True))
    run(everything(Store(driver, "acme", Keyring(None))))
    run(pruned(Store(driver, "acme", Keyring(None))))
    run(driver.close())
    connection = sqlite3.connect(f"{tmp_path}/store.db")
    found = {}
    for sql in driver.said:
        spoken = driver.dialect.statement(sql)
        values = dict.fromkeys(re.findall(r":(\w+)", spoken), "[]")
        found[sql] = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {spoken}", values)]
    connection.close()
    return found


def test_every_statement_finds_its_rows_by_a_key(plans):
    assert len(plans) > 80
    wrong = []
    for sql, plan in plans.items():
        text = " ".join(sql.split())
        if not any(whole in text for whole in WHOLE):
            wrong += [(line, text) for line in plan if broad(line)]
    assert not wrong, "\n".join(map(str, wrong))


def broad(line):
    """Say whether a line of a plan reads all rows of a table, or all of a tenant."""
    what, table = line.split()[:2]
    reads_all = what == "SCAN" or line.endswith("(tenant=?)")
    return reads_all and table not in SMALL and "CONSTANT ROW" not in line and "VIRTUAL TABLE" not in line


@pytest.mark.parametrize(
    ("begin", "wanted"),
    [
        (
            "SELECT r.id, m.id, m.seq, m.at, m.edited, m.detail, m.hash FROM",
            "m USING PRIMARY KEY (tenant=? AND room=? AND seq<?)",
        ),
        (
            "SELECT r.id, m.id, m.seq, m.at, m.edited, m.detail, m.hash FROM",
            "m USING PRIMARY KEY (tenant=? AND room=? AND seq=?)",
        ),
        ("SELECT hash, body, NULL", "token_counts USING PRIMARY KEY (tenant=? AND tokenizer=? AND hash=?)"),
        (
            "SELECT r.id, m.id, m.seq, m.at, m.edited, m.detail, m.hash, c.body FROM",
            "m USING INDEX messages_by_id (tenant=? AND id=?)",
        ),
        ("SELECT json_group_array(doc), json_group_array(seq)", "documents USING INTEGER PRIMARY KEY (rowid=?)"),
        ("SELECT m.id, m.type", "m USING INDEX memories_by_scope (tenant=? AND scope=?)"),
        ("SELECT number, id, model, route", "usage_reports USING INDEX usage_reports_by_model (tenant=? AND model=?"),
        (
            "SELECT 0, body FROM tallies",
            "tallies USING PRIMARY KEY (tenant=? AND scope=? AND owner=? AND size=? AND hour=? AND persona=?",
        ),
        (
            "SELECT hour, persona",
            "tallies USING PRIMARY KEY (tenant=? AND scope=? AND owner=? AND size=? AND hour>? AND hour<?)",
        ),
        ("SELECT hour, persona", "tallies USING INDEX tallies_by_hour (tenant=? AND scope=? AND size=? AND hour>? AND"),
        ("SELECT at, persona", "log USING INDEX log_by_time (tenant=? AND at>? AND at<?)"),
        ("SELECT position, kind, item FROM log", "log USING PRIMARY KEY (tenant=? AND position>?)"),
        ("SELECT l.position", "l USING PRIMARY KEY (tenant=? AND position<?)"),
        ("SELECT l.position", "l USING INDEX log_by_room (tenant=? AND room=?)"),
        ("SELECT l.position", "l USING INDEX log_by_persona (tenant=? AND persona=? AND position<?)"),
        ("SELECT l.position", "l USING INDEX log_by_model (tenant=? AND model=?)"),
        ("SELECT l.position", "s USING INDEX snapshots_by_message (tenant=? AND message=?)"),
        ("SELECT l.position", "l USING INDEX log_by_time (tenant=? AND at>? AND at<?)"),
        ("SELECT position, kind, item FROM log", "log USING INDEX log_by_time (tenant=? AND at<?)"),
        ("SELECT number, id, model, route", "usage_reports USING INDEX usage_reports_unusual (tenant=? AND model=?"),
    ],
)
def test_the_hot_statements_use_the_right_key(plans, begin, wanted):
    found = [line for sql, plan in plans.items() if " ".join(sql.split()).startswith(begin) for line in plan]
    assert any(wanted in line for line in found), found


def test_messages_read_before_are_not_read_again(tmp_path, run):
    driver = Recording(parse_url(f"sqlite:///{tmp_path}/store.db"))
    run(driver.open(migrate=True))
    store = Store(driver, "acme", Keyring(None))
    run(store.post([make_message("m1", "one"), make_message("m2", "two")]))
    first = run(store.history("general"))
    driver.said.clear()
    assert run(store.history("general")) == first
    assert [each.message.content for each in run(store.messages_at("general", [1, 2]))] == ["one", "two"]
    assert not [sql for sql in driver.said if "contents" in sql]
    run(store.post([make_message("m3", "three")]))
    assert [each.message.content for each in run(store.history("general"))] == ["three", "two", "one"]
    run(driver.close())
