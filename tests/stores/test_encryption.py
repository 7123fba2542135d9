"""Encryption at rest: values are restored, nothing is readable on disk, and a missing key is reported."""

import asyncio
import subprocess
import sys

import msgspec
import numpy as np
import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from brimful.core.content import content_hash
from brimful.errors import EncryptionError
from brimful.packagers import message
from brimful.records import Lorebook, LoreEntry, Memory, Message, Persona, Response, Room, Snapshot, Summary, User
from brimful.records.search import IndexEntry
from brimful.stores import connect
from brimful.stores.vectors.float16 import normalize
from stores.encrypted import TWO, files, kek, sql
from stores.samples import PARTS, make_message, nearest, occurring, words
from strategies import COUNTER
from support import build

TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=8, max_size=60)


@pytest.fixture
def sealed(url, run):
    database = run(connect(url, keys=kek()).open())
    yield database
    run(database.close())


@pytest.fixture
def store(sealed):
    return sealed.tenant("acme")


async def with_database(url, keys, function):
    async with connect(url, keys=keys) as database:
        return await function(database, database.tenant("acme"))


async def opened(url, keys, function):
    return await with_database(url, keys, lambda _, store: function(store))


def everything(text):
    """Return a record of each kind that holds a text wherever people write."""
    more = {"metadata": {"note": text}}
    return {
        "plain": [
            User(id="u", name=text, **more),
            Persona(id="p", name=text, prompt=text, **more),
            Room(id="r", name=text, goal=text, headers=(text,), **more),
            Lorebook(id="b", name=text, settings={"note": text}),
        ],
        "message": Message(id="m", room="r", content=text, sender=text, **more),
        "memory": Memory(id="k", content=text, source=text, **more),
        "lore": LoreEntry(
            id="l", lorebook="b", content=text, name=text, keys=(text,), secondary=(text,), settings={"note": text}
        ),
        "summary": Summary(id="s", room="r", content=text, cluster=text, **more),
        "response": Response(id="a", context="c", room="r", finish=text, **more),
    }


async def written(store, text):
    found = everything(text)
    terms = IndexEntry(terms=(text, *text.split()), passage=text)
    for record in found["plain"]:
        await store.put(record)
    await store.use_embedder("e")
    await store.post([(found["message"], terms)])
    await store.save_memories([(found["memory"], terms)])
    await store.save_lore([(found["lore"], terms)])
    await store.save_summaries([(found["summary"], terms)])
    await store.save_context(
        Snapshot(id="c", room="r", context=build([message(text, counter=COUNTER, id="m", current=True)]))
    )
    await store.save_response(found["response"])
    backlog = [each.doc for each in await store.backlog("e")][:1]
    await store.save_vectors("e", backlog, np.ones((len(backlog), 8), np.float32))


async def read(store):
    plain = [await store.get(kind, id) for kind, id in ((User, "u"), (Persona, "p"), (Room, "r"), (Lorebook, "b"))]
    return {
        "plain": plain,
        "message": msgspec.structs.replace((await store.messages(["m"]))[0], seq=0),
        "memory": msgspec.structs.replace((await store.memories())[0], accesses=0, accessed=None),
        "lore": (await store.lore())[0],
        "summary": (await store.summaries())[0],
        "response": (await store.responses())[0],
    }


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(TEXTS)
def test_records_are_read_back_and_never_plain_on_the_disk(tmp_path_factory, text):
    url = f"sqlite:///{tmp_path_factory.mktemp('sealed')}/store.db"

    async def story():
        async with connect(url, keys=kek()) as database:
            store = database.tenant("acme")
            await written(store, text)
            assert await read(store) == everything(text)
            return files(url)

    for held in (asyncio.run(story()), files(url)):
        escaped = msgspec.json.encode(text)[1:-1]
        for spelling in (text.encode(), escaped, text.encode("utf-16-le"), *map(str.encode, long_words(text))):
            assert spelling not in held


def test_no_table_of_postgresql_tells_it_either(postgres_url, run):
    text = "The vault is behind the painting, beside the lighthouse."
    run(opened(postgres_url, kek(), lambda store: written(store, text)))
    assert run(opened(postgres_url, kek(), read)) == everything(text)
    with psycopg.connect(postgres_url) as connection:
        tables = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
        rows = [row for table in tables for row in connection.execute(b"TABLE " + table[0].encode())]
    result = b"".join(cell if isinstance(cell, bytes) else str(cell).encode() for row in rows for cell in row)
    assert len(rows) > 20
    assert [word for word in ("vault", "behind", "painting", "beside", "lighthouse") if word.encode() in result] == []


