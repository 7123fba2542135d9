"""The registry: rows by name, found under any of the names that people use for them."""

from collections.abc import Iterator, Mapping

import msgspec

from brimful.core.model import ModelInfo, Wire
from brimful.models.names import fold, read
from brimful.models.unknown import unknown_model


class Registry(msgspec.Struct, frozen=True, kw_only=True):
    """All known models. A value: adding to it gives another one.

    `hosted` and `local` lead from a folded name to a row's id; Ollama has names of its own, and some of them mean
    another model elsewhere (`deepseek-r1` is 671B at its maker's, 8B in Ollama).
    """

    rows: Mapping[str, ModelInfo]
    hosted: Mapping[str, str]
    local: Mapping[str, str]

    def __iter__(self) -> Iterator[ModelInfo]:
        """Iterate over the rows, each under its own id."""
        return iter(self.rows.values())

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.rows)

    def names(self) -> tuple[str, ...]:
        """Return the ids of all rows, sorted."""
        return tuple(sorted(self.rows))

    def canonical(self, name: str) -> str | None:
        """Return the id of the row that `name` stands for, or None."""
        parsed = read(name)
        first_local = parsed.wire == "ollama" or parsed.tagged
        indexes = (self.local, self.hosted) if first_local else (self.hosted, self.local)
        found = (index[spelling] for spelling in parsed.spellings() for index in indexes if spelling in index)
        return next(found, None)

    def resolve(self, name: str) -> ModelInfo:
        """Return what is known of the model, or the fallback (`known` is false). Never raises.

        The result's `id` is the name as given, for that is what the provider expects.
        """
        canonical = self.canonical(name)
        if canonical is None:
            return unknown_model(name)
        row = self.rows[canonical]
        return msgspec.structs.replace(row, id=name, wire=self._wire(name, row))

    def _wire(self, name: str, row: ModelInfo) -> Wire:
        """Return the host's API, unless the row was meant by its very name."""
        if (spelling := fold(name)) in self.hosted or spelling in self.local:
            return row.wire
        return read(name).wire or row.wire
