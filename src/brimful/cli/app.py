"""The app: its commands, the version, and what happens when a command fails."""

import gc
import io
import os
import sys
from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup
from typer.exceptions import TyperException

import brimful
from brimful.cli import output
from brimful.cli.commands import Commands
from brimful.cli.failure import BROKEN_PIPE, INTERRUPTED, OPERATION, Failure
from brimful.cli.values import read_plainly
from brimful.errors import BrimfulError

PROGRAM: Final = "brimful"
OBJECTS: Final = 50_000  # new ones before Python looks for what can go: a command lets go of little until it ends
EXAMPLES: Final = """\
Examples:
  brimful count "Fill the window to the brim."
  brimful fill packages.jsonl --model gpt-4o --out context.json
  brimful explain context.json --outcome dropped
  brimful import chat.jsonl --room support
  brimful assemble --room support --message "Where is my parcel?" --model gpt-4o"""


class Guarded(TyperGroup):
    """Commands whose expected failures end in one line and an exit code. A bug still shows its traceback."""

    def __init__(self, **attrs: Any) -> None:
        """Take all commands, none of which is loaded yet."""
        super().__init__(**attrs | {"commands": Commands()})
        read_plainly(self)

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
            sys.exit(_complain_of_usage(error))
        sys.exit(code if isinstance(code, int) else 0)

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise typer.Exit(BROKEN_PIPE) from None
        except (BrimfulError, Failure) as error:
            output.complain(str(error))
        except OSError as error:
            output.complain(f"{error.filename}: {error.strerror}" if error.filename else str(error))
        raise typer.Exit(OPERATION)


def _complain_of_usage(error: Any) -> int:
    message = error.format_message().rstrip(".")
    if message:  # there is none where a command alone was asked for, and its help has been shown
        output.complain(f"{message}; see {error.ctx.command_path if error.ctx else PROGRAM} --help")
    code: int = error.exit_code
    return code


def main() -> None:
    """Run the command line, and leave quietly if whoever read our output has left."""
    gc.set_threshold(OBJECTS)
    _open_what_is_closed()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a locale without ✅ gets a question mark, not a traceback
    try:
        app(prog_name=PROGRAM)
    except SystemExit as leaving:
        sys.exit(leaving.code if _delivered() else BROKEN_PIPE)


def _open_what_is_closed() -> None:
    """Write into nothing where whoever started us closed a stream (`>&-`), which Python then gives us as None."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123, SIM115 - open to the end


def _delivered() -> bool:
    """Flush what was said. If nobody listens, say so, and keep Python from trying again on its way out."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return False
    return True


def _print_version(wanted: bool) -> None:  # noqa: FBT001 - typer calls it with the option's value
    if wanted:
        output.say(f"{PROGRAM} {brimful.__version__}")
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
        cls=Guarded,
        name=PROGRAM,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode="rich",
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    built.callback(epilog=EXAMPLES)(_root)
    return built


app: Final = _build()
