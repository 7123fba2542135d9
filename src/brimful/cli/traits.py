"""Fields of a character, as the options of commands give them."""

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
import typer

from brimful.character import Character

Traits = Annotated[
    list[str] | None,
    typer.Option(
        "--character",
        metavar="FIELD=TEXT",
        help="Who it is: description, personality, scenario, examples, greeting, greetings (each one more), "
        "nickname or prompt. Repeatable.",
    ),
]


def traits_of(character: Character | None) -> list[str]:
    """Return the fields in which something is said of a character."""
    return [field for field, said in msgspec.structs.asdict(character or Character()).items() if said]


def character_with(known: Character | None, traits: dict[str, Any]) -> Character | None:
    """Return a character that says what options gave, and else what it said."""
    return Character(**{**msgspec.structs.asdict(known or Character()), **traits}) if traits else known


def traits_given(said: Sequence[str] | None) -> dict[str, Any]:
    """Return the fields of a character that options name; each that names `greetings` adds one."""
    named = list(map(_trait, said or ()))
    more = tuple(text for field, text in named if field == "greetings")
    return {**dict(named), **({"greetings": more} if more else {})}


def _trait(text: str) -> tuple[str, str]:
    field, equals, said = text.partition("=")
    if not equals or field not in Character.__struct_fields__:
        fields = ", ".join(Character.__struct_fields__)
        raise typer.BadParameter(
            f"{text!r} is not of the form FIELD=TEXT with one of {fields}", param_hint="'--character'"
        )
    return field, said
