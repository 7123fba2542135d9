"""Lorebook formats: SillyTavern's World Info and the books of character cards (V2, V3).

Reading a file and writing it again gives the same file.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple, get_args

import msgspec

from brimful.core import validation
from brimful.core.validation import to_finite_float
from brimful.errors import BrimfulError, InvalidValue
from brimful.formats.ids import join_id
from brimful.formats.lorebook_fields import (
    BRIMFUL_EXTENSION,
    EXTENSIONS,
    LOGIC_NUMBERS,
    Field,
    JsonObject,
    KeyPath,
    Values,
    bool_or_none,
    clean_str,
    clean_strs,
    count_or_zero,
    first_present,
    int_in_range,
    int_or_none,
    is_true,
    logic_from_number,
    none_if_zero,
    optional_field,
    percent_from_share,
    read_fields,
    required_field,
    share_from_percent,
    split_names,
    unexpressed_values,
    value_at,
    write_fields,
)
from brimful.formats.sillytavern_folder import lorebook_defaults
from brimful.formats.source import Format, ImportedRecord, Skipped, room_name
from brimful.formats.source import Source as ImportSource
from brimful.records.lorebook import Lorebook, LoreEntry, Source

WORLD_INFO_SOURCES: Final[dict[Source, str]] = {
    "user": "matchPersonaDescription",
    "description": "matchCharacterDescription",
    "personality": "matchCharacterPersonality",
    "scenario": "matchScenario",
    "depth-prompt": "matchCharacterDepthPrompt",
    "creator-notes": "matchCreatorNotes",
}
WORLD_INFO_DEFAULTS: Final[dict[str, Any]] = {
    "addMemo": True,
    "position": 0,
    "depth": 4,
    "role": 0,
    "outletName": "",
    "automationId": "",
}
"""Fields of a new entry without a counterpart: policies decide where lore is placed."""
WORLD_INFO_BOOK_FIELDS: Final[tuple[Field, ...]] = (optional_field("name", ("name",), clean_str, ""),)
DEFAULT_RECURSION: Final = 10  # rounds of a book that uses recursion without a limit
DEFAULT_SCAN_DEPTH: Final = 2  # SillyTavern's default
CARD_SOURCES: Final[dict[Source, str]] = {
    "user": "match_persona_description",
    "description": "match_character_description",
    "personality": "match_character_personality",
    "scenario": "match_scenario",
    "depth-prompt": "match_character_depth_prompt",
    "creator-notes": "match_creator_notes",
}
STANDALONE_SPEC: Final = "lorebook_v3"  # the spec of a V3 book outside of a card
_ENTRIES: Final = "entries"
_SILLYTAVERN_DEFAULTS: Final = {
    "names": True,
    "whole_words": False,
    "scan_depth": DEFAULT_SCAN_DEPTH,
    "recursion": DEFAULT_RECURSION,
}
"""SillyTavern's default settings, which are not part of its books."""
_ENTRY_DEFAULTS: Final = {
    field.name: field.default
    for field in msgspec.structs.fields(LoreEntry)
    if field.name not in ("id", "lorebook", "settings")
}
_BOOK_DEFAULTS: Final = {
    field.name: field.default for field in msgspec.structs.fields(Lorebook) if field.name not in ("id", "settings")
}


def as_regex_literal(pattern: str) -> str:
    """Return a regular expression between slashes, with inner slashes escaped.

    >>> as_regex_literal("elf|elves"), as_regex_literal("/elf/i")
    ('/elf|elves/', '/elf/i')
    """
    if len(pattern) > 1 and pattern.startswith("/") and pattern.rpartition("/")[0]:
        return pattern
    return "/" + pattern.replace("\\/", "/").replace("/", "\\/") + "/"


def _probability_field(prefix: KeyPath, *, required: bool) -> Field:
    """Return the field of a percentage that may be switched off."""
    percent, used = (*prefix, "probability"), (*prefix, "useProbability")

    def read(raw: JsonObject) -> tuple[Any, ...]:
        return (1.0 if first_present(raw, used) is False else share_from_percent(first_present(raw, percent)),)

    def write(probability: float) -> dict[KeyPath, Any]:
        return {percent: percent_from_share(probability), used: True} if required or probability != 1.0 else {}

    return Field(("probability",), (percent, used), read, write)


