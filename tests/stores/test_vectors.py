"""Vectors: the backlog, nearest neighbors, and removal."""

import asyncio

import numpy as np
import psycopg
import pytest
from psycopg import sql

from brimful.errors import InvalidValue
from brimful.records import Message, Room
from brimful.records.search import IndexEntry
from brimful.stores import connect
from brimful.stores.tuning import Tuning
from stores.samples import known, make_message, nearest, words

DIMS = 16
FEW = 60


def vectors(count, seed=0, dims=DIMS):
    return np.random.default_rng(seed).normal(size=(count, dims)).astype(np.float32)


def embed(run, store, seed=0, embedder="e"):
    """Give a vector to all that wait, and return them by item."""
    waiting = run(store.backlog(embedder, limit=10_000))
    made = vectors(len(waiting), seed)
    run(store.save_vectors(embedder, [document.doc for document in waiting], made))
    return {document.item: vector for document, vector in zip(waiting, made, strict=True)}


def cosine(one, other):
    return float(one @ other / np.linalg.norm(one) / np.linalg.norm(other))


def expected(kept, query, limit):
    return sorted(((cosine(vector, query), item) for item, vector in kept.items()), reverse=True)[:limit]


def near(run, store, query, scopes=("room:general",), limit=5, embedder="e"):
    found = run(nearest(store, list(scopes), embedder, query, limit=limit))
    items = {each.doc: each.item for each in run(store.documents([each.doc for each in found]))}
    return [(each.similarity, items[each.doc]) for each in found]


def agrees(found, wanted):
    assert [item for _, item in found] == [item for _, item in wanted]
    assert [value for value, _ in found] == pytest.approx([value for value, _ in wanted], abs=2e-3)


def posted(run, store, count, first=0, room="general"):
    run(
        store.post([make_message(f"{room}-{n}", f"text {n} of {room}", room=room) for n in range(first, first + count)])
    )


def test_documents_wait_for_the_embedders_in_use(store, run):
    posted(run, store, 2)
    run(store.use_embedder("e"))
    posted(run, store, 1, first=2)
    waiting = run(store.backlog("e"))
    assert [(each.item, each.kind, each.scope, each.seq) for each in waiting] == [
        (f"general-{n}", "message", "room:general", n + 1) for n in range(3)
    ]
    assert [each.item for each in run(store.backlog("e", limit=2))] == ["general-0", "general-1"]
    assert run(store.backlog("other")) == []
    progress = run(store.index_progress("e"))
    assert (progress.done, progress.waiting) == (0, 3)
    embed(run, store)
    progress = run(store.index_progress("e"))
    assert (progress.done, progress.waiting) == (3, 0)
    assert run(store.index_progress("other")).done == 0


def test_embedders_are_listed_newest_first(store, run):
    for embedder in ("a", "b", "a"):
        run(store.use_embedder(embedder))
    assert run(store.embedders()) == ["a", "b"]
    run(store.use_embedder("a"))
    run(store.drop_embedder("b"))
    assert run(store.embedders()) == ["a"]


def test_the_nearest_are_those_of_the_largest_cosine(store, run):
    run(store.use_embedder("e"))
    posted(run, store, FEW)
    posted(run, store, 5, room="other")
    run(store.save_memories([known("k1")]))
    kept = embed(run, store)
    query = vectors(1, seed=9)[0]
    mine = {item: vector for item, vector in kept.items() if item.startswith("general")}
    agrees(near(run, store, query), expected(mine, query, 5))
    agrees(near(run, store, query[None, :], ["room:general", "room:other", "memory:::"], 70), expected(kept, query, 70))
    assert near(run, store, query, ["room:nowhere"]) == near(run, store, query, limit=0) == []
    assert near(run, store, query, embedder="other") == near(run, store, np.zeros(DIMS, dtype=np.float32)) == []


def test_added_and_removed_vectors_are_noticed(store, run):
    run(store.use_embedder("e"))
    posted(run, store, 10)
    kept = embed(run, store)
    query = vectors(1, seed=9)[0]
    agrees(near(run, store, query), expected(kept, query, 5))
    posted(run, store, 10, first=10)
    kept |= embed(run, store, seed=1)
    agrees(near(run, store, query), expected(kept, query, 5))
    best = expected(kept, query, 1)[0][1]
    run(store.delete(best))
    del kept[best]
    agrees(near(run, store, query), expected(kept, query, 5))
    best = expected(kept, query, 1)[0][1]
    run(store.edit(best, "something else", words("something else"), at=1.0))
    del kept[best]
    agrees(near(run, store, query), expected(kept, query, 5))
    kept |= embed(run, store, seed=2)
    agrees(near(run, store, query, limit=30), expected(kept, query, 30))
    run(store.remove(Room, "general"))
    assert near(run, store, query) == []


