"""Key rotation while a store is in use, and encryption of a plain store."""

import asyncio
import subprocess
import sys
import textwrap

import msgspec
import numpy as np
import pytest

from brimful.core.content import content_hash
from brimful.errors import EncryptionError
from brimful.packagers import message
from brimful.records import Message, Persona, Response, Room, Snapshot
from brimful.stores import connect
from brimful.stores.admin.rotate_keys import BATCH_ROWS
from stores.encrypted import ONE, TWO, files, sql
from stores.encrypted import kek as keys_of
from stores.samples import PARTS, known, make_entry, make_message, nearest, occurring, summed, words
from strategies import COUNTER
from support import build


async def filled(store):
    """Write something of each kind, and return what is then read."""
    await store.put(Persona(id="p", prompt="You are Ottoline, a cat."))
    await store.put(Room(id="general", goal="Speak of tea and nothing else."))
    await store.use_embedder("e")
    await store.post([make_message(f"m{n}", f"secret number {n % 7}", sender="Ada Lovelace") for n in range(20)])
    await store.post([(Message(id="parts", room="general", content=PARTS), words("look at parts"))])
    await store.save_memories([known("k", "Ada drinks tea, never coffee")])
    await store.save_lore([make_entry("l", "The tower is old", keys=("lighthouse",))])
    await store.save_summaries([summed("s", "They spoke of tea")])
    await store.delete("m19")
    packages = [message("secret number 0", counter=COUNTER, id="m0"), current("Only asked, and never posted")]
    await store.save_context(Snapshot(id="c", room="general", context=build(packages)))
    await store.save_context(Snapshot(id="light", room="general", context=build(packages)), share=0.0)
    await store.save_response(Response(id="a", context="c", room="general", metadata={"note": "answered kindly"}))
    await store.save_counts("t", {content_hash("secret number 3"): 3})
    backlog = [each.doc for each in await store.backlog("e", limit=4)]
    await store.save_vectors("e", backlog, np.eye(4, 16, dtype=np.float32))
    return await seen(store)


def current(text):
    return message(text, counter=COUNTER, id="now", current=True)


async def seen(store):
    """Return all that a store tells."""
    near = await nearest(store, ["room:general"], "e", np.eye(4, 16, dtype=np.float32)[2], limit=1)
    found = await occurring(store, ["room:general", "lorebook:world", "memory:::"], ["secret", "tea", "tower", "gin"])
    return {
        "plain": [await store.get(Persona, "p"), await store.get(Room, "general")],
        "history": await store.history("general", tokenizer="t"),
        "others": [await store.memories(), await store.lore(), await store.summaries()],
        "snapshot": (await store.snapshot("c")).context.to_json(),
        "builds": [(each.id, each.tokens, each.recorded) for each in await store.builds()],
        "responses": await store.responses(),
        "counts": await store.counts("t", [content_hash("secret number 3")]),
        "near": near,
        "found": (found.document_frequency, sorted(zip(found.doc, found.term, found.frequency, strict=True))),
        "waiting": [each.doc for each in await store.backlog("e", limit=1000) if each.scope != "room:elsewhere"],
    }


SECRETS = [b"secret number", b"secret", b"tower", b"lighthouse", b"Ottoline", b"nothing else", b"Ada Lovelace"]
SECRETS += [
    b"drinks tea",
    b"never posted",
    b"answered kindly",
    b"cat.png",
    content_hash("secret number 3")[3:].encode(),
]
SECRETS += [np.eye(4, 16, dtype="<f2")[2].tobytes()]


async def with_store(url, keys, function, tenant="acme"):
    async with connect(url, keys=keys) as database:
        return await function(database, database.tenant(tenant))


def kek(*keys):
    return keys_of(*keys, search="vectors")


class StopError(Exception):
    pass


def stop_after(batches):
    """Return a hook that ends a walk after so many batches."""
    left = iter(range(batches))

    def report(_):
        if next(left, None) is None:
            raise StopError

    return report


# -- the key from outside --------------------------------------------------------------------------------------------


def test_the_key_from_outside_is_rotated_without_touching_a_row(sqlite_url, run):
    async def fill(_, store):
        return await filled(store)

    async def rotate(database, store):
        return await database.encryption("acme").rotate_kek(), await seen(store)

    async def read(_, store):
        return await seen(store)

    first = run(with_store(sqlite_url, kek(ONE), fill))
    bodies = sql(sqlite_url, "SELECT body FROM contents ORDER BY hash")

    async def both():
        """Rotate while a process that has the old key as well goes on."""
        async with connect(sqlite_url, keys=kek(ONE, TWO)) as reader:
            before = await seen(reader.tenant("acme"))
            rewrapped = await with_store(sqlite_url, kek(TWO, ONE), rotate)
            await reader.tenant("acme").post([make_message("later", room="elsewhere")])
            return before, rewrapped, await seen(reader.tenant("acme"))

    assert run(both()) == (first, (2, first), first)
    assert set(bodies) <= set(sql(sqlite_url, "SELECT body FROM contents"))
    assert run(with_store(sqlite_url, kek(TWO), read)) == first
    with pytest.raises(EncryptionError, match="not among the keys given"):
        run(with_store(sqlite_url, kek(ONE), read))


