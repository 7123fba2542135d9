"""Index terms: how they are stored, in plain text or as keyed hashes, and how many documents contain each."""

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import chain, pairwise
from string import ascii_uppercase
from typing import Final

import msgspec

from brimful.records.search import IndexEntry
from brimful.stores.encryption.cipher import is_keyed_address, storage_address
from brimful.stores.encryption.tenant_keys import HASHED_TERM_PREFIX, TenantKeys
from brimful.stores.session import Session

_PLAIN_TERM = re.compile(r"[a-z0-9_\u0080-\ud7ff\ue000-\U0010ffff]{1,40}")
"""Terms that every index stores unchanged: short, and neither folded nor split by a tokenizer."""
_PACKED_TERM = re.compile(r"([A-Z])([^A-Z]*)")
_SHARED: Final = ascii_uppercase  # a letter for each number of characters
_MAX_SHARED: Final = len(_SHARED) - 1
_INCREASE: Final = """
INSERT INTO term_counts (tenant, token, documents) SELECT :tenant, key, value FROM json_each(:counts) WHERE true
ON CONFLICT (tenant, token) DO UPDATE SET documents = term_counts.documents + excluded.documents
"""
_DECREASE: Final = """
UPDATE term_counts SET documents = documents - removed.value FROM json_each(:counts) removed
WHERE tenant = :tenant AND token = removed.key
"""
_DELETE_ZERO: Final = "DELETE FROM term_counts WHERE tenant = :tenant AND documents <= 0 AND token IN :tokens"
_MISMATCHES: Final = """
SELECT count(DISTINCT token) FROM (
  SELECT * FROM (SELECT token, documents FROM term_counts WHERE tenant = :tenant EXCEPT {actual}) more
  UNION ALL SELECT * FROM ({actual} EXCEPT SELECT token, documents FROM term_counts WHERE tenant = :tenant) fewer
) wrong
"""
_READ_COUNTS: Final = "SELECT token, documents FROM term_counts WHERE tenant = :tenant AND token IN :tokens"


def make_tokens(scope: int, terms: Iterable[str]) -> list[str]:
    """Return the tokens of terms in a scope.

    >>> make_tokens(63, ["tea", "größe"])
    ['3f:tea', '3f:größe']
    """
    begin = f"{scope:x}:"
    return [begin + term for term in map(normalize_term, terms)]


def split_token(token: str) -> tuple[int, str]:
    """Return the scope and the term of a token.

    >>> split_token("3f:tea")
    (63, 'tea')
    """
    scope, _, term = token.partition(":")
    return int(scope, 16), term


def bare_terms(tokens: Sequence[str]) -> list[str]:
    """Return the terms of tokens that all have one scope.

    >>> bare_terms(["3f:tea", "3f:cake"])
    ['tea', 'cake']
    """
    start = tokens[0].index(":") + 1 if tokens else 0
    return [token[start:] for token in tokens]


def pack_terms(terms: Iterable[str]) -> str:
    """Return terms as one string: in order, each after a letter that says how much it shares with the one before.

    No stored term contains a capital letter from A to Z.

    >>> pack_terms(["tea", "cake", "team", "tea"])
    'AcakeAteaDDm'
    """
    packed: list[str] = []
    for before, term in pairwise(["", *sorted(terms)]):
        shared = 0
        for mine, other in zip(term, before[:_MAX_SHARED], strict=False):
            if mine != other:
                break
            shared += 1
        packed.append(_SHARED[shared] + term[shared:])
    return "".join(packed)


def unpack_terms(packed: str) -> list[str]:
    """Return the terms of a string, in order.

    >>> unpack_terms("AcakeAteaDDm")
    ['cake', 'tea', 'tea', 'team']
    """
    terms, before = [], ""
    for begin, rest in _PACKED_TERM.findall(packed):
        before = before[: ord(begin) - ord("A")] + rest
        terms.append(before)
    return terms


@lru_cache(maxsize=65_536)
def normalize_term(term: str) -> str:
    """Return a term unchanged, or a hash if an index could not store it unchanged.

    >>> normalize_term("tea"), normalize_term("Tea")
    ('tea', '=2b6e2daef3eb5fd975ee1d541f7725c1')
    """
    if _PLAIN_TERM.fullmatch(term):
        return term
    return "=" + hashlib.blake2b(term.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def filter_searchable(session: Session, indexed: IndexEntry) -> IndexEntry:
    """Return what may be indexed: an encrypted store may store no terms, or no vectors that the database can read."""
    if session.keys is None or session.keys.keys.search == "vectors":
        return indexed
    if session.keys.keys.search == "none":
        return IndexEntry()
    passage = "" if session.dialect.name == "postgres" else indexed.passage
    return msgspec.structs.replace(indexed, passage=passage)


def passage_address(session: Session, passage: str) -> str:
    """Return the keyed address of a passage, or an empty string if it may not be stored."""
    address = filter_searchable(session, IndexEntry(passage=passage)).passage
    return address if not address or is_keyed_address(address) else storage_address(session, address)


def rekey_tokens(session: Session, tokens: Sequence[str]) -> list[str]:
    """Hash the tokens that are in plain text."""
    if session.keys is None:
        return list(tokens)
    searchable = filter_searchable(session, IndexEntry(terms=tuple(tokens))).terms
    return sorted(_hash_token(session.keys, token) for token in searchable)


def index_tokens(session: Session, scope: int, terms: Sequence[str]) -> list[str]:
    """Return the tokens of terms, hashed if the store is encrypted."""
    if session.keys is None:
        return make_tokens(scope, terms)
    return sorted(session.keys.token(scope, normalize_term(term)) for term in terms)


def query_tokens(session: Session, scope: int, term: str) -> list[str]:
    """Return the tokens to search for a term: two while some documents are still in plain text."""
    plain = make_tokens(scope, [term])
    if session.keys is None:
        return plain
    hashed = session.keys.token(scope, normalize_term(term))
    return [hashed, *plain] if session.keys.mixed else [hashed]


def _hash_token(keys: TenantKeys, token: str) -> str:
    scope, term = split_token(token)
    return token if term.startswith(HASHED_TERM_PREFIX) else keys.token(scope, term)


def add_counts(session: Session, token_lists: Iterable[Sequence[str]]) -> None:
    """Add documents to the counts of their tokens."""
    if counts := _count_documents(token_lists):
        session.run(_INCREASE, counts=msgspec.json.encode(counts).decode())


def subtract_counts(session: Session, token_lists: Iterable[Sequence[str]]) -> None:
    """Subtract documents from the counts of their tokens."""
    if counts := _count_documents(token_lists):
        session.run(_DECREASE, counts=msgspec.json.encode(counts).decode())
        session.run(_DELETE_ZERO, tokens=list(counts))


def document_counts(session: Session, tokens: Sequence[str]) -> dict[str, int]:
    """Return the number of documents that contain each token. Unknown tokens are omitted."""
    return dict(session.rows(_READ_COUNTS, tokens=list(tokens)))


def count_mismatches(session: Session, actual: str) -> int:
    """Return the number of tokens whose stored count differs from the index, given a query for (token, documents)."""
    row = session.row(_MISMATCHES.format(actual=actual))
    return int(row[0]) if row else 0


def _count_documents(token_lists: Iterable[Sequence[str]]) -> dict[str, int]:
    """Return tokens with their document counts, in order of the tokens, which is that of the table."""
    counts = Counter(chain.from_iterable(map(set, token_lists)))
    return {token: counts[token] for token in sorted(counts)}
