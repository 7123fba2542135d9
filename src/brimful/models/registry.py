"""The model registry: look up a model by any of its names."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from brimful.core.model import UNKNOWN_PRIOR, ModelInfo, Prior
from brimful.core.validation import preload_types
from brimful.models.families import find_relatives, first_word, named_window
from brimful.models.names import ModelName, normalize_name, parse_name

FALLBACK_WINDOW: Final = 8_192  # tokens; the smallest window of chat models in use
FALLBACK_OUTPUT: Final = 4_096  # tokens; half of the window


class PublishedWindows(msgspec.Struct, frozen=True, kw_only=True):
    """Windows from price lists, by normalized names: `glm-5-3`, and `novita/glm-5-3` for a host that differs."""

    source: str
    as_of: str
    windows: Mapping[str, int]


class _Window(msgspec.Struct, frozen=True, kw_only=True):
    tokens: int
    source: str
    as_of: str


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
    origin = f", the smallest of its family ({info.relative})," if info.relative else ""
    window = f"assuming a window of {info.window:,} tokens{origin} and " if info.assumed_window else ""
    counting = f"counting with {prior.tokenizer} × {prior.factor:g} + {prior.margin:.0%}".replace("%", " %")
    advice = "set the window, or describe" if info.assumed_window else "describe"
    return f"unknown model {info.id!r}: {window}{counting}; {advice} the model in a models.toml file (BRIMFUL_MODELS)"


class Registry(msgspec.Struct, frozen=True, kw_only=True):
    """All known models. Immutable: adding models gives a new registry.

    `hosted` and `local` map normalized names to row ids. Ollama's names are separate, because some of them mean another
    model elsewhere (`deepseek-r1` has 671B parameters at its maker, 8B in Ollama). `published` has the windows of
    models without a row, and of hosts that serve a row's model with a smaller window. It does not apply to `custom`
    rows, which the user wrote.
    """

    rows: Mapping[str, ModelInfo]
    hosted: Mapping[str, str]
    local: Mapping[str, str]
    published: tuple[PublishedWindows, ...] = ()
    custom: frozenset[str] = frozenset()

    def __iter__(self) -> Iterator[ModelInfo]:
        return iter(self.rows.values())

    def __len__(self) -> int:
        return len(self.rows)

    def names(self) -> tuple[str, ...]:
        """Return the ids of all rows, sorted."""
        return tuple(sorted(self.rows))

    def canonical(self, name: str) -> str | None:
        """Return the id of the row with this name, or None."""
        return self._find_row(parse_name(name))[1]

    def resolve(self, name: str) -> ModelInfo:
        """Return a model, or the fallback (`known` is false). Never raises.

        The result's `id` is the name that was passed, because the provider expects it. A model without a row has its
        published window or, if there is none, the smallest window of its family.
        """
        parsed = parse_name(name)
        spellings, canonical = self._find_row(parsed)
        if canonical is None:
            return self._describe_unknown(name, parsed, spellings)
        row = self.rows[canonical]
        info = msgspec.structs.replace(row, id=name, wire=self._wire(name, row))
        published = None if canonical in self.custom else self._find_published(f"{parsed.host}/", spellings)
        if published is None or published.tokens >= _prompt_limit(row):
            return info
        return _with_published(info, published)

    def _find_row(self, parsed: ModelName) -> tuple[list[str], str | None]:
        """Return the spellings that were looked up, and the row of the last of them, if there is one."""
        first_local = parsed.wire == "ollama" or parsed.tagged
        indexes = (self.local, self.hosted) if first_local else (self.hosted, self.local)
        spellings = []
        for spelling in parsed.spellings():
            spellings.append(spelling)
            for index in indexes:
                if spelling in index:
                    return spellings, index[spelling]
        return spellings, None

    def _find_published(self, prefix: str, spellings: Sequence[str]) -> "_Window | None":
        """Return the published window of the first of these names that has one."""
        for spelling in spellings:
            for each in self.published:
                if (window := each.windows.get(prefix + spelling)) is not None:
                    return _Window(tokens=window, source=each.source, as_of=each.as_of)
        return None

    def _describe_unknown(self, name: str, parsed: ModelName, spellings: Sequence[str]) -> ModelInfo:
        """Return the published window of a model without a row, or else a guess from its relatives."""
        info = unknown_model(name)
        if not spellings:
            return info
        rows = self._find_family_rows(parsed.simplest)
        if closest := [rows[key] for key in find_relatives(parsed.simplest, rows)]:
            dearest = max(closest, key=lambda row: _bound(row.prior))
            info = _with_maker(info, dearest, wire=info.wire if parsed.wire or parsed.tagged else dearest.wire)
        published = self._find_published(f"{parsed.host}/", spellings) or self._find_published("", spellings)
        if published is not None:
            return _with_published(info, published)
        return self._assume_window(info, parsed.simplest, rows)

    def _find_family_rows(self, spelling: str) -> dict[str, ModelInfo]:
        """Return our rows with names that begin with the same word, by name."""
        word = first_word(spelling)
        names = (name for name in self.hosted if name.startswith(word))
        return {name: self.rows[self.hosted[name]] for name in names if self.hosted[name] not in self.custom}

    def _assume_window(self, info: ModelInfo, spelling: str, rows: Mapping[str, ModelInfo]) -> ModelInfo:
        """Return a model with the smallest window of its relatives, if it has any, or the one that its name states."""
        word = first_word(spelling)
        windows = {name: _prompt_limit(row) for name, row in rows.items()}
        for each in self.published:
            windows |= {name: each.windows[name] for name in each.windows if name.startswith(word) and "/" not in name}
        relatives = find_relatives(spelling, windows)
        if not relatives:
            return info
        smallest = min(relatives, key=windows.__getitem__)
        window = min(windows[smallest], named_window(spelling) or windows[smallest])
        return msgspec.structs.replace(_limit(info, window), relative=smallest, source="its family's smallest window")

    def _wire(self, name: str, row: ModelInfo) -> str:
        """Return the host's API, unless the name is exactly that of the row."""
        if (spelling := normalize_name(name)) in self.hosted or spelling in self.local:
            return row.wire
        return parse_name(name).wire or row.wire


def _prompt_limit(row: ModelInfo) -> int:
    return min(row.window, row.max_input or row.window)


def _bound(prior: Prior | None) -> float:
    """Return how many tokens are counted for one of `o200k_base`; 0 for another base, which does not compare."""
    if prior is None or prior.tokenizer != UNKNOWN_PRIOR.tokenizer:
        return 0.0
    return prior.factor * (1 + prior.margin)


def _with_maker(info: ModelInfo, relative: ModelInfo, *, wire: str) -> ModelInfo:
    """Return an unknown model with the maker of a relative, and with its counts if they are higher."""
    info = msgspec.structs.replace(info, provider=relative.provider, wire=wire)
    if _bound(relative.prior) <= _bound(info.prior):
        return info
    hidden = relative.tool_system_tokens
    return msgspec.structs.replace(info, prior=relative.prior, overhead=relative.overhead, tool_system_tokens=hidden)


def _limit(info: ModelInfo, window: int) -> ModelInfo:
    return msgspec.structs.replace(
        info, window=window, beta_windows=(), max_input=None, max_output=min(info.max_output, window)
    )


def _with_published(info: ModelInfo, published: _Window) -> ModelInfo:
    limited = _limit(info, published.tokens)
    return msgspec.structs.replace(limited, assumed_window=False, source=published.source, as_of=published.as_of)


preload_types(Registry)
