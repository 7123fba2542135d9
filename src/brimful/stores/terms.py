"""In how many documents each token occurs: counted as they come and go, since an index would have to read them all."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from brimful.stores.session import Session

_MORE: Final = """
INSERT INTO terms (tenant, token, documents) VALUES (:tenant, :token, :documents)
ON CONFLICT (tenant, token) DO UPDATE SET documents = terms.documents + excluded.documents
"""
_FEWER: Final = "UPDATE terms SET documents = documents - :documents WHERE tenant = :tenant AND token = :token"
_NONE: Final = "DELETE FROM terms WHERE tenant = :tenant AND documents <= 0 AND token IN :tokens"
_WRONG: Final = """
SELECT count(DISTINCT token) FROM (
  SELECT * FROM (SELECT token, documents FROM terms WHERE tenant = :tenant EXCEPT {held}) more
  UNION ALL SELECT * FROM ({held} EXCEPT SELECT token, documents FROM terms WHERE tenant = :tenant) fewer
) wrong
"""
_FOUND: Final = "SELECT token, documents FROM terms WHERE tenant = :tenant AND token IN :tokens"


def more(session: Session, held: Iterable[Sequence[str]]) -> None:
    """Count documents that came, each by the tokens that it holds."""
    session.many(_MORE, ({"token": token, "documents": documents} for token, documents in _counted(held)))


def fewer(session: Session, held: Iterable[Sequence[str]]) -> None:
    """Count documents that went, each by the tokens that it held."""
    gone = _counted(held)
    session.many(_FEWER, ({"token": token, "documents": documents} for token, documents in gone))
    session.run(_NONE, tokens=[token for token, _ in gone])


def found(session: Session, tokens: Sequence[str]) -> dict[str, int]:
    """Return in how many documents each token occurs; those that occur nowhere are left out."""
    return dict(session.rows(_FOUND, tokens=list(tokens)))


def miscounted(session: Session, held: str) -> int:
    """Return how many tokens are counted otherwise than the index holds them, by a query for (token, documents)."""
    row = session.row(_WRONG.format(held=held))
    return int(row[0]) if row else 0


def _counted(held: Iterable[Sequence[str]]) -> list[tuple[str, int]]:
    """Return tokens with the number of documents that hold them, in one order for all writers."""
    return sorted(Counter(token for tokens in held for token in set(tokens)).items())
