"""Full-text search in PostgreSQL: packed postings in segments.

A write adds one row to the tail of its scope. After some writes, the tail is merged into a segment, together with
earlier segments that are not much larger, so that a scope has few segments and a document is rewritten few times. All
of this happens in the transaction of a writer, which has locked the row of the scope.

An inverted index (GIN) would not be used: row-level security makes the server check the tenant of every row before it
applies an array operator.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec.structs import astuple

from brimful.core.validation import MAX_INTEGER
from brimful.stores.index.terms import split_token
from brimful.stores.session import IndexedDocument, Session

if TYPE_CHECKING:
    from brimful.stores.index.packing import Listing, Row
    from brimful.stores.session import Occurrences

_LOCK: Final = """
INSERT INTO term_scopes (tenant, scope, writes) VALUES {rows}
ON CONFLICT (tenant, scope) DO UPDATE SET writes = term_scopes.writes + 1
RETURNING scope, writes, segments
"""
_READ: Final = """
SELECT scope, writes, segments FROM term_scopes WHERE tenant = :tenant AND scope IN :scopes
"""
_SAVE: Final = "UPDATE term_scopes SET segments = :segments WHERE tenant = :tenant AND scope = :scope"
_INSERT: Final = """
INSERT INTO term_blocks (tenant, scope, segment, part, term, body)
VALUES (:tenant, :scope, :segment, :part, :term, :body)
"""
_DELETE: Final = """
DELETE FROM term_blocks b USING unnest(:segments::bigint[], :parts::bigint[], :terms::text[]) AS r (segment, part, term)
WHERE b.tenant = :tenant AND b.scope = :scope AND b.segment = r.segment AND b.part = r.part AND b.term = r.term
"""
_EMPTY: Final = "SELECT number FROM scopes WHERE tenant = :tenant AND number IN :scopes AND documents = 0"
_DELETE_BLOCKS: Final = "DELETE FROM term_blocks WHERE tenant = :tenant AND scope IN :scopes"
_DELETE_SCOPES: Final = "DELETE FROM term_scopes WHERE tenant = :tenant AND scope IN :scopes"
_TAKE: Final = """
DELETE FROM term_blocks WHERE tenant = :tenant AND scope = :scope AND segment >= :first RETURNING part, term, body
"""
# Each lookup is a search in the index of its own: joined otherwise, the server may read all rows of a tenant.
_FIND: Final = """
SELECT DISTINCT ON (q.scope, q.segment, b.term) q.scope, q.segment, 0, b.term, b.body
FROM unnest(:scopes::bigint[], :segments::bigint[], :terms::text[]) AS q (scope, segment, term)
CROSS JOIN LATERAL (
  SELECT term, body FROM term_blocks WHERE tenant = :tenant AND scope = q.scope AND segment = q.segment AND part = 0
    AND term <= q.term ORDER BY term DESC LIMIT 1
) b
UNION ALL
SELECT q.scope, b.segment, b.part, b.term, b.body
FROM unnest(:all_scopes::bigint[], :ends::bigint[]) AS q (scope, segment)
CROSS JOIN LATERAL (
  SELECT segment, part, term, body FROM term_blocks WHERE tenant = :tenant AND scope = q.scope AND segment > q.segment
  OFFSET 0
) b
"""
_FIND_PARTS: Final = """
SELECT q.scope, q.segment, q.part, q.term, b.body
FROM unnest(:scopes::bigint[], :segments::bigint[], :parts::bigint[], :terms::text[]) AS q (scope, segment, part, term)
CROSS JOIN LATERAL (
  SELECT body FROM term_blocks WHERE tenant = :tenant AND scope = q.scope AND segment = q.segment AND part = q.part
    AND term = q.term OFFSET 0
) b
"""
_READ_SCOPE: Final = """
SELECT scope, segment, part, term, body FROM term_blocks WHERE tenant = :tenant AND scope = :scope
"""
_SCOPES: Final = "SELECT number FROM scopes WHERE tenant = :tenant ORDER BY number"
_READ_DOCUMENTS: Final = """
SELECT doc, terms FROM documents WHERE tenant = :tenant AND scope = :scope
"""
_LOCKED_SCOPES: Final = 64  # by one statement
_MERGE_RATIO: Final = 2  # a segment is merged with an earlier one that has at most so many times as many documents

Key = tuple[int, int, int, str]
"""The scope, segment, part and first term of a row."""


class _Segment(msgspec.Struct, frozen=True):
    """A segment: how many documents it lists, and the first and the last of them."""

    number: int
    documents: int
    first: int
    last: int


class _Scope(msgspec.Struct, frozen=True):
    """The state of a scope's index."""

    number: int
    writes: int
    segments: list[_Segment]

    @classmethod
    def of(cls, number: int, writes: int, packed: Sequence[int]) -> _Scope:
        fields = iter(packed)
        segments = [_Segment(*each) for each in zip(fields, fields, fields, fields, strict=True)]
        return cls(number, writes, segments)


