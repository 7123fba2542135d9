"""Replies of a model: complete, or streamed in chunks."""

from typing import Literal

import msgspec

from brimful.core.content import Text, ToolCall
from brimful.records import Usage

FinishReason = Literal["stop", "length", "tool-calls", "filtered", "overflow", "broken-off", "other"]
"""Why an answer ended.

- `stop`: the model finished. `length`: the completion limit was reached. `tool-calls`: the model called tools.
- `filtered`: the provider's content filter stopped it. `overflow`: prompt and answer together filled the window.
- `broken-off`: it was cancelled, or the connection was lost. `other`: none of these.
"""


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """A complete answer. `usage` is the usage the provider reported, or None."""

    parts: tuple[Text | ToolCall, ...]
    finish: FinishReason = "stop"
    usage: Usage | None = None
    model: str = ""
    id: str = ""

    @property
    def text(self) -> str:
        """The text, without tool calls.

        >>> Reply(parts=(Text(text="Thurs"), Text(text="day."))).text
        'Thursday.'
        """
        return "".join(part.text for part in self.parts if isinstance(part, Text))

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The tool calls."""
        return tuple(part for part in self.parts if isinstance(part, ToolCall))


class ReplyChunk(msgspec.Struct, frozen=True, kw_only=True):
    """A chunk of a streamed answer: some `text` or some `thought`. The last one has the complete `reply`."""

    text: str = ""
    thought: str = ""
    reply: Reply | None = None
