"""Assemble a context for a model and a policy given by name, and the functions that come with it."""

import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, Unpack, get_args

import msgspec

from brimful.assembly.arguments import (
    make_frame,
    name_options,
    require_list,
    require_positive,
    resolve_model,
    resolve_notices,
    resolve_policy,
    resolve_previous,
    resolve_recorded,
    resolve_tools,
    to_timestamp,
    with_prompt_limit,
)
from brimful.assembly.messages import read_messages
from brimful.assembly.recall_tool import require_contexts, with_recall, without_recall
from brimful.core.budget import ContextBudget, allocate
from brimful.core.content import ContentPackage, Part
from brimful.core.context import Context, Inputs, Unread
from brimful.core.cost import is_own
from brimful.core.model import ModelInfo
from brimful.core.notice import Notice
from brimful.core.own_output import is_cut
from brimful.core.policy import Method, Policy
from brimful.core.prompt import TokenCounter, Tool
from brimful.core.recall import Item, Recalled, hidden_items, is_erased, rank_items, recall_best, recall_item
from brimful.core.selection import LEDGER_ID, HistoryStart
from brimful.core.stages import Candidates, prepare
from brimful.core.stages import assemble as assemble_inputs
from brimful.core.tokens import Count
from brimful.core.toolset import TOOL_KIND
from brimful.core.validation import is_whole_number, preview, require_unicode
from brimful.core.validation import require_text as checked_text
from brimful.counting import counter_for
from brimful.embedding.static import compare_meanings
from brimful.errors import BudgetExceeded, ContentErased, InvalidValue, UnknownRecord
from brimful.packagers import conversation as package_conversation
from brimful.packagers import package as package_content
from brimful.packagers.package import PackageOptions
from brimful.policies import Overrides
from brimful.wires import renderer_of

METHODS: Final[tuple[str, ...]] = get_args(Method)
_LOSSES: Final = ("margin-used", "required-shrunk", "pins-dropped")
_MAX_NEAR: Final = 3  # handles that an error names


@name_options
def assemble(  # noqa: PLR0913 - every one has a default but the first two
    packages: Iterable[ContentPackage],
    *,
    model: str | ModelInfo,
    policy: str | Path | Policy = "default",
    now: float | datetime | None = None,
    previous: Context | HistoryStart | None = None,
    tools: Sequence[Tool | Mapping[str, Any]] = (),
    window: int | None = None,
    completion: int | None = None,
    max_output: int | None = None,
    max_prompt_tokens: int | None = None,
    betas: Sequence[str] = (),
    overrides: Mapping[str, Any] | Overrides | None = None,
    wire: str | None = None,
    degraded: Sequence[Notice | str] = (),
    origin: str = "",
    focus: str = "",
    unread: tuple[int, int] = (0, 0),
    fields: Mapping[str, Any] | None = None,
) -> Context:
    """Fill the model's window with the best of the packages, and return the verified request with its record.

    - `previous`: the previous context of the same conversation. History then begins at the same message, so that the
      provider's prompt cache can be reused.
    - `now`: the time from which the age of packages is measured; by default the current time.
    - `tools`: tools as `Tool` or in OpenAI's format.
    - `window`, `completion`: override the model's window and the policy's reserve for the answer.
    - `max_output`: reserved for the answer without a `completion`, but less before required content is shortened.
    - `max_prompt_tokens`: limits the request even if the window is larger.
    - `betas`: beta features that you send in Anthropic's header. Some widen the window.
    - `wire`: overrides the format of the request.
    - `degraded`: notices about what the caller had to do without, which go on the record.
    - `origin`: distinguishes contexts that would otherwise be equal, for example of different rooms.
    - `focus`: what the packages were searched for besides the current message, for the record.
    - `unread`: how many messages of the conversation are not among the packages, and their tokens, for the record.
    - `fields`: further fields of the request, which are passed through and override ours.
    """
    info = resolve_model(model, wire, betas)
    chosen = resolve_policy(policy, overrides, max_prompt_tokens)
    return build_context(
        Inputs(
            packages=_require_packages(packages),
            policy=chosen,
            model=info,
            method=chosen.counting,
            now=time.time() if now is None else to_timestamp(now),
            window=require_positive("window", window),
            completion=require_positive("completion", completion),
            max_output=require_positive("max_output", max_output),
            tools=resolve_tools(tools),
            previous=resolve_previous(previous),
            degraded=resolve_notices(degraded),
            origin=require_unicode("origin", origin, InvalidValue),
            focus=require_unicode("focus", focus, InvalidValue),
            unread=_require_unread(unread),
            frame=None if fields is None else make_frame(fields, info.wire),
        )
    )


