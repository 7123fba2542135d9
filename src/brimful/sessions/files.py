"""Where programs keep their sessions, and which there are."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, suppress
from functools import partial
from itertools import islice
from pathlib import Path
from sqlite3 import DatabaseError
from typing import Any, Final, NamedTuple

import msgspec

from brimful.core.validation import preview
from brimful.errors import InvalidValue, UnknownRecord
from brimful.formats.lenient import as_dict, as_str, parse_time
from brimful.sessions import claude_code, codex, databases, gemini_cli, qwen_code
from brimful.sessions.events import Event, Piece, Unknown
from brimful.sessions.lines import Progress, read_lines

_HEAD: Final = 40  # events and lines in which the title and the folder of a session are looked for
_TITLE: Final = 80  # characters
_MIN_PREFIX: Final = 4  # characters of an id that name a session

Read = Callable[[int, Progress], Iterator[Event]]


class SessionFile(msgspec.Struct, frozen=True, kw_only=True):
    """A session of a program: where it is, when it was last used, and how it is read.

    `size` is how far it goes: bytes of a file, or rows of a database. Reading from there on later gives what is new.
    """

    program: str
    id: str
    path: Path
    folder: str
    title: str
    modified: float
    size: int
    reader: Read

    def events(self, start: int = 0, progress: Progress = lambda _: None) -> Iterator[Event]:
        """Yield what it tells, from a position on."""
        return self.reader(start, progress)


def find_sessions(home: Path, environ: Mapping[str, str], program: str | None = None) -> list[SessionFile]:
    """Return the sessions of all programs, or of one, the newest first."""
    if program is not None and program not in PROGRAMS:
        raise InvalidValue("program", f"must be one of {', '.join(PROGRAMS)}, not {preview(program)}")
    found = [
        session
        for name, locate in PROGRAMS.items()
        if program in (None, name)
        for session in locate(name, home, environ)
    ]
    return sorted(found, key=lambda each: -each.modified)


def find_session(name: str, home: Path, environ: Mapping[str, str]) -> SessionFile:
    """Return a session by its id, by the beginning of its id, or by the path of its file; `last` is the newest."""
    path = Path(name).expanduser()
    if path.suffix == ".jsonl" and path.is_file():
        return open_file(path)
    sessions = find_sessions(home, environ)
    matching = [each for each in sessions if each.id == name]
    if not matching and len(name) >= _MIN_PREFIX:
        matching = [each for each in sessions if each.id.startswith(name)]
    if name == "last":
        matching = sessions[:1]
    if len(matching) > 1:
        ids = ", ".join(each.id for each in matching[:3])
        raise InvalidValue("session", f"{preview(name)} is the beginning of several ids: {ids}")
    if not matching:
        raise UnknownRecord("session", name)
    return matching[0]


# -- files of lines --------------------------------------------------------------------------------------------------


class _Files(NamedTuple):
    """How a program's files are read, where they are, and the variables that name another folder."""

    read: Callable[[Path, int, Progress], Iterator[Event]]
    folder: str
    pattern: str
    variables: tuple[str, ...] = ()


_FILES: Final = {
    "claude-code": _Files(claude_code.read, ".claude", "projects/*/*.jsonl", ("CLAUDE_CONFIG_DIR",)),
    "codex": _Files(codex.read, ".codex", "sessions/*/*/*/rollout-*.jsonl", ("CODEX_HOME",)),
    "gemini-cli": _Files(gemini_cli.read, ".gemini", "tmp/*/chats/session-*.jsonl"),
    "qwen-code": _Files(qwen_code.read, ".qwen", "projects/*/chats/*.jsonl", ("QWEN_RUNTIME_DIR", "QWEN_HOME")),
}


def _find_files(name: str, home: Path, environ: Mapping[str, str]) -> Iterator[SessionFile]:
    files = _FILES[name]
    root = Path(next(filter(None, map(environ.get, files.variables)), home / files.folder))
    sessions: dict[str, SessionFile] = {}  # Gemini CLI begins another file for a session that goes on
    for path in sorted(root.glob(files.pattern)):
        with suppress(OSError):  # it was just removed, or belongs to somebody else
            session = open_file(path, name)
            known = sessions.get(session.id, session)
            sessions[session.id] = max(known, session, key=lambda each: each.size)
    yield from sessions.values()


