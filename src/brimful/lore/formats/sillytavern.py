"""SillyTavern's World Info, as its files have it."""

from typing import Any, Final

from brimful.lore.formats.field import EXTENSIONS, Field, Path, Raw, at
from brimful.lore.formats.reading import (
    LOGIC_NUMBERS,
    count,
    first,
    flag,
    in_percent,
    limit,
    logic,
    one,
    or_null,
    percent,
    rare,
    settled,
    split,
    text,
    texts,
    whole,
)
from brimful.lorebook import Source

MATCHED: Final[dict[Source, str]] = {
    "user": "matchPersonaDescription",
    "description": "matchCharacterDescription",
    "personality": "matchCharacterPersonality",
    "scenario": "matchScenario",
    "depth-prompt": "matchCharacterDepthPrompt",
    "creator-notes": "matchCreatorNotes",
}
UNSAID: Final[dict[str, Any]] = {
    "addMemo": True,
    "position": 0,
    "depth": 4,
    "role": 0,
    "outletName": "",
    "automationId": "",
}
"""What an entry says that was not SillyTavern's: where it stands in a prompt is for our policies to say."""


def _read_keys(raw: Raw) -> tuple[Any, ...]:
    return texts(raw.get("key")), False


def _write_keys(keys: tuple[str, ...], regex: bool) -> dict[Path, Any]:  # noqa: FBT001 - called by its place
    return {("key",): [slashed(key) for key in keys] if regex else list(keys)}


def slashed(pattern: str) -> str:
    """Return a pattern between slashes, as SillyTavern knows one; a slash within is escaped.

    >>> slashed("elf|elves"), slashed("/elf/i")
    ('/elf|elves/', '/elf/i')
    """
    if len(pattern) > 1 and pattern.startswith("/") and pattern.rpartition("/")[0]:
        return pattern
    return "/" + pattern.replace("\\/", "/").replace("/", "\\/") + "/"


def _read_secondary(raw: Raw) -> tuple[Any, ...]:
    return (() if raw.get("selective") is False else texts(raw.get("keysecondary")),)


def _write_secondary(secondary: tuple[str, ...]) -> dict[Path, Any]:
    return {("keysecondary",): list(secondary), ("selective",): True}


def _read_chance(raw: Raw) -> tuple[Any, ...]:
    return (1.0 if raw.get("useProbability") is False else percent(raw.get("probability")),)


def _write_chance(chance: float) -> dict[Path, Any]:
    return {("probability",): in_percent(chance), ("useProbability",): True}


def _read_matched(raw: Raw) -> tuple[Any, ...]:
    return (tuple(source for source, name in MATCHED.items() if raw.get(name) is True),)


def _write_matched(sources: tuple[Source, ...]) -> dict[Path, Any]:
    return {(name,): source in sources for source, name in MATCHED.items()}


def _read_filter(raw: Raw) -> tuple[Any, ...]:
    inner = ("characterFilter",)
    names, tags = (texts(first(raw, (*inner, each))) for each in ("names", "tags"))
    return names, tags, flag(first(raw, (*inner, "isExclude")))


def _write_filter(names: tuple[str, ...], tags: tuple[str, ...], exclude: bool) -> dict[Path, Any]:  # noqa: FBT001
    if not (names or tags or exclude):
        return {}
    return {("characterFilter",): {"isExclude": exclude, "names": list(names), "tags": list(tags)}}


FIELDS: Final[tuple[Field, ...]] = (
    Field(("keys", "regex"), (("key",),), _read_keys, _write_keys),
    Field(("secondary",), (("keysecondary",), ("selective",)), _read_secondary, _write_secondary),
    one("logic", ("selectiveLogic",), logic, LOGIC_NUMBERS.index),
    one("name", ("comment",), text),
    one("content", ("content",), text),
    one("constant", ("constant",), flag),
    one("vector", ("vectorized",), flag),
    one("order", ("order",), lambda value: whole(value, 100, low=-(10**12))),
    one("enabled", ("disable",), lambda value: value is not True, lambda enabled: not enabled),
    one("ignore_budget", ("ignoreBudget",), flag),
    one("exclude_recursion", ("excludeRecursion",), flag),
    one("prevent_recursion", ("preventRecursion",), flag),
    one("delay_until_recursion", ("delayUntilRecursion",), count),
    Field(("probability",), (("probability",), ("useProbability",)), _read_chance, _write_chance),
    Field(("sources",), tuple((name,) for name in MATCHED.values()), _read_matched, _write_matched),
    one("groups", ("group",), split, ", ".join),
    one("group_override", ("groupOverride",), flag),
    one("group_weight", ("groupWeight",), lambda value: whole(value, 100)),
    one("group_scoring", ("useGroupScoring",), settled),
    one("scan_depth", ("scanDepth",), limit),
    one("case_sensitive", ("caseSensitive",), settled),
    one("whole_words", ("matchWholeWords",), settled),
    one("sticky", ("sticky",), count, or_null),
    one("cooldown", ("cooldown",), count, or_null),
    one("delay", ("delay",), count, or_null),
    one("triggers", ("triggers",), texts, list),
    Field(("personas", "tags", "exclude_personas"), (("characterFilter",),), _read_filter, _write_filter),
)

BOOK_FIELDS: Final[tuple[Field, ...]] = (rare("name", ("name",), text, ""),)


def template(number: int) -> dict[str, Any]:
    """Return what an entry says beside our fields, where it was not SillyTavern's."""
    return {"uid": number, "displayIndex": number, **UNSAID}


def is_entry(raw: object) -> bool:
    """Say whether an entry of a list is SillyTavern's."""
    return isinstance(raw, dict) and "key" in raw and "keys" not in raw


def signed(raw: Raw) -> bool:
    """Say whether an entry of a character card was written by SillyTavern."""
    return any(at(raw, (EXTENSIONS, name)) for name in ("selectiveLogic", "useProbability", "display_index"))
