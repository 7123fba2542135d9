"""One exchange with a provider: send, shrink on overflow, and record the answer."""

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import suppress
from itertools import takewhile
from types import TracebackType
from typing import Final, Self

import msgspec

from brimful.core.content import Text, ToolCall
from brimful.core.context import Context
from brimful.core.notice import OVERFLOWED
from brimful.errors import BrimfulError, ContextOverflow
from brimful.protocols import Store
from brimful.records import Message, Response
from brimful.records.reply import Reply, ReplyChunk
from brimful.records.search import Build

_DEFAULT_SHRINK: Final = 0.75  # of the window, where a provider names no number


def get_smaller_window(context: Context, refused: ContextOverflow) -> int:
    """Return the window under which the same context will fit, as far as the provider's numbers tell.

    Its own window, if it named one; less in proportion, where it counts more tokens than we do.
    """
    budget = context.budget
    limit = refused.window or int(budget.window * _DEFAULT_SHRINK)
    if refused.window and refused.input_only:
        limit += budget.completion
    if refused.prompt and refused.prompt > context.tokens:
        limit = int(limit * context.tokens / refused.prompt)
    return max(1, min(limit, budget.window - 1))


def describe_overflow(context: Context, refused: ContextOverflow) -> str:
    """Say what happened, for the record of the context that is built next."""
    told = f"its window is {refused.window:,}" if refused.window else "it did not say how long it may be"
    prompt = f" of {refused.prompt:,} tokens" if refused.prompt else ""
    return f"{context.id}{prompt} was {OVERFLOWED} by {refused.route} ({told}): built again for a smaller window"


_MAX_STEPS: Final = 256  # messages after an answer with calls that are looked at for their results


async def find_replaced_answers(store: Store, answer: Message, build: Build) -> list[str]:
    """Return the ids of older answers to what a build answers. What other people said since stays.

    An answer that called tools takes along what they gave back, and what was said of that at once.
    """
    others = await store.builds(room=build.room, message=build.message)
    asked = [each.id for each in others if each.persona == build.persona and each.id != build.id]
    kept = [response for id in asked for response in await store.responses(context=id)]
    answers = await store.messages([response.message for response in kept if response.message is not None])
    older = [each for each in answers if each.seq < answer.seq and not each.hidden]
    return [id for each in older for id in (each.id, *await _find_tool_steps(store, each, answer.seq))]


async def _find_tool_steps(store: Store, answer: Message, before: int) -> Sequence[str]:
    """Return what followed from the calls of an answer, up to what somebody else said."""
    if not any(isinstance(part, ToolCall) for part in answer.content):
        return ()
    places = range(answer.seq + 1, min(before, answer.seq + 1 + _MAX_STEPS))
    since = [entry.message for entry in await store.messages_at(answer.room, places)]
    own = takewhile(lambda each: each.role == "tool" or (each.role, each.sender) == ("assistant", answer.sender), since)
    return [message.id for message in own]


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


class PartialAnswer:
    """What was said so far of an answer that comes piece by piece, and the context that it answers."""

    def __init__(self, context: Context) -> None:
        """Begin with nothing."""
        self.context = context
        self._texts: list[str] = []
        self._reply: Reply | None = None

    def heard(self, piece: ReplyChunk) -> ReplyChunk:
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

    def __init__(self, items: AsyncGenerator[ReplyChunk | Answer, None]) -> None:
        """Read from a generator whose last item is the answer."""
        self._items = items
        self._answer: Answer | None = None

    @property
    def answer(self) -> Answer:
        """The whole answer, once the stream has ended."""
        if self._answer is None:
            raise BrimfulError("the answer is not complete: iterate over the stream to its end first")
        return self._answer

    async def __aiter__(self) -> AsyncIterator[ReplyChunk]:
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
