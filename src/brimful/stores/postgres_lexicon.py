"""Full text in PostgreSQL: a table of postings, whose key is all that a question needs.

An inverted index (GIN) is a fifth of the size, and of no use here: where the server keeps tenants apart, it looks at
the tenant of every row before it asks an operator on arrays, which might tell what it saw.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Final

from brimful.stores.session import Row, Session

_ADD: Final = """
INSERT INTO postings (tenant, token, doc, seq, length, times)
SELECT d.tenant, p.token, d.doc, d.seq, d.length, p.times
FROM unnest(:tokens::text[], :docs::bigint[], :times::bigint[]) AS p (token, doc, times)
JOIN documents d ON d.tenant = :tenant AND d.doc = p.doc ORDER BY p.token, d.doc
"""
_REMOVE: Final = "DELETE FROM postings WHERE tenant = :tenant AND token IN :tokens AND doc IN :docs"
_FOUND: Final = """
SELECT token, count(*) FROM postings WHERE tenant = :tenant AND token IN :tokens GROUP BY token
"""
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

    def remove(self, session: Session, documents: Sequence[tuple[int, Sequence[str]]]) -> None:
        """Take documents out again."""
        tokens = sorted({token for _, held in documents for token in held})
        session.run(_REMOVE, tokens=tokens, docs=[doc for doc, _ in documents])

    def found(self, session: Session, tokens: Sequence[str]) -> dict[str, int]:
        """Return in how many documents each token occurs."""
        return dict(session.rows(_FOUND, tokens=list(tokens)))

    def places(self, session: Session, tokens: Sequence[str]) -> list[Row]:
        """Return (token, doc, seq, length, frequency) of all documents with a token, the oldest first."""
        return session.rows(_PLACES, tokens=list(tokens))

    def newest(self, session: Session, token: str, most: int) -> list[Row]:
        """Return (doc, seq, length, frequency) of the newest documents with a token, the newest first."""
        return session.rows(_NEWEST, token=token, most=most)

    def purge(self, session: Session) -> None:
        """Do nothing: the server clears away what was removed."""
