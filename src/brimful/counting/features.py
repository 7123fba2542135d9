"""What a count can be learned from: sums over texts and requests in which tokenizers and chat templates differ.

Each is a sum over texts or over messages, so that packages can be measured one by one. Signs are told apart by the
first byte of their UTF-8 form: that parts the world's scripts well enough, and one pass over the bytes is quick.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from brimful.core.content import ToolCall, ToolResult
from brimful.core.prompt import Message, Prompt
from brimful.counting.count_cache import CountCache

CharacterCounts = tuple[int, ...]
"""How many signs of each sort a text has, in the order of `CHARACTER_CLASSES`."""
Features = dict[str, float]
"""Numbers by name; one that is missing is zero."""


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
_CHUNK: Final = 32_768  # characters: a tenth of a millisecond's work
_NO_NON_ASCII: Final = (0,) * len(_NON_ASCII)
CHARACTER_CLASSES: Final = (*_ASCII, *_NON_ASCII, "indents")
"""Sorts of signs in a text; `indents` are pairs of spaces."""
REQUEST_FEATURES: Final = ("messages", "calls", "tools", "toolset", "media", "request")
"""Things in a request: messages, tool calls and tools; whether it has tools; tokens of media; the request itself."""
FEATURES: Final = (*CHARACTER_CLASSES, *REQUEST_FEATURES)


def count_characters(texts: Sequence[str]) -> list[CharacterCounts]:
    """Return how many signs of each sort each text has.

    >>> dict(zip(CHARACTER_CLASSES, count_characters(["Tea at 5, 日本"])[0]))["han"]
    2
    """
    return _cache.counts(texts)


def sum_characters(texts: Sequence[str]) -> CharacterCounts:
    """Return how many signs of each sort texts have together."""
    return tuple(map(sum, zip(*count_characters(texts), strict=True))) if texts else (0,) * len(CHARACTER_CLASSES)


def request_features(prompt: Prompt) -> Features:
    """Return what a prompt has beside its texts; media are left to who knows their rules.

    >>> request_features(Prompt(model="m", messages=(Message(role="user", parts=()),)))
    {'messages': 1.0, 'request': 1.0}
    """
    found = {
        "messages": float(sum(map(_wire_message_count, prompt.messages))),
        "calls": float(sum(isinstance(part, ToolCall) for message in prompt.messages for part in message.parts)),
        "tools": float(len(prompt.tools)),
        "toolset": float(bool(prompt.tools)),
        "request": 1.0,
    }
    return {name: value for name, value in found.items() if value}


def _wire_message_count(message: Message) -> int:
    """Return as how many messages one goes over the wire, where every tool result is one."""
    results = sum(isinstance(part, ToolResult) for part in message.parts)
    return results + (results < len(message.parts) or not results)


def weighted_sum(features: Mapping[str, float], names: Iterable[str], weights: Mapping[str, float]) -> float:
    """Return the sum of the features of these names, each times its weight.

    >>> weighted_sum({"han": 10, "digits": 2}, CHARACTER_CLASSES, {"han": 0.5, "kana": 1.0})
    5.0
    """
    return sum(features[name] * weights[name] for name in names if name in features and name in weights)


def _count_all_characters(texts: Sequence[str]) -> list[CharacterCounts]:
    return [_count_characters(text) if len(text) <= _CHUNK else _count_in_chunks(text) for text in texts]


def _count_in_chunks(text: str) -> CharacterCounts:
    """Count a long text piece by piece: other threads may run in between, as they may not while bytes are read."""
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


_cache: Final[CountCache[CharacterCounts]] = CountCache(_count_all_characters)