def _require_unread(unread: tuple[int, int]) -> Unread:
    match unread:
        case (messages, tokens) if is_whole_number(messages, 0) and is_whole_number(tokens, 0):
            return Unread(messages, tokens)
    raise InvalidValue("unread", f"must be a number of messages and their tokens, not {preview(unread)}")


def replay(
    context: Context,
    *,
    model: str | ModelInfo | None = None,
    tokenizer: str | Path | None = None,
    policy: str | Path | Policy | None = None,
    window: int | None = None,
    completion: int | None = None,
    max_prompt_tokens: int | None = None,
    overrides: Mapping[str, Any] | Overrides | None = None,
) -> Context:
    """Build a context again from its record, unchanged or with another model, window or policy.

    If the record names a tokenizer file, name it too: as `tokenizer`, or in your model file.
    """
    if not isinstance(context, Context):
        raise InvalidValue("context", f"must be a Context, not {preview(context)}")
    return build_context(
        with_overrides(
            resolve_recorded(context.inputs, tokenizer) if model is None else context.inputs,
            model=None if model is None else resolve_model(model, tokenizer=tokenizer),
            policy=policy,
            window=window,
            completion=completion,
            max_prompt_tokens=max_prompt_tokens,
            overrides=overrides,
        )
    )


def recall(
    context: Context,
    handle: str = "",
    *,
    query: str = "",
    max_tokens: int = 1_000,
    tokenizer: str | Path | None = None,
    earlier: Sequence[Context] = (),
) -> Recalled:
    """Return a candidate of a context by handle or id; without one, the best passages of what the model did not see.

    `earlier` are contexts of earlier rounds, oldest first.
    """
    check_recall(handle, query, max_tokens)
    counter = counter_of(context, tokenizer)
    items = merge_items(context, require_contexts("earlier", earlier))
    if handle:
        return recall_item(find_item(context, handle, items), query, max_tokens, counter)
    return recall_best(rank_items(hidden_items(items.values()), query), query, max_tokens, counter)


def merge_items(context: Context, earlier: Sequence[Context]) -> Mapping[str, Item]:
    """Return all candidates of a context and of earlier rounds of the conversation, oldest first, by handle.

    If rounds have a result in several lengths, because one of them shortened it, its handle means the longest.
    """
    if not earlier:
        return context.items
    merged: dict[str, Item] = {}
    for each in (*earlier, context):
        for handle, item in each.items.items():
            if each is not context and (item.package.kind == LEDGER_ID or is_own(item.package)):
                continue
            if handle not in merged or _is_longer(item, merged[handle]):
                merged[handle] = item if each is context else msgspec.structs.replace(item, decision=None)
    return merged


def _is_longer(item: Item, other: Item) -> bool:
    return not is_cut(item.package) and item.package.tokens.upper >= other.package.tokens.upper


def check_recall(handle: object, query: object, max_tokens: object) -> None:
    """Raise an error unless there is a handle or a query, and a number of tokens."""
    for field, value in (("handle", handle), ("query", query)):
        checked_text(field, value, InvalidValue)
    if not handle and not query:
        raise InvalidValue("handle", "pass a handle, or a query to search for")
    if not is_whole_number(max_tokens):
        raise InvalidValue("max_tokens", f"must be a positive whole number of tokens, not {preview(max_tokens)}")


