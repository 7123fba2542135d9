"""Install Brimful in other programs: what each of them needs, as changes of its files and commands of its own.

A plan is made before anything is changed. It holds the old and the new bytes of each file. A file that is changed is
first copied beside itself, so that undoing restores exactly what was there.
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from difflib import unified_diff
from http.client import HTTPException
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final
from urllib.request import urlopen

import msgspec

from brimful.errors import BrimfulError, InvalidValue
from brimful.plugins import config_text
from brimful.plugins.config_text import JSON, TOML, YAML, Edit, Format, Unreadable

BACKUP: Final = ".before-brimful"
"""What is appended to the name of a file for its copy."""
DEFAULT_URL: Final = "http://127.0.0.1:8080"
"""Where `brimful serve` listens by default."""

_BOM: Final = b"\xef\xbb\xbf"
_SECONDS: Final = 120  # for a command of another program
_ANSWER_SECONDS: Final = 5.0  # for our server
_OWN_HEAD: Final = (b"/**", b" * Brimful for ")  # how the lines of a file of ours begin, in any version
_GEMINI: Final = "https://generativelanguage.googleapis.com/v1beta"
_MCP: Final = {"command": "brimful", "args": ["mcp", "--plugin"]}
_HOOK: Final = "brimful hook"
_EVENTS: Final = ("SessionStart", "UserPromptSubmit", "PostToolUse", "PreCompact", "SessionEnd")
_CLAUDE_CODE: Final = "claude-code"


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """Where and how to install."""

    project: Path | None = None
    url: str | None = None
    status_line: bool = False


class Action(msgspec.Struct, frozen=True, kw_only=True):
    """A file to write, with its content now and then; None for a file that does not exist."""

    path: Path
    before: bytes | None
    after: bytes | None
    copy: bool = False  # the old content to its backup
    drop_copy: bool = False

    @property
    def backup(self) -> Path:
        """Return the path of the copy of what was there before."""
        return self.path.with_name(self.path.name + BACKUP)

    @property
    def diff(self) -> str:
        """Return what changes, as a unified diff."""
        old, new = (_lines(data) for data in (self.before, self.after))
        names = ("/dev/null" if self.before is None else str(self.path), str(self.path))
        return "".join(unified_diff(old, new, *names))

    def carry_out(self) -> None:
        """Write the file, and its copy before that."""
        if _read(self.path) != self.before:
            raise InvalidValue(str(self.path), "was changed in the meantime: run the command again")
        if self.copy and self.before is not None:
            _write(self.backup, self.before, self.path)
        _write(self.path, self.after, self.path)
        if self.drop_copy:
            self.backup.unlink(missing_ok=True)


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What to change for a program, and what its user has to know."""

    program: str
    actions: tuple[Action, ...] = ()
    commands: tuple[tuple[str, ...], ...] = ()
    folder: Path | None = None  # in which the commands run
    notes: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Return whether there is nothing to change."""
        return not self.actions and not self.commands


# -- files -------------------------------------------------------------------------------------------------------------


class ConfigFile(msgspec.Struct, frozen=True, kw_only=True):
    """A configuration file of the program, with our entries. `former` are entries of other versions of Brimful.

    `theirs` are entries that commands of the program write. It does so in a form of its own: data are compared then,
    not texts.
    """

    path: Path
    form: Any  # a Format
    edits: tuple[Edit, ...]
    former: tuple[Edit, ...] = ()
    theirs: tuple[Edit, ...] = ()

    @property
    def _format(self) -> Format:
        form: Format = self.form
        return form

    def install(self) -> Action | None:
        """Return what to write, or None if all is there."""
        before = _read(self.path)
        after = self._apply(before or b"")
        if after == (before or b"") and self.has_theirs():
            return None
        has_ours = before is not None and self._has_any(before)
        copy = before is not None and not (has_ours and self._backup().exists())
        return Action(path=self.path, before=before, after=after if self.edits else before, copy=copy)

    def undo(self) -> tuple[Action | None, str]:
        """Return what to write, and what to say about it."""
        now, old = _read(self.path), _read(self._backup())
        if now is None or not self._has_any(now):
            return None, ""
        restored = Action(path=self.path, before=now, after=old, drop_copy=True)
        if self._is_unchanged(now, old):
            return restored, ""
        rest = self._revert(now, old or b"")
        if rest == self._without_ours(old):
            return restored, ""
        note = f"{self.path} was changed since it was installed: only Brimful's entries are removed"
        kept = f"; {self._backup()} has what was there before" if old is not None else ""
        return Action(path=self.path, before=now, after=rest), note + kept

    def read(self) -> Any:
        """Return the data of the file; an empty object if there is none."""
        return self._parse(_read(self.path) or b"")

    def has_theirs(self, *, any_of_them: bool = False) -> bool:
        """Return whether the program's own commands have done their part."""
        data = self.read()
        return (any if any_of_them else all)(edit.is_in(data) for edit in self.theirs)

    def _is_unchanged(self, now: bytes, old: bytes | None) -> bool:
        """Return whether nobody changed the file after we did."""
        if self.theirs:
            edits = (*self.edits, *self.theirs)
            data = self._parse(self._revert(now, old or b"")), self._parse(old or b"")
            return bool(config_text.without(data[0], edits) == config_text.without(data[1], edits))
        try:
            return now == self._apply(old or b"")
        except InvalidValue:  # what was there cannot be edited, so it is not what we edited
            return False

    def _without_ours(self, old: bytes | None) -> bytes | None:
        """Return what is left of the file if it was installed with other options, and not changed."""
        try:
            return self._revert(self._apply(old or b""), old or b"")
        except InvalidValue:
            return None

    def _backup(self) -> Path:
        return self.path.with_name(self.path.name + BACKUP)

    def _has_any(self, data: bytes) -> bool:
        parsed = self._parse(data)
        return any(edit.is_in(parsed) for edit in (*self.edits, *self.former, *self.theirs))

    def _parse(self, data: bytes) -> Any:
        return self._edit(self._format.parse, data)

    def _apply(self, data: bytes) -> bytes:
        return self._edited(lambda text: config_text.apply(text, self.edits, self._format), data)

    def _revert(self, data: bytes, old: bytes) -> bytes:
        before = self._edit(str, old)
        edits = (*self.edits, *self.former)
        return self._edited(lambda text: config_text.revert(text, edits, self._format, before), data)

    def _edited(self, edit: Callable[[str], str], data: bytes) -> bytes:
        return (_BOM if data.startswith(_BOM) else b"") + str(self._edit(edit, data)).encode()

    def _edit(self, edit: Callable[[str], Any], data: bytes) -> Any:
        try:
            return edit(data.removeprefix(_BOM).decode())
        except UnicodeDecodeError as error:
            line = data.count(b"\n", 0, error.start) + 1
            raise InvalidValue(str(self.path), f"line {line}: is not UTF-8 text") from None
        except Unreadable as error:
            raise InvalidValue(str(self.path), str(error)) from None


class OwnFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file of our own. Another version of it is recognized by its first lines."""

    path: Path
    content: bytes

    def install(self) -> Action | None:
        """Return what to write, or None if it is there."""
        before = _read(self.path)
        if before == self.content:
            return None
        is_other = before is not None and not self._is_ours(before)
        return Action(path=self.path, before=before, after=self.content, copy=is_other)

    def undo(self) -> tuple[Action | None, str]:
        """Return what to write, and what to say about it."""
        now = _read(self.path)
        if now is None:
            return None, ""
        if not self._is_ours(now):
            return None, f"{self.path} is not a file of Brimful and stays"
        action = Action(path=self.path, before=now, after=None)
        return Action(path=self.path, before=now, after=_read(action.backup), drop_copy=True), ""

    @staticmethod
    def _is_ours(data: bytes) -> bool:
        lines = data.splitlines()
        return len(lines) > 1 and all(map(bytes.startswith, lines, _OWN_HEAD))


Change = ConfigFile | OwnFile


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def _write(path: Path, data: bytes | None, like: Path) -> None:
    """Write a file at once, with the permissions of another one; delete it if there are no data."""
    if data is None:
        path.unlink(missing_ok=True)
        return
    target = path.resolve()  # a link to a file that is kept elsewhere stays a link
    target.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    part = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        with suppress(FileNotFoundError):
            shutil.copymode(like, part)
        part.replace(target)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None
    finally:
        part.unlink(missing_ok=True)


def _lines(data: bytes | None) -> list[str]:
    text = (data or b"").decode(errors="replace")
    return [line if line.endswith("\n") else f"{line}\n" for line in text.splitlines(keepends=True)]


# -- programs ----------------------------------------------------------------------------------------------------------


class Home(msgspec.Struct, frozen=True):
    """The folder of a program's configuration.

    `variable` names it, or the folder above `below`. The default is in the user's home. A program without
    configuration for projects has no `project`.
    """

    variable: str
    default: str
    project: str = ""
    below: str = ""

    def find(self, project: Path | None, environ: Mapping[str, str]) -> Path:
        """Return the folder."""
        if project is not None:
            return project / self.project
        named = environ.get(self.variable)
        return Path(named).expanduser() / self.below if named else Path.home() / self.default


class Program(msgspec.Struct, frozen=True, kw_only=True):
    """A program, and what Brimful needs in it."""

    title: str
    executable: str
    home: Home
    changes: Callable[[Path, Options], tuple[Change, ...]]
    commands: Callable[[Options], tuple[tuple[str, ...], ...]] = lambda _: ()
    undo_commands: Callable[[Options], tuple[tuple[str, ...], ...]] = lambda _: ()
    needs_server: bool = False
    takes_url: bool = False
    uses_command: bool = False  # the program itself starts `brimful`
    notes: Callable[[Options], tuple[str, ...]] = lambda _: ()


def _package_file(name: str) -> bytes:
    return files("brimful.plugins").joinpath(name).read_bytes()


def package_folder(name: str) -> Path:
    """Return a folder of the package."""
    return Path(__file__).parent / name


def hook_edits(program: str, timeouts: Mapping[str, int | None]) -> tuple[Edit, ...]:
    """Return an entry for each event, with the seconds that the program waits for the hook."""
    command = {"type": "command", "command": f"{_HOOK} --program {program}"}
    return tuple(
        Edit(
            path=("hooks", event),
            value={"hooks": [command if seconds is None else {**command, "timeout": seconds}]},
            item=True,
            mark=_HOOK,
        )
        for event, seconds in timeouts.items()
    )


def _server(key: str) -> Edit:
    return Edit(path=(key, "brimful"), value=_MCP, keep=True)


def _hermes(home: Path, options: Options) -> tuple[Change, ...]:
    del options
    edits = (
        Edit(path=("context", "engine"), value="brimful"),
        Edit(path=("plugins", "enabled"), value="brimful", item=True),
    )
    return (ConfigFile(path=home / "config.yaml", form=YAML, edits=edits),)


def _claude_code(home: Path, options: Options) -> tuple[Change, ...]:
    line = Edit(path=("statusLine",), value={"type": "command", "command": "brimful hook --status-line"})
    source = {"source": {"source": "directory", "path": str(package_folder(_CLAUDE_CODE))}}
    theirs = (
        Edit(path=("enabledPlugins", "brimful@brimful"), value=True),
        Edit(path=("extraKnownMarketplaces", "brimful"), value=source),
    )
    edits = (line,) if options.status_line else ()
    return (ConfigFile(path=home / "settings.json", form=JSON, edits=edits, theirs=theirs),)


def _claude_commands(*commands: str) -> Callable[[Options], tuple[tuple[str, ...], ...]]:
    def make(options: Options) -> tuple[tuple[str, ...], ...]:
        scope = ("--scope", "user" if options.project is None else "project")
        folder = str(package_folder(_CLAUDE_CODE))
        return tuple(("claude", "plugin", *each.format(folder=folder).split(" ", 2), *scope) for each in commands)

    return make


def _codex(home: Path, options: Options) -> tuple[Change, ...]:
    """Without PreCompact: Codex takes no text for its summarizer."""
    del options
    timeouts = {"SessionStart": 10, "UserPromptSubmit": 10, "PostToolUse": 20, "SessionEnd": 3}
    return (
        ConfigFile(
            path=home / "hooks.json",
            form=JSON,
            edits=hook_edits("codex", timeouts),
            former=hook_edits("codex", dict.fromkeys(_EVENTS)),
        ),
        ConfigFile(path=home / "config.toml", form=TOML, edits=(_server("mcp_servers"),)),
    )


def _qwen_code(home: Path, options: Options) -> tuple[Change, ...]:
    del options
    edits = (*hook_edits("qwen-code", dict.fromkeys(_EVENTS)), _server("mcpServers"))
    return (ConfigFile(path=home / "settings.json", form=JSON, edits=edits),)


def _gemini_cli(home: Path, options: Options) -> tuple[Change, ...]:
    del options
    return (ConfigFile(path=home / "settings.json", form=JSON, edits=(_server("mcpServers"),)),)


def _plugin(*folders: str) -> Callable[[Path, Options], tuple[Change, ...]]:
    """Return what copies the plugin of opencode and pi, which both load what is in a folder."""
    return lambda home, _: (OwnFile(path=home.joinpath(*folders, "brimful.js"), content=_package_file("brimful.js")),)


def _start_server(title: str) -> Callable[[Options], tuple[str, ...]]:
    """Return what says how the plugin reaches its server."""
    start = "start the server, which the plugin asks: brimful serve"
    return lambda options: (start, f"set BRIMFUL_URL={options.url} where {title} runs") if options.url else (start,)


PROGRAMS: Final[dict[str, Program]] = {
    "hermes": Program(
        title="Hermes Agent",
        executable="hermes",
        home=Home("HERMES_HOME", ".hermes"),
        changes=_hermes,
        notes=lambda _: _check_hermes(),
    ),
    _CLAUDE_CODE: Program(
        title="Claude Code",
        executable="claude",
        home=Home("CLAUDE_CONFIG_DIR", ".claude", ".claude"),
        changes=_claude_code,
        commands=_claude_commands("marketplace add {folder}", "install brimful@brimful"),
        undo_commands=_claude_commands("uninstall brimful@brimful", "marketplace remove brimful"),
        uses_command=True,
    ),
    "codex": Program(
        title="Codex",
        executable="codex",
        home=Home("CODEX_HOME", ".codex", ".codex"),
        changes=_codex,
        uses_command=True,
        notes=lambda _: ("Codex asks once whether you trust the hooks: until then, it skips them without a word",),
    ),
    "opencode": Program(
        title="opencode",
        executable="opencode",
        home=Home("XDG_CONFIG_HOME", ".config/opencode", ".opencode", "opencode"),
        changes=_plugin("plugin"),
        needs_server=True,
        takes_url=True,
        notes=_start_server("opencode"),
    ),
    "pi": Program(
        title="pi",
        executable="pi",
        home=Home("PI_CODING_AGENT_DIR", ".pi/agent", ".pi"),
        changes=_plugin("extensions"),
        needs_server=True,
        takes_url=True,
        notes=_start_server("pi"),
    ),
    "gemini-cli": Program(
        title="Gemini CLI",
        executable="gemini",
        home=Home("GEMINI_CLI_HOME", ".gemini", ".gemini", ".gemini"),
        changes=_gemini_cli,
        uses_command=True,
        takes_url=True,
        notes=lambda options: (
            (
                f"to trim requests as well, run `brimful serve --upstream {_GEMINI}` and set "
                f"GOOGLE_GEMINI_BASE_URL={options.url or DEFAULT_URL}"
            ),
        ),
    ),
    "qwen-code": Program(
        title="Qwen Code",
        executable="qwen",
        home=Home("QWEN_HOME", ".qwen", ".qwen"),
        changes=_qwen_code,
        uses_command=True,
    ),
}
"""The programs whose configuration is in files. Open WebUI keeps its own in a database."""


def plan_install(name: str, options: Options, environ: Mapping[str, str] = os.environ) -> Plan:
    """Return what to change so that a program uses Brimful. Nothing is changed."""
    program, changes = _find(name, options, environ)
    actions = tuple(action for change in changes if (action := change.install()) is not None)
    lacks = any(isinstance(change, ConfigFile) and not change.has_theirs() for change in changes)
    return Plan(
        program=name,
        actions=actions,
        commands=program.commands(options) if lacks else (),
        folder=options.project,
        notes=(*_missing_parts(program), *program.notes(options)),
    )


def plan_undo(name: str, options: Options, environ: Mapping[str, str] = os.environ) -> Plan:
    """Return what to change so that a program is as it was before. Nothing is changed."""
    program, changes = _find(name, msgspec.structs.replace(options, status_line=name == _CLAUDE_CODE), environ)
    undone = [change.undo() for change in changes]
    ran = any(isinstance(change, ConfigFile) and change.has_theirs(any_of_them=True) for change in changes)
    return Plan(
        program=name,
        actions=tuple(action for action, _ in undone if action is not None),
        commands=program.undo_commands(options) if ran else (),
        folder=options.project,
        notes=tuple(note for _, note in undone if note),
    )


def _find(name: str, options: Options, environ: Mapping[str, str]) -> tuple[Program, tuple[Change, ...]]:
    program = PROGRAMS[name]
    if options.project is not None and not program.home.project:
        raise InvalidValue("project", f"{program.title} has no configuration for projects")
    if options.url and not program.takes_url:
        raise InvalidValue("url", f"{program.title} needs none")
    if options.status_line and name != _CLAUDE_CODE:
        raise InvalidValue("status_line", "only Claude Code has a status line")
    return program, program.changes(program.home.find(options.project, environ), options)


def install(plan: Plan) -> None:
    """Carry out a plan of `plan_install`. If a file cannot be written, those before it are restored."""
    _write_all(plan.actions)
    run_commands(plan)


def undo(plan: Plan, options: Options, environ: Mapping[str, str] = os.environ) -> None:
    """Carry out a plan of `plan_undo`. Its commands may change files, so they run first."""
    run_commands(plan)
    actions = plan.actions
    if plan.commands:
        again = {action.path: action for action in plan_undo(plan.program, options, environ).actions}
        restored = {each.path: _refreshed(each) for each in plan.actions if each.drop_copy}
        actions = tuple((again | restored).values())
    _write_all(actions)


def _refreshed(action: Action) -> Action:
    """Return the action for the file as a command left it."""
    return msgspec.structs.replace(action, before=_read(action.path))


def _write_all(actions: Sequence[Action]) -> None:
    done: list[Action] = []
    try:
        for action in actions:
            action.carry_out()
            done.append(action)
    except BaseException:
        for action in reversed(done):
            _write(action.path, action.before, action.path)
        raise


def run_commands(plan: Plan) -> None:
    """Run the commands of a plan. The first that fails ends it."""
    for command in plan.commands:
        _run(command, plan.folder)


def _run(command: Sequence[str], folder: Path | None = None) -> str:
    path = shutil.which(command[0])
    shown = " ".join(command)
    if path is None:
        raise BrimfulError(f"`{command[0]}` is not found: install it, or add its folder to PATH")
    try:
        done = subprocess.run(  # noqa: S603 - one of the commands above
            [path, *command[1:]],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise BrimfulError(f"`{shown}` did not end within {_SECONDS} seconds") from None
    output = done.stdout.decode(errors="replace").strip()
    if done.returncode:
        raise BrimfulError(f"`{shown}` failed with exit code {done.returncode}: {output}")
    return output


# -- what is there -----------------------------------------------------------------------------------------------------


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a program is on this machine, and whether Brimful is installed in it. `problem` says why not to know."""

    program: str
    title: str
    exists: bool
    installed: bool
    problem: str = ""


