"""Records that take the place of the one with their id, and records that go: rows, contents and index in step."""

from collections.abc import Callable, Sequence
from typing import Any, Final, Literal, TypeVar

from brimful.answers import DocumentKind, Indexed
from brimful.records import LoreEntry, Memory, Summary
from brimful.stores import documents
from brimful.stores.contents import put_contents
from brimful.stores.documents import Entry
from brimful.stores.erasing import supersede
from brimful.stores.session import Session

Table = Literal["memories", "lore_entries", "summaries"]
T = TypeVar("T", Memory, LoreEntry, Summary)

_HELD: Final[dict[Table, str]] = {
    "memories": "SELECT id, hash FROM memories WHERE tenant = :tenant AND id IN :ids",
    "lore_entries": "SELECT id, hash FROM lore_entries WHERE tenant = :tenant AND id IN :ids",
    "summaries": "SELECT id, hash FROM summaries WHERE tenant = :tenant AND id IN :ids",
}
_TAKE: Final[dict[Table, str]] = {
    "memories": "DELETE FROM memories WHERE tenant = :tenant AND id = :id RETURNING hash",
    "lore_entries": "DELETE FROM lore_entries WHERE tenant = :tenant AND id = :id RETURNING hash",
    "summaries": "DELETE FROM summaries WHERE tenant = :tenant AND id = :id RETURNING hash",
}


def rewrite(
    session: Session,
    table: Table,
    put: str,
    given: Sequence[tuple[T, Indexed]],
    *,
    row: Callable[[Session, T, str], dict[str, Any]],
    entry: Callable[[T, Indexed], Entry],
) -> None:
    """Write records, each in the place of the one with its id; of several with one id, the last."""
    last = {record.id: (record, indexed) for record, indexed in given}
    pairs = [last[id] for id in sorted(last)]
    session.dialect.alone(session, table)
    old = session.rows(_HELD[table], ids=[record.id for record, _ in pairs])
    hashes = put_contents(session, [record.content for record, _ in pairs])
    session.many(put, (row(session, record, hash) for (record, _), hash in zip(pairs, hashes, strict=True)))
    supersede(session, [(id, hash) for id, hash in old])
    documents.replace(session, [entry(record, indexed) for record, indexed in pairs])


def take_out(session: Session, table: Table, kind: DocumentKind, id: str) -> str | None:
    """Remove a record, and return the address of its content; None if there is no such record."""
    found = session.row(_TAKE[table], id=id)
    if found is None:
        return None
    supersede(session, [(id, found[0])])
    documents.remove(session, kind, [id])
    return str(found[0])