def long_words(text):
    return [word for word in text.split() if len(word.encode()) >= 8]


def test_one_content_is_kept_once_and_its_address_tells_nothing(store, run, url):
    run(store.post([make_message("a", "Tea at five?"), make_message("b", "Tea at five?")]))
    rows = sql(url, "SELECT hash, uses FROM contents")
    assert [uses for _, uses in rows] == [2]
    assert rows[0][0].startswith("k1:")
    assert content_hash("Tea at five?")[3:] not in rows[0][0]


def test_two_tenants_share_no_address_and_no_term(sealed, run, url):
    for tenant in ("acme", "other"):
        run(sealed.tenant(tenant).post([make_message("a", "Tea at five?")]))
    assert len({hash for (hash,) in sql(url, "SELECT hash FROM contents")}) == 2
    terms = [set(msgspec.json.decode(terms)) for (terms,) in sql(url, "SELECT terms FROM documents")]
    assert len(terms) == 2
    assert not terms[0] & terms[1]


def test_terms_are_found_and_stand_in_no_order(store, run, url):
    run(store.post([make_message("a", "tea at five and tea at six"), make_message("b", "coffee")]))
    found = run(occurring(store, ["room:general"], ["tea", "coffee", "gin"]))
    assert found.document_frequency == (1, 1, 0)
    assert sorted(zip(found.doc, found.term, found.frequency, strict=True)) == [(1, 0, 2), (2, 1, 1)]
    (kept,) = sql(url, "SELECT terms FROM documents WHERE item = 'a'")
    assert msgspec.json.decode(kept[0]) == sorted(msgspec.json.decode(kept[0]))


def test_vectors_are_encrypted_and_found(store, run, url):
    run(store.use_embedder("e"))
    run(store.post([make_message("a", "one"), make_message("b", "two")]))
    rows = normalize(np.random.default_rng(1).normal(size=(2, 16)).astype(np.float32))
    run(store.save_vectors("e", [1, 2], rows))
    assert [near.doc for near in run(nearest(store, ["room:general"], "e", rows[1], limit=1))] == [2]
    assert rows[1].astype("<f2").tobytes() not in files(url)


def test_a_store_may_keep_nothing_to_search(url, run):
    async def story(store):
        await store.use_embedder("e")
        await store.post([make_message("a", "tea at five")])
        return (await occurring(store, ["room:general"], ["tea"])).document_frequency, await store.backlog("e")

    assert run(opened(url, kek(search="none"), story)) == ((0,), [])


def test_a_store_that_keeps_nothing_to_search_forgets_what_it_kept(url, run):
    async def fill(_, store):
        await store.use_embedder("e")
        await store.post([make_message("a", "tea at five"), make_message("b", "coffee")])
        await store.save_vectors("e", [1], np.ones((1, 8), np.float32))

    async def seal(database, store):
        await database.encryption("acme").encrypt()
        found = await occurring(store, ["room:general"], ["tea"])
        near = await nearest(store, ["room:general"], "e", np.ones((1, 8), np.float32), limit=5)
        return found.document_frequency, near, await store.backlog("e"), (await store.messages(["a"]))[0].content

    run(with_database(url, kek(), fill))
    assert run(with_database(url, kek(search="none"), seal)) == ((0,), [], [], "tea at five")
    assert sql(url, "SELECT terms, passage FROM documents") == [("[]", ""), ("[]", "")]
    assert sql(url, "SELECT count(*) FROM vectors") == [(0,)]


@pytest.mark.parametrize("content", ["", "x" * 100_000, PARTS])
def test_contents_of_any_size_and_form(store, run, content):
    run(store.post([(Message(id="m", room="r", content=content), words(""))]))
    assert run(store.messages(["m"]))[0].content == content


# -- who has no key, or another one ----------------------------------------------------------------------------------


def test_without_a_key_nothing_is_read_or_written(store, url, run):
    run(store.post([make_message("a", "secret words")]))
    before = sql(url, "SELECT count(*) FROM contents")
    for function in (lambda store: store.messages(["a"]), lambda store: store.post([make_message("b")])):
        with pytest.raises(
            EncryptionError, match="tenant 'acme': is encrypted, but no key was given; set BRIMFUL_KEY"
        ) as no:
            run(opened(url, None, function))
        assert no.value.cause == "no-key"
    assert sql(url, "SELECT count(*) FROM contents") == before


