"""`brimful explain`: show what the model saw, and why each candidate was included or left out."""

from collections.abc import Iterator, Sequence
from decimal import Decimal
from difflib import get_close_matches
from fnmatch import fnmatchcase
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
import typer

from brimful.assembly.whatif import window_for
from brimful.cli import output
from brimful.cli.assemble import format_entry_score, total_lines
from brimful.cli.files import STDIN, read_context, source_name
from brimful.cli.models import SCORE_PARTS
from brimful.cli.options import Json, StoreOptions
from brimful.cli.output import Failure, Table, columns
from brimful.cli.store import has_store, with_store
from brimful.core.content import ContentPackage
from brimful.core.context import ID_PREFIX, Context
from brimful.core.decision import Decision, Outcome, Score, format_relevance
from brimful.core.labels import iso_date
from brimful.core.recall import is_erased
from brimful.core.validation import clean_text
from brimful.errors import MissingExtra, UnknownRecord
from brimful.models import default_registry
from brimful.models.costs import usage_cost
from brimful.packagers.records import plain_text
from brimful.records import Inclusion, Persona, Response, Room, Snapshot
from brimful.views.explain import (
    candidates_line,
    describe_decision,
    draw_frame,
    format_items,
    format_score,
    plural,
    status_lines,
    summarize,
    window_lines,
)
from brimful.views.sections import Entry, Section, describe_media_entry, excluded_decisions, sections

if TYPE_CHECKING:
    from brimful.stores import Store


MAX_ANSWERS: Final = 20
RECENT_BUILDS: Final = 20  # builds searched for an item
MAX_CONTEXTS: Final = 20  # contexts of one message


class LocatedContext(msgspec.Struct, frozen=True, kw_only=True):
    """A context, and what the store knows about it. A context from a file has nothing else.

    `room_name` is empty if the room has no name or was removed. `message` is the message id by which it was found.
    `others` are further contexts that the id may refer to. `inclusions` are the decisions on one item in the last
    builds; `absence` is why an item in the store was not a candidate.
    """

    context: Context
    persona: str = ""
    room: str = ""
    room_name: str = ""
    at: float = 0.0
    message: str | None = None
    answers: tuple[Response, ...] = ()
    others: tuple[str, ...] = ()
    inclusions: tuple[Inclusion, ...] = ()
    absence: str = ""

    @property
    def stored(self) -> bool:
        """Whether it comes from a store."""
        return bool(self.room)


def locate(name: str, *, target: StoreOptions, item: str | None = None) -> LocatedContext:
    """Find a context by file name or id; with `item`, also the decisions on that item in the last builds."""
    if name == STDIN or _is_file(name):
        return LocatedContext(context=read_context(name))
    if not has_store(target.db):
        raise Failure(
            f"{source_name(name)}: there is no such file, and no store {target.db} to look up an id in; "
            "run this in the folder of the store, or name the store with --db or BRIMFUL_DB"
        )
    return with_store(lambda store: find_in_store(store, clean_text(name), item), target=target)


async def find_in_store(store: "Store", name: str, item: str | None = None) -> LocatedContext:
    """Find a context by its id, or by the id of its answer or of the message that it answers."""
    ids = [name] if name.startswith(ID_PREFIX) else await store.contexts_of(name, limit=MAX_CONTEXTS)
    if not ids:
        raise Failure(f"{name}: there is no such file, and no context or answered message with this id in the store")
    snapshot = await store.snapshot(ids[0])
    if snapshot is None:
        raise UnknownRecord("context", ids[0])
    persona = None if snapshot.persona is None else await store.get(Persona, snapshot.persona)
    room = await store.get(Room, snapshot.room)
    inclusions = [] if item is None else await store.inclusions(item=item, limit=RECENT_BUILDS)
    return LocatedContext(
        context=snapshot.context,
        persona=persona.called if persona else snapshot.persona or "",
        room=snapshot.room,
        room_name=room.name if room else "",
        at=snapshot.at,
        message=None if name == ids[0] else name,
        answers=tuple(await store.responses(context=ids[0], limit=MAX_ANSWERS)),
        others=tuple(ids[1:]),
        inclusions=tuple(inclusions),
        absence=await _absence(store, snapshot, item),
    )


