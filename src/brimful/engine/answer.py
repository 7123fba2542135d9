"""An answer, whole or as it comes."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import suppress
from types import TracebackType
from typing import Self

import msgspec

from brimful.core.content import Text, ToolCall
from brimful.core.context import Context
from brimful.errors import BrimfulError
from brimful.records import Message, Response
from brimful.replies import Piece, Reply


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What a model said: its reply, the context that it saw, and what the store keeps of it.

    `message` is the answer as it stands in the room, None if nothing was said.
    """

    reply: Reply
    context: Context
    response: Response
    message: Message | None

    @property
    def text(self) -> str:
        """What was said."""
        return self.reply.text

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The tools that are to be called before the model goes on."""
        return self.reply.calls


class Said:
    """What was said so far of an answer that comes piece by piece, and the context that it answers."""

    def __init__(self, context: Context) -> None:
        """Begin with nothing."""
        self.context = context
        self._texts: list[str] = []
        self._reply: Reply | None = None

    def heard(self, piece: Piece) -> Piece:
        """Take note of a piece, and give it on."""
        self._texts.append(piece.text)
        self._reply = piece.reply or self._reply
        return piece

    @property
    def begun(self) -> bool:
        """Whether anything came."""
        return bool(self._texts)

    @property
    def broken_off(self) -> bool:
        """Whether some of it came, and the rest did not."""
        return self._reply is None and any(self._texts)

    def so_far(self) -> Reply:
        """Return what came as if it were all."""
        return Reply(parts=(Text(text="".join(self._texts)),), finish="broken-off")

    def whole(self) -> Reply:
        """Return the whole answer."""
        if self._reply is None:
            raise BrimfulError("the provider's stream ended without an answer")
        return self._reply


class AnswerStream:
    """An answer as it comes: iterate over its pieces, then ask for `answer`.

    It is an async context manager: leaving it early frees the connection, and keeps what was said so far.
    """

    def __init__(self, items: AsyncGenerator[Piece | Answer, None]) -> None:
        """Read from a generator whose last item is the answer."""
        self._items = items
        self._answer: Answer | None = None

    @property
    def answer(self) -> Answer:
        """The whole answer, once the stream has ended."""
        if self._answer is None:
            raise BrimfulError("the answer is not complete: iterate over the stream to its end first")
        return self._answer

    async def __aiter__(self) -> AsyncIterator[Piece]:
        """Yield the pieces."""
        async for item in self._items:
            if isinstance(item, Answer):
                self._answer = item
            else:
                yield item

    async def __aenter__(self) -> Self:
        """Begin."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Let go of the connection, wherever the stream stands."""
        await self.close()

    async def close(self) -> None:
        """Let go of the connection, wherever the stream stands."""
        with suppress(RuntimeError):  # somebody waits for its next piece just now, and will find it closed
            await self._items.aclose()