def test_with_another_key_nothing_is_read_or_written(store, url, run):
    run(store.post([make_message("a", "secret words")]))
    for function in (lambda store: store.messages(["a"]), lambda store: store.post([make_message("b")])):
        with pytest.raises(
            EncryptionError, match=f"wrapped by key {kek().id}, which is not among the keys given .{kek(TWO).id}"
        ) as no:
            run(opened(url, kek(TWO), function))
        assert no.value.cause == "wrong-key"
    assert sql(url, "SELECT count(*) FROM messages") == [(1,)]


def test_another_tenant_in_the_clear_is_none_of_its_business(url, run):
    run(opened(url, kek(), lambda store: store.post([make_message("a")])))

    async def story():
        async with connect(url) as database:
            return await database.tenant("open").post([make_message("a", "hello")])

    assert run(story())[0].content == "hello"


def test_a_first_write_that_fails_leaves_no_key_behind(sealed, run):
    store = sealed.tenant("acme")
    with pytest.raises(AttributeError):
        run(store.post([make_message("a"), (None, words(""))]))
    run(store.post([make_message("a", "still works")]))
    assert run(store.messages(["a"]))[0].content == "still works"


# -- what was changed on the disk ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE contents SET body = (SELECT body FROM contents c WHERE c.hash <> contents.hash)",
        "UPDATE messages SET hash = (SELECT hash FROM messages m WHERE m.id <> messages.id)",
        "UPDATE messages SET detail = (SELECT detail FROM messages m WHERE m.id <> messages.id)",
        "UPDATE contents SET body = substr(body, 1, length(body) - 1)",
        "UPDATE contents SET body = substr(body, 1, 8)",
        "UPDATE messages SET detail = CAST(X'0042530100000009' || substr(detail, 9) AS BLOB)",
        "UPDATE data_keys SET wrapped = (SELECT wrapped FROM data_keys k WHERE k.number <> data_keys.number)",
        "UPDATE data_keys SET mixed = 1",
    ],
)
def test_rows_that_were_swapped_cut_or_changed_are_noticed(store, sealed, url, run, change):
    run(store.post([make_message("a", "first secret"), make_message("b", "second secret")]))
    run(sealed.close())
    sql(url, change)
    with pytest.raises(EncryptionError, match="restore a backup") as refused:
        run(opened(url, kek(), lambda store: store.messages(["a", "b"])))
    assert refused.value.cause == "damaged"
    assert refused.value.__cause__ is None


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE messages SET room = (SELECT number FROM rooms WHERE id = 'mine')",
        "UPDATE rooms SET id = CASE id WHEN 'mine' THEN 'other' ELSE 'mine' END",
        "UPDATE memories SET scope = 'memory::mine:', user_id = 'mine'",
        "UPDATE lore_entries SET lorebook = 'mine'",
        "UPDATE summaries SET room = 'mine'",
        "UPDATE responses SET room = 'mine'",
        "UPDATE snapshots SET room = 'mine'",
    ],
)
def test_a_value_of_another_row_does_not_open(store, sealed, url, run, change):
    async def fill():
        await store.put(Room(id="mine"))
        await store.put(Lorebook(id="mine"))
        await written(store, "their secret words")

    async def look(store):
        await store.history("mine")
        await store.memories(scopes=["memory::mine:"])
        await store.lore(["mine"])
        await store.summaries("mine")
        await store.responses(room="mine")
        await store.snapshot("c")

    run(fill())
    run(look(store))
    run(sealed.close())
    sql(url, change)
    with pytest.raises(EncryptionError, match="was changed after it was encrypted"):
        run(opened(url, kek(), look))


def test_a_row_of_another_tenant_does_not_open(sealed, url, run):
    for tenant in ("acme", "other"):
        run(sealed.tenant(tenant).put(Room(id="r", goal=f"the goal of {tenant}")))
    sql(url, "UPDATE rooms SET body = (SELECT body FROM rooms WHERE tenant = 'acme')")
    with pytest.raises(EncryptionError, match="rooms r was changed"):
        run(sealed.tenant("other").get(Room, "r"))


def test_a_plain_row_in_an_encrypted_store_is_refused(store, url, run):
    run(store.put(Room(id="r", goal="tea")))
    sql(url, "UPDATE rooms SET body = ?", msgspec.json.encode(Room(id="r", goal="gin")))
    with pytest.raises(EncryptionError, match="rooms r is not encrypted") as refused:
        run(store.get(Room, "r"))
    assert refused.value.cause == "clear"


def test_without_the_library_the_extra_is_named(url):
    code = f"""
import sys
sys.modules["cryptography"] = None
from brimful.errors import MissingExtra
from brimful.stores import Keys, connect
connect({url!r})
try:
    Keys(bytes(range(32)))
except MissingExtra as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "encryption at rest needs an optional dependency: pip install 'brimful[encryption]'\n"
