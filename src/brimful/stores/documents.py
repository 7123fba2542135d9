"""The index: one document for each record that can be found."""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from brimful.answers import Document, DocumentKind, Indexed
from brimful.core.content import content_hash
from brimful.stores.pending import await_vectors, settle_removed
from brimful.stores.scopes import grow, shrink
from brimful.stores.sealing import address
from brimful.stores.searching import searchable, tokens_kept
from brimful.stores.session import Session

_INSERT: Final = """
INSERT INTO documents (tenant, doc, scope, kind, item, seq, at, length, passage, terms)
VALUES (:tenant, :doc, :scope, :kind, :item, :seq, :at, :length, :passage, :terms)
"""
_READ: Final = """
SELECT d.doc, s.scope, d.kind, d.item, d.seq, d.at FROM documents d
JOIN scopes s ON s.tenant = d.tenant AND s.number = d.scope
WHERE d.tenant = :tenant AND d.doc IN :docs
"""


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """A record that shall be found."""

    kind: DocumentKind
    item: str
    scope: str
    indexed: Indexed
    seq: int = 0
    at: float = 0.0


def add(session: Session, entries: Sequence[Entry]) -> None:
    """Take records up into the index."""
    if not entries:
        return
    entries = [_searchable(session, entry) for entry in entries]
    numbers = grow(session, _totals(entries))
    docs = session.dialect.next_documents(session, len(entries))
    rows = [_row(session, entry, doc, numbers[entry.scope]) for entry, doc in zip(entries, docs, strict=True)]
    session.many(_INSERT, rows)
    session.dialect.lexicon.add(session, [(row["doc"], row["terms"]) for row in rows])
    await_vectors(session, [(row["doc"], row["scope"], row["passage"]) for row in rows if row["passage"]])


def remove(session: Session, kind: DocumentKind, items: Sequence[str]) -> None:
    """Take records out of the index."""
    found = session.rows(
        "DELETE FROM documents WHERE tenant = :tenant AND kind = :kind AND item IN :items "
        "RETURNING doc, scope, length, passage, terms",
        kind=kind,
        items=list(items),
    )
    totals: dict[int, tuple[int, int]] = {}
    for _, scope, length, _, _ in found:
        documents, words = totals.get(scope, (0, 0))
        totals[scope] = (documents + 1, words + length)
    shrink(session, totals)
    session.dialect.lexicon.remove(session, [(row[0], session.dialect.listed(row[4])) for row in found])
    settle_removed(session, [(doc, scope, passage) for doc, scope, _, passage, _ in found if passage])


def replace(session: Session, entries: Sequence[Entry]) -> None:
    """Take records up into the index, each in the place of the one with its id."""
    if entries:
        remove(session, entries[0].kind, [entry.item for entry in entries])
        add(session, entries)


def documents(session: Session, docs: Sequence[int]) -> list[Document]:
    """Return the entries of these numbers, in this order, those that are there."""
    found = {row[0]: document_of(row) for row in session.rows(_READ, docs=[int(doc) for doc in docs])}
    return [found[doc] for doc in docs if doc in found]


def document_of(row: Sequence[Any]) -> Document:
    """Return the document of a row."""
    doc, scope, kind, item, seq, at = row
    return Document(doc=doc, scope=scope, kind=kind, item=item, seq=seq, at=at)


def _searchable(session: Session, entry: Entry) -> Entry:
    return msgspec.structs.replace(entry, indexed=searchable(session, entry.indexed))


def _totals(entries: Sequence[Entry]) -> dict[str, tuple[int, int]]:
    totals: dict[str, tuple[int, int]] = {}
    for entry in entries:
        documents, words = totals.get(entry.scope, (0, 0))
        totals[entry.scope] = (documents + 1, words + len(entry.indexed.terms))
    return totals


def _row(session: Session, entry: Entry, doc: int, scope: int) -> dict[str, Any]:
    passage = entry.indexed.passage
    return {
        "doc": doc,
        "scope": scope,
        "kind": entry.kind,
        "item": entry.item,
        "seq": entry.seq,
        "at": entry.at,
        "length": len(entry.indexed.terms),
        "passage": address(session, content_hash(passage)) if passage else "",
        "terms": tokens_kept(session, scope, entry.indexed.terms),
    }
