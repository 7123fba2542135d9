"""Make an existing request fit its window: the oldest turns go first, and everything that stays is unchanged."""

import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, TypedDict

from brimful.assembly.arguments import (
    name_options,
    require_positions,
    require_positive,
    require_ties,
    resolve_model,
    resolve_notices,
    resolve_policy,
    resolve_previous,
    to_timestamp,
)
from brimful.assembly.assemble import build_context
from brimful.assembly.messages import plain_fields, plain_messages
from brimful.core.compaction import Compaction
from brimful.core.content import ContentPackage
from brimful.core.context import Context, Inputs
from brimful.core.model import ModelInfo
from brimful.core.notice import Notice
from brimful.core.own_output import find_carried
from brimful.core.policy import Policy
from brimful.core.selection import HistoryStart
from brimful.core.validation import require_unicode
from brimful.counting import counter_for
from brimful.errors import BudgetExceeded, InvalidValue
from brimful.packagers.incoming import package_turns
from brimful.packagers.request_summary import with_compaction
from brimful.policies import Overrides
from brimful.wires.incoming import has_tools, make_frame, read_incoming
from brimful.wires.registry import DEFAULT_WIRE, find_incoming_wire


class FitOptions(TypedDict, total=False):
    """Keywords of `fit`, except `previous`."""

    wire: str
    model: str | ModelInfo | None
    tokenizer: str | Path | None
    policy: str | Path | Policy | None
    window: int | None
    completion: int | None
    max_prompt_tokens: int | None
    betas: Sequence[str]
    min_tokens: int | None
    pin: Sequence[int]
    ties: Sequence[Sequence[int]]
    compaction: Compaction | None
    overrides: Mapping[str, Any] | Overrides | None
    now: float | datetime | None
    degraded: Sequence[Notice | str]
    origin: str


@name_options
def fit(  # noqa: PLR0913 - every one has a default but the request
    request: dict[str, Any],
    *,
    wire: str = DEFAULT_WIRE,
    model: str | ModelInfo | None = None,
    tokenizer: str | Path | None = None,
    policy: str | Path | Policy | None = None,
    previous: Context | HistoryStart | None = None,
    window: int | None = None,
    completion: int | None = None,
    max_prompt_tokens: int | None = None,
    betas: Sequence[str] = (),
    min_tokens: int | None = None,
    pin: Sequence[int] = (),
    ties: Sequence[Sequence[int]] = (),
    compaction: Compaction | None = None,
    overrides: Mapping[str, Any] | Overrides | None = None,
    now: float | datetime | None = None,
    degraded: Sequence[Notice | str] = (),
    origin: str = "",
) -> Context:
    """Make a request fit its window. Returns a context: send its `request`.

    Fields and messages are passed through unchanged. System messages, the user's last message and the end of the
    conversation are required, and a tool call is kept or dropped with its results.

    - `wire`: the format of the request.
    - `model`, `window`: by default the request's model, and the window of that model.
    - `tokenizer`: the name of another vocabulary, or the path of a `tokenizer.json` or GGUF file.
    - `policy`, `overrides`: by default `agent` for requests with tools, and `fit` for others.
    - `completion`: tokens reserved for the answer, whatever has to go for it. It is added to a request that has no
      output limit. By default, the request's own limit is reserved, and lowered before required messages are shortened.
    - `max_prompt_tokens`: limits the request even if the window is larger.
    - `betas`: beta features that you send in Anthropic's header. Some widen the window.
    - `min_tokens`: texts may be shortened to this many tokens.
    - `pin`: messages that must stay, unchanged, by their indices in the request: `pin=[0]`.
    - `ties`: groups of messages that are kept or dropped as one: `ties=[(3, 4)]`. `positions` of the context are the
      messages that stay.
    - `compaction`: a summary by `brimful.compact`, which stands for messages that an earlier request left out.
    - `previous`: the context of the conversation's last request. History then begins at the same message, so that
      prompt caches can be reused.
    - `now`, `degraded`, `origin`: as in `assemble`.
    """
    form = find_incoming_wire(wire)
    field = form.message_field
    if isinstance(request, dict) and isinstance(request.get(field), list | tuple):
        request = {**plain_fields(request), field: plain_messages(request[field], form)}
    if isinstance(request, dict) and (state := form.find_state(request)):
        reason = f"refers to content that only the provider has, so the request cannot be counted: pass it in `{field}`"
        raise InvalidValue(f"request.{state}", reason)
    incoming = read_incoming(request, wire)
    info = resolve_model(incoming.model if model is None else model, form.provider, betas, tokenizer)
    name = policy if policy is not None else "agent" if has_tools(incoming) and not info.alternate else "fit"
    chosen = resolve_policy(name, overrides, max_prompt_tokens)
    completion = require_positive("completion", completion)
    if completion is not None:
        request = form.write_max_output(request, completion, info.provider)
    frame = make_frame(request, incoming, form, user_first=form.user_first or info.alternate)
    packages = package_turns(
        incoming.system,
        [turn.messages for turn in incoming.turns],
        frame,
        counter=counter_for(info, chosen.counting),
        names=not info.names_in_text,
        min_tokens=require_positive("min_tokens", min_tokens),
        pinned=frozenset((*incoming.pinned, *require_positions("pin", pin, len(incoming.turns)))),
        ties=(*incoming.ties, *require_ties(ties, len(incoming.turns))),
        reasoning=incoming.reasoning,
    )
    inputs = Inputs(
        packages=packages,
        policy=chosen,
        model=info,
        method=chosen.counting,
        now=time.time() if now is None else to_timestamp(now),
        window=_smaller_window(require_positive("window", window), form.read_window(request), info),
        completion=completion,
        max_output=incoming.completion,
        tools=incoming.tools,
        previous=_same_messages(resolve_previous(previous), packages),
        degraded=(*resolve_notices(degraded), *_list_uncounted(form.find_uncounted(request))),
        origin=require_unicode("origin", origin, InvalidValue),
        frame=frame,
    )
    if compaction is not None:
        context = _build_with_summary(
            with_compaction(inputs, compaction, counter_for(info, chosen.counting)), incoming.raw
        )
        if context is not None:
            return context
    return build_context(inputs, raw=incoming.raw)


def _same_messages(previous: HistoryStart | None, packages: Sequence[ContentPackage]) -> HistoryStart | None:
    """Return where history began; None if these messages have a ledger or a summary that was written since."""
    return previous if previous is not None and previous.carried == find_carried(packages) else None


def _build_with_summary(inputs: Inputs, raw: Sequence[bytes]) -> Context | None:
    """Return a context with a summary; None if the summary would take the room of required messages."""
    try:
        context = build_context(inputs, raw=raw)
    except BudgetExceeded:
        return None
    return None if any(warning.kind == "required-shrunk" for warning in context.warnings) else context


def _smaller_window(given: int | None, requested: int | None, model: ModelInfo) -> int | None:
    """Return the window to fit into: that of the caller or the model, unless the request asks for a smaller one."""
    if requested is None:
        return given
    return min(requested, given or (requested if model.assumed_window else model.window))


def _list_uncounted(text: str) -> tuple[Notice, ...]:
    """Return the notice about content that only the provider has, if there is one."""
    return (Notice(kind="unknown-size", text=text),) if text else ()
