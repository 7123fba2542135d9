"""The front door: the pure stages with a model's counter, its renderer, and a policy by name."""

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Unpack, get_args

import msgspec

from brimful.core.assemble import assemble as assemble_inputs
from brimful.core.budget import ContextBudget, allocate
from brimful.core.check import is_whole, shown, sound_text
from brimful.core.check import text as checked_text
from brimful.core.content import ContentPackage, Part, clean_text
from brimful.core.context import Context, Inputs
from brimful.core.model import ModelInfo, Wire
from brimful.core.policy import Method, Policy
from brimful.core.prompt import Tool
from brimful.core.selection import Previous
from brimful.core.tokens import Count, TokenCounter
from brimful.counting import counter_for
from brimful.errors import InvalidValue
from brimful.models import default_registry
from brimful.packagers import conversation as package_conversation
from brimful.packagers import package as package_content
from brimful.packagers.package import Options, seconds
from brimful.policies import Overrides, load_policy
from brimful.render import read_history, read_tool, renderer_for

METHODS: Final[tuple[str, ...]] = get_args(Method)
WIRES: Final[tuple[str, ...]] = get_args(Wire)


def assemble(  # noqa: PLR0913 - every one has a default but the first two
    packages: Iterable[ContentPackage],
    *,
    model: str | ModelInfo,
    policy: str | Path | Policy = "default",
    now: float | datetime | None = None,
    previous: Context | Previous | None = None,
    tools: Sequence[Tool | Mapping[str, Any]] = (),
    window: int | None = None,
    completion: int | None = None,
    overrides: Mapping[str, Any] | Overrides | None = None,
    wire: Wire | None = None,
    degraded: Sequence[str] = (),
    origin: str = "",
) -> Context:
    """Fill the model's window with the best of the packages, and return the verified request with its record.

    `previous` is the context before this one in the same conversation: history then begins where it began, so that
    the provider's prompt cache holds. `now` ages the packages; the clock is read only if it is not given.
    `tools` are ours or in OpenAI's form. `window` and `completion` replace the model's window and the policy's reserve;
    `wire` the form of the request. `origin` tells apart what is built from the same for different rooms.
    """
    info = _model(model, wire)
    chosen = _policy(policy, overrides)
    return _assembled(
        Inputs(
            packages=_checked(packages),
            policy=chosen,
            model=info,
            method=chosen.counting,
            now=time.time() if now is None else _moment(now),
            window=_positive("window", window),
            completion=_positive("completion", completion),
            tools=_tools(tools),
            previous=_previous(previous),
            degraded=_degraded(degraded),
            origin=sound_text("origin", origin, InvalidValue),
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
        raise InvalidValue("context", f"must be a Context, not {shown(context)}")
    inputs = context.inputs
    chosen = inputs.policy if policy is None and overrides is None else _policy(policy or inputs.policy, overrides)
    own_window = inputs.window if model is None else None
    return _assembled(
        msgspec.structs.replace(
            inputs,
            model=inputs.model if model is None else _model(model, None),
            policy=chosen,
            method=chosen.counting,
            window=own_window if window is None else _positive("window", window),
            completion=inputs.completion if completion is None else _positive("completion", completion),
        )
    )


def package(
    kind: str, content: str | tuple[Part, ...] | list[Part], *, model: str | ModelInfo, **options: Unpack[Options]
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
    history = read_history(_listed("messages", messages))
    return package_conversation(history, counter=counter(model), start=start, min_tokens=min_tokens)


def counter(model: str | ModelInfo, *, method: Method = "hybrid") -> TokenCounter:
    """Return the counter for a model: `hybrid` takes the best one at hand, and each count says which that was."""
    if method not in METHODS:
        raise InvalidValue("method", f"must be one of {', '.join(METHODS)}, not {shown(method)}")
    return counter_for(_model(model, None), method)


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
        _policy(policy, overrides),
        _model(model, None),
        window=_positive("window", window),
        completion=_positive("completion", completion),
    )


def _assembled(inputs: Inputs) -> Context:
    return assemble_inputs(
        inputs, counter=counter_for(inputs.model, inputs.method), renderer=renderer_for(inputs.model.wire)
    )


def _model(model: str | ModelInfo, wire: Wire | None) -> ModelInfo:
    if not isinstance(model, str | ModelInfo):
        raise InvalidValue("model", f"must be a name or a ModelInfo, not {shown(model)}")
    sound_text("model", model if isinstance(model, str) else model.id, InvalidValue)
    if wire is not None and wire not in WIRES:
        raise InvalidValue("wire", f"must be one of {', '.join(WIRES)}, not {shown(wire)}")
    info = default_registry().resolve(model) if isinstance(model, str) else model
    return info if wire is None else msgspec.structs.replace(info, wire=wire)


def _policy(policy: str | Path | Policy, overrides: Mapping[str, Any] | Overrides | None) -> Policy:
    keys = overrides.keys() if isinstance(overrides, Overrides) else overrides
    return load_policy(policy, overrides=keys, environ=os.environ)


def _checked(packages: Iterable[ContentPackage]) -> tuple[ContentPackage, ...]:
    given = tuple(_listed("packages", packages))
    for at, entry in enumerate(given):
        if not isinstance(entry, ContentPackage):
            raise InvalidValue(f"packages[{at}]", f"must be a ContentPackage, not {type(entry).__name__}")
    if not given:
        raise InvalidValue("packages", "must not be empty: there is nothing to send")
    return given


def _listed(field: str, values: object) -> list[Any]:
    if isinstance(values, Mapping) or not isinstance(values, Iterable):
        raise InvalidValue(field, f"must be a list, not {shown(values)}")
    return list(values)


def _degraded(warnings: object) -> tuple[str, ...]:
    """Return what the caller has to say, as a report can show it."""
    if isinstance(warnings, str):
        raise InvalidValue("degraded", f"must be a list of texts, not the text {shown(warnings)}")
    listed = enumerate(_listed("degraded", warnings))
    return tuple(clean_text(checked_text(f"degraded[{at}]", warning, InvalidValue)) for at, warning in listed)


def _tools(tools: Sequence[Tool | Mapping[str, Any]]) -> tuple[Tool, ...]:
    ours = []
    for at, tool in enumerate(_listed("tools", tools)):
        if not isinstance(tool, Tool | Mapping):
            raise InvalidValue(f"tools[{at}]", f"must be a Tool or a tool in OpenAI's form, not {shown(tool)}")
        ours.append(tool if isinstance(tool, Tool) else read_tool(dict(tool), f"tools[{at}]"))
    return tuple(ours)


def _previous(previous: Context | Previous | None) -> Previous | None:
    if previous is not None and not isinstance(previous, Context | Previous):
        raise InvalidValue("previous", f"must be the context before this one, not {type(previous).__name__}")
    return previous.history if isinstance(previous, Context) else previous


def _moment(now: float | datetime) -> float:
    try:
        moment = seconds(now)
    except InvalidValue as error:
        raise InvalidValue("now", error.reason) from None
    return moment


def _positive(field: str, value: int | None) -> int | None:
    if value is not None and not is_whole(value):
        raise InvalidValue(field, f"must be a positive whole number of tokens, not {shown(value)}")
    return value
