"""The fake embedder: deterministic, similar for shared words, and able to fail."""

import asyncio

import numpy as np
import pytest

from brimful.testing import HashEmbedder


def test_the_same_words_point_the_same_way():
    one, two = (asyncio.run(HashEmbedder(16).embed(["green tea", "", "tea"], "passage")) for _ in range(2))
    assert np.array_equal(one, two)
    assert one.shape == (3, 16)
    assert np.allclose(np.linalg.norm(one, axis=1), [1, 0, 1])


def test_a_hash_embedder_fails_on_demand_and_records_its_calls():
    fake = HashEmbedder()
    fake.fail_with = ConnectionError("down")
    with pytest.raises(ConnectionError):
        asyncio.run(fake.embed(["a"], "query"))
    fake.fail_with = None
    asyncio.run(fake.embed(["b"], "passage"))
    assert fake.calls == [(("a",), "query"), (("b",), "passage")]


def test_a_hash_embedder_hangs_on_demand():
    async def impatient():
        fake = HashEmbedder()
        fake.hang = True
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(fake.embed(["a"], "query"), 0)
        await fake.close()
        return fake.closed

    assert asyncio.run(impatient())
