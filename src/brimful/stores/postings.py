"""Where terms occur."""

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from brimful.protocols import Postings
from brimful.stores.scopes import Scope, scopes_of
from brimful.stores.searching import tokens_asked
from brimful.stores.session import Row, Session

_COLUMNS: Final = 5


class _Asked(msgspec.Struct, frozen=True):
    """A term that is asked for: its place in the question, its tokens in each scope, and how often each is found."""

    term: int
    tokens: tuple[str, ...]
    found: tuple[int, ...]

    @property
    def total(self) -> int:
        return sum(self.found)


def postings(session: Session, names: Sequence[str], terms: Sequence[str], most: int) -> Postings:
    """Return where the terms occur in the scopes; a term in more than `most` documents only tells how many."""
    scopes = scopes_of(session, names)
    asked = [_asked(session, at, term, scopes) for at, term in enumerate(terms)]
    rows = [(*row, term.term) for term in asked if term.total <= most for row in _places(session, term)]
    common = [term for term in asked if term.total > most]
    if common and len(common) == len(asked):
        rows = _newest(session, min(common, key=lambda term: (term.total, term.term)), most)
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


def _asked(session: Session, at: int, term: str, scopes: Sequence[Scope]) -> _Asked:
    tokens = tuple(token for scope in scopes for token in tokens_asked(session, scope.number, term))
    return _Asked(at, tokens, tuple(session.dialect.lexicon.found(session, token) for token in tokens))


def _places(session: Session, term: _Asked) -> Iterator[Row]:
    for token, found in zip(term.tokens, term.found, strict=True):
        if found:
            yield from session.dialect.lexicon.places(session, token)


def _newest(session: Session, term: _Asked, most: int) -> list[Row]:
    """Return the newest documents of a term, over all scopes."""
    rows = [row for token in term.tokens for row in session.dialect.lexicon.newest(session, token, most)]
    rows.sort(key=lambda row: -row[0])
    return [(*row, term.term) for row in rows[:most]]