def _sources_field(prefix: KeyPath, names: Mapping[Source, str], *, required: bool) -> Field:
    """Return the field of the texts that are searched for keywords besides messages: a boolean for each."""
    paths = {source: (*prefix, name) for source, name in names.items()}
    return Field(
        ("sources",),
        tuple(paths.values()),
        lambda raw: (tuple(source for source, path in paths.items() if first_present(raw, path) is True),),
        lambda sources: (
            {path: source in sources for source, path in paths.items()}
            if required
            else {paths[source]: True for source in sources}
        ),
    )


def _read_world_info_filter(raw: JsonObject) -> tuple[Any, ...]:
    inner = ("characterFilter",)
    names, tags = (clean_strs(first_present(raw, (*inner, each))) for each in ("names", "tags"))
    return names, tags, is_true(first_present(raw, (*inner, "isExclude")))


def _write_world_info_filter(names: tuple[str, ...], tags: tuple[str, ...], exclude: bool) -> dict[KeyPath, Any]:  # noqa: FBT001
    if not (names or tags or exclude):
        return {}
    return {("characterFilter",): {"isExclude": exclude, "names": list(names), "tags": list(tags)}}


WORLD_INFO_FIELDS: Final[tuple[Field, ...]] = (
    Field(
        ("keys", "regex"),
        (("key",),),
        lambda raw: (clean_strs(raw.get("key")), False),
        lambda keys, regex: {("key",): [as_regex_literal(key) for key in keys] if regex else list(keys)},
    ),
    Field(
        ("secondary",),
        (("keysecondary",), ("selective",)),
        lambda raw: (() if raw.get("selective") is False else clean_strs(raw.get("keysecondary")),),
        lambda secondary: {("keysecondary",): list(secondary), ("selective",): True},
    ),
    required_field("logic", ("selectiveLogic",), logic_from_number, LOGIC_NUMBERS.index),
    required_field("name", ("comment",), clean_str),
    required_field("content", ("content",), clean_str),
    required_field("constant", ("constant",), is_true),
    required_field("vector", ("vectorized",), is_true),
    required_field("order", ("order",), lambda value: int_in_range(value, 100, low=-(10**12))),
    required_field("enabled", ("disable",), lambda value: value is not True, lambda enabled: not enabled),
    required_field("ignore_budget", ("ignoreBudget",), is_true),
    required_field("exclude_recursion", ("excludeRecursion",), is_true),
    required_field("prevent_recursion", ("preventRecursion",), is_true),
    required_field("delay_until_recursion", ("delayUntilRecursion",), count_or_zero),
    _probability_field((), required=True),
    _sources_field((), WORLD_INFO_SOURCES, required=True),
    required_field("groups", ("group",), split_names, ", ".join),
    required_field("group_override", ("groupOverride",), is_true),
    required_field("group_weight", ("groupWeight",), lambda value: int_in_range(value, 100)),
    required_field("group_scoring", ("useGroupScoring",), bool_or_none),
    required_field("scan_depth", ("scanDepth",), int_or_none),
    required_field("case_sensitive", ("caseSensitive",), bool_or_none),
    required_field("whole_words", ("matchWholeWords",), bool_or_none),
    required_field("sticky", ("sticky",), count_or_zero, none_if_zero),
    required_field("cooldown", ("cooldown",), count_or_zero, none_if_zero),
    required_field("delay", ("delay",), count_or_zero, none_if_zero),
    required_field("triggers", ("triggers",), clean_strs, list),
    Field(
        ("personas", "tags", "exclude_personas"),
        (("characterFilter",),),
        _read_world_info_filter,
        _write_world_info_filter,
    ),
)


def world_info_template(number: int) -> dict[str, Any]:
    """Return the other fields of a new entry."""
    return {"uid": number, "displayIndex": number, **WORLD_INFO_DEFAULTS}


