"""`brimful chat`: talk to a model in a room."""

import asyncio
import contextlib
import io
import signal
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

import typer

from brimful.cli import output
from brimful.cli.app import FAILED
from brimful.cli.assemble import RetrievalOptions, show_hits
from brimful.cli.files import read_argument
from brimful.cli.options import (
    DEFAULT_EMBEDDER,
    Completion,
    EmbedderSpec,
    Json,
    MaxPromptTokens,
    ModelOption,
    NewRoomOption,
    PersonaOption,
    PolicyOption,
    UserOption,
    Window,
    resolve_model,
)
from brimful.cli.store import with_engine
from brimful.core.context import Context
from brimful.core.validation import preview
from brimful.errors import BrimfulError, InvalidValue, UnknownRecord
from brimful.packagers.records import plain_text
from brimful.policies import load_policy
from brimful.records import Persona, Room, User

if TYPE_CHECKING:
    from brimful.engine import Engine
    from brimful.engine.responder import Answer


T = TypeVar("T")


async def read_line(prompt: str) -> str:
    """Wait for a line of input; raise `EOFError` at the end.

    The waiting thread is left behind on interruption, since only the person at the keyboard can wake it.
    """
    loop = asyncio.get_running_loop()
    typed: asyncio.Future[str] = loop.create_future()

    def settle(done: Callable[[], None]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(lambda: None if typed.done() else done())

    def read() -> None:
        try:
            line = input(prompt)
        except EOFError as end:
            error = end  # Python deletes the name at the end of the clause
            settle(lambda: typed.set_exception(error))
        else:
            settle(lambda: typed.set_result(line))

    threading.Thread(target=read, daemon=True).start()
    return await typed


async def interruptible(work: Awaitable[T]) -> T:
    """Wait for something that Ctrl-C cancels, without ending the program, if the platform supports it."""
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
    """Let the arrow keys recall earlier lines, if the platform supports it. Invalid UTF-8 is replaced."""
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(errors="replace")
    with contextlib.suppress(ImportError):
        import readline  # noqa: F401, PLC0415 - importing it is what changes `input`


async def open_room(engine: "Engine", room: str, *, persona: str | None, user: str | None) -> Room:
    """Return a room; create it with this persona and user if it does not exist."""
    if persona is not None and await engine.store.get(Persona, persona) is None:
        raise InvalidValue("persona", f"there is no {preview(persona)}: create it with `brimful persona add`")
    known = await engine.store.get(Room, room)
    if known is not None:
        return known
    created = Room(id=room, persona=persona, user=user, created=time.time())
    await engine.put(created)
    return created


async def sender_name(engine: "Engine", user: str | None, sender: str | None) -> str:
    """Return the sender's name: the given one, or the user's."""
    if sender is not None or user is None:
        return sender or ""
    known = await engine.store.get(User, user)
    return (known.name if known else "") or user


def show_warnings(answer: "Answer") -> None:
    """Print the warnings of all answers and their contexts."""
    for each in (answer, *answer.others):
        for notice in (*each.response.notices, *each.context.warnings):
            output.warn(notice.text)


RECENT_MESSAGES: Final = 6  # messages shown when a chat is resumed
CHAT_HELP: Final = """\
/context        show what the model saw in the last turn
/why ID         show why a candidate was included or left out; without an ID, list all candidates
/remember TEXT  add a memory
/model NAME     switch to another model
/policy NAME    switch to another policy
/help           show this help
/quit           leave; Ctrl-D does the same"""


class Quit(Exception):
    """The user wants to leave."""


class Chat:
    """A chat of one person in one room, at a terminal or in a pipe."""

    def __init__(
        self,
        engine: "Engine",
        *,
        room: str,
        persona: str | None,
        user: str | None,
        sender: str | None,
        settings: dict[str, Any],
        greeting: int = 0,
    ) -> None:
        """Chat through an engine; `settings` are the model, policy and budget of the command line."""
        self._engine = engine
        self._room = room
        self._persona = persona
        self._user = user
        self._given_sender = sender
        self._sender = sender or ""
        self._settings = settings
        self._greeting = greeting
        self._last: Context | None = None
        self._failed = False
        self._commands: dict[str, Callable[[str], Awaitable[None]]] = {
            "context": self._context,
            "why": self._why,
            "remember": self._remember,
            "model": partial(self._switch, "model", resolve_model),
            "policy": partial(self._switch, "policy", load_policy),
            "help": self._help,
            "quit": self._quit,
        }

    async def talk(self) -> bool:
        """Chat until the user leaves. Return False if input was piped in and something failed."""
        await self._welcome()
        while True:
            try:
                line = (await read_line("> " if sys.stdin.isatty() else "")).strip()
                if line:
                    await self._take(line)
            except (EOFError, Quit):
                return not self._failed
            except BrimfulError as error:
                self._fail(str(error))

    def _fail(self, message: str) -> None:
        output.error(message)
        self._failed = self._failed or not sys.stdin.isatty()

    async def _welcome(self) -> None:
        enable_line_history()
        opened = await open_room(self._engine, self._room, persona=self._persona, user=self._user)
        self._persona = self._persona or opened.persona
        self._user = self._user or opened.user
        self._sender = await sender_name(self._engine, self._user, self._given_sender)
        if self._persona is not None:
            await self._engine.greet(self._room, self._persona, user=self._user, greeting=self._greeting)
        newest = await self._engine.store.history(self._room, limit=RECENT_MESSAGES)
        for message in reversed([entry.message for entry in newest]):
            speaker = output.one_line(message.sender or message.role)
            output.write(f"{speaker}: {output.printable(plain_text(message.content))}")
        if sys.stdin.isatty():
            output.write(f"(room {output.one_line(self._room)}; /help for commands, /quit to leave)")

    async def _take(self, line: str) -> None:
        if not line.startswith("/"):
            await self._answer(line)
            return
        name, _, rest = line[1:].partition(" ")
        command = self._commands.get(name)
        if command is None:
            self._fail(f"there is no command /{name}; /help lists the commands")
        else:
            await command(rest.strip())

    async def _answer(self, text: str) -> None:
        """Print the answer as it arrives. Ctrl-C stops it; what has arrived is saved."""
        try:
            await interruptible(self._streamed(text))
        except asyncio.CancelledError:
            output.write(" …")

    async def _streamed(self, text: str) -> None:
        """Print the answer, or one for each persona that the text mentions, after its name."""
        from brimful.engine.mentions import find_mentioned  # noqa: PLC0415 - other commands start without the engine

        mentioned = await find_mentioned(self._engine.store, text)
        answer = self._engine.stream(
            self._room,
            text,
            persona=None if mentioned else self._persona,
            user=self._user,
            sender=self._sender,
            **self._settings,
        )
        speaker = ""
        async with answer as stream:
            async for piece in stream:
                if mentioned and stream.speaker != speaker:
                    output.write_partial(("\n" if speaker else "") + f"{output.one_line(stream.speaker)}: ")
                    speaker = stream.speaker
                output.write_partial(output.printable(piece.text))
            output.write()
        self._last = (stream.answer, *stream.answer.others)[-1].context
        show_warnings(stream.answer)

    # -- commands ----------------------------------------------------------------------------------------------------

    async def _context(self, rest: str) -> None:
        del rest
        context = await self._last_context()
        output.write(context.report())
        show_hits(context)

    async def _why(self, rest: str) -> None:
        context = await self._last_context()
        if not rest:
            for decision in context.decisions:
                output.write(output.one_line(f"{decision.id}: {decision.outcome} ({decision.kind})"))
            return
        try:
            output.write(output.one_line(context.explain(rest)))
        except UnknownRecord:
            self._fail(f"{rest!r} was not a candidate in the last context")

    async def _remember(self, rest: str) -> None:
        if not rest:
            self._fail("/remember needs some text")
            return
        memory = await self._engine.remember(rest, persona=self._persona, user=self._user, source="chat")
        output.write(f"added memory {memory.id}")

    async def _switch(self, setting: str, check: Callable[[str], object], rest: str) -> None:
        """Change the model or the policy, or show it."""
        if rest:
            check(rest)
            self._settings[setting] = rest
        output.write(f"{setting}: {output.one_line(self._settings[setting] or 'the default')}")

    async def _help(self, rest: str) -> None:
        del rest
        output.write(CHAT_HELP)

    async def _quit(self, rest: str) -> None:
        raise Quit(rest)

    async def _last_context(self) -> Context:
        """Return the last context of this chat, or else of the room."""
        if self._last is None:
            builds = await self._engine.store.builds(room=self._room, persona=self._persona, limit=1)
            snapshot = await self._engine.store.snapshot(builds[0].id) if builds else None
            if snapshot is None:
                raise BrimfulError("no context has been built in this room yet")
            self._last = snapshot.context
        return self._last


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
    str | None, typer.Option("--sender", metavar="NAME", help="Name of the sender. Default: the user's.")
]
ProviderOption = Annotated[
    str,
    typer.Option(
        "--provider",
        metavar="SPEC",
        envvar="BRIMFUL_PROVIDER",
        help="Where the model runs: openai, anthropic, gemini, ollama, a URL, or WIRE:URL. Default: its vendor.",
    ),
]


