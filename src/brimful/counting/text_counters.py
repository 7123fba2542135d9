"""Text counters, exact or calibrated. Each text is tokenized once."""

import re
import threading
from collections.abc import Sequence
from functools import partial
from typing import Final, Protocol

from brimful.core.tokens import Count, sum_counts
from brimful.counting.calibration import Calibration, round_up
from brimful.counting.count_cache import CountCache
from brimful.counting.features import CHARACTER_CLASSES, Features, count_characters, sum_characters
from brimful.counting.tokenizers import count_texts, count_with_special_tokens
from brimful.counting.vocabularies import is_verified

UNVERIFIED_MARGIN: Final = 0.01
"""The share added where a vocabulary is the model's own, but no independent implementation was at hand to compare."""

_MARKERS: Final = re.compile(r"<[|｜][^<>|｜\s]{1,40}[|｜]>")  # <|im_start|>, <｜User｜> and their like

_caches: dict[str, CountCache[int]] = {}
_caches_lock = threading.Lock()


class TextCounter(Protocol):
    """Counts texts; `rendered` counts a text in which special tokens mean themselves."""

    @property
    def name(self) -> str:
        """The name of the counts: equal names give equal numbers."""
        ...

    @property
    def base(self) -> str:
        """The tokenizer that is loaded."""
        ...

    def text(self, text: str) -> Count:
        """Count one text."""
        ...

    def texts(self, texts: Sequence[str]) -> list[Count]:
        """Count many texts."""
        ...

    def total(self, texts: Sequence[str]) -> Count:
        """Count many texts together, rounded once."""
        ...

    def rendered(self, text: str) -> Count:
        """Count a rendered chat template."""
        ...


class ExactTextCounter:
    """Counts by the model's own tokenizer; one that no reference has confirmed is called calibrated.

    So is one of which a server has reported other counts: `learned` then tells the margin.

    >>> ExactTextCounter("o200k_base").text("Hello world")
    Count(tokens=2, basis='exact', tokenizer='o200k_base', margin=0)
    """

    def __init__(self, tokenizer: str, learned: Calibration | None = None) -> None:
        """Count by the vocabulary of that name."""
        self.base = tokenizer
        self.name = learned.name if learned else tokenizer
        self._margin = (learned.margin if learned else 0.0) + (0.0 if is_verified(tokenizer) else UNVERIFIED_MARGIN)
        self._exact = learned is None and is_verified(tokenizer)
        self._memo = get_count_cache(tokenizer)

    def text(self, text: str) -> Count:
        """Count one text."""
        return self.texts((text,))[0]

    def texts(self, texts: Sequence[str]) -> list[Count]:
        """Count many texts."""
        return [self._count(tokens) for tokens in self._memo.counts(texts)]

    def total(self, texts: Sequence[str]) -> Count:
        """Count many texts together."""
        return self._count(sum(self._memo.counts(texts)))

    def rendered(self, text: str) -> Count:
        """Count a rendered chat template."""
        return self._count(count_with_special_tokens(self.base, text))

    def _count(self, tokens: int) -> Count:
        if self._exact:
            return Count(tokens=tokens, basis="exact", tokenizer=self.name)
        return Count(tokens=tokens, basis="calibrated", tokenizer=self.name, margin=round_up(tokens * self._margin))


class CalibratedTextCounter:
    """Counts by another tokenizer, times a factor.

    >>> CalibratedTextCounter(Calibration(tokenizer="o200k_base", factor=1.5, margin=0.1)).text("Hello world").upper
    4
    """

    def __init__(self, calibration: Calibration) -> None:
        """Count as the calibration says."""
        self.name = calibration.name
        self.base = calibration.tokenizer
        self._calibration = calibration
        self._memo = get_count_cache(calibration.tokenizer)

    def text(self, text: str) -> Count:
        """Count one text."""
        return self.texts((text,))[0]

    def texts(self, texts: Sequence[str]) -> list[Count]:
        """Count many texts."""
        counts = self._memo.counts(texts)
        scale = self._calibration.scale
        if not self._calibration.learned:
            return [scale(tokens) for tokens in counts]
        return [scale(tokens, signs) for tokens, signs in zip(counts, count_characters(texts), strict=True)]

    def total(self, texts: Sequence[str]) -> Count:
        """Count many texts together, rounded once."""
        signs = sum_characters(texts) if self._calibration.learned else ()
        return self._calibration.scale(sum(self._memo.counts(texts)), signs)

    def rendered(self, text: str) -> Count:
        """Count a rendered chat template; a marker is one token in any vocabulary, and no factor changes that."""
        pieces = _MARKERS.split(text)
        return sum_counts([self.total(pieces), Count(tokens=len(pieces) - 1, basis="calibrated")], self.name)

    def measure(self, texts: Sequence[str]) -> Features:
        """Return the features of many texts together."""
        signs = dict(zip(CHARACTER_CLASSES, map(float, sum_characters(texts)), strict=True))
        return {"tokens": sum(self._memo.counts(texts)), "fixed": 0.0, **signs}

    def measure_rendered(self, text: str) -> Features:
        """Return the features of a rendered chat template."""
        pieces = _MARKERS.split(text)
        return self.measure(pieces) | {"fixed": len(pieces) - 1}


def get_count_cache(tokenizer: str) -> CountCache[int]:
    """Return what this process remembers of a vocabulary's counts."""
    with _caches_lock:
        if tokenizer not in _caches:
            _caches[tokenizer] = CountCache(partial(count_texts, tokenizer))
        return _caches[tokenizer]