def is_world_info_entry(raw: object) -> bool:
    """Return whether an entry in a list has SillyTavern's fields."""
    return isinstance(raw, dict) and "key" in raw and "keys" not in raw


def is_sillytavern_card_entry(raw: JsonObject) -> bool:
    """Return whether an entry of a character card was written by SillyTavern."""
    return any(value_at(raw, (EXTENSIONS, name)) for name in ("selectiveLogic", "useProbability", "display_index"))


def extension_path(name: str) -> KeyPath:
    return (EXTENSIONS, name)


def has_regex_keys(raw: JsonObject) -> bool:
    """Return whether all keywords are regular expressions. SillyTavern always sets `use_regex`, so it means nothing."""
    return raw.get("use_regex") is True and not is_sillytavern_card_entry(raw)


def _card_fields(*, writes_regex: bool) -> tuple[Field, ...]:
    return (
        Field(
            ("keys", "regex"),
            (("keys",), ("use_regex",)),
            lambda raw: (clean_strs(raw.get("keys")), has_regex_keys(raw)),
            lambda keys, regex: {("keys",): list(keys), **({("use_regex",): regex} if regex or writes_regex else {})},
        ),
        required_field("content", ("content",), clean_str),
        required_field("enabled", ("enabled",), lambda value: value is not False),
        required_field("order", ("insertion_order",), lambda value: int_in_range(value, 100, low=-(10**12))),
        Field(  # in V3, entries with regular expressions have none
            ("secondary",),
            (("secondary_keys",), ("selective",)),
            lambda raw: (
                clean_strs(raw.get("secondary_keys"))
                if raw.get("selective") is True and not has_regex_keys(raw)
                else (),
            ),
            lambda secondary: {("secondary_keys",): list(secondary), ("selective",): True} if secondary else {},
        ),
        Field(  # in V3, entries with regular expressions are not
            ("constant",),
            (("constant",),),
            lambda raw: (raw.get("constant") is True and not has_regex_keys(raw),),
            lambda so: {("constant",): True} if so else {},
        ),
        Field(
            ("name",),
            (("comment",),),
            lambda raw: (clean_str(raw.get("comment")) or clean_str(raw.get("name")),),
            lambda name: {("comment",): name} if name else {},
        ),
        Field(
            ("case_sensitive",),
            (("case_sensitive",), extension_path("case_sensitive")),
            lambda raw: (bool_or_none(first_present(raw, extension_path("case_sensitive"), ("case_sensitive",))),),
            lambda case: {} if case is None else {("case_sensitive",): case},
        ),
        optional_field("priority", ("priority",), to_finite_float, None),
        optional_field("logic", extension_path("selectiveLogic"), logic_from_number, "and-any", LOGIC_NUMBERS.index),
        optional_field("vector", extension_path("vectorized"), is_true, default=False),
        optional_field("ignore_budget", extension_path("ignore_budget"), is_true, default=False),
        optional_field("exclude_recursion", extension_path("exclude_recursion"), is_true, default=False),
        optional_field("prevent_recursion", extension_path("prevent_recursion"), is_true, default=False),
        optional_field("delay_until_recursion", extension_path("delay_until_recursion"), count_or_zero, 0),
        _probability_field((EXTENSIONS,), required=False),
        _sources_field((EXTENSIONS,), CARD_SOURCES, required=False),
        optional_field("groups", extension_path("group"), split_names, (), ", ".join),
        optional_field("group_override", extension_path("group_override"), is_true, default=False),
        optional_field("group_weight", extension_path("group_weight"), lambda value: int_in_range(value, 100), 100),
        optional_field("group_scoring", extension_path("use_group_scoring"), bool_or_none, None),
        optional_field("scan_depth", extension_path("scan_depth"), int_or_none, None),
        optional_field("whole_words", extension_path("match_whole_words"), bool_or_none, None),
        optional_field("sticky", extension_path("sticky"), count_or_zero, 0),
        optional_field("cooldown", extension_path("cooldown"), count_or_zero, 0),
        optional_field("delay", extension_path("delay"), count_or_zero, 0),
        optional_field("triggers", extension_path("triggers"), clean_strs, (), list),
    )


