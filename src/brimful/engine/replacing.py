"""Which answers a new one takes the place of: those of the same persona to the same question."""

from collections.abc import Sequence
from itertools import takewhile
from typing import Final

from brimful.answers import Build
from brimful.core.content import ToolCall
from brimful.protocols import Store
from brimful.records import Message

_MOST_STEPS: Final = 256  # messages after an answer with calls that are looked at for their results


async def replaced_by(store: Store, answer: Message, build: Build) -> list[str]:
    """Return the ids of older answers to what a build answers. What other people said since stays.

    An answer that called tools takes along what they gave back, and what was said of that at once.
    """
    others = await store.builds(room=build.room, message=build.message)
    asked = [each.id for each in others if each.persona == build.persona and each.id != build.id]
    kept = [response for id in asked for response in await store.responses(context=id)]
    answers = await store.messages([response.message for response in kept if response.message is not None])
    older = [each for each in answers if each.seq < answer.seq and not each.hidden]
    return [id for each in older for id in (each.id, *await _steps(store, each, answer.seq))]


async def _steps(store: Store, answer: Message, before: int) -> Sequence[str]:
    """Return what followed from the calls of an answer, up to what somebody else said."""
    if not any(isinstance(part, ToolCall) for part in answer.content):
        return ()
    places = range(answer.seq + 1, min(before, answer.seq + 1 + _MOST_STEPS))
    since = [entry.message for entry in await store.messages_at(answer.room, places)]
    own = takewhile(lambda each: each.role == "tool" or (each.role, each.sender) == ("assistant", answer.sender), since)
    return [message.id for message in own]
