"""Full text in SQLite: FTS5 without content, and its own table of places."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from brimful.stores import terms
from brimful.stores.session import Session

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from brimful.stores.session import Occurrences

# The index has no column for a tenant: a token begins with the number of a scope, and a scope belongs to one tenant.
# Documents are read by tenant all the same. Columns come as JSON: one row of it takes a third of the time of thousands.
_HELD: Final = "SELECT json_group_array(doc) FROM lexicon_places WHERE term = :token AND :tenant = :tenant"
_PLACED: Final = """
SELECT json_group_array(doc), json_group_array(seq), json_group_array(length)
FROM documents WHERE tenant = :tenant AND doc IN :docs
"""
_NEWEST: Final = """
SELECT d.doc, d.seq, d.length, d.terms
FROM (SELECT rowid AS doc FROM lexicon WHERE lexicon MATCH :phrase ORDER BY rowid DESC LIMIT :most) p
CROSS JOIN documents d ON d.doc = p.doc WHERE d.tenant = :tenant
"""
_ALL: Final = """
SELECT f.term AS token, f.doc AS documents FROM scopes s
CROSS JOIN lexicon_found f ON f.term >= printf('%x:', s.number) AND f.term < printf('%x;', s.number)
WHERE s.tenant = :tenant
"""
_ADD: Final = "INSERT INTO lexicon (rowid, terms) VALUES (:doc, iif(:tenant <> '', :terms, NULL))"
_REMOVE: Final = "INSERT INTO lexicon (lexicon, rowid, terms) SELECT 'delete', :doc, :terms WHERE :tenant = :tenant"
_NUMBERS: Final = msgspec.json.Decoder(list[int])


class SqliteLexicon:
    """Which documents hold a token, and how often."""

    def add(self, session: Session, documents: Sequence[tuple[int, Sequence[str]]]) -> None:
        """Take up documents with their tokens."""
        session.many(_ADD, ({"doc": doc, "terms": " ".join(tokens)} for doc, tokens in documents))
        terms.more(session, [tokens for _, tokens in documents])

    def remove(self, session: Session, documents: Sequence[tuple[int, Sequence[str]]]) -> None:
        """Take documents out again; an index without content must be told what they held."""
        session.many(_REMOVE, ({"doc": doc, "terms": " ".join(tokens)} for doc, tokens in documents))
        terms.fewer(session, [tokens for _, tokens in documents])

    def places(self, session: Session, tokens: Sequence[str]) -> dict[str, Occurrences]:
        """Return all documents that hold each token, the oldest first."""
        import numpy as np  # noqa: PLC0415 - only where something is searched

        held = [_numbers(session, _HELD, token=token)[0] for token in tokens]
        counted = [np.unique(docs, return_counts=True) for docs in held]
        placed = np.stack(_numbers(session, _PLACED, docs=np.unique(np.concatenate(held)).tolist()))
        placed = placed[:, np.argsort(placed[0], kind="stable")]
        found = {}
        for token, (docs, times) in zip(tokens, counted, strict=True):
            at = np.searchsorted(placed[0], docs)
            own = np.append(placed[0], -1)[at] == docs
            found[token] = np.concatenate([placed[:, at[own]], times[None, own]])
        return found

    def newest(self, session: Session, token: str, most: int) -> Occurrences:
        """Return the newest documents that hold a token, in any order."""
        import numpy as np  # noqa: PLC0415 - only where something is searched

        found = session.rows(_NEWEST, phrase=f'"{token}"', most=most)
        written = f'"{token}"'  # as it stands in JSON: no token has a sign that would be written otherwise
        rows = [(doc, seq, length, held.count(written)) for doc, seq, length, held in found]
        return np.array(rows, np.int64).reshape(-1, 4).T

    def miscounted(self, session: Session) -> int:
        """Return of how many tokens it is not known how many documents hold them."""
        return terms.miscounted(session, _ALL)

    def purge(self, session: Session) -> None:
        """Merge the index into one segment, which holds nothing that was removed."""
        session.run("INSERT INTO lexicon (lexicon) SELECT 'optimize' WHERE :tenant = :tenant")


def _numbers(session: Session, sql: str, **values: object) -> list[npt.NDArray[np.int64]]:
    """Return the columns of a statement that gives each as a list in JSON."""
    import numpy as np  # noqa: PLC0415 - only where something is searched

    row = session.row(sql, **values) or ()
    return [np.array(_NUMBERS.decode(column), np.int64) for column in row]
