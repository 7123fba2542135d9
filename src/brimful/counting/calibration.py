"""Calibrated counts for models whose tokenizer is not public.

A calibration turns a base tokenizer's count into an estimate of the model's count: times a factor, plus a margin for
the error. Calibrations learned from reported usage also have weights: tokens per character class, and per message,
tool call, tool, media token and request.
"""

import hashlib
import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Final, Protocol

import msgspec

from brimful.core import validation
from brimful.core.content import Media, Role, ToolCall
from brimful.core.model import UNKNOWN_PRIOR, ModelInfo
from brimful.core.prompt import Prompt, TokenCounter
from brimful.core.tokens import Count
from brimful.counting.features import (
    CHARACTER_CLASSES,
    FEATURES,
    REQUEST_FEATURES,
    CharacterCounts,
    Features,
    weighted_sum,
)
from brimful.errors import InvalidModel

MIN_SHARE: Final = 0.5  # of the base count times the factor: weights never reduce a text's count further

Weights = tuple[tuple[str, float], ...]
"""Tokens per unit of each feature. A missing feature has the weight 0."""


class Calibration(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """Turns a base tokenizer's count into a model's: times `factor`, with `margin` as the relative error.

    It starts as the registry's prior. Learned calibrations also have `weights`, the extra tokens per character class
    and request feature, and `spread`, what each of them adds to the margin.

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
        """The name of the counts. Equal names give equal counts."""
        plain = f"{self.tokenizer}*{self.factor:g}+{self.margin * 100:g}%"
        return f"{plain}~{self._digest}" if self.learned else plain

    @property
    def learned(self) -> bool:
        """Whether it has more than a factor and a margin."""
        return bool(self.weights or self.spread)

    def scale(self, base: int, characters: CharacterCounts = ()) -> Count:
        """Convert the base tokenizer's count of a text with these characters. Tokens and margin are rounded up."""
        plain = base * self.factor
        tokens, spread = plain, 0.0
        if characters:
            tokens = max(plain * MIN_SHARE, plain + _dot(self._character_weights, characters))
            spread = _dot(self._character_spread, characters)
        whole = round_up(tokens)
        return Count(
            tokens=whole, basis="calibrated", tokenizer=self.name, margin=round_up(whole * self.margin + spread)
        )

    def count(self, features: Mapping[str, float]) -> Count:
        """Count a request by its features: `tokens` of the base tokenizer, `fixed` tokens, and weighted features."""
        plain = features.get("tokens", 0.0) * self.factor
        text = max(plain * MIN_SHARE, plain + weighted_sum(features, CHARACTER_CLASSES, self._weights))
        around = features.get("fixed", 0.0) + features.get("media", 0.0)
        tokens = _bounded(round(text + around + self.correction(features)))
        margin = _bounded(round_up(tokens * self.margin + weighted_sum(features, FEATURES, self._spread)))
        return Count(tokens=tokens, basis="calibrated", tokenizer=self.name, margin=margin)

    def correction(self, features: Mapping[str, float]) -> float:
        """Return the learned extra tokens of the request's features, apart from its texts."""
        return weighted_sum(features, REQUEST_FEATURES, self._weights)

    def weight_of(self, feature: str) -> tuple[float, float]:
        """Return the weight of a feature, and what it adds to the margin."""
        return self._weights.get(feature, 0.0), self._spread.get(feature, 0.0)

    @cached_property
    def _weights(self) -> dict[str, float]:
        return dict(self.weights)

    @cached_property
    def _spread(self) -> dict[str, float]:
        return dict(self.spread)

    @cached_property
    def _character_weights(self) -> list[float]:
        return [self._weights.get(name, 0.0) for name in CHARACTER_CLASSES]

    @cached_property
    def _character_spread(self) -> list[float]:
        return [self._spread.get(name, 0.0) for name in CHARACTER_CLASSES]

    @cached_property
    def _digest(self) -> str:
        return hashlib.blake2b(msgspec.json.encode([self.weights, self.spread]), digest_size=4).hexdigest()


def default_calibration(model: ModelInfo) -> Calibration:
    """Return the model's prior as a calibration, or the one for unknown models. A public tokenizer needs no factor."""
    if model.prior is None and model.tokenizer is not None:
        return Calibration(tokenizer=model.tokenizer)
    prior = model.prior or UNKNOWN_PRIOR
    unknown = [name for name, _ in (*prior.weights, *prior.spread) if name not in FEATURES]
    if unknown:
        raise InvalidModel(model.id, "prior.weights", f"no feature {unknown[0]!r}; known: {', '.join(FEATURES)}")
    return Calibration(**{field: getattr(prior, field) for field in Calibration.__struct_fields__})


def round_up(value: float) -> int:
    """Round up, ignoring floating-point noise: 100 * 1.1 is 110.00000000000001.

    >>> round_up(100 * 1.1), round_up(100.2)
    (110, 101)
    """
    return math.ceil(round(value, 6))


def _bounded(tokens: int) -> int:
    return min(max(0, tokens), validation.MAX_INTEGER)


def _dot(weights: Sequence[float], characters: CharacterCounts) -> float:
    return sum(weight * count for weight, count in zip(weights, characters, strict=True) if count)


class MeasuringCounter(TokenCounter, Protocol):
    """A counter that can also return the features of a prompt."""

    def measure(self, prompt: Prompt) -> Features: ...


class CalibratedCounter:
    """A `TokenCounter` with learned corrections for messages, tools and requests.

    A whole prompt is counted by its features. The sum of its parts is never less, because each is rounded up.
    """

    def __init__(self, counter: MeasuringCounter, learned: Calibration) -> None:
        """Add corrections to `counter`, whose texts are already calibrated."""
        self._counter = counter
        self._learned = learned

    @property
    def tokenizer(self) -> str:
        """The name of the counts."""
        return self._learned.name

    def text(self, text: str) -> Count:
        return self._counter.text(text)

    def texts(self, texts: Sequence[str]) -> list[Count]:
        return self._counter.texts(texts)

    def media(self, part: Media) -> Count:
        """Count an image, audio clip or video, with the learned weight of its tokens."""
        count = self._counter.media(part)
        return self._added("media", count, count.tokens)

    def tool_calls(self, calls: Sequence[ToolCall]) -> Count:
        return self._added("calls", self._counter.tool_calls(calls), len(calls))

    def message_overhead(self, role: Role, name: str = "") -> int:
        """Return the overhead of a message, including its margin."""
        return self._around("messages", self._counter.message_overhead(role, name))

    def request_overhead(self) -> int:
        """Return the overhead of a request, including its margin."""
        return self._around("request", self._counter.request_overhead())

    def prompt(self, prompt: Prompt) -> Count:
        """Count a whole prompt by its features."""
        return self._learned.count(self._counter.measure(prompt))

    def measure(self, prompt: Prompt) -> Features:
        return self._counter.measure(prompt)

    def _around(self, feature: str, tokens: int) -> int:
        weight, spread = self._learned.weight_of(feature)
        return round_up(max(0.0, tokens + weight) * (1 + self._learned.margin) + spread)

    def _added(self, feature: str, count: Count, times: int) -> Count:
        weight, spread = self._learned.weight_of(feature)
        tokens = max(0, round_up(count.tokens + times * weight))
        margin = max(0, round_up(count.margin + times * spread))
        return Count(tokens=tokens, basis="calibrated", tokenizer=self.tokenizer, margin=margin)
