"""What is to be answered: a text, a message that was posted, or whatever the room ended with."""

from collections.abc import Sequence
from itertools import takewhile

import msgspec

from brimful.core.check import shown
from brimful.core.content import ContentPackage, Flex, ToolCall, ToolResult
from brimful.core.tokens import TokenCounter
from brimful.engine.company import as_seen
from brimful.errors import InvalidValue
from brimful.lore.why import CURRENT
from brimful.packagers.stored import plain_text, said
from brimful.records import Content, Message, Persona

_REQUIRED = Flex(can_drop=False, priority=10)


class Current(msgspec.Struct, frozen=True, kw_only=True):
    """The message to be answered; None if history ends with it. `text` is what retrieval looks for."""

    message: Message | None = None

    @property
    def text(self) -> str:
        """What it says, in words."""
        return plain_text(self.message.content) if self.message else ""

    @property
    def sender(self) -> str:
        """Who asks."""
        return self.message.sender if self.message else ""

    @property
    def posted(self) -> Message | None:
        """It, if it is in the store."""
        return self.message if self.message and self.message.seq else None

    @property
    def id(self) -> str | None:
        """Its id in the store, if it is there."""
        return self.posted.id if self.posted else None

    def packages(self, counter: TokenCounter) -> list[ContentPackage]:
        """Package it: it is required."""
        return [said(self.message, counter=counter, current=True)] if self.message else []


def current_of(
    message: Content | Message | None, *, room: str, sender: str, now: float, persona: Persona | None = None
) -> Current:
    """Read what the caller gave, as the persona that answers sees it."""
    match message:
        case None:
            return Current()
        case Message():
            if message.room != room:
                raise InvalidValue("message", f"is of room {shown(message.room)}, not {shown(room)}")
            return Current(message=as_seen([message], persona)[0])
        case str() | tuple():
            return Current(message=Message(id=CURRENT, room=room, content=message, sender=sender, at=now))
        case _:
            raise InvalidValue("message", f"must be a text, a tuple of parts or a Message, not {shown(message)}")


def answered(packages: Sequence[ContentPackage]) -> list[ContentPackage]:
    """Return history, newest first, with its end required: the last words of a person, and the turn that came last.

    Without them there would be nothing to answer. What lies between, an agent's many steps, is history as any other.
    """
    last_user = next((at for at, package in enumerate(packages) if package.role == "user"), None)
    required = {*_last_turn(packages), *([] if last_user is None else [last_user])}
    return [
        msgspec.structs.replace(package, flex=_REQUIRED, importance=1.0) if at in required else package
        for at, package in enumerate(packages)
    ]


def _last_turn(packages: Sequence[ContentPackage]) -> range:
    """Return the places of what came last: one message, or results with their call; nothing if a half is missing."""
    results = list(takewhile(lambda package: package.kind == "tool-result", packages))
    turn = packages[: len(results) + 1]
    called = {part.id for part in turn[-1].parts if isinstance(part, ToolCall)} if turn else set()
    answers = {part.id for result in results for part in result.parts if isinstance(part, ToolResult)}
    return range(len(turn) if called == answers else 0)
