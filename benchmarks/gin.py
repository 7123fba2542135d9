"""Full-text search in PostgreSQL: our index beside a GIN index on `tsvector`, with the same messages and questions.

BENCH_DATA=folder python benchmarks/gin.py --postgres URL   a superuser's, in a database of its own
"""

import argparse
import asyncio
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from brimful.engine import Engine
from checkouts import new_database
from evidence_data import Asked, Talk
from storage import GROUPS, MESSAGES, QUICK_MESSAGES, Store, copies, room_of
from tables import Section, percent, table

LIMIT = 20
QUESTIONS = 10  # of each conversation
TITLE = "Full-text search in PostgreSQL"
ABOUT = f"""Our own full-text index beside PostgreSQL's: a `tsvector` of each message with a GIN index, a policy of
row-level security that shows a tenant only its own rows, and `@@` declared leakproof, without which PostgreSQL does not
use the index under that policy. "Bytes" are what a message takes in the index and the `tsvector`. "Found" is the share
of the evidence for up to {QUESTIONS} questions of each conversation that is among the first {LIMIT} messages;
PostgreSQL ranks by `ts_rank_cd` all messages with any word of the question. The processor times are means by question,
of the database server and of this process."""
SCHEMA = """
ALTER FUNCTION ts_match_vq(tsvector, tsquery) LEAKPROOF;
CREATE TABLE gin_messages (tenant text NOT NULL, room text NOT NULL, id text NOT NULL, words tsvector NOT NULL);
ALTER TABLE gin_messages ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON gin_messages USING (tenant = current_setting('bench.tenant'));
CREATE ROLE {role};
GRANT SELECT ON gin_messages TO {role}
"""
WRITE = "INSERT INTO gin_messages VALUES (%s, %s, %s, to_tsvector('english', %s))"
INDEX = "CREATE INDEX gin_words ON gin_messages USING gin (words)"
SIZE = "SELECT pg_relation_size('gin_words') + (SELECT sum(pg_column_size(words)) FROM gin_messages)"
SEARCH = """
SELECT id FROM gin_messages, (
    SELECT replace(plainto_tsquery('english', %s)::text, '&', '|')::tsquery AS query
) AS asked WHERE room = %s AND words @@ query ORDER BY ts_rank_cd(words, query) DESC, id LIMIT %s
"""


@dataclass(frozen=True, slots=True)
class Result:
    """Bytes of a message, the share of evidence found, and milliseconds of processor time for a question."""

    size: float
    found: float
    server: float
    client: float


async def measure(store: Store, size: int) -> dict[str, Result]:
    """Write the same messages into both, and ask the same questions."""
    import psycopg  # noqa: PLC0415 - an extra

    chosen = list(copies(Path(os.environ["BENCH_DATA"]), size))
    total = sum(len(talk.turns) for _, talk in chosen)
    engines: dict[str, Engine] = {}
    for tenant, talk in chosen:
        if tenant not in engines:
            engines[tenant] = await Engine(store.url, tenant=tenant, embedder="none").open()
        await engines[tenant].post_many(room_of(talk))
        await engines[tenant].wait_indexed()
    sizes = store.sizes("")
    own = sum(sum(sizes.get(name, (0, 0))) for name in GROUPS["postings and counts of terms"])
    role = store.url.rpartition("/")[2].partition("?")[0]
    with psycopg.connect(store.url, autocommit=True) as connection:
        connection.execute(SCHEMA.format(role=role).encode())
        try:
            with connection.cursor() as cursor:
                rows = [(tenant, talk.name, turn.id, turn.text) for tenant, talk in chosen for turn in talk.turns]
                cursor.executemany(WRITE, rows)
            connection.execute(INDEX)
            connection.execute("VACUUM ANALYZE gin_messages")
            ((gin,),) = connection.execute(SIZE).fetchall()
            connection.execute(f"SET ROLE {role}".encode())

            async def ours(tenant: str, talk: Talk, question: Asked) -> list[str]:
                result = await engines[tenant].search(question.text, room=talk.name, limit=LIMIT)
                return [hit.record.id for hit in result.hits]

            async def theirs(tenant: str, talk: Talk, question: Asked) -> list[str]:
                connection.execute("SELECT set_config('bench.tenant', %s, false)", [tenant])
                found = connection.execute(SEARCH, [question.text, talk.name, LIMIT]).fetchall()
                return [f"{talk.name}-{id}".replace(" ", "-") for (id,) in found]

            return {
                "Brimful": await _ask(store, chosen, ours, own / total),
                "GIN": await _ask(store, chosen, theirs, float(gin) / total),
            }
        finally:
            connection.execute("RESET ROLE")
            connection.execute(f"DROP OWNED BY {role}; DROP ROLE {role}".encode())
            for engine in engines.values():
                await engine.close()


async def _ask(store: Store, chosen: list[tuple[str, Talk]], search: Callable[..., Any], size: float) -> Result:
    asked = [(tenant, talk, each) for tenant, talk in chosen for each in talk.questions[:QUESTIONS] if each.evidence]
    for tenant, talk, question in asked[:2]:  # the first ones load code and fill caches
        await search(tenant, talk, question)
    found, server, client = list[float](), store.server_seconds(), time.process_time()
    for tenant, talk, question in asked:
        ids = set(await search(tenant, talk, question))
        evidence = {f"{talk.name}-{id}".replace(" ", "-") for id in question.evidence}
        found.append(len(ids & evidence) / len(evidence))
    client, server = time.process_time() - client, store.server_seconds() - server
    return Result(size, fmean(found), 1e3 * server / len(asked), 1e3 * client / len(asked))


def report(data: Path | None, postgres: str | None, *, quick: bool) -> Section:
    """Measure both in a new database."""
    if data is None or postgres is None:
        return Section(TITLE, "There is no folder of conversations, or no PostgreSQL.", ())
    os.environ["BENCH_DATA"] = str(data)
    with new_database(postgres) as url:
        results = asyncio.run(measure(Store(url), QUICK_MESSAGES if quick else MESSAGES))
    rows = [
        [name, f"{each.size:,.0f}", percent(each.found), f"{each.server:.2f} ms", f"{each.client:.2f} ms"]
        for name, each in results.items()
    ]
    return Section(TITLE, ABOUT, (table(["index", "bytes", "found", "server", "this process"], rows),))


def main() -> None:
    """Print the section."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=os.environ.get("BENCH_DATA") or None, help="folder of JSON files")
    parser.add_argument("--postgres", required=True, help="the URL of a server on which databases may be created")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    print(report(options.data, options.postgres, quick=options.quick).markdown())


if __name__ == "__main__":
    main()