def list_programs(options: Options, environ: Mapping[str, str] = os.environ) -> list[Status]:
    """Return the status of all programs whose configuration is in files."""
    return [status(name, options, environ) for name in PROGRAMS]


def status(name: str, options: Options, environ: Mapping[str, str] = os.environ) -> Status:
    """Return the status of a program."""
    program = PROGRAMS[name]
    folder = program.home.find(options.project if program.home.project else None, environ)
    found = shutil.which(program.executable) is not None or folder.is_dir()
    if not found:
        return Status(program=name, title=program.title, exists=False, installed=False)
    try:
        is_installed = all(change.install() is None for change in program.changes(folder, Options()))
    except (BrimfulError, OSError) as error:
        return Status(program=name, title=program.title, exists=True, installed=False, problem=str(error))
    return Status(program=name, title=program.title, exists=True, installed=is_installed)


def check(name: str, environ: Mapping[str, str] = os.environ) -> list[str]:
    """Return what keeps a program in which Brimful is installed from using it."""
    program = PROGRAMS[name]
    missing = () if shutil.which(program.executable) else (f"`{program.executable}` is not on the PATH",)
    environment = _check_hermes() if name == "hermes" else ()
    server = _check_server(environ.get("BRIMFUL_URL") or DEFAULT_URL) if program.needs_server else ()
    return [*missing, *_missing_parts(program), *environment, *server]


