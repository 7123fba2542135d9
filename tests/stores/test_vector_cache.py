"""Quantized search finds what exact search finds; small scopes are searched exactly; the cache is bounded."""

import re
from functools import cache
from pydoc_data.topics import topics

import numpy as np
import pytest

from brimful.cache import CacheBudget
from brimful.embedding.static import embed_static
from brimful.stores.tuning import Tuning
from brimful.stores.vectors.cache import GrowingArray, ScopeVectors, VectorCache
from brimful.stores.vectors.float16 import normalize
from brimful.stores.vectors.quantization import (
    SignPlanes,
    approximate_cosines,
    prepare_query,
    quantize,
    scan_signs,
    score_signs,
    sign_bits,
    word_count,
)

DIMS = 256


def topical(count, seed=0, topics=300):
    """Return vectors as texts give them: some topics, and much of their own."""
    random = np.random.default_rng(seed)
    centres = np.random.default_rng(7).normal(size=(topics, DIMS))
    mixed = centres[random.integers(topics, size=count)] + 0.8 * random.normal(size=(count, DIMS))
    return normalize(mixed.astype(np.float32))


@cache
def texts(count):
    """Return the vectors of texts: the means of one to three sentences of Python's manual, each embedded once."""
    chosen = np.random.default_rng(5)
    sentences = {each for text in topics.values() for each in re.split(r"(?<=[.!?])\s+", text) if len(each) > 20}
    vectors = embed_static(sorted(sentences))
    numbers = chosen.integers(len(vectors), size=(count, 3))
    used = np.arange(3) < chosen.integers(1, 4, size=(count, 1))
    return normalize(np.einsum("ij,ijk->ik", used.astype(np.float32), vectors[numbers]))


@cache
def real_rows(dims):
    """Return 24,000 real texts with so many dimensions: more of them are made of the same ones."""
    wider = np.linalg.qr(np.random.default_rng(1).standard_normal((max(dims, DIMS), DIMS)))[0].T[:, :dims]
    return normalize((texts(24_000) @ wider).astype(np.float32))


def filled(rows, **tuning):
    shelf = ScopeVectors(rows.shape[1], Tuning(**tuning))
    for start in range(0, len(rows), 5000):
        part = rows[start : start + 5000]
        numbers = range(start + 1, start + 1 + len(part))
        shelf.add(*[np.array(numbers)] * 3, part)
    return shelf


def reading(rows):
    return lambda numbers: rows[np.asarray(numbers) - 1]


@pytest.mark.parametrize(
    ("dims", "coded", "least"),
    [(200, 2**30, 0.99), (256, 2**30, 0.99), (1536, 2**30, 0.99), (1536, 0, 0.99), (256, 0, 0.9)],
)
def test_codes_find_what_exact_search_finds(dims, coded, least):
    """The nearest 20 of 24,000 real texts, as 200 of 240,000."""
    rows = real_rows(dims)
    shelf = filled(rows[:-40], max_float_bytes=0, max_int8_bytes=coded)
    shares = []
    for query in rows[-40:]:
        near = shelf.nearest(query, 20, reading(rows))
        assert [cosine for _, _, cosine in near] == sorted((cosine for _, _, cosine in near), reverse=True)
        exact = rows[:-40] @ query
        docs = np.array([doc for doc, _, _ in near]) - 1
        assert np.abs(exact[docs] - [cosine for _, _, cosine in near]).max() < 0.005
        shares.append((exact[docs] >= np.sort(exact)[-20] - 1e-6).mean())
    assert np.mean(shares) > least


def test_few_vectors_are_searched_exactly():
    rows = topical(500)
    shelf = filled(rows)
    query = topical(1, seed=1)[0]
    near = shelf.nearest(query, 10, lambda _: pytest.fail("all are at hand"))
    assert [doc for doc, _, _ in near] == (np.argsort(-(rows @ query))[:10] + 1).tolist()


