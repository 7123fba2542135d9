"""Memories."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, TypedDict, get_args

import msgspec

from brimful.core import validation
from brimful.errors import InvalidValue
from brimful.records.base import Record, check_integer, normalize_fields, validate_id, validate_share, validate_time

MemoryType = Literal["episodic", "semantic", "procedural"]
MEMORY_TYPES: Final[tuple[str, ...]] = get_args(MemoryType)
MemoryState = Literal["active", "proposed", "rejected"]
MEMORY_STATES: Final[tuple[MemoryState, ...]] = get_args(MemoryState)
Untrusted = Literal["propose", "trust", "ignore"]
"""What becomes of text for memories that did not come from a user."""
LEARNED: Final = "learned"
"""The key of a learned memory's metadata that says what it was learned from."""


class Memory(Record, frozen=True, kw_only=True, tag="memory"):
    """A fact to remember. It belongs to a persona, a user, a room, a combination of them, or to all (None).

    Memories of the same `cluster` can give way to the memory that is their `summary`. `source_message` is the id of the
    message it was taken from, which may have been removed since. `edited` is when it was last updated, and `ended` when
    it stopped being true.

    Only `active` memories are found and used. A `proposed` one waits until somebody confirms or rejects it; a
    `rejected` one stays, so that it is not proposed again. One that is `archived` is in no context and no search.
    """

    content: str
    type: MemoryType = "semantic"
    persona: str | None = None
    user: str | None = None
    room: str | None = None
    importance: float = 0.5
    source: str = ""
    source_message: str | None = None
    cluster: str | None = None
    summary: bool = False
    at: float = 0.0
    edited: float | None = None
    pinned: bool = False
    accesses: int = 0
    accessed: float | None = None
    state: MemoryState = "active"
    ended: float | None = None
    archived: bool = False
    metadata: dict[str, Any] = {}

    @property
    def scope(self) -> str:
        """The search scope: memories with the same owners are searched together."""
        return memory_scope(self.persona, self.user, self.room)

    @property
    def supersedes(self) -> str | None:
        """The id of the memory that it replaced when it was learned, or replaces when it is confirmed."""
        learned = self.metadata.get(LEARNED)
        id = learned.get("supersedes") if isinstance(learned, dict) else None
        return id if isinstance(id, str) and id != self.id else None

    def __post_init__(self) -> None:
        optional = ("persona", "user", "room", "source_message", "cluster")
        normalize_fields(self, texts=("source", "content"), optional=optional, times=("at",))
        validation.normalize_field(self, "importance", validate_share, "")
        check_integer("accesses", self.accesses)
        for field in ("accessed", "edited", "ended"):
            if getattr(self, field) is not None:
                validation.normalize_field(self, field, validate_time, "")
        for field in ("archived", "pinned", "summary"):
            if type(getattr(self, field)) is not bool:
                raise InvalidValue(field, f"must be true or false, not {validation.preview(getattr(self, field))}")
        if self.summary and self.cluster is None:
            raise InvalidValue("summary", "needs a cluster: the one whose memories it summarizes")
        if self.type not in MEMORY_TYPES:
            raise InvalidValue("type", f"must be one of {', '.join(MEMORY_TYPES)}, not {validation.preview(self.type)}")
        if self.state not in MEMORY_STATES:
            reason = f"must be one of {', '.join(MEMORY_STATES)}, not {validation.preview(self.state)}"
            raise InvalidValue("state", reason)


class MemoryFields(TypedDict, total=False):
    """The fields of a memory but its id and its content."""

    type: MemoryType
    persona: str | None
    user: str | None
    room: str | None
    importance: float
    source: str
    at: float
    edited: float | None
    ended: float | None
    archived: bool
    pinned: bool
    metadata: dict[str, Any]


class MemoryPage(msgspec.Struct, frozen=True, kw_only=True):
    """Memories, newest first, and the cursor of the next page; None on the last one."""

    memories: tuple[Memory, ...]
    next: str | None = None


class MemoryFilters(TypedDict, total=False):
    """Which memories to read. A memory must match all filters that are set.

    - `ids`, `prefix`: these ids; ids that start with this.
    - `persona`, `user`, `room`: memories that belong to it, alone or together with others.
    - `user_prefix`: memories of users whose ids start with this, such as `"team-7/"`.
    - `scopes`: exactly these owners, as `memory_scope` names them.
    - `types`, `pinned`, `summary`: as in the memory.
    - `metadata`: values that its metadata must have, by key.
    - `archived`: archived memories, or those that are not. By default, archived ones are only found by id.
    - `state`: memories in this state, by default `active` ones, also by id. None: in any state.
    """

    ids: Sequence[str] | None
    prefix: str
    persona: str | None
    user: str | None
    room: str | None
    user_prefix: str
    scopes: Sequence[str] | None
    types: Sequence[str]
    pinned: bool | None
    summary: bool | None
    metadata: Mapping[str, Any] | None
    archived: bool | None
    state: MemoryState | None


def memory_scope(persona: str | None, user: str | None, room: str | None) -> str:
    """Return the scope of memories that belong to a persona, a user and a room. None means any.

    >>> memory_scope("helper", None, None), memory_scope("a:b", "c", "d")
    ('memory:helper::', 'memory:a%3Ab:c:d')
    """
    return f"memory:{_escape(persona)}:{_escape(user)}:{_escape(room)}"


def _escape(name: str | None) -> str:
    """Escape the separator, so that no two owners share a scope."""
    return (name or "").replace("%", "%25").replace(":", "%3A")


def memory_cursor(memory: Memory) -> str:
    """Return the cursor after a memory, in pages that list the newest first.

    >>> parse_memory_cursor(memory_cursor(Memory(id="mem 1", content="tea", at=2.5)))
    (2.5, 'mem 1')
    """
    return f"{memory.at!r} {memory.id}"


def parse_memory_cursor(cursor: str | None, field: str = "cursor") -> tuple[float | None, str]:
    """Return the time and id after which a page starts."""
    if cursor is None or cursor == "":
        return None, ""
    at, _, id = cursor.partition(" ") if isinstance(cursor, str) else ("", "", "")
    try:
        return validate_time(field, float(at)), validate_id(field, id)
    except ValueError:  # InvalidValue is one, too
        raise InvalidValue(field, f"must be the `next` of another page, not {validation.preview(cursor)}") from None