CARD_V2_FIELDS: Final = _card_fields(writes_regex=False)
CARD_V3_FIELDS: Final = _card_fields(writes_regex=True)
CARD_BOOK_FIELDS: Final[tuple[Field, ...]] = (
    optional_field("name", ("name",), clean_str, ""),
    optional_field("description", ("description",), clean_str, ""),
    required_field("scan_depth", ("scan_depth",), lambda value: int_in_range(value, DEFAULT_SCAN_DEPTH)),
    optional_field("budget", ("token_budget",), lambda value: int_or_none(value) or None, None),
    Field(
        ("recursion",),
        (("recursive_scanning",),),
        lambda raw: (0 if raw.get("recursive_scanning") is False else DEFAULT_RECURSION,),
        lambda rounds: {("recursive_scanning",): bool(rounds)},
    ),
)


def card_entry_template(number: int) -> dict[str, Any]:
    """Return the other fields of a new entry."""
    return {"id": number, EXTENSIONS: {}}


LorebookFormat = Literal["sillytavern", "v2", "v3"]
LOREBOOK_FORMATS: Final[tuple[LorebookFormat, ...]] = get_args(LorebookFormat)


class _FormatSpec(NamedTuple):
    """A format: the fields of an entry and of a book, the template of a new entry, and defaults for books."""

    entry: tuple[Field, ...]
    book: tuple[Field, ...]
    template: Any
    defaults: dict[str, Any]


_FORMAT_SPECS: Final[dict[LorebookFormat, _FormatSpec]] = {
    "sillytavern": _FormatSpec(WORLD_INFO_FIELDS, WORLD_INFO_BOOK_FIELDS, world_info_template, _SILLYTAVERN_DEFAULTS),
    "v2": _FormatSpec(CARD_V2_FIELDS, CARD_BOOK_FIELDS, card_entry_template, _SILLYTAVERN_DEFAULTS),
    "v3": _FormatSpec(CARD_V3_FIELDS, CARD_BOOK_FIELDS, card_entry_template, _SILLYTAVERN_DEFAULTS),
}


def detect_lorebook_format(data: object) -> LorebookFormat:
    """Return the format of a book.

    >>> detect_lorebook_format({"entries": {}}), detect_lorebook_format({"entries": []})
    ('sillytavern', 'v2')
    >>> detect_lorebook_format({"spec": "lorebook_v3", "data": {}})
    'v3'
    """
    if not isinstance(data, Mapping):
        raise InvalidValue("lorebook", f"must be a JSON object, not {validation.preview(data)}")
    if data.get("spec") == STANDALONE_SPEC:
        return "v3"
    entries = data.get(_ENTRIES)
    if isinstance(entries, Mapping) or (isinstance(entries, list) and any(map(is_world_info_entry, entries))):
        return "sillytavern"
    if isinstance(entries, list):
        return "v3" if any(isinstance(each, Mapping) and "use_regex" in each for each in entries) else "v2"
    raise InvalidValue("lorebook", "has no entries: neither SillyTavern's World Info nor the book of a character card")


def read_lorebook(
    data: Mapping[str, Any], id: str, name: str = "", *, defaults: Mapping[str, Any] | None = None
) -> Lorebook:
    """Return a lorebook from the data of a file; `name` is used if it has none.

    `defaults` are values for fields that the file does not have, from the settings of its program. They are not part
    of the file, and are not written to it.
    """
    try:
        return _read_book(data, id, name, defaults or {})
    except msgspec.ValidationError as error:
        raise InvalidValue("lorebook", str(error)) from None
    except RecursionError:
        raise InvalidValue("lorebook", "is nested too deeply") from None


