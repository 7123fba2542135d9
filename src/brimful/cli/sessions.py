"""`brimful sessions`: what filled the window of a coding agent, why its cache missed, and what compaction lost."""

import os
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
import typer

from brimful.cli import output
from brimful.cli.options import DollarsPerDay, Json, Limit, StoreOptions, TokensPerDay
from brimful.cli.output import Table, columns, progress
from brimful.cli.store import with_engine
from brimful.errors import MissingExtra
from brimful.views.explain import plural

if TYPE_CHECKING:
    from brimful.engine import Engine
    from brimful.sessions.cache import Miss
    from brimful.sessions.files import SessionFile
    from brimful.sessions.lost import Loss
    from brimful.sessions.window import Turn, Window

EXAMPLES: Final = """\
Examples:
  brimful sessions list
  brimful sessions show last
  brimful sessions cache last
  brimful sessions lost last
  brimful sessions recall last --query "migration of the users table"
  brimful sessions import --all --db sqlite:///sessions.db"""
_PROGRAMS: Final = "Claude Code, Codex, opencode, Hermes, Gemini CLI and Qwen Code"
_LETTERS: Final = {
    "system": "S",
    "tools": "T",
    "files": "F",
    "results": "R",
    "user": "U",
    "assistant": "A",
    "thinking": "H",
    "summary": "M",
    "unseen": ".",
}
_NAMES: Final = {
    "system": "system prompt, reminders",
    "tools": "definitions of tools",
    "files": "files read",
    "results": "results of tools",
    "user": "user",
    "assistant": "assistant, calls",
    "thinking": "thinking",
    "summary": "summary of a compaction",
    "unseen": "not in the file",
}
_BAR: Final = 60  # columns
_TURNS: Final = 20  # that a chart shows

SessionName = Annotated[
    str, typer.Argument(metavar="SESSION", help="Its id, the beginning of its id, a file, or `last` for the newest.")
]
ProgramFilter = Annotated[
    str | None,
    typer.Option("--program", metavar="NAME", help="claude-code, codex, opencode, hermes, gemini-cli or qwen-code."),
]


def register(app: typer.Typer) -> None:
    group = typer.Typer(
        no_args_is_help=True, epilog=EXAMPLES, help=f"Look into the sessions of {_PROGRAMS}. Nothing is sent anywhere."
    )
    for command in (show, cache, lost, recall):
        group.command()(command)
    group.command("list")(list_sessions)
    group.command("import")(import_sessions)
    app.add_typer(group, name="sessions")


def list_sessions(*, program: ProgramFilter = None, limit: Limit = 20, as_json: Json = False) -> None:
    """List sessions, the newest first."""
    from brimful.sessions.files import find_sessions  # noqa: PLC0415 - other commands do not need it

    found = find_sessions(Path.home(), os.environ, program)[:limit]
    if as_json:
        output.show_json([_describe(each) for each in found])
        return
    if not found:
        output.write(f"no sessions of {_PROGRAMS} in your home folder")
        return
    rows = [[each.program, each.id, output.format_time(each.modified), each.folder, each.title] for each in found]
    output.show_table(Table(columns("program", "id", "last used", "folder", "task", spare=["folder"]), rows))


def show(
    name: SessionName,
    *,
    all_turns: Annotated[bool, typer.Option("--all", help="Show each request.")] = False,
    as_json: Json = False,
) -> None:
    """Show what filled the window, request by request.

    Tokens are counted for the model of the session. What the file does not
    have, such as definitions of tools, is the rest of what was billed.
    """
    session, turns, window = _read_turns(name, quiet=as_json)
    if as_json:
        output.show_json({**_describe(session), "window": window.window, "unknown": window.unknown, "turns": turns})
        return
    output.show_fields(_fields(session, turns, window))
    if not turns:
        return
    output.write()
    _show_turns(turns, all_turns=all_turns)
    output.write()
    _show_categories(turns)


def cache(name: SessionName, *, as_json: Json = False) -> None:
    """Show each miss of the prompt cache: its cause, its cost, and what would have avoided it."""
    from brimful.sessions.cache import find_misses  # noqa: PLC0415 - see above
    from brimful.sessions.files import find_session  # noqa: PLC0415

    session = find_session(name, Path.home(), os.environ)
    with progress("read", session.size, quiet=as_json) as advance:
        try:
            misses = list(find_misses(session.events(0, advance)))
        except MissingExtra:
            misses = list(find_misses(session.events(0, advance), prices=False))
    if as_json:
        output.show_json([{**msgspec.to_builtins(each, builtin_types=[]), "advice": each.advice} for each in misses])
        return
    _show_misses(session, misses)


