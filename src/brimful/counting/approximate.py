"""The rule of thumb: four characters per token.

These are the numbers of the `countMessageTokens` that many chat applications started with. It was written for
JavaScript, where a string's length is counted in UTF-16 units: an emoji counts as two.
"""

from collections.abc import Sequence
from typing import Final, assert_never

from brimful.core.content import Media, Part, Role, Text, ToolCall, ToolResult
from brimful.core.prompt import Message, Prompt
from brimful.core.tokens import Count, sum_counts
from brimful.counting.media import MediaCounter
from brimful.counting.overheads import tool_json

CHARACTERS_PER_TOKEN: Final = 4
CHARACTERS_PER_MESSAGE: Final = 10  # for {"role":"","content":"","name":""}


def utf16_length(text: str) -> int:
    """Return the length of a string in JavaScript.

    >>> utf16_length("a👋")
    3
    """
    return len(text) if text.isascii() else len(text) + sum(character > "\uffff" for character in text)


def approximate_text(text: str) -> int:
    """Return a quarter of the text's length, rounded up.

    >>> approximate_text("Hello world")
    3
    """
    return _quarter(utf16_length(text))


def approximate_message(content: str, role: str, name: str = "") -> int:
    """Return a quarter of the message's length, including ten characters of structure, rounded up.

    >>> approximate_message("Hello world", "user", "Joel")
    8
    """
    return _quarter(utf16_length(content) + utf16_length(role) + utf16_length(name) + CHARACTERS_PER_MESSAGE)


class ApproximateCounter:
    """A `TokenCounter` by the rule of thumb. Media are counted by the model's rules."""

    def __init__(self, media: MediaCounter) -> None:
        self._media = media

    @property
    def tokenizer(self) -> str:
        """The name of the counts."""
        return "chars/4"

    def text(self, text: str) -> Count:
        return self._count(approximate_text(text))

    def texts(self, texts: Sequence[str]) -> list[Count]:
        return [self.text(text) for text in texts]

    def media(self, part: Media) -> Count:
        """Count an image, audio clip or video."""
        return self._media.count(part)

    def tool_calls(self, calls: Sequence[ToolCall]) -> Count:
        """Count tool calls, including structure."""
        lengths = [utf16_length(call.name) + utf16_length(call.arguments) + CHARACTERS_PER_MESSAGE for call in calls]
        return self._count(sum(map(_quarter, lengths)))

    def message_overhead(self, role: Role, name: str = "") -> int:
        """Count a message without content."""
        return approximate_message("", role, name)

    def request_overhead(self) -> int:
        """Return 0: the rule covers messages only."""
        return 0

    def prompt(self, prompt: Prompt) -> Count:
        """Count each message, rounded up."""
        tools = self.texts([tool_json(tool) for tool in prompt.tools])
        return sum_counts(
            [*tools, *(part for message in prompt.messages for part in self._message(message))], self.tokenizer
        )

    def _message(self, message: Message) -> list[Count]:
        content = "".join(_sent_text(part) for part in message.parts)
        media = [self.media(part) for part in message.parts if isinstance(part, Media)]
        return [self._count(approximate_message(content, message.role, message.name)), *media]

    def _count(self, tokens: int) -> Count:
        return Count(tokens=tokens, basis="approximate", tokenizer=self.tokenizer)


def _sent_text(part: Part) -> str:
    match part:
        case Text():
            return part.text
        case ToolCall():
            return part.name + part.arguments
        case ToolResult():
            return part.content
        case Media():
            return ""
        case _:
            assert_never(part)


def _quarter(length: int) -> int:
    return -(-length // CHARACTERS_PER_TOKEN)
