"""Text counters, exact or calibrated. Each text is tokenized once."""

import re
import threading
from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from typing import Final, Protocol

from brimful.core.content import Part, Text, ToolCall, ToolResult
from brimful.core.model import Runtime
from brimful.core.tokens import Basis, Count, sum_counts
from brimful.counting.calibration import Calibration, round_up
from brimful.counting.count_cache import CountCache
from brimful.counting.features import CHARACTER_CLASSES, Features, count_characters, sum_characters
from brimful.counting.overheads import call_json
from brimful.counting.tokenizers import count_texts, count_with_special_tokens
from brimful.counting.vocabularies import is_verified

UNVERIFIED_MARGIN: Final = 0.01
"""The margin of a vocabulary that could not be compared with an independent implementation."""

_MARKERS: Final = re.compile(r"<[|｜][^<>|｜\s]{1,40}[|｜]>")  # such as <|im_start|> and <｜User｜>

_CACHED_COUNTS: Final = 4_096  # different counts; they take about 1 MB

_caches: dict[str, CountCache[int]] = {}
_caches_lock = threading.Lock()


class TextCounter(Protocol):
    """Counts texts. In `rendered`, special tokens count as single tokens."""

    @property
    def name(self) -> str:
        """The name of the counts. Equal names give equal counts."""

    @property
    def base(self) -> str:
        """The vocabulary that counts."""

    def text(self, text: str) -> Count: ...

    def texts(self, texts: Sequence[str]) -> list[Count]:
        """Count many texts."""

    def total(self, texts: Sequence[str]) -> Count:
        """Count many texts together, rounded once."""

    def rendered(self, text: str) -> Count:
        """Count a rendered chat template."""


class ExactTextCounter:
    """Counts with the model's own tokenizer.

    The counts are called calibrated if the vocabulary is not verified for the runtime, or if a server has reported
    other counts: `learned` then has the margin.

    >>> ExactTextCounter("o200k_base").text("Hello world")
    Count(tokens=2, basis='exact', tokenizer='o200k_base', margin=0)
    """

    def __init__(self, tokenizer: str, learned: Calibration | None = None, runtime: Runtime = "transformers") -> None:
        """Count with the vocabulary of that name, as the runtime does."""
        verified = is_verified(tokenizer, runtime)
        self.base = tokenizer
        self.name = learned.name if learned else tokenizer
        if not learned and is_verified(tokenizer) and not verified:
            self.name = f"{tokenizer}+{UNVERIFIED_MARGIN:.0%}"  # stored counts of another runtime are called exact
        self._margin = (learned.margin if learned else 0.0) + (0.0 if verified else UNVERIFIED_MARGIN)
        self._exact = learned is None and verified
        self._cache = get_count_cache(tokenizer)

    def text(self, text: str) -> Count:
        return self.texts((text,))[0]

    def texts(self, texts: Sequence[str]) -> list[Count]:
        return [self._count(tokens) for tokens in self._cache.counts(texts)]

    def total(self, texts: Sequence[str]) -> Count:
        return self._count(sum(self._cache.counts(texts)))

    def rendered(self, text: str) -> Count:
        return self._count(count_with_special_tokens(self.base, text))

    def _count(self, tokens: int) -> Count:
        margin = 0 if self._exact else round_up(tokens * self._margin)
        return _make_count(tokens, "exact" if self._exact else "calibrated", self.name, margin)


class CalibratedTextCounter:
    """Counts with another tokenizer, times a factor.

    >>> CalibratedTextCounter(Calibration(tokenizer="o200k_base", factor=1.5, margin=0.1)).text("Hello world").upper
    4
    """

    def __init__(self, calibration: Calibration) -> None:
        self.name = calibration.name
        self.base = calibration.tokenizer
        self._calibration = calibration
        self._cache = get_count_cache(calibration.tokenizer)

    def text(self, text: str) -> Count:
        return self.texts((text,))[0]

    def texts(self, texts: Sequence[str]) -> list[Count]:
        counts = self._cache.counts(texts)
        scale = self._calibration.scale
        if not self._calibration.learned:
            return [scale(tokens) for tokens in counts]
        return [scale(tokens, characters) for tokens, characters in zip(counts, count_characters(texts), strict=True)]

    def total(self, texts: Sequence[str]) -> Count:
        characters = sum_characters(texts) if self._calibration.learned else ()
        return self._calibration.scale(sum(self._cache.counts(texts)), characters)

    def rendered(self, text: str) -> Count:
        """Count a rendered chat template. A marker is one token in any vocabulary, without a factor."""
        pieces = _MARKERS.split(text)
        return sum_counts([self.total(pieces), Count(tokens=len(pieces) - 1, basis="calibrated")], self.name)

    def measure(self, texts: Sequence[str]) -> Features:
        """Return the features of many texts together."""
        characters = dict(zip(CHARACTER_CLASSES, map(float, sum_characters(texts)), strict=True))
        return {"tokens": sum(self._cache.counts(texts)), "fixed": 0.0, **characters}

    def measure_rendered(self, text: str) -> Features:
        """Return the features of a rendered chat template."""
        pieces = _MARKERS.split(text)
        return self.measure(pieces) | {"fixed": len(pieces) - 1}


@lru_cache(_CACHED_COUNTS)
def _make_count(tokens: int, basis: Basis, tokenizer: str, margin: int) -> Count:
    """Return a count. Cached, because a context has hundreds of texts, and most of them are short."""
    return Count(tokens=tokens, basis=basis, tokenizer=tokenizer, margin=margin)


def get_count_cache(tokenizer: str) -> CountCache[int]:
    """Return this process's cache of a vocabulary's counts."""
    with _caches_lock:
        if tokenizer not in _caches:
            _caches[tokenizer] = CountCache(partial(count_texts, tokenizer))
        return _caches[tokenizer]


def texts_in(content: str | tuple[Part, ...]) -> list[str]:
    """Return every text of a content that a counter may have to count.

    >>> texts_in("Hello"), texts_in((Text(text="One"), ToolResult(id="c1", content="Two")))
    (['Hello'], ['One', 'Two'])
    """
    if isinstance(content, str):
        return [content]
    return [text for part in content for text in _texts_in_part(part)]


def remember_counts(vocabulary: str, counts: Mapping[str, int]) -> None:
    """Cache known counts of texts, so that they need not be counted."""
    get_count_cache(vocabulary).add(counts)


def find_uncounted(vocabulary: str, texts: Sequence[str]) -> list[str]:
    """Return the texts whose counts are not cached."""
    return get_count_cache(vocabulary).missing(texts)


def count_raw(vocabulary: str, texts: Sequence[str]) -> list[int]:
    """Count texts with a vocabulary, without calibration: these are the counts to store.

    >>> count_raw("o200k_base", ["Fill the window.", ""])
    [4, 0]
    """
    return get_count_cache(vocabulary).counts(texts)


def _texts_in_part(part: Part) -> list[str]:
    match part:
        case Text():
            return [part.text]
        case ToolResult():
            return [part.content]
        case ToolCall():
            return [part.name, part.arguments, call_json(part)]
        case _:
            return []
