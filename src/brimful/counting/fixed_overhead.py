"""Token counter for APIs that add a fixed number of tokens per message: OpenAI, Anthropic, Gemini."""

import math
from collections.abc import Sequence
from typing import Final

import msgspec

from brimful.cache import LRU, content_bytes
from brimful.core.content import Media, Role, Text, ToolCall, ToolResult
from brimful.core.prompt import Message, Prompt, Tool
from brimful.core.tokens import Basis, Count, sum_counts
from brimful.counting.features import Features, request_features
from brimful.counting.media import MediaCounter
from brimful.counting.overheads import Overheads, call_json, tool_texts
from brimful.counting.text_counters import CalibratedTextCounter, TextCounter

_MAX_CACHED_BYTES: Final = 4 * 2**20  # of tool calls
_TEXT_PARTS: Final = (Text, ToolResult)


class FixedOverheadCounter:
    """A `TokenCounter`: texts by a tokenizer, everything around them by the family's constants.

    A prompt's count is the sum of its parts', so what was budgeted part by part is what is verified as a whole.
    """

    def __init__(self, texts: TextCounter, overheads: Overheads, media: MediaCounter, tool_system_tokens: int) -> None:
        """Count by these; `tool_system_tokens` is what a provider's hidden prompt for tools costs."""
        self._texts = texts
        self._overheads = overheads
        self._media = media
        self._tool_system_tokens = tool_system_tokens
        # The same calls are counted when they are packaged, fitted and verified, and again with every turn.
        self._calls: LRU[tuple[ToolCall, ...], Count] = LRU(
            max_size=_MAX_CACHED_BYTES, size=lambda calls, _: content_bytes(calls)
        )

    @property
    def tokenizer(self) -> str:
        """The name of the counts."""
        return self._texts.name

    def text(self, text: str) -> Count:
        """Count one text."""
        return self._texts.text(text)

    def texts(self, texts: Sequence[str]) -> list[Count]:
        """Count many texts."""
        return self._texts.texts(texts)

    def media(self, part: Media) -> Count:
        """Count an image, a sound or a video."""
        return self._media.count(part)

    def tool_calls(self, calls: Sequence[ToolCall]) -> Count:
        """Count the tool calls of one message; several cost more than each by itself.

        The margin reaches to the calls written as JSON: who counts strictly counts them so, and is not to be surprised.
        """
        key = tuple(calls)
        count = self._calls.get(key)
        if count is None:
            count = self._calls[key] = self._count_calls(key)
        return count

    def _count_calls(self, calls: tuple[ToolCall, ...]) -> Count:
        texts = self.texts([text for call in calls for text in (call.name, call.arguments)])
        count = self._estimate([*texts, self._constant(self._around_calls(len(calls)))])
        strict = sum(written.upper for written in self.texts([call_json(call) for call in calls]))
        return msgspec.structs.replace(count, margin=max(count.margin, strict - count.tokens))

    def message_overhead(self, role: Role, name: str = "") -> int:
        """Return what stands around a message."""
        texts, around = self._frame(role, name)
        return around + sum(count.upper for count in self.texts(texts))

    def request_overhead(self) -> int:
        """Return what a request costs beside its messages and tools."""
        return self._overheads.request

    def prompt(self, prompt: Prompt) -> Count:
        """Add up everything that is sent; all texts are counted at once, and rounded once."""
        texts, frames = self._said(prompt.messages)
        counts = [self._constant(self.request_overhead() + frames), self._texts.total(texts)]
        if prompt.tools:
            described, around = self._described(prompt.tools)
            counts.append(self._estimate([self._texts.total(described), self._constant(around)]))
        for message in prompt.messages:
            if _is_text(message):
                continue
            counts += [self.media(part) for part in message.parts if isinstance(part, Media)]
            if calls := _tool_calls(message):
                counts.append(self.tool_calls(calls))
        return sum_counts(counts, self.tokenizer)

    def measure(self, prompt: Prompt) -> Features:
        """Return what the count of a prompt is made of: the same texts, and what is fixed around them."""
        media = sum(self.media(part).tokens for m in prompt.messages for part in m.parts if isinstance(part, Media))
        around = {"media": float(media), **request_features(prompt)}
        if not isinstance(self._texts, CalibratedTextCounter):
            return {"fixed": float(self.prompt(prompt).tokens - media), **around}
        texts, fixed = self._said(prompt.messages)
        described, of_tools = self._described(prompt.tools) if prompt.tools else ([], 0)
        calls = [_tool_calls(message) for message in prompt.messages]
        of_calls = [text for each in calls for call in each for text in (call.name, call.arguments)]
        measured = self._texts.measure([*texts, *described, *of_calls])
        measured["fixed"] += fixed + self.request_overhead() + of_tools + sum(self._around_calls(len(c)) for c in calls)
        return measured | around

    def _said(self, messages: Sequence[Message]) -> tuple[list[str], int]:
        """Return the texts of messages, their roles and names among them, and the tokens around all of them."""
        texts: list[str] = []
        fixed = 0
        frames: dict[tuple[Role, str], tuple[list[str], int]] = {}  # of few kinds, around many messages
        for message in messages:
            texts += _message_texts(message)
            for name in _frame_names(message):
                frame = frames.get((message.role, name))
                if frame is None:
                    frame = frames[message.role, name] = self._frame(message.role, name)
                texts += frame[0]
                fixed += frame[1]
        return texts, fixed

    def _frame(self, role: Role, name: str) -> tuple[list[str], int]:
        """Return the words in the frame of a message, and the tokens around them."""
        words: list[str] = [role] if self._overheads.counts_role else []
        if not name or self._overheads.name is None:
            return words, self._overheads.message
        return [*words, name], self._overheads.message + self._overheads.name

    def _described(self, tools: Sequence[Tool]) -> tuple[list[str], int]:
        """Return the texts of tools, and the tokens around all of them."""
        parts = tool_texts(tools, self._overheads.tools)
        return [text for text, _ in parts], sum(tokens for _, tokens in parts) + self._tool_system_tokens

    def _around_calls(self, calls: int) -> int:
        costs = self._overheads
        several = costs.parallel_call * calls + costs.parallel_calls if calls > 1 else 0
        return costs.tool_call * calls + several

    def _estimate(self, parts: Sequence[Count]) -> Count:
        """Add up what no source vouches for to the token: the sum is calibrated, with the family's margin."""
        total = sum_counts(parts, self.tokenizer)
        margin = total.margin + math.ceil(total.tokens * self._overheads.margin)
        basis: Basis = "calibrated" if total.exact else total.basis
        return Count(tokens=total.tokens, basis=basis, tokenizer=self.tokenizer, margin=margin)

    def _constant(self, tokens: int) -> Count:
        return Count(tokens=tokens, basis=self._overheads.basis, tokenizer=self.tokenizer)


def _is_text(message: Message) -> bool:
    return len(message.parts) == 1 and isinstance(message.parts[0], Text)


def _message_texts(message: Message) -> list[str]:
    return [
        part.text if isinstance(part, Text) else part.content for part in message.parts if isinstance(part, _TEXT_PARTS)
    ]


def _frame_names(message: Message) -> list[str]:
    """Return the name in each frame: on the wire every tool result is a message, or a block that costs as much."""
    if _is_text(message):
        return [message.name]
    results = sum(isinstance(part, ToolResult) for part in message.parts)
    own = [message.name] if results < len(message.parts) or not results else []
    return own + [""] * results


def _tool_calls(message: Message) -> list[ToolCall]:
    return [part for part in message.parts if isinstance(part, ToolCall)]
