"""Floods: many near-duplicate messages in a day, and the line that replaces them.

Twelve invoices in the same words are twelve facts, and their numbers are what somebody will ask for. So numbers have
to agree, unless no person could have written that much: very many messages in a short time.
"""

from collections.abc import Sequence
from typing import Final

from brimful.janitor.days import time_range
from brimful.janitor.families import MIN_FUZZY_CHARS, find_numbers, normalize
from brimful.packagers.records import plain_text
from brimful.records import Message

MAX_EXAMPLE_CHARS: Final = 60  # enough to recognize it
_MAX_BYTES_PER_CHAR: Final = 2  # on average: characters of many bytes are many tokens
_MAX_NAMED_SENDERS: Final = 3  # others are only counted
MIN_FLOOD: Final = 10  # near-identical messages within a day, with the same numbers
MIN_SHORT_FLOOD: Final = 50  # … if they are as short as what people repeat: "ok", "good morning"
MIN_BURST: Final = 100  # near-identical messages with any numbers, if they come within …
BURST_SECONDS: Final = 900.0  # seconds


def flood_line(messages: Sequence[Message]) -> str:
    """Return a line about near-duplicate messages: how many, from whom, when, and one of them.

    >>> fields = {"room": "r", "sender": "bot", "content": "Buy now!", "at": 1_700_000_000}
    >>> flood_line([Message(id=str(at), **fields) for at in range(3)])
    '3 near-identical messages from bot, 22:13, e.g. “Buy now!”'
    """
    example = make_excerpt(plain_text(messages[0].content), MAX_EXAMPLE_CHARS)
    times = time_range(message.at for message in messages)
    return f"{len(messages):,} near-identical messages{_senders(messages)}{times}, e.g. “{example}”"


def sender_names(messages: Sequence[Message]) -> str:
    """Return the names of the senders, the most active first.

    >>> sender_names([Message(id=name, room="r", sender=name, content="") for name in ("Ada", "Bo", "Cy", "Di", "Ed")])
    'Ada, Bo, Cy and 2 others'
    """
    counts: dict[str, int] = {}
    for message in messages:
        name = message.sender or message.role
        counts[name] = counts.get(name, 0) + 1
    names = [make_excerpt(name, MAX_EXAMPLE_CHARS) for name in sorted(counts, key=lambda name: -counts[name])]
    others = len(names) - _MAX_NAMED_SENDERS
    if others <= 0:
        return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else "".join(names)
    return f"{', '.join(names[:_MAX_NAMED_SENDERS])} and {others} other{'s' if others > 1 else ''}"


def make_excerpt(text: str, max_chars: int) -> str:
    """Return the beginning of a text on one line, cut at a word boundary.

    >>> make_excerpt("one two three", 9)
    'one two …'
    """
    plain = " ".join(text[: 8 * max_chars].split())
    short = plain[:max_chars].encode()[: max_chars * _MAX_BYTES_PER_CHAR].decode(errors="ignore")
    if short == plain:
        return plain
    cut = short[: max_chars - 1]
    return f"{cut.rpartition(' ')[0] or cut} …"


def _senders(messages: Sequence[Message]) -> str:
    names = {message.sender for message in messages}
    if names == {""}:
        return ""
    return (
        f" from {make_excerpt(names.pop(), MAX_EXAMPLE_CHARS)}" if len(names) == 1 else f" from {len(names):,} senders"
    )


Flood = tuple[Message, ...]


def find_floods(family: Sequence[Message]) -> list[Flood]:
    """Return the floods in a family of a day: bursts too fast for a person, and messages with the same numbers.

    >>> texts = [f"Invoice {n} was paid today." for n in range(12)]
    >>> find_floods([Message(id=text, room="r", sender="Ada", content=text) for text in texts])
    []
    """
    if len(family) < MIN_FLOOD:
        return []
    burst = _burst_ids(family)
    by_numbers: dict[tuple[str, ...], list[Message]] = {}
    for message in family:
        if message.id not in burst:
            by_numbers.setdefault(find_numbers(plain_text(message.content)), []).append(message)
    repeated = [tuple(messages) for messages in by_numbers.values() if len(messages) >= _min_size(messages[0])]
    return [tuple(message for message in family if message.id in burst), *repeated] if burst else repeated


def _burst_ids(family: Sequence[Message]) -> set[str]:
    """Return the ids of messages that are part of a burst. Messages that all have the same time are not.

    Adding messages never removes any from a burst, so a day that grows does not lose a flood.
    """
    ordered = sorted(family, key=lambda message: message.at)
    ids: set[str] = set()
    done = 0
    for first, (begin, end) in enumerate(zip(ordered, ordered[MIN_BURST - 1 :], strict=False)):
        if 0 < end.at - begin.at <= BURST_SECONDS:
            ids.update(message.id for message in ordered[max(first, done) : first + MIN_BURST])
            done = first + MIN_BURST
    return ids


def _min_size(head: Message) -> int:
    return MIN_SHORT_FLOOD if len(normalize(plain_text(head.content))) < MIN_FUZZY_CHARS else MIN_FLOOD
