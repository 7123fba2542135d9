"""What the janitor did, or would do."""

import msgspec

from brimful.janitor.rooms import is_rolled_up, level_of
from brimful.protocols.housekeeping import Change


class RoomTidied(msgspec.Struct, frozen=True, kw_only=True):
    """What was done in a room.

    `floods` are the lines that stand for floods now; `summaries` were written, `rolled_up` of them for months and
    years; so many `messages` were set aside, of them `unused` ones since no context ever had them. `notes` say what
    could not be done.
    """

    room: str
    floods: tuple[str, ...] = ()
    summaries: int = 0
    rolled_up: int = 0
    messages: int = 0
    unused: int = 0
    notes: tuple[str, ...] = ()

    def with_change(self, change: Change) -> "RoomTidied":
        """Return it with one more change counted."""
        fresh = [each for each in change.write if not is_rolled_up(each)]
        lines = tuple(each.content for each in fresh if level_of(each) == "family")
        return msgspec.structs.replace(
            self,
            floods=(*self.floods, *lines),
            summaries=self.summaries + len(change.write),
            rolled_up=self.rolled_up + len(change.write) - len(fresh),
            messages=self.messages + len(change.messages),
        )

    def __bool__(self) -> bool:
        """Say whether anything was done, or could not be."""
        return bool(self.summaries or self.messages or self.notes)


class Tidied(msgspec.Struct, frozen=True, kw_only=True):
    """What the janitor did, or with `dry_run` would do: in rooms, and with `memories` that say the same twice.

    `run` is the number under which it can be undone, None if there was nothing to do. So many records that earlier runs
    had set aside were `purged`.
    """

    run: int | None = None
    dry_run: bool = False
    rooms: tuple[RoomTidied, ...] = ()
    memories: int = 0
    purged: int = 0

    @property
    def facts(self) -> dict[str, int]:
        """What was done, in numbers."""
        return {
            "rooms": sum(bool(room.summaries or room.messages) for room in self.rooms),
            "floods": sum(len(room.floods) for room in self.rooms),
            "summaries": sum(room.summaries for room in self.rooms),
            "messages": sum(room.messages for room in self.rooms),
            "memories": self.memories,
        }
