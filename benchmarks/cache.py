"""What a prompt cache saves: a conversation replayed call by call, and a real llama.cpp that tells what it reused."""

import json
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from itertools import pairwise, takewhile
from statistics import mean, median
from typing import Any

from brimful import Context, assemble, conversation
from brimful.core.model import ModelInfo
from brimful.counting import counter_for
from brimful.wires.openai_chat import read_request
from conversations import Conversation, Messages, plain, with_tools
from families import FAMILIES, SAYING_OK, LlamaServer, LlamaUnavailable
from isolated import Failure, Isolated
from peers import load
from tables import Section, percent, table

FAMILY = FAMILIES["qwen-2.5"]
WINDOW = 4_096
COMPLETION = 256
NOW = 1_800_000_000.0
LIMIT_SECONDS = 600.0

ABOUT = f"""A conversation that outgrows its window many times is replayed. Every model call is a request in a
window of {WINDOW:,} tokens with {COMPLETION} reserved for the completion. A real llama.cpp server with one slot handles
them in turn and reports how many tokens of each it had cached (`cached_tokens`). Only requests after the history has
outgrown the window count. "Equal" is the share of a request's tokens that match the beginning of the previous request,
by the server's own tokens. "Cached" is what the server reports. "Evaluated" is the number of tokens it had to process
again over the whole replay. langchain-core trims with the exact counter of the same model, to the same size."""

_HEAD = ["equal, median", "equal, mean", "cached, median", "cached, mean", "evaluated, brimful = 1", "full, mean"]

Requests = Iterator[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Replay:
    """What became of a replay: for each request past the window, shares of its tokens, and how full it is."""

    equal: list[float]
    cached: list[float]
    full: list[float]
    evaluated: int


def report(*, quick: bool) -> Section:
    """Replay one conversation without tools and one with them, each by every way."""
    conversations = [with_tools(turns=20)] if quick else [plain(200), with_tools(turns=50)]
    rows = [row for conversation in conversations for row in _rows(conversation)]
    return Section("Prompt caches", ABOUT, (table(["conversation", "way", *_HEAD], rows, words=2),))


def _rows(conversation: Conversation) -> Iterator[list[str]]:
    ours = 0
    for name, packages, way in _ways():
        print(f"  cache: {name}, {conversation.name}", flush=True)
        answer = _replayed(packages, way, conversation.messages)
        if isinstance(answer, Failure):
            yield [conversation.name, name, answer.reason, *["–"] * (len(_HEAD) - 1)]
            continue
        ours = ours or answer.evaluated
        shares = (median(answer.equal), mean(answer.equal), median(answer.cached), mean(answer.cached))
        work = f"{answer.evaluated / ours:.1f} ×"
        yield [conversation.name, name, *map(percent, shares), work, percent(mean(answer.full))]


def _ways() -> list[tuple[str, tuple[str, ...], Callable[[Messages], Requests]]]:
    utils = ("langchain_core.messages.utils",)
    return [
        ("brimful", (), by_brimful),
        ("langchain-core, exact", utils, partial(by_langchain, start_on=None)),
        ("langchain-core, exact, start_on", utils, partial(by_langchain, start_on="human")),
    ]


def _replayed(packages: tuple[str, ...], way: Callable[[Messages], Requests], messages: Messages) -> Replay | Failure:
    try:
        with (
            LlamaServer(FAMILY.file(), context=WINDOW) as server,
            Isolated(partial(load, packages)) as process,
        ):
            return process.call(replay, way, messages, server.address, seconds=LIMIT_SECONDS)
    except LlamaUnavailable as error:
        return Failure(str(error))


def replay(way: Callable[[Messages], Requests], messages: Messages, address: str) -> Replay:
    """Send every request to the server in turn, and compare its tokens with those of the one before."""
    requests = list(way(messages))
    tokens = [_tokens(address, request) for request in requests]
    usage = [_usage(address, request) for request in requests]
    late = [_size(turn) > WINDOW - COMPLETION for turn in calls(messages)]
    past = [at for at in range(1, len(requests)) if late[at]]
    return Replay(
        equal=[_shared(tokens[at - 1], tokens[at]) / len(tokens[at]) for at in past],
        cached=[usage[at][1] / usage[at][0] for at in past],
        full=[usage[at][0] / (WINDOW - COMPLETION) for at in past],
        evaluated=sum(prompt - cached for prompt, cached in usage),
    )


def calls(messages: Messages) -> Iterator[Messages]:
    """Yield the conversation as it is whenever the model is called: before each answer, and at the end."""
    for at, (message, following) in enumerate(pairwise(messages), start=1):
        if following["role"] == "assistant" and message["role"] != "assistant":
            yield messages[:at]
    yield messages


def by_brimful(messages: Messages) -> Requests:
    """Hand each context the one before it, as the engine does."""
    model, previous = _model(), None
    for turn in calls(messages):
        previous = _assembled(conversation(turn, model=model), model, previous)
        yield previous.request


def by_langchain(messages: Messages, *, start_on: str | None) -> Requests:
    """Trim as the documentation shows it: the newest messages, and the system prompt."""
    utils = import_module("langchain_core.messages.utils")
    for turn in calls(messages):
        kept = utils.trim_messages(
            utils.convert_to_messages(turn),
            max_tokens=WINDOW - COMPLETION,
            token_counter=_count,
            strategy="last",
            include_system=True,
            start_on=start_on,
        )
        yield {"model": FAMILY.model, "messages": utils.convert_to_openai_messages(kept)}


def _assembled(packages: Any, model: ModelInfo, previous: Context | None) -> Context:
    none = {"margin.tokens": 0, "margin.share": 0.0}
    return assemble(packages, model=model, completion=COMPLETION, overrides=none, now=NOW, previous=previous)


def _model() -> ModelInfo:
    return FAMILY.info(WINDOW)


def _count(messages: list[Any]) -> int:
    utils = import_module("langchain_core.messages.utils")
    return _size(utils.convert_to_openai_messages(messages))


def _size(messages: Messages) -> int:
    """Count messages as the server will, whether or not its rules allow them: a trimmer tries many cuts."""
    return counter_for(_model()).prompt(read_request({"model": FAMILY.model, "messages": messages})).tokens


def _shared(before: list[int], after: list[int]) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(before, after, strict=False)))


def _tokens(address: str, request: dict[str, Any]) -> list[int]:
    prompt = _post(f"{address}/apply-template", request)["prompt"]
    tokens: list[int] = _post(f"{address}/tokenize", {"content": prompt, "add_special": True})["tokens"]
    return tokens


def _usage(address: str, request: dict[str, Any]) -> tuple[int, int]:
    usage = _post(f"{address}/v1/chat/completions", {**request, **SAYING_OK})["usage"]
    return usage["prompt_tokens"], usage["prompt_tokens_details"]["cached_tokens"]


def _post(url: str, body: dict[str, Any]) -> dict[str, Any]:
    request = urllib.request.Request(url, json.dumps(body).encode())  # noqa: S310 - our own server
    with urllib.request.urlopen(request, timeout=120) as answer:  # noqa: S310 - our own server
        answered: dict[str, Any] = json.load(answer)
    return answered
