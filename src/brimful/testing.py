"""The fakes that our tests use, for yours too."""

from collections.abc import Sequence

from brimful.core.content import Media, Role, Text, ToolCall, ToolResult
from brimful.core.prompt import Part, Prompt
from brimful.core.tokens import Count

__all__ = ["WordCounter"]

IMAGE_TOKENS = 100  # for any medium of any size


class WordCounter:
    """A counter that a person can check by eye: a word is a token, a message costs 2 more, a request 1.

    >>> WordCounter().text("three little words").tokens
    3
    """

    tokenizer = "words"

    def text(self, text: str) -> Count:
        """Count the words."""
        return Count(tokens=len(text.split()), basis="exact", tokenizer=self.tokenizer)

    def texts(self, texts: Sequence[str]) -> list[Count]:
        """Count the words of each text."""
        return [self.text(text) for text in texts]

    def media(self, part: Media) -> Count:
        """Count every medium the same."""
        del part
        return Count(tokens=IMAGE_TOKENS, basis="exact", tokenizer=self.tokenizer)

    def tool_calls(self, calls: Sequence[ToolCall]) -> Count:
        """Count the words of the names and the arguments."""
        return self.text(" ".join(f"{call.name} {call.arguments}" for call in calls))

    def message_overhead(self, role: Role, name: str = "") -> int:
        """Two for the message, and the words of the name."""
        del role
        return 2 + len(name.split())

    def request_overhead(self) -> int:
        """One for the request."""
        return 1

    def prompt(self, prompt: Prompt) -> Count:
        """Count everything that is in the prompt."""
        tokens = self.request_overhead()
        for message in prompt.messages:
            tokens += self.message_overhead(message.role, message.name)
            tokens += sum(self._part(part) for part in message.parts)
        for tool in prompt.tools:
            tokens += self.text(f"{tool.name} {tool.description} {tool.parameters}").tokens
        return Count(tokens=tokens, basis="exact", tokenizer=self.tokenizer)

    def _part(self, part: Part) -> int:
        match part:
            case Text():
                return self.text(part.text).tokens
            case Media():
                return self.media(part).tokens
            case ToolCall():
                return self.tool_calls([part]).tokens
            case ToolResult():
                return self.text(part.content).tokens
