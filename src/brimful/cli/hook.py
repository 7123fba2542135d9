"""`brimful hook`: answer a hook of a coding agent, or write its status line."""

import json
import os
import sys
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from brimful.plugins.sessions import data_folder, report_error
from brimful.plugins.small_results import DEFAULT_LIMIT, LIMIT_VARIABLE

EXAMPLES: Final = """\
Examples:
  brimful hook --program claude-code < event.json
  brimful hook --status-line < status.json"""


def register(app: typer.Typer) -> None:
    app.command("hook", epilog=EXAMPLES)(hook)


def hook(
    *,
    program: Annotated[
        str, typer.Option("--program", metavar="NAME", help="claude-code, codex or qwen-code.")
    ] = "claude-code",
    status_line: Annotated[
        bool, typer.Option("--status-line", help="Write a line for Claude Code's status line instead.")
    ] = False,
) -> None:
    """Answer a hook of Claude Code, Codex or Qwen Code.

    These programs start this command and write the event to its standard
    input; see `brimful install`. Tool results of more than 2,000 tokens are
    shortened (BRIMFUL_HOOK_LIMIT sets another limit), and `brimful mcp
    --plugin` gives the rest back.

    The command never fails: after an error it prints nothing, and hooks.log
    in the folder of the data (BRIMFUL_DATA) says why.
    """
    folder = data_folder()
    try:
        answer = _answer(program, folder, status_line=status_line)
    except Exception as error:  # noqa: BLE001 - the program that runs the hook must go on, whatever happens here
        _report(folder, f"{program}: {type(error).__name__}: {error}")
    else:
        sys.stdout.write(answer)


def _answer(program: str, folder: Path, *, status_line: bool) -> str:
    from brimful.plugins import hooks  # noqa: PLC0415 - what it needs must not keep the command from starting

    event: Any = json.loads(sys.stdin.buffer.read().decode("utf-8", "replace"))
    if status_line:
        return hooks.status_line(event, folder)
    return hooks.answer_event(event, program, folder, int(os.environ.get(LIMIT_VARIABLE) or DEFAULT_LIMIT))


def _report(folder: Path, line: str) -> None:
    try:
        report_error(folder, line)
    except OSError:  # a full disk, or a folder that belongs to somebody else
        sys.stderr.write(f"brimful hook: {line}\n")
