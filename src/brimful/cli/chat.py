"""`brimful chat`: talk to a model in a room, with all that the room knows."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

import typer

from brimful.cli import output
from brimful.cli.messages import words
from brimful.cli.options import (
    DEFAULT_DB,
    DEFAULT_EMBEDDER,
    DEFAULT_TENANT,
    Completion,
    Db,
    Embedder,
    Json,
    Tenant,
    Window,
    complete_model,
    complete_policy,
    known_model,
)
from brimful.cli.speaking import begun, speaker, warn_of

if TYPE_CHECKING:
    from brimful.engine import Engine
    from brimful.engine.answer import Answer

T = TypeVar("T")

EXAMPLES: Final = """\
Examples:
  brimful chat --model gpt-4o
  brimful chat --room support --persona nova --user ada
  brimful chat --model qwen2.5:7b --provider ollama
  brimful chat --model smollm2 --provider http://127.0.0.1:8081/v1
  brimful chat send --room support --persona nova --message "Where is my parcel?"

In a chat: /context, /why ID, /remember TEXT, /model NAME, /policy NAME, /help, /quit"""
SEND_EXAMPLES: Final = """\
Examples:
  brimful chat send --room support --persona nova --message "Where is my parcel?"
  echo "Where is it?" | brimful chat send --room support -m gpt-4o --message -
  brimful chat send --room support -m gpt-4o --message "Hi" --json | jq -r .context"""
DEFAULT_ROOM: Final = "chat"

Persona = Annotated[str | None, typer.Option("--persona", metavar="ID", help="Who answers.")]
User = Annotated[str | None, typer.Option("--user", metavar="ID", help="Who asks. Default: the room's own.")]
Sender = Annotated[
    str | None,
    typer.Option("--sender", metavar="NAME", help="The name under which it is said. Default: the user's."),
]
ModelName = Annotated[
    str | None,
    typer.Option(
        "--model", "-m", metavar="NAME", help="The model. Default: the persona's.", autocompletion=complete_model
    ),
]
ProviderSpec = Annotated[
    str,
    typer.Option(
        "--provider",
        metavar="SPEC",
        envvar="BRIMFUL_PROVIDER",
        help="Where the model runs: openai, anthropic, gemini, ollama, a URL, or WIRE:URL. Default: its maker.",
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


def register(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(invoke_without_command=True, epilog=EXAMPLES, callback=chat)
    group.command("send", epilog=SEND_EXAMPLES)(send)
    app.add_typer(group, name="chat")


def chat(  # noqa: PLR0913 - the options of a command
    ctx: typer.Context,
    *,
    room: Annotated[str, typer.Option("--room", metavar="ID", help="The room. It is made if needed.")] = DEFAULT_ROOM,
    persona: Persona = None,
    user: User = None,
    sender: Sender = None,
    model: ModelName = None,
    provider: ProviderSpec = "",
    policy: PolicyOption = None,
    window: Window = None,
    completion: Completion = None,
    greeting: Annotated[
        int,
        typer.Option("--greeting", metavar="N", min=0, help="Which greeting begins a new room: 0 is the first."),
    ] = 0,
    embedder: Embedder = DEFAULT_EMBEDDER,
    db: Db = DEFAULT_DB,
    tenant: Tenant = DEFAULT_TENANT,
) -> None:
    """Talk to a model, in a room that remembers.

    Answers come as they are written; Ctrl-C breaks one off. Everything said is
    kept in the store, older messages and memories come back when they matter,
    and /context shows what the model saw.
    """
    if ctx.invoked_subcommand is not None:
        return
    from brimful.cli.chatting import Chat  # noqa: PLC0415 - with it comes the engine

    if model is not None:
        known_model(model)
    said: dict[str, Any] = {"model": model, "policy": policy, "window": window, "completion": completion}

    async def talk(engine: "Engine") -> None:
        talking = Chat(engine, room=room, persona=persona, user=user, sender=sender, said=said, greeting=greeting)
        await talking.talk()

    _with_engine(talk, db=db, tenant=tenant, embedder=embedder, provider=provider)


def send(  # noqa: PLR0913 - the options of a command
    *,
    room: Annotated[str, typer.Option("--room", metavar="ID", help="The room. It is made if there is none.")],
    message: Annotated[str, typer.Option("--message", metavar="TEXT", help="What is said. `-` is standard input.")],
    persona: Persona = None,
    user: User = None,
    sender: Sender = None,
    id: Annotated[
        str | None, typer.Option("--id", metavar="ID", help="The message's id: the same id twice is one message.")
    ] = None,
    model: ModelName = None,
    provider: ProviderSpec = "",
    policy: PolicyOption = None,
    window: Window = None,
    completion: Completion = None,
    embedder: Embedder = DEFAULT_EMBEDDER,
    db: Db = DEFAULT_DB,
    tenant: Tenant = DEFAULT_TENANT,
    as_json: Json = False,
) -> None:
    """Say one thing in a room, and print the answer."""
    text = words(message)
    info = None if model is None else known_model(model)

    async def answer(engine: "Engine") -> "Answer":
        place = await begun(engine, room, persona=persona, user=user)
        return await engine.respond(
            room,
            persona,
            text,
            id=id,
            user=user,
            sender=await speaker(engine, user or place.user, sender),
            model=info,
            policy=policy,
            window=window,
            completion=completion,
        )

    answered = _with_engine(answer, db=db, tenant=tenant, embedder=embedder, provider=provider)
    warn_of(answered)
    if as_json:
        output.show_json(_data(answered))
    else:
        output.say(output.lines(answered.text))


def _with_engine(work: "Callable[[Engine], Awaitable[T]]", *, db: str, tenant: str, embedder: str, provider: str) -> T:
    from brimful.engine import Engine  # noqa: PLC0415 - commands without a store start the faster for it

    async def opened() -> T:
        async with Engine(db, tenant=tenant, embedder=embedder, provider=provider) as engine:
            return await work(engine)

    return asyncio.run(opened())


def _data(answered: "Answer") -> dict[str, Any]:
    response = answered.response
    return {
        "text": answered.text,
        "calls": answered.calls,
        "id": response.id,
        "message": response.message,
        "context": response.context,
        "model": response.model,
        "route": response.route,
        "finish": response.finish,
        "counted": answered.context.tokens,
        "usage": response.usage,
        "seconds": response.seconds,
        "notes": response.notes,
        "warnings": answered.context.warnings,
    }
