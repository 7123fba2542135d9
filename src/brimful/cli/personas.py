"""`brimful persona` and `brimful user`: manage personas and users."""

from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
import typer

from brimful.cli import output
from brimful.cli.files import read_text
from brimful.cli.options import (
    DEFAULT_DB,
    DEFAULT_TENANT,
    CharacterFields,
    Completion,
    Db,
    Json,
    Limit,
    Lorebooks,
    Notes,
    Settings,
    Tenant,
    character_fields,
    complete_model,
    complete_policy,
    format_note,
    read_character_fields,
    read_notes,
    read_overrides,
    resolve_model,
    update_character,
)
from brimful.cli.records import add_export, get_record, list_records, remove_record
from brimful.cli.store import with_engine
from brimful.cli.terminal import Table, columns
from brimful.policies import load_policy
from brimful.records import Persona, User

if TYPE_CHECKING:
    from brimful.engine import Engine


PERSONA_EXAMPLES: Final = """\
Examples:
  brimful persona create nova --prompt "You are Nova." --model gpt-4o
  brimful persona list
  brimful persona remove nova"""
PERSONA_ADD_EXAMPLES: Final = """\
Examples:
  brimful persona create nova --prompt "You are Nova." --model gpt-4o
  brimful persona create nova --prompt-file nova.txt --policy window
  brimful persona create nova --character description="A pilot." --character greeting="Hello, {{user}}!"
  brimful persona create nova --model qwen2.5:7b --provider ollama --completion 800
  brimful persona create nova --note "0=Answer in one sentence."
  brimful persona create nova --set max_messages=50 --lorebook products"""
PERSONA_LIST_EXAMPLES: Final = """\
Examples:
  brimful persona list
  brimful persona list --json | jq -r '.[].id'"""
PERSONA_SHOW_EXAMPLES: Final = """\
Examples:
  brimful persona show nova
  brimful persona show nova --json | jq -r .prompt"""
PERSONA_REMOVE_EXAMPLES: Final = """\
Examples:
  brimful persona remove nova"""

_PERSONA_COLUMNS: Final = columns("persona", "name", "model", "policy", "prompt", spare=("model", "name", "policy"))

