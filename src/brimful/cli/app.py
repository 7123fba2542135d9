"""The command-line app: its commands, help and version, and what happens when a command fails.

Each command's module is imported when the command runs, so that no command waits for what another one needs, and
`brimful --help` imports none of them.
"""

import atexit
import io
import os
import sys
import threading
import warnings
from collections.abc import Iterator, MutableMapping
from functools import cache
from importlib import import_module
from typing import Annotated, Any, Final, NamedTuple, NoReturn

import typer
from typer.core import TyperArgument, TyperGroup, TyperOption
from typer.exceptions import TyperException

import brimful

PROGRAM: Final = "brimful"
FAILED: Final = 1  # a BrimfulError, or a file that cannot be read or written; 2 is a usage error
BROKEN_PIPE: Final = 141  # 128 + SIGPIPE: what a shell reports for a program whose reader left
INTERRUPTED: Final = 130  # 128 + SIGINT: Ctrl-C
EXAMPLES: Final = """\
Examples:
  brimful import chat.jsonl --room support
  brimful chat --room support --model gpt-4o
  brimful fill packages.jsonl --model gpt-4o --out context.json
  brimful explain context.json --outcome dropped"""


class Entry(NamedTuple):
    """A command in the table: the module that registers it, and its line in `brimful --help`."""

    module: str
    summary: str


GROUPS: Final = {
    "Start": {
        "chat": Entry("chat", "Chat with a model in a room."),
        "import": Entry("transfer", "Import conversations and memories from other programs."),
        "serve": Entry("serve", "Run the proxy and the web inspector."),
        "doctor": Entry("doctor", "Check the installation: versions, extras, programs, store, embedder and servers."),
        "explain": Entry("explain", "Show what a model saw, what was left out, and why."),
        "stats": Entry("stats", "Show usage: contexts, tokens, cost, cache hits, warnings."),
        "count": Entry("count", "Count tokens."),
        "help": Entry("app", "Show help for a command or a group of commands."),
    },
    "Requests": {
        "fit": Entry("fit", "Trim a finished request so that it fits its window."),
        "fill": Entry("fill", "Build the best context for a model from a file."),
        "budget": Entry("models", "Show how a policy divides a model's window."),
        "sessions": Entry(
            "sessions", "Look into the sessions of Claude Code, Codex, opencode, Hermes, Gemini CLI and Qwen Code."
        ),
        "bench": Entry("bench", "Measure on your own history what trimming loses and memory finds."),
    },
    "Records": {
        "room": Entry("rooms", "Manage rooms (conversations)."),
        "message": Entry("rooms", "Manage the messages of rooms."),
        "memory": Entry("memories", "Manage and search memories."),
        "lorebook": Entry("lorebooks", "Manage lorebooks (entries added when their keywords appear)."),
        "persona": Entry("personas", "Manage personas."),
        "user": Entry("personas", "Manage users."),
        "export": Entry("transfer", "Export everything, or one room, persona or lorebook."),
        "index": Entry("embeddings", "Embed all stored records that have no vector yet."),
        "janitor": Entry("janitor", "Collapse floods, summarize old days, archive unused messages (undoable)."),
    },
    "Contexts": {
        "assemble": Entry("assemble", "Build the context for the next answer in a room."),
        "context": Entry("contexts", "Manage stored contexts."),
        "recall": Entry("recall", "Show what a context shortened or left out."),
        "diff": Entry("compare", "Compare two contexts."),
        "replay": Entry("compare", "Rebuild past contexts, optionally with another model, window or policy."),
        "monitor": Entry("monitor", "Show contexts and answers as they happen."),
    },
    "Catalogues": {
        "models": Entry("models", "List known models, or show their details."),
        "policies": Entry("models", "List policies, or show the details of one."),
        "embeddings": Entry("embeddings", "List and try embedders."),
    },
    "Operations": {
        "install": Entry("install", "Make another program use Brimful: a plugin, hooks or a filter."),
        "mcp": Entry("mcp", "Serve memories and conversations to an MCP client."),
        "hook": Entry("hook", "Answer a hook of Claude Code, Codex or Qwen Code."),
        "work": Entry("work", "Run the background jobs of all tenants."),
        "api-key": Entry("serve", "Manage API keys for `brimful serve`."),
        "limits": Entry("limits", "Limit what a single API key or user may use of models."),
        "db": Entry("db", "Migrate, check, back up, restore, encrypt and distribute a store."),
        "version": Entry("app", "Show the version."),
    },
}
"""All commands by group, in the order in which help lists them. Help describes only the first group."""
ALIASES: Final = {"inspect": Entry("assemble", "Preview the next context of a room: `brimful assemble --dry-run`.")}
"""Other names of commands, which help does not list."""
COMMANDS: Final = {name: entry for group in GROUPS.values() for name, entry in group.items()} | ALIASES


