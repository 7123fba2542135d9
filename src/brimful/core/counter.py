"""The token counter protocol: what a tokenizer must offer to be used by the core."""

from collections.abc import Sequence
from typing import Protocol

from brimful.core.content import Media, Role, ToolCall
from brimful.core.prompt import Prompt
from brimful.core.tokens import Count


class TokenCounter(Protocol):
    """Counts for one model. Every method is a pure function of its arguments.

    `tokenizer` names the counts: two counters with the same name give the same numbers.
    """

    @property
    def tokenizer(self) -> str:
        """The name under which counts are kept, for example `o200k_base` or `claude@o200k_base*1.53`."""
        ...

    def text(self, text: str) -> Count:
        """Count a text as ordinary content: special tokens spelled out in it are plain text."""
        ...

    def texts(self, texts: Sequence[str]) -> list[Count]:
        """Count many texts, faster than one by one."""
        ...

    def media(self, part: Media) -> Count:
        """Count an image, a sound or a video by the model's rule."""
        ...

    def tool_calls(self, calls: Sequence[ToolCall]) -> Count:
        """Count all tool calls of one assistant's message, their overhead included."""
        ...

    def message_overhead(self, role: Role, name: str = "") -> int:
        """Tokens that a message costs beside its content (role, separators, name)."""
        ...

    def request_overhead(self) -> int:
        """Tokens that a request costs beside its messages and tools (priming, default system prompt …)."""
        ...

    def prompt(self, prompt: Prompt) -> Count:
        """Count a whole prompt, tools and all overheads included: the number the provider will bill."""
        ...
