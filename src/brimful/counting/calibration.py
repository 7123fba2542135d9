"""Counting for a model whose tokenizer is not public: another tokenizer's count, times a factor, with a margin."""

import math

import msgspec

from brimful.core.model import UNKNOWN_PRIOR, ModelInfo
from brimful.core.tokens import Count


class Calibration(msgspec.Struct, frozen=True, kw_only=True):
    """How a base tokenizer's count becomes a model's: times `factor`; `margin` is the share that it may miss.

    It starts as the registry's prior. Observed usage replaces it by a better one.

    >>> Calibration(tokenizer="o200k_base", factor=1.5, margin=0.1).scale(100)
    Count(tokens=150, basis='calibrated', tokenizer='o200k_base*1.5+10%', margin=15)
    """

    tokenizer: str
    factor: float = 1.0
    margin: float = 0.0

    @property
    def name(self) -> str:
        """The name of the counts: equal names give equal numbers."""
        return f"{self.tokenizer}*{self.factor:g}+{self.margin * 100:g}%"

    def scale(self, base: int) -> Count:
        """Turn the base tokenizer's count into the model's, both parts rounded up."""
        tokens = _ceil(base * self.factor)
        return Count(tokens=tokens, basis="calibrated", tokenizer=self.name, margin=_ceil(tokens * self.margin))


def prior_of(model: ModelInfo) -> Calibration:
    """Return what is known before any usage was seen: the registry's prior, or the default one.

    A model with a public tokenizer needs no factor.
    """
    if model.prior is None and model.tokenizer is not None:
        return Calibration(tokenizer=model.tokenizer)
    prior = model.prior or UNKNOWN_PRIOR
    return Calibration(tokenizer=prior.tokenizer, factor=prior.factor, margin=prior.margin)


def _ceil(value: float) -> int:
    # 100 * 1.1 is 110.00000000000001: what is a whole number on paper must not be rounded up.
    return math.ceil(round(value, 6))
