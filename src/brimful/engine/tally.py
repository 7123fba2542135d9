"""What an import brought: counted as it goes, and told at its end."""

from collections import Counter
from collections.abc import Iterable

import msgspec

from brimful.importers import Imported, Skipped
from brimful.records import Message, Record, Room

MOST_REASONS = 50  # that are told apart; what is skipped for others is counted together
MOST_PLACES = 5  # that are named of one reason
OTHER_REASONS = "other reasons"


class Skips(msgspec.Struct, frozen=True, kw_only=True):
    """What was skipped for one reason: how much, and the first places."""

    reason: str
    count: int
    places: tuple[str, ...]


class Intake(msgspec.Struct, frozen=True, kw_only=True):
    """What an import brought: new records by kind, new messages by role, what was there already, what was skipped."""

    rooms: int
    records: dict[str, int]
    roles: dict[str, int]
    known: int
    skipped: tuple[Skips, ...]

    @property
    def read(self) -> int:
        """How many records could be read, new or not."""
        return sum(self.records.values()) + self.known


class Tally:
    """Counts what comes."""

    def __init__(self) -> None:
        """Begin at nothing."""
        self._rooms: set[str] = set()
        self._records: Counter[str] = Counter()
        self._roles: Counter[str] = Counter()
        self._known = 0
        self._skips: Counter[str] = Counter()
        self._places: dict[str, list[str]] = {}

    def take(self, records: Iterable[Imported]) -> None:
        """Count new records."""
        for record in records:
            self._note(record)
            self._records[kind_of(record)] += 1
            if isinstance(record, Message):
                self._roles[record.role] += 1

    def know(self, records: Iterable[Imported]) -> None:
        """Count records that were there already."""
        for record in records:
            self._note(record)
            self._known += 1

    def skip(self, skipped: Skipped) -> None:
        """Count what could not be taken, by its reason."""
        reason = skipped.reason if skipped.reason in self._places or len(self._places) < MOST_REASONS else OTHER_REASONS
        self._skips[reason] += 1
        places = self._places.setdefault(reason, [])
        if len(places) < MOST_PLACES:
            places.append(skipped.place)

    def intake(self) -> Intake:
        """Return what was counted; the reasons for most skips first."""
        return Intake(
            rooms=len(self._rooms),
            records=dict(self._records),
            roles=dict(self._roles.most_common()),
            known=self._known,
            skipped=tuple(
                Skips(reason=reason, count=count, places=tuple(self._places[reason]))
                for reason, count in self._skips.most_common()
            ),
        )

    def _note(self, record: Imported) -> None:
        match record:
            case Message():
                self._rooms.add(record.room)
            case Room():
                self._rooms.add(record.id)


def kind_of(record: Record) -> str:
    """Return what kind of record it is.

    >>> kind_of(Room(id="r"))
    'room'
    """
    return str(record.__struct_config__.tag)
