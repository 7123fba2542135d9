"""`--note`: a text that stands at a depth of every prompt, as a command line says it."""

from collections.abc import Sequence
from typing import Annotated, Final

import typer

from brimful.errors import InvalidValue
from brimful.records import Note

BEGINNING: Final = "head"
"""What is said in the place of a depth for a note that stands with the system prompts."""

Notes = Annotated[
    list[str] | None,
    typer.Option(
        "--note",
        metavar="DEPTH=TEXT",
        help="A text with so many messages behind it: 0 is last; `head` is with the system prompts. Repeatable.",
    ),
]


def notes_given(said: Sequence[str] | None) -> tuple[Note, ...] | None:
    """Return the notes that options name; None if there are none.

    >>> [(note.depth, note.text) for note in notes_given(["4=Be brief.", "head=It rains."])]
    [(4, 'Be brief.'), (None, 'It rains.')]
    """
    return tuple(map(_note, said)) if said else None


def note_line(note: Note) -> str:
    """Return a note as a command shows it: where it stands, how often, who says it, and the text.

    >>> note_line(Note(text="Be brief.", depth=4, every=3))
    '4=Be brief. (every 3 turns)'
    """
    told = [*([f"every {note.every} turns"] if note.every > 1 else []), *([note.role] if note.role != "system" else [])]
    place = BEGINNING if note.depth is None else note.depth
    return f"{place}={note.text}" + (f" ({', '.join(told)})" if told else "")


def _note(said: str) -> Note:
    place, equals, text = said.partition("=")
    place = place.strip()
    if not equals or not text.strip() or not (place == BEGINNING or (place.isascii() and place.isdecimal())):
        reason = f"{said!r} is not of the form DEPTH=TEXT, with a number of messages or `{BEGINNING}`"
        raise typer.BadParameter(reason, param_hint="'--note'")
    try:
        return Note(text=text, depth=None if place == BEGINNING else int(place[:9]))
    except InvalidValue as error:
        raise typer.BadParameter(str(error), param_hint="'--note'") from None
