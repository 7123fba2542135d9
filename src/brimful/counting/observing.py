"""Observations: what a finished request was counted at, beside what its provider said of it."""

from typing import Final

from brimful.core.context import Context
from brimful.core.model import ModelInfo
from brimful.counting.calibration import prior_of
from brimful.counting.counters import counter_for
from brimful.counting.learned import raw_counts
from brimful.errors import ContextOverflow
from brimful.observation import Observation, ObservationKind
from brimful.records import Usage
from brimful.render import renderer_of

LEAST_GAP: Final = 64  # tokens: a template that differs may miss so many, and nothing was cut
SURE_GAP: Final = 0.05  # of an exact count
UNSURE_GAP: Final = 0.10  # of a calibrated count, on top of twice its margin


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
    where that is another.
    """
    counted, margin = _counted(context)
    return Observation(
        id=id,
        model=observed_id(context.inputs.model),
        route=route,
        at=at,
        kind=_kind(context, usage, counted, margin),
        context=snapshot or context.id,
        room=room,
        counted=counted,
        margin=margin,
        basis=context.verification.basis,
        tokenizer=prior_of(context.inputs.model).tokenizer,
        features=features_of(context),
        reported=usage.prompt,
        cached=usage.cached,
        expected_cached=expected_cached,
        completion=usage.completion,
        reasoning=usage.reasoning,
    )


def overflow_of(
    context: Context, error: ContextOverflow, *, route: str, at: float, id: str, room: str | None = None
) -> Observation:
    """Return what is to be kept of a request that was refused as too long. Pure."""
    counted, margin = _counted(context)
    return Observation(
        id=id,
        model=observed_id(context.inputs.model),
        route=route,
        at=at,
        kind="overflow",
        context=context.id,
        room=room,
        counted=counted,
        margin=margin,
        basis=context.verification.basis,
        reported=error.prompt or 0,
        window=error.window,
    )


def observed_id(model: ModelInfo) -> str:
    """Return the name under which a model is observed: one for all of its spellings."""
    return model.canonical or model.id


def features_of(context: Context) -> dict[str, float]:
    """Return the sums over a finished request that its count is made of."""
    model, method = context.inputs.model, context.inputs.method
    if method == "approximate" or (model.tokenizer is not None and method != "calibrated"):
        return {}
    prompt = renderer_of(context.inputs).parse(context.request)
    counter = counter_for(model, method)
    calibration = prior_of(model)
    texts = [text for message in prompt.messages for part in message.parts for text in _texts(part)]
    tokens = sum(raw_counts(calibration.tokenizer, texts))
    scaled = sum(count.tokens for count in counter.texts(texts))
    return {"tokens": tokens, "fixed": context.verification.tokens - context.verification.margin - scaled}


def _texts(part: object) -> list[str]:
    text = getattr(part, "text", None) or getattr(part, "content", None)
    return [text] if isinstance(text, str) else []


def _counted(context: Context) -> tuple[int, int]:
    verification = context.verification
    return verification.tokens - verification.margin, verification.margin


def _kind(context: Context, usage: Usage, counted: int, margin: int) -> ObservationKind:
    """Say whether so few tokens were reported that some of the prompt cannot have been read."""
    exact = context.verification.basis == "exact"
    share = SURE_GAP if exact else UNSURE_GAP + 2 * margin / max(1, counted)
    return "cut" if usage.prompt and counted - usage.prompt > max(LEAST_GAP, share * counted) else "usage"
