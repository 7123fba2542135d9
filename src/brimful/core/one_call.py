"""Calls one at a time, for chat templates that refuse two of them in one message."""

from collections.abc import Container, Iterable, Iterator, Sequence
from itertools import chain, takewhile

import msgspec

from brimful.core.content import Part, ToolCall, ToolResult
from brimful.core.prompt import Message
from brimful.core.results import results_of


def one_at_a_time(messages: Sequence[Message]) -> list[Message]:
    """Let every call stand in a message of its own, with its result right behind it.

    >>> calls = tuple(ToolCall(id=id, name="look") for id in "ab")
    >>> results = [Message(role="tool", parts=(ToolResult(id=id, content=id),)) for id in "ab"]
    >>> split = one_at_a_time([Message(role="assistant", parts=calls), *results])
    >>> [(message.role, message.parts[0].id) for message in split]
    [('assistant', 'a'), ('tool', 'a'), ('assistant', 'b'), ('tool', 'b')]
    """
    done: list[Message] = []
    rest = list(messages)
    while rest:
        asked = rest.pop(0)
        if len(_calls(asked)) < 2:  # noqa: PLR2004 - one is what this is about
            done.append(asked)
            continue
        answers = list(takewhile(lambda message: message.role == "tool", rest))
        del rest[: len(answers)]
        done += _marked([*_split(asked, answers)], cache=asked.cache or any(answer.cache for answer in answers))
    return done


def _split(asked: Message, answers: list[Message]) -> Iterator[Message]:
    before: tuple[Part, ...] = tuple(part for part in asked.parts if not isinstance(part, ToolCall))
    for call in _calls(asked):
        yield msgspec.structs.replace(asked, parts=(*before, call), cache=False)
        before = ()
        for answer in answers:
            own = [parts for result, parts in results_of(answer.parts) if result.id == call.id]
            if own:
                yield msgspec.structs.replace(answer, parts=tuple(chain.from_iterable(own)), cache=False)
    ids = {call.id for call in _calls(asked)}
    for answer in answers:  # what is no result of these calls stays behind them, for the wire's rules to judge
        if others := tuple(_of_others(answer.parts, ids)):
            yield msgspec.structs.replace(answer, parts=others, cache=False)


def _of_others(parts: Iterable[Part], ids: Container[str]) -> Iterator[Part]:
    """Yield what belongs to none of the calls."""
    theirs = False
    for part in parts:
        theirs = part.id in ids if isinstance(part, ToolResult) else theirs
        if not theirs:
            yield part


def _marked(messages: list[Message], *, cache: bool) -> list[Message]:
    return [*messages[:-1], msgspec.structs.replace(messages[-1], cache=cache)]


def _calls(message: Message) -> list[ToolCall]:
    return [part for part in message.parts if isinstance(part, ToolCall)]
