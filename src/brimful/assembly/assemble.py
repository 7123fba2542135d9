"""Assemble a context for a model and a policy given by name, and the functions that come with it."""

import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Unpack, get_args

import msgspec

from brimful.assembly.arguments import (
    make_frame,
    require_list,
    require_positive,
    resolve_model,
    resolve_notices,
    resolve_policy,
    resolve_previous,
    resolve_tools,
    to_timestamp,
)
from brimful.core.budget import ContextBudget, allocate
from brimful.core.content import ContentPackage, Part
from brimful.core.context import Context, Inputs
from brimful.core.counter import TokenCounter
from brimful.core.model import ModelInfo, Wire
from brimful.core.notice import Notice
from brimful.core.policy import Method, Policy
from brimful.core.prompt import Tool
from brimful.core.selection import HistoryStart
from brimful.core.stages import Candidates, prepare
from brimful.core.stages import assemble as assemble_inputs
from brimful.core.tokens import Count
from brimful.core.validation import preview, require_unicode
from brimful.core.validation import require_text as checked_text
from brimful.counting import counter_for
from brimful.errors import InvalidValue
from brimful.packagers import conversation as package_conversation
from brimful.packagers import package as package_content
from brimful.packagers.package import PackageOptions
from brimful.policies import Overrides
from brimful.render import read_history, renderer_of

METHODS: Final[tuple[str, ...]] = get_args(Method)


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
    overrides: Mapping[str, Any] | Overrides | None = None,
    wire: Wire | None = None,
    degraded: Sequence[Notice | str] = (),
    origin: str = "",
    fields: Mapping[str, Any] | None = None,
) -> Context:
    """Fill the model's window with the best of the packages, and return the verified request with its record.

    `previous` is the context before this one in the same conversation: history then begins where it began, so that
    the provider's prompt cache holds. `now` ages the packages; the clock is read only if it is not given.
    `tools` are ours or in OpenAI's form. `window` and `completion` replace the model's window and the policy's reserve;
    `wire` the form of the request. `origin` tells apart what is built from the same for different rooms. `fields` are
    those of a request beside its messages, as a caller wrote them: they are passed on, known or not, and stand in the
    place of ours.
    """
    info = resolve_model(model, wire)
    chosen = resolve_policy(policy, overrides)
    return build_context(
        Inputs(
            packages=_require_packages(packages),
            policy=chosen,
            model=info,
            method=chosen.counting,
            now=time.time() if now is None else to_timestamp(now),
            window=require_positive("window", window),
            completion=require_positive("completion", completion),
            tools=resolve_tools(tools),
            previous=resolve_previous(previous),
            degraded=resolve_notices(degraded),
            origin=require_unicode("origin", origin, InvalidValue),
            frame=None if fields is None else make_frame(fields, info.wire),
        )
    )


def replay(
    context: Context,
    *,
    model: str | ModelInfo | None = None,
    policy: str | Path | Policy | None = None,
    window: int | None = None,
    completion: int | None = None,
    overrides: Mapping[str, Any] | Overrides | None = None,
) -> Context:
    """Build a recorded context again, from its record alone: to itself, or under another model, window or policy."""
    if not isinstance(context, Context):
        raise InvalidValue("context", f"must be a Context, not {preview(context)}")
    return build_context(
        with_overrides(
            context.inputs, model=model, policy=policy, window=window, completion=completion, overrides=overrides
        )
    )


def with_overrides(
    inputs: Inputs,
    *,
    model: str | ModelInfo | None = None,
    policy: str | Path | Policy | None = None,
    window: int | None = None,
    completion: int | None = None,
    overrides: Mapping[str, Any] | Overrides | None = None,
) -> Inputs:
    """Return recorded inputs under another model, window or policy: what is not said stays as it was."""
    chosen = (
        inputs.policy if policy is None and overrides is None else resolve_policy(policy or inputs.policy, overrides)
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
    """Package anything for a model: counted once, with the model's tokenizer."""
    return package_content(kind, content, counter=counter(model), **options)


def conversation(
    messages: Iterable[Mapping[str, Any]],
    *,
    model: str | ModelInfo,
    start: float | datetime = 0.0,
    min_tokens: int | None = None,
) -> list[ContentPackage]:
    """Package a list of messages in OpenAI's form, tool calls and images included.

    It may be broken, as histories are: a result without its call becomes a candidate that the fill refuses. With
    `min_tokens`, messages may be cut down to so many tokens where that fills the window.
    """
    history = read_history(require_list("messages", messages))
    return package_conversation(history, counter=counter(model), start=start, min_tokens=min_tokens)


def counter(model: str | ModelInfo, *, method: Method = "hybrid") -> TokenCounter:
    """Return the counter for a model: `hybrid` takes the best one at hand, and each count says which that was."""
    if method not in METHODS:
        raise InvalidValue("method", f"must be one of {', '.join(METHODS)}, not {preview(method)}")
    return counter_for(resolve_model(model), method)


def count(text: str, *, model: str | ModelInfo, method: Method = "hybrid") -> Count:
    """Count a text for a model.

    >>> count("Fill the window to the brim.", model="gpt-4o")
    Count(tokens=7, basis='exact', tokenizer='o200k_base', margin=0)
    """
    return counter(model, method=method).text(checked_text("text", text, InvalidValue))


def budget(
    *,
    model: str | ModelInfo,
    policy: str | Path | Policy = "default",
    window: int | None = None,
    completion: int | None = None,
    overrides: Mapping[str, Any] | Overrides | None = None,
) -> ContextBudget:
    """Divide a model's window as a policy says, without filling it.

    >>> budget(model="gpt-4", policy="window", completion=3000).limit("recent")
    3753
    """
    return allocate(
        resolve_policy(policy, overrides),
        resolve_model(model),
        window=require_positive("window", window),
        completion=require_positive("completion", completion),
    )


def build_context(inputs: Inputs, *, raw: Sequence[bytes] = ()) -> Context:
    """Build the context of whole inputs: with the model's counter, and the renderer of its wire or of its frame.

    `raw` are the messages of a given request as JSON, where none of them can be cut.
    """
    inputs = _keep_turns(inputs)
    renderer = renderer_of(inputs, raw)
    return assemble_inputs(inputs, counter=counter_for(inputs.model, inputs.method), renderer=renderer)


def prepare_candidates(inputs: Inputs) -> Candidates:
    """Make the candidates of whole inputs ready, to be filled into any number of windows."""
    inputs = _keep_turns(inputs)
    return prepare(inputs, counter=counter_for(inputs.model, inputs.method), renderer=renderer_of(inputs, ()))


def _keep_turns(inputs: Inputs) -> Inputs:
    """Return inputs whose given request stays as its caller wrote it: no turns are merged in it."""
    if not inputs.given:
        return inputs
    return msgspec.structs.replace(inputs, model=msgspec.structs.replace(inputs.model, alternate=False))


def _require_packages(packages: Iterable[ContentPackage]) -> tuple[ContentPackage, ...]:
    given = tuple(require_list("packages", packages))
    for at, entry in enumerate(given):
        if not isinstance(entry, ContentPackage):
            raise InvalidValue(f"packages[{at}]", f"must be a ContentPackage, not {type(entry).__name__}")
    if not given:
        raise InvalidValue("packages", "must not be empty: there is nothing to send")
    return given
