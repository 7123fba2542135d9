"""The command-line app: its commands, help and version, and what happens when a command fails.

Each command's module is imported when the command runs, so that no command waits for what another one needs.
"""

import gc
import io
import os
import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Annotated, Any, Final

import typer
from typer.core import TyperArgument, TyperGroup, TyperOption
from typer.exceptions import TyperException

import brimful
from brimful.cli import output
from brimful.cli.output import BROKEN_PIPE, FAILED, INTERRUPTED, Failure
from brimful.errors import BrimfulError


class PlainOption(TyperOption):
    """An option whose value is checked only where something can be wrong with it."""

    def process_value(self, ctx: Any, value: Any) -> Any:
        """Return the value as the command gets it."""
        return (
            _apply_callback(self, ctx, value)
            if _needs_no_validation(self, value)
            else super().process_value(ctx, value)
        )


class PlainArgument(TyperArgument):
    """An argument whose value is checked only where something can be wrong with it."""

    def process_value(self, ctx: Any, value: Any) -> Any:
        """Return the value as the command gets it."""
        return (
            _apply_callback(self, ctx, value)
            if _needs_no_validation(self, value)
            else super().process_value(ctx, value)
        )


def skip_validation(command: Any) -> None:
    """Let a command read its values so. Typer makes its parameters, `--help` too, and takes no class for them."""
    given = command.get_params
    command.get_params = lambda ctx: [_without_validation(each) for each in given(ctx)]


def _without_validation(each: Any) -> Any:
    each.__class__ = PlainArgument if isinstance(each, TyperArgument) else PlainOption
    return each


def _needs_no_validation(each: TyperArgument | TyperOption, value: Any) -> bool:
    if value is None:
        return not each.required
    wanted = each.type_descriptor
    if wanted.parameter_info.parser is not None:
        return False
    return value == each.default or wanted.annotation in (str, list[str])


def _apply_callback(each: TyperArgument | TyperOption, ctx: Any, value: Any) -> Any:
    return value if each.callback is None else each.callback(ctx, each, value)


MODULES: Final = {
    "fill": "fill",
    "explain": "explain",
    "diff": "compare",
    "replay": "compare",
    "count": "count",
    "budget": "models:register_budget",
    "models": "models",
    "policies": "models:register_policies",
    "embeddings": "embeddings",
    "import": "transfer",
    "export": "transfer:register_export",
    "room": "rooms",
    "message": "rooms:register_messages",
    "memory": "memories",
    "lorebook": "lorebooks",
    "persona": "personas",
    "user": "personas:register_users",
    "assemble": "assemble",
    "chat": "chat",
    "inspect": "assemble:register_inspect",
    "monitor": "monitor",
    "context": "contexts",
    "stats": "stats",
    "index": "embeddings:register_index",
    "janitor": "janitor",
    "db": "db",
    "serve": "serve",
    "callers": "serve:register_api_keys",
}
"""The module of each command and the function that registers it, in the order in which help lists them."""


class LazyCommands(Mapping[str, Any]):
    """The commands of the app: their names are known, and what is asked for is loaded."""

    def __init__(self) -> None:
        """Begin with nothing loaded."""
        self._loaded: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        """Return a command, which knows its options and its help."""
        if name not in self._loaded:
            self._loaded |= load_commands(MODULES[name])
        return self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names."""
        return iter(MODULES)

    def __len__(self) -> int:
        """Return how many there are."""
        return len(MODULES)


def load_commands(module: str) -> dict[str, Any]:
    """Return the commands that a module registers, by their names."""
    holder = typer.Typer(rich_markup_mode="rich")
    name, _, function = module.partition(":")
    getattr(import_module(f"brimful.cli.{name}"), function or "register")(holder)
    found = dict(typer.main.get_group(holder).commands)
    for command in _walk_commands(found):
        skip_validation(command)
    return found


def _walk_commands(commands: Mapping[str, Any]) -> Iterator[Any]:
    """Yield commands, and those within them."""
    for command in commands.values():
        yield command
        yield from _walk_commands(getattr(command, "commands", {}))


PROGRAM: Final = "brimful"
GC_THRESHOLD: Final = 50_000  # new ones before Python looks for what can go: a command lets go of little until it ends
EXAMPLES: Final = """\
Examples:
  brimful count "Fill the window to the brim."
  brimful fill packages.jsonl --model gpt-4o --out context.json
  brimful explain context.json --outcome dropped
  brimful import chat.jsonl --room support
  brimful assemble --room support --message "Where is my parcel?" --model gpt-4o"""


class CommandGroup(TyperGroup):
    """Commands whose expected failures end in one line and an exit code. A bug still shows its traceback."""

    def __init__(self, **attrs: Any) -> None:
        """Take all commands, none of which is loaded yet."""
        super().__init__(**attrs | {"commands": LazyCommands()})
        skip_validation(self)

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all commands, in the order in which help lists them."""
        del ctx
        return list(self.commands)

    def main(self, *args: Any, **extra: Any) -> Any:
        """Run the command line; wrong usage is one line, too."""
        extra["standalone_mode"] = False  # so that we, and not typer, say what went wrong
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
        except (BrimfulError, Failure) as error:
            output.error(str(error))
        except OSError as error:
            output.error(f"{error.filename}: {error.strerror}" if error.filename else str(error))
        raise typer.Exit(FAILED)


def _report_usage_error(error: Any) -> int:
    message = error.format_message().rstrip(".")
    if message:  # there is none where a command alone was asked for, and its help has been shown
        output.error(f"{message}; see {error.ctx.command_path if error.ctx else PROGRAM} --help")
    code: int = error.exit_code
    return code


def main() -> None:
    """Run the command line, and leave quietly if whoever read our output has left."""
    gc.set_threshold(GC_THRESHOLD)
    _reopen_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a locale without ✅ gets a question mark, not a traceback
    try:
        app(prog_name=PROGRAM)
    except SystemExit as leaving:
        sys.exit(leaving.code if _flush_output() else BROKEN_PIPE)


def _reopen_closed_streams() -> None:
    """Write into nothing where whoever started us closed a stream (`>&-`), which Python then gives us as None."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123, SIM115 - open to the end


def _flush_output() -> bool:
    """Flush what was said. If nobody listens, say so, and keep Python from trying again on its way out."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return False
    return True


def _print_version(wanted: bool) -> None:  # noqa: FBT001 - typer calls it with the option's value
    if wanted:
        output.write(f"{PROGRAM} {brimful.__version__}")
        raise typer.Exit


def _root(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Fill the context window to the brim, never spill.

    Every command prints a table in a terminal, plain text into a pipe, and
    with --json data. Exit codes: 0 fine, 1 failed (one line says why), 2 wrong
    usage.
    """


def _build() -> typer.Typer:
    built = typer.Typer(
        cls=CommandGroup,
        name=PROGRAM,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode="rich",
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    built.callback(epilog=EXAMPLES)(_root)
    return built


app: Final = _build()
