"""Full text in PostgreSQL: an inverted index over the tokens of each document."""

from collections.abc import Sequence
from typing import Final

from brimful.stores.session import Row, Session

_FOUND: Final = """
SELECT t.token, (SELECT count(*) FROM documents d WHERE d.tenant = :tenant AND d.terms @> ARRAY[t.token])
FROM unnest(:tokens::text[]) AS t (token)
"""
_PLACES: Final = """
SELECT t.token, d.doc, d.seq, d.length, cardinality(array_positions(d.terms, t.token))
FROM unnest(:tokens::text[]) AS t (token) JOIN documents d ON d.tenant = :tenant AND d.terms @> ARRAY[t.token]
ORDER BY d.doc
"""
_NEWEST: Final = """
SELECT d.doc, d.seq, d.length, cardinality(array_positions(d.terms, :token::text)) FROM documents d
WHERE d.tenant = :tenant AND d.terms @> ARRAY[:token::text] ORDER BY d.doc DESC LIMIT :most
"""


class PostgresLexicon:
    """Which documents hold a token, and how often. The index follows the table of documents by itself."""

    def add(self, session: Session, documents: Sequence[tuple[int, Sequence[str]]]) -> None:
        """Do nothing: the tokens were written with the documents."""

    def remove(self, session: Session, documents: Sequence[tuple[int, Sequence[str]]]) -> None:
        """Do nothing: the tokens went with the documents."""

    def found(self, session: Session, tokens: Sequence[str]) -> dict[str, int]:
        """Return in how many documents each token occurs."""
        return dict(session.rows(_FOUND, tokens=list(tokens))) if tokens else {}

    def places(self, session: Session, tokens: Sequence[str]) -> list[Row]:
        """Return (token, doc, seq, length, frequency) of all documents with a token, the oldest first."""
        return session.rows(_PLACES, tokens=list(tokens)) if tokens else []

    def newest(self, session: Session, token: str, most: int) -> list[Row]:
        """Return (doc, seq, length, frequency) of the newest documents with a token, the newest first."""
        return session.rows(_NEWEST, token=token, most=most)

    def purge(self, session: Session) -> None:
        """Do nothing: the server clears away what was removed."""