class PostgresTextIndex:
    """The full-text index."""

    def add(self, session: Session, documents: Sequence[IndexedDocument]) -> None:
        from brimful.stores.index import packing  # noqa: PLC0415 - numpy

        by_scope = _by_scope(documents)
        writes = [
            _Write(scope, packing.list_documents(added), len(added))
            for scope in _lock(session, by_scope)
            for added in (by_scope[scope.number],)
        ]
        _add(session, writes)

    def remove(self, session: Session, documents: Sequence[IndexedDocument]) -> None:
        by_scope = _by_scope(documents)
        scopes = _lock(session, by_scope)
        empty = {number for (number,) in session.rows(_EMPTY, scopes=list(by_scope))}
        for scope in scopes:
            if scope.number not in empty:
                _remove(session, scope, by_scope[scope.number])
        session.run(_DELETE_BLOCKS, scopes=list(empty))
        session.run(_DELETE_SCOPES, scopes=list(empty))

    def find(self, session: Session, tokens: Sequence[str]) -> PostgresTerms:
        return PostgresTerms(session, tokens)

    def count_mismatches(self, session: Session) -> int:
        """Return the number of tokens whose documents in the index are not those that contain it."""
        return sum(_count_mismatches(session, scope) for (scope,) in session.rows(_SCOPES))

    def compact(self, session: Session) -> None:
        """Do nothing: the server vacuums removed rows."""


class PostgresTerms:
    """The terms of a search."""

    def __init__(self, session: Session, tokens: Sequence[str]) -> None:
        """Read the rows in which the tokens are listed, and count their documents."""
        self._session = session
        self._split = {token: split_token(token) for token in tokens}
        numbers = sorted({scope for scope, _ in self._split.values()})
        scopes = [_Scope.of(*row) for row in session.rows(_READ, scopes=numbers)]
        self._last = {(scope.number, each.number): each.last for scope in scopes for each in scope.segments}
        self._listed = _find(session, scopes, set(self._split.values()))
        self.totals = {token: sum(each.count for each in self._listed[i]) for token, i in self._split.items()}

    def occurrences(self, tokens: Sequence[str]) -> dict[str, Occurrences]:
        listed = {token: self._listed[self._split[token]] for token in tokens}
        parts = _read_parts(self._session, [key for found in listed.values() for each in found for key in each.parts])
        return {
            token: _in_order(
                [
                    *(each.rows for each in found if not each.parts),
                    *(parts[key] for each in found for key in each.parts),
                ]
            )
            for token, found in listed.items()
        }

    def newest(self, token: str, limit: int) -> Occurrences:
        found = self._listed[self._split[token]]
        rows = [each.rows for each in found]
        # Parts are in order of their documents, and segments nearly so: the latest ones are read until older ones
        # cannot contain a newer document.
        common = sorted((each for each in found if each.parts), key=lambda each: self._last[each.segment], reverse=True)
        for each in common:
            newest = _last(_in_order(rows), limit)
            if newest.shape[1] == limit and newest[0].min(initial=MAX_INTEGER) > self._last[each.segment]:
                break
            rows += _read_parts(self._session, each.parts[-_parts_for(limit) :]).values()
        return _last(_in_order(rows), limit)


class _Listed(msgspec.Struct, frozen=True):
    """A term in a row: the number of its documents, these documents, or the keys of the rows that list them."""

    segment: tuple[int, int]
    count: int
    rows: Occurrences
    parts: list[Key]


def _find(
    session: Session, scopes: Iterable[_Scope], wanted: set[tuple[int, str]]
) -> defaultdict[tuple[int, str], list[_Listed]]:
    """Return where terms of scopes are listed."""
    found: defaultdict[tuple[int, str], list[_Listed]] = defaultdict(list)
    terms: defaultdict[int, set[str]] = defaultdict(set)
    for scope, term in wanted:
        terms[scope].add(term)
    for key, listing in _find_blocks(session, scopes, wanted):
        for term, count, rows in listing.split(terms[key[0]]):
            parts = _part_keys(key, term, count, rows)
            found[key[0], term].append(_Listed(key[:2], count, rows, parts))
    return found