def test_equal_passages_share_a_vector_and_wait_no_longer(store, run):
    run(store.use_embedder("e"))
    run(store.post([make_message("a", "same"), make_message("b", "same"), make_message("c", "other")]))
    waiting = run(store.backlog("e"))
    assert run(store.save_vectors("e", [waiting[0].doc], vectors(1))) == 2
    assert [each.item for each in run(store.backlog("e"))] == ["c"]
    run(store.post([make_message("d", "same", room="general")]))
    assert [each.item for each in run(store.backlog("e"))] == ["c"]
    assert {item for _, item in near(run, store, vectors(1)[0])} == {"a", "b", "d"}
    run(store.delete("a"))
    assert {item for _, item in near(run, store, vectors(1)[0])} == {"b", "d"}


def test_a_vector_that_arrives_changes_the_version(store, run):
    run(store.use_embedder("e"))
    posted(run, store, 1)
    before = run(store.scope_version(["room:general"]))
    embed(run, store)
    assert run(store.scope_version(["room:general"])) != before


def test_a_dropped_embedder_leaves_nothing_and_may_come_back(store, run):
    run(store.use_embedder("e"))
    posted(run, store, 10)
    embed(run, store)
    query = vectors(1, seed=9)[0]
    assert len(near(run, store, query)) == 5
    run(store.drop_embedder("e"))
    assert near(run, store, query) == []
    assert run(store.index_progress("e")).done == run(store.index_progress("e")).waiting == 0
    run(store.use_embedder("e"))
    assert len(run(store.backlog("e"))) == 10
    kept = embed(run, store, seed=3)
    agrees(near(run, store, query), expected(kept, query, 5))


def test_vectors_of_another_length_are_refused(store, run):
    run(store.use_embedder("e"))
    posted(run, store, 2)
    docs = [each.doc for each in run(store.backlog("e"))]
    run(store.save_vectors("e", docs[:1], vectors(1)))
    with pytest.raises(InvalidValue, match="vectors: have 8 dimensions, and those by 'e' have 16"):
        run(store.save_vectors("e", docs[1:], vectors(1, dims=8)))
    with pytest.raises(InvalidValue, match="vectors: have 8 dimensions"):
        run(nearest(store, ["room:general"], "e", vectors(1, dims=8), limit=1))


def test_unrequested_vectors_are_not_stored(store, run):
    posted(run, store, 1)
    run(store.use_embedder("e"))
    doc = run(store.backlog("e"))[0].doc
    assert run(store.save_vectors("other", [doc], vectors(1))) == 0
    assert run(store.save_vectors("e", [doc + 1000], vectors(1))) == 0
    assert run(store.save_vectors("e", [], vectors(0))) == 0
    assert run(store.index_progress("e")).done == 0
    assert run(store.embedders()) == ["e"]


def test_a_document_without_a_passage_waits_for_nothing(store, run):
    run(store.use_embedder("e"))
    run(store.post([(Message(id="a", room="general", content=""), IndexEntry())]))
    assert run(store.backlog("e")) == []
    assert run(store.index_progress("e")).done == 0


def test_a_vector_of_nothing_or_of_no_numbers_is_near_to_nothing(store, run):
    run(store.use_embedder("e"))
    posted(run, store, 3)
    docs = [each.doc for each in run(store.backlog("e"))]
    rows = np.zeros((3, DIMS), dtype=np.float32)
    rows[1] = np.nan
    rows[2] = 1e30
    run(store.save_vectors("e", docs, rows))
    found = near(run, store, np.ones(DIMS, dtype=np.float32))
    assert found[0] == (pytest.approx(1.0, abs=1e-3), "general-2")
    assert [value for value, _ in found[1:]] == [0.0, 0.0]


GRAPHS = """
SELECT indexdef, coalesce(idx_scan, 0) FROM pg_indexes
JOIN pg_stat_user_indexes s ON s.indexrelname = indexname WHERE indexname LIKE 'vectors_near_%'
"""
INVALIDATE = """
UPDATE pg_index SET indisvalid = false FROM pg_class c WHERE c.oid = indexrelid AND relname LIKE 'vectors_near_%'
"""
VALID = "SELECT indisvalid FROM pg_index JOIN pg_class c ON c.oid = indexrelid WHERE relname LIKE 'vectors_near_%'"


