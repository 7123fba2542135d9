"""Lorebooks and their entries."""

from typing import Any, Final, Literal, get_args

from brimful.core import validation
from brimful.errors import InvalidValue
from brimful.records.base import MAX_INTEGER, Record, check_integer, check_strings, normalize_fields, validate_share

Logic = Literal["and-any", "and-all", "not-any", "not-all"]
LOGICS: Final[tuple[str, ...]] = get_args(Logic)
Source = Literal["user", "description", "personality", "scenario", "depth-prompt", "creator-notes"]
SOURCES: Final[tuple[str, ...]] = get_args(Source)

_FLAGS: Final = (
    *("constant", "enabled", "regex", "vector", "ignore_budget"),
    *("exclude_recursion", "prevent_recursion", "group_override", "exclude_personas"),
)
_OPTIONAL_FLAGS: Final = ("case_sensitive", "whole_words", "group_scoring")  # None: the default of the lorebook
_NUMBERS: Final = ("delay_until_recursion", "group_weight", "sticky", "cooldown", "delay")
_LISTS: Final = ("keys", "secondary", "groups", "personas", "tags", "triggers")


class Lorebook(Record, frozen=True, kw_only=True, tag="lorebook"):
    """A set of entries about a world, a product or a person.

    `scan_depth` is the number of recent messages that are searched for keywords, including the current one; with
    `names`, the names of their speakers are searched, too. `budget` is the maximum number of tokens of all activated
    entries. `recursion` is how many times activated entries are searched for further keywords. `case_sensitive`,
    `whole_words` and `group_scoring` are defaults for the entries. `settings` holds other fields of the book's format.
    """

    name: str = ""
    description: str = ""
    scan_depth: int = 5
    budget: int | None = None
    recursion: int = 0
    names: bool = False
    case_sensitive: bool = False
    whole_words: bool = True
    group_scoring: bool = False
    settings: dict[str, Any] = {}

    def __post_init__(self) -> None:
        normalize_fields(self, texts=("name", "description"), objects=("settings",))
        check_integer("scan_depth", self.scan_depth)
        check_integer("recursion", self.recursion)
        if self.budget is not None:
            check_integer("budget", self.budget)
        for field in ("names", "case_sensitive", "whole_words", "group_scoring"):
            _check_flag(field, getattr(self, field))


class LoreEntry(Record, frozen=True, kw_only=True, tag="lore-entry"):
    """An entry. It is activated by its keywords, always (`constant`), or when retrieval finds it (`vector`).

    A key is a keyword, or a regular expression between slashes (`/elf|elves/i`); with `regex`, every key is a regular
    expression. `secondary` keys allow or prevent activation, as `logic` says. Only one entry per group is activated.
    `sticky`, `cooldown` and `delay` are numbers of messages in the room. Entries with a higher `priority` stay if the
    book's budget is short; without priorities, `order` decides. `settings` holds other fields of the entry's format.
    """

    lorebook: str
    content: str
    name: str = ""
    keys: tuple[str, ...] = ()
    secondary: tuple[str, ...] = ()
    logic: Logic = "and-any"
    regex: bool = False
    case_sensitive: bool | None = None
    whole_words: bool | None = None
    constant: bool = False
    vector: bool = True
    enabled: bool = True
    order: int = 100
    priority: float | None = None
    importance: float = 0.5
    probability: float = 1.0
    ignore_budget: bool = False
    scan_depth: int | None = None
    sources: tuple[Source, ...] = ()
    exclude_recursion: bool = False
    prevent_recursion: bool = False
    delay_until_recursion: int = 0
    groups: tuple[str, ...] = ()
    group_override: bool = False
    group_weight: int = 100
    group_scoring: bool | None = None
    sticky: int = 0
    cooldown: int = 0
    delay: int = 0
    personas: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    exclude_personas: bool = False
    triggers: tuple[str, ...] = ()
    settings: dict[str, Any] = {}

    def __post_init__(self) -> None:
        normalize_fields(self, texts=("content", "name"), refs=("lorebook",), objects=("settings",))
        check_integer("order", self.order, low=-MAX_INTEGER)
        validation.normalize_field(self, "importance", validate_share, "")
        validation.normalize_field(self, "probability", validate_share, "")
        if self.priority is not None:
            validation.normalize_field(self, "priority", _validate_number, "")
        for field in _NUMBERS:
            check_integer(field, getattr(self, field))
        if self.scan_depth is not None:
            check_integer("scan_depth", self.scan_depth)
        for field in _LISTS:
            check_strings(field, getattr(self, field))
        for field in _FLAGS:
            _check_flag(field, getattr(self, field))
        for field in _OPTIONAL_FLAGS:
            if getattr(self, field) is not None:
                _check_flag(field, getattr(self, field))
        _check_one_of("logic", (self.logic,), LOGICS)
        check_strings("sources", self.sources)
        _check_one_of("sources", self.sources, SOURCES)

    @property
    def called(self) -> str:
        """The name, or the id if it has none."""
        return self.name or self.id

    @property
    def steady(self) -> bool:
        """Whether it is activated in every context, so that it can be part of the cached prefix of the prompt."""
        timed = self.sticky or self.cooldown or self.delay or self.delay_until_recursion
        return self.constant and self.probability == 1.0 and not timed and not self.groups


def _check_flag(field: str, value: object) -> None:
    if type(value) is not bool:
        raise InvalidValue(field, f"must be true or false, not {validation.preview(value)}")


def _check_one_of(field: str, values: tuple[str, ...], known: tuple[str, ...]) -> None:
    for value in values:
        if value not in known:
            raise InvalidValue(field, f"must be one of {', '.join(known)}, not {validation.preview(value)}")


def _validate_number(field: str, value: object) -> float:
    number = validation.to_finite_float(value)
    if number is None:
        raise InvalidValue(field, f"must be a finite number, not {validation.preview(value)}")
    return number
