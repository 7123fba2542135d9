"""Looking for damage before anything is written: all that is named is read to its end, by the readers that import it.

What cannot be read is damage: it is cut off, no JSON, no UTF-8, too long, a bomb, or gone. What can be read, and is not
what its format wants, is none: it is skipped, and reported, alone.
"""

from collections.abc import Callable, Iterator
from typing import Final

from brimful.errors import DamagedFile, ImportRefused
from brimful.importers.importer import Imported
from brimful.importers.source import Skipped
from brimful.importers.walk import Walk

MOST_FILES: Final = 5  # damaged ones that are named
_STEP: Final = 500  # records between two words about how far it has come


def check(walk: Walk, *, told: Callable[[], None] = lambda: None) -> None:
    """Read everything, hold nothing; raise `ImportRefused` if some of it is damaged."""
    damage = Damage(walk)
    for at, _ in enumerate(damage.noted()):
        if at % _STEP == 0:
            told()
    damage.refuse()


class Damage:
    """What is damaged of the files that are gone through."""

    def __init__(self, walk: Walk) -> None:
        """Go through these."""
        self._walk = walk
        self._first: list[DamagedFile] = []
        self._last: str | None = None
        self._files = 0
        self._places = 0
        self._readable = 0

    def noted(self) -> Iterator[Imported | Skipped]:
        """Yield all that the files hold, and note what of it is damaged."""
        for record in self._walk.records():
            if not isinstance(record, Skipped):
                self._readable += 1
            elif record.damaged:
                self._note(record)
            yield record

    def refuse(self) -> None:
        """Raise `ImportRefused` if something is damaged."""
        if self._files:
            raise ImportRefused(self._first, files=self._files, places=self._places, readable=self._readable)

    def _note(self, damage: Skipped) -> None:
        self._places += 1
        file = self._walk.file or damage.place
        if file == self._last:
            return
        self._last = file
        self._files += 1
        if len(self._first) < MOST_FILES:
            self._first.append(DamagedFile(damage.place, damage.reason))


def checked(walk: Walk) -> Iterator[Imported | Skipped]:
    """Yield all that files hold in which no damage was found. If there is some now, they changed meanwhile."""
    for record in walk.records():
        if isinstance(record, Skipped) and record.damaged:
            raise DamagedFile(
                record.place,
                f"{record.reason}: it changed while it was imported; what came before is in the store, "
                "and will not come twice when you import it again",
            )
        yield record
