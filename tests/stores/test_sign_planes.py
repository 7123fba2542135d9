"""Sign planes hold every vector, and a scan selects those that agree with the query's largest components."""

import numpy as np
import pytest

from brimful.stores.vectors.float16 import normalize
from brimful.stores.vectors.quantization import Query, SignPlanes, prepare_query, quantize, scan_signs, sign_bits

DIMS = 256


def levels_of(count, seed=0):
    rows = np.random.default_rng(seed).normal(size=(count, DIMS)).astype(np.float32)
    return quantize(normalize(rows))[0]


def query_of(seed):
    return prepare_query(normalize(np.random.default_rng(seed).normal(size=(1, DIMS)).astype(np.float32))[0])


def planes_of(levels, *sizes):
    planes = SignPlanes(levels.shape[1])
    for part in np.split(levels, np.cumsum(sizes)):
        planes.extend(sign_bits(part))
    return planes


def agreeing(levels, query):
    """Return in how many of the numbers of which a query says most each vector has its sign."""
    most = np.argsort(-np.abs(query.rotated), kind="stable")[:63]
    return ((levels[:, most] > 0) == (query.rotated[most] > 0)).sum(axis=1)


@pytest.mark.parametrize("sizes", [(), (0,), (1, 1, 1), (63, 0, 1), (64,), (65, 200), (10, 54, 64, 128, 1)])
def test_planes_hold_signs_in_whatever_parts_they_come(sizes):
    levels = levels_of(300)
    found = np.unpackbits(planes_of(levels, *sizes).all.view(np.uint8), axis=1, count=300, bitorder="little")
    assert ((levels > 0) == found.T).all()


def test_an_earlier_view_stays_and_more_memory_changes_nothing():
    levels = levels_of(200)
    planes = planes_of(levels[:100])
    before, held = planes.all[:, :1].copy(), planes.all
    planes.reserve(100_000)
    assert planes.nbytes >= DIMS * 100_000 // 8
    planes.extend(sign_bits(levels[100:]))
    assert (held[:, :1] == before).all()
    assert (planes.all == planes_of(levels).all).all()


@pytest.mark.parametrize(("count", "together"), [(40, 4096), (5_000, 4096), (5_000, 7)])
def test_the_likely_are_all_that_agree_as_often_as_the_best(count, together):
    levels, query = levels_of(count), query_of(1)
    chosen = scan_signs(planes_of(levels).all, np.ones(count, np.uint8), query, 0.05, batch=together)
    counts = agreeing(levels, query)
    assert chosen.tolist() == np.flatnonzero(counts >= counts[chosen].min()).tolist()
    assert 0.05 * count <= len(chosen) < 0.15 * count


@pytest.mark.parametrize("ups", [0, 1, 31, 32, 62, 63])
@pytest.mark.parametrize("best", [1, 40])
def test_signs_are_counted_right_however_many_of_a_query_are_up(ups, best):
    """Sums of both sides take more bits and fewer; one vector is up nowhere, and one everywhere."""
    levels = np.concatenate([levels_of(398), np.full((1, DIMS), -9), np.full((1, DIMS), 9)]).astype(np.int8)
    turned = np.where(np.arange(DIMS) < ups, 1.0, -1.0).astype(np.float32)
    query = Query(turned, np.empty(0, np.uint64), np.empty(0, np.uint64))
    chosen = scan_signs(planes_of(levels).all, np.ones(400, np.uint8), query, best / 400)
    counts = agreeing(levels, query)
    assert chosen.tolist() == np.flatnonzero(counts >= np.sort(counts)[-best]).tolist()


@pytest.mark.parametrize("share", [0.05, 1.0])
def test_removed_vectors_are_not_chosen_and_the_share_is_of_the_rest(share):
    alive = np.zeros(20_001, np.uint8)
    alive[1::10] = 1
    chosen = scan_signs(planes_of(levels_of(20_001)).all, alive, query_of(2), share)
    assert (chosen % 10 == 1).all()
    assert share * 2000 <= len(chosen) <= min(2.5 * share, 1.0) * 2000


def test_no_candidates_are_likely_if_none_are_left():
    assert not len(scan_signs(planes_of(levels_of(70)).all, np.zeros(70, np.uint8), query_of(3), 1.0))
