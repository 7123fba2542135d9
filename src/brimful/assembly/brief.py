"""Briefs: what a helper needs of its parent's conversation, with handles by which it gets more."""

import time
from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Final

import msgspec

from brimful.assembly.arguments import require_positive, resolve_model, resolve_policy, to_timestamp
from brimful.assembly.assemble import build_context
from brimful.assembly.messages import plain_messages
from brimful.core.brief import is_briefed, write_brief
from brimful.core.content import ContentPackage, Flex
from brimful.core.context import Context, Inputs
from brimful.core.cost import OWN_KEY, is_question
from brimful.core.handles import Handles, find_names
from brimful.core.media import candidate_ids
from brimful.core.model import ModelInfo
from brimful.core.prompt import TokenCounter
from brimful.core.recall import Recalled
from brimful.core.validation import preview, require_text
from brimful.counting import counter_for
from brimful.errors import InvalidValue
from brimful.packagers.incoming import package_turns
from brimful.wires.incoming import make_frame, read_incoming
from brimful.wires.registry import DEFAULT_WIRE, find_incoming_wire

_POLICY: Final = "fit"  # of the helper's first request, which only has the brief and the task
BRIEF_ID: Final = "brief"
"""The id of a brief among the packages of its context."""


class Brief(msgspec.Struct, frozen=True, kw_only=True):
    """What a helper needs of its parent's conversation: a `text` of so many `tokens`, empty if there is nothing.

    The `context` is the record: the helper's first request with the brief and the task, and all messages of the parent.
    Pass it to `brimful.recall_tool` to let the helper ask for texts that were shortened or left out.
    """

    text: str
    tokens: int
    context: Context

    def recall(
        self, handle: str = "", *, query: str = "", max_tokens: int = 1_000, earlier: Sequence[Context] = ()
    ) -> Recalled:
        """Return a message of the parent by its handle, or the passages of all of them that match a query."""
        return self.context.recall(handle, query=query, max_tokens=max_tokens, earlier=earlier)


def brief(
    messages: Iterable[object],
    task: str,
    budget: int,
    *,
    model: str | ModelInfo,
    wire: str = DEFAULT_WIRE,
    tokenizer: str | Path | None = None,
    now: float | datetime | None = None,
) -> Brief:
    """Return what a helper needs of its parent's conversation for its own task, in at most `budget` tokens.

    It has what was said, the values of the parent's steps and the passages of their results that matter for the task,
    each with its handle. System messages are left out. Pass it as a message of its own before the helper's task.

    - `messages`: the parent's conversation, in the format of `wire`.
    - `task`: what the helper is asked to do.
    - `model`: the helper's model, whose tokens are counted; `tokenizer` as in `fit`.
    """
    require_budget(task, budget)
    form = find_incoming_wire(wire)
    info = resolve_model(model, tokenizer=tokenizer)
    turns = [*plain_messages(messages, form), form.write_text("user", task)]
    request = {"model": info.id, form.message_field: turns}
    incoming = read_incoming(request, wire)
    policy = resolve_policy(_POLICY, None)
    packages = package_turns(
        (),
        [turn.messages for turn in incoming.turns],
        make_frame(request, incoming, form, user_first=False),
        counter=counter_for(info, policy.counting),
        names=True,
        ties=incoming.ties,
    )
    moment = time.time() if now is None else to_timestamp(now)
    inputs = Inputs(packages=packages, policy=policy, model=info, method=policy.counting, now=moment)
    return make_brief(inputs, budget)


def require_budget(task: object, budget: object) -> None:
    """Raise an error unless there are a task and a number of tokens."""
    if not require_text("task", task, InvalidValue).strip():
        raise InvalidValue("task", "must say what the helper is asked to do")
    if budget is None:
        raise InvalidValue("budget", f"must be a positive whole number of tokens, not {preview(budget)}")
    require_positive("budget", budget)  # type: ignore[arg-type]


def make_brief(inputs: Inputs, budget: int) -> Brief:
    """Return the brief of all packages for the current message among them, with a context in which it covers them."""
    counter = counter_for(inputs.model, inputs.method)
    handles = Handles(candidate_ids(inputs.packages), find_names(inputs.packages))
    text = write_brief(inputs.packages, budget, counter, handles)
    packages = [each if is_question(each) else _exclude(each) for each in inputs.packages]
    if text:
        covered = sorted({each.id for each in inputs.packages if is_briefed(each)})
        packages.append(_package_brief(text, covered, counter))
    context = build_context(
        Inputs(
            packages=tuple(packages),
            policy=resolve_policy(_POLICY, None),
            model=inputs.model,
            method=inputs.method,
            now=inputs.now,
            window=inputs.window,
            degraded=inputs.degraded,
            origin=inputs.origin,
            focus=inputs.focus,
            unread=inputs.unread,
        )
    )
    return Brief(text=text, tokens=counter.text(text).upper if text else 0, context=context)


def _exclude(package: ContentPackage) -> ContentPackage:
    return msgspec.structs.replace(package, excluded=package.excluded or "it is part of the parent's conversation")


def _package_brief(text: str, covered: Sequence[str], counter: TokenCounter) -> ContentPackage:
    return ContentPackage(
        id=BRIEF_ID,
        kind="message-recent",
        content=text,
        tokens=counter.text(text),
        role="user",
        flex=Flex(can_drop=False, can_shrink=False),
        covers=tuple(covered),
        metadata={OWN_KEY: True},
    )