async def _absence(store: "Store", snapshot: Snapshot, item: str | None) -> str:
    if item is None or any(decision.id == item for decision in snapshot.context.decisions):
        return ""
    from brimful.engine.absence import find_absence  # noqa: PLC0415 - the engine is slow to import

    absence = await find_absence(store, snapshot, item)
    return "" if absence is None else absence.why


def _is_file(name: str) -> bool:
    try:
        return Path(name).exists()
    except (OSError, ValueError):  # not a valid file name
        return False


_BUILD_COLUMNS: Final = columns("built", "outcome", "reason", "context", spare=["reason"])


def explain_candidate(found: LocatedContext, id: str, *, full: bool, as_json: bool) -> None:
    """Show everything about one candidate."""
    context = found.context
    decision = _find_decision(found, id)
    package = _find_package(context, decision)
    window = window_for(context, id)
    if as_json:
        output.show_json(
            {
                "line": context.explain(id),
                "decision": decision,
                "handle": context.handle(id),
                "package": package,
                "window_for": window,
                "builds": found.inclusions,
            }
        )
        return
    output.write(output.one_line(context.explain(id)))
    output.write(_window_line(context, decision, window))
    output.write()
    output.show_fields(_candidate_fields(decision, package, context.handle(id)))
    if package is not None and full:
        output.write(f"\n{output.printable(plain_text(package.content))}")
    if found.inclusions:
        output.write("\nrecent builds")
        rows = [[output.format_time(each.at), each.outcome, each.reason, each.snapshot] for each in found.inclusions]
        output.show_table(Table(_BUILD_COLUMNS, rows))


def _window_line(context: Context, decision: Decision, window: int | None) -> str:
    """Return the window that the candidate needs, or that no window is large enough."""
    current = f"the window was {context.budget.window:,}"
    if window is None:
        return f"a larger window would not include it ({current}){_why_no_window(context, decision)}"
    return f"smallest window that includes it: {window:,} tokens ({current})"


def _why_no_window(context: Context, decision: Decision) -> str:
    """Return the reason, if the line about the decision does not give it."""
    pool = next((pool for pool in context.inputs.policy.pools if pool.name == decision.pool), None)
    if pool is None or pool.low_water is None or context.inputs.previous is None:
        return ""
    return ": history starts where it started in the previous build, to keep the provider's prompt cache"


def _find_decision(found: LocatedContext, id: str) -> Decision:
    context = found.context
    try:
        return context.decision(id)
    except UnknownRecord:
        if found.absence:
            raise Failure(f"{id!r} was not a candidate of {context.id}: {found.absence}") from None
        near = get_close_matches(id, [decision.id for decision in context.decisions], n=3)
        hint = f"; did you mean {', '.join(near)}?" if near else ""
        raise Failure(f"there is no candidate {id!r} in {context.id}{hint}") from None


def _find_package(context: Context, decision: Decision) -> ContentPackage | None:
    same = [package for package in context.candidates if package.id == decision.id]
    return next((package for package in same if package.kind == decision.kind), None)


def _candidate_fields(decision: Decision, package: ContentPackage | None, handle: str) -> list[tuple[str, str]]:
    score = decision.score
    facts = [
        ("id", decision.id),
        ("handle", handle if handle != decision.id else ""),
        ("kind", decision.kind),
        ("pool", decision.pool),
        ("outcome", decision.outcome),
        ("reason", decision.reason),
        ("tokens", f"{decision.tokens:,}"),
        ("cost", f"{decision.cost:,}" if decision.cost else ""),
        ("rank", f"{decision.rank:,} (cut at {decision.cut:,})" if decision.rank else ""),
        ("by", decision.by),
        ("group", decision.group),
    ]
    if score is not None:
        parts = ", ".join(f"{name} {_format_part(score, name)}" for name in SCORE_PARTS)
        facts.append(("score", f"{format_score(score.total)} ({parts})"))
    if package is not None:
        facts += [("date", iso_date(package.timestamp)), ("hash", package.hash), ("text", output.preview(package.text))]
    return facts


MAX_ENTRIES: Final = 5  # entries shown of a section, unless --full is given
TEXT_WIDTH: Final = 76  # columns
EXCERPT_LINES: Final = 3  # lines


def format_explanation(found: LocatedContext, *, full: bool) -> str:
    """Describe what a model saw and answered; with `full`, every text in full."""
    title = f"CONTEXT for message #{found.message}" if found.message else f"CONTEXT {found.context.id}"
    return draw_frame(f"BRIMFUL {output.one_line(title)}", list(_lines(found, full=full)))


