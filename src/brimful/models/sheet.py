"""A model file: TOML in, checked fields out. Every error names the file and the key.

A file may look like this:

    as_of = 2026-11-15                 # defaults of the whole file
    source = "…"

    [family.gpt-4o]                    # defaults of a family; `extends` names another family of the file
    provider = "openai"
    tokenizer = "o200k_base"

    [family.gpt-4o.models]             # one row a model
    gpt-4o = { window = 128_000, max_output = 16_384, aliases = ["chatgpt-4o"] }

    [models.mine]                      # a row of no family: what a user adds or overrides
    like = "gpt-4o"
    window = 64_000

`ollama` lists the names of a model in Ollama's namespace, its own name there first.
"""

import re
from collections.abc import Iterator, Mapping
from datetime import date
from typing import Annotated, Any, Final

import msgspec
from msgspec import UNSET, Meta, UnsetType

from brimful.core.model import CacheRule, Prior, Runtime, Wire
from brimful.errors import InvalidModel

_MOST_TOKENS: Final = 1_000_000_000  # no window is larger; a typing error is
_MOST_FACTOR: Final = 10  # tokens per token of another tokenizer

_Tokens = Annotated[int, Meta(ge=1, le=_MOST_TOKENS)]
_Amount = Annotated[int, Meta(ge=0, le=_MOST_TOKENS)]
_Word = Annotated[str, Meta(min_length=1)]


