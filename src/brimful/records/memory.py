"""Memories."""

from typing import Any, Final, Literal, get_args

from brimful.core import validation
from brimful.errors import InvalidValue
from brimful.records.base import Record, check_integer, normalize_fields, validate_share, validate_time

MemoryType = Literal["episodic", "semantic", "procedural"]
MEMORY_TYPES: Final[tuple[str, ...]] = get_args(MemoryType)


class Memory(Record, frozen=True, kw_only=True, tag="memory"):
    """A fact to remember. It belongs to a persona, a user, a room, a combination of them, or to all (None).

    Memories of the same `cluster` can give way to the memory that is their `summary`. `source_message` is the id of the
    message it was taken from, which may have been removed since.
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
    pinned: bool = False
    accesses: int = 0
    accessed: float | None = None
    metadata: dict[str, Any] = {}

    @property
    def scope(self) -> str:
        """The search scope: memories with the same owners are searched together."""
        return memory_scope(self.persona, self.user, self.room)

    def __post_init__(self) -> None:
        """Validate the fields."""
        optional = ("persona", "user", "room", "source_message", "cluster")
        normalize_fields(self, texts=("source", "content"), optional=optional, times=("at",))
        validation.normalize_field(self, "importance", validate_share, "")
        check_integer("accesses", self.accesses)
        if self.accessed is not None:
            validation.normalize_field(self, "accessed", validate_time, "")
        for field in ("pinned", "summary"):
            if type(getattr(self, field)) is not bool:
                raise InvalidValue(field, f"must be true or false, not {validation.preview(getattr(self, field))}")
        if self.summary and self.cluster is None:
            raise InvalidValue("summary", "needs a cluster: the one whose memories it summarizes")
        if self.type not in MEMORY_TYPES:
            raise InvalidValue("type", f"must be one of {', '.join(MEMORY_TYPES)}, not {validation.preview(self.type)}")


def memory_scope(persona: str | None, user: str | None, room: str | None) -> str:
    """Return the scope of memories that belong to a persona, a user and a room. None means any.

    >>> memory_scope("helper", None, None), memory_scope("a:b", "c", "d")
    ('memory:helper::', 'memory:a%3Ab:c:d')
    """
    return f"memory:{_escape(persona)}:{_escape(user)}:{_escape(room)}"


def _escape(name: str | None) -> str:
    """Escape the separator, so that no two owners share a scope."""
    return (name or "").replace("%", "%25").replace(":", "%3A")
