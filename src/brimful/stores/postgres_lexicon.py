"""Full text in PostgreSQL: a table of postings, whose key is all that a question needs.

An inverted index (GIN) is a fifth of the size, and of no use here: where the server keeps tenants apart, it looks at
the tenant of every row before it asks an operator on arrays, which might tell what it saw.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from brimful.stores import terms
from brimful.stores.session import Row, Session

if TYPE_CHECKING:
    from brimful.stores.session import Occurrences

_ADD: Final = """
INSERT INTO postings (tenant, token, doc, seq, length, times)
SELECT d.tenant, p.token, d.doc, d.seq, d.length, p.times
FROM unnest(:tokens::text[], :docs::bigint[], :times::bigint[]) AS p (token, doc, times)
JOIN documents d ON d.tenant = :tenant AND d.doc = p.doc ORDER BY p.token, d.doc
"""
_REMOVE: Final = "DELETE FROM postings WHERE tenant = :tenant AND token IN :tokens AND doc IN :docs"
_ALL: Final = "SELECT token, count(*) AS documents FROM postings WHERE tenant = :tenant GROUP BY token"
_PLACES: Final = """
SELECT token, doc, seq, length, times FROM postings WHERE tenant = :tenant AND token IN :tokens ORDER BY doc
"""
_NEWEST: Final = """
SELECT doc, seq, length, times FROM postings WHERE tenant = :tenant AND token = :token ORDER BY doc DESC LIMIT :most
"""


class PostgresLexicon:
    """Which documents hold a token, and how often."""

    def add(self, session: Session, documents: Sequence[tuple[int, Sequence[str]]]) -> None:
        """Take up documents with their tokens."""
        rows = [(token, doc, times) for doc, tokens in documents for token, times in Counter(tokens).items()]
        if rows:
            tokens, docs, times = zip(*rows, strict=True)
            session.run(_ADD, tokens=list(tokens), docs=list(docs), times=list(times))
        terms.more(session, [tokens for _, tokens in documents])

    def remove(self, session: Session, documents: Sequence[tuple[int, Sequence[str]]]) -> None:
        """Take documents out again."""
        tokens = sorted({token for _, held in documents for token in held})
        session.run(_REMOVE, tokens=tokens, docs=[doc for doc, _ in documents])
        terms.fewer(session, [tokens for _, tokens in documents])

    def places(self, session: Session, tokens: Sequence[str]) -> dict[str, Occurrences]:
        """Return all documents that hold each token, the oldest first."""
        rows: dict[str, list[Row]] = {token: [] for token in tokens}
        for token, *row in session.rows(_PLACES, tokens=list(tokens)):
            rows[token].append(tuple(row))
        return {token: _columns(held) for token, held in rows.items()}

    def newest(self, session: Session, token: str, most: int) -> Occurrences:
        """Return the newest documents that hold a token, the oldest of them first."""
        return _columns(session.rows(_NEWEST, token=token, most=most)[::-1])

    def miscounted(self, session: Session) -> int:
        """Return of how many tokens it is not known how many documents hold them."""
        return terms.miscounted(session, _ALL)

    def purge(self, session: Session) -> None:
        """Do nothing: the server clears away what was removed."""


def _columns(rows: Sequence[Row]) -> Occurrences:
    import numpy as np  # noqa: PLC0415 - only where something is searched

    return np.array(rows, np.int64).reshape(-1, 4).T
