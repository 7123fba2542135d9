"""A request that somebody else wrote, made to fit: the oldest turns go first, and all that stays is as it was."""

import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from brimful.arguments import model_of, moment_of, notes_of, policy_of, positive, previous_of
from brimful.assembly import assembled
from brimful.core.budget import less_for_the_answer
from brimful.core.check import sound_text
from brimful.core.context import Context, Inputs
from brimful.core.model import ModelInfo
from brimful.core.policy import Policy
from brimful.core.selection import Previous
from brimful.counting import counter_for
from brimful.errors import BudgetExceeded, InvalidValue
from brimful.packagers.given import package_turns
from brimful.policies import Overrides
from brimful.render.given import GivenWire, frame_of, read_given


def fit(  # noqa: PLR0913 - every one has a default but the request
    request: dict[str, Any],
    *,
    wire: GivenWire = "openai",
    model: str | ModelInfo | None = None,
    policy: str | Path | Policy = "fit",
    previous: Context | Previous | None = None,
    window: int | None = None,
    completion: int | None = None,
    min_tokens: int | None = None,
    overrides: Mapping[str, Any] | Overrides | None = None,
    now: float | datetime | None = None,
    degraded: Sequence[str] = (),
    origin: str = "",
) -> Context:
    """Make a given request fit, and return it with the record of what was left out; `request` of that is to be sent.

    Fields and messages are passed on as they are, known or not. System messages, the last words of the user and
    whatever ends the conversation are required; a tool call and its results are one. `completion` is the request's own
    limit for the answer, unless it is given. With `min_tokens`, texts may be cut down to so many tokens. `previous` is
    the context of the conversation's last request: history then begins where it began, for the sake of prompt caches.
    """
    given = read_given(request, wire)
    info = model_of(given.model if model is None else model, wire)
    chosen = policy_of(policy, overrides)
    own = given.completion if completion is None else positive("completion", completion)
    frame = frame_of(request, given, wire, user_first=wire == "anthropic" or info.alternate)
    inputs = Inputs(
        packages=package_turns(
            given.system,
            [turn.said for turn in given.turns],
            frame,
            counter=counter_for(info, chosen.counting),
            names=not info.names_in_text,
            min_tokens=positive("min_tokens", min_tokens),
        ),
        policy=chosen,
        model=info,
        method=chosen.counting,
        now=time.time() if now is None else moment_of(now),
        window=positive("window", window),
        completion=own,
        tools=given.tools,
        previous=previous_of(previous),
        degraded=notes_of(degraded),
        origin=sound_text("origin", origin, InvalidValue),
        frame=frame,
    )
    raw = given.raw if min_tokens is None else ()
    try:
        return assembled(inputs, raw=raw)
    except BudgetExceeded:
        smaller = _with_less_for_the_answer(inputs)
        if smaller is None or completion is not None:
            raise
        return assembled(smaller, raw=raw)


def _with_less_for_the_answer(inputs: Inputs) -> Inputs | None:
    """Return the same with the policy's reserve, where the request asks for more."""
    note = less_for_the_answer(inputs.policy, inputs.model, window=inputs.window, completion=inputs.completion)
    return None if note is None else msgspec.structs.replace(inputs, completion=None, degraded=(*inputs.degraded, note))