# -- parameters ------------------------------------------------------------------------------------------------------
#
# Typer validates every value with pydantic, even defaults, and importing pydantic takes longer than most commands run.
# A string passed for a string, and a default from our own code, need no validation. Typer parses everything else.


class PlainOption(TyperOption):
    """An option that is validated only if its value needs it."""

    def process_value(self, ctx: Any, value: Any) -> Any:
        """Return the value that the command receives."""
        if not _needs_validation(self, value):
            return value if self.callback is None else self.callback(ctx, self, value)
        return super().process_value(ctx, value)


class PlainArgument(TyperArgument):
    """An argument that is validated only if its value needs it."""

    def process_value(self, ctx: Any, value: Any) -> Any:
        """Return the value that the command receives."""
        if not _needs_validation(self, value):
            return value if self.callback is None else self.callback(ctx, self, value)
        return super().process_value(ctx, value)

    def get_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the name as the usage line shows it: `ROOM`, or `[ROOM]` if it is optional."""
        del ctx
        name = f"{self.display_name_raw}{'' if self.nargs == 1 else '...'}"
        return [name if self.required else f"[{name}]"]

    def display_type_rich(self, ctx: Any) -> str | None:
        """Return what help shows beside the name: the choices, if there are any."""
        return self.display_type(ctx) if self.type_descriptor.is_choice else None


def _needs_validation(parameter: TyperArgument | TyperOption, value: Any) -> bool:
    if value is None:
        return parameter.required
    described = parameter.type_descriptor
    if described.parameter_info.parser is not None:
        return True
    return value != parameter.default and described.annotation not in (str, list[str])


def prepare(command: Any) -> None:
    """Make a command, and those below it, skip needless validation and show their examples line by line in help.

    Typer creates the parameters itself, `--help` included, and accepts no class for them.
    """
    original = command.get_params
    command.get_params = lambda ctx: [_plain_parameter(each) for each in original(ctx)]
    command.epilog = _keep_lines(command.epilog or "", "")
    command.help = _keep_lines(command.help or "", "- ")
    if not isinstance(command, CommandGroup):
        for each in getattr(command, "commands", {}).values():
            prepare(each)


def _keep_lines(text: str, start: str) -> str:
    """Mark paragraphs that begin like this (lists, examples) so that help does not rewrap them."""
    return "\n\n".join(f"\b\n{each}" if each.startswith(start) else each for each in text.split("\n\n") if each)


def _plain_parameter(parameter: Any) -> Any:
    parameter.__class__ = PlainArgument if isinstance(parameter, TyperArgument) else PlainOption
    return parameter


# -- commands --------------------------------------------------------------------------------------------------------


class LazyCommands(MutableMapping[str, Any]):
    """The commands of the app by name. A command is loaded when it is looked up."""

    def __init__(self) -> None:
        self._loaded: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._loaded:
            self._loaded |= load_commands(COMMANDS[name].module)
        return self._loaded[name]

    def __setitem__(self, name: str, command: Any) -> None:
        self._loaded[name] = command

    def __delitem__(self, name: str) -> None:
        del self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    def __len__(self) -> int:
        return len(COMMANDS)


@cache  # a process that runs several commands, such as a test, builds them once
def load_commands(module: str) -> dict[str, Any]:
    """Return the commands that a module registers, by name."""
    holder = typer.Typer(rich_markup_mode=None)
    import_module(f"brimful.cli.{module}").register(holder)
    _expand(holder)
    commands = dict(typer.main.get_group(holder).commands)
    for command in commands.values():
        prepare(command)
    return commands


def _expand(holder: typer.Typer) -> None:
    """Let all commands, also in groups, take the options of the structs among their parameters."""
    from brimful.cli.options import expand_options  # noqa: PLC0415 - needed by commands only, not by help

    for command in holder.registered_commands:
        command.callback = command.callback and expand_options(command.callback)
    for group in holder.registered_groups:
        if group.typer_instance is not None:
            info = group.typer_instance.info
            info.callback = info.callback and expand_options(info.callback)
            _expand(group.typer_instance)


class CommandGroup(TyperGroup):
    """All commands. An expected failure prints one line and sets the exit code; a bug still shows its traceback."""

    def __init__(self, **attrs: Any) -> None:
        super().__init__(**attrs | {"commands": LazyCommands()})
        prepare(self)

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all commands, in the order in which help lists them."""
        del ctx
        return [name for name in self.commands if name not in ALIASES]

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands for help without loading them: the first group in full, the names of the others."""
        del ctx
        start, *others = GROUPS
        _write_group(formatter, start)
        with formatter.section("More commands"):
            formatter.write_dl([(group, ", ".join(GROUPS[group])) for group in others])

    def main(self, *args: Any, **extra: Any) -> Any:
        """Run the command line. A usage error also prints one line."""
        extra["standalone_mode"] = False  # so that we report errors, not typer
        try:
            code = super().main(*args, **extra)
        except typer.Abort:
            sys.exit(INTERRUPTED)
        except TyperException as error:
            sys.exit(_report_usage_error(error))
        sys.exit(code if isinstance(code, int) else 0)

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise typer.Exit(BROKEN_PIPE) from None
        except Exception as error:
            message = _expected_failure(error)
            if message is None:
                raise
        _report_error(message)
        raise typer.Exit(FAILED)


def _write_group(formatter: Any, group: str) -> None:
    with formatter.section(group):
        formatter.write_dl([(name, entry.summary) for name, entry in GROUPS[group].items()])


def _expected_failure(error: Exception) -> str | None:
    """Return the line to print for a failure; None for exceptions from typer, and for bugs."""
    from brimful.cli.output import Failure  # noqa: PLC0415 - only needed after a failure
    from brimful.errors import BrimfulError  # noqa: PLC0415

    match error:
        case BrimfulError() | Failure():
            return str(error)
        case OSError(filename=filename, strerror=strerror):
            return f"{filename}: {strerror}" if filename else str(error)
        case _:
            return None


def _report_usage_error(error: Any) -> int:
    message = error.format_message().rstrip(".")
    if message:  # it is empty if help has been shown, for a group without a command
        _report_error(f"{message}; see {error.ctx.command_path if error.ctx else PROGRAM} --help")
    code: int = error.exit_code
    return code


def _report_error(message: str) -> None:
    from brimful.cli import output  # noqa: PLC0415 - only needed after a failure

    output.error(message)


def _report_warning(message: Warning | str, *_details: object, **_named: object) -> None:
    from brimful.cli import output  # noqa: PLC0415 - only needed after a warning

    output.warn(str(message))


# -- the program -----------------------------------------------------------------------------------------------------


def main() -> None:
    """Run the command line, and end quietly if the reader of its output has gone."""
    _reopen_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a locale without ✅ gets a question mark, not a traceback
    warnings.showwarning = _report_warning
    try:
        app(prog_name=PROGRAM)
    except SystemExit as leaving:
        _end(leaving.code if _flush_output() else BROKEN_PIPE)


def _end(code: object) -> NoReturn:
    """End the process. Freeing everything before that would take a tenth of a command's processor time."""
    waiting = [
        thread for thread in threading.enumerate() if thread is not threading.main_thread() and not thread.daemon
    ]
    if waiting or not isinstance(code, int):
        raise SystemExit(code)
    atexit._run_exitfuncs()  # noqa: SLF001 - what the interpreter does at exit, and has no other name for
    sys.stderr.flush()
    os._exit(code)


