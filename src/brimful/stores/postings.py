"""Where terms occur."""

from collections.abc import Sequence
from itertools import accumulate
from typing import Final

import msgspec

from brimful.answers import Postings
from brimful.stores.scopes import Scope, scopes_of
from brimful.stores.searching import tokens_asked
from brimful.stores.session import Row, Session

_COLUMNS: Final = 5


class _Asked(msgspec.Struct, frozen=True):
    """A term that is asked for: its place in the question, its tokens in each scope, and how often it is found."""

    term: int
    tokens: tuple[str, ...]
    total: int


def postings(session: Session, names: Sequence[str], terms: Sequence[str], most: int) -> Postings:
    """Return where the terms occur in the scopes, at most so many rows: rare terms are read, common ones counted."""
    scopes = scopes_of(session, names)
    asked = _asked(session, terms, scopes)
    rarest = sorted((term for term in asked if term.total), key=lambda term: (term.total, term.term))
    sums = accumulate(term.total for term in rarest)
    read = {term.term for term, total in zip(rarest, sums, strict=True) if total <= most}
    if rarest and not read:
        rows = _newest(session, rarest[0], most)
    else:
        rows = _places(session, [term for term in asked if term.term in read])
    doc, seq, length, frequency, term = zip(*rows, strict=True) if rows else [()] * _COLUMNS
    return Postings(
        terms=tuple(terms),
        found=tuple(each.total for each in asked),
        documents=sum(scope.documents for scope in scopes),
        words=sum(scope.words for scope in scopes),
        doc=doc,
        seq=seq,
        length=length,
        term=term,
        frequency=frequency,
    )


def _asked(session: Session, terms: Sequence[str], scopes: Sequence[Scope]) -> list[_Asked]:
    tokens = [tuple(token for scope in scopes for token in tokens_asked(session, scope.number, term)) for term in terms]
    found = session.dialect.lexicon.found(session, sorted({token for group in tokens for token in group}))
    return [_Asked(at, group, sum(found.get(token, 0) for token in group)) for at, group in enumerate(tokens)]


def _places(session: Session, asked: Sequence[_Asked]) -> list[Row]:
    """Return all rows of terms, term by term, the oldest documents first."""
    rows: dict[str, list[Row]] = {token: [] for term in asked for token in term.tokens}
    for token, *row in session.dialect.lexicon.places(session, sorted(rows)):
        rows[token].append(tuple(row))
    return [(*row, term.term) for term in asked for row in sorted(row for token in term.tokens for row in rows[token])]


def _newest(session: Session, term: _Asked, most: int) -> list[Row]:
    """Return the newest documents of a term, over all scopes."""
    rows = [row for token in term.tokens for row in session.dialect.lexicon.newest(session, token, most)]
    rows.sort(key=lambda row: -row[0])
    return [(*row, term.term) for row in rows[:most]]
