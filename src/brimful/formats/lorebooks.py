"""Lorebook formats: SillyTavern's World Info and the books of character cards (V2, V3).

Reading a file and writing it again gives the same file.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple, get_args

import msgspec

from brimful.core import validation
from brimful.core.validation import to_finite_float
from brimful.errors import BrimfulError, InvalidValue
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
"""What an entry says that was not SillyTavern's: where it stands in a prompt is for our policies to say."""


def _read_world_info_keys(raw: JsonObject) -> tuple[Any, ...]:
    return clean_strs(raw.get("key")), False


def _write_world_info_keys(keys: tuple[str, ...], regex: bool) -> dict[KeyPath, Any]:  # noqa: FBT001 - called by its place
    return {("key",): [as_regex_literal(key) for key in keys] if regex else list(keys)}


def as_regex_literal(pattern: str) -> str:
    """Return a pattern between slashes, as SillyTavern knows one; a slash within is escaped.

    >>> as_regex_literal("elf|elves"), as_regex_literal("/elf/i")
    ('/elf|elves/', '/elf/i')
    """
    if len(pattern) > 1 and pattern.startswith("/") and pattern.rpartition("/")[0]:
        return pattern
    return "/" + pattern.replace("\\/", "/").replace("/", "\\/") + "/"


def _read_world_info_secondary(raw: JsonObject) -> tuple[Any, ...]:
    return (() if raw.get("selective") is False else clean_strs(raw.get("keysecondary")),)


def _write_world_info_secondary(secondary: tuple[str, ...]) -> dict[KeyPath, Any]:
    return {("keysecondary",): list(secondary), ("selective",): True}


def _read_world_info_probability(raw: JsonObject) -> tuple[Any, ...]:
    return (1.0 if raw.get("useProbability") is False else share_from_percent(raw.get("probability")),)


def _write_world_info_probability(chance: float) -> dict[KeyPath, Any]:
    return {("probability",): percent_from_share(chance), ("useProbability",): True}


def _read_world_info_sources(raw: JsonObject) -> tuple[Any, ...]:
    return (tuple(source for source, name in WORLD_INFO_SOURCES.items() if raw.get(name) is True),)


def _write_world_info_sources(sources: tuple[Source, ...]) -> dict[KeyPath, Any]:
    return {(name,): source in sources for source, name in WORLD_INFO_SOURCES.items()}


def _read_world_info_filter(raw: JsonObject) -> tuple[Any, ...]:
    inner = ("characterFilter",)
    names, tags = (clean_strs(first_present(raw, (*inner, each))) for each in ("names", "tags"))
    return names, tags, is_true(first_present(raw, (*inner, "isExclude")))


def _write_world_info_filter(names: tuple[str, ...], tags: tuple[str, ...], exclude: bool) -> dict[KeyPath, Any]:  # noqa: FBT001
    if not (names or tags or exclude):
        return {}
    return {("characterFilter",): {"isExclude": exclude, "names": list(names), "tags": list(tags)}}


