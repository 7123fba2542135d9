"""Compare reported usage with our counts: reports to learn from, and silently truncated prompts.

Ollama and some other servers cut a prompt that exceeds their window without an error. The only sign is a reported
prompt count that is smaller than ours by more than the counts can be wrong.
"""

import re
from typing import Final, assert_never

import msgspec

from brimful.core.content import Media
from brimful.core.context import Context
from brimful.core.model import ModelInfo
from brimful.core.prompt import Prompt, Request
from brimful.core.tokens import Count
from brimful.counting.calibration import default_calibration
from brimful.counting.counters import measure_prompt
from brimful.counting.features import Features, request_features
from brimful.counting.media import MediaCounter
from brimful.errors import ContextOverflow
from brimful.records import Usage
from brimful.records.usage import UsageReport
from brimful.wires import find_wire, renderer_of

_SLACK_SHARE: Final = 0.03  # of a count: servers' templates differ from the makers' by a few tokens per message
_SERVER_TOOLS: Final = ("web_search", "web_fetch", "code_execution", "mcp", "tool_search")
"""How the types of tools begin that Anthropic runs (docs: Server tools)."""
_SERVER_TOOL_FIELDS: Final = ("mcp_servers", "web_search_options")
"""Fields of requests to Anthropic and OpenAI that let them run tools."""
_MIN_WINDOW_SHARE: Final = 1 / 8  # of a known model's window; less is believed only if a field of the error states it
_BETWEEN_WORDS: Final = re.compile(r"(?:\\[nrt]|[\W_])+")  # with escape sequences of JSON
_SLACK_TOKENS: Final = 32  # for a default system prompt that a template adds or omits


class Truncation(msgspec.Struct, frozen=True, kw_only=True):
    """A truncated prompt: tokens sent by our count, tokens read by the server's, and the minimum that is missing."""

    sent: int
    read: int
    missing: int


def find_truncation(count: Count, usage: Usage | None, *, shared: int = 0, unsure: int = 0) -> Truncation | None:
    """Return a truncation if the reported usage shows that the server cut the prompt.

    `count` is our count of the whole prompt. `shared` is the prefix that the server may have cached from the previous
    request: older servers report only the uncached tokens. `unsure` are tokens that a server may count differently,
    such as image tokens.

    >>> exact = Count(tokens=12_000, basis="exact")
    >>> find_truncation(exact, Usage(prompt=2_050))
    Truncation(sent=12000, read=2050, missing=9558)
    >>> find_truncation(exact, Usage(prompt=11_960)), find_truncation(exact, Usage(prompt=400), shared=11_600)
    (None, None)
    """
    if usage is None or usage.prompt == 0:
        return None  # some servers omit it if the whole prompt was cached
    missing = _lower_bound(count) - unsure - _slack(count) - usage.prompt
    if missing <= 0 or is_uncached_only(count, usage, shared=shared):
        return None
    return Truncation(sent=count.tokens, read=usage.prompt, missing=missing)


def is_uncached_only(count: Count, usage: Usage, *, shared: int) -> bool:
    """Whether the server reported only the tokens after the prefix cached from the previous request.

    >>> is_uncached_only(Count(tokens=12_000, basis="exact"), Usage(prompt=400), shared=11_600)
    True
    """
    return _slack(count) < shared and abs(count.tokens - shared - usage.prompt) <= _slack(count)


def _slack(count: Count) -> int:
    return int(count.tokens * _SLACK_SHARE) + _SLACK_TOKENS


def _lower_bound(count: Count) -> int:
    """Return the minimum of the true count."""
    match count.basis:
        case "exact" | "provider":
            return count.tokens
        case "calibrated":
            return max(
                0, count.tokens - 2 * count.margin
            )  # the margin covers undercounts; allow twice as much for overcounts
        case "approximate":
            return count.tokens // 2
        case "bound":
            return 0  # an upper bound says nothing about the minimum
        case _:
            assert_never(count.basis)


def make_usage_report(  # noqa: PLR0913 - all describe one report
    context: Context,
    usage: Usage,
    *,
    route: str,
    at: float,
    id: str,
    room: str | None = None,
    expected_cached: int = 0,
    snapshot: str | None = None,
    prompt: Prompt | None = None,
) -> UsageReport:
    """Return a report of an answered request. Pure.

    `id` must be unique, for example the id of the response. `expected_cached` is the prefix that should have been in
    the provider's cache. `snapshot` is the context's id in the store, if it differs. `prompt` is its request as it is
    read back, if that was done already. The report's kind says whether the
    prompt was truncated. If the server reports only uncached tokens, or the prompt has content that cannot be counted,
    or the provider runs tools and counts their results, there is nothing to learn from.
    """
    count = _verified_count(context)
    measured = _measured_features(context, prompt)
    rest = is_uncached_only(count, usage, shared=expected_cached)
    comparable = not rest and not has_unknown_size(context) and not _runs_tools(context.request)
    media = int(measured.get("media", 0.0))
    return UsageReport(
        id=id,
        model=canonical_model_id(context.inputs.model),
        route=route,
        at=at,
        kind="cut" if find_truncation(count, usage, shared=expected_cached, unsure=media) else "usage",
        context=snapshot or context.id,
        room=room,
        counted=count.tokens,
        margin=count.margin,
        basis=count.basis,
        tokenizer=default_calibration(context.inputs.model).tokenizer,
        features=measured if comparable else {},
        reported=0 if rest else usage.prompt,
        cached=usage.cached,
        expected_cached=expected_cached,
        completion=usage.completion,
        reasoning=usage.reasoning,
    )


