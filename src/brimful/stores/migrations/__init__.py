"""Numbered migrations: the SQL scripts of each database, and which of them are pending."""

import hashlib
import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Final

import msgspec

from brimful.errors import MigrationError

# A semicolon in a comment or in quotes ends no statement. Spaces and comments alone are no statement.
_TOKENS: Final = re.compile(
    r"""(?P<blank>\s+|--[^\n]*|/\*.*?\*/)|(?P<end>;)|'[^']*'|"[^"]*"|\$(?P<tag>\w*)\$.*?\$(?P=tag)\$|[^\s;'"$/-]+|.""",
    re.DOTALL,
)


class Migration(msgspec.Struct, frozen=True):
    """One migration: a file of SQL statements."""

    name: str
    text: str

    @property
    def checksum(self) -> str:
        """The SHA-256 of the file, to detect changes after it was applied."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    @property
    def statements(self) -> list[str]:
        return split_statements(self.text)


def split_statements(text: str) -> list[str]:
    r"""Split a script into its statements.

    >>> split_statements("-- First; then.\nSELECT ';'; DO $$ BEGIN NULL; END $$;\n-- The end.")
    ["-- First; then.\nSELECT ';'", 'DO $$ BEGIN NULL; END $$']
    """
    found: list[str] = []
    start, is_blank = 0, True
    for token in _TOKENS.finditer(text + "\n;"):
        if token["end"]:
            if not is_blank:
                found.append(text[start : token.start()].strip())
            start, is_blank = token.end(), True
        elif not token["blank"]:
            is_blank = False
    return found


@cache
def load_migrations(dialect: str) -> tuple[Migration, ...]:
    """Return all migrations of a dialect, in order."""
    folder = files("brimful.stores.migrations") / dialect
    found = sorted((entry for entry in folder.iterdir() if entry.name.endswith(".sql")), key=lambda entry: entry.name)
    return tuple(Migration(entry.name.removesuffix(".sql"), entry.read_text(encoding="utf-8")) for entry in found)


def pending_migrations(
    migrations: Sequence[Migration], applied: Mapping[str, str], store: str, *, migrate: bool
) -> list[Migration]:
    """Return the migrations that are not applied yet. `applied` are checksums by name."""
    known = {migration.name: migration for migration in migrations}
    future = sorted(set(applied) - set(known))
    if future:
        raise MigrationError(store, f"was written by a newer version of Brimful (migration {future[-1]}); install that")
    changed = [name for name, checksum in applied.items() if known[name].checksum != checksum]
    if changed:
        raise MigrationError(store, f"migration {min(changed)} is not the one that was applied")
    waiting = [migration for migration in migrations if migration.name not in applied]
    if waiting and not migrate:
        raise MigrationError(store, f"needs migration {waiting[0].name}; open it with migrate=True")
    return waiting
