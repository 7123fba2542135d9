"""Counts that learn: from what providers reported, a better calibration. Pure functions of observations."""

from collections.abc import Sequence
from statistics import median

import msgspec

from brimful.core.model import ModelInfo, Prior
from brimful.counting.calibration import prior_of
from brimful.observation import Observation


def calibrated(model: ModelInfo, observations: Sequence[Observation], *, route: str) -> ModelInfo:
    """Return the model with a prior learned from what was observed of it on a route, newest first; or as it is.

    Put it into `assemble`: so the record holds what was learned, and replays to itself. It changes rarely, not with
    every request.
    """
    usable = [each for each in observations if each.kind == "usage" and each.reported and each.features.get("tokens")]
    if model.tokenizer is not None or not usable:
        return model
    calibration = prior_of(model)
    ratios = [(each.reported - each.features["fixed"]) / each.features["tokens"] for each in usable]
    factor = round(median(ratios), 4)
    margin = max(0.02, *(abs(ratio / factor - 1) for ratio in ratios)) * (1 + 2 / len(ratios))
    prior = Prior(
        tokenizer=calibration.tokenizer,
        factor=factor,
        margin=round(margin, 4),
        source=f"learned from {len(usable)} requests on {route}",
    )
    return msgspec.structs.replace(model, prior=prior)


def learned_window(observations: Sequence[Observation]) -> int | None:
    """Return the window that a server told when it refused a prompt; None if it never did, or took more since then.

    `observations` are of one model on one route, newest first.
    """
    largest = 0
    for each in observations:
        if each.kind == "overflow" and each.window is not None:
            return each.window if largest <= each.window else None
        largest = max(largest, each.reported)
    return None
