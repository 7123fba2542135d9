"""Recall of the vector graph of one tenant in a PostgreSQL table that other tenants fill.

python benchmarks/graphs.py postgresql://user@host/empty-database [ROWS [DIMENSIONS]]
"""

import asyncio
import sys

import numpy as np
import numpy.typing as npt
import psycopg

from brimful.embedding import StaticEmbedder
from brimful.records import Message
from brimful.records.search import IndexEntry, VectorQuery
from brimful.stores import Database, connect
from brimful.stores.tuning import Tuning
from texts import Texts

Vectors = npt.NDArray[np.float32]

ROWS = 200_000
SHARE = 0.005  # of the rows are the tenant's
DIMS = 256
NEAREST = 20
QUERIES = 50
OTHERS = """
INSERT INTO vectors (tenant, embedder, hash, vector)
SELECT 'other-' || n % 100, :name, 'h' || n,
  (SELECT array_agg(random() - 0.5 + 0 * (g + n))::real[]::vector::halfvec FROM generate_series(1, :dims) g)
FROM generate_series(1, :rows) n
"""


async def measure(url: str, rows: int = ROWS, dims: int = DIMS) -> list[list[str]]:
    """Return the recall for random vectors, and for those of real texts."""
    table = []
    count, source, rng = int(rows * SHARE), Texts(1), np.random.default_rng(1)
    texts = [source.prose(200) for _ in range(count + QUERIES)]
    real = np.asarray(await StaticEmbedder().embed(texts, "passage"), dtype=np.float32)
    random = rng.normal(size=(count + QUERIES, dims)).astype(np.float32)
    with psycopg.connect(url, autocommit=True) as connection:
        name = connection.info.dbname
        connection.execute(f'ALTER DATABASE "{name}" SET enable_sort = off'.encode())  # few rows need no graph
    async with connect(url, tuning=Tuning(hnsw_threshold=count // 2)) as database:
        for kind, vectors in {"random": random, "real": real[:, :dims]}.items():
            unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
            others = (
                OTHERS.replace(":name", f"'{kind}'").replace(":dims", str(dims)).replace(":rows", str(rows - count))
            )
            with psycopg.connect(url, autocommit=True) as connection:
                connection.execute(others.encode())
            recall = await _recall(database, kind, unit[:count], unit[count:])
            table.append([kind, f"{count:,}", f"{rows:,}", f"{recall:.3f}"])
            print(f"  graphs: {' '.join(table[-1])}", flush=True)
    return table


async def _recall(database: Database, name: str, vectors: Vectors, queries: Vectors) -> float:
    store = database.tenant(name)
    await store.use_embedder(name)
    posted = [Message(id=str(at), room="general", content=f"text {at}", at=float(at)) for at in range(len(vectors))]
    await store.post([(each, IndexEntry(terms=("text",), passage=str(each.content))) for each in posted])
    documents = await store.backlog(name, limit=len(vectors))
    rows = {document.doc: int(document.item) for document in documents}
    await store.save_vectors(name, list(rows), vectors[list(rows.values())])
    await database.update_graph(name, name)
    asked = [VectorQuery(scopes=("room:general",), vector=query) for query in queries]
    found, _ = await store.search_vectors(name, asked, limit=NEAREST, max_backlog=0)
    exact = np.argsort(-(queries @ vectors.T), axis=1)[:, :NEAREST].tolist()
    hits = sum(len({rows[hit.doc] for hit in near} & set(row)) for near, row in zip(found, exact, strict=True))
    return hits / (NEAREST * len(queries))


if __name__ == "__main__":
    numbers = [int(each) for each in sys.argv[2:]]
    asyncio.run(measure(sys.argv[1], *numbers))