def _lines(found: LocatedContext, *, full: bool) -> Iterator[str]:
    context = found.context
    facts = (
        ("Persona", found.persona),
        ("Room", f"{found.room_name} ({found.room})" if found.room_name else found.room),
        ("Timestamp", output.format_time(found.at)),
        ("Context", context.id if found.message else ""),
        ("Model", context.budget.model),
        ("Policy", context.budget.policy),
        ("Focus", context.inputs.focus),
    )
    yield from (f"{name}: {output.one_line(value)}" for name, value in facts if value)
    yield from window_lines(context)
    yield ""
    yield "CONTEXT COMPONENTS:"
    for number, section in enumerate(sections(context), start=1):
        yield ""
        yield f"{number}. {section.heading} ({_amount(section)}):"
        yield from (f"   {line}".rstrip() for line in _section_lines(section, full=full))
    yield ""
    yield from total_lines(context)
    yield ""
    yield candidates_line(context)
    for answer in found.answers:
        yield ""
        yield from _answer_lines(context, answer)
    yield ""
    yield from map(output.one_line, status_lines(context))


def _amount(section: Section) -> str:
    items = format_items(section.name, len(section.entries), {entry.decision.kind for entry in section.entries})
    return ", ".join(filter(None, (items, f"{section.tokens:,} tokens")))


# -- parts -----------------------------------------------------------------------------------------------------------


def _section_lines(section: Section, *, full: bool) -> Iterator[str]:
    match section.name:
        case "system" | "current":
            for entry in section.entries:
                yield from _quoted(entry.package, full=full)
        case "media":
            yield from (f"- {output.one_line(describe_media_entry(entry))}" for entry in section.entries)
        case "recent" | "tools":
            yield from _message_lines(section.entries, full=full)
        case _:
            yield from _scored_lines(section.entries, full=full)


def _message_lines(entries: Sequence[Entry], *, full: bool) -> Iterator[str]:
    """Yield the last messages; earlier ones are only counted."""
    shown = entries if full else entries[-MAX_ENTRIES:]
    if len(shown) < len(entries):
        yield f"[... {len(entries) - len(shown):,} earlier messages ...]"
    for entry in shown:
        package = entry.package
        speaker = output.one_line(package.name or package.role or entry.decision.kind)
        text = plain_text(package.content)
        yield from (
            map(output.one_line, f"{speaker}: {text}".split("\n"))
            if full
            else [f"{speaker}: {output.one_line(output.preview(text))}"]
        )


def _scored_lines(entries: Sequence[Entry], *, full: bool) -> Iterator[str]:
    """Yield memories, lorebook entries and other retrieved items with their scores."""
    shown = entries if full else entries[:MAX_ENTRIES]
    for number, entry in enumerate(shown, start=1):
        kind, _, type = entry.decision.kind.partition("-")
        prefix = f"{type}, " if type else ""
        if number > 1:
            yield ""
        yield f"{kind.title()} #{number} ({output.one_line(prefix)}score: {format_entry_score(entry)}):"
        yield from _quoted(entry.package, full=full)
    if len(shown) < len(entries):
        yield ""
        noun = "memories" if entries[0].decision.kind.startswith("memory-") else "items"
        yield f"[... {len(entries) - len(shown):,} more {noun} ...]"


def _quoted(package: ContentPackage, *, full: bool) -> list[str]:
    """Return a text in quotation marks, wrapped."""
    if is_erased(package):
        return ["(erased)"]
    text = plain_text(package.content)
    if full:
        return [output.one_line(line) for line in f'"{text}"'.split("\n")]
    lines = wrap(f'"{" ".join(text[: TEXT_WIDTH * (EXCERPT_LINES + 1)].split())}"', TEXT_WIDTH, subsequent_indent=" ")
    return [output.one_line(line) for line in lines] if len(lines) <= EXCERPT_LINES else _truncate(lines)


def _truncate(lines: Sequence[str]) -> list[str]:
    kept = [output.one_line(line) for line in lines[:EXCERPT_LINES]]
    return [*kept[:-1], f'{kept[-1][: TEXT_WIDTH - 4].rstrip()}..."']


# -- answers --------------------------------------------------------------------------------------------------------