@pytest.mark.parametrize("exact", [0, 2**20])
def test_removed_documents_are_not_found_again(exact):
    rows = topical(6000)
    shelf = filled(rows, max_float_bytes=exact)
    query = rows[17]
    assert shelf.nearest(query, 1, reading(rows))[0][0] == 18
    shelf.remove(np.array([18]))
    assert 18 not in [doc for doc, _, _ in shelf.nearest(query, 6000, reading(rows))]


def test_exact_vectors_are_encoded_once_there_are_too_many():
    rows = topical(6000)
    shelf = filled(rows, max_float_bytes=5000 * rows.itemsize * DIMS)
    assert shelf.nearest(rows[3], 1, reading(rows))[0][0] == 4
    assert shelf.nearest(rows[5900], 1, reading(rows))[0][0] == 5901
    assert shelf.nbytes < 6000 * DIMS * rows.itemsize


def test_the_shelves_hold_no_more_than_they_may():
    shelves = VectorCache(budget=CacheBudget(3_000_000))
    for number in range(10):
        key = ("t", "e", 1, number)
        shelf = shelves.scope_vectors(key, DIMS)
        rows = topical(1000, seed=number)
        shelf.add(*[np.arange(1000)] * 3, rows)
        shelves.evict([key])
    assert list(shelves) == [("t", "e", 1, 8), ("t", "e", 1, 9)]


def test_a_column_grows_and_leaves_earlier_views_as_they_were():
    column = GrowingArray(np.arange(3))
    before = column.all
    column.extend(np.arange(3, 10))
    column.extend(np.arange(10, 11))
    assert before.tolist() == [0, 1, 2]
    assert column.all.tolist() == list(range(11))


def test_agreeing_signs_weigh_by_the_magnitude_of_the_query():
    rows = topical(50)
    query = prepare_query(topical(1, seed=3)[0])
    sizes = 4 * bits(query.sizes[0]) + 2 * bits(query.sizes[1]) + bits(query.sizes[2])
    signs = sign_bits(quantize(rows)[0])
    agree = bits(signs) != bits(query.negative)
    places = np.array([7, 3, 49])
    assert score_signs(signs, places, query).tolist() == (agree * sizes).sum(axis=1)[places].tolist()


def bits(words):
    """Return words of bits, a row a vector, as numbers."""
    return np.unpackbits(words.view(np.uint8), axis=-1, bitorder="little").astype(np.int64)


def planes_of(levels):
    planes = SignPlanes(levels.shape[1])
    planes.extend(sign_bits(levels))
    return planes.all


def test_counts_of_many_bits_do_not_overflow():
    """A code that agrees with a query in every one of a thousand bits."""
    row = normalize(np.random.default_rng(2).choice([-1.0, 1.0], size=(1, 1024)).astype(np.float32))
    query = prepare_query(row[0])
    others = normalize(np.random.default_rng(3).normal(size=(999, 1024)).astype(np.float32))
    levels, scales = quantize(np.concatenate([others, row]))
    assert scan_signs(planes_of(levels), np.ones(1000, np.uint8), query, 0.001).tolist() == [999]
    everywhere = np.arange(1000)
    assert int(np.argmax(score_signs(sign_bits(levels), everywhere, query))) == 999
    assert approximate_cosines(levels, scales, everywhere, query)[999] == pytest.approx(1.0, abs=0.005)


def test_codes_are_the_same_wherever_they_are_made():
    rows = normalize(np.arange(1, 2 * 70 + 1, dtype=np.float32).reshape(2, 70) % 11 - 5)
    levels, _ = quantize(rows)
    signs = sign_bits(levels)
    assert word_count(70) == signs.shape[1] == 2
    assert [int(word) for word in signs[0]] == [17272352310650048593, 16498209112903215298]
    assert levels[1, :8].tolist() == pytest.approx([-44, 24, 28, -8, 0, 4, -111, -20], abs=1)
