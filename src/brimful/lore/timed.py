"""Sticky and cooldown: what an entry's past says of its present. Times are the numbers of messages of a room.

Nothing is stored for it. What was told before follows from what was said before, so it is found out again, and comes to
the same after a restart, in another process, and for a turn that is built a second time.
"""

from collections.abc import Iterable

from brimful.lorebook import LoreEntry


class Timed:
    """The entries that are sticky or cool down, with the number of the message at which that ends."""

    def __init__(self) -> None:
        """Begin with none."""
        self.sticky: dict[str, int] = {}
        self.cooling: dict[str, int] = {}

    def reach(self, turn: int, entries: Iterable[LoreEntry]) -> None:
        """Come to a turn: what has ended is over, and what was sticky cools down from here."""
        for entry in entries:
            if self.sticky.get(entry.id, turn + 1) <= turn:
                del self.sticky[entry.id]
                if entry.cooldown:
                    self.cooling[entry.id] = turn + entry.cooldown
            if self.cooling.get(entry.id, turn + 1) <= turn:
                del self.cooling[entry.id]

    def told(self, turn: int, entries: Iterable[LoreEntry]) -> None:
        """Note what is told at a turn. An entry that is sticky already does not begin anew."""
        for entry in entries:
            if entry.sticky:
                self.sticky.setdefault(entry.id, turn + entry.sticky)
            if entry.cooldown:
                self.cooling.setdefault(entry.id, turn + entry.cooldown)
