"""Validate and resolve the arguments of the public functions: models, policies, tools, timestamps."""

import inspect
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from difflib import get_close_matches
from functools import wraps
from pathlib import Path
from typing import Any, Final, ParamSpec, TypeVar

import msgspec

from brimful.core.context import Context, Inputs
from brimful.core.frame import Frame
from brimful.core.model import ModelInfo
from brimful.core.notice import NOTICE_KINDS, Notice
from brimful.core.policy import Policy
from brimful.core.prompt import Tool
from brimful.core.selection import HistoryStart
from brimful.core.validation import (
    TOO_DEEP,
    clean_data,
    clean_text,
    is_whole_number,
    preview,
    require_json_object,
    require_unicode,
)
from brimful.core.validation import require_text as checked_text
from brimful.counting import template_names
from brimful.errors import InvalidValue
from brimful.models import default_registry
from brimful.packagers.package import to_timestamp as _package_timestamp
from brimful.policies import Overrides, load_policy
from brimful.wires import read_tool
from brimful.wires.registry import all_wires, find_written_wire

_P = ParamSpec("_P")
_R = TypeVar("_R")
_MEANT: Final = {
    "max_tokens": "completion (tokens reserved for the answer) or max_prompt_tokens",
    "max_completion_tokens": "completion",
    "max_output_tokens": "completion",
    "max_input_tokens": "max_prompt_tokens",
    "token_limit": "max_prompt_tokens",
    "context_window": "window",
    "messages": "the request itself, as the first argument: {'messages': [...]}",
}
"""What options of other libraries are called here."""


