"""Records: the values that a store holds.

Records are frozen and equal by content. A store returns them as they were written; it assigns only `seq`, the
position of a message in its room.
"""

from math import isfinite
from typing import Any, Final, Literal, get_args

import msgspec

from brimful.core import validation
from brimful.core.content import Part, Role, require_role
from brimful.core.context import Context
from brimful.core.decode import preload_types
from brimful.core.notice import Notice
from brimful.errors import InvalidValue
from brimful.records.base import (
    Record,
    check_integer,
    check_spans,
    check_strings,
    is_plain_name,
    normalize_fields,
    validate_content,
    validate_json_object,
    validate_share,
    validate_string,
    validate_time,
)
from brimful.records.character import Character, validate_character
from brimful.records.lorebook import Lorebook, LoreEntry
from brimful.records.note import Note, check_notes

__all__ = [
    "MEMORY_TYPES",
    "Content",
    "Entity",
    "Inclusion",
    "LoreEntry",
    "Lorebook",
    "Memory",
    "MemoryType",
    "Message",
    "Note",
    "Persona",
    "Record",
    "Response",
    "Room",
    "Snapshot",
    "Summary",
    "Usage",
    "User",
    "memory_scope",
]

MemoryType = Literal["episodic", "semantic", "procedural"]
MEMORY_TYPES: Final[tuple[str, ...]] = get_args(MemoryType)
Content = str | tuple[Part, ...]


class User(Record, frozen=True, kw_only=True, tag="user"):
    """Somebody who talks, in any number of rooms. `lorebooks` and `notes` come along into all of them."""

    name: str = ""
    lorebooks: tuple[str, ...] = ()
    notes: tuple[Note, ...] = ()
    metadata: dict[str, Any] = {}

    def __post_init__(self) -> None:
        """Refuse what no store could give back."""
        normalize_fields(self, texts=("name",), ids=("lorebooks",))
        check_notes("notes", self.notes)


class Persona(Record, frozen=True, kw_only=True, tag="persona"):
    """Whom the model plays: its prompt, and what it changes in how its windows are filled.

    `overrides` are policy keys (`pools.recent.max_items`) or fields of `Overrides`, for this persona only.
    `completion` is what is kept for its answers, in tokens; `provider` is where its model runs, if not at its maker's.
    """

    name: str = ""
    prompt: str = ""
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
        """Refuse what no store could give back."""
        texts = ("name", "prompt", "model", "provider", "policy")
        normalize_fields(self, texts=texts, ids=("lorebooks",), objects=("overrides",))
        validate_character("character", self.character)
        check_notes("notes", self.notes)
        if self.completion is not None:
            check_integer("completion", self.completion, low=1)

    @property
    def called(self) -> str:
        """What people call it."""
        return self.name or self.id


class Room(Record, frozen=True, kw_only=True, tag="room"):
    """A conversation: a channel, a session, a thread. `goal` and `headers` stand in every context that is built for it.

    `user` is whose room it is: with `other_rooms`, retrieval looks into all rooms of the same user. `persona` answers
    where nobody else is asked to. What `character` says stands in the place of what the persona's own says.
    """

    name: str = ""
    user: str | None = None
    persona: str | None = None
    character: Character | None = None
    goal: str = ""
    headers: tuple[str, ...] = ()
    lorebooks: tuple[str, ...] = ()
    notes: tuple[Note, ...] = ()
    created: float = 0.0
    metadata: dict[str, Any] = {}

    def __post_init__(self) -> None:
        """Refuse what no store could give back."""
        optional = ("user", "persona")
        normalize_fields(self, texts=("name", "goal"), ids=("lorebooks",), optional=optional, times=("created",))
        check_strings("headers", self.headers)
        validate_character("character", self.character)
        check_notes("notes", self.notes)


class Message(Record, frozen=True, kw_only=True, tag="message"):
    """Something said in a room: text, media, tool calls or what tools answered. `seq` counts from 1 in its room.

    What is `hidden` by its metadata is kept, and stands in no context.
    """

    room: str
    content: Content
    sender: str = ""
    role: Role = "user"
    at: float = 0.0
    seq: int = 0
    edited: float | None = None
    metadata: dict[str, Any] = {}

    def __post_init__(self) -> None:
        """Refuse what no store could give back. A page of history has hundreds: where all is plain, little is done."""
        if not (is_plain_name(self.id) and is_plain_name(self.room) and type(self.at) is float and isfinite(self.at)):
            normalize_fields(self, refs=("room",), times=("at",))
        elif self.metadata or type(self.metadata) is not dict:
            validation.normalize_field(self, "metadata", validate_json_object, "")
        if type(self.sender) is not str or not self.sender.isascii():
            validation.normalize_field(self, "sender", validate_string, "")
        if type(self.content) is not str or not self.content.isascii():
            validation.normalize_field(self, "content", validate_content, "")
        if self.edited is not None:
            validation.normalize_field(self, "edited", validate_time, "")
        check_integer("seq", self.seq)
        require_role(self.role)

    @property
    def hidden(self) -> bool:
        """Whether it is kept from models."""
        return self.metadata.get("hidden") is True


