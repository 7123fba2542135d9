"""Full text in SQLite: FTS5 without content, and its own table of places."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from brimful.stores import terms
from brimful.stores.session import Row, Session

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from brimful.stores.session import Occurrences

    Numbers = npt.NDArray[np.int64]

# The index has no column for a tenant: a token begins with the number of a scope, and a scope belongs to one tenant.
# Documents are read by tenant all the same. Columns come as JSON: one row of it takes a third of the time of thousands.
_HELD: Final = """
SELECT json_group_array(asked.key), json_group_array(p.doc)
FROM json_each(:tokens) asked CROSS JOIN lexicon_places p ON p.term = asked.value WHERE :tenant = :tenant
"""
_PLACED: Final = """
SELECT json_group_array(doc), json_group_array(seq), json_group_array(length)
FROM documents WHERE tenant = :tenant AND doc IN :docs
"""
_NEWEST: Final = """
SELECT json_group_array(d.doc), json_group_array(d.seq), json_group_array(d.length),
  json_group_array((length(d.terms) - length(replace(d.terms, :written, ''))) / length(:written))
FROM (SELECT rowid AS doc FROM lexicon WHERE lexicon MATCH :written ORDER BY rowid DESC LIMIT :most) p
CROSS JOIN documents d ON d.doc = p.doc WHERE d.tenant = :tenant
"""  # where it is kept, in JSON, and where it is looked for, a token is written in the same way
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

        token, held = _columns(session.row(_HELD, tokens=list(tokens)))
        order = np.lexsort((held, token))
        token, held = token[order], held[order]
        first = np.flatnonzero(np.diff(held, prepend=-1) | np.diff(token, prepend=-1))  # each document once for a token
        token, docs, times = token[first], held[first], np.diff(first, append=len(held))
        ordered = np.sort(docs)  # np.unique takes longer, and loads masked arrays, which nobody needs here
        once = ordered[np.diff(ordered, prepend=-1) > 0]
        placed = _columns(session.row(_PLACED, docs=once.tolist()))
        placed = placed[:, np.argsort(placed[0], kind="stable")]
        at = np.searchsorted(placed[0], docs)
        own = np.append(placed[0], -1)[at] == docs
        found = np.concatenate([placed[:, at[own]], times[None, own]])
        ends = np.searchsorted(token[own], np.arange(len(tokens)), side="right")
        return dict(zip(tokens, np.split(found, ends[:-1], axis=1), strict=True))

    def newest(self, session: Session, token: str, most: int) -> Occurrences:
        """Return the newest documents that hold a token, the oldest of them first."""
        found = _columns(session.row(_NEWEST, written=f'"{token}"', most=most))
        return found[:, found[0].argsort()]

    def miscounted(self, session: Session) -> int:
        """Return of how many tokens it is not known how many documents hold them."""
        return terms.miscounted(session, _ALL)

    def purge(self, session: Session) -> None:
        """Merge the index into one segment, which holds nothing that was removed."""
        session.run("INSERT INTO lexicon (lexicon) SELECT 'optimize' WHERE :tenant = :tenant")


def _columns(row: Row | None) -> Numbers:
    """Return columns of whole numbers, each of which is written as a list in JSON."""
    import numpy as np  # noqa: PLC0415 - only where something is searched

    return np.array([_NUMBERS.decode(column) for column in row or ()], np.int64)
