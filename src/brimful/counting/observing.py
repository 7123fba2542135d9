"""Observations: what a finished request was counted at, beside what its provider said of it."""

from brimful.core.context import Context
from brimful.core.model import ModelInfo
from brimful.core.prompt import Media, Prompt
from brimful.core.tokens import Count
from brimful.counting.calibration import prior_of
from brimful.counting.counters import features_of
from brimful.counting.features import Features, things_in
from brimful.counting.media import MediaCounter
from brimful.counting.truncation import find_cut, tells_the_rest
from brimful.errors import ContextOverflow
from brimful.observation import Observation
from brimful.records import Usage
from brimful.render import renderer_of


def observation_of(
    context: Context,
    usage: Usage,
    *,
    route: str,
    at: float,
    id: str,
    room: str | None = None,
    expected_cached: int = 0,
    snapshot: str | None = None,
) -> Observation:
    """Return what is to be kept of an answered request: write it with `store.observe`. Pure.

    `id` makes it one: the response's id will do. `expected_cached` is the prefix that should have been in the cache.
    Whether the provider cut the prompt silently is told by its `kind`. `snapshot` is the context's id in the store,
    where that is another. Of a server that reports only what it read anew, nothing is to be learned.
    """
    count = _count(context)
    measured = _measured(context)
    rest = tells_the_rest(count, usage, shared=expected_cached)
    media = int(measured.get("media", 0.0))
    return Observation(
        id=id,
        model=observed_id(context.inputs.model),
        route=route,
        at=at,
        kind="cut" if find_cut(count, usage, shared=expected_cached, unsure=media) else "usage",
        context=snapshot or context.id,
        room=room,
        counted=count.tokens,
        margin=count.margin,
        basis=count.basis,
        tokenizer=prior_of(context.inputs.model).tokenizer,
        features={} if rest else measured,
        reported=0 if rest else usage.prompt,
        cached=usage.cached,
        expected_cached=expected_cached,
        completion=usage.completion,
        reasoning=usage.reasoning,
    )


def overflow_of(
    context: Context, error: ContextOverflow, *, route: str, at: float, id: str, room: str | None = None
) -> Observation:
    """Return what is to be kept of a request that was refused as too long. Pure."""
    count = _count(context)
    return Observation(
        id=id,
        model=observed_id(context.inputs.model),
        route=route,
        at=at,
        kind="overflow",
        context=context.id,
        room=room,
        counted=count.tokens,
        margin=count.margin,
        basis=count.basis,
        reported=error.prompt or 0,
        window=error.window,
    )


def observed_id(model: ModelInfo) -> str:
    """Return the name under which a model is observed: one for all of its spellings."""
    return model.canonical or model.id


def _count(context: Context) -> Count:
    verified = context.verification
    return Count(tokens=verified.tokens - verified.margin, basis=verified.basis, margin=verified.margin)


def _measured(context: Context) -> Features:
    """Return what the count of the request is made of. An exact count is not made twice: it stands in the record."""
    model, method = context.inputs.model, context.inputs.method
    if method == "approximate":
        return {}
    prompt = renderer_of(context.inputs).parse(context.request)
    if model.tokenizer is None or method == "calibrated":
        measured = features_of(model, method, prompt)
    else:
        measured = things_in(prompt) | {"media": float(_media(prompt, MediaCounter.of(model)))}
        measured["fixed"] = _count(context).tokens - measured["media"] - prior_of(model).correction(measured)
    return {name: value for name, value in measured.items() if value}


def _media(prompt: Prompt, counter: MediaCounter) -> int:
    parts = (part for message in prompt.messages for part in message.parts)
    return sum(counter.count(part).tokens for part in parts if isinstance(part, Media))