def _check_server(url: str) -> tuple[str, ...]:
    try:
        with urlopen(f"{url.rstrip('/')}/health", timeout=_ANSWER_SECONDS):  # noqa: S310 - from the user's settings
            return ()
    except (OSError, ValueError, HTTPException) as error:
        return (f"no server answers at {url}: run `brimful serve` ({error})",)


def _missing_parts(program: Program) -> tuple[str, ...]:
    """Return what Brimful itself lacks for a program."""
    missing = []
    if program.uses_command and not shutil.which("brimful"):
        missing.append(f"{program.title} starts `brimful`, which is not on the PATH: run `pipx install 'brimful[mcp]'`")
    elif program.uses_command and find_spec("mcp") is None:
        missing.append("`brimful mcp` needs an optional dependency: run `pip install 'brimful[mcp]'`")
    if program.needs_server and find_spec("starlette") is None:
        missing.append("`brimful serve` needs optional dependencies: run `pip install 'brimful[server]'`")
    return tuple(missing)


def _check_hermes() -> tuple[str, ...]:
    """Return what to do if Hermes' own environment lacks Brimful."""
    path = shutil.which("hermes")
    if path is None:
        return ()
    python = _interpreter(Path(path).resolve())
    if python is None:
        return ("Brimful must be installed in Hermes' own environment: pip install brimful",)
    try:
        _run([python, "-c", "import brimful"])
    except BrimfulError:
        return (f"Hermes' own environment lacks Brimful: run `uv pip install --python {python} brimful`",)
    return ()


def _interpreter(script: Path) -> str | None:
    """Return the Python that runs a script, if its first line names it."""
    first = (_read(script) or b"").partition(b"\n")[0].decode(errors="replace")
    named = first.removeprefix("#!").strip()
    return named if first.startswith("#!") and "python" in Path(named).name and Path(named).exists() else None
