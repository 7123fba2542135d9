"""Model files: parse and validate TOML, resolve inheritance, and build the registry.

A file may look like this:

    as_of = 2026-11-15                 # defaults for the whole file
    source = "…"

    [family.gpt-4o]                    # defaults for a family; `extends` names another family of the file
    provider = "openai"
    tokenizer = "o200k_base"

    [family.gpt-4o.models]             # one row per model
    gpt-4o = { window = 128_000, max_output = 16_384, aliases = ["chatgpt-4o"] }

    [models.mine]                      # a row without a family: what a user adds or overrides
    like = "gpt-4o"
    window = 64_000

`ollama` lists the names of a model in Ollama's namespace, its main name first. Every error names the file and the
key.
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import date
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
from msgspec import UNSET, Meta, UnsetType

from brimful.core.model import CacheRule, ModelInfo, Prior, Runtime, WrittenWire
from brimful.errors import InvalidModel
from brimful.models.names import normalize_name
from brimful.models.registry import PublishedWindows, Registry, unknown_model

_MAX_TOKENS: Final = 1_000_000_000  # larger windows are typos
_MAX_FACTOR: Final = 10  # tokens per token of another tokenizer

_Tokens = Annotated[int, Meta(ge=1, le=_MAX_TOKENS)]
_Amount = Annotated[int, Meta(ge=0, le=_MAX_TOKENS)]
_PriceShare = Annotated[float, Meta(gt=0, le=_MAX_FACTOR)]
_Word = Annotated[str, Meta(min_length=1)]
_UNKNOWN: Final = unknown_model("")  # an unknown model but for its wire format, which depends on the name
EMPTY_REGISTRY: Final = Registry(rows={}, hosted={}, local={})
_DATA: Final = Path(__file__).with_name("data")
REGISTRY_FILE: Final = _DATA / "registry.json"
"""The bundled models. `tools/make_registry.py` makes it from the TOML files beside it, which take longer to read."""
PUBLISHED_FILE: Final = _DATA / "published.json"
"""Windows from price lists, which `tools/refresh_windows.py` reads."""

ENVIRONMENT_KEY: Final = "BRIMFUL_MODELS"
"""The environment variable with the path of the user's model file."""