def lost(name: SessionName, *, as_json: Json = False) -> None:
    """Show what compactions dropped that was used again later.

    A call that was made again, or a value in a later call that only dropped
    pieces had. The handle of a piece gives it back: `brimful sessions recall`.
    """
    from brimful.sessions.files import find_session  # noqa: PLC0415 - see above
    from brimful.sessions.lost import find_losses  # noqa: PLC0415

    session = find_session(name, Path.home(), os.environ)
    with progress("read", session.size, quiet=as_json) as advance:
        losses = list(find_losses(session.events(0, advance)))
    if as_json:
        output.show_json(losses)
        return
    if not losses:
        output.write("no compaction in this session")
    for each in losses:
        _show_loss(each)


def recall(
    name: SessionName,
    handle: Annotated[str, typer.Argument(metavar="[HANDLE]", help="A piece, such as p12.")] = "",
    *,
    query: Annotated[str, typer.Option("--query", "-q", metavar="TEXT", help="Words to search for.")] = "",
    tokens: Annotated[int, typer.Option("--tokens", metavar="N", min=50, help="Most tokens of the result.")] = 1_000,
    as_json: Json = False,
) -> None:
    """Give back pieces of a session, such as what a compaction threw away."""
    if bool(handle) == bool(query):
        raise typer.BadParameter("pass either a HANDLE or --query", param_hint="'HANDLE'")
    from brimful.sessions.files import find_session  # noqa: PLC0415 - see above
    from brimful.sessions.lost import recall as recall_pieces  # noqa: PLC0415
    from brimful.sessions.window import find_counter  # noqa: PLC0415

    session = find_session(name, Path.home(), os.environ)
    with progress("read", session.size, quiet=as_json) as advance:
        found = recall_pieces(session.events(0, advance), handle, query, tokens, find_counter(""))
    output.show(found, found.text or "nothing matches", as_json=as_json)


def import_sessions(  # noqa: PLR0913 - the options of a command
    *,
    names: Annotated[list[str] | None, typer.Argument(metavar="SESSION...", help="Sessions to import.")] = None,
    all_sessions: Annotated[bool, typer.Option("--all", help="Import all sessions.")] = False,
    program: ProgramFilter = None,
    user: Annotated[str | None, typer.Option("--user", metavar="ID", help="Whose rooms they are.")] = None,
    learn: Annotated[
        str | None, typer.Option("--learn", metavar="MODEL", help="Let this model learn memories from what is new.")
    ] = None,
    tokens_per_day: TokensPerDay = None,
    dollars_per_day: DollarsPerDay = None,
    target: StoreOptions,
    as_json: Json = False,
) -> None:
    """Import sessions as rooms, without keys, tokens and passwords.

    What was imported before is not read again, so you can repeat it. With
    --learn, a model reads what is new and writes memories for the next session.
    """
    if bool(names) == all_sessions:
        raise typer.BadParameter("pass either sessions or --all", param_hint="'SESSION'")
    from brimful.sessions.files import find_session, find_sessions  # noqa: PLC0415 - see above

    home = Path.home()
    found = [find_session(each, home, os.environ) for each in names or ()]
    if all_sessions:
        found = find_sessions(home, os.environ, program)
    report = Counter[str]()

    async def work(engine: "Engine") -> None:
        with progress("import", len(found), quiet=as_json, unit="sessions") as advance:
            for number, session in enumerate(found):
                report.update(await _import(engine, session, user, learn))
                advance(number + 1)

    from brimful.records.own_calls import SpendingLimit  # noqa: PLC0415 - see above

    limit = SpendingLimit(tokens_per_day=tokens_per_day, dollars_per_day=dollars_per_day)
    with_engine(work, target=target, own_calls=limit, new=True)
    if as_json:
        output.show_json(report)
        return
    output.show_fields((name, f"{count:,}") for name, count in sorted(report.items()))


# -- import ----------------------------------------------------------------------------------------------------------


async def _import(engine: "Engine", session: "SessionFile", user: str | None, learn: str | None) -> Counter[str]:
    from brimful.engine.transfer import ImportTally, import_records  # noqa: PLC0415 - slow to import
    from brimful.records import Room  # noqa: PLC0415
    from brimful.sessions.records import POSITION, SessionRecords  # noqa: PLC0415

    records = SessionRecords(session, user=user)
    known = await engine.store.get(Room, records.room)
    noted = known.metadata.get(POSITION) if known is not None else None
    start = noted if isinstance(noted, int) else 0
    tally = ImportTally()
    if start != session.size:
        await import_records(engine, iter([records.make_room(start)]), tally, index=False)
        for messages, position in records.read(start):
            await import_records(engine, iter(messages), tally, index=False)
            await engine.put(records.make_room(position))
        await engine.index_deferred()
    learned = None if learn is None else await engine.learn(from_room=records.room, user=user, model=learn)
    if learned is not None and learned.postponed_until is not None:  # the next import learns the rest
        output.warn(learned.notes[-1])
    if start == session.size:
        return Counter({"sessions without anything new": 1})
    made = tally.make_report()
    return Counter(
        {
            "sessions": 1,
            "messages": made.records.get("message", 0),
            **{f"masked {kind}": count for kind, count in records.masked.items()},
            "unknown parts": sum(records.unknown.values()),
        }
    )


