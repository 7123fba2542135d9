"""The protocol of token counters."""

from collections.abc import Sequence
from typing import Protocol

from brimful.core.content import Media, Role, ToolCall
from brimful.core.prompt import Prompt
from brimful.core.tokens import Count


class TokenCounter(Protocol):
    """Counts tokens for one model. Every method is a pure function of its arguments.

    Two counters with the same `tokenizer` return the same counts.
    """

    @property
    def tokenizer(self) -> str:
        """The name under which counts are stored, for example `o200k_base` or `claude@o200k_base*1.53`."""
        ...

    def text(self, text: str) -> Count:
        """Count a text. Special tokens in it are counted as plain text."""
        ...

    def texts(self, texts: Sequence[str]) -> list[Count]:
        """Count many texts, faster than one by one."""
        ...

    def media(self, part: Media) -> Count:
        """Count an image, audio or video by the model's rule."""
        ...

    def tool_calls(self, calls: Sequence[ToolCall]) -> Count:
        """Count all tool calls of one assistant message, including their overhead."""
        ...

    def message_overhead(self, role: Role, name: str = "") -> int:
        """Return the tokens of a message besides its content (role, separators, name)."""
        ...

    def request_overhead(self) -> int:
        """Return the tokens of a request besides its messages and tools (priming, default system prompt …)."""
        ...

    def prompt(self, prompt: Prompt) -> Count:
        """Count a whole prompt, including tools and all overheads: the number that the provider will bill."""
        ...
