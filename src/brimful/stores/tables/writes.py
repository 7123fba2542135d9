"""Writes shared by records that have content: upsert, remove and erase rows, contents and index entries together."""

from collections.abc import Callable, Sequence
from typing import Any, Final, Literal, TypeVar

import msgspec

from brimful.packagers.records import context_ids
from brimful.records import LoreEntry, Memory, Summary
from brimful.records.search import DocumentKind, IndexEntry
from brimful.stores.encryption.cipher import decrypt, encrypt
from brimful.stores.index import documents
from brimful.stores.index.documents import NewDocument
from brimful.stores.log.context_codec import package_positions, without_request
from brimful.stores.session import Session
from brimful.stores.tables.contents import add_contents, erase_unseen, erase_unused, release_contents

_SEEN_IN: Final = """
SELECT DISTINCT s.id, s.room, s.refs, s.body
FROM inclusions i JOIN snapshots s ON s.tenant = i.tenant AND s.number = i.snapshot
WHERE i.tenant = :tenant AND i.item IN :names
"""


def erase_record(session: Session, item: str, hash: str | None) -> None:
    """Erase the content of a record, here and in past contexts, unless another record has the same content.

    A request may contain only a part of it, such as an excerpt: then the whole request is erased.
    """
    erased = [] if hash is None else [hash]
    names = context_ids(item)
    for id, room, refs, body in session.rows(_SEEN_IN, names=names):
        packed = decrypt(session, body, "snapshots", id, room, refs)
        positions = package_positions(packed, names)
        addresses = msgspec.json.decode(refs, type=list[str])
        erased += [addresses[at] for at in positions]
        _erase_request(session, (id, room, refs), without_request(packed, positions))
    erase_unused(session, erased)


def release_replaced(session: Session, old: Sequence[tuple[str, str]]) -> None:
    """Release the old contents of replaced records (id, address). Contents that are in no context are erased."""
    release_contents(session, [hash for _, hash in old], erase=False)
    seen = session.rows(
        "SELECT DISTINCT item FROM inclusions WHERE tenant = :tenant AND item IN :names",
        names=[name for id, _ in old for name in context_ids(id)],
    )
    known = {item for (item,) in seen}
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
