"""Where notes stand: so many messages from the end of the prompt, and never between a call and its results.

A note moves with every turn, for the end does. What stands behind it is read anew by the provider, so all that can be
kept ready ends before the first of them.
"""

from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from brimful.core.content import ContentPackage

NOTE: Final = "system-note"
DEPTH: Final = "depth"
"""In the metadata of a note: how many messages stand behind it. The kind of a note is `system-note`."""

T = TypeVar("T")


def depth_of(package: ContentPackage) -> int:
    """Return how many messages stand behind a note; one that says nothing of use comes last."""
    depth = package.metadata.get(DEPTH)
    return depth if type(depth) is int and depth > 0 else 0


def placed_in(
    said: Sequence[T], notes: Sequence[ContentPackage], counts: Callable[[T], bool]
) -> list[tuple[int, ContentPackage]]:
    """Return before which of the things said each note stands, in the order in which they stand.

    The deepest comes first, and of one depth they come as their positions say.
    """
    ordered = sorted(notes, key=lambda note: (-depth_of(note), note.position, note.id))
    return [(place_of_depth(said, depth_of(note), counts), note) for note in ordered]


def place_of_depth(said: Sequence[T], depth: int, counts: Callable[[T], bool]) -> int:
    """Return before which of the things said a note of this depth stands; behind all of them with a depth of 0.

    It stands before something that `counts` as a message. Results of tools do not: so none is parted from its call.

    >>> [place_of_depth("ab-c", depth, str.isalpha) for depth in (0, 1, 2, 9)]
    [4, 3, 1, 0]
    """
    at = len(said)
    while depth > 0 and at > 0:
        at -= 1
        depth -= counts(said[at])
    return at
