"""Our count beside a real llama.cpp server's, over thousands of conversations: equal, or not."""

import json
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from statistics import mean, median
from typing import Any

from brimful import Context, assemble, conversation, counter, fit
from brimful.core.model import ModelInfo
from brimful.errors import BudgetExceeded
from brimful.wires import find_wire, request_bytes
from families import BY_FILE, FAMILIES, SAYING_OK, Family, LlamaServer, LlamaUnavailable
from tables import Section, percent, table
from wild import wild, wild_request

WINDOW = 4_096
COMPLETION = 16
LEAST_OF_A_CUT = 24  # tokens that are left of a message, at the least, where it may be cut
NOW = 1_800_000_000.0

COUNTS = {"qwen-2.5": 600, "llama-3.1": 600, "gemma-4": 600, "qwen-3": 150, "llama-3.2": 150}
CLIENT_REQUESTS = 500
CLIENT_FAMILIES = ("qwen-2.5", "llama-3.1", "gemma-4", *BY_FILE)
LONG = 8  # one in so many conversations is longer than the window
AT_ONCE = 2  # servers
QUICK = 12

ABOUT = f"""This compares Brimful's count of a request with that of a real llama.cpp server. The server has a window
of {WINDOW:,} tokens and tiny models with random weights, but real vocabularies and chat templates, with which it
renders and tokenizes each request. The conversations are generated: names, system prompts, tools, parallel calls and
their results, broken arguments, odd keys, empty turns, code, many scripts, emoji, decomposed accents, control
characters, long runs, lone surrogates, spelled-out special tokens. Each is built for the model (`runtime =
"llama.cpp"`) and sent. "Equal" means that Brimful's count equals the server's `usage.prompt_tokens`. "Refused" are
requests that the server rejected for any reason. One conversation in {LONG} is longer than the window. For these,
"full" is the share of the allowed tokens that is used, and messages may be cut. The last columns show the mean error
of common estimates on the same requests."""

CLIENTS = f"""The same for requests as clients write them, with lists of parts, `reasoning_content`,
`chat_template_kwargs`, `reasoning_effort` and developer messages: {CLIENT_REQUESTS} for each of twelve vocabularies,
through `fit`. Vocabularies that Brimful does not have are read from the model's GGUF file. "Different" are requests
whose count Brimful called exact, but which the server counts differently. A "bound" is an upper limit, for templates
that omit tools or calls. "Refused" are requests that the template or the server rejects, such as two calls in one
message or arguments that are not JSON."""

_CLIENT_HEAD = ["exact and equal", "exact and different", "bound", "too low", "refused"]
_HEAD = ["equal", "refused", "prompt tokens", "full, mean", "full, median", "chars/4, off by", "o200k, off by"]


@dataclass(frozen=True, slots=True)
class Sent:
    """One request: our count and the server's (None if it refused), how full it is, and what estimates would say."""

    ours: int
    theirs: int | None
    full: float | None
    estimates: tuple[int, int]


def report(*, quick: bool) -> Section:
    """Run every family."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        rows = [*pool.map(lambda name: _row(FAMILIES[name], QUICK if quick else COUNTS[name]), COUNTS)]
        count = QUICK if quick else CLIENT_REQUESTS
        client_rows = [*pool.map(lambda name: _client_row(FAMILIES[name], count), CLIENT_FAMILIES)]
    tables = (table(["model", *_HEAD], rows), CLIENTS, table(["vocabulary", *_CLIENT_HEAD], client_rows))
    return Section("The bill of a real server", ABOUT, tables)


def _client_row(family: Family, count: int) -> list[str]:
    print(f"  parity: {family.name}, {count:,} requests of clients", flush=True)
    model, found = family.info(2 * WINDOW), Counter[str]()
    with LlamaServer(family.file(), context=2 * WINDOW) as server:
        for seed in range(count):
            context = fit(wild_request(seed, family.special) | {"max_tokens": COMPLETION}, model=model)
            tokens = _server_count(server.address, context)
            if tokens is None:
                found["refused"] += 1
                continue
            found["too low"] += context.tokens < tokens
            is_exact = context.verification.basis == "exact"
            found[("different", "equal")[context.tokens == tokens] if is_exact else "bound"] += 1
    return [family.name, *(f"{found[kind]:,}" for kind in ("equal", "different", "bound", "too low", "refused"))]


def _server_count(address: str, context: Context) -> int | None:
    url = f"{address}/v1/chat/completions/input_tokens"
    request = urllib.request.Request(url, request_bytes(context.request))  # noqa: S310 - ours
    try:
        with urllib.request.urlopen(request, timeout=120) as answer:  # noqa: S310 - ours
            return int(json.load(answer)["input_tokens"])
    except urllib.error.HTTPError:
        return None


def _row(family: Family, count: int) -> list[str]:
    print(f"  parity: {family.name}, {count:,} conversations", flush=True)
    try:
        with LlamaServer(family.file(), context=WINDOW) as server:
            return _summary(family.name, [*_sent(server.address, family, count)])
    except LlamaUnavailable as error:
        return [family.name, str(error), *["–"] * (len(_HEAD) - 1)]


def _summary(name: str, sent: list[Sent]) -> list[str]:
    taken = [one for one in sent if one.theirs is not None]
    full = [one.full for one in sent if one.full is not None]
    return [
        name,
        f"{sum(one.ours == one.theirs for one in taken):,} of {len(sent):,}",
        str(len(sent) - len(taken)),
        f"{sum(one.theirs or 0 for one in taken):,}",
        percent(mean(full)),
        percent(median(full)),
        *(percent(_error(taken, which)) for which in (0, 1)),
    ]


def _error(taken: list[Sent], which: int) -> float:
    return mean(abs(one.estimates[which] - (one.theirs or 0)) / (one.theirs or 1) for one in taken)


def _sent(address: str, family: Family, count: int) -> Iterator[Sent]:
    model = family.info(WINDOW)
    seed, done = 0, 0
    while done < count:
        context = _built(family, model, seed, long=seed % LONG == 0)
        seed += 1
        if context is not None:
            done += 1
            yield Sent(context.tokens, _count_on_server(address, context), _full(context), _estimates(context))


def _built(family: Family, model: ModelInfo, seed: int, *, long: bool) -> Context | None:
    values = wild(seed, family.special, turns=160 if long else 8, length=250)
    packages = conversation(values.messages, model=model, min_tokens=LEAST_OF_A_CUT)
    try:
        return assemble(packages, model=model, completion=COMPLETION, tools=values.tools, now=NOW)
    except BudgetExceeded:  # tools and a system prompt that no window of this size can hold
        return None


def _count_on_server(address: str, context: Context) -> int | None:
    body = {**context.request, **SAYING_OK}
    request = urllib.request.Request(f"{address}/v1/chat/completions", json.dumps(body).encode())  # noqa: S310 - ours
    try:
        with urllib.request.urlopen(request, timeout=120) as answer:  # noqa: S310 - ours
            usage: dict[str, Any] = json.load(answer)["usage"]
    except urllib.error.HTTPError:
        return None
    return int(usage["prompt_tokens"])


def _full(context: Context) -> float | None:
    short = any(decision.reason in ("older", "pool-full", "window-full") for decision in context.decisions)
    return context.tokens / context.budget.available if short else None


def _estimates(context: Context) -> tuple[int, int]:
    prompt = find_wire("openai").parse(context.request)
    rough, other = counter("gpt-4o", method="approximate"), counter("gpt-4o")
    return rough.prompt(prompt).tokens, other.prompt(prompt).tokens
