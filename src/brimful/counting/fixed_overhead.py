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

_TEXT_PARTS: Final = (Text, ToolResult)


class FixedOverheadCounter:
    """A `TokenCounter` that counts texts with a tokenizer and adds the family's fixed overhead.

    The count of a prompt is the sum of its parts, so the budgeted parts add up to the verified total.
    """

    def __init__(self, texts: TextCounter, overheads: Overheads, media: MediaCounter, tool_system_tokens: int) -> None:
        """`tool_system_tokens` is the size of the provider's hidden system prompt for tools."""
        self._texts = texts
        self._overheads = overheads
        self._media = media
        self._tool_system_tokens = tool_system_tokens
        # The same calls are counted when they are packaged, selected and verified, and again with every turn.
        self._calls: LRU[tuple[ToolCall, ...], Count] = LRU(
            name="tool-calls", size=lambda calls, _: content_bytes(calls)
        )

    @property
    def tokenizer(self) -> str:
        """The name of the counts."""
        return self._texts.name

    def text(self, text: str) -> Count:
        return self._texts.text(text)

    def texts(self, texts: Sequence[str]) -> list[Count]:
        return self._texts.texts(texts)

    def media(self, part: Media) -> Count:
        """Count an image, audio clip or video."""
        return self._media.count(part)

    def tool_calls(self, calls: Sequence[ToolCall]) -> Count:
        """Count the tool calls of one message. Several calls cost more than the sum of each.

        The margin covers the calls as JSON, which is how strict counters count them.
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
        texts, around = self._frame(role, name)
        return around + sum(count.upper for count in self.texts(texts))

    def request_overhead(self) -> int:
        return self._overheads.request

    def prompt(self, prompt: Prompt) -> Count:
        """Count everything that is sent. All texts are counted together and rounded once."""
        texts, frames = self._message_texts(prompt.messages)
        counts = [self._constant(self.request_overhead() + frames), self._texts.total(texts)]
        if prompt.tools:
            described, around = self._tool_texts(prompt.tools)
            counts.append(self._estimate([self._texts.total(described), self._constant(around)]))
        for message in prompt.messages:
            if _is_text(message):
                continue
            counts += [self.media(part) for part in message.parts if isinstance(part, Media)]
            if calls := _tool_calls(message):
                counts.append(self.tool_calls(calls))
        return sum_counts(counts, self.tokenizer)

    def measure(self, prompt: Prompt) -> Features:
        """Return the features of a prompt: of its texts, and the fixed tokens around them."""
        media = sum(self.media(part).tokens for m in prompt.messages for part in m.parts if isinstance(part, Media))
        around = {"media": float(media), **request_features(prompt)}
        if not isinstance(self._texts, CalibratedTextCounter):
            return {"fixed": float(self.prompt(prompt).tokens - media), **around}
        texts, fixed = self._message_texts(prompt.messages)
        described, of_tools = self._tool_texts(prompt.tools) if prompt.tools else ([], 0)
        calls = [_tool_calls(message) for message in prompt.messages]
        of_calls = [text for each in calls for call in each for text in (call.name, call.arguments)]
        measured = self._texts.measure([*texts, *described, *of_calls])
        measured["fixed"] += fixed + self.request_overhead() + of_tools + sum(self._around_calls(len(c)) for c in calls)
        return measured | around

    def _message_texts(self, messages: Sequence[Message]) -> tuple[list[str], int]:
        """Return the texts of messages, including roles and names, and the fixed tokens around them."""
        texts: list[str] = []
        fixed = 0
        frames: dict[tuple[Role, str], tuple[list[str], int]] = {}  # few different ones for many messages
        for message in messages:
            match message.parts:
                case (Text(text=text),):  # as most are
                    texts.append(text)
                    names = [message.name]
                case _:
                    texts += _message_texts(message)
                    names = _frame_names(message)
            for name in names:
                frame = frames.get((message.role, name))
                if frame is None:
                    frame = frames[message.role, name] = self._frame(message.role, name)
                texts += frame[0]
                fixed += frame[1]
        return texts, fixed

    def _frame(self, role: Role, name: str) -> tuple[list[str], int]:
        """Return the counted words of a message's frame, and its fixed tokens."""
        words: list[str] = [role] if self._overheads.counts_role else []
        if not name or self._overheads.name is None:
            return words, self._overheads.message
        return [*words, name], self._overheads.message + self._overheads.name

    def _tool_texts(self, tools: Sequence[Tool]) -> tuple[list[str], int]:
        """Return the texts of tools, and the fixed tokens around them."""
        parts = tool_texts(tools, self._overheads.tools)
        return [text for text, _ in parts], sum(tokens for _, tokens in parts) + self._tool_system_tokens

    def _around_calls(self, calls: int) -> int:
        costs = self._overheads
        several = costs.parallel_call * calls + costs.parallel_calls if calls > 1 else 0
        return costs.tool_call * calls + several

    def _estimate(self, parts: Sequence[Count]) -> Count:
        """Add up counts without an exact source: the sum is calibrated, with the family's margin."""
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
    """Return the name in each frame. Every tool result is a message of its own, or a block that costs as much."""
    results = sum(isinstance(part, ToolResult) for part in message.parts)
    own = [message.name] if results < len(message.parts) or not results else []
    return own + [""] * results


def _tool_calls(message: Message) -> list[ToolCall]:
    return [part for part in message.parts if isinstance(part, ToolCall)]
