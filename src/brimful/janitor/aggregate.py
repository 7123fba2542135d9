"""A flood in one line, without a language model."""

from collections.abc import Sequence
from typing import Final

from brimful.janitor.days import hours
from brimful.packagers.stored import plain_text
from brimful.records import Message

LONGEST_EXAMPLE: Final = 60  # characters: enough to know it by
_LONGEST_BYTES: Final = 2  # a character of a quotation, on the whole: signs of many bytes are many tokens
_MOST_NAMED: Final = 3  # people of whom each is named


def line(messages: Sequence[Message]) -> str:
    """Tell of nearly equal messages: how many, from whom, when, and one of them.

    >>> said = {"room": "r", "sender": "bot", "content": "Buy now!", "at": 1_700_000_000}
    >>> line([Message(id=str(at), **said) for at in range(3)])
    '3 near-equal messages from bot, 22:13, e.g. “Buy now!”'
    """
    told = f"{len(messages):,} near-equal messages"
    example = quoted(plain_text(messages[0].content), LONGEST_EXAMPLE)
    return f"{told}{_senders(messages)}{hours(message.at for message in messages)}, e.g. “{example}”"


def people(messages: Sequence[Message]) -> str:
    """Name those who spoke, the ones who said most first.

    >>> people([Message(id=name, room="r", sender=name, content="") for name in ("Ada", "Bo", "Cy", "Di", "Ed")])
    'Ada, Bo, Cy and 2 others'
    """
    often: dict[str, int] = {}
    for message in messages:
        name = message.sender or message.role
        often[name] = often.get(name, 0) + 1
    names = [quoted(name, LONGEST_EXAMPLE) for name in sorted(often, key=lambda name: -often[name])]
    others = len(names) - _MOST_NAMED
    if others <= 0:
        return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else "".join(names)
    return f"{', '.join(names[:_MOST_NAMED])} and {others} other{'s' if others > 1 else ''}"


def quoted(text: str, longest: int) -> str:
    """Return the beginning of a text on one line, cut at a word.

    >>> quoted("one two three", 9)
    'one two …'
    """
    plain = " ".join(text[: 8 * longest].split())
    short = plain[:longest].encode()[: longest * _LONGEST_BYTES].decode(errors="ignore")
    if short == plain:
        return plain
    cut = short[: longest - 1]
    return f"{cut.rpartition(' ')[0] or cut} …"


def _senders(messages: Sequence[Message]) -> str:
    names = {message.sender for message in messages}
    if names == {""}:
        return ""
    return f" from {quoted(names.pop(), LONGEST_EXAMPLE)}" if len(names) == 1 else f" from {len(names):,} senders"
