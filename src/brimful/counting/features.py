"""Features for learning calibrations: quantities in which tokenizers and chat templates differ.

Each is a sum over texts or messages, so that packages can be measured one by one. Characters are classified by the
first byte of their UTF-8 encoding, which separates scripts well enough and needs only one fast pass.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from brimful.core.content import ToolCall, ToolResult
from brimful.core.prompt import Message, Prompt
from brimful.counting.count_cache import CountCache

CharacterCounts = tuple[int, ...]
"""The number of characters per class, in the order of `CHARACTER_CLASSES`."""
Features = dict[str, float]
"""Feature values by name. A missing feature is zero."""
_CHUNK: Final = 32_768  # characters: a tenth of a millisecond's work
REQUEST_FEATURES: Final = ("messages", "calls", "tools", "toolset", "media", "request")
"""Features of a request: messages, tool calls, tools, whether there are tools, media tokens, and the request itself."""


def _byte_range(first: int, last: int) -> bytes:
    return bytes(range(first, last + 1))


_ASCII: Final[dict[str, bytes]] = {
    "digits": b"0123456789",
    "punctuation": bytes(sign for sign in range(0x21, 0x7F) if not chr(sign).isalnum()),
    "newlines": b"\r\n",
    "capitals": _byte_range(0x41, 0x5A),
}
_NON_ASCII: Final[dict[str, bytes]] = {
    "accents": _byte_range(0xC2, 0xCD),  # Latin letters with marks
    "letters": _byte_range(0xCE, 0xDF),  # Greek, Cyrillic, Armenian, Hebrew, Arabic
    "indic": _byte_range(0xE0, 0xE1),  # Devanagari, Thai and their like, Georgian, Ethiopic
    "symbols": b"\xe2",  # dashes, quotes, arrows, box drawing
    "kana": b"\xe3\xee\xef",  # Japanese syllables, and the full stops and commas of East Asia
    "han": _byte_range(0xE4, 0xE9),
    "hangul": _byte_range(0xEA, 0xED),
    "emoji": _byte_range(0xF0, 0xF4),
}
_NO_NON_ASCII: Final = (0,) * len(_NON_ASCII)
CHARACTER_CLASSES: Final = (*_ASCII, *_NON_ASCII, "indents")
"""Classes of characters; `indents` are pairs of spaces."""
FEATURES: Final = (*CHARACTER_CLASSES, *REQUEST_FEATURES)


def count_characters(texts: Sequence[str]) -> list[CharacterCounts]:
    """Count the characters of each class in each text.

    >>> dict(zip(CHARACTER_CLASSES, count_characters(["Tea at 5, 日本"])[0]))["han"]
    2
    """
    return _cache.counts(texts)


def sum_characters(texts: Sequence[str]) -> CharacterCounts:
    """Count the characters of each class in all texts together."""
    return tuple(map(sum, zip(*count_characters(texts), strict=True))) if texts else (0,) * len(CHARACTER_CLASSES)


def request_features(prompt: Prompt) -> Features:
    """Return the request features of a prompt, except its media tokens.

    >>> request_features(Prompt(model="m", messages=(Message(role="user", parts=()),)))
    {'messages': 1.0, 'request': 1.0}
    """
    features = {
        "messages": float(sum(map(_wire_message_count, prompt.messages))),
        "calls": float(sum(isinstance(part, ToolCall) for message in prompt.messages for part in message.parts)),
        "tools": float(len(prompt.tools)),
        "toolset": float(bool(prompt.tools)),
        "request": 1.0,
    }
    return {name: value for name, value in features.items() if value}


def _wire_message_count(message: Message) -> int:
    """Return the number of messages that are sent for one: every tool result is a message."""
    results = sum(isinstance(part, ToolResult) for part in message.parts)
    return results + (results < len(message.parts) or not results)


def weighted_sum(features: Mapping[str, float], names: Iterable[str], weights: Mapping[str, float]) -> float:
    """Return the weighted sum of the named features.

    >>> weighted_sum({"han": 10, "digits": 2}, CHARACTER_CLASSES, {"han": 0.5, "kana": 1.0})
    5.0
    """
    return sum(features[name] * weights[name] for name in names if name in features and name in weights)


def _count_in_chunks(text: str) -> CharacterCounts:
    """Count a long text in chunks, so that other threads can run in between."""
    pieces = (_count_characters(text[start : start + _CHUNK]) for start in range(0, len(text), _CHUNK))
    return tuple(map(sum, zip(*pieces, strict=True)))


def _count_characters(text: str) -> CharacterCounts:
    raw = text.encode("utf-8", "replace")
    length = len(raw)
    plain = [length - len(raw.translate(None, sort)) for sort in _ASCII.values()]
    beyond = _NO_NON_ASCII
    if not text.isascii():
        beyond = tuple(length - len(raw.translate(None, sort)) for sort in _NON_ASCII.values())
    return (*plain, *beyond, raw.count(b"  "))


_cache: Final[CountCache[CharacterCounts]] = CountCache(
    lambda texts: [_count_characters(text) if len(text) <= _CHUNK else _count_in_chunks(text) for text in texts]
)