def _read_book(data: Mapping[str, Any], id: str, name: str, defaults: Mapping[str, Any]) -> Lorebook:
    format = detect_lorebook_format(data)
    spec, raw = _FORMAT_SPECS[format], _book_data(data)
    rest = {key: value for key, value in raw.items() if key != _ENTRIES}
    extension, rest = _take_extension(rest, Lorebook, id=id)
    read = read_fields(rest, spec.book)
    state: dict[str, Any] = {"rest": read.rest, "absent": read.absent}
    if raw is not data:
        state["wrapper"] = {key: value for key, value in data.items() if key != "data"}
    elif format == "v3":
        state["bare"] = True
    if isinstance(raw.get(_ENTRIES), list) and format == "sillytavern":
        state["as_list"] = True
    values = {**spec.defaults, **defaults, **read.values, **extension.fields}
    if defaults:
        state["defaults"] = dict(defaults)
    if name and not values["name"]:
        state["added_name"] = values["name"] = name
    settings = {**extension.formats, format: _without_defaults(state)}
    return msgspec.convert({"id": id, **values, "settings": settings}, Lorebook)


def read_lorebook_entries(data: Mapping[str, Any], lorebook: str) -> list[LoreEntry]:
    """Return the entries of a book in any known format, for the lorebook with that id.

    The same file always gives the same ids.
    """
    format = detect_lorebook_format(data)
    entries = _book_data(data).get(_ENTRIES)
    listed = entries.items() if isinstance(entries, Mapping) else enumerate(entries or ())
    taken: set[str] = set()
    return [_read_entry(format, i, raw, lorebook, taken) for i, raw in listed]


def write_lorebook(book: Lorebook, entries: Sequence[LoreEntry], format: LorebookFormat) -> dict[str, Any]:
    """Return the data of a file for a lorebook, in a format."""
    if format not in LOREBOOK_FORMATS:
        raise InvalidValue("format", f"must be one of {', '.join(LOREBOOK_FORMATS)}, not {validation.preview(format)}")
    spec = _FORMAT_SPECS[format]
    original = _original(book.settings, format)
    values = {name: getattr(book, name) for name in _BOOK_DEFAULTS}
    if values["name"] == original.get("added_name"):
        values["name"] = ""
    start = original.get("rest", _book_template(format))
    raw = write_fields(values, start, original.get("absent", ()), spec.book)
    others = _other_formats(book.settings, format)
    unexpressed = {str(each): state for each, state in others.items() if not _is_default_book(state, each)}
    defaults = {**_BOOK_DEFAULTS, **spec.defaults, **original.get("defaults", {})}
    _add_extension(raw, values, spec.book, defaults, unexpressed)
    written = _write_entries(entries, format)
    raw[_ENTRIES] = list(written.values()) if format != "sillytavern" or original.get("as_list") else written
    if format != "v3" or original.get("bare"):
        return raw
    return {**original.get("wrapper", {"spec": STANDALONE_SPEC}), "data": raw}


# -- entries ---------------------------------------------------------------------------------------------------------


def _read_entry(format: LorebookFormat, key: str | int, raw: object, lorebook: str, taken: set[str]) -> LoreEntry:
    if not isinstance(raw, Mapping):
        raise InvalidValue(f"entries[{key}]", f"must be a JSON object, not {validation.preview(raw)}")
    id = _entry_id(lorebook, key, raw, taken)
    try:
        extension, rest = _take_extension(raw, LoreEntry, id=id, lorebook=lorebook, content="")
        read = read_fields(rest, _FORMAT_SPECS[format].entry)
        state = _without_defaults({"position": key, "rest": read.rest, "absent": read.absent})
        values = {**read.values, **extension.fields, "settings": {**extension.formats, format: state}}
        return msgspec.convert({"id": id, "lorebook": lorebook, **values}, LoreEntry)
    except (BrimfulError, msgspec.ValidationError) as error:
        raise InvalidValue(f"entries[{key}]", str(error)) from None
    except RecursionError:
        raise InvalidValue(f"entries[{key}]", "is nested too deeply") from None


