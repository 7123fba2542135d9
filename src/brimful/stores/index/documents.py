"""The search index: documents, the scopes they belong to, and the queue of documents without a vector."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from brimful.core.content import content_hash
from brimful.records.search import Document, DocumentKind, IndexEntry
from brimful.stores.encryption.cipher import storage_address
from brimful.stores.index.terms import filter_searchable, index_tokens
from brimful.stores.session import DocumentRef, IndexedDocument, Session, prefix_end
from brimful.stores.tables.jobs import add_job

_ADD_TO_SCOPE: Final = """
UPDATE scopes SET documents = documents + :documents, words = words + :words, changes = changes + 1
WHERE tenant = :tenant AND scope = :scope RETURNING number
"""
_LOCK_SCOPES: Final = "SELECT scope, number FROM scopes WHERE tenant = :tenant AND scope IN :names ORDER BY scope"
_CREATE_SCOPE: Final = "INSERT INTO scopes (tenant, scope) VALUES (:tenant, :scope) ON CONFLICT DO NOTHING"
_ENQUEUE: Final = """
INSERT INTO embedding_queue (tenant, embedder, doc) VALUES (:tenant, :embedder, :doc) ON CONFLICT DO NOTHING
"""
_DELETE_VECTORS: Final = """
DELETE FROM vectors WHERE tenant = :tenant AND embedder = :embedder AND hash IN :passages AND NOT EXISTS (
  SELECT 1 FROM documents d WHERE d.tenant = vectors.tenant AND d.passage = vectors.hash AND d.passage <> '')
