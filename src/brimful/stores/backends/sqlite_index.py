"""Search indexes in SQLite: full text with FTS5, and vectors in a table that is searched in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from brimful.records.search import VectorHit
from brimful.stores.encryption.cipher import decrypt, encrypt
from brimful.stores.index import terms
from brimful.stores.session import DocumentRef, IndexedDocument, Row, Session
from brimful.stores.tuning import Tuning
from brimful.stores.vectors import log

if TYPE_CHECKING:
    from brimful.protocols import Vectors
    from brimful.stores.vectors.cache import VectorCache


if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from brimful.stores.session import Occurrences

    Numbers = npt.NDArray[np.int64]

# The index has no tenant column: a token starts with the number of its scope, and a scope belongs to one tenant.
# Documents are still filtered by tenant. Columns are returned as JSON: one row takes a third of the time of thousands.
_POSTINGS: Final = """
SELECT json_group_array(terms.key), json_group_array(p.doc)
FROM json_each(:tokens) terms CROSS JOIN text_index_positions p ON p.term = terms.value WHERE :tenant = :tenant
"""
_DOCUMENTS: Final = """
SELECT json_group_array(doc), json_group_array(seq), json_group_array(length)
FROM documents WHERE tenant = :tenant AND doc IN :docs
"""
_NEWEST: Final = """
SELECT json_group_array(d.doc), json_group_array(d.seq), json_group_array(d.length),
  json_group_array((length(d.terms) - length(replace(d.terms, :written, ''))) / length(:written))