def _entry_id(lorebook: str, key: str | int, raw: JsonObject, taken: set[str]) -> str:
    """Return an id that is unique within the file."""
    # Only the last slash separates the book from the entry, so that no two books share an id.
    own = next((raw[name] for name in ("uid", "id") if isinstance(raw.get(name), str | int) and raw[name] != ""), key)
    base = id = f"{lorebook}/{str(own).replace('/', '%2F')}".replace("\0", "_")
    again = 1
    while id in taken:
        again += 1
        id = f"{base}~{again}"
    taken.add(id)
    return id


def _write_entries(entries: Sequence[LoreEntry], format: LorebookFormat) -> dict[str, dict[str, Any]]:
    """Return entries by their keys in the file: imported ones in their original order, then new ones by `order`."""
    ordered = sorted(entries, key=lambda entry: (*_entry_position(entry, format), entry.order, entry.id))
    taken = {str(_original(entry.settings, format).get("position")) for entry in ordered}
    written: dict[str, dict[str, Any]] = {}
    number = 0
    for entry in ordered:
        original = _original(entry.settings, format)
        while not original and str(number) in taken:
            number += 1
        key = str(original.get("position", number))
        taken.add(key)
        written[key] = _write_entry(entry, format, original.get("rest", _FORMAT_SPECS[format].template(number)))
    return written


def _entry_position(entry: LoreEntry, format: LorebookFormat) -> tuple[bool, int]:
    """Return the sort key of an entry: its position in the file, or in a file of another format."""
    keys = (_original(entry.settings, each).get("position") for each in (format, *LOREBOOK_FORMATS))
    first = next((key for key in keys if key is not None), None)
    number = int(first) if isinstance(first, int) or (isinstance(first, str) and first.isdecimal()) else None
    return (number is None, number or 0)


def _write_entry(entry: LoreEntry, format: LorebookFormat, start: JsonObject) -> dict[str, Any]:
    fields = _FORMAT_SPECS[format].entry
    values = {name: getattr(entry, name) for name in _ENTRY_DEFAULTS}
    raw = write_fields(values, start, _original(entry.settings, format).get("absent", ()), fields)
    defaults = {**_ENTRY_DEFAULTS, "content": ""}
    others = _other_formats(entry.settings, format)
    unexpressed = {
        str(each): state for each, state in others.items() if not _is_default_entry(state, _FORMAT_SPECS[each])
    }
    _add_extension(raw, values, fields, defaults, unexpressed)
    return raw


# -- our own extension -----------------------------------------------------------------------------------------------


class _Extension(NamedTuple):
    """What we store in a file of another program: values of our fields, and the state of other formats."""

    fields: Values
    formats: dict[str, Any]


def _take_extension(raw: JsonObject, kind: type[msgspec.Struct], **needed: str) -> tuple[_Extension, dict[str, Any]]:
    """Remove our extension from an object. One that has our name but is not extension stays."""
    extension = value_at(raw, (EXTENSIONS, BRIMFUL_EXTENSION))
    if not extension or not isinstance(extension[0], dict):
        return _Extension({}, {}), dict(raw)
    fields, formats = extension[0].get("fields", {}), extension[0].get("formats", {})
    try:
        msgspec.convert({**needed, **fields, "settings": formats}, kind)
    except (BrimfulError, msgspec.ValidationError, TypeError):
        return _Extension({}, {}), dict(raw)
    if (
        set(extension[0]) - {"fields", "formats", "replaced"}
        or not _has_known_fields(fields, kind)
        or set(formats) - set(LOREBOOK_FORMATS)
    ):
        return _Extension({}, {}), dict(raw)
    rest = {key: value for key, value in raw.items() if key != EXTENSIONS}
    match extension[0].get("replaced"):
        case []:
            return _Extension(fields, formats), rest
        case [replaced]:
            return _Extension(fields, formats), {**rest, EXTENSIONS: replaced}
    extensions = {key: value for key, value in raw[EXTENSIONS].items() if key != BRIMFUL_EXTENSION}
    return _Extension(fields, formats), {**rest, EXTENSIONS: extensions}


