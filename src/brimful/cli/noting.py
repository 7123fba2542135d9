"""`--note`: a text that stands at a depth of every prompt, as a command line says it."""

from collections.abc import Sequence
from typing import Annotated, Final, cast

import typer

from brimful.errors import InvalidValue
from brimful.note import Speaker
from brimful.records import Note

BEGINNING: Final = "head"
"""What is said in the place of a depth for a note that stands with the system prompts."""
EVERY: Final = "every-"
"""What begins the number of turns of which a note is told in one."""
FORM: Final = "DEPTH[:ROLE][:every-N]=TEXT"

Notes = Annotated[
    list[str] | None,
    typer.Option(
        "--note",
        metavar=FORM,
        help="A text with so many messages behind it: 0 is last; `head` is with the system prompts. Repeatable; "
        "an empty one takes all notes off.",
    ),
]


def notes_given(said: Sequence[str] | None) -> tuple[Note, ...] | None:
    """Return the notes that options name; None if there are none, and nothing if an empty one takes them off.

    >>> [(note.depth, note.text) for note in notes_given(["4=Be brief.", "head=It rains."])]
    [(4, 'Be brief.'), (None, 'It rains.')]
    >>> notes_given([""])
    ()
    """
    return tuple(_note(each) for each in said if each) if said else None


def note_line(note: Note) -> str:
    """Return a note as the option says it: where it stands, who says it, how often, and the text.

    >>> note_line(Note(text="Be brief.", depth=4, role="user", every=3))
    '4:user:every-3=Be brief.'
    """
    role = [note.role] if note.role != "system" else []
    every = [f"{EVERY}{note.every}"] if note.every > 1 else []
    place = BEGINNING if note.depth is None else str(note.depth)
    return f"{':'.join([place, *role, *every])}={note.text}"


def _note(said: str) -> Note:
    head, equals, text = said.partition("=")
    place, *rest = (part.strip() for part in head.split(":"))
    every = [part.removeprefix(EVERY) for part in rest if part.startswith(EVERY)]
    roles = [part for part in rest if not part.startswith(EVERY)]
    numbers = [*every, *([] if place == BEGINNING else [place])]
    if not equals or not text.strip() or len(every) > 1 or len(roles) > 1 or not all(map(_is_number, numbers)):
        reason = f"{said!r} is not of the form {FORM}, with a number of messages or `{BEGINNING}`"
        raise typer.BadParameter(reason, param_hint="'--note'")
    try:
        return Note(
            text=text,
            depth=None if place == BEGINNING else int(place[:9]),
            role=cast("Speaker", roles[0]) if roles else "system",
            every=int(every[0][:9]) if every else 1,
        )
    except InvalidValue as error:
        raise typer.BadParameter(str(error), param_hint="'--note'") from None


def _is_number(said: str) -> bool:
    return said.isascii() and said.isdecimal()