def open_file(path: Path, program: str = "", id: str = "") -> SessionFile:
    """Return the session in a file. Without its program or id, the first lines tell them."""
    heads = [line for _, line in islice(read_lines(path), _HEAD) if not isinstance(line, Unknown)]
    program = program or _recognize(path, heads)
    read, facts = _FILES[program].read, path.stat()
    payloads = [as_dict(line.get("payload")) for line in heads]
    ids = [line.get("sessionId") for line in heads]
    ids += [each.get(name) for name in ("session_id", "id") for each in payloads]
    folders = [each.get("cwd") for each in (*heads, *payloads)]
    return SessionFile(
        program=program,
        id=id or _first(ids) or path.stem,
        path=path,
        folder=_first(folders),
        title=_title(islice(read(path, 0, lambda _: None), _HEAD)),
        modified=facts.st_mtime,
        size=facts.st_size,
        reader=partial(read, path),
    )


def _recognize(path: Path, heads: list[dict[str, Any]]) -> str:
    """Return the program that writes such lines."""
    if any("payload" in line for line in heads):
        return "codex"
    if any("$set" in line or line.get("type") == "gemini" or "projectHash" in line for line in heads):
        return "gemini-cli"
    if any("parts" in as_dict(line.get("message")) for line in heads):
        return "qwen-code"
    if any("sessionId" in line for line in heads):
        return "claude-code"
    raise InvalidValue("session", f"{path} is not a session of {', '.join(_FILES)}")


def _first(values: list[object]) -> str:
    return next(filter(None, map(as_str, values)), "")


def _title(events: Iterator[Event]) -> str:
    texts = (each.text for each in events if isinstance(each, Piece) and each.category == "user" and each.text.strip())
    return " ".join(next(texts, "").split())[:_TITLE]


# -- databases -------------------------------------------------------------------------------------------------------


def _opencode(name: str, home: Path, environ: Mapping[str, str]) -> Iterator[SessionFile]:
    path = Path(environ.get("XDG_DATA_HOME") or home / ".local" / "share") / "opencode" / "opencode.db"
    query = (
        "SELECT id, title, directory AS folder, time_updated AS at,"
        " (SELECT count(*) FROM message WHERE session_id = session.id) AS size FROM session WHERE parent_id IS NULL"
    )
    yield from _rows(name, path, query, databases.read_opencode)


def _hermes(name: str, home: Path, environ: Mapping[str, str]) -> Iterator[SessionFile]:
    path = Path(environ.get("HERMES_HOME") or home / ".hermes") / "state.db"
    query = (
        "SELECT id, title, cwd AS folder, coalesce(ended_at, started_at) AS at,"
        " (SELECT count(*) FROM messages WHERE session_id = sessions.id) AS size,"
        " (SELECT content FROM messages WHERE session_id = sessions.id AND role = 'user' ORDER BY id LIMIT 1) AS first"
        " FROM sessions"
    )
    yield from _rows(name, path, query, databases.read_hermes)


def _rows(program: str, path: Path, query: str, read: Callable[..., Iterator[Event]]) -> Iterator[SessionFile]:
    if not path.is_file():
        return
    try:
        with closing(databases.connect(path)) as connection:
            rows = connection.execute(query).fetchall()
    except DatabaseError:  # another version of the program
        return
    for row in rows:
        title = row["title"] or (row["first"] if "first" in row.keys() else "")  # noqa: SIM118 - a row has no `in`
        yield SessionFile(
            program=program,
            id=row["id"],
            path=path,
            folder=row["folder"] or "",
            title=" ".join(as_str(title).split())[:_TITLE],
            modified=parse_time(row["at"]) or 0.0,
            size=row["size"],
            reader=partial(read, path, row["id"]),
        )


PROGRAMS: Final[dict[str, Callable[[str, Path, Mapping[str, str]], Iterator[SessionFile]]]] = {
    **dict.fromkeys(_FILES, _find_files),
    "opencode": _opencode,
    "hermes": _hermes,
}
"""How to find the sessions of each program."""