def _reopen_closed_streams() -> None:
    """Write to /dev/null if the caller closed a stream (`>&-`), which Python then sets to None."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123, SIM115 - open to the end


def _flush_output() -> bool:
    """Flush standard output. Return False if nobody reads it, and keep Python from flushing again at exit."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return False
    return True


def _print_version(requested: bool) -> None:  # noqa: FBT001 - typer calls it with the option's value
    if requested:
        version()
        raise typer.Exit


def _root(
    *,
    version: Annotated[
        bool, typer.Option("--version", "-V", callback=_print_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Decide what a language model sees: build, trim, store and inspect contexts.

    Output is a table in a terminal, plain text in a pipe, and JSON with
    --json. `brimful help all` describes every command, `brimful help records`
    those of a group, and `brimful COMMAND --help` shows options and examples.
    """


def show_help(
    ctx: typer.Context,
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="COMMAND", help="A command, such as `room add`, a group of commands, such as `records`, or `all`."
        ),
    ] = None,
) -> None:
    """Show help for a command or a group of commands."""
    parent: Any = ctx.parent
    groups = [group for group in GROUPS if names in (["all"], [group.lower()], [group])]
    if groups:
        formatter = ctx.make_formatter()
        for group in groups:
            _write_group(formatter, group)
        typer.echo(formatter.getvalue().strip())
        return
    for name in names or ():
        if not hasattr(parent.command, "resolve_command"):
            parent.fail(f"{parent.command_path!r} has no subcommands")
        _, command, _ = parent.command.resolve_command(parent, [name])
        parent = type(ctx)(command, info_name=name, parent=parent)
    typer.echo(parent.command.get_help(parent))


def version() -> None:
    """Show the version."""
    typer.echo(f"{PROGRAM} {brimful.__version__}")


def register(app: typer.Typer) -> None:
    app.command("help", epilog="Examples:\n  brimful help\n  brimful help room add\n  brimful help records")(show_help)
    app.command("version", epilog="Examples:\n  brimful version")(version)


def _build() -> typer.Typer:
    built = typer.Typer(
        cls=CommandGroup,
        name=PROGRAM,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    built.callback(epilog=EXAMPLES)(_root)
    return built


app: Final = _build()