def register(app: typer.Typer) -> None:
    callback = chat
    group = typer.Typer(invoke_without_command=True, epilog=EXAMPLES, callback=callback)
    group.command("send", epilog=SEND_EXAMPLES)(send)
    app.add_typer(group, name="chat")


def chat(  # noqa: PLR0913 - the options of a command
    options: RetrievalOptions,
    *,
    ctx: typer.Context,
    room: NewRoomOption = DEFAULT_ROOM,
    persona: PersonaOption = None,
    user: UserOption = None,
    sender: SenderOption = None,
    model: ModelOption = None,
    provider: ProviderOption = "",
    policy: PolicyOption = None,
    window: Window = None,
    completion: Completion = None,
    max_prompt_tokens: MaxPromptTokens = None,
    greeting: Annotated[
        int,
        typer.Option(
            "--greeting",
            metavar="N",
            min=0,
            help="Greeting for a new room: 0 for the main one, 1 for the first alternative.",
        ),
    ] = 0,
    embedder: EmbedderSpec = DEFAULT_EMBEDDER,
) -> None:
    """Chat with a model in a room.

    Answers are printed as they arrive; Ctrl-C stops one. Messages are stored,
    relevant older messages and memories are added to the context, and
    /context shows what the model saw. If input is piped in and something
    fails, the exit code is 1.
    """
    if ctx.invoked_subcommand is not None:
        return
    if model is not None:
        resolve_model(model)
    settings: dict[str, Any] = {"model": model, "policy": policy, "window": window, "completion": completion}
    settings |= {"max_prompt_tokens": max_prompt_tokens, "retrieval": options.retrieval(), "focus": options.focus}

    async def talk(engine: "Engine") -> bool:
        names: dict[str, Any] = {"room": room, "persona": persona, "user": user, "sender": sender}
        return await Chat(engine, **names, settings=settings, greeting=greeting).talk()

    if not with_engine(talk, target=options, embedder=embedder, provider=provider, new=True):
        raise typer.Exit(FAILED)


