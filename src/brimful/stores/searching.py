"""What a sealed store lets be searched. A term is kept as a keyed hash, and terms without their order."""

from collections.abc import Sequence

from brimful.protocols import Indexed
from brimful.stores.session import Session
from brimful.stores.tokens import spelled, tokens_of


def searchable(session: Session, indexed: Indexed) -> Indexed:
    """Return what of a record may be found: a sealed store may keep no terms, or no vectors that its database reads."""
    if session.keys is None or session.keys.keys.search == "vectors":
        return indexed
    if session.keys.keys.search == "none":
        return Indexed()
    return Indexed(terms=indexed.terms, passage="" if session.dialect.name == "postgres" else indexed.passage)


def tokens_kept(session: Session, scope: int, terms: Sequence[str]) -> list[str]:
    """Return the tokens of terms as the index of this store holds them."""
    if session.keys is None:
        return tokens_of(scope, terms)
    return sorted(session.keys.token(scope, spelled(term)) for term in terms)


def tokens_asked(session: Session, scope: int, term: str) -> list[str]:
    """Return the tokens under which a term may be found: two while some documents are still in the clear."""
    plain = tokens_of(scope, [term])
    if session.keys is None:
        return plain
    blind = session.keys.token(scope, spelled(term))
    return [blind, *plain] if session.keys.mixed else [blind]
