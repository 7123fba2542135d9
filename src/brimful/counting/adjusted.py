"""A counter that has learned from usage what a server counts otherwise than we do."""

from collections.abc import Sequence
from typing import Protocol

from brimful.core.content import Media, Role, ToolCall
from brimful.core.prompt import Prompt
from brimful.core.tokens import Count, TokenCounter
from brimful.counting.calibration import Calibration, ceiling
from brimful.counting.features import Features


class Measuring(TokenCounter, Protocol):
    """A counter that tells what its counts are made of."""

    def measure(self, prompt: Prompt) -> Features:
        """Return the features of a prompt."""
        ...


class AdjustedCounter:
    """A `TokenCounter`: texts as another one counts them, and what was learned of messages, tools and requests.

    A whole prompt is counted by its features, as they were learned. What its parts are charged is never less: each is
    rounded up by itself.
    """

    def __init__(self, counter: Measuring, learned: Calibration) -> None:
        """Count by `counter`, whose texts know of what was learned already, and add the rest."""
        self._counter = counter
        self._learned = learned

    @property
    def tokenizer(self) -> str:
        """The name of the counts."""
        return self._learned.name

    def text(self, text: str) -> Count:
        """Count one text."""
        return self._counter.text(text)

    def texts(self, texts: Sequence[str]) -> list[Count]:
        """Count many texts."""
        return self._counter.texts(texts)

    def media(self, part: Media) -> Count:
        """Count an image, a sound or a video: each token of it weighs what was learned."""
        count = self._counter.media(part)
        return self._added("media", count, count.tokens)

    def tool_calls(self, calls: Sequence[ToolCall]) -> Count:
        """Count the tool calls of one message."""
        return self._added("calls", self._counter.tool_calls(calls), len(calls))

    def message_overhead(self, role: Role, name: str = "") -> int:
        """Return what stands around a message, and what that may have missed."""
        return self._around("messages", self._counter.message_overhead(role, name))

    def request_overhead(self) -> int:
        """Return what a request costs beside its messages and tools, and what that may have missed."""
        return self._around("request", self._counter.request_overhead())

    def prompt(self, prompt: Prompt) -> Count:
        """Count a whole prompt by its features."""
        return self._learned.count(self._counter.measure(prompt))

    def measure(self, prompt: Prompt) -> Features:
        """Return what the count of a prompt is made of."""
        return self._counter.measure(prompt)

    def _around(self, thing: str, tokens: int) -> int:
        weight, spread = self._learned.of_thing(thing)
        return ceiling(max(0.0, tokens + weight) * (1 + self._learned.margin) + spread)

    def _added(self, thing: str, count: Count, times: int) -> Count:
        weight, spread = self._learned.of_thing(thing)
        tokens = max(0, ceiling(count.tokens + times * weight))
        margin = max(0, ceiling(count.margin + times * spread))
        return Count(tokens=tokens, basis="calibrated", tokenizer=self.tokenizer, margin=margin)