def _answer_lines(context: Context, answer: Response) -> Iterator[str]:
    usage = answer.usage
    prompt = usage.prompt if usage else 0
    yield "RESPONSE GENERATED:"
    facts = [
        ("Message", answer.message or ""),
        ("Model", answer.model or context.budget.model),
        ("Upstream", str(answer.metadata.get("upstream", ""))),
        ("Route", answer.route),
        ("Completion Tokens", f"{usage.completion:,}" if usage else ""),
        ("Total Tokens", f"{(prompt or context.tokens) + (usage.completion if usage else 0):,}"),
        ("Cached Tokens", f"{usage.cached:,} of {prompt:,} ({usage.cached / prompt:.0%})" if usage and prompt else ""),
        ("Duration", f"{answer.seconds:.1f}s" if answer.seconds is not None else ""),
        ("Cost", _format_cost(context, answer)),
        ("Finish", answer.finish),
    ]
    yield from (f"  {name}: {output.one_line(value)}" for name, value in facts if value)
    yield from (f"  Note: {output.one_line(note)}" for note in map(str, answer.notices))


def answer_cost(context: Context, answer: Response) -> Decimal | None:
    """Return the cost of an answer in US dollars, at the prices of its day; None if they are not known."""
    usage = answer.usage
    if usage is None or not usage.prompt:
        return None
    info = context.inputs.model
    if answer.model not in ("", info.id):
        info = default_registry().resolve(answer.model)
    return usage_cost(info, usage, answer.at)


def _format_cost(context: Context, answer: Response) -> str:
    try:
        found = answer_cost(context, answer)
    except MissingExtra:
        return "unknown (for prices: `pip install 'brimful[prices]'`)"
    return "" if found is None else f"${found:.6f}"


EXAMPLES: Final = """\
Examples:
  brimful explain context.json
  brimful explain context.json msg-000012
  brimful explain context.json --outcome dropped --limit 10
  brimful explain context.json --kind 'memory-*' --json
  brimful explain msg-0007
  brimful explain ctx-81c2f4d19a05b7e36c1f88aa mem-refund
  brimful explain ctx-81c2f4d19a05b7e36c1f88aa --full --db sqlite:///brimful.db"""

_COLUMNS: Final = columns(
    *("outcome", "reason", "id", "kind", "pool", "rank/cut", "tokens"),
    *("score", *SCORE_PARTS),
    right=("rank/cut", "tokens", "score", *SCORE_PARTS),
    spare=("pool", "kind", "rank/cut", "relevance", "importance", "priority", "recency"),
)
_LEFT_OUT_COLUMNS: Final = columns(
    *("reason", "below", "id", "kind", "tokens", "score", "text"),
    right=("below", "tokens", "score"),
    spare=("kind", "text"),
)


class Filter(msgspec.Struct, frozen=True, kw_only=True):
    """Which candidates to show; None means all."""

    outcome: Outcome | None = None
    pool: str | None = None
    kind: str | None = None
    limit: int | None = None

    def matches(self, decision: Decision) -> bool:
        """Return whether to show a candidate. Kinds are patterns, as in policies."""
        return (
            self.outcome in (None, decision.outcome)
            and self.pool in (None, decision.pool)
            and (self.kind is None or fnmatchcase(decision.kind, self.kind))
        )

    def of(self, context: Context) -> list[Decision]:
        """Return matching candidates: included ones by pool and rank, then the others, nearest to the cut first."""
        pools = [pool.name for pool in context.pools]

        def order(decision: Decision) -> tuple[int, int, str]:
            pool = pools.index(decision.pool) if decision.pool in pools else len(pools)
            return (pool, decision.rank, decision.id)

        included = sorted((each for each in context.decisions if each.included), key=order)
        return list(filter(self.matches, (*included, *excluded_decisions(context))))[: self.limit]


def register(app: typer.Typer) -> None:
    app.command("explain", epilog=EXAMPLES)(explain)


ContextName = Annotated[
    str,
    typer.Argument(
        metavar="CONTEXT", help="A file, `-` for standard input, or the id of a context or message in the store."
    ),
]


