"""The model registry: look up a model by any of its names."""

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from brimful.core.model import UNKNOWN_PRIOR, ModelInfo, Wire
from brimful.models.names import normalize_name, parse_name

FALLBACK_WINDOW: Final = 8_192  # tokens; the smallest window that a chat model in use still has
FALLBACK_OUTPUT: Final = 4_096  # tokens; half of the window


def unknown_model(name: str) -> ModelInfo:
    """Assume little: a small window and dear tokens.

    >>> unknown_model("nobody-knows-me").window, unknown_model("nobody:7b").wire
    (8192, 'ollama')
    """
    parsed = parse_name(name)
    return ModelInfo(
        id=name,
        provider="unknown",
        window=FALLBACK_WINDOW,
        max_output=FALLBACK_OUTPUT,
        wire=parsed.wire or ("ollama" if parsed.tagged else "openai"),
        prior=UNKNOWN_PRIOR,
        source="fallback",
        known=False,
    )


def unknown_model_warning(info: ModelInfo) -> str:
    """Say what was assumed, and how to do better.

    >>> print(unknown_model_warning(unknown_model("acme-1")))
    unknown model 'acme-1': assuming a window of 8,192 tokens and counting with o200k_base × 1.3 + 25 %; \
describe it in a models.toml file (BRIMFUL_MODELS)
    """
    prior = info.prior or UNKNOWN_PRIOR
    return (
        f"unknown model {info.id!r}: assuming a window of {info.window:,} tokens and counting with "
        f"{prior.tokenizer} × {prior.factor:g} + {prior.margin:.0%}".replace("%", " %")
        + "; describe it in a models.toml file (BRIMFUL_MODELS)"
    )


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
        parsed = parse_name(name)
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
        if (spelling := normalize_name(name)) in self.hosted or spelling in self.local:
            return row.wire
        return parse_name(name).wire or row.wire
