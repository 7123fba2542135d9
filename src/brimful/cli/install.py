"""`brimful install`: make other programs use Brimful, and undo it."""

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
import typer

from brimful.cli import output
from brimful.cli.options import Json
from brimful.cli.output import Failure, Table, columns

if TYPE_CHECKING:
    from brimful.plugins.install import Options, Plan, Status

EXAMPLES: Final = """\
Examples:
  brimful install
  brimful install hermes
  brimful install codex --dry-run
  brimful install claude-code --status-line --yes
  brimful install opencode --project . --url http://127.0.0.1:8080
  brimful install open-webui --url http://127.0.0.1:3000
  brimful install codex --undo"""

OPEN_WEBUI: Final = "open-webui"


class Result(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What was changed, or would be. `state` is `done`, `planned` or `nothing to do`."""

    program: str
    state: str
    files: list[dict[str, Any]] = []
    commands: list[str] = []
    notes: list[str] = []


def register(app: typer.Typer) -> None:
    app.command("install", epilog=EXAMPLES)(install)


def install(  # noqa: PLR0913 - each is an option
    *,
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME]", help="hermes, claude-code, codex, opencode, pi, gemini-cli, qwen-code or open-webui."
        ),
    ] = None,
    undo: Annotated[bool, typer.Option("--undo", help="Restore what was there before.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would change, and change nothing.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    project: Annotated[
        Path | None,
        typer.Option("--project", metavar="DIR", help="Change the configuration of a project instead of the user's."),
    ] = None,
    url: Annotated[
        str | None,
        typer.Option("--url", metavar="URL", help="The address of `brimful serve`; for open-webui, of Open WebUI."),
    ] = None,
    token: Annotated[
        str | None,
        typer.Option(
            "--token", metavar="TOKEN", envvar="OPEN_WEBUI_TOKEN", help="An administrator's API key in Open WebUI."
        ),
    ] = None,
    status_line: Annotated[
        bool, typer.Option("--status-line", help="Also set Claude Code's status line, in place of one that is there.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Make another program use Brimful: a plugin, hooks or a filter.

    Shows the changes of each file and asks first. A file that is changed is
    copied beside itself (NAME.before-brimful), and --undo restores it.
    Without a name, lists the programs, whether they are found on this
    machine, and whether Brimful is installed in them.
    """
    from brimful.plugins.install import PROGRAMS, Options  # noqa: PLC0415 - other commands do not need it

    if project is not None and not project.is_dir():
        raise Failure(f"{project}: is not a directory")
    options = Options(project=project and project.resolve(), url=url, status_line=status_line)
    if name is None:
        _show_programs(options, as_json=as_json)
        return
    how = _How(undo=undo, dry_run=dry_run, yes=yes, as_json=as_json)
    if name == OPEN_WEBUI:
        _install_filter(url, token, how)
    elif name in PROGRAMS:
        _install_files(name, options, how)
    else:
        names = ", ".join((*PROGRAMS, OPEN_WEBUI))
        raise typer.BadParameter(f"there is no {name!r}; programs are {names}", param_hint="'NAME'")


class _How(msgspec.Struct, frozen=True, kw_only=True):
    undo: bool
    dry_run: bool
    yes: bool
    as_json: bool


def _show_programs(options: "Options", *, as_json: bool) -> None:
    from brimful.plugins.install import list_programs  # noqa: PLC0415 - see above

    found = list_programs(options)
    if as_json:
        output.show_json(found)
        return
    rows = [[each.program, each.title, "yes" if each.exists else "no", _state(each)] for each in found]
    rows.append([OPEN_WEBUI, "Open WebUI", "", "see `brimful install open-webui`"])
    output.show_table(Table(columns("name", "program", "found", "installed"), rows))
    for each in filter(lambda each: each.problem, found):
        output.write(f"\n{each.program}: {each.problem}")


def _state(status: "Status") -> str:
    return "unknown" if status.problem else "yes" if status.installed else "no"


def _install_files(name: str, options: "Options", how: _How) -> None:
    from brimful.plugins import install as plans  # noqa: PLC0415 - see above

    plan = (plans.plan_undo if how.undo else plans.plan_install)(name, options)
    if not plan.is_empty and not how.dry_run:
        _confirm(plan, how)
        if how.undo:
            plans.undo(plan, options)
        else:
            plans.install(plan)
    elif not how.as_json:
        _show_plan(plan)
    state = "nothing to do" if plan.is_empty else "planned" if how.dry_run else "done"
    changed = [
        {"path": str(each.path), "diff": each.diff, "backup": str(each.backup) if each.copy else None}
        for each in plan.actions
    ]
    commands = [shlex.join(each) for each in plan.commands]
    _report(Result(program=name, state=state, files=changed, commands=commands, notes=list(plan.notes)), how)


def _confirm(plan: "Plan", how: _How) -> None:
    """Show the plan and ask, unless the user has agreed already."""
    if not how.as_json:
        _show_plan(plan)
    _ask(f"{'Undo' if how.undo else 'Make'} these changes?", how)


def _ask(question: str, how: _How) -> None:
    if how.yes:
        return
    if sys.stdin is None or not sys.stdin.isatty():
        raise Failure(
            "nothing was changed: there is no terminal to ask in; pass --yes, or --dry-run to see the changes"
        )
    if not typer.confirm(question, err=True):
        raise Failure("nothing was changed")


def _show_plan(plan: "Plan") -> None:
    for action in plan.actions:
        output.write(action.diff.rstrip("\n") or f"{action.path}: is written by the commands below")
        if action.copy:
            output.write(f"(a copy of {action.path} is kept as {action.backup.name})")
        output.write()
    for command in plan.commands:
        output.write(f"$ {shlex.join(command)}")


def _report(result: Result, how: _How) -> None:
    if how.as_json:
        output.show_json(result)
        return
    done = "removed" if how.undo else "installed"
    nothing = f"{result.program}: not installed" if how.undo else f"{result.program}: already installed"
    texts = {"nothing to do": nothing, "planned": "nothing was changed", "done": f"{result.program}: {done}"}
    output.write(texts[result.state])
    for note in result.notes:
        output.write(f"note: {note}")


# -- Open WebUI --------------------------------------------------------------------------------------------------------


def _install_filter(url: str | None, token: str | None, how: _How) -> None:
    from brimful.plugins.open_webui_api import FILE, Site  # noqa: PLC0415 - see above

    if not url or not token:
        notes = [
            f"the filter is {FILE}",
            "in Open WebUI, open Admin Panel > Functions > Import, choose the file, and switch it on, also Global",
            "or pass --url and --token, an administrator's API key (Settings > Account), and it is done for you",
        ]
        _report(Result(program=OPEN_WEBUI, state="planned", notes=notes), how)
        return
    site = Site(url, token)
    is_done = site.find() is None if how.undo else site.is_installed()
    if not is_done and not how.dry_run:
        _ask(f"{'Remove the filter from' if how.undo else f'Add the filter {FILE} to'} {site.url}?", how)
        if how.undo:
            site.remove()
        else:
            site.install()
    state = "nothing to do" if is_done else "planned" if how.dry_run else "done"
    verb = "delete" if how.undo else "add, for all models"
    _report(
        Result(program=OPEN_WEBUI, state=state, notes=[] if is_done else [f"{verb}: {FILE.name} at {site.url}"]), how
    )
