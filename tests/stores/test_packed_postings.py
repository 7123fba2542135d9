"""Packed postings of PostgreSQL: the same documents after any merge and removal."""

import asyncio
import random

import numpy as np
import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from brimful.records import Message
from brimful.records.search import IndexEntry
from brimful.stores import connect
from brimful.stores.index import packing
from brimful.stores.index.terms import normalize_term, pack_terms, unpack_terms
from brimful.stores.session import IndexedDocument
from brimful.stores.tuning import Tuning
from stores.samples import occurring

SMALL = Tuning(tail_writes=3, segment_documents=40)  # many segments of few documents
TERMS = [f"w{n}" for n in range(30)]
numbers = st.integers(1, 2**40)
documents = st.lists(
    st.builds(
        IndexedDocument,
        doc=numbers,
        scope=st.just(7),
        seq=st.integers(0, 2**40),
        length=st.integers(0, 500),
        tokens=st.lists(st.sampled_from(["7:tea", "7:größe", "7:日本", "7:=a", "7:z"]), max_size=5),
    ),
    unique_by=lambda each: each.doc,
    max_size=300,
)


def listed(listings):
    merged = packing.merge(listings)
    return {term: (count, rows.tolist()) for term, count, rows in merged.split()}


@given(documents)
def test_documents_are_the_same_after_packing(found):
    listing = packing.list_documents(found)
    for rows in (packing.encode_tail(listing), packing.encode_segment(listing)):
        assert listed(packing.decode(rows)) == listed([listing])


@given(documents, st.integers(0, 300))
def test_merging_and_removing_are_opposites(found, at):
    one, other = packing.list_documents(found[:at]), packing.list_documents(found[at:])
    merged = packing.merge([one, other])
    assert listed([merged]) == listed([packing.list_documents(found)])
    assert listed([packing.without(merged, [each.doc for each in found[at:]])]) == listed([one])


def test_a_common_term_has_rows_of_its_own():
    found = [IndexedDocument(doc=n, scope=7, seq=n, length=2, tokens=["7:the", f"7:r{n}"]) for n in range(1, 601)]
    rows = packing.encode_segment(packing.list_documents(found))
    assert sorted((row.part, row.term) for row in rows if row.part >= packing.FIRST_PART) == [
        (1, "the"),
        (2, "the"),
        (3, "the"),
    ]
    assert max(len(row.body) for row in rows) < 2_000  # the server would move longer ones to another table


@given(st.lists(st.one_of(st.text(max_size=9), st.sampled_from(["tea", "team", "t", "größe", "=a", "x" * 60]))))
def test_terms_are_the_same_after_packing(terms):
    stored = sorted(map(normalize_term, terms))
    assert unpack_terms(pack_terms(stored)) == stored


def text(seed):
    """Return words of which the first are common."""
    choice = random.Random(seed)
    return [TERMS[min(choice.randrange(30), choice.randrange(30))] for _ in range(choice.randrange(1, 9))]


async def post(store, first, last, room="r"):
    for n in range(first, last):
        entry = IndexEntry(terms=tuple(text(f"{room}{n}")), passage="")
        await store.post([(Message(id=f"{room}{n}", room=room, content=f"{room}{n}"), entry)])


async def search(store, room="r", terms=TERMS, limit=4_000):
    found = await occurring(store, [f"room:{room}"], terms, limit=limit)
    rows = zip(np.asarray(found.term), np.asarray(found.seq), np.asarray(found.length), found.frequency, strict=True)
    return found.document_frequency, [tuple(map(int, row)) for row in rows]


def expected(ids, room="r"):
    texts = [(n + 1, text(f"{room}{n}")) for n in ids]
    return (
        tuple(sum(term in held for _, held in texts) for term in TERMS),
        [
            (at, seq, len(held), held.count(term))
            for at, term in enumerate(TERMS)
            for seq, held in texts
            if term in held
        ],
    )


