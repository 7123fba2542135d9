"""Rows from entries: each inherits from its family, from the row it is `like`, or from the row it overrides."""

from collections.abc import Iterable
from typing import Final

import msgspec

from brimful.core.model import ModelInfo
from brimful.models.names import fold
from brimful.models.registry import Registry
from brimful.models.sheet import Entry
from brimful.models.unknown import unknown_model

EMPTY: Final = Registry(rows={}, hosted={}, local={})


def add(base: Registry, entries: Iterable[Entry]) -> Registry:
    r"""Return `base` with these rows added; a row of the same name overrides it, field by field.

    >>> from brimful.models.sheet import parse
    >>> mine = add(EMPTY, parse('[models.a-1]\nwindow = 900\n[models.b]\nlike = "A.1"\n', "models.toml"))
    >>> mine.resolve("b").window
    900
    """
    builder = _Builder(base, entries)
    for entry in builder.entries.values():
        builder.build(entry, ())
    return Registry(rows=builder.rows, hosted=builder.hosted, local=builder.local)


class _Builder:
    """Builds rows in the order in which they need each other."""

    def __init__(self, base: Registry, entries: Iterable[Entry]) -> None:
        self.base = base
        self.rows, self.hosted, self.local = dict(base.rows), dict(base.hosted), dict(base.local)
        self.entries: dict[str, Entry] = {}
        self.built: dict[str, ModelInfo] = {}
        self.claims: dict[tuple[bool, str], str] = {}
        for entry in entries:
            if (twin := self.entries.setdefault(fold(entry.id), entry)) is not entry:
                raise entry.error("", f"is there twice, also as {twin.key} in {twin.file}")

    def build(self, entry: Entry, waiting: tuple[str, ...]) -> ModelInfo:
        """Build the row of an entry, after the one that it is like. `waiting` are those that need this one."""
        if entry.id in self.built:
            return self.built[entry.id]
        if entry.id in waiting:
            raise entry.error("like", f"goes in a circle: {' → '.join((*waiting, entry.id))}")
        row = _row(entry, self._parent(entry, (*waiting, entry.id)))
        self.built[entry.id] = row
        self._put(entry, row, (entry.id, *entry.aliases))
        if entry.ollama:
            id = entry.ollama[0]
            self._put(entry, msgspec.structs.replace(row, id=id, canonical=id, wire="ollama"), entry.ollama)
        return row

    def _parent(self, entry: Entry, waiting: tuple[str, ...]) -> ModelInfo:
        if entry.like and (sibling := self.entries.get(fold(entry.like))):
            return self.build(sibling, waiting)
        canonical = self.base.canonical(entry.like or entry.id) if self.base.rows else None
        if canonical is not None:
            return self.base.rows[canonical]
        if entry.like:
            raise entry.error("like", f"no model {entry.like!r}")
        if "window" not in entry.fields:
            raise entry.error("window", "is missing, and there is no known model to take it from (like = …)")
        return unknown_model(entry.id)

    def _put(self, entry: Entry, row: ModelInfo, names: tuple[str, ...]) -> None:
        self.rows[row.id] = row
        local = row.wire == "ollama"
        index = self.local if local else self.hosted
        for name in names:
            spelling = fold(name)
            if (owner := self.claims.setdefault((local, spelling), row.id)) != row.id:
                raise entry.error("", f"{name!r} is already a name of {owner!r}")
            index[spelling] = row.id


def _row(entry: Entry, parent: ModelInfo) -> ModelInfo:
    window = entry.fields.get("window", parent.window)
    # Nothing but the window limits what a model may answer, unless its file or its parent says so.
    most = min(parent.max_output, window) if parent.known else window
    said = {"source": entry.file, "max_output": most, **entry.fields}
    row = msgspec.structs.replace(parent, **said, id=entry.id, canonical=entry.id, known=True)
    if row.max_output > row.window:
        raise entry.error("max_output", f"{row.max_output:,} is more than the window, {row.window:,}")
    if row.overhead == "template" and not row.chat_template:
        raise entry.error("chat_template", "is needed by overhead = 'template'")
    return row
