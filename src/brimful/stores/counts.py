"""How many tokens a text has, by tokenizer: counted once, ever."""

from collections.abc import Mapping, Sequence
from typing import Final

from brimful.stores.sealing import address
from brimful.stores.session import Session

_KEEP: Final = """
INSERT INTO counts (tenant, tokenizer, hash, tokens) VALUES (:tenant, :tokenizer, :hash, :tokens)
ON CONFLICT (tenant, tokenizer, hash) DO UPDATE SET tokens = excluded.tokens
"""


def counts(session: Session, tokenizer: str, hashes: Sequence[str]) -> dict[str, int]:
    """Return the stored counts of texts, by their hash."""
    kept = {address(session, hash): hash for hash in hashes}
    found = session.rows(
        "SELECT hash, tokens FROM counts WHERE tenant = :tenant AND tokenizer = :tokenizer AND hash IN :hashes",
        tokenizer=tokenizer,
        hashes=list(kept),
    )
    return {kept[hash]: tokens for hash, tokens in found}


def keep_counts(session: Session, tokenizer: str, given: Mapping[str, int]) -> None:
    """Keep counts of texts, by their hash."""
    rows = sorted((address(session, hash), tokens) for hash, tokens in given.items())
    session.many(_KEEP, ({"tokenizer": tokenizer, "hash": hash, "tokens": tokens} for hash, tokens in rows))