WORLD_INFO_FIELDS: Final[tuple[Field, ...]] = (
    Field(("keys", "regex"), (("key",),), _read_world_info_keys, _write_world_info_keys),
    Field(("secondary",), (("keysecondary",), ("selective",)), _read_world_info_secondary, _write_world_info_secondary),
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
    Field(
        ("probability",),
        (("probability",), ("useProbability",)),
        _read_world_info_probability,
        _write_world_info_probability,
    ),
    Field(
        ("sources",),
        tuple((name,) for name in WORLD_INFO_SOURCES.values()),
        _read_world_info_sources,
        _write_world_info_sources,
    ),
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

WORLD_INFO_BOOK_FIELDS: Final[tuple[Field, ...]] = (optional_field("name", ("name",), clean_str, ""),)


def world_info_template(number: int) -> dict[str, Any]:
    """Return what an entry says beside our fields, where it was not SillyTavern's."""
    return {"uid": number, "displayIndex": number, **WORLD_INFO_DEFAULTS}


def is_world_info_entry(raw: object) -> bool:
    """Say whether an entry of a list is SillyTavern's."""
    return isinstance(raw, dict) and "key" in raw and "keys" not in raw


def is_sillytavern_card_entry(raw: JsonObject) -> bool:
    """Say whether an entry of a character card was written by SillyTavern."""
    return any(value_at(raw, (EXTENSIONS, name)) for name in ("selectiveLogic", "useProbability", "display_index"))


DEFAULT_RECURSION: Final = 10  # rounds of a book that is to be looked through again, and does not say how often
DEFAULT_SCAN_DEPTH: Final = 2  # SillyTavern's own, for books that say nothing

CARD_SOURCES: Final[dict[Source, str]] = {
    "user": "match_persona_description",
    "description": "match_character_description",
    "personality": "match_character_personality",
    "scenario": "match_scenario",
    "depth-prompt": "match_character_depth_prompt",
    "creator-notes": "match_creator_notes",
}


def extension_path(name: str) -> KeyPath:
    """Return the path of an extension."""
    return (EXTENSIONS, name)


def has_regex_keys(raw: JsonObject) -> bool:
    """Say whether all keys are patterns. SillyTavern says so of every entry, and means those between slashes."""
    return raw.get("use_regex") is True and not is_sillytavern_card_entry(raw)


def _read_card_keys(raw: JsonObject) -> tuple[Any, ...]:
    return clean_strs(raw.get("keys")), has_regex_keys(raw)


def _write_card_keys_v2(keys: tuple[str, ...], regex: bool) -> dict[KeyPath, Any]:  # noqa: FBT001 - called by its place
    return {("keys",): list(keys), **({("use_regex",): True} if regex else {})}


def _write_card_keys_v3(keys: tuple[str, ...], regex: bool) -> dict[KeyPath, Any]:  # noqa: FBT001 - called by its place
    return {("keys",): list(keys), ("use_regex",): regex}


def _read_card_secondary(raw: JsonObject) -> tuple[Any, ...]:
    """Read what counts. V3 has no secondary keys beside patterns."""
    return (clean_strs(raw.get("secondary_keys")) if raw.get("selective") is True and not has_regex_keys(raw) else (),)


def _write_card_secondary(secondary: tuple[str, ...]) -> dict[KeyPath, Any]:
    return {("secondary_keys",): list(secondary), ("selective",): True} if secondary else {}


def _read_card_constant(raw: JsonObject) -> tuple[Any, ...]:
    """Read what counts. In V3, what is found by patterns is never constant."""
    return (raw.get("constant") is True and not has_regex_keys(raw),)


def _read_card_name(raw: JsonObject) -> tuple[Any, ...]:
    return (clean_str(raw.get("comment")) or clean_str(raw.get("name")),)


def _write_card_name(name: str) -> dict[KeyPath, Any]:
    return {("comment",): name} if name else {}


def _read_card_case(raw: JsonObject) -> tuple[Any, ...]:
    return (bool_or_none(first_present(raw, extension_path("case_sensitive"), ("case_sensitive",))),)


def _write_card_case(case_sensitive: bool | None) -> dict[KeyPath, Any]:  # noqa: FBT001 - called by its place
    return {} if case_sensitive is None else {("case_sensitive",): case_sensitive}


def _read_card_probability(raw: JsonObject) -> tuple[Any, ...]:
    used = first_present(raw, extension_path("useProbability")) is not False
    return (share_from_percent(first_present(raw, extension_path("probability"))) if used else 1.0,)


def _write_card_probability(chance: float) -> dict[KeyPath, Any]:
    told = {extension_path("probability"): percent_from_share(chance), extension_path("useProbability"): True}
    return {} if chance == 1.0 else told


def _read_card_sources(raw: JsonObject) -> tuple[Any, ...]:
    return (tuple(source for source, name in CARD_SOURCES.items() if first_present(raw, extension_path(name)) is True),)


def _write_card_sources(sources: tuple[Source, ...]) -> dict[KeyPath, Any]:
    return {extension_path(CARD_SOURCES[source]): True for source in sources}


def _card_fields(write_keys: Any) -> tuple[Field, ...]:
    return (
        Field(("keys", "regex"), (("keys",), ("use_regex",)), _read_card_keys, write_keys),
        required_field("content", ("content",), clean_str),
        required_field("enabled", ("enabled",), lambda value: value is not False),
        required_field("order", ("insertion_order",), lambda value: int_in_range(value, 100, low=-(10**12))),
        Field(("secondary",), (("secondary_keys",), ("selective",)), _read_card_secondary, _write_card_secondary),
        Field(("constant",), (("constant",),), _read_card_constant, lambda so: {("constant",): True} if so else {}),
        Field(("name",), (("comment",),), _read_card_name, _write_card_name),
        Field(
            ("case_sensitive",),
            (("case_sensitive",), extension_path("case_sensitive")),
            _read_card_case,
            _write_card_case,
        ),
        optional_field("priority", ("priority",), to_finite_float, None),
        optional_field("logic", extension_path("selectiveLogic"), logic_from_number, "and-any", LOGIC_NUMBERS.index),
        optional_field("vector", extension_path("vectorized"), is_true, usual=False),
        optional_field("ignore_budget", extension_path("ignore_budget"), is_true, usual=False),
        optional_field("exclude_recursion", extension_path("exclude_recursion"), is_true, usual=False),
        optional_field("prevent_recursion", extension_path("prevent_recursion"), is_true, usual=False),
        optional_field("delay_until_recursion", extension_path("delay_until_recursion"), count_or_zero, 0),
        Field(
            ("probability",),
            (extension_path("probability"), extension_path("useProbability")),
            _read_card_probability,
            _write_card_probability,
        ),
        Field(("sources",), tuple(map(extension_path, CARD_SOURCES.values())), _read_card_sources, _write_card_sources),
        optional_field("groups", extension_path("group"), split_names, (), ", ".join),
        optional_field("group_override", extension_path("group_override"), is_true, usual=False),
        optional_field("group_weight", extension_path("group_weight"), lambda value: int_in_range(value, 100), 100),
        optional_field("group_scoring", extension_path("use_group_scoring"), bool_or_none, None),
        optional_field("scan_depth", extension_path("scan_depth"), int_or_none, None),
        optional_field("whole_words", extension_path("match_whole_words"), bool_or_none, None),
        optional_field("sticky", extension_path("sticky"), count_or_zero, 0),
        optional_field("cooldown", extension_path("cooldown"), count_or_zero, 0),
        optional_field("delay", extension_path("delay"), count_or_zero, 0),
        optional_field("triggers", extension_path("triggers"), clean_strs, (), list),
    )


CARD_V2_FIELDS: Final = _card_fields(_write_card_keys_v2)
CARD_V3_FIELDS: Final = _card_fields(_write_card_keys_v3)


def _read_card_recursion(raw: JsonObject) -> tuple[Any, ...]:
    return (0 if raw.get("recursive_scanning") is False else DEFAULT_RECURSION,)


def _write_card_recursion(rounds: int) -> dict[KeyPath, Any]:
    return {("recursive_scanning",): bool(rounds)}


CARD_BOOK_FIELDS: Final[tuple[Field, ...]] = (
    optional_field("name", ("name",), clean_str, ""),
    optional_field("description", ("description",), clean_str, ""),
    required_field("scan_depth", ("scan_depth",), lambda value: int_in_range(value, DEFAULT_SCAN_DEPTH)),
    optional_field("budget", ("token_budget",), lambda value: int_or_none(value) or None, None),
    Field(("recursion",), (("recursive_scanning",),), _read_card_recursion, _write_card_recursion),
)


def card_entry_template(number: int) -> dict[str, Any]:
    """Return what an entry says beside our fields, where it was not of a card."""
    return {"id": number, EXTENSIONS: {}}


LorebookFormat = Literal["sillytavern", "v2", "v3"]
LOREBOOK_FORMATS: Final[tuple[LorebookFormat, ...]] = get_args(LorebookFormat)
STANDALONE_SPEC: Final = "lorebook_v3"  # how a V3 book says that it stands alone
_ENTRIES: Final = "entries"


class _FormatSpec(NamedTuple):
    """What a format has: the fields of an entry and of a book, and what our own books are by default in it."""

    entry: tuple[Field, ...]
    book: tuple[Field, ...]
    template: Any
    usual: dict[str, Any]


_SILLYTAVERN_DEFAULTS: Final = {
    "names": True,
    "whole_words": False,
    "scan_depth": DEFAULT_SCAN_DEPTH,
    "recursion": DEFAULT_RECURSION,
}
"""How SillyTavern looks for keys, unless its settings, which no book holds, say otherwise."""

_FORMAT_SPECS: Final[dict[LorebookFormat, _FormatSpec]] = {
    "sillytavern": _FormatSpec(WORLD_INFO_FIELDS, WORLD_INFO_BOOK_FIELDS, world_info_template, _SILLYTAVERN_DEFAULTS),
    "v2": _FormatSpec(CARD_V2_FIELDS, CARD_BOOK_FIELDS, card_entry_template, _SILLYTAVERN_DEFAULTS),
    "v3": _FormatSpec(CARD_V3_FIELDS, CARD_BOOK_FIELDS, card_entry_template, _SILLYTAVERN_DEFAULTS),
}
_ENTRY_DEFAULTS: Final = {
    field.name: field.default
    for field in msgspec.structs.fields(LoreEntry)
    if field.name not in ("id", "lorebook", "settings")
}
_BOOK_DEFAULTS: Final = {
    field.name: field.default for field in msgspec.structs.fields(Lorebook) if field.name not in ("id", "settings")
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
    data: Mapping[str, Any], id: str, name: str = "", *, usual: Mapping[str, Any] | None = None
) -> Lorebook:
    """Return the record of a book; `name` is for one that has none.

    `usual` are fields of ours for what the book does not say, as the settings of its program have them. They are no
    part of its file, and are not written into it.
    """
    try:
        return _read_book(data, id, name, usual or {})
    except msgspec.ValidationError as error:
        raise InvalidValue("lorebook", str(error)) from None
    except RecursionError:
        raise InvalidValue("lorebook", "is nested too deeply") from None


def _read_book(data: Mapping[str, Any], id: str, name: str, usual: Mapping[str, Any]) -> Lorebook:
    format = detect_lorebook_format(data)
    shape, raw = _FORMAT_SPECS[format], _book_data(data)
    rest = {key: value for key, value in raw.items() if key != _ENTRIES}
    ours, rest = _take_extension(rest, Lorebook, id=id)
    taken = read_fields(rest, shape.book)
    kept: dict[str, Any] = {"kept": taken.extra, "absent": taken.absent}
    if raw is not data:
        kept["around"] = {key: value for key, value in data.items() if key != "data"}
    elif format == "v3":
        kept["bare"] = True
    if isinstance(raw.get(_ENTRIES), list) and format == "sillytavern":
        kept["listed"] = True
    values = {**shape.usual, **usual, **taken.values, **ours.fields}
    if usual:
        kept["usual"] = dict(usual)
    if name and not values["name"]:
        kept["named"] = values["name"] = name
    settings = {**ours.formats, format: _without_defaults(kept)}
    return msgspec.convert({"id": id, **values, "settings": settings}, Lorebook)


def read_lorebook_entries(data: Mapping[str, Any], lorebook: str) -> list[LoreEntry]:
    """Return the entries of a book of any known format, as entries of the lorebook of that id.

    Their ids follow from the file, so that the same file gives the same ones again.
    """
    format = detect_lorebook_format(data)
    entries = _book_data(data).get(_ENTRIES)
    listed = entries.items() if isinstance(entries, Mapping) else enumerate(entries or ())
    taken: set[str] = set()
    return [_read_entry(format, at, raw, lorebook, taken) for at, raw in listed]


def write_lorebook(book: Lorebook, entries: Sequence[LoreEntry], format: LorebookFormat) -> dict[str, Any]:
    """Return a book as a file of a format holds it."""
    if format not in LOREBOOK_FORMATS:
        raise InvalidValue("format", f"must be one of {', '.join(LOREBOOK_FORMATS)}, not {validation.preview(format)}")
    shape = _FORMAT_SPECS[format]
    as_it_was = _original(book.settings, format)
    values = {name: getattr(book, name) for name in _BOOK_DEFAULTS}
    if values["name"] == as_it_was.get("named"):
        values["name"] = ""
    start = as_it_was.get("kept", _book_template(format))
    raw = write_fields(values, start, as_it_was.get("absent", ()), shape.book)
    others = _other_formats(book.settings, format)
    untold = {str(each): state for each, state in others.items() if not _is_default_book(state, each)}
    usual = {**_BOOK_DEFAULTS, **shape.usual, **as_it_was.get("usual", {})}
    _add_extension(raw, values, shape.book, usual, untold)
    told = _write_entries(entries, format)
    raw[_ENTRIES] = list(told.values()) if format != "sillytavern" or as_it_was.get("listed") else told
    if format != "v3" or as_it_was.get("bare"):
        return raw
    return {**as_it_was.get("around", {"spec": STANDALONE_SPEC}), "data": raw}


# -- entries ---------------------------------------------------------------------------------------------------------


def _read_entry(format: LorebookFormat, place: str | int, raw: object, lorebook: str, taken: set[str]) -> LoreEntry:
    if not isinstance(raw, Mapping):
        raise InvalidValue(f"entries[{place}]", f"must be a JSON object, not {validation.preview(raw)}")
    id = _entry_id(lorebook, place, raw, taken)
    try:
        ours, rest = _take_extension(raw, LoreEntry, id=id, lorebook=lorebook, content="")
        read = read_fields(rest, _FORMAT_SPECS[format].entry)
        kept = _without_defaults({"at": place, "kept": read.extra, "absent": read.absent})
        values = {**read.values, **ours.fields, "settings": {**ours.formats, format: kept}}
        return msgspec.convert({"id": id, "lorebook": lorebook, **values}, LoreEntry)
    except (BrimfulError, msgspec.ValidationError) as error:
        raise InvalidValue(f"entries[{place}]", str(error)) from None
    except RecursionError:
        raise InvalidValue(f"entries[{place}]", "is nested too deeply") from None


def _entry_id(lorebook: str, place: str | int, raw: JsonObject, taken: set[str]) -> str:
    """Return an id that no other entry of the file has."""
    # The last slash parts the book from the entry, so that no two books share an id.
    given = next((raw[key] for key in ("uid", "id") if isinstance(raw.get(key), str | int) and raw[key] != ""), place)
    base = id = f"{lorebook}/{str(given).replace('/', '%2F')}".replace("\0", "_")
    again = 1
    while id in taken:
        again += 1
        id = f"{base}~{again}"
    taken.add(id)
    return id


def _write_entries(entries: Sequence[LoreEntry], format: LorebookFormat) -> dict[str, dict[str, Any]]:
    """Return entries by their keys in the file, in the order that they had in it; others follow, by their order."""
    ordered = sorted(entries, key=lambda entry: (*_entry_position(entry, format), entry.order, entry.id))
    taken = {str(_original(entry.settings, format).get("at")) for entry in ordered}
    told: dict[str, dict[str, Any]] = {}
    number = 0
    for entry in ordered:
        as_it_was = _original(entry.settings, format)
        while not as_it_was and str(number) in taken:
            number += 1
        key = str(as_it_was.get("at", number))
        taken.add(key)
        told[key] = _write_entry(entry, format, as_it_was.get("kept", _FORMAT_SPECS[format].template(number)))
    return told


def _entry_position(entry: LoreEntry, format: LorebookFormat) -> tuple[bool, int]:
    """Return what entries of a file are sorted by: their place in it, or in a file of another format."""
    places = (_original(entry.settings, each).get("at") for each in (format, *LOREBOOK_FORMATS))
    at = next((place for place in places if place is not None), None)
    number = int(at) if isinstance(at, int) or (isinstance(at, str) and at.isdecimal()) else None
    return (number is None, number or 0)


def _write_entry(entry: LoreEntry, format: LorebookFormat, start: JsonObject) -> dict[str, Any]:
    fields = _FORMAT_SPECS[format].entry
    values = {name: getattr(entry, name) for name in _ENTRY_DEFAULTS}
    raw = write_fields(values, start, _original(entry.settings, format).get("absent", ()), fields)
    usual = {**_ENTRY_DEFAULTS, "content": ""}
    others = _other_formats(entry.settings, format)
    untold = {str(each): state for each, state in others.items() if not _is_default_entry(state, _FORMAT_SPECS[each])}
    _add_extension(raw, values, fields, usual, untold)
    return raw


# -- what only we know -----------------------------------------------------------------------------------------------


class _Extension(NamedTuple):
    """What we wrote into a file of another program: values of our fields, and what other formats said."""

    fields: Values
    formats: dict[str, Any]


def _take_extension(raw: JsonObject, kind: type[msgspec.Struct], **needed: str) -> tuple[_Extension, dict[str, Any]]:
    """Take what we wrote out of a file. What cannot be ours, though it bears our name, stays where it is."""
    ours = value_at(raw, (EXTENSIONS, BRIMFUL_EXTENSION))
    if not ours or not isinstance(ours[0], dict):
        return _Extension({}, {}), dict(raw)
    fields, formats = ours[0].get("fields", {}), ours[0].get("formats", {})
    try:
        msgspec.convert({**needed, **fields, "settings": formats}, kind)
    except (BrimfulError, msgspec.ValidationError, TypeError):
        return _Extension({}, {}), dict(raw)
    if (
        set(ours[0]) - {"fields", "formats", "instead"}
        or not _has_known_fields(fields, kind)
        or set(formats) - set(LOREBOOK_FORMATS)
    ):
        return _Extension({}, {}), dict(raw)
    rest = {key: value for key, value in raw.items() if key != EXTENSIONS}
    match ours[0].get("instead"):
        case []:
            return _Extension(fields, formats), rest
        case [stood_there]:
            return _Extension(fields, formats), {**rest, EXTENSIONS: stood_there}
    extensions = {key: value for key, value in raw[EXTENSIONS].items() if key != BRIMFUL_EXTENSION}
    return _Extension(fields, formats), {**rest, EXTENSIONS: extensions}


def _has_known_fields(fields: JsonObject, kind: type[msgspec.Struct]) -> bool:
    return set(fields) <= set(_ENTRY_DEFAULTS if kind is LoreEntry else _BOOK_DEFAULTS)


def _add_extension(
    raw: dict[str, Any], values: Values, fields: Sequence[Field], usual: Values, formats: Mapping[str, Any]
) -> None:
    """Add what the format has no place for, under a name of our own."""
    extra = {"fields": unexpressed_values(values, raw, fields, usual), "formats": formats}
    ours: dict[str, Any] = {key: value for key, value in extra.items() if value}
    extensions = raw.get(EXTENSIONS)
    if ours and isinstance(extensions, dict):
        raw[EXTENSIONS] = {**extensions, BRIMFUL_EXTENSION: msgspec.to_builtins(ours)}
    elif ours:
        ours["instead"] = value_at(raw, (EXTENSIONS,))  # what stood there, or nothing
        raw[EXTENSIONS] = {BRIMFUL_EXTENSION: msgspec.to_builtins(ours)}


def _original(settings: JsonObject, format: LorebookFormat) -> dict[str, Any]:
    kept = settings.get(format)
    return kept if isinstance(kept, dict) else {}


def _book_template(format: LorebookFormat) -> dict[str, Any]:
    """Return what a book says beside our fields, where it was of another format."""
    return {} if format == "sillytavern" else {EXTENSIONS: {}}


def _is_default_book(state: JsonObject, format: LorebookFormat) -> bool:
    """Say whether a format knew no more of a book than we would write into a new one."""
    around = {"around": {"spec": STANDALONE_SPEC}} if format == "v3" else {}
    return state == {"kept": _book_template(format), **around}


def _is_default_entry(state: JsonObject, shape: _FormatSpec) -> bool:
    """Say whether a format knew no more of an entry than we would write into a new one at its place."""
    place = str(state.get("at"))
    return place.isdecimal() and state == {"at": state["at"], "kept": shape.template(int(place))}


def _other_formats(settings: JsonObject, format: LorebookFormat) -> dict[LorebookFormat, JsonObject]:
    return {
        each: settings[each] for each in LOREBOOK_FORMATS if each != format and isinstance(settings.get(each), dict)
    }


def _without_defaults(kept: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in kept.items() if value is not False and value != []}


def _book_data(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the book itself: a V3 book that stands alone has it within."""
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
