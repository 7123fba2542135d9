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
from brimful.core.counter import TokenCounter
from brimful.core.model import UNKNOWN_PRIOR, ModelInfo
from brimful.core.prompt import Prompt
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

MIN_SHARE: Final = 0.5  # of the base count times its factor: no weights bring a text below it

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

    def scale(self, base: int, signs: CharacterCounts = ()) -> Count:
        """Turn the base tokenizer's count of a text into the model's, both parts rounded up; `signs` are the text's."""
        plain = base * self.factor
        tokens, spread = plain, 0.0
        if signs:
            tokens = max(plain * MIN_SHARE, plain + _dot(self._signs[0], signs))
            spread = _dot(self._signs[1], signs)
        whole = round_up(tokens)
        return Count(
            tokens=whole, basis="calibrated", tokenizer=self.name, margin=round_up(whole * self.margin + spread)
        )

    def count(self, features: Mapping[str, float]) -> Count:
        """Count a request by its features: its `tokens` by the base tokenizer, what is `fixed`, and all that weighs."""
        plain = features.get("tokens", 0.0) * self.factor
        text = max(plain * MIN_SHARE, plain + weighted_sum(features, CHARACTER_CLASSES, self._weights))
        around = features.get("fixed", 0.0) + features.get("media", 0.0)
        tokens = _bounded(round(text + around + self.correction(features)))
        margin = _bounded(round_up(tokens * self.margin + weighted_sum(features, FEATURES, self._spread)))
        return Count(tokens=tokens, basis="calibrated", tokenizer=self.name, margin=margin)

    def correction(self, features: Mapping[str, float]) -> float:
        """Return what was learned of things in a request: the tokens that they cost beyond what is counted for them."""
        return weighted_sum(features, REQUEST_FEATURES, self._weights)

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
        return [self._weights.get(sign, 0.0) for sign in CHARACTER_CLASSES], [
            self._spread.get(sign, 0.0) for sign in CHARACTER_CLASSES
        ]

    @cached_property
    def _digest(self) -> str:
        return hashlib.blake2b(msgspec.json.encode([self.weights, self.spread]), digest_size=4).hexdigest()


def default_calibration(model: ModelInfo) -> Calibration:
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


def round_up(value: float) -> int:
    """Round up, but not what is a whole number on paper: 100 * 1.1 is 110.00000000000001.

    >>> round_up(100 * 1.1), round_up(100.2)
    (110, 101)
    """
    return math.ceil(round(value, 6))


def _bounded(tokens: int) -> int:
    return min(max(0, tokens), validation.MAX_INTEGER)


def _dot(weights: Sequence[float], signs: CharacterCounts) -> float:
    return sum(weight * sign for weight, sign in zip(weights, signs, strict=True) if sign)


class MeasuringCounter(TokenCounter, Protocol):
    """A counter that tells what its counts are made of."""

    def measure(self, prompt: Prompt) -> Features:
        """Return the features of a prompt."""
        ...


class CalibratedCounter:
    """A `TokenCounter`: texts as another one counts them, and what was learned of messages, tools and requests.

    A whole prompt is counted by its features, as they were learned. What its parts are charged is never less: each is
    rounded up by itself.
    """

    def __init__(self, counter: MeasuringCounter, learned: Calibration) -> None:
        """Count by `counter`, whose texts know of what was learned already, and add the rest."""
        self._counter = counter
        self._learned = learned

    @property
    def tokenizer(self) -> str:
        """The name of the counts."""
        return self._learned.name

    def text(self, text: str) -> Count:
        """Count one text."""
        return self._counter.text(text)

    def texts(self, texts: Sequence[str]) -> list[Count]:
        """Count many texts."""
        return self._counter.texts(texts)

    def media(self, part: Media) -> Count:
        """Count an image, a sound or a video: each token of it weighs what was learned."""
        count = self._counter.media(part)
        return self._added("media", count, count.tokens)

    def tool_calls(self, calls: Sequence[ToolCall]) -> Count:
        """Count the tool calls of one message."""
        return self._added("calls", self._counter.tool_calls(calls), len(calls))

    def message_overhead(self, role: Role, name: str = "") -> int:
        """Return what stands around a message, and what that may have missed."""
        return self._around("messages", self._counter.message_overhead(role, name))

    def request_overhead(self) -> int:
        """Return what a request costs beside its messages and tools, and what that may have missed."""
        return self._around("request", self._counter.request_overhead())

    def prompt(self, prompt: Prompt) -> Count:
        """Count a whole prompt by its features."""
        return self._learned.count(self._counter.measure(prompt))

    def measure(self, prompt: Prompt) -> Features:
        """Return what the count of a prompt is made of."""
        return self._counter.measure(prompt)

    def _around(self, thing: str, tokens: int) -> int:
        weight, spread = self._learned.of_thing(thing)
        return round_up(max(0.0, tokens + weight) * (1 + self._learned.margin) + spread)

    def _added(self, thing: str, count: Count, times: int) -> Count:
        weight, spread = self._learned.of_thing(thing)
        tokens = max(0, round_up(count.tokens + times * weight))
        margin = max(0, round_up(count.margin + times * spread))
        return Count(tokens=tokens, basis="calibrated", tokenizer=self.tokenizer, margin=margin)