PersonaId = Annotated[str, typer.Argument(metavar="PERSONA", help="The persona's id.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(no_args_is_help=True, epilog=PERSONA_EXAMPLES, help="Manage personas.")
    group.command("create", epilog=PERSONA_ADD_EXAMPLES)(add_persona)
    group.command("list", epilog=PERSONA_LIST_EXAMPLES)(list_personas)
    group.command("show", epilog=PERSONA_SHOW_EXAMPLES)(show_persona)
    group.command("remove", epilog=PERSONA_REMOVE_EXAMPLES)(remove_persona)
    add_export(group, Persona, name="persona")
    app.add_typer(group, name="persona")
    users = typer.Typer(no_args_is_help=True, epilog=USER_EXAMPLES, help="Manage users.")
    users.command("create", epilog=USER_ADD_EXAMPLES)(add_user)
    users.command("list", epilog=USER_LIST_EXAMPLES)(list_users)
    users.command("show", epilog=USER_SHOW_EXAMPLES)(show_user)
    users.command("remove", epilog=USER_REMOVE_EXAMPLES)(remove_user)
    add_export(users, User, name="user")
    app.add_typer(users, name="user")


def add_persona(  # noqa: PLR0913 - the options of a command
    *,
    id: PersonaId,
    name: Annotated[str | None, typer.Option("--name", metavar="TEXT", help="What people call it.")] = None,
    prompt: Annotated[str | None, typer.Option("--prompt", metavar="TEXT", help="What it is told to be.")] = None,
    prompt_file: Annotated[
        str | None, typer.Option("--prompt-file", metavar="FILE", help="The same from a file. `-` is standard input.")
    ] = None,
    model: Annotated[
        str | None,
        typer.Option("--model", "-m", metavar="NAME", help="The model it runs on.", autocompletion=complete_model),
    ] = None,
    policy: Annotated[
        str | None,
        typer.Option("--policy", "-p", metavar="NAME", help="Its policy.", autocompletion=complete_policy),
    ] = None,
    provider: Annotated[
        str | None,
        typer.Option("--provider", metavar="SPEC", help="Where its model runs: ollama, openai:URL, …."),
    ] = None,
    completion: Completion = None,
    character: CharacterFields = None,
    settings: Settings = None,
    lorebooks: Lorebooks = None,
    notes: Notes = None,
    db: Db = DEFAULT_DB,
    tenant: Tenant = DEFAULT_TENANT,
    as_json: Json = False,
) -> None:
    """Make a persona, or change one: what is not said stays as it is.

    `--set` takes the keys of a policy, or the short names of overrides, as in
    max_messages=50.
    """
    if prompt is not None and prompt_file is not None:
        raise typer.BadParameter("give one of them", param_hint="'--prompt' / '--prompt-file'")
    given: dict[str, Any] = {
        "name": name,
        "prompt": prompt if prompt_file is None else read_text(prompt_file).removesuffix("\n"),
        "model": model,
        "provider": provider,
        "policy": policy,
        "completion": completion,
        "overrides": read_overrides(settings),
        "lorebooks": tuple(lorebooks) if lorebooks else None,
        "notes": read_notes(notes),
    }
    if model:
        resolve_model(model)
    traits = read_character_fields(character)

    async def put(engine: "Engine") -> Persona:
        held = await engine.store.get(Persona, id) or Persona(id=id)
        persona = msgspec.structs.replace(held, **{key: value for key, value in given.items() if value is not None})
        persona = msgspec.structs.replace(persona, character=update_character(persona.character, traits))
        _check_policy(persona)
        await engine.put(persona)
        return persona

    persona = with_engine(put, db=db, tenant=tenant, new=True)
    if as_json:
        output.show_json(persona)
    else:
        output.show_fields(_persona_fields(persona))


def list_personas(
    *,
    limit: Limit = 100,
    db: Db = DEFAULT_DB,
    tenant: Tenant = DEFAULT_TENANT,
    as_json: Json = False,
) -> None:
    """List the personas by id."""
    found = list_records(Persona, limit=limit, db=db, tenant=tenant)
    if as_json:
        output.show_json(found)
    else:
        output.show_table(Table(_PERSONA_COLUMNS, [_persona_row(persona) for persona in found]))


def show_persona(*, id: PersonaId, db: Db = DEFAULT_DB, tenant: Tenant = DEFAULT_TENANT, as_json: Json = False) -> None:
    """Show a persona: its prompt, and what it changes."""
    persona = get_record(Persona, id, db=db, tenant=tenant)
    if as_json:
        output.show_json(persona)
        return
    output.show_fields(_persona_fields(persona))
    for text in (persona.prompt, persona.character.sheet if persona.character else ""):
        if text:
            output.write()
            output.write(output.printable(text))


def remove_persona(
    *, id: PersonaId, db: Db = DEFAULT_DB, tenant: Tenant = DEFAULT_TENANT, as_json: Json = False
) -> None:
    """Remove a persona, and the memories that it alone has."""
    remove_record(Persona, id, db=db, tenant=tenant, as_json=as_json)


def _check_policy(persona: Persona) -> None:
    """Refuse what would make each of its contexts fail."""
    from brimful.engine.plan import get_policy_keys  # noqa: PLC0415 - the engine is open, and with it this module

    load_policy(persona.policy or "default", overrides=get_policy_keys(persona.overrides) or None)


def _persona_row(persona: Persona) -> list[str]:
    return [persona.id, persona.name, persona.model, persona.policy, output.preview(persona.prompt)]


def _persona_fields(persona: Persona) -> list[tuple[str, str]]:
    return [
        ("persona", persona.id),
        ("name", persona.name),
        ("model", persona.model),
        ("provider", persona.provider),
        ("policy", persona.policy),
        ("completion", output.format_number(persona.completion)),
        ("character", ", ".join(character_fields(persona.character))),
        ("overrides", ", ".join(f"{key}={_format_value(value)}" for key, value in persona.overrides.items())),
        ("lorebooks", ", ".join(persona.lorebooks)),
        *(("note", format_note(note)) for note in persona.notes),
        ("metadata", _format_value(persona.metadata) if persona.metadata else ""),
    ]


def _format_value(value: Any) -> str:
    return msgspec.json.encode(value).decode()


USER_EXAMPLES: Final = """\
Examples:
  brimful user create ada --name Ada
  brimful user list
  brimful user remove ada"""
USER_ADD_EXAMPLES: Final = """\
Examples:
  brimful user create ada --name Ada
  brimful user create ada --lorebook family
  brimful user create ada --note "head={{user}} is a gardener, and reads no English."
  brimful user create ada --note \"\""""
USER_LIST_EXAMPLES: Final = """\
Examples:
  brimful user list
  brimful user list --json | jq -r '.[].id'"""
USER_SHOW_EXAMPLES: Final = """\
Examples:
  brimful user show ada
  brimful user show ada --json | jq .notes"""
USER_REMOVE_EXAMPLES: Final = """\
Examples:
  brimful user remove ada"""

_USER_COLUMNS: Final = columns("user", "name", "lorebooks", "notes", right=["notes"], spare=("lorebooks", "name"))

UserId = Annotated[str, typer.Argument(metavar="USER", help="The user's id.")]


def add_user(
    *,
    id: UserId,
    name: Annotated[str | None, typer.Option("--name", metavar="TEXT", help="What people call them.")] = None,
    lorebooks: Lorebooks = None,
    notes: Notes = None,
    db: Db = DEFAULT_DB,
    tenant: Tenant = DEFAULT_TENANT,
    as_json: Json = False,
) -> None:
    """Make a user, or change one: what is not said stays as it is."""
    given: dict[str, Any] = {
        "name": name,
        "lorebooks": tuple(lorebooks) if lorebooks else None,
        "notes": read_notes(notes),
    }

    async def put(engine: "Engine") -> User:
        held = await engine.store.get(User, id) or User(id=id)
        user = msgspec.structs.replace(held, **{key: value for key, value in given.items() if value is not None})
        await engine.put(user)
        return user

    _show_user(with_engine(put, db=db, tenant=tenant, new=True), as_json=as_json)


def list_users(
    *,
    limit: Limit = 100,
    db: Db = DEFAULT_DB,
    tenant: Tenant = DEFAULT_TENANT,
    as_json: Json = False,
) -> None:
    """List the users by id."""
    found = list_records(User, limit=limit, db=db, tenant=tenant)
    if as_json:
        output.show_json(found)
    else:
        output.show_table(Table(_USER_COLUMNS, [_user_row(user) for user in found]))


def show_user(*, id: UserId, db: Db = DEFAULT_DB, tenant: Tenant = DEFAULT_TENANT, as_json: Json = False) -> None:
    """Show a user: the name, and what comes along into each of their rooms."""
    _show_user(get_record(User, id, db=db, tenant=tenant), as_json=as_json)


def remove_user(*, id: UserId, db: Db = DEFAULT_DB, tenant: Tenant = DEFAULT_TENANT, as_json: Json = False) -> None:
    """Remove a user, and the memories that belong to them. Their rooms stay."""
    remove_record(User, id, db=db, tenant=tenant, as_json=as_json)


def _show_user(user: User, *, as_json: bool) -> None:
    if as_json:
        output.show_json(user)
    else:
        output.show_fields(_user_fields(user))


def _user_row(user: User) -> list[str]:
    return [user.id, user.name, ", ".join(user.lorebooks), f"{len(user.notes):,}"]


def _user_fields(user: User) -> list[tuple[str, str]]:
    return [
        ("user", user.id),
        ("name", user.name),
        ("lorebooks", ", ".join(user.lorebooks)),
        *(("note", format_note(note)) for note in user.notes),
        ("metadata", msgspec.json.encode(user.metadata).decode() if user.metadata else ""),
    ]