@pytest.fixture
def with_graphs(postgres_url, run):
    """Return a database in which tenants with more than 100 vectors have a graph."""

    async def opened():
        return await connect(postgres_url, tuning=Tuning(hnsw_threshold=100)).open()

    database = run(opened())
    yield database
    run(database.close())


def graphs(url):
    with psycopg.connect(url) as connection:
        return connection.execute(GRAPHS).fetchall()


def test_a_large_tenant_has_a_graph_that_finds_what_exact_search_finds(postgres_url, with_graphs, run):
    database = with_graphs
    for name in ("beta", "corp"):
        run(database.tenant(name).use_embedder("e"))
        posted(run, database.tenant(name), 60)
        embed(run, database.tenant(name), seed=3)
    store = database.tenant("acme")
    run(store.use_embedder("e"))
    posted(run, store, 400)
    posted(run, store, 30, room="other")
    kept = embed(run, store)
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("ANALYZE")
    run(database.optimize())
    run(database.optimize())
    query = vectors(1, seed=9)[0]
    mine = {item: vector for item, vector in kept.items() if item.startswith("general")}
    agrees(near(run, store, query, limit=10), expected(mine, query, 10))
    agrees(near(run, store, query, ["room:general", "room:other"], 10), expected(kept, query, 10))
    ((definition, _),) = graphs(postgres_url)
    assert "hnsw" in definition
    assert "'acme'" in definition


@pytest.mark.usefixtures("one_server")
def test_the_graph_of_a_tenant_is_used(postgres_url, directly, run):
    postgres_url = directly(postgres_url)  # a pooler keeps sessions with older settings

    async def searched():
        async with connect(postgres_url, tuning=Tuning(hnsw_threshold=100)) as database:
            await database.update_graph("acme", "e")
            await nearest(database.tenant("acme"), ["room:general"], "e", vectors(1)[0], limit=5)

    with psycopg.connect(postgres_url, autocommit=True) as connection:
        name = sql.Identifier(connection.info.dbname)
        connection.execute(sql.SQL("ALTER DATABASE {} SET enable_sort = off").format(name))  # of few rows, it is faster

    async def filled():
        async with connect(postgres_url) as database:
            store = database.tenant("acme")
            await store.use_embedder("e")
            await store.post([make_message(f"m{at}", f"text {at}") for at in range(200)])
            documents = await store.backlog("e", limit=999)
            await store.save_vectors("e", [each.doc for each in documents], vectors(len(documents)))

    run(filled())
    run(searched())  # the server counts scans when a connection ends
    assert [scans for _, scans in graphs(postgres_url)] == [1]


def test_a_graph_that_was_not_finished_is_built_again(postgres_url, with_graphs, run):
    store = with_graphs.tenant("acme")
    run(store.use_embedder("e"))
    posted(run, store, 120)
    embed(run, store)
    assert run(with_graphs.update_graph("acme", "e")) > 1
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(INVALIDATE)
        assert connection.execute(VALID).fetchall() == [(False,)]
        assert run(with_graphs.update_graph("acme", "e")) > 1
        assert connection.execute(VALID).fetchall() == [(True,)]


def test_a_graph_is_dropped_when_few_vectors_are_left(postgres_url, with_graphs, run):
    store = with_graphs.tenant("acme")
    run(store.use_embedder("e"))
    posted(run, store, 120)
    embed(run, store)
    run(with_graphs.update_graph("acme", "e"))
    assert len(graphs(postgres_url)) == 1
    run(store.drop_embedder("e"))
    assert run(with_graphs.update_graph("acme", "e")) == 0
    assert graphs(postgres_url) == []


def test_saving_vectors_and_removing_documents_do_not_wait_for_each_other(postgres_url, directly, run):
    if not directly(postgres_url).rpartition("host=")[2].startswith("/"):
        pytest.skip("only a server of its own shows who waits for a lock")

    async def story():
        async with connect(directly(postgres_url)) as database:
            store = database.tenant("acme")
            await store.use_embedder("e")
            await store.post([make_message("m1", "tea for two")])
            (document,) = await store.backlog("e")
            with psycopg.connect(directly(postgres_url)) as other:  # first the scope, then the queue
                other.execute("SET lock_timeout = '500ms'")  # before a deadlock is detected
                other.execute("UPDATE scopes SET changes = changes + 1")
                saving = asyncio.create_task(store.save_vectors("e", [document.doc], vectors(1)))
                while not other.execute("SELECT 1 FROM pg_locks WHERE NOT granted").fetchone():  # noqa: ASYNC110 - only the server knows
                    await asyncio.sleep(0)
                other.execute("DELETE FROM embedding_queue")
                other.rollback()
            return await saving

    assert run(story()) == 1