def _find_blocks(
    session: Session, scopes: Iterable[_Scope], wanted: Iterable[tuple[int, str]], docs: Collection[int] = ()
) -> list[tuple[Key, Listing]]:
    """Return the blocks that may list terms of scopes, and the tails of the scopes.

    With `docs`, blocks of segments without any of these documents are omitted.
    """
    segments = {scope.number: scope.segments for scope in scopes}
    places = [
        (scope, segment.number, term)
        for scope, term in wanted
        for segment in segments.get(scope, ())
        if not docs or any(segment.first <= doc <= segment.last for doc in docs)
    ]
    return _decode(
        session.rows(
            _FIND,
            scopes=[scope for scope, _, _ in places],
            segments=[segment for _, segment, _ in places],
            terms=[term for _, _, term in places],
            all_scopes=list(segments),
            ends=[max((each.number for each in found), default=0) for found in segments.values()],
        )
    )


def _read_parts(session: Session, keys: Sequence[Key]) -> dict[Key, Occurrences]:
    """Return the documents of common terms."""
    if not keys:
        return {}
    scopes, segments, parts, terms = map(list, zip(*keys, strict=True))
    rows = session.rows(_FIND_PARTS, scopes=scopes, segments=segments, parts=parts, terms=terms)
    return {key: listing.rows for key, listing in _decode(rows)}


def _decode(rows: Sequence[tuple[Any, ...]]) -> list[tuple[Key, Listing]]:
    from brimful.stores.index import packing  # noqa: PLC0415 - numpy

    listings = packing.decode([packing.Row(part, term, body) for _, _, part, term, body in rows])
    return [
        ((scope, segment, part, term), listing)
        for (scope, segment, part, term, _), listing in zip(rows, listings, strict=True)
    ]


