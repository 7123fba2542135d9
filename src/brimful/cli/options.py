"""Options shared by several commands, and how their values are parsed."""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Final, cast

import msgspec
import typer

from brimful.cli.output import warn
from brimful.core import validation
from brimful.core.content import clean_text
from brimful.core.model import ModelInfo
from brimful.errors import InvalidPackage, InvalidValue
from brimful.models import default_registry, unknown_model_warning
from brimful.packagers.package import to_timestamp
from brimful.policies import policy_names
from brimful.records import Note
from brimful.records.base import parse_duration
from brimful.records.character import Character
from brimful.records.note import NoteRole

DEFAULT_MODEL: Final = "gpt-4o"
DEFAULT_DB: Final = "sqlite:///brimful.db"
DEFAULT_TENANT: Final = "default"
DEFAULT_EMBEDDER: Final = "static"
ENVIRONMENT: Final = ("BRIMFUL_DB", "BRIMFUL_TENANT", "BRIMFUL_EMBEDDER")
"""Variables that stand in for `--db`, `--tenant` and `--embedder`."""


def complete_model(incomplete: str) -> list[str]:
    """Complete the name of a model in a shell."""
    return [name for name in default_registry().names() if name.startswith(incomplete)]


def complete_policy(incomplete: str) -> list[str]:
    """Complete the name of a policy in a shell."""
    return [name for name in policy_names() if name.startswith(incomplete)]


def read_time(text: str) -> float:
    """Read a moment: seconds since 1970, or ISO 8601 with a time zone.

    >>> read_time("1700000000"), read_time("2023-11-14T22:13:20Z")
    (1700000000.0, 1700000000.0)
    """
    try:
        number = _read_number(text)
        return (
            to_timestamp(datetime.fromisoformat(text))
            if number is None
            else validation.require_calendar_time("time", number)
        )
    except InvalidPackage as error:
        raise typer.BadParameter(error.reason) from None
    except ValueError:
        raise typer.BadParameter(f"{text!r} is neither a number of seconds nor an ISO 8601 time") from None


def _read_number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def read_duration(text: str) -> float:
    """Read how long something lasts: a number and s, m, h, d or w.

    >>> read_duration("90m"), read_duration("1.5h")
    (5400.0, 5400.0)
    """
    try:
        return parse_duration(text)
    except InvalidValue as error:
        raise typer.BadParameter(error.reason) from None


Model = Annotated[
    str,
    typer.Option("--model", "-m", metavar="NAME", help="The model's name.", autocompletion=complete_model),
]
PolicyName = Annotated[
    str,
    typer.Option(
        "--policy",
        "-p",
        metavar="NAME|FILE.toml",
        help="A policy by name (see `brimful policies`), or a policy file.",
        autocompletion=complete_policy,
    ),
]
Window = Annotated[
    int | None, typer.Option("--window", metavar="TOKENS", min=1, help="Use this window, not the model's own.")
]
Completion = Annotated[
    int | None,
    typer.Option("--completion", metavar="TOKENS", min=1, help="Keep this much for the answer, not the policy's own."),
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="KEY=VALUE", help="Change one key of the policy, as in pools.recent.max_items=50. Repeatable."
    ),
]
Out = Annotated[
    Path | None,
    typer.Option("--out", "-o", metavar="FILE", dir_okay=False, help="Write the record of the context to this file."),
]
Now = Annotated[
    float | None,
    typer.Option(
        "--now",
        metavar="TIME",
        parser=read_time,
        help="The time that ages are reckoned from: seconds since 1970, or ISO 8601. Default: the clock.",
    ),
]
At = Annotated[
    float | None,
    typer.Option(
        "--at",
        metavar="TIME",
        parser=read_time,
        help="When it was: seconds since 1970, or ISO 8601. Default: now.",
    ),
]
RequestOnly = Annotated[
    bool, typer.Option("--request", help="Print the finished request, byte for byte, and nothing else.")
]
Last = Annotated[
    float | None,
    typer.Option("--last", metavar="TIME", parser=read_duration, help="Only the last 90m, 24h, 7d. Default: all."),
]
PersonaFilter = Annotated[str | None, typer.Option("--persona", metavar="ID", help="Only for this persona.")]
RoomFilter = Annotated[str | None, typer.Option("--room", metavar="ID", help="Only in this room.")]
ModelFilter = Annotated[
    str | None,
    typer.Option("--model", "-m", metavar="NAME", help="Only for this model.", autocompletion=complete_model),
]

Db = Annotated[
    str,
    typer.Option("--db", metavar="URL", envvar="BRIMFUL_DB", help="The store: sqlite:///FILE, or postgresql://…."),
]
Tenant = Annotated[
    str, typer.Option("--tenant", metavar="NAME", envvar="BRIMFUL_TENANT", help="Whose records in the store.")
]
EmbedderSpec = Annotated[
    str,
    typer.Option(
        "--embedder",
        metavar="SPEC",
        envvar="BRIMFUL_EMBEDDER",
        help="What makes vectors: static, minilm, openai:MODEL, ollama:MODEL, …, or none.",
    ),
]
Erase = Annotated[bool, typer.Option("--erase", help="Take its content out of past contexts, too.")]
Limit = Annotated[int, typer.Option("--limit", metavar="N", min=1, help="At most so many.")]
Lorebooks = Annotated[
    list[str] | None, typer.Option("--lorebook", metavar="ID", help="A lorebook to look into. Repeatable.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else.")]


