"""The books of character cards, V2 and V3. What SillyTavern adds to them stands under `extensions`."""

from typing import Any, Final

from brimful.core.check import finite
from brimful.lore.formats.field import EXTENSIONS, Field, Path, Raw
from brimful.lore.formats.reading import (
    LOGIC_NUMBERS,
    count,
    first,
    flag,
    in_percent,
    limit,
    logic,
    one,
    percent,
    rare,
    settled,
    split,
    text,
    texts,
    whole,
)
from brimful.lore.formats.sillytavern import signed
from brimful.lorebook import Source

RECURSION: Final = 10  # rounds of a book that is to be looked through again, and does not say how often
SCAN_DEPTH: Final = 2  # SillyTavern's own, for books that say nothing

MATCHED: Final[dict[Source, str]] = {
    "user": "match_persona_description",
    "description": "match_character_description",
    "personality": "match_character_personality",
    "scenario": "match_scenario",
    "depth-prompt": "match_character_depth_prompt",
    "creator-notes": "match_creator_notes",
}


def inside(name: str) -> Path:
    """Return the path of an extension."""
    return (EXTENSIONS, name)


def patterned(raw: Raw) -> bool:
    """Say whether all keys are patterns. SillyTavern says so of every entry, and means those between slashes."""
    return raw.get("use_regex") is True and not signed(raw)


def _read_keys(raw: Raw) -> tuple[Any, ...]:
    return texts(raw.get("keys")), patterned(raw)


def _write_keys_v2(keys: tuple[str, ...], regex: bool) -> dict[Path, Any]:  # noqa: FBT001 - called by its place
    return {("keys",): list(keys), **({("use_regex",): True} if regex else {})}


def _write_keys_v3(keys: tuple[str, ...], regex: bool) -> dict[Path, Any]:  # noqa: FBT001 - called by its place
    return {("keys",): list(keys), ("use_regex",): regex}


def _read_secondary(raw: Raw) -> tuple[Any, ...]:
    """Read what counts. V3 has no secondary keys beside patterns."""
    return (texts(raw.get("secondary_keys")) if raw.get("selective") is True and not patterned(raw) else (),)


def _write_secondary(secondary: tuple[str, ...]) -> dict[Path, Any]:
    return {("secondary_keys",): list(secondary), ("selective",): True} if secondary else {}


def _read_constant(raw: Raw) -> tuple[Any, ...]:
    """Read what counts. In V3, what is found by patterns is never constant."""
    return (raw.get("constant") is True and not patterned(raw),)


def _read_name(raw: Raw) -> tuple[Any, ...]:
    return (text(raw.get("comment")) or text(raw.get("name")),)


def _write_name(name: str) -> dict[Path, Any]:
    return {("comment",): name} if name else {}


def _read_case(raw: Raw) -> tuple[Any, ...]:
    return (settled(first(raw, inside("case_sensitive"), ("case_sensitive",))),)


def _write_case(case_sensitive: bool | None) -> dict[Path, Any]:  # noqa: FBT001 - called by its place
    return {} if case_sensitive is None else {("case_sensitive",): case_sensitive}


def _read_chance(raw: Raw) -> tuple[Any, ...]:
    used = first(raw, inside("useProbability")) is not False
    return (percent(first(raw, inside("probability"))) if used else 1.0,)


def _write_chance(chance: float) -> dict[Path, Any]:
    told = {inside("probability"): in_percent(chance), inside("useProbability"): True}
    return {} if chance == 1.0 else told


def _read_matched(raw: Raw) -> tuple[Any, ...]:
    return (tuple(source for source, name in MATCHED.items() if first(raw, inside(name)) is True),)


def _write_matched(sources: tuple[Source, ...]) -> dict[Path, Any]:
    return {inside(MATCHED[source]): True for source in sources}


def _fields(write_keys: Any) -> tuple[Field, ...]:
    return (
        Field(("keys", "regex"), (("keys",), ("use_regex",)), _read_keys, write_keys),
        one("content", ("content",), text),
        one("enabled", ("enabled",), lambda value: value is not False),
        one("order", ("insertion_order",), lambda value: whole(value, 100, low=-(10**12))),
        Field(("secondary",), (("secondary_keys",), ("selective",)), _read_secondary, _write_secondary),
        Field(("constant",), (("constant",),), _read_constant, lambda so: {("constant",): True} if so else {}),
        Field(("name",), (("comment",),), _read_name, _write_name),
        Field(("case_sensitive",), (("case_sensitive",), inside("case_sensitive")), _read_case, _write_case),
        rare("priority", ("priority",), finite, None),
        rare("logic", inside("selectiveLogic"), logic, "and-any", LOGIC_NUMBERS.index),
        rare("vector", inside("vectorized"), flag, usual=False),
        rare("ignore_budget", inside("ignore_budget"), flag, usual=False),
        rare("exclude_recursion", inside("exclude_recursion"), flag, usual=False),
        rare("prevent_recursion", inside("prevent_recursion"), flag, usual=False),
        rare("delay_until_recursion", inside("delay_until_recursion"), count, 0),
        Field(("probability",), (inside("probability"), inside("useProbability")), _read_chance, _write_chance),
        Field(("sources",), tuple(map(inside, MATCHED.values())), _read_matched, _write_matched),
        rare("groups", inside("group"), split, (), ", ".join),
        rare("group_override", inside("group_override"), flag, usual=False),
        rare("group_weight", inside("group_weight"), lambda value: whole(value, 100), 100),
        rare("group_scoring", inside("use_group_scoring"), settled, None),
        rare("scan_depth", inside("scan_depth"), limit, None),
        rare("whole_words", inside("match_whole_words"), settled, None),
        rare("sticky", inside("sticky"), count, 0),
        rare("cooldown", inside("cooldown"), count, 0),
        rare("delay", inside("delay"), count, 0),
        rare("triggers", inside("triggers"), texts, (), list),
    )


FIELDS_V2: Final = _fields(_write_keys_v2)
FIELDS_V3: Final = _fields(_write_keys_v3)


def _read_recursion(raw: Raw) -> tuple[Any, ...]:
    return (0 if raw.get("recursive_scanning") is False else RECURSION,)


def _write_recursion(rounds: int) -> dict[Path, Any]:
    return {("recursive_scanning",): bool(rounds)}


BOOK_FIELDS: Final[tuple[Field, ...]] = (
    rare("name", ("name",), text, ""),
    rare("description", ("description",), text, ""),
    one("scan_depth", ("scan_depth",), lambda value: whole(value, SCAN_DEPTH)),
    rare("budget", ("token_budget",), lambda value: limit(value) or None, None),
    Field(("recursion",), (("recursive_scanning",),), _read_recursion, _write_recursion),
)


def template(number: int) -> dict[str, Any]:
    """Return what an entry says beside our fields, where it was not of a card."""
    return {"id": number, EXTENSIONS: {}}