def counter_of(context: Context, tokenizer: str | Path | None = None) -> TokenCounter:
    """Return the counter with which a context was built."""
    inputs = resolve_recorded(context.inputs, tokenizer)
    return counter_for(inputs.model, inputs.method)


def find_item(context: Context, handle: str, items: Mapping[str, Item] | None = None) -> Item:
    """Return a candidate by handle or id, of the context or of these items."""
    items = context.items if items is None else items
    name = context.handle(handle) if handle in context.decisions_by_id else handle
    item = items.get(handle) or items.get(name)
    if item is None:
        raise UnknownRecord("handle", handle, get_close_matches(handle, items, _MAX_NEAR))
    if is_erased(item.package):
        raise ContentErased(item.package.kind, item.package.id)
    return item


def with_overrides(
    inputs: Inputs,
    *,
    model: str | ModelInfo | None = None,
    policy: str | Path | Policy | None = None,
    window: int | None = None,
    completion: int | None = None,
    max_prompt_tokens: int | None = None,
    overrides: Mapping[str, Any] | Overrides | None = None,
) -> Inputs:
    """Return recorded inputs with another model, window or policy."""
    chosen = (
        with_prompt_limit(inputs.policy, max_prompt_tokens)
        if policy is None and overrides is None
        else resolve_policy(policy or inputs.policy, overrides, max_prompt_tokens)
    )
    own_window = inputs.window if model is None else None
    return msgspec.structs.replace(
        inputs,
        model=inputs.model if model is None else resolve_model(model),
        policy=chosen,
        method=chosen.counting,
        window=own_window if window is None else require_positive("window", window),
        completion=inputs.completion if completion is None else require_positive("completion", completion),
    )


def package(
    kind: str,
    content: str | tuple[Part, ...] | list[Part],
    *,
    model: str | ModelInfo,
    **options: Unpack[PackageOptions],
) -> ContentPackage:
    """Make a package, counted with the model's tokenizer.

    Its options are the other fields of `ContentPackage` (`id`, `role`, `timestamp`, `relevance`, `pinned` and so on)
    and of `Flex` (`priority`, `can_drop`, `min_tokens`, `can_shrink`). Their defaults depend on the kind.

    >>> package("memory-semantic", "Ada likes tea.", model="gpt-4o", relevance=0.8).tokens.tokens
    4
    """
    return package_content(kind, content, counter=counter(model), **options)


def conversation(
    messages: Iterable[object], *, model: str | ModelInfo, start: float | datetime = 0.0, min_tokens: int | None = None
) -> list[ContentPackage]:
    """Make packages from a list of messages in OpenAI's format, including tool calls and images.

    Messages may be dicts, message objects of the openai package, LangChain messages or other pydantic models. Histories
    may be incomplete: a tool result without its call becomes a candidate that is dropped. With `min_tokens`, messages
    may be shortened to that many tokens to fill the window.
    """
    history = read_messages(messages)
    return package_conversation(history, counter=counter(model), start=start, min_tokens=min_tokens)


def counter(model: str | ModelInfo, *, method: Method = "hybrid", tokenizer: str | Path | None = None) -> TokenCounter:
    """Return the token counter for a model. `hybrid` uses the best one available; each count has its basis.

    `tokenizer` is the name of another vocabulary, or the path of a `tokenizer.json` or GGUF file.
    """
    if method not in METHODS:
        raise InvalidValue("method", f"must be one of {', '.join(METHODS)}, not {preview(method)}")
    return counter_for(resolve_model(model, tokenizer=tokenizer), method)


def count(
    text: str, *, model: str | ModelInfo, method: Method = "hybrid", tokenizer: str | Path | None = None
) -> Count:
    """Count the tokens of a text for a model.

    >>> count("Fill the window to the brim.", model="gpt-4o")
    Count(tokens=7, basis='exact', tokenizer='o200k_base', margin=0)
    """
    return counter(model, method=method, tokenizer=tokenizer).text(checked_text("text", text, InvalidValue))


