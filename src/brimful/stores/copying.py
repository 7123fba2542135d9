"""A copy of a whole database in another one, of the same sort or not: row by row, sealed as they are."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

from brimful.stores.observations import COLUMNS as OBSERVED
from brimful.stores.pending import embedders
from brimful.stores.session import Row, Session

PAGE: Final = 1_000  # rows at once

TABLES: Final[dict[str, tuple[int, tuple[str, ...]]]] = {
    "tenants": (1, ("tenant",)),
    "keys": (1, ("number", "wrapped", "kek", "created", "retired", "mixed")),
    "callers": (1, ("id", "digest", "name", "scopes", "created", "revoked")),
    "users": (1, ("id", "body")),
    "personas": (1, ("id", "body")),
    "lorebooks": (1, ("id", "body")),
    "contents": (1, ("hash", "body", "uses", "seen")),
    "counts": (2, ("tokenizer", "hash", "tokens")),
    "rooms": (1, ("number", "id", "body", "owner", "last", "spoken")),
    "messages": (2, ("room", "seq", "id", "hash", "at", "edited", "deleted", "aside", "detail")),
    "memories": (
        1,
        (
            *("id", "scope", "type", "persona", "person", "room", "hash", "at"),
            *("pinned", "accesses", "accessed", "aside", "detail"),
        ),
    ),
    "lore_entries": (1, ("id", "lorebook", "hash", "place", "detail")),
    "summaries": (1, ("id", "room", "hash", "at", "detail")),
    "snapshots": (1, ("number", "id", "room", "persona", "at", "message", "digest", "refs", "body")),
    "inclusions": (2, ("snapshot", "place", "item", "kind", "outcome", "reason", "tokens", "relevance")),
    "responses": (1, ("id", "context", "room", "at", "message", "body")),
    "log": (1, ("place", "kind", "item", "room", "at", "persona", "model", "policy", "body")),
    "log_ends": (1, ("tenant", "last", "pruned")),
    "tallies": (6, ("room", "size", "hour", "persona", "model", "policy", "body")),
    "observations": (1, ("number", *OBSERVED)),
    "tidyings": (1, ("number", "state", "holder", "begun", "beat", "ended", "facts")),
    "tidied": (1, ("number", "run", "item", "room", "body")),
    "scopes": (1, ("number", "scope", "documents", "words", "changes")),
    "documents": (1, ("doc", "scope", "kind", "item", "seq", "at", "length", "passage", "terms")),
    "embedders": (1, ("id", "since", "dims", "dropped")),
    "pending": (2, ("embedder", "doc", "passage")),
}
"""The tables in an order that keeps every reference: how many columns, after the tenant, are the key; all columns."""
NUMBERED: Final = ("rooms", "snapshots", "observations", "tidyings", "tidied", "scopes", "documents")

Write = Callable[[Callable[[Session], None]], None]


def copy_tenant(source: Session, write: Write, write_sealed: Write) -> None:
    """Copy all that a tenant has. Vectors are told anew, since each sort of database keeps them in its own way."""
    for table in TABLES:
        for rows in _pages(source, table):
            write(partial(_insert, source=source, table=table, rows=rows))
    for embedder in embedders(source):
        for passages, vectors in _vectors(source, embedder):
            write_sealed(partial(_keep, embedder=embedder, passages=passages, vectors=vectors))
        for rows in _pages(source, "documents"):
            placed = [(row[0], row[1], row[7]) for row in rows if row[7]]
            write_sealed(partial(_place, embedder=embedder, placed=placed))


def _keep(target: Session, *, embedder: str, passages: list[str], vectors: Any) -> None:
    target.dialect.nearness.keep(target, embedder, passages, vectors)


def _place(target: Session, *, embedder: str, placed: list[tuple[int, int, str]]) -> None:
    target.dialect.nearness.place(target, embedder, placed)


def _insert(target: Session, *, source: Session, table: str, rows: list[Row]) -> None:
    columns = [column for column in TABLES[table][1] if column != "tenant"]
    names = ", ".join(["tenant", *columns])
    values = ", ".join(f":{name}" for name in ["tenant", *columns])
    written = [dict(zip(TABLES[table][1], row, strict=True)) for row in rows]
    if table == "documents":
        for row in written:
            row["terms"] = source.dialect.listed(row["terms"])
    target.many(f"INSERT INTO {table} ({names}) VALUES ({values})", written)  # noqa: S608 - our own tables
    if table == "documents":
        target.dialect.lexicon.add(target, [(row["doc"], row["terms"]) for row in written])
    if table in NUMBERED:
        target.dialect.advance(target, table, max(row[0] for row in rows))


def _pages(source: Session, table: str) -> Iterator[list[Row]]:
    keys, columns = TABLES[table]
    key, begins = ", ".join(columns[:keys]), ", ".join(f":after{at}" for at in range(keys))
    select = f"SELECT {', '.join(columns)} FROM {table} WHERE tenant = :tenant"  # noqa: S608 - our own tables
    rows = source.rows(f"{select} ORDER BY {key} LIMIT {PAGE}")
    while rows:
        yield rows
        after = {f"after{at}": rows[-1][at] for at in range(keys)}
        rows = source.rows(f"{select} AND ({key}) > ({begins}) ORDER BY {key} LIMIT {PAGE}", **after)


def _vectors(source: Session, embedder: str) -> Iterator[tuple[list[str], Any]]:
    passages, vectors = source.dialect.nearness.kept(source, embedder, "", PAGE)
    while passages:
        yield passages, vectors
        passages, vectors = source.dialect.nearness.kept(source, embedder, passages[-1], PAGE)
