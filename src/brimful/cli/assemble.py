"""`brimful assemble`: build the next context of a room, or preview it."""

import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import takewhile
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
import typer

from brimful.cli import output
from brimful.cli.files import read_argument, write_context
from brimful.cli.fill import show_data
from brimful.cli.options import (
    DEFAULT_EMBEDDER,
    DEFAULT_MODEL,
    Completion,
    EmbedderSpec,
    Json,
    MaxPromptTokens,
    MinRelevance,
    ModelOption,
    Now,
    Out,
    PersonaOption,
    PolicyOption,
    Price,
    RequestOnly,
    RoomOption,
    Settings,
    StoreOptions,
    UserOption,
    Window,
    read_overrides,
    resolve_model,
)
from brimful.cli.output import Table, columns
from brimful.cli.records import require_room
from brimful.cli.store import wait_for_index, with_engine
from brimful.core.content import ContentPackage
from brimful.core.context import COMPONENTS, Component, Context
from brimful.core.decision import RECENT, format_relevance
from brimful.core.notice import Notice, find_nearly_full
from brimful.records import MEMORY_TYPES, Persona
from brimful.records.contexts import Build
from brimful.retrieval.breaker import State
from brimful.retrieval.search import Parts
from brimful.views.explain import (
    candidates_line,
    component_title,
    counting_lines,
    draw_frame,
    format_items,
    format_score,
    plural,
    reserve_rows,
    status_lines,
    summarize,
    window_lines,
)
from brimful.views.sections import Entry, describe_media_entry, media_name, sections

if TYPE_CHECKING:
    from brimful.engine import Engine


ASSEMBLE_EXAMPLES: Final = """\
Examples:
  brimful assemble --room support --message "Where is my parcel?" --model gpt-4o
  brimful assemble --room support --persona nova --user ada --out context.json
  echo "Where is it?" | brimful assemble --room support --message - -m gpt-4 --request
  brimful assemble --room support -m gpt-4o --set pools.recent.max_items=20
  brimful assemble --room support --persona nova --dry-run"""

MAX_HITS: Final = 20  # retrieved items in the report, the most relevant ones
_COLUMNS: Final = columns(
    *("outcome", "reason", "relevance", "parts", "query", "id", "text"),
    right=("relevance",),
    spare=("reason", "query", "parts"),
)


def register(app: typer.Typer) -> None:
    app.command("assemble", epilog=ASSEMBLE_EXAMPLES)(assemble)
    app.command("inspect", epilog=ASSEMBLE_EXAMPLES, hidden=True)(inspect)


def _read_memory_type(text: str) -> str:
    if text not in MEMORY_TYPES:
        raise typer.BadParameter(f"{text!r} is not one of {', '.join(MEMORY_TYPES)}")
    return text


MemoryTypes = Annotated[
    list[str] | None,
    typer.Option(
        "--memory-type",
        metavar="|".join(MEMORY_TYPES),
        parser=_read_memory_type,
        help="Search only memories of this type. Repeatable. Default: all.",
    ),
]
MaxMemories = Annotated[
    int | None, typer.Option("--max-memories", metavar="N", min=0, help="Retrieve at most this many memories.")
]
OtherRooms = Annotated[
    int | None,
    typer.Option("--other-rooms", metavar="N", min=0, help="Search this many other rooms of the user. Default: none."),
]
WithMemories = Annotated[bool, typer.Option("--memories/--no-memories", help="Whether to include memories.")]
WithLore = Annotated[bool, typer.Option("--lore/--no-lore", help="Whether to include lorebook entries.")]
WithMedia = Annotated[bool, typer.Option("--media/--no-media", help="Whether to include images and other media.")]


class RetrievalOptions(StoreOptions, frozen=True, kw_only=True):
    """What to look up for a context."""

    memory_types: MemoryTypes = None
    min_relevance: MinRelevance = None
    max_memories: MaxMemories = None
    other_rooms: OtherRooms = None
    memories: WithMemories = True
    lore: WithLore = True
    media: WithMedia = True
    focus: Annotated[
        str,
        typer.Option("--focus", metavar="TEXT", help="One more thing to search for. Default: the room's or persona's."),
    ] = ""

    def retrieval(self) -> dict[str, Any]:
        """Return the `retrieval` argument of `Engine.assemble`."""
        return {
            "types": self.memory_types or None,
            "min_relevance": self.min_relevance,
            "max_memories": self.max_memories,
            "other_rooms": self.other_rooms,
            "memories": self.memories,
            "lore": self.lore,
            "media": self.media,
        }


