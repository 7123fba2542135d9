"""What a sealed store lets be searched. A term is kept as a keyed hash, and terms without their order."""

from collections.abc import Sequence

from brimful.answers import Indexed
from brimful.stores.sealing import address, is_keyed
from brimful.stores.session import Session
from brimful.stores.tenant_keys import BLIND, TenantKeys
from brimful.stores.tokens import spelled, tokens_of


def searchable(session: Session, indexed: Indexed) -> Indexed:
    """Return what of a record may be found: a sealed store may keep no terms, or no vectors that its database reads."""
    if session.keys is None or session.keys.keys.search == "vectors":
        return indexed
    if session.keys.keys.search == "none":
        return Indexed()
    return Indexed(terms=indexed.terms, passage="" if session.dialect.name == "postgres" else indexed.passage)


def passage_kept(session: Session, passage: str) -> str:
    """Return the address of a passage as this store may keep it."""
    kept = searchable(session, Indexed(passage=passage)).passage
    return kept if not kept or is_keyed(kept) else address(session, kept)


def tokens_moved(session: Session, tokens: Sequence[str]) -> list[str]:
    """Return tokens, which may be in the clear, as this store may keep them."""
    if session.keys is None:
        return list(tokens)
    kept = searchable(session, Indexed(terms=tuple(tokens))).terms
    return sorted(_blinded(session.keys, token) for token in kept)


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


def _blinded(keys: TenantKeys, token: str) -> str:
    scope, _, term = token.partition(":")
    return token if term.startswith(BLIND) else keys.token(int(scope, 16), term)
