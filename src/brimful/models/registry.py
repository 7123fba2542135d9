"""The model registry: look up a model by any of its names."""

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from brimful.core.model import UNKNOWN_PRIOR, ModelInfo
from brimful.core.validation import preload_types
from brimful.models.names import normalize_name, parse_name

FALLBACK_WINDOW: Final = 8_192  # tokens; the smallest window of chat models in use
FALLBACK_OUTPUT: Final = 4_096  # tokens; half of the window


def unknown_model(name: str) -> ModelInfo:
    """Return conservative assumptions: a small window and high token counts.

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
        assumed_window=True,
    )


def unknown_model_warning(info: ModelInfo) -> str:
    """Return a warning with the assumptions, and how to replace them.

    >>> print(unknown_model_warning(unknown_model("acme-1")))
    unknown model 'acme-1': assuming a window of 8,192 tokens and counting with o200k_base × 1.1 + 15 %; \
set the window, or describe the model in a models.toml file (BRIMFUL_MODELS)
    """
    prior = info.prior or UNKNOWN_PRIOR
    return (
        f"unknown model {info.id!r}: assuming a window of {info.window:,} tokens and counting with "
        f"{prior.tokenizer} × {prior.factor:g} + {prior.margin:.0%}".replace("%", " %")
        + "; set the window, or describe the model in a models.toml file (BRIMFUL_MODELS)"
    )


class Registry(msgspec.Struct, frozen=True, kw_only=True):
    """All known models. Immutable: adding models gives a new registry.

    `hosted` and `local` map normalized names to row ids. Ollama's names are separate, because some of them mean another
    model elsewhere (`deepseek-r1` has 671B parameters at its maker, 8B in Ollama).
    """

    rows: Mapping[str, ModelInfo]
    hosted: Mapping[str, str]
    local: Mapping[str, str]

    def __iter__(self) -> Iterator[ModelInfo]:
        return iter(self.rows.values())

    def __len__(self) -> int:
        return len(self.rows)

    def names(self) -> tuple[str, ...]:
        """Return the ids of all rows, sorted."""
        return tuple(sorted(self.rows))

    def canonical(self, name: str) -> str | None:
        """Return the id of the row with this name, or None."""
        parsed = parse_name(name)
        first_local = parsed.wire == "ollama" or parsed.tagged
        indexes = (self.local, self.hosted) if first_local else (self.hosted, self.local)
        found = (index[spelling] for spelling in parsed.spellings() for index in indexes if spelling in index)
        return next(found, None)

    def resolve(self, name: str) -> ModelInfo:
        """Return a model, or the fallback (`known` is false). Never raises.

        The result's `id` is the name that was passed, because the provider expects it.
        """
        canonical = self.canonical(name)
        if canonical is None:
            return unknown_model(name)
        row = self.rows[canonical]
        return msgspec.structs.replace(row, id=name, wire=self._wire(name, row))

    def _wire(self, name: str, row: ModelInfo) -> str:
        """Return the host's API, unless the name is exactly that of the row."""
        if (spelling := normalize_name(name)) in self.hosted or spelling in self.local:
            return row.wire
        return parse_name(name).wire or row.wire


preload_types(Registry)
