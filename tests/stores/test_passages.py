"""Passages: a long text has several documents, which come and go together."""

import numpy as np
import pytest

from brimful.records import Memory, Message
from brimful.records.search import IndexEntry
from brimful.stores import connect
from stores.encrypted import kek
from stores.samples import known, make_message, nearest, occurring, words
from stores.test_migrations import change

LONG = ("first tea", "second coffee", "third cocoa")
TEXT = " ".join(LONG)


def divided(*passages):
    """Return the index entry of a text with these passages."""
    starts = np.cumsum([0, *(len(each) + 1 for each in passages)])
    first, *further = [
        IndexEntry(terms=tuple(each.split()), passage=each, start=int(start), stop=int(start) + len(each))
        for each, start in zip(passages, starts[:-1], strict=True)
    ]
    return IndexEntry(
        terms=first.terms, passage=first.passage, start=first.start, stop=first.stop, further=tuple(further)
    )


def divide(record, _start=0):
    return divided(*LONG) if record.content == TEXT else words(record.content)


def long_message(id="m1", **more):
    return (Message(id=id, room="general", content=TEXT, **more), divided(*LONG))


async def found(store, scopes, *terms):
    postings = await occurring(store, scopes, terms)
    return [
        (each.item, each.part, TEXT[each.start : each.stop]) for each in await store.documents(postings.doc.tolist())
    ]


async def embed_all(store, embedder="e"):
    await store.use_embedder(embedder)
    waiting = await store.backlog(embedder)
    vectors = np.eye(8, dtype=np.float32)[[(each.part, 7)[not each.stop] for each in waiting]]
    await store.save_vectors(embedder, [each.doc for each in waiting], vectors)


def test_each_passage_is_found_by_its_own_words_and_its_own_vector(url, run):
    async def story():
        async with connect(url) as database:
            store = database.tenant("acme")
            await store.post([make_message("m0"), long_message()])
            await embed_all(store)
            near = await nearest(store, ["room:general"], "e", np.eye(8, dtype=np.float32)[2], 1)
            postings = await occurring(store, ["room:general"], ["coffee"])
            assert (postings.documents, postings.words, postings.length.tolist()) == (4, 8, [2])
            return [
                await found(store, ["room:general"], "coffee"),
                [(each.seq, (await store.documents([each.doc]))[0].part) for each in near],
                await database.check(),
            ]

    assert run(story()) == [[("m1", 1, "second coffee")], [(2, 2)], []]


def test_the_passages_of_a_memory_have_a_common_position(url, run):
    async def story():
        async with connect(url) as database:
            store = database.tenant("acme")
            await store.save_memories([known("k1"), (Memory(id="k2", content=TEXT), divided(*LONG))])
            postings = await occurring(store, ["memory:::"], ["tea", "coffee", "cocoa"])
            return postings.doc.tolist(), postings.seq.tolist()

    docs, seqs = run(story())
    short, first = docs[:2]
    assert dict(zip(docs, seqs, strict=True)) == {short: 0, first: first, docs[2]: first, docs[3]: first}


def test_all_passages_of_a_record_are_replaced_and_removed_together(url, run):
    async def story():
        async with connect(url) as database:
            store = database.tenant("acme")
            await embed_all(store)
            await store.post([long_message("m1"), long_message("m2"), long_message("m3")])
            await embed_all(store)
            await store.edit("m1", "short again", words("short again"), at=2.0)
            await store.edit("m2", "new", divided("new tea", "new milk"), at=2.0)
            await store.delete("m3")
            postings = await occurring(store, ["room:general"], ["cocoa", "tea", "milk", "again"])
            documents = await store.documents(postings.doc.tolist())
            return [(each.item, each.part) for each in documents], postings.documents, await database.check()

    assert run(story()) == ([("m2", 0), ("m2", 1), ("m1", 0)], 3, [])


def test_a_missing_passage_is_reported(url, run):
    async def story():
        async with connect(url) as database:
            await database.tenant("acme").post([long_message()])
        change(url, "DELETE FROM documents WHERE part = 1")
        async with connect(url) as database:
            return [finding.text for finding in await database.check()]

    assert "1 records with missing passages in the index" in " ".join(run(story()))


def test_passages_are_copied_to_any_database(url, tmp_path, run):
    async def story():
        async with connect(f"sqlite:///{tmp_path}/source.db") as database:
            store = database.tenant("acme")
            await store.post([long_message()])
            await embed_all(store)
            await database.backup(tmp_path / "copy.db")
        async with connect(url) as database:
            await database.restore(tmp_path / "copy.db")
            await database.backup(tmp_path / "back.db")
        async with connect(f"sqlite:///{tmp_path}/back.db") as database:
            store = database.tenant("acme")
            near = await nearest(store, ["room:general"], "e", np.eye(8, dtype=np.float32)[2], 1)
            assert [each.part for each in await store.documents([each.doc for each in near])] == [2]
            return await found(store, ["room:general"], "coffee"), await database.check()

    assert run(story()) == ([("m1", 1, "second coffee")], [])


@pytest.mark.parametrize(("search", "passages"), [("vectors", 3), ("terms", 3), ("none", 1)])
def test_encrypted_passages_are_found_as_far_as_the_store_may_be_searched(sqlite_url, run, search, passages):
    async def story():
        async with connect(sqlite_url, keys=kek(search=search)) as database:
            store = database.tenant("acme")
            await store.post([long_message()])
            postings = await occurring(store, ["room:general"], ["coffee"])
            return await found(store, ["room:general"], "coffee"), postings.documents, await database.check()

    hits = [] if search == "none" else [("m1", 1, "second coffee")]
    assert run(story()) == (hits, passages, [])