class Memory(Record, frozen=True, kw_only=True, tag="memory"):
    """Something to be known later. It belongs to a persona, a user, a room, to several of them, or to all (None)."""

    content: str
    type: MemoryType = "semantic"
    persona: str | None = None
    user: str | None = None
    room: str | None = None
    importance: float = 0.5
    source: str = ""
    at: float = 0.0
    pinned: bool = False
    accesses: int = 0
    accessed: float | None = None
    metadata: dict[str, Any] = {}

    @property
    def scope(self) -> str:
        """Whose it is, as one name: memories of one scope are searched together."""
        return memory_scope(self.persona, self.user, self.room)

    def __post_init__(self) -> None:
        """Refuse what no store could give back."""
        normalize_fields(self, texts=("source", "content"), optional=("persona", "user", "room"), times=("at",))
        validation.normalize_field(self, "importance", validate_share, "")
        check_integer("accesses", self.accesses)
        if self.accessed is not None:
            validation.normalize_field(self, "accessed", validate_time, "")
        if type(self.pinned) is not bool:
            raise InvalidValue("pinned", f"must be true or false, not {validation.preview(self.pinned)}")
        if self.type not in MEMORY_TYPES:
            raise InvalidValue("type", f"must be one of {', '.join(MEMORY_TYPES)}, not {validation.preview(self.type)}")


class Summary(Record, frozen=True, kw_only=True, tag="summary"):
    """A text that stands for messages of a room: for those whose ids it `covers`, or that stand in one of its `spans`.

    A span goes from one `seq` to another. One that names neither ids nor spans covers all from `first` to `last`.
    """

    room: str
    content: str
    cluster: str
    first: int = 0
    last: int = 0
    covers: tuple[str, ...] = ()
    spans: tuple[tuple[int, int], ...] = ()
    at: float = 0.0
    metadata: dict[str, Any] = {}

    def __post_init__(self) -> None:
        """Refuse what no store could give back."""
        normalize_fields(self, texts=("content", "cluster"), refs=("room",), ids=("covers",), times=("at",))
        check_integer("first", self.first)
        check_integer("last", self.last)
        check_spans("spans", self.spans)


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """What a provider reported: tokens of the prompt, of them cached, of the answer, and of them thought."""

    prompt: int = 0
    cached: int = 0
    completion: int = 0
    reasoning: int = 0

    def __post_init__(self) -> None:
        """Refuse what is no number of tokens."""
        for field in ("prompt", "cached", "completion", "reasoning"):
            value = getattr(self, field)
            if type(value) is not int or not 0 <= value <= validation.MAX_INTEGER:
                raise InvalidValue(
                    f"usage.{field}", f"must be a whole number of tokens, not {validation.preview(value)}"
                )


class Response(Record, frozen=True, kw_only=True, tag="response"):
    """An answer, and the context that it answers: `context` is the snapshot's id, `message` the answer's own.

    `route` names the server that gave it; `expected_cached` are the tokens of its prompt that should have been in that
    server's cache, beside those in `usage` that were. `notices` tell of problems, such as a truncated prompt.
    """

    context: str
    room: str
    message: str | None = None
    model: str = ""
    route: str = ""
    at: float = 0.0
    seconds: float | None = None
    usage: Usage | None = None
    expected_cached: int = 0
    finish: str = ""
    notices: tuple[Notice, ...] = ()
    metadata: dict[str, Any] = {}

    def __post_init__(self) -> None:
        """Refuse what no store could give back."""
        texts = ("model", "route", "finish")
        normalize_fields(self, texts=texts, refs=("context", "room"), optional=("message",), times=("at",))
        check_integer("expected_cached", self.expected_cached)
        if self.seconds is not None:
            validation.normalize_field(self, "seconds", validate_time, "")
        if self.usage is not None and not isinstance(self.usage, Usage):
            raise InvalidValue("usage", f"must be a Usage, not {validation.preview(self.usage)}")


class Snapshot(Record, frozen=True, kw_only=True, tag="snapshot"):
    """One build, with every decision. Its id is its own: the same context may be built twice."""

    room: str
    context: Context
    persona: str | None = None
    at: float = 0.0
    message: str | None = None

    def __post_init__(self) -> None:
        """Refuse what no store could give back."""
        normalize_fields(self, refs=("room",), optional=("persona", "message"), times=("at",))


class Inclusion(msgspec.Struct, frozen=True, kw_only=True):
    """What became of an item in one build."""

    snapshot: str
    item: str
    kind: str
    outcome: str
    reason: str
    tokens: int
    relevance: float | None = None
    at: float = 0.0


def memory_scope(persona: str | None, user: str | None, room: str | None) -> str:
    """Return the scope of memories that belong to a persona, a user and a room; None stands for any.

    >>> memory_scope("helper", None, None), memory_scope("a:b", "c", "d")
    ('memory:helper::', 'memory:a%3Ab:c:d')
    """
    return f"memory:{_escape(persona)}:{_escape(user)}:{_escape(room)}"


def _escape(name: str | None) -> str:
    """Return a name without the sign that parts names, so that no two owners share a scope."""
    return (name or "").replace("%", "%25").replace(":", "%3A")


Entity = User | Persona | Room | Lorebook
"""What is put, got and listed by its id alone."""

preload_types(User, Persona, Room, Lorebook, LoreEntry, Message, Memory, Summary, Response, Snapshot, Inclusion)
