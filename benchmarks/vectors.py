"""Vector search: our quantized index beside faiss and usearch, on the same vectors.

python benchmarks/vectors.py            200,000 vectors
python benchmarks/vectors.py --quick    30,000
"""

import argparse
import random
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pydoc_data.topics import topics
from statistics import median
from typing import Any

import numpy as np
import numpy.typing as npt

from brimful.embedding import embed_static
from brimful.stores.vectors.cache import ScopeVectors
from isolated import Failure
from tables import Section, duration, percent, table, times

Vectors = npt.NDArray[np.float32]
Search = Callable[[Vectors], Sequence[int]]

VECTORS = 200_000
QUICK_VECTORS = 30_000  # just above the size up to which our index holds plain float32 vectors
QUERIES = 50
LIMIT = 200  # nearest neighbours, as retrieval asks for
BATCH = 5_000  # vectors added at once
EXPANSION = 400  # HNSW's ef at search time: the usual choice is twice the limit
LINKS = 32  # HNSW's M

ABOUT = f"""The nearest {LIMIT} neighbours of a query, on one thread. The vectors are sentences of Python's manual, one
to three per text, embedded with `static` (256 dimensions). "Ready" is the time from vectors in memory to a searchable
index, which a process pays when it first searches a room. "Recall" is the share of the exact nearest {LIMIT} that is
found. HNSW uses M = {LINKS} and ef = {EXPANSION}."""


@dataclass(frozen=True, slots=True)
class Result:
    """What one index came to."""

    ready: float
    search: float
    recall: float
    megabytes: float


def brimful_index(rows: Vectors) -> tuple[Search, Callable[[], float]]:
    """Return how our index is searched, and its size in bytes."""
    index = ScopeVectors(rows.shape[1])
    for start in range(0, len(rows), BATCH):
        part = rows[start : start + BATCH]
        numbers = np.arange(start, start + len(part))
        index.add(numbers, numbers, numbers, part)
    return lambda query: [doc for doc, _, _ in index.nearest(query, LIMIT, _no_reads)], lambda: index.nbytes


def faiss_flat(rows: Vectors) -> tuple[Search, Callable[[], float]]:
    """Return how faiss searches exactly."""
    import faiss  # noqa: PLC0415 - a peer

    return _faiss(faiss, faiss.IndexFlatIP(rows.shape[1]), rows)


def faiss_hnsw(rows: Vectors) -> tuple[Search, Callable[[], float]]:
    """Return how faiss searches a graph."""
    import faiss  # noqa: PLC0415 - a peer

    index = faiss.IndexHNSWFlat(rows.shape[1], LINKS, faiss.METRIC_INNER_PRODUCT)
    index.hnsw.efSearch = EXPANSION
    return _faiss(faiss, index, rows)


def usearch_hnsw(rows: Vectors) -> tuple[Search, Callable[[], float]]:
    """Return how usearch searches a graph of half-precision vectors."""
    from usearch.index import Index  # noqa: PLC0415 - a peer

    index = Index(ndim=rows.shape[1], metric="ip", dtype="f16", connectivity=LINKS, expansion_search=EXPANSION)
    for start in range(0, len(rows), BATCH):
        part = rows[start : start + BATCH]
        index.add(np.arange(start, start + len(part)), part, threads=1)
    return lambda query: index.search(query, LIMIT, threads=1).keys.tolist(), lambda: float(index.memory_usage)


WAYS: dict[str, tuple[str, Callable[[Vectors], tuple[Search, Callable[[], float]]]]] = {
    "brimful": ("brimful", brimful_index),
    "faiss, exact": ("faiss", faiss_flat),
    "faiss, HNSW": ("faiss", faiss_hnsw),
    "usearch, HNSW (f16)": ("usearch", usearch_hnsw),
}


def report(*, quick: bool) -> Section:
    """Measure every index on the same vectors."""
    vectors = make_vectors((QUICK_VECTORS if quick else VECTORS) + QUERIES)
    rows, queries = vectors[:-QUERIES], vectors[-QUERIES:]
    exact = [set(np.argsort(-(rows @ query), kind="stable")[:LIMIT].tolist()) for query in queries]
    results = {name: _measure(name, rows, queries, exact) for name in WAYS}
    return Section("Vector search", f"{len(rows):,} vectors. {ABOUT}", (_table(results),))


def make_vectors(count: int) -> Vectors:
    """Return the vectors of as many texts."""
    chosen = random.Random(5)
    sentences = [each for text in topics.values() for each in re.split(r"(?<=[.!?])\s+", text) if len(each) > 20]
    return embed_static([" ".join(chosen.choices(sentences, k=chosen.randint(1, 3))) for _ in range(count)])


def _measure(name: str, rows: Vectors, queries: Vectors, exact: Sequence[set[int]]) -> Result | Failure:
    module, build = WAYS[name]
    if find_spec(module) is None:
        return Failure("not installed")
    print(f"  vectors: {name}", flush=True)
    began = time.perf_counter()
    search, size = build(rows)
    ready = time.perf_counter() - began
    search(queries[0])
    seconds, found = [], []
    for query in queries:
        began = time.perf_counter()
        near = search(query)
        seconds.append(time.perf_counter() - began)
        found.append(set(near))
    recall = sum(len(mine & best) for mine, best in zip(found, exact, strict=True)) / (LIMIT * len(queries))
    return Result(ready=ready, search=median(seconds), recall=recall, megabytes=size() / 1e6)


def _faiss(faiss: Any, index: Any, rows: Vectors) -> tuple[Search, Callable[[], float]]:
    faiss.omp_set_num_threads(1)
    for start in range(0, len(rows), BATCH):
        index.add(rows[start : start + BATCH])
    return lambda query: index.search(query[None, :], LIMIT)[1][0].tolist(), lambda: float(
        faiss.serialize_index(index).nbytes
    )


def _no_reads(numbers: Sequence[int]) -> Vectors:
    raise AssertionError(f"{len(numbers)} vectors are not in memory")


def _table(results: dict[str, Result | Failure]) -> str:
    ours = results["brimful"]
    rows = []
    for name, result in results.items():
        if isinstance(result, Failure) or isinstance(ours, Failure):
            rows.append([name, str(getattr(result, "reason", "")), *["–"] * 5])
            continue
        ratios = [times(result.ready / ours.ready), times(result.search / ours.search)]
        numbers = [duration(result.ready), duration(result.search), percent(result.recall), f"{result.megabytes:,.0f}"]
        rows.append([name, ratios[0], ratios[1], *numbers])
    return table(["index", "ready, ours = 1", "search, ours = 1", "ready", "search", "recall", "MB"], rows)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    print(report(quick=parser.parse_args().quick).markdown())
