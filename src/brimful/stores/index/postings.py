"""Full-text search: the documents in which terms occur."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, chain
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from brimful.records.search import Postings, TermQuery
from brimful.stores.index.documents import Scope, get_scope_groups
from brimful.stores.index.terms import query_tokens
from brimful.stores.session import Session

if TYPE_CHECKING:
    from brimful.stores.session import Occurrences, TermLookup


class _Term(msgspec.Struct, frozen=True):
    """A term of a query: its position, its tokens in each scope, and the number of documents that contain it."""

    number: int
    tokens: tuple[str, ...]
    total: int


class _Search(msgspec.Struct, frozen=True, kw_only=True):
    """A query with its scopes and terms, and the terms rare enough to read."""

    query: TermQuery
    scopes: list[Scope]
    terms: list[_Term]
    read: list[_Term]

    @property
    def rarest(self) -> _Term | None:
        """The rarest term, if even that is too common to be read completely."""
        present = [term for term in self.terms if term.total]
        return None if self.read or self.query.rare_only or not present else min(present, key=_rarity)


def find_postings(session: Session, queries: Sequence[TermQuery]) -> list[Postings]:
    """Return the occurrences of terms for each query. Rare terms are read, common ones only counted."""
    scopes = get_scope_groups(session, (each.scopes for each in queries))
    tokens = [[_tokens(session, scopes[each.scopes], term) for term in each.terms] for each in queries]
    found = session.dialect.text_index.find(session, sorted(set(chain.from_iterable(chain.from_iterable(tokens)))))
    searches = [
        _make_search(each, scopes[each.scopes], mine, found.totals) for each, mine in zip(queries, tokens, strict=True)
    ]
    read = sorted({token for search in searches for term in search.read for token in term.tokens})
    occurrences = found.occurrences(read) if read else {}
    return [_make_result(found, search, occurrences) for search in searches]


def _tokens(session: Session, scopes: Sequence[Scope], term: str) -> tuple[str, ...]:
    return tuple(token for scope in scopes for token in query_tokens(session, scope.number, term))


def _make_search(
    query: TermQuery, scopes: list[Scope], tokens: Sequence[tuple[str, ...]], totals: Mapping[str, int]
) -> _Search:
    terms = [_Term(i, group, sum(totals.get(token, 0) for token in group)) for i, group in enumerate(tokens)]
    rarest = sorted((term for term in terms if term.total), key=_rarity)
    sums = accumulate(term.total for term in rarest)
    read = [term for term, total in zip(rarest, sums, strict=True) if total <= query.limit]
    return _Search(query=query, scopes=scopes, terms=terms, read=sorted(read, key=lambda term: term.number))


def _rarity(term: _Term) -> tuple[int, int]:
    return term.total, term.number


def _make_result(found: TermLookup, search: _Search, occurrences: Mapping[str, Occurrences]) -> Postings:
    rarest = search.rarest
    if rarest is None:
        parts = [
            (term.number, _merge_by_document([occurrences[token] for token in term.tokens])) for term in search.read
        ]
    else:
        limit = search.query.limit
        newest = _merge_by_document([found.newest(token, limit) for token in rarest.tokens])
        parts = [(rarest.number, newest[:, ::-1][:, :limit])]
    doc, seq, length, frequency = _join(rows for _, rows in parts)
    return Postings(
        terms=search.query.terms,
        document_frequency=tuple(term.total for term in search.terms),
        documents=sum(scope.documents for scope in search.scopes),
        words=sum(scope.words for scope in search.scopes),
        doc=doc,
        seq=seq,
        length=length,
        term=np.repeat([number for number, _ in parts], [rows.shape[1] for _, rows in parts]),
        frequency=frequency,
    )


def _merge_by_document(parts: Sequence[Occurrences]) -> Occurrences:
    """Merge several lists of occurrences, oldest document first."""
    if len(parts) == 1:
        return parts[0]
    rows = _join(parts)
    return rows[:, np.argsort(rows[0], kind="stable")]


def _join(parts: Iterable[Occurrences]) -> Occurrences:
    return np.concatenate([np.empty((4, 0), np.int64), *parts], axis=1)
