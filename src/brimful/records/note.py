"""Notes: text inserted at a fixed depth of every prompt."""

from typing import Final, Literal, get_args

import msgspec

from brimful.core import validation
from brimful.errors import InvalidValue
from brimful.records.base import check_integer, validate_string

NoteRole = Literal["system", "user", "assistant"]
NOTE_ROLES: Final[tuple[str, ...]] = get_args(NoteRole)
MAX_DEPTH: Final = 10_000  # messages from the end, as in SillyTavern: no prompt has more


class Note(msgspec.Struct, frozen=True, kw_only=True):
    """A text that a persona, a room or a user adds to every prompt. It may contain `{{char}}` and `{{user}}`.

    `depth` is the number of messages after it: with 0 it comes last, after the message to answer. With None it is at
    the beginning, with the system prompts. `role` is the role of its message. With `every=n`, it is included only in
    every nth turn; a turn is two messages of the room. `name` distinguishes it from other notes.
    """

    text: str
    name: str = ""
    depth: int | None = 0
    role: NoteRole = "system"
    every: int = 1

    def __post_init__(self) -> None:
        for field in ("text", "name"):
            validation.normalize_field(self, field, validate_string, "note.")
        if self.depth is not None:
            check_integer("note.depth", self.depth)
            if self.depth > MAX_DEPTH:
                raise InvalidValue("note.depth", f"must be at most {MAX_DEPTH:,}, not {self.depth:,}")
        check_integer("note.every", self.every, low=1)
        if self.role not in NOTE_ROLES:
            raise InvalidValue(
                "note.role", f"must be one of {', '.join(NOTE_ROLES)}, not {validation.preview(self.role)}"
            )
        if self.depth is None and (self.every > 1 or self.role != "system"):
            reason = "a note that comes and goes, or that somebody says, needs one: the beginning stays as it is"
            raise InvalidValue("note.depth", reason)

    def is_due(self, turn: int) -> bool:
        """Return whether it is included in a turn, counted from 1.

        >>> [Note(text="Be brief.", every=3).is_due(turn) for turn in (1, 2, 3, 6)]
        [False, False, True, True]
        """
        return turn % self.every == 0


def check_notes(field: str, notes: object) -> None:
    """Raise `InvalidValue` unless the value is a tuple of notes."""
    if not isinstance(notes, tuple) or not all(isinstance(each, Note) for each in notes):
        raise InvalidValue(field, f"must be a tuple of notes, not {validation.preview(notes)}")