class BuildOptions(RetrievalOptions, frozen=True, kw_only=True):
    """What to build, and with which settings."""

    room: RoomOption
    persona: PersonaOption = None
    message: Annotated[
        str | None,
        typer.Option(
            "--message",
            metavar="TEXT",
            help="The message to answer. `-` reads standard input. Default: the last message of the room.",
        ),
    ] = None
    user: UserOption = None
    model: ModelOption = None
    policy: PolicyOption = None
    window: Window = None
    completion: Completion = None
    max_prompt_tokens: MaxPromptTokens = None
    price: Price = None
    settings: Settings = None
    now: Now = None
    embedder: EmbedderSpec = DEFAULT_EMBEDDER
    out: Out = None
    request: RequestOnly = False
    as_json: Json = False

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of `Engine.assemble`. This reads standard input if the message is `-`."""
        return {
            "room": self.room,
            "persona": self.persona,
            "message": None if self.message is None else read_argument(self.message),
            "user": self.user,
            "model": None if self.model is None else resolve_model(self.model),
            "policy": self.policy,
            "window": self.window,
            "completion": self.completion,
            "max_prompt_tokens": self.max_prompt_tokens,
            "overrides": read_overrides(self.settings, self.price),
            "retrieval": self.retrieval(),
            "focus": self.focus,
            "now": self.now,
        }


def assemble(
    options: BuildOptions,
    *,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Preview the context: save nothing, and show its memories and the state of retrieval."
        ),
    ] = False,
) -> None:
    """Build the context for the next answer in a room.

    Recent messages come from the room; older messages, memories and lorebook
    entries are retrieved if they are relevant. Without --message, the last
    message of the room is the one to answer. The saved context can be
    explained, compared and replayed. No model is called.
    """
    if dry_run:
        inspect(options)
        return
    arguments = options.arguments()

    async def build(engine: "Engine") -> Context:
        await require_room(engine.store, options.room)
        await wait_for_index(engine)
        return await engine.assemble(**arguments)

    context = with_engine(build, target=options, embedder=options.embedder)
    write_context(options.out, context)
    if not show_data(context, request=options.request, as_json=options.as_json):
        output.write(context.report())
        show_hits(context)


def show_hits(context: Context) -> None:
    """Show what was retrieved and what became of it, most relevant first."""
    found = [package for package in context.inputs.packages if "search" in package.metadata]
    if found:
        found.sort(key=lambda package: (-(package.relevance or 0.0), package.id))
        output.write()
        output.show_table(Table(_COLUMNS, [_row(context, package) for package in found[:MAX_HITS]]))
    if len(found) > MAX_HITS:
        output.write(f"… and {len(found) - MAX_HITS:,} more; `brimful explain` shows all of them")


def _row(context: Context, package: ContentPackage) -> list[str]:
    decision = context.decision(package.id)
    search = package.metadata["search"]
    return [
        decision.outcome,
        decision.reason,
        format_relevance(package.relevance or 0.0),
        msgspec.convert(search["parts"], Parts).text,
        search["query"],
        package.id,
        output.preview(package.text),
    ]


MAX_MEMORIES: Final = 12  # memories listed one by one; `brimful explain` shows all
MAX_BUILDS: Final = 10  # saved contexts that are searched for failures of vector search
RULE: Final = "  " + "─" * 37


class Inspection(msgspec.Struct, frozen=True, kw_only=True):
    """A preview of a context, and the state of retrieval.

    `breaker` is the circuit breaker of this process, `last` the last saved build of the same persona and room.
    `failures` is the number of the latest saved builds in a row, by any process, without vector search.
    """

    context: Context
    persona: str
    room: str
    seconds: float
    breaker: State
    embedder: str
    last: Build | None
    failures: int = 0
    with_memories: bool = True

    @property
    def notices(self) -> tuple[Notice, ...]:
        """What to know about this context besides its warnings: whether it is nearly full, or has no memories."""
        full = find_nearly_full(self.context.tokens, self.context.budget.available)
        return (*([full] if full else []), *self._find_no_memories())

    def _find_no_memories(self) -> Iterator[Notice]:
        context = self.context
        takes_memories = context.inputs.policy.pool_for_kind("memory-semantic") is not None
        if not self.with_memories or not takes_memories or context.component("memories").items:
            return
        out = sum(decision.kind.startswith("memory-") for decision in context.decisions)
        why = f"{plural(out, 'candidate')} left out" if out else "none was found"
        if is_without_vectors(context.inputs.degraded):
            why += ", and vector search failed"
        yield Notice(kind="no-memories", text=f"no memories are in this context: {why}", facts={"left_out": out})

    def text(self) -> str:
        title = f"{self.persona} in {self.room}" if self.persona else self.room
        return draw_frame(f"BRIMFUL INSPECTION: {output.one_line(title)}", list(self._lines()))

    def _lines(self) -> Iterator[str]:
        context = self.context
        yield f"Model: {output.one_line(context.budget.model)}"
        yield from window_lines(context)
        yield f"Policy: {output.one_line(context.budget.policy)}"
        yield from counting_lines(context)
        yield ""
        yield "COMPONENTS:"
        entries = [entry for section in sections(context) for entry in section.entries]
        for component in context.components:
            yield component_line(context, component)
            yield from _item_lines(entries, component.name)
        yield from total_lines(context)
        yield ""
        yield candidates_line(context)
        yield from self._retrieval()
        yield ""
        yield from map(output.one_line, status_lines(context, self.notices))

    def _retrieval(self) -> Iterator[str]:
        found = [package for package in self.context.inputs.packages if "search" in package.metadata]
        included = sum(self.context.decision(package.id).included for package in found)
        methods = f", by {' and '.join(self.methods)}" if found else ""
        yield f"RETRIEVAL: {len(found):,} found, {included:,} included{methods}"
        if self.context.inputs.focus:
            yield f"  Focus: {output.one_line(self.context.inputs.focus)}"
        yield f"  Breaker: {self.breaker} (in this process)"
        yield from self._failure_lines()
        yield from (f"  Now: {output.one_line(note.text)}" for note in self.context.inputs.degraded)
        if self.last is not None:
            notes = "; ".join(output.one_line(each.text) for each in self.last.degraded) or "no problems"
            yield f"  Last build: {output.format_time(self.last.at)}, {notes}"
        yield f"  Built in {self.seconds:.2f} s"

    @property
    def methods(self) -> tuple[str, ...]:
        """How the search results of this build were found."""
        found = [package.metadata["search"] for package in self.context.inputs.packages if "search" in package.metadata]
        used = {
            "words": any(search["parts"].get("words") for search in found),
            f"meaning ({self.embedder})": any(search["parts"].get("meaning") for search in found),
            "recency": any(search["query"] == RECENT for search in found),
        }
        return tuple(method for method, is_used in used.items() if is_used)

    def _failure_lines(self) -> Iterator[str]:
        earlier = f"in the last {plural(self.failures, 'saved context')}" if self.failures else ""
        if is_without_vectors(self.context.inputs.degraded):
            yield f"  Fallback mode: no vector search in this build{f' and {earlier}' if earlier else ''}"
        elif earlier:
            yield f"  Vector search failed {earlier}"


def is_without_vectors(degraded: Iterable[Notice]) -> bool:
    """Return whether vector search failed or was off in a build."""
    return any(each.kind in ("vector-search-failed", "vector-search-off") for each in degraded)


def component_line(context: Context, component: Component) -> str:
    """Return the line of a component: `Memories:  3,890 tokens (5 items)`."""
    kinds = {each.kind for each in context.decisions if each.included and COMPONENTS.get(each.kind) == component.name}
    items = format_items(component.name, component.items, kinds)
    return f"  {component_title(component.name) + ':':<17}{component.tokens:>9,} tokens{f' ({items})' if items else ''}"


def total_lines(context: Context) -> Iterator[str]:
    """Yield the tokens used, reserved and remaining."""
    yield RULE
    yield f"  {'TOTAL USED:':<17}{context.tokens:>9,} tokens ({context.percent:.1f}%)"
    yield ""
    for title, tokens, remark in reserve_rows(context):
        yield f"  {title:<17}{tokens:>9,} tokens {remark}".rstrip()
    yield RULE
    yield f"  {'REMAINING:':<17}{context.remaining:>9,} tokens"


def format_entry_score(entry: Entry) -> str:
    """Return a candidate's score as text."""
    score = entry.decision.score
    return "none" if score is None else format_score(score.total)


