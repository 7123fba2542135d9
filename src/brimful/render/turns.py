"""Two speakers taking turns: the form that Anthropic and Gemini insist on."""

from collections.abc import Sequence
from itertools import groupby, takewhile
from typing import Final, Literal

import msgspec

from brimful.core.prompt import Message, Part, Text

OPENING: Final = "(conversation continues)"
"""What the user says where the history begins with the assistant, or where nobody has said anything."""

CLOSING: Final = "(continue)"
"""What the user says where the assistant spoke last: newer Claude models and Gemini do not continue their own turn."""


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """What one speaker says before the other does. Tools and later system messages speak as the user."""

    speaker: Literal["user", "assistant"]
    messages: tuple[Message, ...]

    @property
    def parts(self) -> tuple[Part, ...]:
        """All parts of the turn, in order."""
        return tuple(part for message in self.messages for part in message.parts)


def split_system(messages: Sequence[Message]) -> tuple[list[Message], list[Message]]:
    """Return the leading system messages, and the rest."""
    system = list(takewhile(lambda message: message.role == "system", messages))
    return system, list(messages[len(system) :])


def take_turns(messages: Sequence[Message]) -> list[Turn]:
    """Merge neighbours of one speaker into turns that alternate, with the user first and last.

    >>> hello = Message(role="assistant", parts=(Text(text="Hello!"),))
    >>> [(turn.speaker, turn.parts[0].text) for turn in take_turns([hello])]
    [('user', '(conversation continues)'), ('assistant', 'Hello!'), ('user', '(continue)')]
    """
    turns = [Turn(speaker=speaker, messages=tuple(run)) for speaker, run in groupby(messages, key=_speaker)]
    if not turns or turns[0].speaker == "assistant":
        turns.insert(0, _said(OPENING))
    if turns[-1].speaker == "assistant":
        turns.append(_said(CLOSING))
    return turns


def _speaker(message: Message) -> Literal["user", "assistant"]:
    return "assistant" if message.role == "assistant" else "user"


def _said(text: str) -> Turn:
    return Turn(speaker="user", messages=(Message(role="user", parts=(Text(text=text),)),))
