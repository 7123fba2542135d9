"""`brimful chat`: talk to a model in a room."""

import asyncio
import contextlib
import io
import signal
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

import typer

from brimful.cli import output
from brimful.cli.assemble import show_hits
from brimful.cli.files import read_argument
from brimful.cli.options import (
    DEFAULT_DB,
    DEFAULT_EMBEDDER,
    DEFAULT_TENANT,
    Completion,
    Db,
    EmbedderSpec,
    Json,
    ModelOption,
    PersonaOption,
    PolicyOption,
    Tenant,
    UserOption,
    Window,
    resolve_model,
)
from brimful.core.context import Context
from brimful.errors import BrimfulError, UnknownRecord
from brimful.packagers.records import plain_text
from brimful.policies import load_policy
from brimful.records import Message, Room, User

if TYPE_CHECKING:
    from brimful.engine import Engine
    from brimful.engine.responder import Answer


T = TypeVar("T")


async def read_line(prompt: str) -> str:
    """Wait for a line; raise `EOFError` where there is none to come.

    The thread that waits is left behind if we are interrupted: nobody can wake it but the person at the keys.
    """
    loop = asyncio.get_running_loop()
    typed: asyncio.Future[str] = loop.create_future()

    def settle(done: Callable[[], None]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(lambda: None if typed.done() else done())

    def read() -> None:
        try:
            line = input(prompt)
        except EOFError as end:
            ended = end  # the name in the clause is gone by the time it is told
            settle(lambda: typed.set_exception(ended))
        else:
            settle(lambda: typed.set_result(line))

    threading.Thread(target=read, daemon=True).start()
    return await typed


async def interruptible(work: Awaitable[T]) -> T:
    """Wait for something that Ctrl-C cancels, and nothing else with it, where the platform can."""
    task = asyncio.ensure_future(work)
    loop = asyncio.get_running_loop()
    with contextlib.suppress(NotImplementedError):
        loop.add_signal_handler(signal.SIGINT, task.cancel)
    try:
        return await task
    finally:
        with contextlib.suppress(NotImplementedError):
            loop.remove_signal_handler(signal.SIGINT)


def enable_line_history() -> None:
    """Let the arrow keys bring earlier lines back, where the platform can. What is no text spoils only itself."""
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(errors="replace")
    with contextlib.suppress(ImportError):
        import readline  # noqa: F401, PLC0415 - importing it is what changes `input`


async def open_room(engine: "Engine", room: str, *, persona: str | None, user: str | None) -> Room:
    """Return a room as it is; one that is new begins now, with who talks in it."""
    known = await engine.store.get(Room, room)
    if known is not None:
        return known
    fresh = Room(id=room, persona=persona, user=user, created=time.time())
    await engine.put(fresh)
    return fresh


async def sender_name(engine: "Engine", user: str | None, sender: str | None) -> str:
    """Return under which name something is said: the one that was given, or else that of the user."""
    if sender is not None or user is None:
        return sender or ""
    known = await engine.store.get(User, user)
    return (known.name if known else "") or user


def show_warnings(answer: "Answer") -> None:
    """Show warnings about an answer and its context."""
    for notice in (*answer.response.notices, *answer.context.warnings):
        if notice.is_warning:
            output.warn(notice.text)


RECENT_MESSAGES: Final = 6  # messages of a room that one comes back to
CHAT_HELP: Final = """\
/context        what the model saw in the last turn, what went where, and what was found
/why ID         what became of one candidate, and why; without an ID, all of them by name
/remember TEXT  keep something to be known later
/model NAME     go on with another model
/policy NAME    go on with another policy
/help           this
/quit           leave; so does Ctrl-D"""


class Quit(Exception):
    """Somebody wants to go."""


class Chat:
    """One person at a terminal, in one room."""

    def __init__(
        self,
        engine: "Engine",
        *,
        room: str,
        persona: str | None,
        user: str | None,
        sender: str | None,
        said: dict[str, Any],
        greeting: int = 0,
    ) -> None:
        """Talk through this engine; `said` is what the command line said of model, policy and budget."""
        self._engine = engine
        self._room = room
        self._persona = persona
        self._user = user
        self._named = sender
        self._sender = sender or ""
        self._said = said
        self._greeting = greeting
        self._last: Context | None = None
        self._commands: dict[str, Callable[[str], Awaitable[None]]] = {
            "context": self._context,
            "why": self._why,
            "remember": self._remember,
            "model": self._model,
            "policy": self._policy,
            "help": self._help,
            "quit": self._quit,
        }

    async def talk(self) -> None:
        """Go on until somebody leaves."""
        await self._welcome()
        while True:
            try:
                line = (await read_line("> " if sys.stdin.isatty() else "")).strip()
                if line:
                    await self._take(line)
            except (EOFError, Quit):
                return
            except BrimfulError as error:
                output.error(str(error))

    async def _welcome(self) -> None:
        enable_line_history()
        place = await open_room(self._engine, self._room, persona=self._persona, user=self._user)
        self._persona = self._persona or place.persona
        self._user = self._user or place.user
        self._sender = await sender_name(self._engine, self._user, self._named)
        if self._persona is not None:
            await self._engine.greet(self._room, self._persona, user=self._user, greeting=self._greeting)
        newest = await self._engine.store.history(self._room, limit=RECENT_MESSAGES)
        for message in reversed([entry.message for entry in newest]):
            output.write(f"{_speaker_name(message)}: {output.printable(plain_text(message.content))}")
        if sys.stdin.isatty():
            output.write(f"(room {output.one_line(self._room)}; /help for commands, /quit to leave)")

    async def _take(self, line: str) -> None:
        if not line.startswith("/"):
            await self._answer(line)
            return
        name, _, rest = line[1:].partition(" ")
        command = self._commands.get(name)
        if command is None:
            output.error(f"there is no /{name}; /help lists the commands")
        else:
            await command(rest.strip())

    async def _answer(self, text: str) -> None:
        """Ask, and write the answer as it comes. Ctrl-C breaks it off, and what was said so far is kept."""
        try:
            await interruptible(self._streamed(text))
        except asyncio.CancelledError:
            output.write(" …")

    async def _streamed(self, text: str) -> None:
        asked = self._engine.stream(self._room, self._persona, text, user=self._user, sender=self._sender, **self._said)
        async with asked as stream:
            async for piece in stream:
                output.write_partial(output.printable(piece.text))
            output.write()
        self._last = stream.answer.context
        show_warnings(stream.answer)

    # -- commands ----------------------------------------------------------------------------------------------------

    async def _context(self, rest: str) -> None:
        del rest
        context = await self._seen()
        output.write(context.report())
        show_hits(context)

    async def _why(self, rest: str) -> None:
        context = await self._seen()
        if not rest:
            for decision in context.decisions:
                output.write(output.one_line(f"{decision.id}: {decision.outcome} ({decision.kind})"))
            return
        try:
            output.write(output.one_line(context.explain(rest)))
        except UnknownRecord:
            output.error(f"{rest!r} was no candidate of the last context")

    async def _remember(self, rest: str) -> None:
        if not rest:
            output.error("/remember needs a text")
            return
        memory = await self._engine.remember(rest, persona=self._persona, user=self._user, source="chat")
        output.write(f"remembered as {memory.id}")

    async def _model(self, rest: str) -> None:
        if rest:
            resolve_model(rest)
            self._said["model"] = rest
        output.write(f"model: {output.one_line(self._said['model'] or 'the one of the persona')}")

    async def _policy(self, rest: str) -> None:
        if rest:
            load_policy(rest)
            self._said["policy"] = rest
        output.write(f"policy: {output.one_line(self._said['policy'] or 'the one of the persona')}")

    async def _help(self, rest: str) -> None:
        del rest
        output.write(CHAT_HELP)

    async def _quit(self, rest: str) -> None:
        raise Quit(rest)

    async def _seen(self) -> Context:
        """Return the last context: of this conversation, or of the one before it in the same room."""
        if self._last is None:
            builds = await self._engine.store.builds(room=self._room, persona=self._persona, limit=1)
            snapshot = await self._engine.store.snapshot(builds[0].id) if builds else None
            if snapshot is None:
                raise BrimfulError("nothing was asked in this room yet")
            self._last = snapshot.context
        return self._last


def _speaker_name(message: Message) -> str:
    return output.one_line(message.sender or message.role)


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

SenderOption = Annotated[
    str | None,
    typer.Option("--sender", metavar="NAME", help="The name under which it is said. Default: the user's."),
]
ProviderOption = Annotated[
    str,
    typer.Option(
        "--provider",
        metavar="SPEC",
        envvar="BRIMFUL_PROVIDER",
        help="Where the model runs: openai, anthropic, gemini, ollama, a URL, or WIRE:URL. Default: its maker.",
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
    persona: PersonaOption = None,
    user: UserOption = None,
    sender: SenderOption = None,
    model: ModelOption = None,
    provider: ProviderOption = "",
    policy: PolicyOption = None,
    window: Window = None,
    completion: Completion = None,
    greeting: Annotated[
        int,
        typer.Option("--greeting", metavar="N", min=0, help="Which greeting begins a new room: 0 is the first."),
    ] = 0,
    embedder: EmbedderSpec = DEFAULT_EMBEDDER,
    db: Db = DEFAULT_DB,
    tenant: Tenant = DEFAULT_TENANT,
) -> None:
    """Chat with a model in a room.

    Answers come as they are written; Ctrl-C breaks one off. Everything said is
    kept in the store, older messages and memories come back when they matter,
    and /context shows what the model saw.
    """
    if ctx.invoked_subcommand is not None:
        return

    if model is not None:
        resolve_model(model)
    said: dict[str, Any] = {"model": model, "policy": policy, "window": window, "completion": completion}

    async def talk(engine: "Engine") -> None:
        talking = Chat(engine, room=room, persona=persona, user=user, sender=sender, said=said, greeting=greeting)
        await talking.talk()

    _with_engine(talk, db=db, tenant=tenant, embedder=embedder, provider=provider)


def send(  # noqa: PLR0913 - the options of a command
    *,
    room: Annotated[str, typer.Option("--room", metavar="ID", help="The room. It is made if there is none.")],
    message: Annotated[str, typer.Option("--message", metavar="TEXT", help="What is said. `-` is standard input.")],
    persona: PersonaOption = None,
    user: UserOption = None,
    sender: SenderOption = None,
    id: Annotated[
        str | None, typer.Option("--id", metavar="ID", help="The message's id: the same id twice is one message.")
    ] = None,
    model: ModelOption = None,
    provider: ProviderOption = "",
    policy: PolicyOption = None,
    window: Window = None,
    completion: Completion = None,
    embedder: EmbedderSpec = DEFAULT_EMBEDDER,
    db: Db = DEFAULT_DB,
    tenant: Tenant = DEFAULT_TENANT,
    as_json: Json = False,
) -> None:
    """Say one thing in a room, and print the answer."""
    text = read_argument(message)
    info = None if model is None else resolve_model(model)

    async def answer(engine: "Engine") -> "Answer":
        place = await open_room(engine, room, persona=persona, user=user)
        return await engine.respond(
            room,
            persona,
            text,
            id=id,
            user=user,
            sender=await sender_name(engine, user or place.user, sender),
            model=info,
            policy=policy,
            window=window,
            completion=completion,
        )

    answered = _with_engine(answer, db=db, tenant=tenant, embedder=embedder, provider=provider)
    show_warnings(answered)
    if as_json:
        output.show_json(_answer_data(answered))
    else:
        output.write(output.printable(answered.text))


def _with_engine(work: "Callable[[Engine], Awaitable[T]]", *, db: str, tenant: str, embedder: str, provider: str) -> T:
    from brimful.engine import Engine  # noqa: PLC0415 - commands without a store start the faster for it

    async def opened() -> T:
        async with Engine(db, tenant=tenant, embedder=embedder, provider=provider) as engine:
            return await work(engine)

    return asyncio.run(opened())


def _answer_data(answered: "Answer") -> dict[str, Any]:
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
        "notices": response.notices,
        "warnings": answered.context.warnings,
    }