def name_options(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Decorate a function so that an unknown option is answered with the right one."""
    known = inspect.signature(function).parameters

    @wraps(function)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        for name in kwargs.keys() - known.keys():
            near = _MEANT.get(name) or " or ".join(get_close_matches(name, known)) or f"one of {', '.join(known)}"
            raise TypeError(f"{function.__name__}() has no option {name!r}: use {near}")
        return function(*args, **kwargs)

    return call


def resolve_model(
    model: str | ModelInfo, wire: str | None = None, betas: Sequence[str] = (), tokenizer: str | Path | None = None
) -> ModelInfo:
    """Return a model by name, with another wire format, beta features and another tokenizer if they are given."""
    if not isinstance(model, str | ModelInfo):
        raise InvalidValue("model", f"must be a name or a ModelInfo, not {preview(model)}")
    require_unicode("model", model if isinstance(model, str) else model.id, InvalidValue)
    if wire is not None:
        find_written_wire(wire)
    if isinstance(betas, str) or not all(isinstance(beta, str) for beta in require_list("betas", betas)):
        raise InvalidValue("betas", f"must be a list of names, not {preview(betas)}")
    info = (default_registry().resolve(model) if isinstance(model, str) else model).with_betas(betas)
    if tokenizer is not None:
        if not isinstance(tokenizer, str | Path):
            raise InvalidValue("tokenizer", f"must be a name or a path, not {preview(tokenizer)}")
        info = info.with_tokenizer(str(tokenizer))
    return info if wire is None else msgspec.structs.replace(info, wire=wire)


def resolve_recorded(inputs: Inputs, tokenizer: str | Path | None) -> Inputs:
    """Return the inputs of a record, with another tokenizer if one is given.

    Raises if the record names a file that its reader does not: a stranger's record must not open files.
    """
    model = resolve_model(inputs.model, tokenizer=tokenizer)
    rows = default_registry()
    if tokenizer is None and model.has_tokenizer_file and all(row.tokenizer != model.tokenizer for row in rows):
        raise _foreign_file("tokenizer", model.tokenizer, "pass it as the tokenizer if you trust it, or")
    template = model.chat_template
    if template and template not in template_names() and all(row.chat_template != template for row in rows):
        raise _foreign_file("chat_template", template, "add it there if you trust it, or")
    return msgspec.structs.replace(inputs, model=model)


def _foreign_file(field: str, file: str | None, remedy: str) -> InvalidValue:
    shown = repr(file)  # in full: whether to trust it depends on where it is
    named = f"the record names the file {shown}, which your model file does not"
    return InvalidValue(field, f"{named}: {remedy} choose another model")


def resolve_policy(
    policy: str | Path | Policy, overrides: Mapping[str, Any] | Overrides | None, max_prompt_tokens: int | None = None
) -> Policy:
    """Return a policy with overrides from the environment and the caller applied."""
    keys = overrides.keys() if isinstance(overrides, Overrides) else overrides
    return with_prompt_limit(load_policy(policy, overrides=keys, environ=os.environ), max_prompt_tokens)


def with_prompt_limit(policy: Policy, max_prompt_tokens: int | None) -> Policy:
    """Return a policy whose requests have at most this many tokens."""
    limit = require_positive("max_prompt_tokens", max_prompt_tokens)
    if limit is None or (policy.total_tokens is not None and policy.total_tokens <= limit):
        return policy
    return msgspec.structs.replace(policy, total_tokens=limit)


def resolve_tools(tools: Sequence[Tool | Mapping[str, Any]]) -> tuple[Tool, ...]:
    """Convert tools in OpenAI's format to `Tool`."""
    ours = []
    for index, tool in enumerate(require_list("tools", tools)):
        if not isinstance(tool, Tool | Mapping):
            raise InvalidValue(f"tools[{index}]", f"must be a Tool or a tool in OpenAI's format, not {preview(tool)}")
        ours.append(tool if isinstance(tool, Tool) else read_tool(dict(tool), f"tools[{index}]"))
    return tuple(ours)


def make_frame(fields: Mapping[str, Any], name: str) -> Frame:
    """Return a frame with a caller's fields for messages of our own."""
    if not isinstance(fields, Mapping):
        raise InvalidValue("fields", f"must be the fields of a request, not {preview(fields)}")
    wire = find_written_wire(name)
    if not wire.takes_fields and "model" not in fields:
        names = ", ".join(wire.name for wire in all_wires() if wire.takes_fields)
        raise InvalidValue("fields", f"are supported for the wire formats {names}, not {name}")
    try:
        own = wire.own_fields(dict(fields))
        plain = clean_data({key: value for key, value in fields.items() if key not in own})
    except RecursionError:
        raise InvalidValue("fields", TOO_DEEP) from None
    except TypeError as error:
        raise InvalidValue("fields", f"must be plain JSON data ({error})") from None
    whole = require_json_object("fields", plain, InvalidValue)
    return Frame(wire=name, fields=whole, messages=())


def resolve_previous(previous: Context | HistoryStart | None) -> HistoryStart | None:
    """Return where history began in the previous context."""
    if previous is not None and not isinstance(previous, Context | HistoryStart):
        raise InvalidValue("previous", f"must be the previous context, not {type(previous).__name__}")
    return previous.history if isinstance(previous, Context) else previous


def resolve_notices(degraded: object) -> tuple[Notice, ...]:
    """Return a caller's notices. A plain string becomes a notice of the kind `other`."""
    if isinstance(degraded, str):
        raise InvalidValue("degraded", f"must be a list of notices, not the string {preview(degraded)}")
    return tuple(_resolve_notice(i, each) for i, each in enumerate(require_list("degraded", degraded)))


def _resolve_notice(index: int, notice: object) -> Notice:
    if not isinstance(notice, Notice):
        return Notice(kind="other", text=clean_text(checked_text(f"degraded[{index}]", notice, InvalidValue)))
    if notice.kind not in NOTICE_KINDS:
        known = ", ".join(NOTICE_KINDS)
        raise InvalidValue(f"degraded[{index}].kind", f"must be one of {known}, not {preview(notice.kind)}")
    text = clean_text(checked_text(f"degraded[{index}].text", notice.text, InvalidValue))
    facts = require_json_object(f"degraded[{index}].facts", notice.facts, InvalidValue)
    return Notice(kind=notice.kind, text=text, facts=facts)


def to_timestamp(now: float | datetime) -> float:
    """Return a time as seconds since 1970."""
    try:
        return _package_timestamp(now)
    except InvalidValue as error:
        raise InvalidValue("now", error.reason) from None


def require_positive(field: str, value: int | None) -> int | None:
    """Return a number of tokens, or None."""
    if value is not None and not is_whole_number(value):
        raise InvalidValue(field, f"must be a positive whole number of tokens, not {preview(value)}")
    return value


def require_positions(field: str, positions: object, count: int) -> tuple[int, ...]:
    """Return indices of a request's messages, of which there are `count`."""
    if isinstance(positions, str):
        raise InvalidValue(field, f"must be a list of indices, not {preview(positions)}")
    found = require_list(field, positions)
    for position in found:
        if type(position) is not int or not 0 <= position < count:
            reason = f"must be indices of the request's messages, from 0 to {count - 1:,}"
            raise InvalidValue(field, f"{reason}, not {preview(position)}")
    return tuple(found)


def require_ties(ties: object, count: int) -> tuple[tuple[int, ...], ...]:
    """Return groups of indices of a request's messages, of which there are `count`."""
    groups = enumerate(require_list("ties", ties))
    found = tuple(require_positions(f"ties[{i}]", group, count) for i, group in groups)
    for index, group in enumerate(found):
        if len(set(group)) < 2:  # noqa: PLR2004 - a tie
            raise InvalidValue(f"ties[{index}]", "must have at least two messages, such as (3, 4)")
    return found


def require_list(field: str, values: object) -> list[Any]:
    """Return an iterable as a list."""
    if isinstance(values, Mapping) or not isinstance(values, Iterable):
        raise InvalidValue(field, f"must be a list, not {preview(values)}")
    return list(values)