def send(  # noqa: PLR0913 - the options of a command
    options: RetrievalOptions,
    *,
    room: NewRoomOption,
    message: Annotated[str, typer.Option("--message", metavar="TEXT", help="The message. `-` reads standard input.")],
    persona: PersonaOption = None,
    user: UserOption = None,
    sender: SenderOption = None,
    id: Annotated[
        str | None, typer.Option("--id", metavar="ID", help="Message id. Sending the same id twice adds one message.")
    ] = None,
    model: ModelOption = None,
    provider: ProviderOption = "",
    policy: PolicyOption = None,
    window: Window = None,
    completion: Completion = None,
    max_prompt_tokens: MaxPromptTokens = None,
    embedder: EmbedderSpec = DEFAULT_EMBEDDER,
    as_json: Json = False,
) -> None:
    """Send one message and print the answer."""
    text = read_argument(message)
    info = None if model is None else resolve_model(model)

    async def respond(engine: "Engine") -> "Answer":
        opened = await open_room(engine, room, persona=persona, user=user)
        return await engine.respond(
            room,
            text,
            persona=persona,
            id=id,
            user=user,
            sender=await sender_name(engine, user or opened.user, sender),
            model=info,
            policy=policy,
            window=window,
            completion=completion,
            max_prompt_tokens=max_prompt_tokens,
            retrieval=options.retrieval(),
            focus=options.focus,
        )

    answer = with_engine(respond, target=options, embedder=embedder, provider=provider, new=True)
    show_warnings(answer)
    if as_json:
        output.show_json(_answer_data(answer))
    elif answer.others:
        for each in (answer, *answer.others):
            output.write(f"{output.one_line(_get_sender(each))}: {output.printable(each.text)}")
    else:
        output.write(output.printable(answer.text))


def _get_sender(answer: "Answer") -> str:
    return answer.message.sender if answer.message else ""


def _answer_data(answer: "Answer") -> dict[str, Any]:
    response = answer.response
    return {
        "sender": _get_sender(answer),
        "text": answer.text,
        "calls": answer.calls,
        "id": response.id,
        "message": response.message,
        "context": response.context,
        "model": response.model,
        "route": response.route,
        "finish": response.finish,
        "counted": answer.context.tokens,
        "usage": response.usage,
        "seconds": response.seconds,
        "notices": response.notices,
        "warnings": answer.context.warnings,
        "others": [_answer_data(each) for each in answer.others],
    }