def explain(  # noqa: PLR0913 - the options of a command
    *,
    context: ContextName,
    id: Annotated[str | None, typer.Argument(metavar="ID", help="Show everything about this candidate.")] = None,
    outcome: Annotated[Outcome | None, typer.Option("--outcome", help="Only candidates with this outcome.")] = None,
    pool: Annotated[str | None, typer.Option("--pool", metavar="NAME", help="Only candidates in this pool.")] = None,
    kind: Annotated[
        str | None, typer.Option("--kind", metavar="PATTERN", help="Only candidates of this kind, such as 'memory-*'.")
    ] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", metavar="N", min=1, help="Maximum number of candidates.")
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="Show all text in full.")] = False,
    target: StoreOptions,
    as_json: Json = False,
) -> None:
    """Show what a model saw, what was left out, and why.

    If you pass a message id, you see the context of its answer. For a context
    in the store, you see the parts of the prompt, the answer with its tokens,
    time and cost, and what was left out, closest to the cut first. For a
    file, you see the report and a table of all candidates. With an ID, you
    see everything about one candidate, including the smallest window that
    would include it.
    """
    selection = Filter(outcome=outcome, pool=pool, kind=kind, limit=limit)
    if id is not None and selection != Filter():
        raise typer.BadParameter("cannot be combined with filters", param_hint="ID")
    found = locate(context, target=target, item=id)
    warn_if_ambiguous(found, context)
    if id is not None:
        explain_candidate(found, id, full=full, as_json=as_json)
    elif as_json:
        output.show_json(_data(found, selection.of(found.context)))
    else:
        _show(found, selection, full=full)


def warn_if_ambiguous(found: LocatedContext, name: str) -> None:
    """Name the other contexts that a name refers to."""
    if found.others:
        output.warn(
            f"{name!r} refers to {len(found.others) + 1} contexts; this is {found.context.id}, "
            f"the others are {', '.join(found.others)}"
        )


def _show(found: LocatedContext, selection: Filter, *, full: bool) -> None:
    if found.stored and selection in (Filter(), Filter(limit=selection.limit)):
        output.write(format_explanation(found, full=full))
        _show_left_out(found.context, selection.limit)
        return
    output.write(found.context.report())
    output.write()
    if decisions := selection.of(found.context):
        output.show_table(Table(_COLUMNS, [_row(decision) for decision in decisions]))
    else:
        output.write("no candidates match")


def _show_left_out(context: Context, limit: int | None) -> None:
    """Show what the model did not see, nearest to the cut first."""
    packages = {(package.id, package.kind): package for package in context.candidates}
    every = list(excluded_decisions(context))
    if not every:
        output.write("\nNothing was left out.")
        return
    output.write(f"\nLEFT OUT: {plural(len(every), 'candidate')}, nearest to the cut first")
    rows = []
    for decision in every[:limit]:
        package = packages.get((decision.id, decision.kind))
        text = output.preview(plain_text(package.content)) if package else ""
        score = None if decision.score is None else decision.score.total
        below = f"{decision.rank - decision.cut:+,}" if decision.rank > decision.cut else ""
        rows.append(
            [
                decision.reason,
                below,
                decision.id,
                decision.kind,
                f"{decision.tokens:,}",
                output.format_number(score),
                text,
            ]
        )
    output.show_table(Table(_LEFT_OUT_COLUMNS, rows))


def _row(decision: Decision) -> list[str]:
    score = decision.score
    rank = f"{decision.rank}/{decision.cut}" if decision.rank else ""
    cells = (decision.outcome, decision.reason, decision.id, decision.kind, decision.pool, rank)
    parts = [_format_part(score, name) for name in ("total", *SCORE_PARTS)] if score else [""] * (1 + len(SCORE_PARTS))
    return [*cells, f"{decision.tokens:,}", *parts]


def _format_part(score: Score, name: str) -> str:
    value = getattr(score, name)
    return format_relevance(value) if name == "relevance" else format_score(value)


def _data(found: LocatedContext, decisions: Sequence[Decision]) -> dict[str, object]:
    context = found.context
    lines = [{**msgspec.to_builtins(each), "line": describe_decision(context, each)} for each in decisions]
    data = summarize(context) | {"candidates": lines}
    return data | _stored_data(found) if found.stored else data


def _stored_data(found: LocatedContext) -> dict[str, object]:
    return {
        "persona": found.persona,
        "room": found.room,
        "room_name": found.room_name,
        "at": found.at,
        "message": found.message,
        "others": found.others,
        "parts": sections(found.context),
        "answers": [{**msgspec.to_builtins(each), "cost": _dollars(found.context, each)} for each in found.answers],
    }


def _dollars(context: Context, answer: Response) -> float | None:
    try:
        cost = answer_cost(context, answer)
    except MissingExtra:
        return None
    return None if cost is None else float(cost)
