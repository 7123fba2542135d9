"""Counting for a model whose tokenizer is not public: another tokenizer's count, times a factor, with a margin.

What was learned from usage adds weights: so much for each sign of a sort in a text, and for each thing in a request.
"""

import hashlib
import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Final

import msgspec

from brimful.core import check
from brimful.core.model import UNKNOWN_PRIOR, ModelInfo
from brimful.core.tokens import Count
from brimful.counting.features import FEATURES, SIGNS, THINGS, Signs, weighed
from brimful.errors import InvalidModel

LEAST_SHARE: Final = 0.5  # of the base count times its factor: no weights bring a text below it

Weights = tuple[tuple[str, float], ...]
"""Tokens for one of each feature, by its name; one that is missing weighs nothing."""


class Calibration(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """How a base tokenizer's count becomes a model's: times `factor`; `margin` is the share that it may miss.

    It starts as the registry's prior. Observed usage replaces it by a better one, with `weights`: what each sign of a
    sort and each thing in a request costs on top; `spread` is what each of them adds to the margin.

    >>> Calibration(tokenizer="o200k_base", factor=1.5, margin=0.1).scale(100)
    Count(tokens=150, basis='calibrated', tokenizer='o200k_base*1.5+10%', margin=15)
    """

    tokenizer: str
    factor: float = 1.0
    margin: float = 0.0
    weights: Weights = ()
    spread: Weights = ()

    @cached_property
    def name(self) -> str:
        """The name of the counts: equal names give equal numbers."""
        plain = f"{self.tokenizer}*{self.factor:g}+{self.margin * 100:g}%"
        return f"{plain}~{self._digest}" if self.learned else plain

    @property
    def learned(self) -> bool:
        """Whether there is more to it than a factor and a margin."""
        return bool(self.weights or self.spread)

    def scale(self, base: int, signs: Signs = ()) -> Count:
        """Turn the base tokenizer's count of a text into the model's, both parts rounded up; `signs` are the text's."""
        plain = base * self.factor
        tokens, spread = plain, 0.0
        if signs:
            tokens = max(plain * LEAST_SHARE, plain + _dot(self._signs[0], signs))
            spread = _dot(self._signs[1], signs)
        whole = ceiling(tokens)
        return Count(
            tokens=whole, basis="calibrated", tokenizer=self.name, margin=ceiling(whole * self.margin + spread)
        )

    def count(self, features: Mapping[str, float]) -> Count:
        """Count a request by its features: its `tokens` by the base tokenizer, what is `fixed`, and all that weighs."""
        plain = features.get("tokens", 0.0) * self.factor
        text = max(plain * LEAST_SHARE, plain + weighed(features, SIGNS, self._weights))
        around = features.get("fixed", 0.0) + features.get("media", 0.0)
        tokens = _bounded(round(text + around + self.correction(features)))
        margin = _bounded(ceiling(tokens * self.margin + weighed(features, FEATURES, self._spread)))
        return Count(tokens=tokens, basis="calibrated", tokenizer=self.name, margin=margin)

    def correction(self, features: Mapping[str, float]) -> float:
        """Return what was learned of things in a request: the tokens that they cost beyond what is counted for them."""
        return weighed(features, THINGS, self._weights)

    def of_thing(self, thing: str) -> tuple[float, float]:
        """Return what one of a thing in a request weighs, and what it adds to the margin."""
        return self._weights.get(thing, 0.0), self._spread.get(thing, 0.0)

    @cached_property
    def _weights(self) -> dict[str, float]:
        return dict(self.weights)

    @cached_property
    def _spread(self) -> dict[str, float]:
        return dict(self.spread)

    @cached_property
    def _signs(self) -> tuple[list[float], list[float]]:
        return [self._weights.get(sign, 0.0) for sign in SIGNS], [self._spread.get(sign, 0.0) for sign in SIGNS]

    @cached_property
    def _digest(self) -> str:
        return hashlib.blake2b(msgspec.json.encode([self.weights, self.spread]), digest_size=4).hexdigest()


def prior_of(model: ModelInfo) -> Calibration:
    """Return what is known of the model: what was learned of it, the registry's prior, or the default one.

    A model with a public tokenizer needs no factor.
    """
    if model.prior is None and model.tokenizer is not None:
        return Calibration(tokenizer=model.tokenizer)
    prior = model.prior or UNKNOWN_PRIOR
    unknown = [name for name, _ in (*prior.weights, *prior.spread) if name not in FEATURES]
    if unknown:
        raise InvalidModel(model.id, "prior.weights", f"no feature {unknown[0]!r}; known: {', '.join(FEATURES)}")
    return Calibration(
        tokenizer=prior.tokenizer,
        factor=prior.factor,
        margin=prior.margin,
        weights=prior.weights,
        spread=prior.spread,
    )


def ceiling(value: float) -> int:
    """Round up, but not what is a whole number on paper: 100 * 1.1 is 110.00000000000001.

    >>> ceiling(100 * 1.1), ceiling(100.2)
    (110, 101)
    """
    return math.ceil(round(value, 6))


def _bounded(tokens: int) -> int:
    return min(max(0, tokens), check.LARGEST)


def _dot(weights: Sequence[float], signs: Signs) -> float:
    return sum(weight * sign for weight, sign in zip(weights, signs, strict=True) if sign)
