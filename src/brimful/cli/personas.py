"""`brimful persona`: whom the model plays, and how its windows are filled."""

from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
import typer

from brimful.cli import output
from brimful.cli.exports import add_export
from brimful.cli.noting import Notes, note_line, notes_given
from brimful.cli.opened import ask
from brimful.cli.options import (
    DEFAULT_DB,
    DEFAULT_TENANT,
    Completion,
    Db,
    Json,
    Limit,
    Lorebooks,
    Settings,
    Tenant,
    complete_model,
    complete_policy,
    known_model,
)
from brimful.cli.options import overrides as read_overrides
from brimful.cli.people import all_of, take_out, the
from brimful.cli.source import read_text
from brimful.cli.table import Table, columns
from brimful.cli.traits import Traits, character_with, traits_given, traits_of
from brimful.policies import load_policy
from brimful.records import Persona

if TYPE_CHECKING:
    from brimful.engine import Engine

EXAMPLES: Final = """\
Examples:
  brimful persona create nova --prompt "You are Nova." --model gpt-4o
  brimful persona list
  brimful persona remove nova"""
CREATE_EXAMPLES: Final = """\
Examples:
  brimful persona create nova --prompt "You are Nova." --model gpt-4o
  brimful persona create nova --prompt-file nova.txt --policy window
  brimful persona create nova --character description="A pilot." --character greeting="Hello, {{user}}!"
  brimful persona create nova --model qwen2.5:7b --provider ollama --completion 800
  brimful persona create nova --note "0=Answer in one sentence."
  brimful persona create nova --set most_messages=50 --lorebook products"""
LIST_EXAMPLES: Final = """\
Examples:
  brimful persona list
  brimful persona list --json | jq -r '.[].id'"""
SHOW_EXAMPLES: Final = """\
Examples:
  brimful persona show nova
  brimful persona show nova --json | jq -r .prompt"""
REMOVE_EXAMPLES: Final = """\
Examples:
  brimful persona remove nova"""

_COLUMNS: Final = columns("persona", "name", "model", "policy", "prompt", spare=("model", "name", "policy"))

Id = Annotated[str, typer.Argument(metavar="PERSONA", help="The persona's id.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(no_args_is_help=True, epilog=EXAMPLES, help="Whom the model plays.")
    group.command("create", epilog=CREATE_EXAMPLES)(create)
    group.command("list", epilog=LIST_EXAMPLES)(list_personas)
    group.command("show", epilog=SHOW_EXAMPLES)(show)
    group.command("remove", epilog=REMOVE_EXAMPLES)(remove)
    add_export(group, Persona, name="persona")
    app.add_typer(group, name="persona")


def create(  # noqa: PLR0913 - the options of a command
    *,
    id: Id,
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
    character: Traits = None,
    settings: Settings = None,
    lorebooks: Lorebooks = None,
    notes: Notes = None,
    db: Db = DEFAULT_DB,
    tenant: Tenant = DEFAULT_TENANT,
    as_json: Json = False,
) -> None:
    """Make a persona, or change one: what is not said stays as it is.

    `--set` takes the keys of a policy, or the short names of overrides, as in
    most_messages=50.
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
        "notes": notes_given(notes),
    }
    if model:
        known_model(model)
    traits = traits_given(character)

    async def put(engine: "Engine") -> Persona:
        held = await engine.store.get(Persona, id) or Persona(id=id)
        persona = msgspec.structs.replace(held, **{key: value for key, value in given.items() if value is not None})
        persona = msgspec.structs.replace(persona, character=character_with(persona.character, traits))
        _check(persona)
        await engine.put(persona)
        return persona

    persona = ask(put, db=db, tenant=tenant, new=True)
    if as_json:
        output.show_json(persona)
    else:
        output.show_facts(_facts(persona))


def list_personas(
    *,
    limit: Limit = 100,
    db: Db = DEFAULT_DB,
    tenant: Tenant = DEFAULT_TENANT,
    as_json: Json = False,
) -> None:
    """List the personas by id."""
    found = all_of(Persona, limit=limit, db=db, tenant=tenant)
    if as_json:
        output.show_json(found)
    else:
        output.show_table(Table(_COLUMNS, [_row(persona) for persona in found]))


def show(*, id: Id, db: Db = DEFAULT_DB, tenant: Tenant = DEFAULT_TENANT, as_json: Json = False) -> None:
    """Show a persona: its prompt, and what it changes."""
    persona = the(Persona, id, db=db, tenant=tenant)
    if as_json:
        output.show_json(persona)
        return
    output.show_facts(_facts(persona))
    for text in (persona.prompt, persona.character.sheet if persona.character else ""):
        if text:
            output.say()
            output.say(output.lines(text))


def remove(*, id: Id, db: Db = DEFAULT_DB, tenant: Tenant = DEFAULT_TENANT, as_json: Json = False) -> None:
    """Remove a persona, and the memories that it alone has."""
    take_out(Persona, id, db=db, tenant=tenant, as_json=as_json)


def _check(persona: Persona) -> None:
    """Refuse what would make each of its contexts fail."""
    from brimful.engine.plan import keys_of  # noqa: PLC0415 - the engine is open, and with it this module

    load_policy(persona.policy or "default", overrides=keys_of(persona.overrides) or None)


def _row(persona: Persona) -> list[str]:
    return [persona.id, persona.name, persona.model, persona.policy, output.preview(persona.prompt)]


def _facts(persona: Persona) -> list[tuple[str, str]]:
    return [
        ("persona", persona.id),
        ("name", persona.name),
        ("model", persona.model),
        ("provider", persona.provider),
        ("policy", persona.policy),
        ("completion", output.number(persona.completion)),
        ("character", ", ".join(traits_of(persona.character))),
        ("overrides", ", ".join(f"{key}={_value(value)}" for key, value in persona.overrides.items())),
        ("lorebooks", ", ".join(persona.lorebooks)),
        *(("note", note_line(note)) for note in persona.notes),
        ("metadata", _value(persona.metadata) if persona.metadata else ""),
    ]


def _value(value: Any) -> str:
    return msgspec.json.encode(value).decode()