def _part_keys(block: Key, term: str, count: int, rows: Occurrences) -> list[Key]:
    """Return the keys of the rows that list the documents of a term, if its block does not."""
    from brimful.stores.index import packing  # noqa: PLC0415 - numpy

    if rows.shape[1] == count:
        return []
    last = packing.FIRST_PART + -(-count // packing.PART_DOCUMENTS)
    return [(*block[:2], part, term) for part in range(packing.FIRST_PART, last)]


def _parts_for(limit: int) -> int:
    """Return how many parts have at least so many documents: the last one may have only one."""
    from brimful.stores.index import packing  # noqa: PLC0415 - numpy

    return 1 + -(-limit // packing.PART_DOCUMENTS)


class _Write(msgspec.Struct, frozen=True):
    """New documents of a scope that is locked."""

    scope: _Scope
    listing: Any  # a Listing, whose module loads numpy
    documents: int


def _add(session: Session, writes: Iterable[_Write]) -> None:
    """Write new documents to the tails of their scopes, or merge them with the tail and small segments."""
    from brimful.stores.index import packing  # noqa: PLC0415 - numpy

    rows: list[tuple[int, int, Row]] = []
    merged: dict[int, list[_Segment]] = {}
    for each in writes:
        number, segment = each.scope.number, each.scope.writes
        kept = _kept_segments(session, each)
        if kept is None:
            rows += [(number, segment, row) for row in packing.encode_tail(each.listing)]
            continue
        first = kept[-1].number + 1 if kept else 0
        taken = session.rows(_TAKE, scope=number, first=first) if segment > 1 else []
        listing = packing.merge([each.listing, *packing.decode([packing.Row(*row) for row in taken])])
        rows += [(number, segment, row) for row in packing.encode_segment(listing)]
        docs = set(listing.rows[0].tolist())
        merged[number] = [*kept, _Segment(segment, len(docs), min(docs), max(docs))]
    _insert(session, rows)
    saved = {number: [value for each in segments for value in astuple(each)] for number, segments in merged.items()}
    session.many(_SAVE, [{"scope": number, "segments": values} for number, values in saved.items()])


def _kept_segments(session: Session, write: _Write) -> list[_Segment] | None:
    """Return the segments that a write is not merged with; None if it is not merged at all yet."""
    tuning = session.dialect.tuning
    kept = list(write.scope.segments)
    size = max(write.documents, write.scope.writes - (kept[-1].number if kept else 0))
    if size < tuning.tail_writes:
        return None
    while kept and size + kept[-1].documents <= tuning.segment_documents and kept[-1].documents <= _MERGE_RATIO * size:
        size += kept.pop().documents
    return kept


def _remove(session: Session, scope: _Scope, documents: Sequence[IndexedDocument]) -> None:
    """Write the blocks that list documents again without them."""
    from brimful.stores.index import packing  # noqa: PLC0415 - numpy

    docs = {each.doc for each in documents}
    wanted = {split_token(token) for each in documents for token in each.tokens}
    blocks = _find_blocks(session, [scope], wanted, docs)
    common = {
        key: [part for term, count, rows in listing.split() for part in _part_keys(key, term, count, rows)]
        for key, listing in blocks
    }
    parts = _read_parts(session, [key for keys in common.values() for key in keys])
    old: list[Key] = []
    new: list[tuple[int, int, Row]] = []
    for key, listing in blocks:
        whole = packing.merge([listing, *(packing.list_term(part[3], parts[part]) for part in common[key])])
        rest = packing.without(whole, docs)
        if rest.rows.shape[1] < whole.rows.shape[1]:
            old += [key, *common[key]]
            rows = packing.encode_tail(rest) if key[2] == packing.TAIL else packing.encode_segment(rest)
            new += [(scope.number, key[1], row) for row in rows]
    _delete(session, scope.number, old)
    _insert(session, new)


def _delete(session: Session, scope: int, keys: Sequence[Key]) -> None:
    if keys:
        _, segments, parts, terms = map(list, zip(*keys, strict=True))
        session.run(_DELETE, scope=scope, segments=segments, parts=parts, terms=terms)


def _insert(session: Session, rows: Iterable[tuple[int, int, Row]]) -> None:
    """Insert rows, each with its scope and segment."""
    session.insert(
        _INSERT,
        (
            {"scope": scope, "segment": segment, "part": row.part, "term": row.term, "body": row.body}
            for scope, segment, row in rows
        ),
    )


def _lock(session: Session, numbers: Iterable[int]) -> list[_Scope]:
    """Lock scopes for a write, in order of number, so that concurrent writers cannot deadlock."""
    ordered, found = sorted(numbers), []
    for start in range(0, len(ordered), _LOCKED_SCOPES):
        scopes = {f"scope{i}": number for i, number in enumerate(ordered[start : start + _LOCKED_SCOPES])}
        rows = ", ".join(f"(:tenant, :{name}, 1)" for name in scopes)
        found += session.rows(_LOCK.format(rows=rows), **scopes)
    return [_Scope.of(*row) for row in found]


def _by_scope(documents: Iterable[IndexedDocument]) -> dict[int, list[IndexedDocument]]:
    """Return documents with tokens by scope."""
    found: dict[int, list[IndexedDocument]] = {}
    for each in documents:
        if each.tokens:
            found.setdefault(each.scope, []).append(each)
    return found


def _count_mismatches(session: Session, scope: int) -> int:
    """Return the number of terms of a scope whose documents in the index are not those that contain it."""
    from brimful.stores.index import packing  # noqa: PLC0415 - numpy

    totals: Counter[str] = Counter()
    listed: dict[str, list[int]] = defaultdict(list)
    for key, listing in _decode(session.rows(_READ_SCOPE, scope=scope)):
        for term, count, rows in listing.split():
            listed[term] += rows[0].tolist()
            totals[term] += count if key[2] < packing.FIRST_PART else 0
    actual: dict[str, list[int]] = defaultdict(list)
    for doc, terms in session.rows(_READ_DOCUMENTS, scope=scope):
        for token in set(session.dialect.decode_terms(scope, terms)):
            actual[split_token(token)[1]].append(doc)
    return sum(
        totals[term] != len(actual[term]) or sorted(listed[term]) != sorted(actual[term])
        for term in {*totals, *listed, *actual}
    )


def _last(rows: Occurrences, limit: int) -> Occurrences:
    return rows[:, rows.shape[1] - min(limit, rows.shape[1]) :]


def _in_order(parts: Sequence[Occurrences]) -> Occurrences:
    """Join lists of documents, each of them oldest first."""
    import numpy as np  # noqa: PLC0415 - only where something is searched

    if len(parts) == 1:
        return parts[0]
    rows = np.concatenate([np.empty((4, 0), np.int64), *parts], axis=1)
    return rows[:, np.argsort(rows[0], kind="stable")]
