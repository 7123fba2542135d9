"""Messages of a room, and summaries of them."""

from math import isfinite
from typing import Any, Final

from brimful.core import validation
from brimful.core.content import Part, Role, Text, require_role
from brimful.errors import InvalidValue
from brimful.records.base import (
    Record,
    check_integer,
    check_spans,
    is_plain_name,
    normalize_fields,
    validate_content,
    validate_id,
    validate_json_object,
    validate_string,
    validate_time,
)

Content = str | tuple[Part, ...]
FROM_TOOL: Final = "from_tool"
"""The key of a message's metadata that says that a tool wrote it, whatever its role."""
OTHER_TEXT: Final = (FROM_TOOL, "citations", "content_references")
"""Keys of metadata that a message has if a tool wrote it, or if it cites pages."""


class Message(Record, frozen=True, kw_only=True, gc=False, tag="message"):
    """A message in a room: text, media, tool calls or tool results. `seq` counts from 1 in its room.

    `persona` is the id of the persona that wrote an answer. Its name may change; `sender` is the name at that time.
    A `hidden` message is excluded from contexts and search; a `superseded` one was replaced by another.
    """

    room: str
    content: Content
    sender: str = ""
    role: Role = "user"
    at: float = 0.0
    seq: int = 0
    edited: float | None = None
    persona: str | None = None
    hidden: bool = False
    superseded: bool = False
    metadata: dict[str, Any] = {}

    def __post_init__(self) -> None:
        """Validate the fields. A page of history has hundreds of messages, so plain values take a fast path."""
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
        if self.persona is not None:
            validation.normalize_field(self, "persona", validate_id, "")
        check_integer("seq", self.seq)
        require_role(self.role)
        if type(self.hidden) is not bool or type(self.superseded) is not bool:
            raise InvalidValue("hidden", "`hidden` and `superseded` must be true or false")

    @property
    def text(self) -> str:
        r"""The text, without media and tool calls.

        >>> Message(id="m1", room="den", content=(Text(text="One"), Text(text="Two"))).text
        'One\nTwo'
        """
        if isinstance(self.content, str):
            return self.content
        return "\n".join(part.text for part in self.content if isinstance(part, Text))


class Summary(Record, frozen=True, kw_only=True, tag="summary"):
    """Text that stands for messages of a room: those with the ids in `covers`, or at the positions in `spans`.

    A span goes from one `seq` to another, inclusive. Without ids and spans, it covers all from `first` to `last`.
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
        normalize_fields(self, texts=("content", "cluster"), refs=("room",), ids=("covers",), times=("at",))
        check_integer("first", self.first)
        check_integer("last", self.last)
        check_spans("spans", self.spans)