class _PriorFields(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    tokenizer: _Word
    factor: Annotated[float, Meta(gt=0, le=_MOST_FACTOR)]
    margin: Annotated[float, Meta(ge=0, le=_MOST_FACTOR)]
    source: str = ""
    weights: dict[str, float] = {}
    spread: dict[str, float] = {}


class _CacheFields(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    minimum_tokens: _Amount
    breakpoints: _Amount = 0
    lookback_blocks: _Amount = 0
    source: str = ""


class _Fields(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a file may say of a model. An empty text takes away what would be inherited."""

    like: _Word | UnsetType = UNSET
    aliases: tuple[_Word, ...] | UnsetType = UNSET
    ollama: tuple[_Word, ...] | UnsetType = UNSET
    provider: _Word | UnsetType = UNSET
    window: _Tokens | UnsetType = UNSET
    max_input: _Tokens | UnsetType = UNSET
    max_output: _Tokens | UnsetType = UNSET
    wire: Wire | UnsetType = UNSET
    tokenizer: str | UnsetType = UNSET
    prior: _PriorFields | UnsetType = UNSET
    overhead: _Word | UnsetType = UNSET
    chat_template: str | UnsetType = UNSET
    modalities: tuple[_Word, ...] | UnsetType = UNSET
    image_rule: str | UnsetType = UNSET
    audio_rule: str | UnsetType = UNSET
    video_rule: str | UnsetType = UNSET
    tool_system_tokens: _Amount | UnsetType = UNSET
    alternate: bool | UnsetType = UNSET
    system_role: bool | UnsetType = UNSET
    one_call: bool | UnsetType = UNSET
    short_ids: bool | UnsetType = UNSET
    system_turns: bool | UnsetType = UNSET
    runtime: Runtime | UnsetType = UNSET
    thinking: bool | UnsetType = UNSET
    cache: _CacheFields | UnsetType = UNSET
    source: _Word | UnsetType = UNSET
    as_of: date | UnsetType = UNSET


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One row as its file gives it: `fields` holds values of `ModelInfo`, only those that are said."""

    id: str
    file: str
    key: str
    fields: dict[str, Any]
    like: str = ""
    aliases: tuple[str, ...] = ()
    ollama: tuple[str, ...] = ()

    def error(self, field: str, reason: str) -> InvalidModel:
        """Name the file and the key of what is wrong."""
        return InvalidModel(self.file, f"{self.key}.{field}" if field else self.key, reason)


def parse(text: str, file: str) -> list[Entry]:
    r"""Read a whole file.

    >>> [row] = parse('[models.mine]\nlike = "gpt-4o"\nwindow = 64000', "models.toml")
    >>> row.like, row.fields
    ('gpt-4o', {'window': 64000})
    >>> parse('[models.mine]\nwindow = -1', "models.toml")
    Traceback (most recent call last):
    ...
    brimful.errors.InvalidModel: models.toml: models.mine.window: Expected `int` >= 1
    """
    try:
        data = msgspec.toml.decode(text)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:  # besides bad TOML: a number of too many digits
        raise InvalidModel(file, "", f"is not TOML: {error}") from None
    families = _table(data.pop("family", {}), file, "family")
    rows = _table(data.pop("models", {}), file, "models")
    defaults = _values(data, file, "")
    return [*_entries(rows, file, "models", defaults), *_families(families, file, defaults)]


def _families(families: Mapping[str, Any], file: str, defaults: dict[str, Any]) -> Iterator[Entry]:
    inherited: dict[str, dict[str, Any]] = {}
    for name, raw in families.items():
        key = f"family.{name}"
        table = dict(_table(raw, file, key))
        rows = _table(table.pop("models", {}), file, f"{key}.models")
        parent = _parent(table.pop("extends", None), inherited, file, key)
        inherited[name] = {**(defaults if parent is None else parent), **_values(table, file, key)}
        yield from _entries(rows, file, f"{key}.models", inherited[name])


def _parent(name: Any, families: Mapping[str, dict[str, Any]], file: str, key: str) -> dict[str, Any] | None:
    """Return what a family extends: one that stands above it, so that there is no circle."""
    if name is None:
        return None
    if not isinstance(name, str) or name not in families:
        raise InvalidModel(file, f"{key}.extends", f"no family {name!r} above this one")
    return families[name]


def _entries(rows: Mapping[str, Any], file: str, key: str, inherited: Mapping[str, Any]) -> Iterator[Entry]:
    for id, raw in rows.items():
        values = {**inherited, **_values(raw, file, f"{key}.{id}")}
        apart = {name: values.pop(name) for name in ("like", "aliases", "ollama") if name in values}
        yield Entry(id=id, file=file, key=f"{key}.{id}", fields=values, **apart)


def _table(raw: Any, file: str, key: str) -> Mapping[str, Any]:
    if not isinstance(raw, dict):
        raise InvalidModel(file, key, f"must be a table, not {raw!r}")
    return raw


def _values(raw: Any, file: str, key: str) -> dict[str, Any]:
    """Check what is said, and give it as values of `ModelInfo`."""
    try:
        fields = msgspec.convert(raw, _Fields)
    except msgspec.ValidationError as error:
        raise _located(str(error), file, key) from None
    said = {name: getattr(fields, name) for name in fields.__struct_fields__}
    values = {name: _plain(value) for name, value in said.items() if value is not UNSET}
    if values.get("tokenizer") and "prior" in values:
        raise InvalidModel(file, f"{key}.prior".lstrip("."), "a tokenizer or a prior counts a model, not both")
    return {**_instead(values), **values}


def _instead(values: Mapping[str, Any]) -> dict[str, None]:
    """Take away what would be inherited: a tokenizer stands in for a prior, and a prior for a tokenizer."""
    if values.get("tokenizer"):
        return {"prior": None}
    return {"tokenizer": None} if "prior" in values else {}


def _plain(value: Any) -> Any:
    match value:
        case "":
            return None
        case date():
            return value.isoformat()
        case _PriorFields():
            said = msgspec.structs.asdict(value)
            return Prior(**said | {key: tuple(said[key].items()) for key in ("weights", "spread")})
        case _CacheFields():
            return CacheRule(**msgspec.structs.asdict(value))
        case _:
            return value


def _located(message: str, file: str, key: str) -> InvalidModel:
    """Turn msgspec's `… - at `$.prior.factor`` into a key of the file."""
    reason, _, path = message.partition(" - at `$")
    unknown = re.search(r"unknown field `(.*)`", reason)
    parts = [key, path.rstrip("`").lstrip("."), unknown[1] if unknown else ""]
    return InvalidModel(file, ".".join(part for part in parts if part), "no such key" if unknown else reason)