"""
_INSERT: Final = """
INSERT INTO documents (tenant, doc, scope, kind, item, part, start, stop, seq, at, length, passage, terms)
VALUES (:tenant, :doc, :scope, :kind, :item, :part, :start, :stop, :seq, :at, :length, :passage, :terms)
"""
_ALL_PARTS: Final = 2**31 - 1
_READ_DOCUMENTS: Final = """
SELECT d.doc, s.scope, d.kind, d.item, d.seq, d.at, d.part, d.start, d.stop FROM documents d
JOIN scopes s ON s.tenant = d.tenant AND s.number = d.scope
WHERE d.tenant = :tenant AND d.doc IN :docs
"""


class Scope(msgspec.Struct, frozen=True):
    """A scope with its totals."""

    name: str
    number: int
    documents: int
    words: int
    changes: int


def get_scopes(session: Session, names: Sequence[str]) -> list[Scope]:
    """Return the scopes with these names, in order of number. Missing ones are omitted."""
    found = session.rows(
        "SELECT scope, number, documents, words, changes FROM scopes WHERE tenant = :tenant AND scope IN :names "
        "ORDER BY number",
        names=list(dict.fromkeys(names)),
    )
    return [Scope(*row) for row in found]


def get_scope_groups(session: Session, groups: Iterable[tuple[str, ...]]) -> dict[tuple[str, ...], list[Scope]]:
    """Return the scopes of each group of names, in order of number. All are read at once."""
    distinct = dict.fromkeys(groups)
    found = get_scopes(session, [name for names in distinct for name in names])
    return {names: [scope for scope in found if scope.name in names] for names in distinct}


def list_scopes(session: Session, prefix: str, *, limit: int) -> list[str]:
    """Return the names of scopes that have documents and start with a prefix, in order."""
    end = prefix_end(prefix)
    sql = "SELECT scope FROM scopes WHERE tenant = :tenant AND scope >= :prefix AND documents > 0"
    sql += "" if end is None else " AND scope < :end"
    values = {"prefix": prefix} if end is None else {"prefix": prefix, "end": end}
    return [scope for (scope,) in session.rows(f"{sql} ORDER BY scope LIMIT :limit", limit=limit, **values)]


def add_to_scopes(session: Session, totals: Mapping[str, tuple[int, int]]) -> dict[str, int]:
    """Add (documents, words) to scopes, creating missing ones, and return their numbers."""
    names = sorted(totals)  # sorted, to avoid deadlocks
    if len(names) == 1:
        return {names[0]: _add_to_scope(session, names[0], *totals[names[0]])}
    found = session.rows("SELECT scope FROM scopes WHERE tenant = :tenant AND scope IN :names", names=names)
    known = {scope for (scope,) in found}
    session.insert(_CREATE_SCOPE, ({"scope": scope} for scope in names if scope not in known))
    numbers: dict[str, int] = dict(session.lock_rows(_LOCK_SCOPES, names=names))
    session.many(
        "UPDATE scopes SET documents = documents + :documents, words = words + :words, changes = changes + 1 "
        "WHERE tenant = :tenant AND number = :number",
        (
            {"number": number, "documents": totals[scope][0], "words": totals[scope][1]}
            for scope, number in numbers.items()
        ),
    )
    return numbers


def subtract_from_scopes(session: Session, totals: Mapping[int, tuple[int, int]]) -> None:
    """Subtract (documents, words) from scopes by number."""
    session.many(
        "UPDATE scopes SET documents = documents - :documents, words = words - :words, changes = changes + 1 "
        "WHERE tenant = :tenant AND number = :number",
        (
            {"number": number, "documents": documents, "words": words}
            for number, (documents, words) in sorted(totals.items())
        ),
    )


def mark_changed(session: Session, numbers: Iterable[int]) -> None:
    """Record that scopes changed, by number."""
    session.many(
        "UPDATE scopes SET changes = changes + 1 WHERE tenant = :tenant AND number = :number",
        ({"number": number} for number in sorted(set(numbers))),
    )


def mark_scope_changed(session: Session, scope: str) -> None:
    """Record that a scope changed, by name."""
    session.run("UPDATE scopes SET changes = changes + 1 WHERE tenant = :tenant AND scope = :scope", scope=scope)


def scope_version(session: Session, scopes: Sequence[str]) -> str:
    """Return a string that changes with every write to the scopes, by any process."""
    return " ".join(scope_versions(session, scopes).values())


def scope_versions(session: Session, scopes: Sequence[str]) -> dict[str, str]:
    """Return the version of each scope, in order of number. Missing ones are omitted."""
    return {scope.name: f"{scope.number}.{scope.changes}" for scope in get_scopes(session, scopes)}


def _add_to_scope(session: Session, scope: str, documents: int, words: int) -> int:
    found = session.row(_ADD_TO_SCOPE, scope=scope, documents=documents, words=words)
    if found is None:
        session.run(_CREATE_SCOPE, scope=scope)
        found = session.row(_ADD_TO_SCOPE, scope=scope, documents=documents, words=words)
    if found is None:
        raise LookupError(f"scope {scope!r} was made and is not there")
    return int(found[0])


def list_embedders(session: Session) -> list[str]:
    """Return the embedders in use, newest first."""
    found = session.rows("SELECT id FROM embedders WHERE tenant = :tenant AND dropped = 0 ORDER BY since DESC")
    return [id for (id,) in found]


def enqueue_documents(session: Session, documents: Sequence[DocumentRef]) -> None:
    """Queue new documents for each embedder that has no vector of their passage yet."""
    session.dialect.lock_shared(session, "embedders")
    for embedder in list_embedders(session):
        known = session.dialect.vector_index.add(session, embedder, documents)
        waiting = [doc for doc, _, passage in documents if passage not in known]
        session.insert(_ENQUEUE, ({"embedder": embedder, "doc": doc} for doc in waiting))
        if waiting:
            add_job(session, "embed", embedder)


def request_indexing(session: Session) -> None:
    """Have a worker index messages that are written without their terms."""
    session.dialect.lock_shared(session, "embedders")
    for embedder in list_embedders(session):
        add_job(session, "embed", embedder)


def dequeue_documents(session: Session, documents: Sequence[DocumentRef]) -> None:
    """Remove documents from the queues, and delete vectors of passages that no document has any more."""
    if not documents:
        return
    for embedder in list_embedders(session):
        session.run(
            "DELETE FROM embedding_queue WHERE tenant = :tenant AND embedder = :embedder AND doc IN :docs",
            embedder=embedder,
            docs=[doc for doc, _, _ in documents],
        )
        session.dialect.vector_index.remove(session, embedder, documents)
        session.run(_DELETE_VECTORS, embedder=embedder, passages=sorted({passage for _, _, passage in documents}))


class NewDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A record to index."""

    kind: DocumentKind
    item: str
    scope: str
    entry: IndexEntry
    seq: int = 0
    at: float = 0.0
    part: int = 0


def add_documents(session: Session, entries: Sequence[NewDocument]) -> None:
    """Add records to the index: one document for each passage."""
    if not entries:
        return
    passages = [passage for entry in entries for passage in _divide(session, entry)]
    numbers = add_to_scopes(session, _totals(passages))
    docs = session.dialect.next_doc_numbers(session, len(passages))
    rows = [_row(session, entry, doc, numbers[entry.scope]) for entry, doc in zip(passages, docs, strict=True)]
    _link_passages(rows)
    _insert_rows(session, rows)


def _insert_rows(session: Session, rows: Sequence[dict[str, Any]]) -> None:
    insert_documents(session, _INSERT, rows)
    enqueue_documents(session, [(row["doc"], row["scope"], row["passage"]) for row in rows if row["passage"]])


def insert_documents(session: Session, statement: str, rows: Sequence[dict[str, Any]]) -> None:
    """Insert rows of documents with their tokens, and add them to the full-text index."""
    session.insert(statement, ({**row, "terms": session.dialect.encode_terms(row["terms"])} for row in rows))
    session.dialect.text_index.add(session, _indexed(rows))


