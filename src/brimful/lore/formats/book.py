"""A whole book of another program → records of ours, and back. What goes in and comes out again is the same."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple, get_args

import msgspec

from brimful.core import check
from brimful.errors import BrimfulError, InvalidValue
from brimful.lore.formats import card, sillytavern
from brimful.lore.formats.field import EXTENSIONS, OURS, Field, Raw, Values, at, give, take, unsaid
from brimful.lorebook import Lorebook, LoreEntry

Format = Literal["sillytavern", "v2", "v3"]
FORMATS: Final[tuple[Format, ...]] = get_args(Format)
STANDALONE: Final = "lorebook_v3"  # how a V3 book says that it stands alone
_ENTRIES: Final = "entries"


class _Shape(NamedTuple):
    """What a format has: the fields of an entry and of a book, and what our own books are by default in it."""

    entry: tuple[Field, ...]
    book: tuple[Field, ...]
    template: Any
    usual: dict[str, Any]


_THEIRS: Final = {"names": True, "whole_words": False, "scan_depth": card.SCAN_DEPTH, "recursion": card.RECURSION}
"""How SillyTavern looks for keys, unless its settings, which no book holds, say otherwise."""

_SHAPES: Final[dict[Format, _Shape]] = {
    "sillytavern": _Shape(sillytavern.FIELDS, sillytavern.BOOK_FIELDS, sillytavern.template, _THEIRS),
    "v2": _Shape(card.FIELDS_V2, card.BOOK_FIELDS, card.template, _THEIRS),
    "v3": _Shape(card.FIELDS_V3, card.BOOK_FIELDS, card.template, _THEIRS),
}
_ENTRY: Final = {
    field.name: field.default
    for field in msgspec.structs.fields(LoreEntry)
    if field.name not in ("id", "lorebook", "settings")
}
_BOOK: Final = {
    field.name: field.default for field in msgspec.structs.fields(Lorebook) if field.name not in ("id", "settings")
}


def format_of(data: object) -> Format:
    """Return the format of a book.

    >>> format_of({"entries": {}}), format_of({"entries": []}), format_of({"spec": "lorebook_v3", "data": {}})
    ('sillytavern', 'v2', 'v3')
    """
    if not isinstance(data, Mapping):
        raise InvalidValue("lorebook", f"must be a JSON object, not {check.shown(data)}")
    if data.get("spec") == STANDALONE:
        return "v3"
    entries = data.get(_ENTRIES)
    if isinstance(entries, Mapping) or (isinstance(entries, list) and any(map(sillytavern.is_entry, entries))):
        return "sillytavern"
    if isinstance(entries, list):
        return "v3" if any(isinstance(each, Mapping) and "use_regex" in each for each in entries) else "v2"
    raise InvalidValue("lorebook", "has no entries: neither SillyTavern's World Info nor the book of a character card")


def book_of(data: Mapping[str, Any], id: str, name: str = "", *, usual: Mapping[str, Any] | None = None) -> Lorebook:
    """Return the record of a book; `name` is for one that has none.

    `usual` are fields of ours for what the book does not say, as the settings of its program have them. They are no
    part of its file, and are not written into it.
    """
    try:
        return _book(data, id, name, usual or {})
    except msgspec.ValidationError as error:
        raise InvalidValue("lorebook", str(error)) from None
    except RecursionError:
        raise InvalidValue("lorebook", "is nested too deeply") from None


def _book(data: Mapping[str, Any], id: str, name: str, usual: Mapping[str, Any]) -> Lorebook:
    format = format_of(data)
    shape, raw = _SHAPES[format], _inner(data)
    rest = {key: value for key, value in raw.items() if key != _ENTRIES}
    ours, rest = _ours(rest, Lorebook, id=id)
    taken = take(rest, shape.book)
    kept: dict[str, Any] = {"kept": taken.kept, "absent": taken.absent}
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
    settings = {**ours.formats, format: _without_nothing(kept)}
    return msgspec.convert({"id": id, **values, "settings": settings}, Lorebook)


def entries_of(data: Mapping[str, Any], lorebook: str) -> list[LoreEntry]:
    """Return the entries of a book of any known format, as entries of the lorebook of that id.

    Their ids follow from the file, so that the same file gives the same ones again.
    """
    format = format_of(data)
    entries = _inner(data).get(_ENTRIES)
    listed = entries.items() if isinstance(entries, Mapping) else enumerate(entries or ())
    taken: set[str] = set()
    return [_entry(format, at, raw, lorebook, taken) for at, raw in listed]


def exported(book: Lorebook, entries: Sequence[LoreEntry], format: Format) -> dict[str, Any]:
    """Return a book as a file of a format holds it."""
    if format not in FORMATS:
        raise InvalidValue("format", f"must be one of {', '.join(FORMATS)}, not {check.shown(format)}")
    shape = _SHAPES[format]
    as_it_was = _as_it_was(book.settings, format)
    values = {name: getattr(book, name) for name in _BOOK}
    if values["name"] == as_it_was.get("named"):
        values["name"] = ""
    start = as_it_was.get("kept", _new_book(format))
    raw = give(values, start, as_it_was.get("absent", ()), shape.book)
    others = _others(book.settings, format)
    untold = {str(each): state for each, state in others.items() if not _is_plain_book(state, each)}
    usual = {**_BOOK, **shape.usual, **as_it_was.get("usual", {})}
    _add_ours(raw, values, shape.book, usual, untold)
    told = _told(entries, format)
    raw[_ENTRIES] = list(told.values()) if format != "sillytavern" or as_it_was.get("listed") else told
    if format != "v3" or as_it_was.get("bare"):
        return raw
    return {**as_it_was.get("around", {"spec": STANDALONE}), "data": raw}


# -- entries ---------------------------------------------------------------------------------------------------------


def _entry(format: Format, place: str | int, raw: object, lorebook: str, taken: set[str]) -> LoreEntry:
    if not isinstance(raw, Mapping):
        raise InvalidValue(f"entries[{place}]", f"must be a JSON object, not {check.shown(raw)}")
    id = _id(lorebook, place, raw, taken)
    try:
        ours, rest = _ours(raw, LoreEntry, id=id, lorebook=lorebook, content="")
        read = take(rest, _SHAPES[format].entry)
        kept = _without_nothing({"at": place, "kept": read.kept, "absent": read.absent})
        values = {**read.values, **ours.fields, "settings": {**ours.formats, format: kept}}
        return msgspec.convert({"id": id, "lorebook": lorebook, **values}, LoreEntry)
    except (BrimfulError, msgspec.ValidationError) as error:
        raise InvalidValue(f"entries[{place}]", str(error)) from None
    except RecursionError:
        raise InvalidValue(f"entries[{place}]", "is nested too deeply") from None


def _id(lorebook: str, place: str | int, raw: Raw, taken: set[str]) -> str:
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


def _told(entries: Sequence[LoreEntry], format: Format) -> dict[str, dict[str, Any]]:
    """Return entries by their keys in the file, in the order that they had in it; others follow, by their order."""
    ordered = sorted(entries, key=lambda entry: (*_place(entry, format), entry.order, entry.id))
    taken = {str(_as_it_was(entry.settings, format).get("at")) for entry in ordered}
    told: dict[str, dict[str, Any]] = {}
    number = 0
    for entry in ordered:
        as_it_was = _as_it_was(entry.settings, format)
        while not as_it_was and str(number) in taken:
            number += 1
        key = str(as_it_was.get("at", number))
        taken.add(key)
        told[key] = _written(entry, format, as_it_was.get("kept", _SHAPES[format].template(number)))
    return told


def _place(entry: LoreEntry, format: Format) -> tuple[bool, int]:
    """Return what entries of a file are sorted by: their place in it, or in a file of another format."""
    places = (_as_it_was(entry.settings, each).get("at") for each in (format, *FORMATS))
    at = next((place for place in places if place is not None), None)
    number = int(at) if isinstance(at, int) or (isinstance(at, str) and at.isdecimal()) else None
    return (number is None, number or 0)


def _written(entry: LoreEntry, format: Format, start: Raw) -> dict[str, Any]:
    fields = _SHAPES[format].entry
    values = {name: getattr(entry, name) for name in _ENTRY}
    raw = give(values, start, _as_it_was(entry.settings, format).get("absent", ()), fields)
    usual = {**_ENTRY, "content": ""}
    others = _others(entry.settings, format)
    untold = {str(each): state for each, state in others.items() if not _is_plain_entry(state, _SHAPES[each])}
    _add_ours(raw, values, fields, usual, untold)
    return raw


# -- what only we know -----------------------------------------------------------------------------------------------


class _Ours(NamedTuple):
    """What we wrote into a file of another program: values of our fields, and what other formats said."""

    fields: Values
    formats: dict[str, Any]


def _ours(raw: Raw, kind: type[msgspec.Struct], **needed: str) -> tuple[_Ours, dict[str, Any]]:
    """Take what we wrote out of a file. What cannot be ours, though it bears our name, stays where it is."""
    ours = at(raw, (EXTENSIONS, OURS))
    if not ours or not isinstance(ours[0], dict):
        return _Ours({}, {}), dict(raw)
    fields, formats = ours[0].get("fields", {}), ours[0].get("formats", {})
    try:
        msgspec.convert({**needed, **fields, "settings": formats}, kind)
    except (BrimfulError, msgspec.ValidationError, TypeError):
        return _Ours({}, {}), dict(raw)
    if set(ours[0]) - {"fields", "formats", "instead"} or not _known(fields, kind) or set(formats) - set(FORMATS):
        return _Ours({}, {}), dict(raw)
    rest = {key: value for key, value in raw.items() if key != EXTENSIONS}
    match ours[0].get("instead"):
        case []:
            return _Ours(fields, formats), rest
        case [stood_there]:
            return _Ours(fields, formats), {**rest, EXTENSIONS: stood_there}
    extensions = {key: value for key, value in raw[EXTENSIONS].items() if key != OURS}
    return _Ours(fields, formats), {**rest, EXTENSIONS: extensions}


def _known(fields: Raw, kind: type[msgspec.Struct]) -> bool:
    return set(fields) <= set(_ENTRY if kind is LoreEntry else _BOOK)


def _add_ours(
    raw: dict[str, Any], values: Values, fields: Sequence[Field], usual: Values, formats: Mapping[str, Any]
) -> None:
    """Add what the format has no place for, under a name of our own."""
    extra = {"fields": unsaid(values, raw, fields, usual), "formats": formats}
    ours: dict[str, Any] = {key: value for key, value in extra.items() if value}
    extensions = raw.get(EXTENSIONS)
    if ours and isinstance(extensions, dict):
        raw[EXTENSIONS] = {**extensions, OURS: msgspec.to_builtins(ours)}
    elif ours:
        ours["instead"] = at(raw, (EXTENSIONS,))  # what stood there, or nothing
        raw[EXTENSIONS] = {OURS: msgspec.to_builtins(ours)}


def _as_it_was(settings: Raw, format: Format) -> dict[str, Any]:
    kept = settings.get(format)
    return kept if isinstance(kept, dict) else {}


def _new_book(format: Format) -> dict[str, Any]:
    """Return what a book says beside our fields, where it was of another format."""
    return {} if format == "sillytavern" else {EXTENSIONS: {}}


def _is_plain_book(state: Raw, format: Format) -> bool:
    """Say whether a format knew no more of a book than we would write into a new one."""
    around = {"around": {"spec": STANDALONE}} if format == "v3" else {}
    return state == {"kept": _new_book(format), **around}


def _is_plain_entry(state: Raw, shape: _Shape) -> bool:
    """Say whether a format knew no more of an entry than we would write into a new one at its place."""
    place = str(state.get("at"))
    return place.isdecimal() and state == {"at": state["at"], "kept": shape.template(int(place))}


def _others(settings: Raw, format: Format) -> dict[Format, Raw]:
    return {each: settings[each] for each in FORMATS if each != format and isinstance(settings.get(each), dict)}


def _without_nothing(kept: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in kept.items() if value is not False and value != []}


def _inner(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the book itself: a V3 book that stands alone has it within."""
    if data.get("spec") != STANDALONE:
        return data
    inner = data.get("data")
    if not isinstance(inner, Mapping) or not isinstance(inner.get(_ENTRIES, []), list):
        raise InvalidValue("lorebook", "has no list of entries in its data")
    return inner
