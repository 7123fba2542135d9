"""Signatures find what exact search finds, or nearly so; the cache stays within its bound."""

import numpy as np
import pytest

from brimful.stores import vector_cache
from brimful.stores.halves import unit
from brimful.stores.vector_cache import Shelf, Shelves, candidates, signatures

DIMS = 256


def topical(count, seed=0, topics=300):
    """Return vectors as texts give them: some topics, and much of their own."""
    random = np.random.default_rng(seed)
    centres = np.random.default_rng(7).normal(size=(topics, DIMS))
    mixed = centres[random.integers(topics, size=count)] + 0.8 * random.normal(size=(count, DIMS))
    return unit(mixed.astype(np.float32))


def filled(rows):
    shelf = Shelf(rows.shape[1])
    for start in range(0, len(rows), 5000):
        part = rows[start : start + 5000]
        numbers = range(start + 1, start + 1 + len(part))
        shelf.add(list(numbers), list(numbers), list(numbers), part)
    return shelf


@pytest.mark.parametrize(("count", "coarse"), [(20_000, 100_000), (20_000, 10_000)])
def test_signatures_find_nearly_all_that_exact_search_finds(monkeypatch, count, coarse):
    monkeypatch.setattr(vector_cache, "COARSE", coarse)
    rows = topical(count)
    shelf = filled(rows)
    found = 0
    for query in topical(20, seed=1):
        wanted = set((np.argsort(-(rows @ query))[:20] + 1).tolist())
        near = shelf.nearest(query, 20, lambda numbers: rows[np.asarray(numbers) - 1])
        assert [each[2] for each in near] == sorted((each[2] for each in near), reverse=True)
        found += len(wanted & {doc for doc, _, _ in near})
    assert found / 400 > 0.9


def test_few_vectors_are_searched_exactly():
    rows = topical(500)
    shelf = filled(rows)
    query = topical(1, seed=1)[0]
    near = shelf.nearest(query, 10, lambda _: pytest.fail("all are at hand"))
    assert [doc for doc, _, _ in near] == (np.argsort(-(rows @ query))[:10] + 1).tolist()


def test_removed_documents_are_not_found_again():
    rows = topical(6000)
    shelf = filled(rows)
    query = rows[17]
    assert shelf.nearest(query, 1, lambda numbers: rows[np.asarray(numbers) - 1])[0][0] == 18
    shelf.remove([18])
    assert shelf.nearest(query, 1, lambda numbers: rows[np.asarray(numbers) - 1])[0][0] != 18


def test_the_shelves_hold_no_more_than_they_may():
    shelves = Shelves(most=3_000_000)
    for number in range(10):
        shelf = shelves.shelf(("t", "e", 1, number), DIMS)
        rows = topical(1000, seed=number)
        shelf.add(range(1000), range(1000), range(1000), rows)
        shelves.settle()
    held = list(shelves._held)  # noqa: SLF001 - what is held is the question
    assert held[-1] == ("t", "e", 1, 9)
    assert len(held) == 2


def test_candidates_are_as_many_as_asked_for():
    signed = signatures(topical(1000))
    words = [np.ascontiguousarray(word) for word in signed.T]
    alive = np.ones(1000, dtype=np.bool_)
    alive[::2] = False
    chosen = candidates(words, alive, signed[3], 20)
    assert len(chosen) == 20
    assert 3 in chosen
    assert all(at % 2 for at in chosen)
    assert len(candidates(words, alive, signed[3], 2000)) == 500