# -- output ----------------------------------------------------------------------------------------------------------


def _read_turns(name: str, *, quiet: bool) -> "tuple[SessionFile, list[Turn], Window]":
    from brimful.sessions.files import find_session  # noqa: PLC0415 - see above
    from brimful.sessions.window import Window  # noqa: PLC0415

    session, window = find_session(name, Path.home(), os.environ), Window()
    with progress("read", session.size, quiet=quiet) as advance:
        return session, list(window.read(session.events(0, advance))), window


def _describe(session: "SessionFile") -> dict[str, Any]:
    return {
        "program": session.program,
        "id": session.id,
        "path": str(session.path),
        "folder": session.folder,
        "title": session.title,
        "modified": session.modified,
    }


def _fields(session: "SessionFile", turns: "Sequence[Turn]", window: "Window") -> list[tuple[str, str]]:
    prompt = sum(turn.call.prompt for turn in turns)
    read = sum(turn.call.read for turn in turns)
    return [
        ("session", f"{session.program} {session.id}"),
        ("task", session.title),
        ("folder", session.folder),
        ("model", window.model),
        ("requests", f"{len(turns):,}, {sum(turn.compacted for turn in turns)} after a compaction"),
        ("prompt tokens", f"{prompt:,}, {read / prompt:.0%} from the cache" if prompt else "not in the file"),
        ("largest prompt", _largest(turns, window.window)),
        ("not understood", ", ".join(f"{count:,} × {reason}" for reason, count in window.unknown.items())),
    ]


def _largest(turns: "Sequence[Turn]", window: int) -> str:
    most = max((turn.call.prompt for turn in turns), default=0)
    return f"{most:,} of {window:,} tokens" if window else f"{most:,} tokens"


def _show_turns(turns: "Sequence[Turn]", *, all_turns: bool) -> None:
    most = max(1, *(turn.call.prompt for turn in turns))
    step = 1 if all_turns else max(1, -(-len(turns) // _TURNS))
    shown = [turn for turn in turns if turn.compacted or (len(turns) - turn.number) % step == 0]
    output.write(f"{'request':>7}  {'tokens':>9}  {'cached':>6}")
    for turn in shown:
        prompt = turn.call.prompt
        cached = f"{turn.call.read / prompt:.0%}" if prompt else ""
        mark = " compacted" if turn.compacted else ""
        output.write(f"{turn.number:>7}  {prompt:>9,}  {cached:>6}  {_bar(turn, most)}{mark}")


def _bar(turn: "Turn", most: int) -> str:
    """Return a bar with one letter for each category, as long as its tokens."""
    done, bar = 0, ""
    for name, tokens in _parts(turn).items():
        done += tokens
        bar += _LETTERS[name] * (round(done / most * _BAR) - len(bar))
    return bar


def _parts(turn: "Turn") -> dict[str, int]:
    return {**{str(name): tokens for name, tokens in turn.tokens.items()}, "unseen": turn.unseen}


def _show_categories(turns: "Sequence[Turn]") -> None:
    last = turns[-1]
    parts = _parts(last)
    total = max(1, sum(parts.values()))
    rows = [
        [_LETTERS[name], _NAMES[name], f"{tokens:,}", f"{tokens / total:.0%}"]
        for name, tokens in sorted(parts.items(), key=lambda each: -each[1])
        if tokens
    ]
    output.show_table(Table(columns("", "in the last request", "tokens", "share", right=["tokens", "share"]), rows))


def _show_misses(session: "SessionFile", misses: "Sequence[Miss]") -> None:
    if not misses:
        output.write(f"no miss in {session.program} {session.id}, or no cache was used")
        return
    rows = [
        [
            f"{each.turn:,}",
            output.format_time(each.at),
            each.cause,
            f"{each.tokens:,}",
            f"{each.idle:,.0f}",
            "" if each.cost is None else f"{each.cost:.4f}",
        ]
        for each in misses
    ]
    right = ["request", "tokens", "idle s", "cost $"]
    output.show_table(Table(columns("request", "at", "cause", "tokens", "idle s", "cost $", right=right), rows))
    spent = sum((each.cost for each in misses if each.cost is not None), start=Decimal(0))
    output.write()
    output.write(f"{len(misses):,} {'miss' if len(misses) == 1 else 'misses'}, ${spent:.4f} more than with the cache")
    for cause, advice in {each.cause: each.advice for each in misses}.items():
        output.write(f"{cause}: {advice}")


def _show_loss(loss: "Loss") -> None:
    output.write(f"compaction after request {loss.turn:,}: {plural(loss.dropped, 'piece')} dropped")
    for each in loss.again:
        what = "called again" if each.is_call else "used again"
        output.write(f"  {what} in request {each.turn:,}, recall p{each.place}: {output.preview(each.text)}")
    if not loss.again:
        output.write("  nothing of it was used again")
