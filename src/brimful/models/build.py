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
    """Return `base` with these rows added; a row of the same id overrides it, field by field.

    >>> from brimful.models.sheet import parse
    >>> mine = add(EMPTY, parse('[models.a-1]\\nwindow = 900\\n[models.b]\\nlike = "A.1"\\n', "models.toml"))
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
        self.done: dict[str, ModelInfo] = {}
        self.named: dict[tuple[str, str], str] = {}
        for entry in entries:
            if (twin := self.entries.setdefault(fold(entry.id), entry)) is not entry:
                raise entry.error("", f"is there twice, as {twin.id!r} in {twin.file}")

    def build(self, entry: Entry, waiting: tuple[str, ...]) -> ModelInfo:
        """Build the row of an entry, after the one that it is like. `waiting` are those that need this one."""
        if entry.id in self.done:
            return self.done[entry.id]
        if entry.id in waiting:
            raise entry.error("like", f"goes in a circle: {' → '.join((*waiting, entry.id))}")
        row = _row(entry, self._parent(entry, (*waiting, entry.id)))
        self.done[entry.id] = row
        self._put(entry, row, (entry.id, *entry.aliases))
        if entry.ollama:
            twin = msgspec.structs.replace(row, id=entry.ollama[0], canonical=entry.ollama[0], wire="ollama")
            self._put(entry, twin, entry.ollama)
        return row

    def _parent(self, entry: Entry, waiting: tuple[str, ...]) -> ModelInfo:
        if entry.like and (sibling := self.entries.get(fold(entry.like))):
            return self.build(sibling, waiting)
        canonical = self.base.canonical(entry.like or entry.id)
        if canonical is not None:
            return self.base.rows[canonical]
        if entry.like:
            raise entry.error("like", f"no model {entry.like!r}")
        if "window" not in entry.fields:
            raise entry.error("window", "is missing, and there is no known model to take it from (like = …)")
        return msgspec.structs.replace(unknown_model(entry.id), max_output=entry.fields["window"])

    def _put(self, entry: Entry, row: ModelInfo, names: tuple[str, ...]) -> None:
        self.rows[row.id] = row
        index = self.local if row.wire == "ollama" else self.hosted
        for name in names:
            owner = self.named.setdefault(((row.wire == "ollama" and "local") or "hosted", fold(name)), row.id)
            if owner != row.id:
                raise entry.error("aliases", f"{name!r} is already a name of {owner!r}")
            index[fold(name)] = row.id


def _row(entry: Entry, parent: ModelInfo) -> ModelInfo:
    inherited = {"id": entry.id, "canonical": entry.id, "known": True, "source": entry.file}
    row = msgspec.structs.replace(parent, **{**inherited, **entry.fields})
    if row.max_output > row.window:
        if "max_output" in entry.fields:
            raise entry.error("max_output", f"{row.max_output} is more than the window, {row.window}")
        row = msgspec.structs.replace(row, max_output=row.window)
    if row.overhead == "template" and not row.chat_template:
        raise entry.error("chat_template", "is needed by overhead = 'template'")
    return row
