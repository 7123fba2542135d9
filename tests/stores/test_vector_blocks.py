"""Blocks of the vector log: long logs are read from them, and they hold nothing removed or in plain text."""

import numpy as np
import pytest

from brimful.records import Room
from brimful.stores import connect
from brimful.stores.tuning import Tuning
from brimful.stores.vectors.float16 import normalize
from stores.encrypted import TWO, files, kek, sql
from stores.samples import make_message, nearest

ENTRIES = 8
DIMS = 70


SMALL = Tuning(block_entries=ENTRIES, max_float_bytes=0)
"""Eight entries are a block, and every log is long."""


@pytest.fixture
def tuning():
    return SMALL


def vectors(count, seed=0):
    return normalize(np.random.default_rng(seed).normal(size=(count, DIMS)).astype(np.float32))


async def filled(store, count, first=0):
    """Post so many messages, embed them in small batches, and return their vectors."""
    await store.use_embedder("e")
    await store.post([make_message(f"m{n}", f"text {n}") for n in range(first, first + count)])
    made = vectors(count, seed=first)
    for start in range(0, count, 5):
        waiting = await store.backlog("e", limit=5)
        await store.save_vectors("e", [each.doc for each in waiting], made[start : start + len(waiting)])
    return made


async def found(store, vector, limit=1):
    near = await nearest(store, ["room:general"], "e", vector, limit=limit)
    return [each.item for each in await store.documents([each.doc for each in near])]


def blocks(url):
    return [block for (block,) in sql(url, "SELECT block FROM vector_blocks ORDER BY block")]


def reopened(run, url, keys, story):
    async def report():
        async with connect(url, keys=keys, tuning=SMALL) as database:
            return await story(database.tenant("acme"))

    return run(report())


def test_a_long_log_is_kept_in_blocks_and_read_from_them(store, run, url, keys):
    made = run(filled(store, 30))
    assert blocks(url) == [0, 1, 2]

    async def all_found(store):
        return [await found(store, vector) for vector in made]

    expected = [[f"m{n}"] for n in range(30)]
    assert run(all_found(store)) == expected
    # Whoever read these vectors now would fail.
    sql(url, "UPDATE vectors SET vector = x'00' WHERE number IN (SELECT vector FROM vector_log WHERE number <= 24)")
    assert reopened(run, url, keys, all_found) == expected


def test_a_block_goes_with_a_document_and_is_made_again_without_it(store, run, url, keys):
    made = run(filled(store, 30))
    run(store.delete("m10"))
    assert blocks(url) == [0, 2]

    async def near_to_it(store):
        return await found(store, made[10]), await found(store, made[11])

    for answer in (run(near_to_it(store)), reopened(run, url, keys, near_to_it)):
        assert answer[0] != ["m10"]
        assert answer[1] == ["m11"]
    more = run(filled(store, 10, first=30))
    assert blocks(url) == [0, 1, 2, 3, 4]

    async def later(store):
        return await found(store, made[10]), await found(store, made[11]), await found(store, more[9])

    result = reopened(run, url, keys, later)
    assert result == run(later(store))
    assert (result[0] != ["m10"], result[1:]) == (True, (["m11"], ["m39"]))


def test_a_log_in_memory_follows_removals_in_blocks(store, run, url, keys):
    """A document of the first block goes, and the word of it stands in a later block."""
    made = run(filled(store, 12))
    run(store.delete("m3"))
    run(filled(store, 20, first=12))

    async def all_but_one(store):
        return [await found(store, vector) for vector in made]

    result = reopened(run, url, keys, all_but_one)
    assert result[3] != ["m3"]
    assert [item for n, item in enumerate(result) if n != 3] == [[f"m{n}"] for n in range(12) if n != 3]


def test_nothing_of_a_removed_room_stays(store, run, url):
    run(filled(store, 30))
    run(store.remove(Room, "general"))
    assert blocks(url) == []


def test_blocks_of_an_embedder_go_with_it(store, run, url):
    run(filled(store, 30))
    run(store.drop_embedder("e"))
    assert blocks(url) == []


def test_blocks_that_are_missing_are_made_by_optimizing(database, run, url, keys):
    store = database.tenant("acme")
    made = run(filled(store, 60))
    sql(url, "DELETE FROM vector_blocks WHERE block <> 3")
    run(database.optimize())
    assert blocks(url) == list(range(7))

    async def one(store):
        return await found(store, made[20])

    assert reopened(run, url, keys, one) == ["m20"]


def test_a_short_log_has_no_blocks(run, url, keys):
    async def story():
        async with connect(url, keys=keys, tuning=Tuning(block_entries=ENTRIES)) as database:
            await filled(database.tenant("acme"), 30)

    run(story())
    assert blocks(url) == []


def test_blocks_are_encrypted_and_follow_a_rotation(run, url):
    async def story():
        async with connect(url, tuning=SMALL) as database:
            made = await filled(database.tenant("acme"), 30)
        body = sql(url, "SELECT body FROM vector_blocks WHERE block = 1")[0][0]
        async with connect(url, keys=kek(search="vectors"), tuning=SMALL) as database:
            await database.encryption("acme").encrypt()
            removed = blocks(url)
            await database.optimize()
            sealed = blocks(url)
            await database.encryption("acme").rotate_data_key()
            rotated = blocks(url)
            await database.optimize()
            answer = await found(database.tenant("acme"), made[12])
        return body[-200:], removed, sealed, rotated, answer

    levels, gone, sealed, rotated, answer = run(story())
    assert (gone, sealed, rotated, answer) == ([], [0, 1, 2], [], ["m12"])
    assert levels not in files(url)


def test_a_block_in_the_place_of_another_is_refused(run, url):
    async def story():
        async with connect(url, keys=kek(TWO, search="vectors"), tuning=SMALL) as database:
            made = await filled(database.tenant("acme"), 30)
        sql(url, "UPDATE vector_blocks SET body = (SELECT body FROM vector_blocks WHERE block = 1) WHERE block = 0")
        async with connect(url, keys=kek(TWO, search="vectors"), tuning=SMALL) as database:
            return await found(database.tenant("acme"), made[0])

    with pytest.raises(Exception, match="vector_blocks e was changed after it was encrypted"):
        run(story())


def test_a_copy_of_another_sort_of_database_makes_its_own_blocks(postgres_url, run, keys, tmp_path):
    target = f"sqlite:///{tmp_path}/copy.db"

    async def story():
        async with connect(postgres_url, keys=keys, tuning=SMALL) as database:
            made = await filled(database.tenant("acme"), 30)
            await database.backup(tmp_path / "copy.db")
        async with connect(target, keys=keys, tuning=SMALL) as database:
            return await found(database.tenant("acme"), made[20])

    assert run(story()) == ["m20"]
    assert blocks(target) == [0, 1, 2]