def test_rotating_twice_wraps_nothing_again(url, run):
    async def rotate(database, store):
        await filled(store)
        return [await database.encryption("acme").rotate_kek() for _ in range(2)]

    assert run(with_store(url, kek(), rotate)) == [0, 0]


# -- keys of data ----------------------------------------------------------------------------------------------------


def test_all_rows_get_the_new_key_and_the_old_one_is_retired(url, run):
    async def rotate(database, store):
        first = await filled(store)
        before = await database.encryption("acme").keys()
        steps = []
        changed = await database.encryption("acme").rotate_data_key(steps.append)
        return first, before, changed, steps, await database.encryption("acme").keys(), await seen(store)

    first, before, changed, steps, after, last = run(with_store(url, kek(), rotate))
    assert last == first
    assert [(key.number, key.current, key.retired) for key in before] == [(0, False, None), (1, True, None)]
    assert [(key.number, key.current) for key in after] == [(0, False), (1, False), (2, True)]
    assert after[1].retired is not None
    assert [key.rows for key in after] == [0, 0, before[1].rows] == [0, 0, changed]
    assert steps[-1].rows == changed
    assert {step.step for step in steps} >= {"contents", "messages", "snapshots", "personas"}


def test_an_interrupted_rotation_is_finished_and_begins_no_other(url, run):
    async def rotate(database, store):
        first = await filled(store)
        encryption = database.encryption("acme")
        with pytest.raises(StopError):
            await encryption.rotate_data_key(stop_after(0))
        half = await encryption.keys()
        assert await seen(store) == first
        await encryption.rotate_data_key()
        assert await seen(store) == first
        return half, await encryption.keys()

    half, whole = run(with_store(url, kek(), rotate))
    assert all(key.rows for key in half[1:])
    assert [key.number for key in whole] == [0, 1, 2]
    assert whole[1].rows == 0


def test_a_process_that_knows_an_older_key_reads_and_writes_on(url, run):
    async def story():
        async with connect(url, keys=kek()) as one, connect(url, keys=kek()) as two:
            await one.tenant("acme").post([make_message("a", "by the first")])
            await two.tenant("acme").messages(["a"])
            await one.encryption("acme").rotate_data_key()
            read = await two.tenant("acme").messages(["a"])
            await two.tenant("acme").post([make_message("b", "by the second")])
            return read[0].content, [key.rows for key in await one.encryption("acme").keys()]

    content, rows = run(story())
    assert content == "by the first"
    assert rows[:2] == [0, 0]


def test_two_that_write_first_at_once_share_their_keys(url, run):
    async def story():
        async with connect(url, keys=kek()) as one, connect(url, keys=kek()) as two:
            stores = [one.tenant("acme"), two.tenant("acme")]
            await asyncio.gather(
                *(store.post([make_message(f"m{n}", room=f"r{n}")]) for n, store in enumerate(stores * 4))
            )
            return [await store.messages([f"m{n}" for n in range(8)]) for store in stores]

    first, second = run(story())
    assert first == second
    assert len(first) == 8


WRITER = """
import asyncio, sys
from brimful.records import Message
from brimful.records.search import IndexEntry
from brimful.stores import Keys, connect

async def write(url, name):
    async with connect(url, keys=Keys(bytes(range(1, 33)))) as database:
        store = database.tenant("acme")
        for number in range(60):
            text = f"written by {name}, number {number}"
            message = Message(id=f"{name}-{number}", room=name, content=text)
            await store.post([(message, IndexEntry(terms=("written",)))])

asyncio.run(write(*sys.argv[1:]))
"""


def test_rotations_under_writers_of_other_processes_lose_nothing(url, run):
    run(with_store(url, kek(), lambda _, store: store.post([make_message("first")])))
    command = [sys.executable, "-c", textwrap.dedent(WRITER), url]
    writers = [subprocess.Popen([*command, name]) for name in ("one", "two")]

    async def rotate(database, store):
        rotations = 0
        while rotations < 2 or any(writer.poll() is None for writer in writers):
            await asyncio.gather(*(database.encryption("acme").rotate_data_key() for _ in range(2)))
            rotations += 1
        found = [each.message.content for name in ("one", "two") for each in await store.history(name)]
        return found, await database.encryption("acme").keys()

    found, keys = run(with_store(url, kek(), rotate))
    assert [writer.wait() for writer in writers] == [0, 0]
    assert sorted(found) == sorted(f"written by {name}, number {n}" for name in ("one", "two") for n in range(60))
    assert [key.rows for key in keys[:-1]] == [0] * (len(keys) - 1)


# -- from the clear --------------------------------------------------------------------------------------------------


