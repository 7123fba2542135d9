"""An answer in the making: what comes is put in, the reply as far as it has come can be taken out."""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

import msgspec

from brimful.core.check import LARGEST
from brimful.core.content import Text, ToolCall
from brimful.records import Usage
from brimful.replies import Finish, Piece, Reply

Object = dict[str, Any]


class _Call(msgspec.Struct, kw_only=True):
    """A call of which more may come."""

    id: str = ""
    name: str = ""
    arguments: list[str] = []


class Draft(ABC):
    """What has been said so far. A dialect says how to `take` what its server sends, at once or piece by piece.

    `begun` says that something of an answer was there, `finish` why it ended, if it has. `seed` tells answers apart
    where they have no id.
    """

    def __init__(self) -> None:
        """Begin with nothing."""
        self.begun = False
        self.finish: Finish | None = None
        self.usage: Usage | None = None
        self.model = ""
        self.id = ""
        self.seed = ""
        self._parts: list[list[str] | _Call] = []
        self._calls: dict[int, _Call] = {}

    @abstractmethod
    def take(self, said: Object) -> Piece:
        """Take in what a server sent, and return what is new in it. Fields of no use are passed over."""

    def reply(self, unended: Finish = "other") -> Reply:
        """Return the answer as far as it has come; `unended` is its finish where none was told."""
        parts = tuple(part for index, told in enumerate(self._parts) if (part := self._part(index, told)) is not None)
        finish = self.finish or unended
        if finish == "stop" and any(isinstance(part, ToolCall) for part in parts):
            finish = "tool-calls"  # not every server tells the two apart
        return Reply(parts=parts, finish=finish, usage=self.usage, model=self.model, id=self.id)

    def say(self, text: str) -> str:
        """Add to what is said, and return it."""
        if text:
            if not self._parts or isinstance(self._parts[-1], _Call):
                self._parts.append([])
            told = self._parts[-1]
            if isinstance(told, list):
                told.append(text)
        return text

    def call(self, key: int | None, *, id: str = "", name: str = "", arguments: str = "") -> None:
        """Add to the call of this key, or begin one that is whole (None).

        Where calls are streamed in bits, the name comes first, then the arguments.
        """
        call = None if key is None else self._calls.get(key)
        if call is None or (id and call.id and id != call.id):  # some servers give all calls one index
            call = _Call()
            self._parts.append(call)
            if key is not None:
                self._calls[key] = call
        call.id = call.id or id
        call.name = call.name or name
        if arguments:
            call.arguments.append(arguments)

    def _part(self, index: int, told: list[str] | _Call) -> Text | ToolCall | None:
        if isinstance(told, list):
            return Text(text="".join(told))
        if not told.name:
            return None
        arguments = "".join(told.arguments) or "{}"
        return ToolCall(id=told.id or self._call_id(index, told.name), name=told.name, arguments=arguments)

    def _call_id(self, index: int, name: str) -> str:
        """Make up an id where a server gives none, the same each time that this answer is read."""
        digest = hashlib.blake2b(f"{self.id}{self.seed}:{index}:{name}".encode(), digest_size=8)
        return f"call_{digest.hexdigest()}"


def usage_of(*, prompt: int, cached: int = 0, completion: int, reasoning: int = 0) -> Usage:
    """Return a usage that holds together, whatever a server tells: no part is larger than its whole.

    >>> usage_of(prompt=9, cached=12, completion=2)
    Usage(prompt=9, cached=9, completion=2, reasoning=0)
    """
    prompt, completion = min(prompt, LARGEST), min(completion, LARGEST)
    return Usage(prompt=prompt, cached=min(cached, prompt), completion=completion, reasoning=min(reasoning, completion))


def joined(pieces: Iterable[Piece]) -> Piece:
    """Return several pieces as one."""
    told = list(pieces)
    return Piece(text="".join(piece.text for piece in told), thought="".join(piece.thought for piece in told))


def as_object(value: object) -> Object:
    """Return an object, or an empty one in place of anything else."""
    return value if isinstance(value, dict) else {}


def as_objects(value: object) -> list[Object]:
    """Return the objects of a list, and none of anything else."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def as_text(value: object) -> str:
    """Return a text, or an empty one in place of anything else."""
    return value if isinstance(value, str) else ""


def as_whole(value: object) -> int:
    """Return a whole number from 0 on, of tokens or a place, or 0 in place of anything else."""
    return value if type(value) is int and 0 <= value <= LARGEST else 0