class _PriorFields(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    tokenizer: _Word
    factor: Annotated[float, Meta(gt=0, le=_MAX_FACTOR)]
    margin: Annotated[float, Meta(ge=0, le=_MAX_FACTOR)]
    source: str = ""
    weights: dict[str, float] = {}
    spread: dict[str, float] = {}


class _CacheFields(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    minimum_tokens: _Amount
    read: _PriceShare = 1.0
    write: _PriceShare = 1.0
    breakpoints: _Amount = 0
    lookback_blocks: _Amount = 0
    source: str = ""


class _Fields(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The keys of a model. An empty string clears an inherited value."""

    like: _Word | UnsetType = UNSET
    aliases: tuple[_Word, ...] | UnsetType = UNSET
    ollama: tuple[_Word, ...] | UnsetType = UNSET
    provider: _Word | UnsetType = UNSET
    window: _Tokens | UnsetType = UNSET
    beta_windows: dict[_Word, _Tokens] | UnsetType = UNSET
    max_input: _Tokens | UnsetType = UNSET
    max_output: _Tokens | UnsetType = UNSET
    wire: WrittenWire | UnsetType = UNSET
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


class ModelEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One row of a file. `fields` has the values of `ModelInfo` that are set."""

    id: str
    file: str
    key: str
    fields: dict[str, Any]
    like: str = ""
    aliases: tuple[str, ...] = ()
    ollama: tuple[str, ...] = ()

    def error(self, field: str, reason: str) -> InvalidModel:
        """Return an error with the file and the key."""
        return InvalidModel(self.file, f"{self.key}.{field}" if field else self.key, reason)


def parse_models(text: str, file: str) -> list[ModelEntry]:
    r"""Parse a model file.

    >>> [row] = parse_models('[models.mine]\nlike = "gpt-4o"\nwindow = 64000', "models.toml")
    >>> row.like, row.fields
    ('gpt-4o', {'window': 64000})
    >>> parse_models('[models.mine]\nwindow = -1', "models.toml")
    Traceback (most recent call last):
    ...
    brimful.errors.InvalidModel: models.toml: models.mine.window: Expected `int` >= 1
    """
    try:
        data = msgspec.toml.decode(text)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:  # ValueError: too many digits
        raise InvalidModel(file, "", f"is not valid TOML: {error}") from None
    families = _require_table(data.pop("family", {}), file, "family")
    rows = _require_table(data.pop("models", {}), file, "models")
    defaults = _validate_fields(data, file, "")
    return [*_entries(rows, file, "models", defaults), *_family_entries(families, file, defaults)]


def _family_entries(families: Mapping[str, Any], file: str, defaults: dict[str, Any]) -> Iterator[ModelEntry]:
    inherited: dict[str, dict[str, Any]] = {}
    for name, raw in families.items():
        key = f"family.{name}"
        table = dict(_require_table(raw, file, key))
        rows = _require_table(table.pop("models", {}), file, f"{key}.models")
        parent = _parent_family(table.pop("extends", None), inherited, file, key)
        inherited[name] = {**(defaults if parent is None else parent), **_validate_fields(table, file, key)}
        yield from _entries(rows, file, f"{key}.models", inherited[name])


def _parent_family(name: Any, families: Mapping[str, dict[str, Any]], file: str, key: str) -> dict[str, Any] | None:
    """Return the values of the family that this one extends. It must come earlier, so that there are no cycles."""
    if name is None:
        return None
    if not isinstance(name, str) or name not in families:
        raise InvalidModel(file, f"{key}.extends", f"there is no earlier family {name!r}")
    return families[name]


def _entries(rows: Mapping[str, Any], file: str, key: str, inherited: Mapping[str, Any]) -> Iterator[ModelEntry]:
    for id, raw in rows.items():
        values = {**inherited, **_validate_fields(raw, file, f"{key}.{id}")}
        own = {name: values.pop(name) for name in ("like", "aliases", "ollama") if name in values}
        yield ModelEntry(id=id, file=file, key=f"{key}.{id}", fields=values, **own)


def _require_table(raw: Any, file: str, key: str) -> Mapping[str, Any]:
    if not isinstance(raw, dict):
        raise InvalidModel(file, key, f"must be a table, not {raw!r}")
    return raw


def _validate_fields(raw: Any, file: str, key: str) -> dict[str, Any]:
    """Validate keys, and convert them to values of `ModelInfo`."""
    try:
        fields = msgspec.convert(raw, _Fields)
    except msgspec.ValidationError as error:
        raise _convert_error(str(error), file, key) from None
    raw_values = msgspec.structs.asdict(fields)
    values = {name: _plain_value(value) for name, value in raw_values.items() if value is not UNSET}
    if values.get("tokenizer") and "prior" in values:
        raise InvalidModel(file, f"{key}.prior".lstrip("."), "cannot be combined with a tokenizer")
    return {**_cleared_fields(values), **values}


def _cleared_fields(values: Mapping[str, Any]) -> dict[str, None]:
    """Clear inherited values: a tokenizer replaces a prior, and a prior replaces a tokenizer."""
    if values.get("tokenizer"):
        return {"prior": None}
    return {"tokenizer": None} if "prior" in values else {}


def _plain_value(value: Any) -> Any:
    match value:
        case "":
            return None
        case date():
            return value.isoformat()
        case _PriorFields():
            raw_values = msgspec.structs.asdict(value)
            return Prior(**raw_values | {key: tuple(raw_values[key].items()) for key in ("weights", "spread")})
        case dict():
            return tuple(value.items())
        case _CacheFields():
            return CacheRule(**msgspec.structs.asdict(value))
        case _:
            return value


def _convert_error(message: str, file: str, key: str) -> InvalidModel:
    """Convert msgspec's `… - at `$.prior.factor`` to a key of the file."""
    reason, _, path = message.partition(" - at `$")
    unknown = re.search(r"unknown field `(.*)`", reason)
    parts = [key, path.rstrip("`").lstrip("."), unknown[1] if unknown else ""]
    return InvalidModel(file, ".".join(part for part in parts if part), "unknown key" if unknown else reason)


def add_models(base: Registry, entries: Iterable[ModelEntry]) -> Registry:
    r"""Return `base` with these rows added. A row with an existing name overrides it, field by field.

    >>> from brimful.models.files import parse_models
    >>> sheet = parse_models('[models.a-1]\nwindow = 900\n[models.b]\nlike = "A.1"\n', "models.toml")
    >>> mine = add_models(EMPTY_REGISTRY, sheet)
    >>> mine.resolve("b").window
    900
    """
    builder = _Builder(base, entries)
    for entry in builder.entries.values():
        builder.build(entry, ())
    changed = {id for id, row in builder.rows.items() if base.rows.get(id) is not row} if base.rows else set()
    return Registry(
        rows=builder.rows,
        hosted=builder.hosted,
        local=builder.local,
        published=base.published,
        custom=base.custom | changed,
    )


class _Builder:
    """Builds rows in the order of their dependencies."""

    def __init__(self, base: Registry, entries: Iterable[ModelEntry]) -> None:
        self.base = base
        self.rows, self.hosted, self.local = dict(base.rows), dict(base.hosted), dict(base.local)
        self.entries: dict[str, ModelEntry] = {}
        self.built: dict[str, ModelInfo] = {}
        self.claims: dict[tuple[bool, str], str] = {}
        for entry in entries:
            if (twin := self.entries.setdefault(normalize_name(entry.id), entry)) is not entry:
                raise entry.error("", f"is defined twice, also as {twin.key} in {twin.file}")

    def build(self, entry: ModelEntry, waiting: tuple[str, ...]) -> ModelInfo:
        """Build the row of an entry, after the one it is like. `waiting` are the entries that depend on it."""
        if entry.id in self.built:
            return self.built[entry.id]
        if entry.id in waiting:
            raise entry.error("like", f"is circular: {' → '.join((*waiting, entry.id))}")
        row = _make_row(entry, self._parent(entry, (*waiting, entry.id)))
        self.built[entry.id] = row
        self._put(entry, row, (entry.id, *entry.aliases))
        if entry.ollama:
            id = entry.ollama[0]
            self._put(entry, msgspec.structs.replace(row, id=id, canonical=id, wire="ollama"), entry.ollama)
        return row

    def _parent(self, entry: ModelEntry, waiting: tuple[str, ...]) -> ModelInfo:
        if entry.like and (sibling := self.entries.get(normalize_name(entry.like))):
            return self.build(sibling, waiting)
        canonical = self.base.canonical(entry.like or entry.id) if self.base.rows else None
        if canonical is not None:
            return self.base.rows[canonical]
        published = self.base.resolve(entry.like or entry.id)
        if not published.assumed_window:
            return published
        if entry.like:
            raise entry.error("like", f"there is no model {entry.like!r}")
        if "window" not in entry.fields:
            raise entry.error("window", "is required, unless it is inherited (like = …)")
        return _UNKNOWN if "wire" in entry.fields else unknown_model(entry.id)

    def _put(self, entry: ModelEntry, row: ModelInfo, names: tuple[str, ...]) -> None:
        self.rows[row.id] = row
        local = row.wire == "ollama"
        index = self.local if local else self.hosted
        for name in names:
            spelling = normalize_name(name)
            if (owner := self.claims.setdefault((local, spelling), row.id)) != row.id:
                raise entry.error("", f"{name!r} is already a name of {owner!r}")
            index[spelling] = row.id


def _make_row(entry: ModelEntry, parent: ModelInfo) -> ModelInfo:
    window = entry.fields.get("window", parent.window)
    # By default, only the window limits the output.
    max_output = min(parent.max_output, window) if parent.known else window
    values = {"source": entry.file, "max_output": max_output, **entry.fields}
    if values.get("tokenizer"):
        parent = parent.with_tokenizer(values["tokenizer"])
    row = msgspec.structs.replace(parent, **values, id=entry.id, canonical=entry.id, known=True, assumed_window=False)
    if row.tokenizer and row.has_tokenizer_file:
        row = msgspec.structs.replace(row, tokenizer=str(Path(entry.file).parent / Path(row.tokenizer).expanduser()))
    if row.max_output > row.window:
        raise entry.error("max_output", f"{row.max_output:,} is more than the window, {row.window:,}")
    if row.overhead == "template" and not row.chat_template and not row.has_tokenizer_file:
        raise entry.error("chat_template", "is required if overhead is 'template'")
    return row


def load_registry(path: Path | None = None, environ: Mapping[str, str] | None = None) -> Registry:
    """Return the built-in models and the models in the user's file.

    The file is `path`, or the one that BRIMFUL_MODELS names in `environ` (by default, the process's environment).

    >>> load_registry(environ={}).resolve("openai/gpt-4o-2024-08-06").window
    128000
    """
    file = path or _path_in_environment(os.environ if environ is None else environ)
    bundled = _bundled_registry()
    return bundled if file is None else add_models(bundled, parse_models(_read_text(file), str(file)))


@cache
def default_registry() -> Registry:
    """Return the registry of this process. It is read once."""
    return load_registry()


def resolve(name: str, registry: Registry | None = None) -> ModelInfo:
    """Look up a model by any of its names. An unknown name returns the fallback.

    >>> resolve("claude-3-5-sonnet-20241022").window
    200000
    >>> resolve("nobody-knows-me").known
    False
    """
    return (default_registry() if registry is None else registry).resolve(name)


@cache
def _bundled_registry() -> Registry:
    registry = msgspec.json.decode(REGISTRY_FILE.read_bytes(), type=Registry)
    published = msgspec.json.decode(PUBLISHED_FILE.read_bytes(), type=tuple[PublishedWindows, ...])
    return msgspec.structs.replace(registry, published=published)


def bundled_entries() -> Iterator[ModelEntry]:
    """Read the bundled TOML files."""
    for file in sorted(REGISTRY_FILE.parent.glob("*.toml")):
        yield from parse_models(file.read_text(encoding="utf-8"), file.name)


def _path_in_environment(environ: Mapping[str, str]) -> Path | None:
    value = environ.get(ENVIRONMENT_KEY, "")
    return Path(value) if value else None


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise InvalidModel(str(path), "", f"is not UTF-8 text (byte {error.start})") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise InvalidModel(str(path), "", f"cannot be read: {reason}") from None
