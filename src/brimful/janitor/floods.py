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

MAX_EXAMPLE_CHARS: Final = 60  # characters: enough to know it by
_MAX_BYTES_PER_CHAR: Final = 2  # a character of a quotation, on the whole: signs of many bytes are many tokens
_MAX_NAMED_SENDERS: Final = 3  # people of whom each is named


def flood_line(messages: Sequence[Message]) -> str:
    """Tell of nearly equal messages: how many, from whom, when, and one of them.

    >>> said = {"room": "r", "sender": "bot", "content": "Buy now!", "at": 1_700_000_000}
    >>> flood_line([Message(id=str(at), **said) for at in range(3)])
    '3 near-equal messages from bot, 22:13, e.g. “Buy now!”'
    """
    told = f"{len(messages):,} near-equal messages"
    example = make_excerpt(plain_text(messages[0].content), MAX_EXAMPLE_CHARS)
    return f"{told}{_senders(messages)}{time_range(message.at for message in messages)}, e.g. “{example}”"


def sender_names(messages: Sequence[Message]) -> str:
    """Name those who spoke, the ones who said most first.

    >>> sender_names([Message(id=name, room="r", sender=name, content="") for name in ("Ada", "Bo", "Cy", "Di", "Ed")])
    'Ada, Bo, Cy and 2 others'
    """
    often: dict[str, int] = {}
    for message in messages:
        name = message.sender or message.role
        often[name] = often.get(name, 0) + 1
    names = [make_excerpt(name, MAX_EXAMPLE_CHARS) for name in sorted(often, key=lambda name: -often[name])]
    others = len(names) - _MAX_NAMED_SENDERS
    if others <= 0:
        return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else "".join(names)
    return f"{', '.join(names[:_MAX_NAMED_SENDERS])} and {others} other{'s' if others > 1 else ''}"


def make_excerpt(text: str, longest: int) -> str:
    """Return the beginning of a text on one line, cut at a word.

    >>> make_excerpt("one two three", 9)
    'one two …'
    """
    plain = " ".join(text[: 8 * longest].split())
    short = plain[:longest].encode()[: longest * _MAX_BYTES_PER_CHAR].decode(errors="ignore")
    if short == plain:
        return plain
    cut = short[: longest - 1]
    return f"{cut.rpartition(' ')[0] or cut} …"


def _senders(messages: Sequence[Message]) -> str:
    names = {message.sender for message in messages}
    if names == {""}:
        return ""
    return (
        f" from {make_excerpt(names.pop(), MAX_EXAMPLE_CHARS)}" if len(names) == 1 else f" from {len(names):,} senders"
    )


MIN_FLOOD: Final = 10  # near-equal messages within a day, with the same numbers, that are a flood
MIN_SHORT_FLOOD: Final = 50  # … of those that are so short that people may say the same: "ok", "good morning"
MIN_BURST: Final = 100  # near-equal messages that are a flood whatever their numbers, if they come within …
BURST_SECONDS: Final = 900.0  # seconds

Flood = tuple[Message, ...]


def find_floods(family: Sequence[Message]) -> list[Flood]:
    """Return the floods in a family of a day: what came too fast for a person, and what has the same numbers.

    >>> texts = [f"Invoice {n} was paid today." for n in range(12)]
    >>> find_floods([Message(id=text, room="r", sender="Ada", content=text) for text in texts])
    []
    """
    if len(family) < MIN_FLOOD:
        return []
    fast = _burst_ids(family)
    same: dict[tuple[str, ...], list[Message]] = {}
    for message in family:
        if message.id not in fast:
            same.setdefault(find_numbers(plain_text(message.content)), []).append(message)
    slow = [tuple(messages) for messages in same.values() if len(messages) >= _min_size(messages[0])]
    return [tuple(message for message in family if message.id in fast), *slow] if fast else slow


def _burst_ids(family: Sequence[Message]) -> set[str]:
    """Return the ids of what came with many others in a short time. One time for all is not the time of each.

    More messages never make fewer of them fast, so that a day that grows does not lose a flood.
    """
    ordered = sorted(family, key=lambda message: message.at)
    found: set[str] = set()
    taken = 0
    for first, (begin, end) in enumerate(zip(ordered, ordered[MIN_BURST - 1 :], strict=False)):
        if 0 < end.at - begin.at <= BURST_SECONDS:
            found.update(message.id for message in ordered[max(first, taken) : first + MIN_BURST])
            taken = first + MIN_BURST
    return found


def _min_size(head: Message) -> int:
    return MIN_SHORT_FLOOD if len(normalize(plain_text(head.content))) < MIN_FUZZY_CHARS else MIN_FLOOD
