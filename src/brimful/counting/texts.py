"""Texts to counts: exactly, or by calibration. Each text is tokenized once."""

import math
import re
import threading
from collections.abc import Sequence
from functools import partial
from typing import Final, Protocol

from brimful.core.tokens import Count
from brimful.counting.calibration import Calibration
from brimful.counting.memo import CountMemo
from brimful.counting.sums import add
from brimful.counting.tokenizers import count_special, count_texts
from brimful.counting.vocabularies import is_proven

UNPROVEN_MARGIN: Final = 0.01
"""The share added where a vocabulary is the model's own, but no independent implementation was at hand to compare."""

_MARKERS: Final = re.compile(r"<[|｜][^<>|｜\s]{1,40}[|｜]>")  # <|im_start|>, <｜User｜> and their like

_memos: dict[str, CountMemo] = {}
_memos_lock = threading.Lock()


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

    def rendered(self, text: str) -> Count:
        """Count a rendered chat template."""
        ...


class ExactTexts:
    """Counts by the model's own tokenizer; one that no reference has confirmed is called calibrated.

    >>> ExactTexts("o200k_base").text("Hello world")
    Count(tokens=2, basis='exact', tokenizer='o200k_base', margin=0)
    """

    def __init__(self, tokenizer: str) -> None:
        """Count by the vocabulary of that name."""
        self.name = self.base = tokenizer
        self._proven = is_proven(tokenizer)
        self._memo = memo_of(tokenizer)

    def text(self, text: str) -> Count:
        """Count one text."""
        return self.texts((text,))[0]

    def texts(self, texts: Sequence[str]) -> list[Count]:
        """Count many texts."""
        return [self._count(tokens) for tokens in self._memo.counts(texts)]

    def rendered(self, text: str) -> Count:
        """Count a rendered chat template."""
        return self._count(count_special(self.name, text))

    def _count(self, tokens: int) -> Count:
        if self._proven:
            return Count(tokens=tokens, basis="exact", tokenizer=self.name)
        margin = math.ceil(tokens * UNPROVEN_MARGIN)
        return Count(tokens=tokens, basis="calibrated", tokenizer=self.name, margin=margin)


class CalibratedTexts:
    """Counts by another tokenizer, times a factor.

    >>> CalibratedTexts(Calibration(tokenizer="o200k_base", factor=1.5, margin=0.1)).text("Hello world").upper
    4
    """

    def __init__(self, calibration: Calibration) -> None:
        """Count as the calibration says."""
        self.name = calibration.name
        self.base = calibration.tokenizer
        self._calibration = calibration
        self._memo = memo_of(calibration.tokenizer)

    def text(self, text: str) -> Count:
        """Count one text."""
        return self.texts((text,))[0]

    def texts(self, texts: Sequence[str]) -> list[Count]:
        """Count many texts."""
        return [self._calibration.scale(tokens) for tokens in self._memo.counts(texts)]

    def rendered(self, text: str) -> Count:
        """Count a rendered chat template; a marker is one token in any vocabulary, and no factor changes that."""
        pieces = _MARKERS.split(text)
        scaled = self._calibration.scale(sum(self._memo.counts(pieces)))
        return add([scaled, Count(tokens=len(pieces) - 1, basis="calibrated")], self.name)


def memo_of(tokenizer: str) -> CountMemo:
    """Return what this process remembers of a vocabulary's counts."""
    with _memos_lock:
        if tokenizer not in _memos:
            _memos[tokenizer] = CountMemo(partial(count_texts, tokenizer))
        return _memos[tokenizer]
