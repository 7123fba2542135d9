"""What every adapter does with every conversation. A test module gives a `Case` to `check`."""

import copy
import json
from collections.abc import Callable
from typing import Any, NamedTuple

from hypothesis import strategies as st

import brimful

WINDOW, COMPLETION = 1_200, 100
LIMIT = WINDOW - COMPLETION
PURE = {"policy": "fit", "overrides": {"forms.kinds": []}}
"""Options with which nothing is shortened and nothing added."""

WORDS = ["tea", "kettle", "ladder", "order", "harbour", "window", "garden", "train", "letter", "cello"]


class Case(NamedTuple):
    """How to drive an adapter.

    `make` turns messages in OpenAI's format into the framework's own. `sender` makes an adapter with these options and
    returns a function that takes messages and the id of their conversation and returns what the model is sent.
    """

    make: Callable[[list[dict[str, Any]]], list[Any]]
    sender: Callable[[dict[str, Any]], Callable[[list[Any], str], list[Any]]]
    wire: Callable[[Any], list[dict[str, Any]]]


@st.composite
def chats(draw: st.DrawFn) -> list[dict[str, Any]]:
    """A conversation with tool calls, some of them parallel, that ends with a user's message or a result."""
    text = st.integers(1, 60).flatmap(lambda n: st.lists(st.sampled_from(WORDS), min_size=n, max_size=n)).map(" ".join)
    messages: list[dict[str, Any]] = [{"role": "user", "content": draw(text)}]
    for turn in range(draw(st.integers(0, 25))):
        calls = draw(st.integers(0, 2))
        if calls:
            ids = [f"call-{turn}-{n}" for n in range(calls)]
            functions = [{"name": "look", "arguments": json.dumps({"at": draw(text)[:40]})} for _ in ids]
            made = [{"id": id, "type": "function", "function": each} for id, each in zip(ids, functions, strict=True)]
            messages.append({"role": "assistant", "content": None, "tool_calls": made})
            messages += [{"role": "tool", "tool_call_id": id, "content": draw(text)} for id in ids]
        else:
            messages.append({"role": "assistant", "content": draw(text)})
            messages.append({"role": "user", "content": draw(text)})
    return messages


def check(case: Case, messages: list[dict[str, Any]], other: list[dict[str, Any]]) -> None:
    """Check an adapter with two conversations, in one agent and apart."""
    _check_pure(case, messages)
    _check_default(case, messages)
    _check_interleaved(case, messages, other)


def _options(**more: Any) -> dict[str, Any]:
    return {"model": "gpt-4o", "window": WINDOW, "completion": COMPLETION, **more}


def _check_pure(case: Case, messages: list[dict[str, Any]]) -> None:
    own = case.make(messages)
    before = copy.deepcopy([case.wire(each) for each in own])
    listed = list(own)
    sent = case.sender(_options(**PURE))(listed, "a")
    places = [next(n for n, each in enumerate(own) if each is message) for message in sent]
    assert places == sorted(set(places)), "a subsequence of what came in, by identity"
    assert len(listed) == len(own)
    assert all(one is two for one, two in zip(listed, own, strict=True)), "the history is untouched"
    assert [case.wire(each) for each in own] == before
    _check_request(case, sent)
    if _tokens([each for message in own for each in case.wire(message)]) <= LIMIT:
        assert places == list(range(len(own))), "unchanged where it fits"


def _check_default(case: Case, messages: list[dict[str, Any]]) -> None:
    own = case.make(messages)
    sent = case.sender(_options())(list(own), "a")
    _check_request(case, sent)
    assert any(each is own[0] for each in sent), "the task stays"
    assert sent[-1] is own[-1] or len(case.wire(own[-1])) == len(case.wire(sent[-1]))


def _check_interleaved(case: Case, messages: list[dict[str, Any]], other: list[dict[str, Any]]) -> None:
    def run(send: Callable[[list[Any], str], list[Any]], history: list[dict[str, Any]], id: str, end: int) -> Any:
        return [case.wire(each) for each in send(case.make(history[:end]), id)]

    together = case.sender(_options())
    apart = {"a": case.sender(_options()), "b": case.sender(_options())}
    for end in (len(messages) // 2, len(messages)):
        for id, history in (("a", messages), ("b", other)):
            part = _whole_steps(history, min(end, len(history)))
            assert run(together, history, id, part) == run(apart[id], history, id, part)


def _whole_steps(history: list[dict[str, Any]], end: int) -> int:
    """The end of the steps that begin before an index."""
    while 0 < end < len(history) and (history[end]["role"] == "tool" or history[end - 1]["role"] == "assistant"):
        end += 1
    return max(end, 1)


def _check_request(case: Case, sent: list[Any]) -> None:
    wire = [each for message in sent for each in case.wire(message)]
    assert _tokens(wire) <= LIMIT
    open_calls: set[str] = set()
    for message in wire:
        if message["role"] == "tool":
            assert message["tool_call_id"] in open_calls, "a result without its call"
            open_calls.discard(message["tool_call_id"])
            continue
        calls = {call["id"] for call in message.get("tool_calls") or ()}
        assert calls or not open_calls, "a call without its results"
        open_calls |= calls  # in the Responses API, each of several parallel calls is an item
    assert not open_calls


def _tokens(wire: list[dict[str, Any]]) -> int:
    return brimful.fit({"model": "gpt-4o", "messages": wire}, now=0).tokens
