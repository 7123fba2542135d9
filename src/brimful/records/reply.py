"""Replies of a model: complete, or streamed in chunks."""

from typing import Literal

import msgspec

from brimful.core.content import Text, ToolCall
from brimful.records import Usage

FinishReason = Literal["stop", "length", "tool-calls", "filtered", "overflow", "broken-off", "other"]
"""Why an answer ended.

- `stop`: the model was done. `length`: the completion's limit was met. `tool-calls`: it wants tools to be called.
- `filtered`: the provider cut it. `overflow`: prompt and answer together filled the window.
- `broken-off`: nobody waited for its end, or the connection was lost. `other`: none of these.
"""


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """A whole answer. `usage` is what the provider reported of it, None if it said nothing."""

    parts: tuple[Text | ToolCall, ...]
    finish: FinishReason = "stop"
    usage: Usage | None = None
    model: str = ""
    id: str = ""

    @property
    def text(self) -> str:
        """What was said, without the calls.

        >>> Reply(parts=(Text(text="Thurs"), Text(text="day."))).text
        'Thursday.'
        """
        return "".join(part.text for part in self.parts if isinstance(part, Text))

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The tools that the model wants called."""
        return tuple(part for part in self.parts if isinstance(part, ToolCall))


class ReplyChunk(msgspec.Struct, frozen=True, kw_only=True):
    """A piece of a streamed answer: some `text`, or some of its `thought`. The last one holds the whole `reply`."""

    text: str = ""
    thought: str = ""
    reply: Reply | None = None