def make_overflow_report(
    context: Context, error: ContextOverflow, *, route: str, at: float, id: str, room: str | None = None
) -> UsageReport:
    """Return a report of a request that was refused as too long. Pure.

    It has the window that the error names, if that is plausible.
    """
    count = _verified_count(context)
    return UsageReport(
        id=id,
        model=canonical_model_id(context.inputs.model),
        route=route,
        at=at,
        kind="overflow",
        context=context.id,
        room=room,
        counted=count.tokens,
        margin=count.margin,
        basis=count.basis,
        reported=error.prompt or 0,
        window=_plausible_window(context, error),
    )


def _plausible_window(context: Context, error: ContextOverflow) -> int | None:
    """Return the window for prompt and completion that an error names; None if it may mean something else.

    A server that repeats a part of the prompt in its error lets whoever wrote the prompt name any window. So the
    request must really be longer. A sentence must not be in the request itself, and must not name a small part of the
    window that the model is known to have. If the request has content that cannot be counted, nothing is learned.
    Encrypted reasoning counts by its size.
    """
    if error.window is None or (has_unknown_size(context) and not _is_all_encrypted(context)):
        return None
    asked = 0 if error.input_only else _requested_output(context) or 0
    if context.verification.tokens + asked <= error.window:
        return None
    model = context.inputs.model
    window = error.window + (context.budget.completion if error.input_only else 0)
    is_small = not model.assumed_window and window < _MIN_WINDOW_SHARE * model.window
    return None if error.quote and (is_small or _has_words(context.request, error.quote)) else window


def _requested_output(context: Context) -> int | None:
    frame, model = context.inputs.frame, context.inputs.model
    return find_wire(model.wire if frame is None else frame.wire).read_max_output(context.request)


def _has_words(request: Request, quote: str) -> bool:
    """Whether a request has the words of a quote in a row, whatever is between them."""
    return _join_words(quote) in _join_words(msgspec.json.encode(request).decode())


def _join_words(text: str) -> str:
    return _BETWEEN_WORDS.sub("", text).lower()


def has_unknown_size(context: Context) -> bool:
    """Whether a request has content that cannot be counted, such as a document by URL."""
    return any(notice.kind == "unknown-size" for notice in context.warnings)


def _is_all_encrypted(context: Context) -> bool:
    """Whether all that cannot be counted is encrypted reasoning, which has a size."""
    ids = [set(notice.facts.get("ids", ())) for notice in context.warnings if notice.kind == "unknown-size"]
    packages = {package.id: package for package in context.inputs.packages}
    if not all(ids) or not all(map(packages.keys().__ge__, ids)):
        return False
    parts = (part for each in ids for id in each for part in packages[id].parts)
    return all(part.is_opaque and part.data for part in parts if isinstance(part, Media) and part.has_unknown_size)


def _runs_tools(request: Request) -> bool:
    """Whether the provider runs tools itself while it answers, so that their results are part of the usage."""
    tools = request.get("tools")
    types = (tool.get("type") for tool in tools if isinstance(tool, dict)) if isinstance(tools, list) else ()
    run = any(isinstance(name, str) and name.startswith(_SERVER_TOOLS) for name in types)
    return run or any(request.get(field) for field in _SERVER_TOOL_FIELDS)


def canonical_model_id(model: ModelInfo) -> str:
    """Return the id under which usage is stored, the same for all spellings of a model's name."""
    return model.canonical or model.id


def _verified_count(context: Context) -> Count:
    verified = context.verification
    return Count(tokens=verified.tokens - verified.margin, basis=verified.basis, margin=verified.margin)


def _measured_features(context: Context, prompt: Prompt | None) -> Features:
    """Return the features of the request. An exact count is taken from the record instead of being repeated."""
    model, method = context.inputs.model, context.inputs.method
    if method == "approximate":
        return {}
    prompt = prompt or renderer_of(context.inputs).parse(context.request)
    if model.tokenizer is None or method == "calibrated":
        measured = measure_prompt(model, method, prompt)
    else:
        measured = request_features(prompt) | {"media": float(_media_tokens(prompt, MediaCounter.of(model)))}
        measured["fixed"] = (
            _verified_count(context).tokens - measured["media"] - default_calibration(model).correction(measured)
        )
    return {name: value for name, value in measured.items() if value}


def _media_tokens(prompt: Prompt, counter: MediaCounter) -> int:
    parts = (part for message in prompt.messages for part in message.parts)
    return sum(counter.count(part).tokens for part in parts if isinstance(part, Media))