FROM (SELECT rowid AS doc FROM text_index WHERE text_index MATCH :written ORDER BY rowid DESC LIMIT :limit) p
CROSS JOIN documents d ON d.doc = p.doc WHERE d.tenant = :tenant
"""  # tokens are quoted in the same way in JSON and in a query
_DOCUMENT_COUNTS: Final = """
SELECT f.term AS token, f.doc AS documents FROM scopes s
CROSS JOIN text_index_terms f ON f.term >= printf('%x:', s.number) AND f.term < printf('%x;', s.number)
WHERE s.tenant = :tenant
"""
# As VALUES, because FTS5 writes to disk before each INSERT of a SELECT.
_ADD_DOCUMENT: Final = "INSERT INTO text_index (rowid, terms) VALUES (:doc, iif(:tenant <> '', :terms, NULL))"
_REMOVE_DOCUMENT: Final = """
INSERT INTO text_index (text_index, rowid, terms) VALUES ('delete', :doc, iif(:tenant <> '', :terms, NULL))
"""
_NUMBERS: Final = msgspec.json.Decoder(list[int])
_INSERT: Final = """
INSERT INTO vectors (tenant, embedder, hash, vector) VALUES (:tenant, :embedder, :hash, :vector) ON CONFLICT DO NOTHING
"""
_FIND: Final = """
SELECT hash, number FROM vectors WHERE tenant = :tenant AND embedder = :embedder AND hash IN :passages
"""
_LIST: Final = """
SELECT hash, vector FROM vectors WHERE tenant = :tenant AND embedder = :embedder AND hash > :after
ORDER BY hash LIMIT :limit
"""
_RELINK: Final = "UPDATE vector_log SET vector = :new WHERE tenant = :tenant AND embedder = :embedder AND vector = :old"
_READ_VECTORS: Final = "SELECT number, vector, hash FROM vectors WHERE tenant = :tenant AND number IN :numbers"


class SqliteTextIndex:
    """The full-text index."""

    def add(self, session: Session, documents: Sequence[IndexedDocument]) -> None:
        session.many(_ADD_DOCUMENT, ({"doc": each.doc, "terms": " ".join(each.tokens)} for each in documents))
        terms.add_counts(session, [each.tokens for each in documents])

    def remove(self, session: Session, documents: Sequence[IndexedDocument]) -> None:
        """Remove documents. A contentless index needs their tokens."""
        session.many(_REMOVE_DOCUMENT, ({"doc": each.doc, "terms": " ".join(each.tokens)} for each in documents))
        terms.subtract_counts(session, [each.tokens for each in documents])

    def find(self, session: Session, tokens: Sequence[str]) -> SqliteTerms:
        return SqliteTerms(session, tokens)

    def count_mismatches(self, session: Session) -> int:
        """Return the number of tokens whose stored document count is wrong."""
        return terms.count_mismatches(session, _DOCUMENT_COUNTS)

    def compact(self, session: Session) -> None:
        """Merge the index into one segment, without removed tokens."""
        session.run("INSERT INTO text_index (text_index) SELECT 'optimize' WHERE :tenant = :tenant")


class SqliteTerms:
    """Tokens that were looked up."""

    def __init__(self, session: Session, tokens: Sequence[str]) -> None:
        self._session = session
        self.totals = terms.document_counts(session, tokens)

    def occurrences(self, tokens: Sequence[str]) -> dict[str, Occurrences]:
        import numpy as np  # noqa: PLC0415 - only where something is searched

        token, doc = _columns(self._session.row(_POSTINGS, tokens=list(tokens)))
        order = np.lexsort((doc, token))
        token, doc = token[order], doc[order]
        first = np.flatnonzero(np.diff(doc, prepend=-1) | np.diff(token, prepend=-1))  # one row per token and document
        token, docs, times = token[first], doc[first], np.diff(first, append=len(doc))
        ordered = np.sort(docs)  # np.unique is slower and imports numpy.ma
        unique = ordered[np.diff(ordered, prepend=-1) > 0]
        located = _columns(self._session.row(_DOCUMENTS, docs=unique.tolist()))
        located = located[:, np.argsort(located[0], kind="stable")]
        index = np.searchsorted(located[0], docs)
        exists = np.append(located[0], -1)[index] == docs
        found = np.concatenate([located[:, index[exists]], times[None, exists]])
        ends = np.searchsorted(token[exists], np.arange(len(tokens)), side="right")
        return dict(zip(tokens, np.split(found, ends[:-1], axis=1), strict=True))

    def newest(self, token: str, limit: int) -> Occurrences:
        found = _columns(self._session.row(_NEWEST, written=f'"{token}"', limit=limit))
        return found[:, found[0].argsort()]


def _columns(row: Row | None) -> Numbers:
    """Decode columns of integers, each a JSON list."""
    import numpy as np  # noqa: PLC0415 - only where something is searched

    return np.array([_NUMBERS.decode(column) for column in row or ()], np.int64)


class SqliteVectorIndex:
    """The vector index."""

    def __init__(self) -> None:
        self._vectors: VectorCache | None = None

    def save(self, session: Session, embedder: str, passages: Sequence[str], vectors: Vectors) -> None:
        from brimful.stores.vectors.float16 import encode_float16, normalize  # noqa: PLC0415 - numpy, only where there are vectors

        rows = [(passage, encode_float16(vector)) for passage, vector in zip(passages, normalize(vectors), strict=True)]
        session.many(
            _INSERT,
            (
                {
                    "embedder": embedder,
                    "hash": passage,
                    "vector": encrypt(session, vector, "vectors", embedder, passage),
                }
                for passage, vector in rows
            ),
        )

    def add(self, session: Session, embedder: str, documents: Sequence[DocumentRef]) -> set[str]:
        passages = sorted({passage for _, _, passage in documents})
        known: dict[str, int] = dict(session.rows(_FIND, embedder=embedder, passages=passages))
        rows = [(scope, doc, known[passage]) for doc, scope, passage in documents if passage in known]
        if rows:
            from brimful.stores.vectors.blocks import write_blocks  # noqa: PLC0415 - numpy, only where there are vectors

            log.log_added(session, embedder, rows)
            for scope in sorted({scope for scope, _, _ in rows}):
                write_blocks(session, embedder, scope)
        return set(known)

    def remove(self, session: Session, embedder: str, documents: Sequence[DocumentRef]) -> None:
        log.log_removed(session, embedder, documents)

    def rename(self, session: Session, embedder: str, passages: Mapping[str, str]) -> None:
        log.drop_blocks(session, embedder)
        addresses = [*passages.keys(), *passages.values()]
        known: dict[str, int] = dict(session.rows(_FIND, embedder=embedder, passages=addresses))
        for old, new in passages.items():
            if old in known and new in known:  # an equal passage was embedded in the meantime
                session.run(_RELINK, embedder=embedder, old=known[old], new=known[new])
            if old in known and new and new not in known:
                _rename_vector(session, embedder, known[old], new)
            elif old in known:
                session.run("DELETE FROM vectors WHERE tenant = :tenant AND number = :old", old=known[old])

    def read(self, session: Session, embedder: str, after: str, limit: int) -> tuple[list[str], Vectors]:
        from brimful.stores.vectors.float16 import decode_float16  # noqa: PLC0415 - numpy, only where there are vectors

        rows = session.rows(_LIST, embedder=embedder, after=after, limit=limit)
        return [hash for hash, _ in rows], decode_float16([_decrypt_vector(session, embedder, *row) for row in rows])

    def drop(self, session: Session, embedder: str) -> None:
        """Delete the log of an embedder."""
        log.drop_log(session, embedder)

    def nearest(
        self, session: Session, embedder: str, scopes: Mapping[int, int], query: Vectors, limit: int
    ) -> list[VectorHit]:
        from brimful.stores.vectors.blocks import follow_log  # noqa: PLC0415 - numpy, only where there are vectors

        found: list[tuple[int, int, float]] = []
        since = _generation(session, embedder)
        cache = self._cache(session.dialect.tuning)
        keys = [(session.tenant, embedder, since, scope) for scope in scopes]
        for scope, key in zip(scopes, keys, strict=True):
            vectors = cache.scope_vectors(key, len(query))
            follow_log(session, embedder, scope, vectors, len(query))
            found += vectors.nearest(query, limit, lambda numbers: _read_vectors(session, embedder, numbers))
        cache.evict(keys)
        found.sort(key=lambda near: (-near[2], -near[0]))
        return [VectorHit(doc=doc, seq=seq, similarity=similarity) for doc, seq, similarity in found[:limit]]

    def _cache(self, tuning: Tuning) -> VectorCache:
        from brimful.stores.vectors.cache import VectorCache  # noqa: PLC0415 - numpy, only where there are vectors

        if self._vectors is None:
            self._vectors = VectorCache(tuning)
        return self._vectors


def _generation(session: Session, embedder: str) -> int:
    """Return the generation of an embedder. It changes when an embedder is dropped and used again."""
    found = session.row("SELECT since FROM embedders WHERE tenant = :tenant AND id = :id", id=embedder)
    return int(found[0]) if found else 0


def _read_vectors(session: Session, embedder: str, numbers: Sequence[int]) -> Vectors:
    """Return vectors by number, in order. A vector that was removed is zero."""
    from brimful.stores.vectors.float16 import decode_float16  # noqa: PLC0415 - numpy, only where there are vectors

    rows = session.rows(_READ_VECTORS, numbers=list(numbers))
    decrypted = {number: _decrypt_vector(session, embedder, hash, vector) for number, vector, hash in rows}
    blank = bytes(len(next(iter(decrypted.values()), b"")))
    return decode_float16([decrypted.get(number, blank) for number in numbers])


def _rename_vector(session: Session, embedder: str, number: int, new: str) -> None:
    for _, vector, old in session.rows(_READ_VECTORS, numbers=[number]):
        session.run(
            "UPDATE vectors SET hash = :new, vector = :vector WHERE tenant = :tenant AND number = :number",
            number=number,
            new=new,
            vector=encrypt(session, _decrypt_vector(session, embedder, old, vector), "vectors", embedder, new),
        )


def _decrypt_vector(session: Session, embedder: str, hash: str, vector: bytes) -> bytes:
    return decrypt(session, vector, "vectors", embedder, hash)
