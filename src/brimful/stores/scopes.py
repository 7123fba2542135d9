"""Scopes: sets of documents that are searched together, with their totals."""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from brimful.stores.session import Session

_GROW: Final = """
UPDATE scopes SET documents = documents + :documents, words = words + :words, changes = changes + 1
WHERE tenant = :tenant AND scope = :scope RETURNING number
"""
_CREATE: Final = "INSERT INTO scopes (tenant, scope) VALUES (:tenant, :scope) ON CONFLICT DO NOTHING"


class Scope(msgspec.Struct, frozen=True):
    """A scope as it stands."""

    number: int
    documents: int
    words: int
    changes: int


def scopes_of(session: Session, names: Sequence[str]) -> list[Scope]:
    """Return the scopes of these names, those that are there, by number."""
    found = session.rows(
        "SELECT number, documents, words, changes FROM scopes WHERE tenant = :tenant AND scope IN :names "
        "ORDER BY number",
        names=list(dict.fromkeys(names)),
    )
    return [Scope(*row) for row in found]


def grow(session: Session, totals: Mapping[str, tuple[int, int]]) -> dict[str, int]:
    """Add (documents, words) to scopes, which are made where there are none, and return their numbers."""
    numbers = {}
    for scope in sorted(totals):  # one order for all writers, so that none waits for another in a circle
        documents, words = totals[scope]
        numbers[scope] = _grown(session, scope, documents, words)
    return numbers


def shrink(session: Session, totals: Mapping[int, tuple[int, int]]) -> None:
    """Take (documents, words) from scopes, by their numbers."""
    session.many(
        "UPDATE scopes SET documents = documents - :documents, words = words - :words, changes = changes + 1 "
        "WHERE tenant = :tenant AND number = :number",
        (
            {"number": number, "documents": documents, "words": words}
            for number, (documents, words) in sorted(totals.items())
        ),
    )


def changed(session: Session, numbers: Sequence[int]) -> None:
    """Note that something in these scopes is other than it was."""
    session.many(
        "UPDATE scopes SET changes = changes + 1 WHERE tenant = :tenant AND number = :number",
        ({"number": number} for number in sorted(set(numbers))),
    )


def note_change(session: Session, scope: str) -> None:
    """Note the same of one scope, by its name."""
    session.run("UPDATE scopes SET changes = changes + 1 WHERE tenant = :tenant AND scope = :scope", scope=scope)


def version(session: Session, names: Sequence[str]) -> str:
    """Return a text that changes with every write to the scopes."""
    return " ".join(f"{scope.number}.{scope.changes}" for scope in scopes_of(session, names))


def _grown(session: Session, scope: str, documents: int, words: int) -> int:
    found = session.row(_GROW, scope=scope, documents=documents, words=words)
    if found is None:
        session.run(_CREATE, scope=scope)
        found = session.row(_GROW, scope=scope, documents=documents, words=words)
    if found is None:
        raise LookupError(f"scope {scope!r} was made and is not there")
    return int(found[0])
