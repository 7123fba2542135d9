"""Sets of places in a room, written as spans: exact, and short where places follow each other."""

from bisect import bisect_right
from collections.abc import Iterable, Sequence

Span = tuple[int, int]
Spans = tuple[Span, ...]


def spans_of(places: Iterable[int]) -> Spans:
    """Return the spans that hold these places, and no other.

    >>> spans_of([7, 3, 4, 5])
    ((3, 5), (7, 7))
    """
    found: list[list[int]] = []
    for place in sorted(set(places)):
        if found and place == found[-1][1] + 1:
            found[-1][1] = place
        else:
            found.append([place, place])
    return tuple((first, last) for first, last in found)


def joined(spans: Iterable[Span]) -> Spans:
    """Return spans in order, those that meet as one.

    >>> joined([(7, 9), (1, 3), (4, 5)])
    ((1, 5), (7, 9))
    """
    found: list[Span] = []
    for first, last in sorted(spans):
        if found and first <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(last, found[-1][1]))
        else:
            found.append((first, last))
    return tuple(found)


def holds(spans: Sequence[Span], place: int) -> bool:
    """Say whether a place stands in one of the spans, which are in order.

    >>> holds(((3, 5), (7, 7)), 5), holds(((3, 5), (7, 7)), 6)
    (True, False)
    """
    at = bisect_right(spans, (place, place))
    return any(first <= place <= last for first, last in spans[max(0, at - 1) : at + 1])
