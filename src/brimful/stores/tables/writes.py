"""Writes shared by records that have content: upsert, remove and erase rows, contents and index entries together."""

from collections.abc import Callable, Sequence
from typing import Any, Final, Literal, TypeVar

from brimful.packagers.records import context_ids
from brimful.records import LoreEntry, Memory, Summary
from brimful.records.search import DocumentKind, IndexEntry
from brimful.stores.encryption.cipher import encrypt
from brimful.stores.index import documents
from brimful.stores.index.documents import NewDocument
from brimful.stores.log.candidates import find_contexts, find_known
from brimful.stores.log.context_codec import package_addresses, without_request
from brimful.stores.session import Session
from brimful.stores.tables.contents import add_contents, erase_unseen, erase_unused, release_contents


def erase_record(session: Session, item: str, hash: str | None) -> None:
    """Erase the content of a record, here and in past contexts, unless another record has the same content.

    A request may contain only a part of it, such as an excerpt: then the whole request is erased.
    """
    session.erases = True
    erased = [] if hash is None else [hash]
    for context in find_contexts(session, context_ids(item)):
        packages = package_addresses(context.refs)
        erased += [packages[i] for i in context.items if i < len(packages)]
        _erase_request(session, (context.id, context.room, context.refs), without_request(context.body, context.items))
    erase_unused(session, erased)


def release_replaced(session: Session, old: Sequence[tuple[str, str]]) -> None:
    """Release the old contents of replaced records (id, address). Contents that are in no context are erased."""
    release_contents(session, [hash for _, hash in old], erase=False)
    known = find_known(session, [name for id, _ in old for name in context_ids(id)])
    erase_unseen(session, [hash for id, hash in old if known.isdisjoint(context_ids(id))])


def _erase_request(session: Session, bindings: tuple[str, str, bytes], packed: bytes | None) -> None:
    if packed is not None:
        session.run(
            "UPDATE snapshots SET body = :body WHERE tenant = :tenant AND id = :id",
            id=bindings[0],
            body=encrypt(session, packed, "snapshots", *bindings),
        )


Table = Literal["memories", "lore_entries", "summaries"]
T = TypeVar("T", Memory, LoreEntry, Summary)

_CURRENT: Final[dict[Table, str]] = {
    "memories": "SELECT id, hash FROM memories WHERE tenant = :tenant AND id IN :ids",
    "lore_entries": "SELECT id, hash FROM lore_entries WHERE tenant = :tenant AND id IN :ids",
    "summaries": "SELECT id, hash FROM summaries WHERE tenant = :tenant AND id IN :ids",
}
_DELETE: Final[dict[Table, str]] = {
    "memories": "DELETE FROM memories WHERE tenant = :tenant AND id = :id RETURNING hash",
    "lore_entries": "DELETE FROM lore_entries WHERE tenant = :tenant AND id = :id RETURNING hash",
    "summaries": "DELETE FROM summaries WHERE tenant = :tenant AND id = :id RETURNING hash",
}


def upsert(
    session: Session,
    table: Table,
    put: str,
    records: Sequence[tuple[T, IndexEntry]],
    *,
    row: Callable[[Session, T, str], dict[str, Any]],
    document: Callable[[T, IndexEntry], NewDocument],
) -> None:
    """Write records, replacing those with the same ids. Of several with one id, the last is written."""
    last = {record.id: (record, entry) for record, entry in records}
    pairs = [last[id] for id in sorted(last)]
    session.dialect.lock(session, table)
    old = session.rows(_CURRENT[table], ids=[record.id for record, _ in pairs])
    hashes = add_contents(session, [record.content for record, _ in pairs])
    session.many(put, (row(session, record, hash) for (record, _), hash in zip(pairs, hashes, strict=True)))
    release_replaced(session, [(id, hash) for id, hash in old])
    documents.replace_documents(session, [document(record, entry) for record, entry in pairs])


def remove_row(session: Session, table: Table, kind: DocumentKind, id: str) -> str | None:
    """Remove a record and return the address of its content; None if there is no such record."""
    found = session.row(_DELETE[table], id=id)
    if found is None:
        return None
    release_replaced(session, [(id, found[0])])
    documents.remove_documents(session, kind, [id])
    return str(found[0])