def _indexed(rows: Sequence[dict[str, Any]]) -> list[IndexedDocument]:
    return [
        IndexedDocument(doc=row["doc"], scope=row["scope"], seq=row["seq"], length=row["length"], tokens=row["terms"])
        for row in rows
    ]


def indexed_items(session: Session, kind: DocumentKind, items: Sequence[str]) -> set[str]:
    """Return the records that are in the index."""
    found = session.rows(
        "SELECT item FROM documents WHERE tenant = :tenant AND kind = :kind AND item IN :items",
        kind=kind,
        items=list(items),
    )
    return {item for (item,) in found}


def remove_documents(
    session: Session, kind: DocumentKind, items: Sequence[str], *, before_part: int = _ALL_PARTS
) -> None:
    """Remove records from the index, or only their documents with smaller numbers than a part."""
    found = session.rows(
        "DELETE FROM documents WHERE tenant = :tenant AND kind = :kind AND item IN :items AND part < :before_part "
        "RETURNING doc, scope, seq, length, passage, terms",
        kind=kind,
        items=list(items),
        before_part=before_part,
    )
    totals: dict[int, tuple[int, int]] = {}
    for _, scope, _, length, _, _ in found:
        documents, words = totals.get(scope, (0, 0))
        totals[scope] = (documents + 1, words + length)
    subtract_from_scopes(session, totals)
    session.dialect.text_index.remove(session, [decode_indexed(session, (*row[:4], row[5])) for row in found])
    dequeue_documents(session, [(doc, scope, passage) for doc, scope, _, _, passage, _ in found if passage])


def decode_indexed(session: Session, row: Sequence[Any]) -> IndexedDocument:
    """Return what the full-text index has of a stored document."""
    doc, scope, seq, length, terms = row
    tokens = session.dialect.decode_terms(scope, terms)
    return IndexedDocument(doc=doc, scope=scope, seq=seq, length=length, tokens=tokens)


def replace_documents(session: Session, entries: Sequence[NewDocument]) -> None:
    """Add records to the index, replacing those with the same ids."""
    if entries:
        remove_documents(session, entries[0].kind, [entry.item for entry in entries])
        add_documents(session, entries)


def get_documents(session: Session, docs: Sequence[int]) -> list[Document]:
    """Return the documents with these numbers, in this order. Missing ones are skipped."""
    found = {row[0]: decode_document(row) for row in session.rows(_READ_DOCUMENTS, docs=[int(doc) for doc in docs])}
    return [found[doc] for doc in docs if doc in found]


def decode_document(row: Sequence[Any]) -> Document:
    doc, scope, kind, item, seq, at, part, start, stop = row
    return Document(doc=doc, scope=scope, kind=kind, item=item, seq=seq, at=at, part=part, start=start, stop=stop)


def _divide(session: Session, entry: NewDocument) -> list[NewDocument]:
    """Return the documents of a record, one for each passage that may be indexed."""
    passages = [filter_searchable(session, each) for each in (entry.entry, *entry.entry.further)]
    documents = [
        msgspec.structs.replace(entry, entry=passage, part=part)
        for part, passage in enumerate(passages, entry.part)
        if not part or passage.terms or passage.passage
    ]
    if passages[0].rest:
        rest = IndexEntry(start=passages[0].rest)
        documents.append(msgspec.structs.replace(entry, entry=rest, part=rest_part(entry.part + len(passages))))
    return documents


def rest_part(part: int) -> int:
    """Return the number of the empty document that says from which part on a very long text is not indexed yet.

    It is also the other way around.
    """
    return -1 - part


def _link_passages(rows: Sequence[dict[str, Any]]) -> None:
    """Give the passages of a memory or lore entry a common position: their first document.

    Messages have a position already. Summaries have none, because they are not searched.
    """
    divided = {(row["kind"], row["item"]) for row in rows if row["part"] and row["kind"] in ("memory", "lore")}
    first = {(row["kind"], row["item"]): row["doc"] for row in rows if not row["part"]}
    for row in rows:
        key = (row["kind"], row["item"])
        if key in divided:
            row["seq"] = first.get(key, row["seq"])


def _totals(entries: Sequence[NewDocument]) -> dict[str, tuple[int, int]]:
    totals: dict[str, tuple[int, int]] = {}
    for entry in entries:
        documents, words = totals.get(entry.scope, (0, 0))
        totals[entry.scope] = (documents + 1, words + len(entry.entry.terms))
    return totals


def _row(session: Session, entry: NewDocument, doc: int, scope: int) -> dict[str, Any]:
    passage = entry.entry.passage
    return {
        "doc": doc,
        "scope": scope,
        "kind": entry.kind,
        "item": entry.item,
        "part": entry.part,
        "start": entry.entry.start,
        "stop": entry.entry.stop,
        "seq": entry.seq,
        "at": entry.at,
        "length": len(entry.entry.terms),
        "passage": storage_address(session, content_hash(passage)) if passage else "",
        "terms": index_tokens(session, scope, entry.entry.terms),
    }
