"""Two speakers taking turns: the form that Anthropic and Gemini insist on."""

from collections.abc import Sequence
from itertools import groupby, takewhile
from typing import Literal

import msgspec

from brimful.core.alternate import CLOSING, OPENING
from brimful.core.prompt import Message, Part, Text

Speaker = Literal["user", "assistant", "system"]


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """What one speaker says before the other does. Tools speak as the user, and so do most later system messages."""

    speaker: Speaker
    messages: tuple[Message, ...]

    @property
    def parts(self) -> tuple[Part, ...]:
        """All parts of the turn, in order."""
        return tuple(part for message in self.messages for part in message.parts)


def split_system(messages: Sequence[Message]) -> tuple[list[Message], list[Message]]:
    """Return the leading system messages, and the rest."""
    system = list(takewhile(lambda message: message.role == "system", messages))
    return system, list(messages[len(system) :])


def take_turns(messages: Sequence[Message], *, system_turns: bool = False) -> list[Turn]:
    """Merge neighbours of one speaker into turns that alternate, with the user first and last.

    With `system_turns`, a system message between the user and the assistant, or behind the user at the end, has a turn
    of its own. Anywhere else it would be refused, and speaks as the user.

    >>> hello = Message(role="assistant", parts=(Text(text="Hello!"),))
    >>> [(turn.speaker, turn.parts[0].text) for turn in take_turns([hello])]
    [('user', '(conversation continues)'), ('assistant', 'Hello!'), ('user', '(continue)')]
    """
    runs = [(speaker, tuple(run)) for speaker, run in groupby(messages, key=_speaker)]
    spoken = [(_in_place(runs, at) if system_turns else _other(speaker), run) for at, (speaker, run) in enumerate(runs)]
    turns = [
        Turn(speaker=speaker, messages=tuple(message for _, run in group for message in run))
        for speaker, group in groupby(spoken, key=lambda row: row[0])
    ]
    if not turns or turns[0].speaker == "assistant":
        turns.insert(0, _said(OPENING))
    if turns[-1].speaker == "assistant":
        turns.append(_said(CLOSING))
    return turns


def _speaker(message: Message) -> Speaker:
    return "user" if message.role == "tool" else message.role


def _other(speaker: Speaker) -> Speaker:
    return "user" if speaker == "system" else speaker


def _in_place(runs: Sequence[tuple[Speaker, tuple[Message, ...]]], at: int) -> Speaker:
    """Return who speaks a run: the system only right behind the user, and with nobody but the assistant behind it."""
    before = runs[at - 1][0] if at else ""
    after = runs[at + 1][0] if at + 1 < len(runs) else "assistant"
    return runs[at][0] if (before, after) == ("user", "assistant") else _other(runs[at][0])


def _said(text: str) -> Turn:
    return Turn(speaker="user", messages=(Message(role="user", parts=(Text(text=text),)),))