def _item_lines(entries: Sequence[Entry], component: str) -> Iterator[str]:
    """Yield a line for each memory (type and score) and each media item (name)."""
    if component == "memories":
        yield from _memory_lines([entry for entry in entries if entry.decision.kind.startswith("memory-")])
    elif component == "media":
        media = (entry for entry in entries if entry.decision.kind.startswith("media-"))
        yield from (f"    - {output.one_line(describe_media_entry(entry))}" for entry in media)


def _memory_lines(entries: Sequence[Entry]) -> Iterator[str]:
    for entry in entries[:MAX_MEMORIES]:
        type = entry.decision.kind.removeprefix("memory-")
        excerpt = output.one_line(output.preview(entry.package.text))
        yield f'    - {type}: "{excerpt}" (score: {format_entry_score(entry)})'
    if len(entries) > MAX_MEMORIES:
        yield f"    [... {len(entries) - MAX_MEMORIES:,} more memories ...]"


def inspect(options: BuildOptions) -> None:
    """Preview the next context of a room: `brimful assemble --dry-run`."""
    arguments = options.arguments()

    async def build(engine: "Engine") -> Inspection:
        await require_room(engine.store, options.room)
        record = None if options.persona is None else await engine.store.get(Persona, options.persona)
        if options.model is None and (record is None or not record.model):
            arguments["model"] = DEFAULT_MODEL
        began = time.perf_counter()
        context = await engine.assemble(**arguments, save=False)
        seconds = time.perf_counter() - began
        last = await engine.store.builds(room=options.room, persona=options.persona, limit=1)
        builds = await engine.store.builds(limit=MAX_BUILDS)
        return Inspection(
            context=context,
            persona=record.called if record else options.persona or "",
            room=options.room,
            seconds=seconds,
            breaker=engine.breaker.state(time.time()),
            embedder=options.embedder,
            last=last[0] if last else None,
            failures=len(list(takewhile(lambda each: is_without_vectors(each.degraded), builds))),
            with_memories=options.memories,
        )

    inspection = with_engine(build, target=options, embedder=options.embedder, indexing=False)
    write_context(options.out, inspection.context)
    if options.request:
        show_data(inspection.context, request=True, as_json=False)
    elif options.as_json:
        output.show_json(_inspect_data(inspection))
    else:
        output.write(inspection.text())


def _inspect_data(inspection: Inspection) -> dict[str, object]:
    context = inspection.context
    found = [package for package in context.inputs.packages if "search" in package.metadata]
    return summarize(context) | {
        "persona": inspection.persona,
        "room": inspection.room,
        "completion": context.budget.completion,
        "memories": [
            {**msgspec.to_builtins(decision), "text": package.text}
            for package in context.inputs.packages
            if package.kind.startswith("memory-") and (decision := context.decision(package.id)).included
        ],
        "media": [
            {**msgspec.to_builtins(decision), "name": media_name(package)}
            for package in context.candidates
            if package.kind.startswith("media-") and (decision := context.decision(package.id)).included
        ],
        "candidates": context.offered,
        "found": len(found),
        "degraded": context.inputs.degraded,
        "notices": inspection.notices,
        "methods": inspection.methods,
        "breaker": inspection.breaker,
        "failures": inspection.failures,
        "last": inspection.last,
        "seconds": round(inspection.seconds, 4),
    }