def resolve_model(name: str) -> ModelInfo:
    """Return what is known of a model; warn where that is nothing."""
    info = default_registry().resolve(clean_text(name))
    if not info.known:
        warn(unknown_model_warning(info))
    return info


def read_overrides(settings: Sequence[str] | None) -> dict[str, Any] | None:
    """Return the policy keys that `--set` changes. A value is JSON where it can be read as such, else a text.

    >>> read_overrides(["pools.recent.max_items=50", "counting=exact"])
    {'pools.recent.max_items': 50, 'counting': 'exact'}
    """
    return dict(map(_read_setting, settings)) if settings else None


def _read_setting(text: str) -> tuple[str, Any]:
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise typer.BadParameter(f"{text!r} is not of the form KEY=VALUE", param_hint="'--set'")
    try:
        return key, msgspec.json.decode(value)
    except msgspec.DecodeError:
        return key, value


HEAD: Final = "head"
"""What is said in the place of a depth for a note that stands with the system prompts."""
EVERY_PREFIX: Final = "every-"
"""What begins the number of turns of which a note is told in one."""
NOTE_FORM: Final = "DEPTH[:ROLE][:every-N]=TEXT"

Notes = Annotated[
    list[str] | None,
    typer.Option(
        "--note",
        metavar=NOTE_FORM,
        help="A text with so many messages behind it: 0 is last; `head` is with the system prompts. Repeatable; "
        "an empty one takes all notes off.",
    ),
]


def read_notes(said: Sequence[str] | None) -> tuple[Note, ...] | None:
    """Return the notes that options name; None if there are none, and nothing if an empty one takes them off.

    >>> [(note.depth, note.text) for note in read_notes(["4=Be brief.", "head=It rains."])]
    [(4, 'Be brief.'), (None, 'It rains.')]
    >>> read_notes([""])
    ()
    """
    return tuple(_read_note(each) for each in said if each) if said else None


def format_note(note: Note) -> str:
    """Return a note as the option says it: where it stands, who says it, how often, and the text.

    >>> format_note(Note(text="Be brief.", depth=4, role="user", every=3))
    '4:user:every-3=Be brief.'
    """
    role = [note.role] if note.role != "system" else []
    every = [f"{EVERY_PREFIX}{note.every}"] if note.every > 1 else []
    place = HEAD if note.depth is None else str(note.depth)
    return f"{':'.join([place, *role, *every])}={note.text}"


def _read_note(said: str) -> Note:
    head, equals, text = said.partition("=")
    place, *rest = (part.strip() for part in head.split(":"))
    every = [part.removeprefix(EVERY_PREFIX) for part in rest if part.startswith(EVERY_PREFIX)]
    roles = [part for part in rest if not part.startswith(EVERY_PREFIX)]
    numbers = [*every, *([] if place == HEAD else [place])]
    if not equals or not text.strip() or len(every) > 1 or len(roles) > 1 or not all(map(_is_number, numbers)):
        reason = f"{said!r} is not of the form {NOTE_FORM}, with a number of messages or `{HEAD}`"
        raise typer.BadParameter(reason, param_hint="'--note'")
    try:
        return Note(
            text=text,
            depth=None if place == HEAD else int(place[:9]),
            role=cast("NoteRole", roles[0]) if roles else "system",
            every=int(every[0][:9]) if every else 1,
        )
    except InvalidValue as error:
        raise typer.BadParameter(str(error), param_hint="'--note'") from None


def _is_number(said: str) -> bool:
    return said.isascii() and said.isdecimal()


CharacterFields = Annotated[
    list[str] | None,
    typer.Option(
        "--character",
        metavar="FIELD=TEXT",
        help="Who it is: description, personality, scenario, examples, greeting, greetings (each one more), "
        "nickname or prompt. Repeatable.",
    ),
]


def character_fields(character: Character | None) -> list[str]:
    """Return the fields in which something is said of a character."""
    return [field for field, said in msgspec.structs.asdict(character or Character()).items() if said]


def update_character(known: Character | None, traits: dict[str, Any]) -> Character | None:
    """Return a character that says what options gave, and else what it said."""
    return Character(**{**msgspec.structs.asdict(known or Character()), **traits}) if traits else known


def read_character_fields(said: Sequence[str] | None) -> dict[str, Any]:
    """Return the fields of a character that options name; each that names `greetings` adds one."""
    named = list(map(_read_character_field, said or ()))
    more = tuple(text for field, text in named if field == "greetings")
    return {**dict(named), **({"greetings": more} if more else {})}


def _read_character_field(text: str) -> tuple[str, str]:
    field, equals, said = text.partition("=")
    if not equals or field not in Character.__struct_fields__:
        fields = ", ".join(Character.__struct_fields__)
        raise typer.BadParameter(
            f"{text!r} is not of the form FIELD=TEXT with one of {fields}", param_hint="'--character'"
        )
    return field, said


PersonaOption = Annotated[str | None, typer.Option("--persona", metavar="ID", help="Who answers.")]
UserOption = Annotated[str | None, typer.Option("--user", metavar="ID", help="Who asks. Default: the room's own.")]
ModelOption = Annotated[
    str | None,
    typer.Option(
        "--model", "-m", metavar="NAME", help="The model. Default: the persona's.", autocompletion=complete_model
    ),
]
PolicyOption = Annotated[
    str | None,
    typer.Option(
        "--policy",
        "-p",
        metavar="NAME|FILE.toml",
        help="A policy by name, or a policy file. Default: the persona's.",
        autocompletion=complete_policy,
    ),
]