def _has_known_fields(fields: JsonObject, kind: type[msgspec.Struct]) -> bool:
    return set(fields) <= set(_ENTRY_DEFAULTS if kind is LoreEntry else _BOOK_DEFAULTS)


def _add_extension(
    raw: dict[str, Any], values: Values, fields: Sequence[Field], defaults: Values, formats: Mapping[str, Any]
) -> None:
    """Add an extension with what the format cannot express."""
    extra = {"fields": unexpressed_values(values, raw, fields, defaults), "formats": formats}
    extension: dict[str, Any] = {key: value for key, value in extra.items() if value}
    extensions = raw.get(EXTENSIONS)
    if extension and isinstance(extensions, dict):
        raw[EXTENSIONS] = {**extensions, BRIMFUL_EXTENSION: msgspec.to_builtins(extension)}
    elif extension:
        extension["replaced"] = value_at(raw, (EXTENSIONS,))  # the old value, if there was one
        raw[EXTENSIONS] = {BRIMFUL_EXTENSION: msgspec.to_builtins(extension)}


def _original(settings: JsonObject, format: LorebookFormat) -> dict[str, Any]:
    state = settings.get(format)
    return state if isinstance(state, dict) else {}


def _book_template(format: LorebookFormat) -> dict[str, Any]:
    """Return the other fields of a new book."""
    return {} if format == "sillytavern" else {EXTENSIONS: {}}


def _is_default_book(state: JsonObject, format: LorebookFormat) -> bool:
    """Return whether a book of a format has only what we would write into a new one."""
    wrapper = {"wrapper": {"spec": STANDALONE_SPEC}} if format == "v3" else {}
    return state == {"rest": _book_template(format), **wrapper}


def _is_default_entry(state: JsonObject, spec: _FormatSpec) -> bool:
    """Return whether an entry of a format has only what we would write into a new one."""
    key = str(state.get("position"))
    return key.isdecimal() and state == {"position": state["position"], "rest": spec.template(int(key))}


def _other_formats(settings: JsonObject, format: LorebookFormat) -> dict[LorebookFormat, JsonObject]:
    return {
        each: settings[each] for each in LOREBOOK_FORMATS if each != format and isinstance(settings.get(each), dict)
    }


def _without_defaults(state: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in state.items() if value is not False and value != []}


def _book_data(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the book itself, which a standalone V3 book has under `data`."""
    if data.get("spec") != STANDALONE_SPEC:
        return data
    inner = data.get("data")
    if not isinstance(inner, Mapping) or not isinstance(inner.get(_ENTRIES, []), list):
        raise InvalidValue("lorebook", "has no list of entries in its data")
    return inner


__all__ = [
    "LOREBOOK_FORMATS",
    "LorebookFormat",
    "detect_lorebook_format",
    "read_lorebook",
    "read_lorebook_entries",
    "write_lorebook",
]


_ENTRY: Final = ({"key", "content"}, {"keys", "content"})


def recognizes(source: ImportSource) -> bool:
    """Return whether there are entries with keywords and contents, or an empty lorebook in SillyTavern's folder."""
    keys = source.keys
    has_entries = any(each <= keys for each in _ENTRY) or (source.path.parent.name == "worlds" and keys == {"entries"})
    return source.head.lstrip().startswith(b"{") and "entries" in keys and has_entries


def read(source: ImportSource) -> Iterator[ImportedRecord | Skipped]:
    """Yield the lorebook, which is named after its file, and its entries."""
    entry = source.whole()
    if isinstance(entry, Skipped):
        yield entry
        return
    name = room_name(source.name)
    try:
        book = read_lorebook(entry.data, join_id(name), name, defaults=lorebook_defaults(source))
        records: list[ImportedRecord] = [book, *read_lorebook_entries(entry.data, join_id(name))]
    except BrimfulError as error:
        yield Skipped(source.name, str(error))
        return
    yield from records


FORMAT: Final = Format(
    name="world-info",
    description="SillyTavern World Info, and standalone lorebooks of character cards",
    recognizes=recognizes,
    read=read,
)