@pytest.fixture
def small(postgres_url, run):
    database = run(connect(postgres_url, tuning=SMALL).open())
    yield database
    run(database.close())


def rows(url, sql):
    with psycopg.connect(url) as connection:
        return connection.execute(sql).fetchall()


def test_segments_are_merged_and_say_the_same(small, postgres_url, run):
    store = small.tenant("acme")
    run(post(store, 0, 130))
    assert run(search(store)) == expected(range(130))
    [(packed,)] = rows(postgres_url, "SELECT segments FROM term_scopes")
    sizes = packed[1::4]
    assert 1 < len(sizes) < 12
    assert max(sizes) <= SMALL.segment_documents
    assert run(small.check()) == []


def test_the_newest_of_a_common_term_come_from_the_last_segments(small, run):
    store = small.tenant("acme")
    run(post(store, 0, 130))
    whole, expected_rows = expected(range(130))
    assert whole[2] > whole[0] > 30
    for limit in (2, 30):
        found = run(search(store, terms=[TERMS[0], TERMS[2]], limit=limit))
        assert found == ((whole[0], whole[2]), [row for row in expected_rows if row[0] == 0][::-1][:limit])


def test_the_newest_of_a_very_common_term_are_in_its_last_parts(small, run):
    store = small.tenant("acme")
    pairs = [(Message(id=f"m{n}", room="r", content=f"{n}"), IndexEntry(terms=("w0",))) for n in range(700)]
    run(store.post(pairs[:600]))
    run(store.post(pairs[600:]))
    for limit in (0, 50, 300, 650):
        found = run(search(store, terms=["w0"], limit=limit))
        assert found == ((700,), [(0, seq, 1, 1) for seq in range(700, 700 - limit, -1)])
    assert run(search(store, terms=["w0"])) == ((700,), [(0, seq, 1, 1) for seq in range(1, 701)])


def test_a_removed_message_leaves_no_term_behind(small, postgres_url, run):
    store = small.tenant("acme")
    run(post(store, 0, 60))
    run(store.post([(Message(id="x", room="r", content="x"), IndexEntry(terms=("unheard", "w0")))]))
    run(post(store, 61, 80))
    assert rows(postgres_url, "SELECT 1 FROM term_blocks WHERE position('unheard'::bytea IN body) > 0")
    run(store.delete("x", erase=True))
    for n in (3, 17, 59, 79):
        run(store.delete(f"r{n}"))
    assert not rows(
        postgres_url, "SELECT 1 FROM term_blocks WHERE position('unheard'::bytea IN body) > 0 OR term = 'unheard'"
    )
    assert run(search(store)) == expected([n for n in range(80) if n not in (3, 17, 59, 60, 79)])
    assert run(small.check()) == []


def test_an_empty_scope_has_no_rows(small, postgres_url, run):
    store = small.tenant("acme")
    run(post(store, 0, 20))
    for n in range(20):
        run(store.delete(f"r{n}"))
    assert (
        rows(postgres_url, "SELECT count(*) FROM term_blocks UNION ALL SELECT count(*) FROM term_scopes") == [(0,)] * 2
    )
    run(post(store, 20, 30))
    assert run(search(store)) == expected(range(20, 30))


def test_several_writers_lose_nothing(small, run):
    store = small.tenant("acme")

    async def write():
        await asyncio.gather(*(post(store, 0, 25, room) for room in "abca"), post(store, 0, 25, "d"))
        await asyncio.gather(
            post(store, 25, 40, "a"), post(store, 40, 55, "b"), *(store.delete(f"a{n}") for n in range(9))
        )

    run(write())
    assert run(small.check()) == []
    assert run(search(store, "c")) == expected(range(25), "c")
    held = [text(f"a{n}") for n in range(9, 40)]
    assert run(search(store, "a"))[0] == tuple(sum(term in each for each in held) for term in TERMS)
