"""What a count can be learned from: sums over texts and requests in which tokenizers and chat templates differ.

Each is a sum over texts or over messages, so that packages can be measured one by one. Signs are told apart by the
first byte of their UTF-8 form: that parts the world's scripts well enough, and one pass over the bytes is quick.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from brimful.core.content import ToolCall, ToolResult
from brimful.core.prompt import Message, Prompt
from brimful.counting.memo import CountMemo

Signs = tuple[int, ...]
"""How many signs of each sort a text has, in the order of `SIGNS`."""
Features = dict[str, float]
"""Numbers by name; one that is missing is zero."""


def _between(first: int, last: int) -> bytes:
    return bytes(range(first, last + 1))


_ASCII: Final[dict[str, bytes]] = {
    "digits": b"0123456789",
    "punctuation": bytes(sign for sign in range(0x21, 0x7F) if not chr(sign).isalnum()),
    "newlines": b"\r\n",
    "capitals": _between(0x41, 0x5A),
}
_BEYOND: Final[dict[str, bytes]] = {
    "accents": _between(0xC2, 0xCD),  # Latin letters with marks
    "letters": _between(0xCE, 0xDF),  # Greek, Cyrillic, Armenian, Hebrew, Arabic
    "indic": _between(0xE0, 0xE1),  # Devanagari, Thai and their like, Georgian, Ethiopic
    "symbols": b"\xe2",  # dashes, quotes, arrows, box drawing
    "kana": b"\xe3\xee\xef",  # Japanese syllables, and the full stops and commas of East Asia
    "han": _between(0xE4, 0xE9),
    "hangul": _between(0xEA, 0xED),
    "emoji": _between(0xF0, 0xF4),
}
_PIECE: Final = 32_768  # characters: a tenth of a millisecond's work
_NO_OTHERS: Final = (0,) * len(_BEYOND)
SIGNS: Final = (*_ASCII, *_BEYOND, "indents")
"""Sorts of signs in a text; `indents` are pairs of spaces."""
THINGS: Final = ("messages", "calls", "tools", "toolset", "media", "request")
"""Things in a request: messages, tool calls and tools; whether it has tools; tokens of media; the request itself."""
FEATURES: Final = (*SIGNS, *THINGS)


def signs_of(texts: Sequence[str]) -> list[Signs]:
    """Return how many signs of each sort each text has.

    >>> dict(zip(SIGNS, signs_of(["Tea at 5, 日本"])[0]))["han"]
    2
    """
    return _memo.counts(texts)


def sum_of_signs(texts: Sequence[str]) -> Signs:
    """Return how many signs of each sort texts have together."""
    return tuple(map(sum, zip(*signs_of(texts), strict=True))) if texts else (0,) * len(SIGNS)


def things_in(prompt: Prompt) -> Features:
    """Return what a prompt has beside its texts; media are left to who knows their rules.

    >>> things_in(Prompt(model="m", messages=(Message(role="user", parts=()),)))
    {'messages': 1.0, 'request': 1.0}
    """
    found = {
        "messages": float(sum(map(_frames, prompt.messages))),
        "calls": float(sum(isinstance(part, ToolCall) for message in prompt.messages for part in message.parts)),
        "tools": float(len(prompt.tools)),
        "toolset": float(bool(prompt.tools)),
        "request": 1.0,
    }
    return {name: value for name, value in found.items() if value}


def _frames(message: Message) -> int:
    """Return as how many messages one goes over the wire, where every tool result is one."""
    results = sum(isinstance(part, ToolResult) for part in message.parts)
    return results + (results < len(message.parts) or not results)


def weighed(features: Mapping[str, float], names: Iterable[str], weights: Mapping[str, float]) -> float:
    """Return the sum of the features of these names, each times its weight.

    >>> weighed({"han": 10, "digits": 2}, SIGNS, {"han": 0.5, "kana": 1.0})
    5.0
    """
    return sum(features[name] * weights[name] for name in names if name in features and name in weights)


def _count_signs(texts: Sequence[str]) -> list[Signs]:
    return [_signs(text) if len(text) <= _PIECE else _signs_in_pieces(text) for text in texts]


def _signs_in_pieces(text: str) -> Signs:
    """Count a long text piece by piece: other threads may run in between, as they may not while bytes are read."""
    pieces = (_signs(text[start : start + _PIECE]) for start in range(0, len(text), _PIECE))
    return tuple(map(sum, zip(*pieces, strict=True)))


def _signs(text: str) -> Signs:
    raw = text.encode("utf-8", "replace")
    length = len(raw)
    plain = [length - len(raw.translate(None, sort)) for sort in _ASCII.values()]
    beyond = _NO_OTHERS
    if not text.isascii():
        beyond = tuple(length - len(raw.translate(None, sort)) for sort in _BEYOND.values())
    return (*plain, *beyond, raw.count(b"  "))


_memo: Final[CountMemo[Signs]] = CountMemo(_count_signs)
