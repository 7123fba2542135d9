"""A conversation at a terminal: lines in, answers out as they are written, and commands that begin with a slash."""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from typing import Any, Final

from brimful.cli import output
from brimful.cli.assemble import show_found
from brimful.cli.options import known_model
from brimful.cli.speaking import begun, speaker, warn_of
from brimful.cli.typed import breakable, next_line, recall_lines
from brimful.core.context import Context
from brimful.engine import Engine
from brimful.errors import BrimfulError, UnknownRecord
from brimful.packagers.stored import plain_text
from brimful.policies import load_policy
from brimful.records import Message

SHOWN: Final = 6  # messages of a room that one comes back to
HELP: Final = """\
/context        what the model saw in the last turn, what went where, and what was found
/why ID         what became of one candidate, and why; without an ID, all of them by name
/remember TEXT  keep something to be known later
/model NAME     go on with another model
/policy NAME    go on with another policy
/help           this
/quit           leave; so does Ctrl-D"""


class Leave(Exception):
    """Somebody wants to go."""


class Chat:
    """One person at a terminal, in one room."""

    def __init__(
        self,
        engine: Engine,
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
                line = (await next_line("> " if sys.stdin.isatty() else "")).strip()
                if line:
                    await self._take(line)
            except (EOFError, Leave):
                return
            except BrimfulError as error:
                output.complain(str(error))

    async def _welcome(self) -> None:
        recall_lines()
        place = await begun(self._engine, self._room, persona=self._persona, user=self._user)
        self._persona = self._persona or place.persona
        self._user = self._user or place.user
        self._sender = await speaker(self._engine, self._user, self._named)
        if self._persona is not None:
            await self._engine.greet(self._room, self._persona, user=self._user, which=self._greeting)
        newest = await self._engine.store.history(self._room, limit=SHOWN)
        for message in reversed([entry.message for entry in newest]):
            output.say(f"{_speaker(message)}: {output.lines(plain_text(message.content))}")
        if sys.stdin.isatty():
            output.say(f"(room {output.one_line(self._room)}; /help for commands, /quit to leave)")

    async def _take(self, line: str) -> None:
        if not line.startswith("/"):
            await self._answer(line)
            return
        name, _, rest = line[1:].partition(" ")
        command = self._commands.get(name)
        if command is None:
            output.complain(f"there is no /{name}; /help lists the commands")
        else:
            await command(rest.strip())

    async def _answer(self, text: str) -> None:
        """Ask, and write the answer as it comes. Ctrl-C breaks it off, and what was said so far is kept."""
        try:
            await breakable(self._streamed(text))
        except asyncio.CancelledError:
            output.say(" …")

    async def _streamed(self, text: str) -> None:
        asked = self._engine.stream(self._room, self._persona, text, user=self._user, sender=self._sender, **self._said)
        async with asked as stream:
            async for piece in stream:
                output.say_on(output.lines(piece.text))
            output.say()
        self._last = stream.answer.context
        warn_of(stream.answer)

    # -- commands ----------------------------------------------------------------------------------------------------

    async def _context(self, rest: str) -> None:
        del rest
        context = await self._seen()
        output.say(context.report())
        show_found(context)

    async def _why(self, rest: str) -> None:
        context = await self._seen()
        if not rest:
            for decision in context.decisions:
                output.say(output.one_line(f"{decision.id}: {decision.outcome} ({decision.kind})"))
            return
        try:
            output.say(output.one_line(context.explain(rest)))
        except UnknownRecord:
            output.complain(f"{rest!r} was no candidate of the last context")

    async def _remember(self, rest: str) -> None:
        if not rest:
            output.complain("/remember needs a text")
            return
        memory = await self._engine.remember(rest, persona=self._persona, user=self._user, source="chat")
        output.say(f"remembered as {memory.id}")

    async def _model(self, rest: str) -> None:
        if rest:
            known_model(rest)
            self._said["model"] = rest
        output.say(f"model: {output.one_line(self._said['model'] or 'the one of the persona')}")

    async def _policy(self, rest: str) -> None:
        if rest:
            load_policy(rest)
            self._said["policy"] = rest
        output.say(f"policy: {output.one_line(self._said['policy'] or 'the one of the persona')}")

    async def _help(self, rest: str) -> None:
        del rest
        output.say(HELP)

    async def _quit(self, rest: str) -> None:
        raise Leave(rest)

    async def _seen(self) -> Context:
        """Return the last context: of this conversation, or of the one before it in the same room."""
        if self._last is None:
            builds = await self._engine.store.builds(room=self._room, persona=self._persona, limit=1)
            snapshot = await self._engine.store.snapshot(builds[0].id) if builds else None
            if snapshot is None:
                raise BrimfulError("nothing was asked in this room yet")
            self._last = snapshot.context
        return self._last


def _speaker(message: Message) -> str:
    return output.one_line(message.sender or message.role)
