"""How much of a request the provider has seen before: the byte-equal prefix of consecutive requests."""

import json
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib import import_module
from itertools import pairwise, takewhile
from statistics import mean, median
from typing import Any

import strict
from conversations import Messages, plain, with_tools
from isolated import Failure, Isolated
from peers import MODEL, brimful_request, load, request_messages, trim_langchain
from tables import Section, percent, table

BUDGET = 4_000
TURNS = 200
LIMIT_SECONDS = 120.0

ABOUT = f"""A conversation of {TURNS} turns is replayed turn by turn under a budget of {BUDGET:,} tokens. Brimful gets
the context before each one as `previous`. Only turns after the history has outgrown the budget count. "Seen
before" is the byte-equal prefix that a request shares with the previous one, divided by the request's
length: what a provider's prompt cache can reuse. "Kept" is the share of turns that reuse more than half."""

Requests = Iterator[Messages]


def report(*, quick: bool) -> Section:
    """Replay one conversation without tools and one with them, each by every way."""
    conversations = [with_tools()] if quick else [plain(TURNS), with_tools(turns=TURNS)]
    rows = [
        _row(conversation.name, name, conversation.messages, packages, replay)
        for conversation in conversations
        for name, packages, replay in _ways()
    ]
    return Section("A stable prefix", ABOUT, (table(["conversation", "way", *_HEAD], rows, words=2),))


_HEAD = ["seen before, mean", "seen before, median", "kept", "full, mean"]


def _ways() -> list[tuple[str, tuple[str, ...], Callable[[Messages], Requests]]]:
    utils = ("langchain_core.messages.utils",)
    return [
        ("brimful", ("brimful",), _by_brimful),
        ("langchain-core, exact", utils, partial(_by_langchain, start_on=None)),
        ("langchain-core, exact, start_on", utils, partial(_by_langchain, start_on="human")),
    ]


def measure(replay: Callable[[Messages], Requests], messages: Messages) -> tuple[list[float], list[float]]:
    """Return, for each turn past the budget, what the provider has seen before, and how full the request is."""
    requests = list(replay(messages))
    late = [tokens > BUDGET for tokens in _sizes(messages)]
    pairs = [pair for pair, past in zip(pairwise(requests), late[1:], strict=True) if past]
    seen = [_shared(before, after) for before, after in pairs]
    full = [strict.count_messages(after, strict.reference_count) / BUDGET for _, after in pairs]
    return seen, full


def _turns(messages: Messages) -> Iterator[Messages]:
    """Yield the conversation as it is whenever the user has just asked."""
    for at, message in enumerate(messages, start=1):
        if message["role"] == "user":
            yield messages[:at]


def _sizes(messages: Messages) -> Iterator[int]:
    """Yield how many tokens each turn's whole history has."""
    tokens = strict.A_REQUEST
    for message in messages:
        tokens += strict.count_message(message, strict.reference_count)
        if message["role"] == "user":
            yield tokens


def _by_brimful(messages: Messages) -> Requests:
    previous: Any = None
    for turn in _turns(messages):
        packages = import_module("brimful").conversation(turn, model=MODEL)
        previous = brimful_request(packages, BUDGET, previous)
        yield request_messages(previous)


def _by_langchain(messages: Messages, *, start_on: str | None) -> Requests:
    for turn in _turns(messages):
        ready = trim_langchain(turn, BUDGET, exact=True, start_on=start_on)
        yield ready.read(ready.call())


def _shared(before: Messages, after: Messages) -> float:
    first, second = (json.dumps(messages, ensure_ascii=False).encode() for messages in (before, after))
    shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(first, second, strict=False)))
    return shared / len(second)


def _row(
    conversation: str, name: str, messages: Messages, packages: Sequence[str], replay: Callable[[Messages], Requests]
) -> list[str]:
    print(f"  prefix: {name}, {conversation}", flush=True)
    with Isolated(partial(load, packages)) as process:
        answer = process.call(measure, replay, messages, seconds=LIMIT_SECONDS)
    if isinstance(answer, Failure):
        return [conversation, name, answer.reason, "–", "–", "–"]
    seen, full = answer
    kept = mean(share > 0.5 for share in seen)
    return [conversation, name, percent(mean(seen)), percent(median(seen)), percent(kept), percent(mean(full))]
