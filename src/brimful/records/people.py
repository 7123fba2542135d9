"""Users, personas and rooms."""

from typing import Any

from brimful.core.validation import is_timezone, preview
from brimful.errors import InvalidValue
from brimful.records.base import Record, check_integer, check_strings, normalize_fields
from brimful.records.character import Character, validate_character
from brimful.records.lorebook import Lorebook
from brimful.records.note import Note, check_notes


class User(Record, frozen=True, kw_only=True, tag="user"):
    """A person who writes messages, in any number of rooms. `lorebooks` and `notes` apply in all of them.

    `timezone`, such as `Europe/Berlin`, says which day a message in their contexts is from.
    """

    name: str = ""
    timezone: str = ""
    lorebooks: tuple[str, ...] = ()
    notes: tuple[Note, ...] = ()
    metadata: dict[str, Any] = {}

    def __post_init__(self) -> None:
        normalize_fields(self, texts=("name", "timezone"), ids=("lorebooks",))
        if self.timezone and not is_timezone(self.timezone):
            raise InvalidValue("timezone", f"must be a time zone such as 'Europe/Berlin', not {preview(self.timezone)}")
        check_notes("notes", self.notes)


class Persona(Record, frozen=True, kw_only=True, tag="persona"):
    """A role that the model plays: its prompt, its model, and how its contexts are built.

    `overrides` are dotted keys of a policy (`pools.recent.max_items`) or names of `Overrides`, for this persona only.
    `completion` is the number of tokens reserved for its answers. `provider` is where its model runs, if not at the
    model's maker. `focus` is one more thing to search for in its contexts.
    """

    name: str = ""
    prompt: str = ""
    focus: str = ""
    character: Character | None = None
    model: str = ""
    provider: str = ""
    policy: str = ""
    completion: int | None = None
    overrides: dict[str, Any] = {}
    lorebooks: tuple[str, ...] = ()
    notes: tuple[Note, ...] = ()
    metadata: dict[str, Any] = {}

    def __post_init__(self) -> None:
        texts = ("name", "prompt", "focus", "model", "provider", "policy")
        normalize_fields(self, texts=texts, ids=("lorebooks",), objects=("overrides",))
        validate_character("character", self.character)
        check_notes("notes", self.notes)
        if self.completion is not None:
            check_integer("completion", self.completion, low=1)

    @property
    def called(self) -> str:
        """Its name, or its id if it has none."""
        return self.name or self.id


class Room(Record, frozen=True, kw_only=True, tag="room"):
    """A conversation: a channel, a session or a thread. Every context built for it includes `goal` and `headers`.

    `user` is the owner: with `other_rooms`, retrieval searches all rooms of the same user. `persona` answers by
    default. Fields of `character` override the persona's character. `focus` is one more thing to search for in
    every context, in place of the persona's.
    """

    name: str = ""
    user: str | None = None
    persona: str | None = None
    character: Character | None = None
    goal: str = ""
    focus: str = ""
    headers: tuple[str, ...] = ()
    lorebooks: tuple[str, ...] = ()
    notes: tuple[Note, ...] = ()
    created: float = 0.0
    metadata: dict[str, Any] = {}

    def __post_init__(self) -> None:
        texts, optional = ("name", "goal", "focus"), ("user", "persona")
        normalize_fields(self, texts=texts, ids=("lorebooks",), optional=optional, times=("created",))
        check_strings("headers", self.headers)
        validate_character("character", self.character)
        check_notes("notes", self.notes)


Entity = User | Persona | Room | Lorebook
"""A record that is written, read and listed by its id."""
