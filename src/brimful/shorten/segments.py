"""Segments of a text, and the choice among them."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from math import sqrt
from typing import Final, Literal

import msgspec

from brimful.shorten.matching import WordIndex

Span = tuple[int, int]
"""The start and the stop of a passage, in characters."""
Kind = Literal["prose", "json", "table", "log", "code", "diff", "html"]

GAP_MARK: Final = "[…]"

_MATCH_WEIGHT: Final = 20.0  # of a segment that matches the query fully; plain segments weigh 1
_MAX_TRIES: Final = 8
_STEP: Final = 16  # after a choice that does not fit, a sixteenth of the room is taken away at least
_CLOSE_ENOUGH: Final = 0.94  # of the limit
_FOCUS_SHARE: Final = 0.75  # of the weight of a text, for the passages that search found in it
_BESIDE: Final = 500  # characters before and after such a passage that weigh more than the rest, too
_SHORTEST: Final = 20  # characters that are worth another try


class Segment(msgspec.Struct, frozen=True, gc=False):
    """A slice of a text, and its weight per character. Segments follow each other without gaps."""

    start: int
    end: int
    weight: float = 1.0


class Shortened(msgspec.Struct, frozen=True, gc=False):
    """A shorter text, what kind of text it was, and the estimated share of the whole that it is worth."""

    text: str
    kind: Kind
    worth: float


class Segments:
    """The segments of a text, and their words."""

    def __init__(self, text: str, segments: Sequence[Segment], *, by_lines: bool) -> None:
        self.text = text
        self.segments = segments
        self.by_lines = by_lines
        self._words: WordIndex | None = None

    def rank(self, query: str, focus: Sequence[Span] = ()) -> "RankedSegments":
        """Weigh the segments by themselves, by how well they match a query, and by what search found."""
        weights = self._match(query) if query else [part.weight for part in self.segments]
        return RankedSegments(self, _emphasize(self.segments, weights, focus) if focus else weights)

    def _match(self, query: str) -> list[float]:
        if self._words is None:
            self._words = WordIndex([self.text[part.start : part.end] for part in self.segments])
        matches = self._words.match(query)
        return [part.weight + _MATCH_WEIGHT * match for part, match in zip(self.segments, matches, strict=True)]


class RankedSegments:
    """The segments of a text, each with its weight per character."""

    def __init__(self, known: Segments, weights: Sequence[float]) -> None:
        self._text, self._segments, self._by_lines = known.text, known.segments, known.by_lines
        self._sizes = [weight * (part.end - part.start) for weight, part in zip(weights, known.segments, strict=True)]
        self._shortest = min((part.end - part.start for part in known.segments), default=0)
        self._ranked = sorted(range(len(weights)), key=lambda i: (-weights[i], i))

    def pick(self, limit: int, tokens: int, count: Callable[[str], int]) -> tuple[str, float] | None:
        """Return the heaviest segments that fit, joined in order with marks for gaps, and their share of the weight.

        The whole has this many `tokens`. What fits is estimated from characters, and the joined text is counted: few
        counts, however many segments.
        """
        mark = len(_mark("\n" * 9, by_lines=self._by_lines))
        low, high, room = 0, len(self._text), limit * len(self._text) // max(1, tokens)
        enough = max(_SHORTEST, self._shortest // 2)
        best: tuple[str, list[int]] | None = None
        for _ in range(_MAX_TRIES):
            chosen = self._take(room, mark)
            joined = _join(self._text, self._segments, chosen, by_lines=self._by_lines) if chosen else ""
            size = count(joined)
            if size <= limit:
                low = room
                best = (joined, chosen) if chosen else best
            else:
                high = room
            if _CLOSE_ENOUGH * limit <= size <= limit or high - low <= (_SHORTEST if best is None else enough):
                break
            guess = room * limit // max(1, size)
            if size > limit:
                guess = min(guess, room - room // _STEP)  # a smaller step may leave the same segments
            room = guess if low < guess < high else (low + high) // 2
        return None if best is None else (best[0], self._share(best[1]))

    def _take(self, room: int, mark: int) -> list[int]:
        """Take what fits into a number of characters, the heaviest first. Each one may need a mark beside it."""
        taken: set[int] = set()
        for index in self._ranked:
            size = self._segments[index].end - self._segments[index].start
            marks = 1 - (index - 1 in taken) - (index + 1 in taken)
            if size + mark * marks <= room:
                taken.add(index)
                room -= size + mark * marks
                if room < self._shortest - mark:
                    break
        return sorted(taken)

    def _share(self, chosen: Sequence[int]) -> float:
        total = sum(self._sizes)
        return sum(self._sizes[i] for i in chosen) / total if total else 0.0


def _emphasize(segments: Sequence[Segment], weights: Sequence[float], focus: Sequence[Span]) -> list[float]:
    """Raise the weights of the segments in the focus to a share of the whole, and those beside it a little."""
    inside = [_overlaps(part, focus, 0) for part in segments]
    sizes = [weight * (part.end - part.start) for weight, part in zip(weights, segments, strict=True)]
    focused = sum(size for size, within in zip(sizes, inside, strict=True) if within)
    others = sum(sizes) - focused
    factor = max(1.0, _FOCUS_SHARE / (1 - _FOCUS_SHARE) * others / focused) if focused else 1.0
    return [
        weight * (factor if within else sqrt(factor) if _overlaps(part, focus, _BESIDE) else 1.0)
        for weight, part, within in zip(weights, segments, inside, strict=True)
    ]


def _overlaps(part: Segment, focus: Sequence[Span], slack: int) -> bool:
    return any(part.start < stop + slack and part.end > start - slack for start, stop in focus)


def _join(text: str, segments: Sequence[Segment], chosen: Sequence[int], *, by_lines: bool) -> str:
    """Join the chosen segments. Where something is left out, there is a mark."""
    pieces = [_gap(text[: segments[chosen[0]].start], by_lines=by_lines)]
    for index, after in pairwise([*chosen, len(segments)]):
        pieces.append(text[segments[index].start : segments[index].end])
        end = segments[after].start if after < len(segments) else len(text)
        pieces.append(_gap(text[segments[index].end : end], by_lines=by_lines))
    return "".join(pieces).strip("\n" if by_lines else None)


def _gap(left_out: str, *, by_lines: bool) -> str:
    if not left_out.strip():
        return left_out
    return _mark(left_out, by_lines=by_lines) + ("\n" if by_lines or left_out.endswith("\n") else " ")


def _mark(left_out: str, *, by_lines: bool) -> str:
    """Return a mark for a gap: the number of missing lines, or just that something is missing."""
    if not by_lines:
        return GAP_MARK
    lines = left_out.strip("\n").count("\n") + 1
    return f"[… {lines:,} {'line' if lines == 1 else 'lines'}]"
