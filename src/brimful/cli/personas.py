"""`brimful persona` and `brimful user`: manage personas and users."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
import typer

from brimful.cli import output
from brimful.cli.files import read_text
from brimful.cli.options import (
    Completion,
    Limit,
    Lorebooks,
    NameOption,
    Settings,
    model_option,
    policy_option,
    read_overrides,
    resolve_model,
)
from brimful.cli.output import columns
from brimful.cli.records import (
    CharacterFields,
    FocusField,
    Notes,
    RecordKind,
    add_record_commands,
    character_fields,
    format_note,
    read_character_fields,
    read_notes,
    replace_set,
    update_character,
)
from brimful.errors import UnknownRecord
from brimful.policies import load_policy
from brimful.records import Persona, User
from brimful.records.removal import RemovalReport

if TYPE_CHECKING:
    from brimful.engine import Engine
    from brimful.stores import Store

PERSONA_EXAMPLES: Final = """\
Examples:
  brimful persona add nova --prompt "You are Nova." --model gpt-4o
  brimful persona list
  brimful persona remove nova"""
USER_EXAMPLES: Final = """\
Examples:
  brimful user add ada --name Ada
  brimful user list
  brimful user remove ada"""

PersonaId = Annotated[str, typer.Argument(metavar="PERSONA", help="The persona's id.")]
UserId = Annotated[str, typer.Argument(metavar="USER", help="The user's id.")]


def register(app: typer.Typer) -> None:
    personas = typer.Typer(no_args_is_help=True, epilog=PERSONA_EXAMPLES, help="Manage personas.")
    add_record_commands(personas, PERSONAS)
    app.add_typer(personas, name="persona")
    users = typer.Typer(no_args_is_help=True, epilog=USER_EXAMPLES, help="Manage users.")
    add_record_commands(users, USERS)
    app.add_typer(users, name="user")


# -- personas --------------------------------------------------------------------------------------------------------


async def find_personas(store: "Store", *, limit: Limit = 100) -> list[Persona]:
    """List personas by id."""
    return await store.list_records(Persona, limit=limit)


async def get_persona(store: "Store", id: PersonaId) -> Persona:
    """Show a persona with its prompt."""
    return await store.require(Persona, id)


def edit_persona(  # noqa: PLR0913 - the options of a command
    *,
    name: NameOption = None,
    prompt: Annotated[str | None, typer.Option("--prompt", metavar="TEXT", help="System prompt.")] = None,
    prompt_file: Annotated[
        str | None,
        typer.Option(
            "--prompt-file", metavar="FILE", help="Read the system prompt from a file. `-` reads standard input."
        ),
    ] = None,
    model: Annotated[str | None, model_option("Its model.")] = None,
    policy: Annotated[str | None, policy_option("Its policy.", metavar="NAME")] = None,
    provider: Annotated[
        str | None,
        typer.Option("--provider", metavar="SPEC", help="Where its model runs, such as ollama or openai:URL."),
    ] = None,
    completion: Completion = None,
    focus: FocusField = None,
    character: CharacterFields = None,
    settings: Settings = None,
    lorebooks: Lorebooks = None,
    notes: Notes = None,
) -> Callable[[Persona], Persona]:
    """`--set` takes policy keys, or the short names of overrides, as in max_messages=50, which is for history only."""
    if prompt is not None and prompt_file is not None:
        raise typer.BadParameter("cannot be combined with --prompt", param_hint="'--prompt-file'")
    changes: dict[str, Any] = {
        "name": name,
        "prompt": prompt if prompt_file is None else read_text(prompt_file).removesuffix("\n"),
        "model": model,
        "provider": provider,
        "policy": policy,
        "completion": completion,
        "focus": focus,
        "overrides": read_overrides(settings),
        "lorebooks": tuple(lorebooks) if lorebooks else None,
        "notes": read_notes(notes),
    }
    if model:
        resolve_model(model)
    fields = read_character_fields(character)

    def apply(persona: Persona) -> Persona:
        changed = replace_set(persona, changes)
        changed = msgspec.structs.replace(changed, character=update_character(persona.character, fields))
        _check_policy(changed)
        return changed

    return apply


async def remove_persona(engine: "Engine", id: PersonaId) -> RemovalReport:
    """Remove a persona and the memories that belong to it."""
    report = await engine.store.remove(Persona, id)
    if not report:
        raise UnknownRecord("persona", id)
    return report


def _check_policy(persona: Persona) -> None:
    """Reject overrides that would make every context of the persona fail."""
    from brimful.engine.plan import get_policy_keys  # noqa: PLC0415 - the engine is open, so this is imported already

    load_policy(persona.policy or "default", overrides=get_policy_keys(persona.overrides) or None)


def _persona_fields(persona: Persona) -> list[tuple[str, str]]:
    return [
        ("persona", persona.id),
        ("name", persona.name),
        ("model", persona.model),
        ("provider", persona.provider),
        ("policy", persona.policy),
        ("focus", persona.focus),
        ("completion", output.format_number(persona.completion)),
        ("character", ", ".join(character_fields(persona.character))),
        ("overrides", ", ".join(f"{k}={msgspec.json.encode(v).decode()}" for k, v in persona.overrides.items())),
        ("lorebooks", ", ".join(persona.lorebooks)),
        *(("note", format_note(note)) for note in persona.notes),
        ("metadata", output.format_json(persona.metadata)),
    ]


def _persona_text(persona: Persona) -> list[str]:
    sheet = persona.character.sheet if persona.character else ""
    return [text for text in (persona.prompt, sheet) if text]


PERSONAS: Final = RecordKind(
    name="persona",
    plural="personas",
    columns=columns("persona", "name", "model", "policy", "prompt", spare=("model", "name", "policy")),
    row=lambda each: [each.id, each.name, each.model, each.policy, output.preview(each.prompt)],
    fields=_persona_fields,
    text=_persona_text,
    find=find_personas,
    get=get_persona,
    edit=edit_persona,
    remove=remove_persona,
    entity=Persona,
    record=Persona,
    examples={
        "list": """\
  brimful persona list
  brimful persona list --json | jq -r '.[].id'""",
        "show": """\
  brimful persona show nova
  brimful persona show nova --json | jq -r .prompt""",
        "add": """\
  brimful persona add nova --prompt "You are Nova." --model gpt-4o
  brimful persona add nova --prompt-file nova.txt --policy window
  brimful persona add nova --character description="A pilot." --character greeting="Hello, {{user}}!"
  brimful persona add nova --model qwen2.5:7b --provider ollama --completion 800""",
        "edit": """\
  brimful persona edit nova --note "0=Answer in one sentence."
  brimful persona edit nova --set max_messages=50 --lorebook products""",
        "remove": "  brimful persona remove nova",
    },
)


# -- users -----------------------------------------------------------------------------------------------------------


async def find_users(store: "Store", *, limit: Limit = 100) -> list[User]:
    """List users by id."""
    return await store.list_records(User, limit=limit)


async def get_user(store: "Store", id: UserId) -> User:
    """Show a user."""
    return await store.require(User, id)


def edit_user(
    *,
    name: NameOption = None,
    timezone: Annotated[
        str | None, typer.Option("--timezone", metavar="NAME", help="Their time zone, such as Europe/Berlin.")
    ] = None,
    lorebooks: Lorebooks = None,
    notes: Notes = None,
) -> Callable[[User], User]:
    """Lorebooks and notes of a user apply in all of their rooms."""
    changes: dict[str, Any] = {
        "name": name,
        "timezone": timezone,
        "lorebooks": tuple(lorebooks) if lorebooks else None,
        "notes": read_notes(notes),
    }

    def apply(user: User) -> User:
        return replace_set(user, changes)

    return apply


async def remove_user(engine: "Engine", id: UserId) -> RemovalReport:
    """Remove a user with their memories, rooms, contexts and API keys."""
    report = await engine.store.remove(User, id)
    if not report:
        raise UnknownRecord("user", id)
    return report


async def _get_or_make_user(store: "Store", id: str) -> User:
    """Return a user, or an empty one: rooms and memories may belong to a user without a record."""
    return await store.get(User, id) or User(id=id)


def _user_fields(user: User) -> list[tuple[str, str]]:
    return [
        ("user", user.id),
        ("name", user.name),
        ("timezone", user.timezone),
        ("lorebooks", ", ".join(user.lorebooks)),
        *(("note", format_note(note)) for note in user.notes),
        ("metadata", output.format_json(user.metadata)),
    ]


USERS: Final = RecordKind(
    name="user",
    plural="users",
    columns=columns("user", "name", "lorebooks", "notes", right=["notes"], spare=("lorebooks", "name")),
    row=lambda user: [user.id, user.name, ", ".join(user.lorebooks), f"{len(user.notes):,}"],
    fields=_user_fields,
    find=find_users,
    get=get_user,
    edit=edit_user,
    remove=remove_user,
    warning=lambda user: f"user {user.id!r} with their memories, contexts and API keys, and all of their rooms",
    get_removed=_get_or_make_user,
    entity=User,
    record=User,
    examples={
        "list": """\
  brimful user list
  brimful user list --json | jq -r '.[].id'""",
        "show": """\
  brimful user show ada
  brimful user show ada --json | jq .notes""",
        "add": """\
  brimful user add ada --name Ada
  brimful user add ada --lorebook family --note "head={{user}} is a gardener.\"""",
        "edit": """\
  brimful user edit ada --lorebook family
  brimful user edit ada --note \"\"""",
        "remove": """\
  brimful user remove ada
  brimful user remove ada --yes""",
    },
)
