"""Which of the nearly equal messages of a day are a flood, and which only look like one.

Twelve invoices in the same words are twelve facts, and their numbers are what somebody will ask for. So numbers have to
agree, unless no person could have written what came: very many messages in a short time.
"""

from collections.abc import Sequence
from typing import Final

from brimful.janitor.families import SHORT
from brimful.janitor.shingles import normal, numbers
from brimful.packagers.stored import plain_text
from brimful.records import Message

FLOOD: Final = 10  # near-equal messages within a day, with the same numbers, that are a flood
SHORT_FLOOD: Final = 50  # … of those that are so short that people may say the same: "ok", "good morning"
TORRENT: Final = 100  # near-equal messages that are a flood whatever their numbers, if they come within …
MOMENT: Final = 900.0  # seconds

Flood = tuple[Message, ...]


def floods_of(family: Sequence[Message]) -> list[Flood]:
    """Return the floods in a family of a day: what came too fast for a person, and what has the same numbers.

    >>> texts = [f"Invoice {n} was paid today." for n in range(12)]
    >>> floods_of([Message(id=text, room="r", sender="Ada", content=text) for text in texts])
    []
    """
    if len(family) < FLOOD:
        return []
    fast = _fast(family)
    same: dict[tuple[str, ...], list[Message]] = {}
    for message in family:
        if message.id not in fast:
            same.setdefault(numbers(plain_text(message.content)), []).append(message)
    slow = [tuple(messages) for messages in same.values() if len(messages) >= _needed(messages[0])]
    return [tuple(message for message in family if message.id in fast), *slow] if fast else slow


def _fast(family: Sequence[Message]) -> set[str]:
    """Return the ids of what came with many others in a short time. One time for all is not the time of each.

    More messages never make fewer of them fast, so that a day that grows does not lose a flood.
    """
    ordered = sorted(family, key=lambda message: message.at)
    found: set[str] = set()
    taken = 0
    for first, (begin, end) in enumerate(zip(ordered, ordered[TORRENT - 1 :], strict=False)):
        if 0 < end.at - begin.at <= MOMENT:
            found.update(message.id for message in ordered[max(first, taken) : first + TORRENT])
            taken = first + TORRENT
    return found


def _needed(head: Message) -> int:
    return SHORT_FLOOD if len(normal(plain_text(head.content))) < SHORT else FLOOD