def test_a_plain_store_stays_readable_and_can_be_encrypted(sqlite_url, run):
    async def fill(_, store):
        return await filled(store)

    async def seal(database, store):
        mixed = await seen(store)
        await store.post([make_message("new", "said since then: tea", room="elsewhere")])
        uses = await database.encryption("acme").keys()
        changed = await database.encryption("acme").encrypt()
        assert await database.check() == []
        return mixed, uses, changed, await database.encryption("acme").keys(), await seen(store)

    first = run(with_store(sqlite_url, None, fill))
    assert all(secret in files(sqlite_url) for secret in SECRETS)
    mixed, before, changed, after, last = run(with_store(sqlite_url, kek(), seal))
    assert mixed == first
    assert last == first
    assert before[0].number is None
    assert before[0].rows > 30
    assert changed > before[0].rows
    assert [key.number for key in after] == [0, 1]
    assert [secret for secret in SECRETS if secret in files(sqlite_url)] == []
    assert sql(sqlite_url, "SELECT mixed FROM data_keys WHERE number = 0") == [(0,)]
    assert sql(sqlite_url, "SELECT hash FROM contents WHERE substr(hash, 1, 3) <> 'k1:'") == []


def test_uses_are_moved_with_their_contents(sqlite_url, run):
    run(with_store(sqlite_url, None, lambda _, store: filled(store)))
    before = sorted(sql(sqlite_url, "SELECT uses FROM contents"))

    async def seal(database, _):
        return await database.encryption("acme").encrypt()

    run(with_store(sqlite_url, kek(), seal))
    assert sorted(sql(sqlite_url, "SELECT uses FROM contents")) == before


def test_content_posted_again_during_encryption_is_stored_once(url, run):
    run(with_store(url, None, lambda _, store: filled(store)))

    async def seal(database, store):
        await store.post([make_message("again", "secret number 1")])
        docs = [each.doc for each in await store.backlog("e", limit=1000)][-1:]
        await store.save_vectors("e", docs, np.eye(1, 16, k=9, dtype=np.float32))
        await database.encryption("acme").encrypt()
        near = await nearest(store, ["room:general"], "e", np.eye(1, 16, k=9, dtype=np.float32)[0], limit=9)
        return [each.message.content for each in await store.history("general", limit=3)], near

    history, near = run(with_store(url, kek(), seal))
    assert history[0] == "secret number 1"
    assert len([each for each in near if each.similarity > 0.9]) >= 2


def test_sealing_goes_on_where_it_was_interrupted(url, run):
    first = run(with_store(url, None, lambda _, store: filled(store)))

    async def interrupted(encryption):
        try:
            await encryption.encrypt(stop_after(1))  # the counts are copied again each time
        except StopError:
            return True
        return False

    async def seal(database, store):
        interruptions = 0
        while await interrupted(database.encryption("acme")):
            assert await seen(store) == first
            interruptions += 1
        return interruptions, await seen(store), await database.encryption("acme").keys()

    interruptions, last, keys = run(with_store(url, kek(), seal))
    assert interruptions > 8
    assert last == first
    assert keys[0].number == 0


def test_content_erased_before_encryption_stays_erased(url, run):
    run(with_store(url, None, lambda _, store: filled(store)))

    async def seal(database, store):
        await store.delete("m0", erase=True)
        await store.delete("m7", erase=True)
        await store.delete("m14", erase=True)
        await database.encryption("acme").encrypt()
        return await store.snapshot("c")

    found = run(with_store(url, kek(), seal)).context
    assert [package.content for package in found.inputs.packages if package.id == "m0"] == [""]


def test_more_rows_than_a_batch(url, run):
    count = 2 * BATCH_ROWS + 3

    async def fill(_, store):
        await store.post([make_message(f"m{n:05}", f"text {n}") for n in range(count)])

    async def seal(database, store):
        await database.encryption("acme").encrypt()
        await database.encryption("acme").rotate_data_key()
        found = [each.message.content for each in await store.history("general", limit=10_000)]
        return found, await database.encryption("acme").keys()

    run(with_store(url, None, fill))
    found, keys = run(with_store(url, kek(), seal))
    assert found == [f"text {n}" for n in reversed(range(count))]
    assert [key.rows for key in keys] == [0, 0, 2 * count + 1]


def test_encrypting_without_a_key_says_how_to_make_one(url, run):
    with pytest.raises(EncryptionError, match="openssl rand -base64 32, and set BRIMFUL_KEY"):
        run(with_store(url, None, lambda database, _: database.encryption("acme").encrypt()))


def test_a_row_stored_in_plain_text_on_purpose_can_be_encrypted(sqlite_url, run):
    async def story(database, store):
        await store.put(Room(id="r", goal="tea"))
        sql(sqlite_url, "UPDATE rooms SET body = ?", msgspec.json.encode(Room(id="r", goal="coffee")))
        with pytest.raises(EncryptionError):
            await store.get(Room, "r")
        await database.encryption("acme").encrypt()
        return await store.get(Room, "r")

    assert run(with_store(sqlite_url, kek(), story)).goal == "coffee"