def budget(
    *,
    model: str | ModelInfo,
    policy: str | Path | Policy = "default",
    window: int | None = None,
    completion: int | None = None,
    max_prompt_tokens: int | None = None,
    overrides: Mapping[str, Any] | Overrides | None = None,
) -> ContextBudget:
    """Divide a model's window by a policy, without filling it.

    >>> budget(model="gpt-4", policy="window", completion=3000).limit("recent")
    3753
    """
    divided = allocate(
        resolve_policy(policy, overrides, max_prompt_tokens),
        resolve_model(model),
        window=require_positive("window", window),
        completion=require_positive("completion", completion),
    )
    if divided.available <= 0:
        sizes = f"{divided.completion:,} tokens for the answer and {divided.margin:,} of margin"
        raise InvalidValue("completion", f"{sizes} leave nothing of a window of {divided.window:,} for the prompt")
    return divided


def build_context(inputs: Inputs, *, raw: Sequence[bytes] = ()) -> Context:
    """Build a context with the counter and the renderer that its inputs need.

    `raw` are the messages of a caller's request as JSON, if none of them may be shortened.
    """
    inputs = without_recall(_keep_turns(inputs))
    offering = with_recall(inputs)
    if offering is None:
        return _build(inputs, raw)
    if _must_leave_out(inputs):  # as in most trimmed requests, which are built only once
        offered = _try_build(offering, raw)
        if offered is not None and not _find_losses(offered):
            return offered
    context = _build(inputs, raw)
    offered = _try_build(offering, raw) if _hides(context) else None
    return context if offered is None or _find_losses(offered) - _find_losses(context) else offered


def _hides(context: Context) -> bool:
    """Whether the model does not see all of the conversation, or something is shortened.

    What a search found and was not worth its tokens does not count.
    """
    found = ("memory-", "lorebook-", "summary-", "message-older", TOOL_KIND)
    return context.inputs.unread.messages > 0 or any(
        each.outcome == "shrunk" or (each.outcome != "kept" and not each.kind.startswith(found))
        for each in context.decisions
        if each.kind != TOOL_KIND
    )


def _must_leave_out(inputs: Inputs) -> bool:
    """Whether the packages alone have more tokens than there is room for."""
    return sum(package.tokens.tokens for package in inputs.packages) > inputs.allocate().hard_limit


def _try_build(inputs: Inputs, raw: Sequence[bytes]) -> Context | None:
    try:
        return _build(inputs, raw)
    except BudgetExceeded:
        return None


def _find_losses(context: Context) -> set[str]:
    """Return the kinds of warnings about what must not give way to a tool."""
    return {notice.kind for notice in context.warnings if notice.kind in _LOSSES}


def _build(inputs: Inputs, raw: Sequence[bytes]) -> Context:
    counter = counter_for(inputs.model, inputs.method)
    return assemble_inputs(inputs, counter=counter, renderer=renderer_of(inputs, raw), similarity=compare_meanings)


def prepare_candidates(inputs: Inputs) -> Candidates:
    """Prepare the candidates of some inputs to fill any number of windows."""
    inputs = _keep_turns(inputs)
    counter = counter_for(inputs.model, inputs.method)
    return prepare(inputs, counter=counter, renderer=renderer_of(inputs), similarity=compare_meanings)


def _keep_turns(inputs: Inputs) -> Inputs:
    """Return inputs that do not merge the turns of a caller's own request."""
    if not inputs.is_fitted:
        return inputs
    return msgspec.structs.replace(inputs, model=msgspec.structs.replace(inputs.model, alternate=False))


def _require_packages(packages: Iterable[ContentPackage]) -> tuple[ContentPackage, ...]:
    entries = tuple(require_list("packages", packages))
    for index, entry in enumerate(entries):
        if not isinstance(entry, ContentPackage):
            hint = "; make packages of messages with brimful.conversation"
            raise InvalidValue(f"packages[{index}]", f"must be a ContentPackage, not {type(entry).__name__}{hint}")
    if not entries:
        raise InvalidValue("packages", "must not be empty")
    return entries
