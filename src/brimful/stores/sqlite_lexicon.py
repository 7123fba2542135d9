"""Full text in SQLite: FTS5 without content, and its own tables of vocabulary."""

from collections.abc import Sequence
from typing import Final

from brimful.stores.session import Row, Session

# The index has no column for a tenant: a token begins with the number of a scope, and a scope belongs to one tenant.
# Documents are joined by tenant all the same.
PLACES: Final = """
SELECT d.doc, d.seq, d.length, p.times
FROM (SELECT doc, count(*) AS times FROM lexicon_places WHERE term = :token GROUP BY doc) p
CROSS JOIN documents d ON d.doc = p.doc WHERE d.tenant = :tenant ORDER BY d.doc
"""
NEWEST: Final = """
SELECT d.doc, d.seq, d.length, d.terms
FROM (SELECT rowid AS doc FROM lexicon WHERE lexicon MATCH :phrase ORDER BY rowid DESC LIMIT :most) p
CROSS JOIN documents d ON d.doc = p.doc WHERE d.tenant = :tenant ORDER BY d.doc DESC
"""
_FOUND: Final = "SELECT term, doc FROM lexicon_found WHERE term IN :tokens AND :tenant = :tenant"
_ADD: Final = "INSERT INTO lexicon (rowid, terms) VALUES (:doc, iif(:tenant <> '', :terms, NULL))"
_REMOVE: Final = "INSERT INTO lexicon (lexicon, rowid, terms) SELECT 'delete', :doc, :terms WHERE :tenant = :tenant"


class SqliteLexicon:
    """Which documents hold a token, and how often."""

    def add(self, session: Session, documents: Sequence[tuple[int, Sequence[str]]]) -> None:
        """Take up documents with their tokens."""
        session.many(_ADD, ({"doc": doc, "terms": " ".join(tokens)} for doc, tokens in documents))

    def remove(self, session: Session, documents: Sequence[tuple[int, Sequence[str]]]) -> None:
        """Take documents out again; an index without content must be told what they held."""
        session.many(_REMOVE, ({"doc": doc, "terms": " ".join(tokens)} for doc, tokens in documents))

    def found(self, session: Session, tokens: Sequence[str]) -> dict[str, int]:
        """Return in how many documents each token occurs."""
        return dict(session.rows(_FOUND, tokens=list(tokens)))

    def places(self, session: Session, tokens: Sequence[str]) -> list[Row]:
        """Return (token, doc, seq, length, frequency) of all documents with a token, the oldest first."""
        return [(token, *row) for token in tokens for row in session.rows(PLACES, token=token)]

    def newest(self, session: Session, token: str, most: int) -> list[Row]:
        """Return (doc, seq, length, frequency) of the newest documents with a token, the newest first."""
        found = session.rows(NEWEST, phrase=f'"{token}"', most=most)
        held = session.dialect.listed
        return [(doc, seq, length, held(terms).count(token)) for doc, seq, length, terms in found]

    def purge(self, session: Session) -> None:
        """Merge the index into one segment, which holds nothing that was removed."""
        session.run("INSERT INTO lexicon (lexicon) SELECT 'optimize' WHERE :tenant = :tenant")
