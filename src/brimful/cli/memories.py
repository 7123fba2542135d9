"""`brimful memory`: add, search and remove memories."""

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import msgspec
import typer

from brimful.cli import output
from brimful.cli.files import read_argument, read_text
from brimful.cli.options import (
    DEFAULT_EMBEDDER,
    At,
    DollarsPerDay,
    EmbedderSpec,
    Erase,
    Json,
    Limit,
    MinRelevance,
    PersonaFilter,
    RoomFilter,
    StoreOptions,
    SummaryProvider,
    TokensPerDay,
    UntrustedText,
)
from brimful.cli.output import Failure, Table, columns
from brimful.cli.records import RecordKind, add_record_commands, require_room, show_record
from brimful.cli.store import wait_for_index, with_engine
from brimful.core.decision import format_relevance
from brimful.errors import UnknownRecord
from brimful.records import Memory, MemoryType
from brimful.records.memory import MemoryFilters, MemoryState
from brimful.records.own_calls import SpendingLimit

if TYPE_CHECKING:
    from brimful.engine import Engine
    from brimful.engine.janitor import AuditReport
    from brimful.engine.learning import LearningReport
    from brimful.records.runs import JanitorRun
    from brimful.retrieval.search import Hit, SearchResult
    from brimful.stores import Store


EXAMPLES: Final = """\
Examples:
  brimful memory add "Ada is allergic to hazelnut." --user ada --pin
  brimful memory search "Which nuts may she eat?" --user ada
  brimful memory edit mem-17 --cluster allergies
  brimful memory remove mem-17"""
ADD_EXAMPLES: Final = """\
Examples:
  brimful memory add "Ada is allergic to hazelnut." --user ada --importance 0.9
  brimful memory add "Run npm start before testing." --type procedural --pin
  cat notes.txt | brimful memory add - --persona nova --source notes.txt"""
EDIT_EXAMPLES: Final = """\
Examples:
  brimful memory edit mem-17 --text "Ada is allergic to all nuts."
  brimful memory edit mem-17 --cluster allergies --source-message msg-4
  brimful memory edit mem-17 --cluster \"\""""
LEARN_EXAMPLES: Final = """\
Examples:
  brimful memory learn conversation.json --user ada --model gpt-4o-mini
  brimful memory learn --room support --user ada --model llama3.2 --provider ollama
  echo '[{"role": "user", "content": "I love tea."}]' | brimful memory learn - --user ada -m gpt-4o-mini"""
CONFIRM_EXAMPLES: Final = """\
Examples:
  brimful memory list --state proposed
  brimful memory confirm mem-17 mem-18
  brimful memory confirm --all --user ada"""
REJECT_EXAMPLES: Final = """\
Examples:
  brimful memory reject mem-17
  brimful memory reject --all"""
AUDIT_EXAMPLES: Final = """\
Examples:
  brimful memory audit
  brimful memory audit --user ada --unused-for 90d
  brimful memory audit --apply
  brimful memory audit --json | jq '.findings[] | select(.kind == "junk") | .id'"""
SEARCH_EXAMPLES: Final = """\
Examples:
  brimful memory search "Which nuts may she eat?"
  brimful memory search "nuts" --user ada --persona nova --limit 5
  brimful memory search "nuts" --embedder none --json | jq '.hits[].relevance'"""

_HIT_COLUMNS: Final = columns(
    *("relevance", "parts", "id", "type", "text"), right=("relevance",), spare=("type", "parts")
)

_SUMMARY_HELP: Final = "It summarizes the other memories of its cluster, and can replace them."

Id = Annotated[str, typer.Argument(metavar="ID", help="The memory's id.")]
Ids = Annotated[list[str] | None, typer.Argument(metavar="[ID]...", help="The ids of proposed memories.")]
AllProposed = Annotated[bool, typer.Option("--all", help="All proposed memories.")]
ProposedUser = Annotated[str | None, typer.Option("--user", metavar="ID", help="With --all: this user's only.")]
Type = Annotated[MemoryType | None, typer.Option("--type", help="Only memories of this type.")]
Prefix = Annotated[str, typer.Option("--prefix", metavar="TEXT", help="Only ids that start with this.")]
UserPrefix = Annotated[
    str, typer.Option("--user-prefix", metavar="TEXT", help="Only of users whose ids start with this.")
]
Metadata = Annotated[str, typer.Option("--metadata", metavar="JSON", help="Only with these values in the metadata.")]
SourceMessage = Annotated[
    str | None, typer.Option("--source-message", metavar="ID", help="The message it was taken from.")
]
Cluster = Annotated[
    str | None, typer.Option("--cluster", metavar="NAME", help="A group of memories that one summary can replace.")
]
PersonaScope = Annotated[
    str | None, typer.Option("--persona", metavar="ID", help="Memories of this persona, and shared ones.")
]
UserScope = Annotated[
    str | None, typer.Option("--user", metavar="ID", help="Memories about this user, and shared ones.")
]


def register(app: typer.Typer) -> None:
    group = typer.Typer(no_args_is_help=True, epilog=EXAMPLES, help="Manage and search memories.")
    group.command("add", epilog=ADD_EXAMPLES)(add)
    group.command("edit", epilog=EDIT_EXAMPLES)(edit)
    group.command("search", epilog=SEARCH_EXAMPLES)(search)
    group.command("learn", epilog=LEARN_EXAMPLES)(learn)
    group.command("unlearn", epilog="Examples:\n  brimful memory unlearn\n  brimful memory unlearn 17")(unlearn)
    group.command("confirm", epilog=CONFIRM_EXAMPLES)(confirm)
    group.command("reject", epilog=REJECT_EXAMPLES)(reject)
    group.command("audit", epilog=AUDIT_EXAMPLES)(audit)
    group.command("pin", epilog="Examples:\n  brimful memory pin mem-17")(pin)
    group.command("unpin", epilog="Examples:\n  brimful memory unpin mem-17")(unpin)
    add_record_commands(group, MEMORIES)
    app.add_typer(group, name="memory")


def add(  # noqa: PLR0913 - the options of a command
    *,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The memory. `-` reads standard input.")],
    type: Annotated[MemoryType, typer.Option("--type", help="The type of memory.")] = "semantic",
    persona: PersonaFilter = None,
    user: Annotated[str | None, typer.Option("--user", metavar="ID", help="Only for this user.")] = None,
    room: RoomFilter = None,
    importance: Annotated[
        float, typer.Option("--importance", metavar="0…1", min=0.0, max=1.0, help="How important it is.")
    ] = 0.5,
    pinned: Annotated[bool, typer.Option("--pin", help="Include it in every context it applies to.")] = False,
    source: Annotated[str, typer.Option("--source", metavar="TEXT", help="Where it comes from.")] = "",
    source_message: SourceMessage = None,
    cluster: Cluster = None,
    summary: Annotated[bool, typer.Option("--summary", help=_SUMMARY_HELP)] = False,
    id: Annotated[
        str | None, typer.Option("--id", metavar="ID", help="Memory id. An existing memory with this id is replaced.")
    ] = None,
    at: At = None,
    target: StoreOptions,
    as_json: Json = False,
) -> None:
    """Add a memory and print its id."""
    content = read_argument(text)

    async def remember(engine: "Engine") -> Memory:
        return await engine.remember(
            content,
            type=type,
            persona=persona,
            user=user,
            room=room,
            importance=importance,
            source=source,
            source_message=source_message,
            cluster=cluster,
            summary=summary,
            pinned=pinned,
            id=id,
            at=at,
        )

    memory = with_engine(remember, target=target, new=True)
    output.show(memory, output.one_line(memory.id), as_json=as_json)


def edit(  # noqa: PLR0913 - the options of a command
    *,
    id: Id,
    text: Annotated[
        str | None, typer.Option("--text", metavar="TEXT", help="The memory. `-` reads standard input.")
    ] = None,
    type: Annotated[MemoryType | None, typer.Option("--type", help="The type of memory.")] = None,
    importance: Annotated[
        float | None, typer.Option("--importance", metavar="0…1", min=0.0, max=1.0, help="How important it is.")
    ] = None,
    source: Annotated[str | None, typer.Option("--source", metavar="TEXT", help="Where it comes from.")] = None,
    source_message: SourceMessage = None,
    cluster: Cluster = None,
    summary: Annotated[bool | None, typer.Option("--summary/--no-summary", help=_SUMMARY_HELP)] = None,
    target: StoreOptions,
    as_json: Json = False,
) -> None:
    """Change a memory. Fields that you do not set stay as they are.

    An empty value removes the source, the source message or the cluster.
    """
    changes: dict[str, Any] = {
        "content": None if text is None else read_argument(text),
        "type": type,
        "importance": importance,
        "source": source,
        "summary": summary,
    }
    changes = {field: value for field, value in changes.items() if value is not None}
    links = {"source_message": source_message, "cluster": cluster}
    changes |= {field: value or None for field, value in links.items() if value is not None}

    async def change(engine: "Engine") -> MemoryStatus:
        await engine.update_memory(id, changes.pop("content", None), **changes)
        return await get_memory(engine.store, id)

    show_record(MEMORIES, with_engine(change, target=target), as_json=as_json)


def learn(  # noqa: PLR0913 - the options of a command
    *,
    file: Annotated[
        str | None, typer.Argument(metavar="[FILE]", help="A JSON list of messages. `-` reads standard input.")
    ] = None,
    room: Annotated[
        str | None, typer.Option("--room", metavar="ID", help="In place of FILE, learn from this room.")
    ] = None,
    user: Annotated[str | None, typer.Option("--user", metavar="ID", help="Whose memories these are.")] = None,
    persona: PersonaFilter = None,
    model: Annotated[str, typer.Option("--model", "-m", metavar="NAME", help="The model that extracts the facts.")],
    provider: SummaryProvider = "",
    tokens_per_day: TokensPerDay = None,
    dollars_per_day: DollarsPerDay = None,
    untrusted: UntrustedText = "propose",
    target: StoreOptions,
    as_json: Json = False,
) -> None:
    """Let a model learn memories from a conversation, and supersede what has changed.

    Messages that were read before are skipped.
    """
    messages = None if file is None else _read_messages(file)

    async def run(engine: "Engine") -> "LearningReport":
        return await engine.learn(
            messages, from_room=room, user=user, persona=persona, model=model, provider=provider or None
        )

    limit = SpendingLimit(tokens_per_day=tokens_per_day, dollars_per_day=dollars_per_day)
    report = with_engine(run, target=target, own_calls=limit, new=file is not None, untrusted=untrusted)
    for note in report.notes:
        output.warn(note)
    if as_json:
        output.show_json(report)
        return
    for each in report.changes:
        sign = "?" if each.is_proposed else "-" if each.outdated else "~" if each.previous else "+"
        output.write(f"{sign} {output.one_line(each.memory.content)}")
    if report.run is None:
        output.write("nothing new")
    else:
        output.write(f"run {report.run} is done; to undo it, run `brimful memory unlearn {report.run}`")
    if report.proposed:
        output.write("? is not used until you confirm it: `brimful memory list --state proposed`")


def unlearn(
    *,
    run: Annotated[int | None, typer.Argument(metavar="[RUN]", help="The run to undo. Default: the last one.")] = None,
    target: StoreOptions,
    as_json: Json = False,
) -> None:
    """Undo what was learned in a run, and restore what it superseded."""

    async def undo(engine: "Engine") -> "JanitorRun | None":
        return await engine.undo_learning(run)

    undone = with_engine(undo, target=target)
    if undone is None:
        raise Failure("there is no such run to undo")
    output.show(undone, f"run {undone.number} is undone", as_json=as_json)


def confirm(
    *,
    ids: Ids = None,
    all_proposed: AllProposed = False,
    user: ProposedUser = None,
    target: StoreOptions,
    as_json: Json = False,
) -> None:
    """Confirm proposed memories, so that contexts may have them."""
    _review(ids, "confirm", all_proposed=all_proposed, user=user, target=target, as_json=as_json)


def reject(
    *,
    ids: Ids = None,
    all_proposed: AllProposed = False,
    user: ProposedUser = None,
    target: StoreOptions,
    as_json: Json = False,
) -> None:
    """Reject proposed memories. The same text is not proposed again."""
    _review(ids, "reject", all_proposed=all_proposed, user=user, target=target, as_json=as_json)


def _review(
    ids: list[str] | None,
    verdict: Literal["confirm", "reject"],
    *,
    all_proposed: bool,
    user: str | None,
    target: StoreOptions,
    as_json: bool,
) -> None:
    if bool(ids) == all_proposed:
        raise typer.BadParameter("pass either ids or --all", param_hint="'ID'")
    if user is not None and not all_proposed:
        raise typer.BadParameter("can only be used with --all", param_hint="'--user'")

    async def run(engine: "Engine") -> "JanitorRun | None":
        chosen = ids or await _find_proposed(engine, user)
        if not chosen:
            return None
        return await (engine.confirm_memories(chosen) if verdict == "confirm" else engine.reject_memories(chosen))

    done = with_engine(run, target=target)
    if done is None:
        output.show(None, "nothing is proposed", as_json=as_json)
        return
    ((what, count),) = done.facts.items()
    text = f"{what} {count:,}; run {done.number} is done; to undo it, run `brimful janitor undo`"
    output.show(done, text, as_json=as_json)


async def _find_proposed(engine: "Engine", user: str | None) -> list[str]:
    ids: list[str] = []
    cursor: str | None = ""
    while cursor is not None:
        page = await engine.list_memories(state="proposed", user=user, cursor=cursor)
        ids += [memory.id for memory in page.memories]
        cursor = page.next
    return ids


def audit(
    *,
    user: Annotated[str | None, typer.Option("--user", metavar="ID", help="Only memories of this user.")] = None,
    apply: Annotated[bool, typer.Option("--apply", help="Archive duplicates and junk, in one run.")] = False,
    unused_for: Annotated[
        str, typer.Option("--unused-for", metavar="TIME", help="The age of memories that were never used.")
    ] = "180d",
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=0, help="Most findings to list.")] = 20,
    target: StoreOptions,
    as_json: Json = False,
) -> None:
    """Find memories that are not worth having.

    Duplicates, near-duplicates, junk such as lines of logs and templates,
    facts that a newer memory contradicts, and memories that were never used.
    With --apply, duplicates and junk are archived: `brimful janitor undo`
    brings them back. The others are only listed.
    """

    async def run(engine: "Engine") -> "AuditReport":
        return await engine.audit_memories(user, apply=apply, unused_for=unused_for)

    report = with_engine(run, target=target)
    if as_json:
        output.show_json(report)
        return
    kinds = Counter(each.kind for each in report.findings)
    output.show_fields([("memories", f"{report.memories:,}"), *((kind, f"{kinds[kind]:,}") for kind in sorted(kinds))])
    if report.findings[:limit]:
        output.write()
        rows = [[each.kind, each.id, each.other, each.reason] for each in report.findings[:limit]]
        output.show_table(Table(columns("kind", "id", "other", "reason"), rows))
    if report.run is not None:
        output.write(f"run {report.run} is done; to undo it, run `brimful janitor undo`")
    elif not apply and any(each.kind in ("duplicate", "near-duplicate", "junk") for each in report.findings):
        output.write("nothing was changed; --apply archives duplicates and junk")


def _read_messages(path: str) -> list[Any]:
    try:
        return msgspec.json.decode(read_text(path), type=list[Any])
    except msgspec.DecodeError as error:
        raise Failure(f"{output.one_line(path)}: not a JSON list of messages: {error}") from None


class MemoryStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A memory, and whether the message it was taken from is gone."""

    memory: Memory
    source_removed: bool

    def data(self) -> dict[str, Any]:
        return {**msgspec.to_builtins(self.memory), "source_removed": self.source_removed}


async def find_memories(  # noqa: PLR0913 - the options of a command
    store: "Store",
    *,
    persona: PersonaScope = None,
    user: UserScope = None,
    type: Type = None,
    pinned: Annotated[
        bool | None,
        typer.Option("--pinned/--not-pinned", help="Only pinned memories, or only those that are not pinned."),
    ] = None,
    prefix: Prefix = "",
    user_prefix: UserPrefix = "",
    metadata: Metadata = "",
    archived: Annotated[
        bool, typer.Option("--archived", help="List superseded and archived memories instead.")
    ] = False,
    state: Annotated[
        MemoryState, typer.Option("--state", help="List proposed or rejected memories instead.")
    ] = "active",
    after: Annotated[
        str | None, typer.Option("--after", metavar="ID", help="Continue the list after this memory.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, help="The newest N memories.")] = 100,
) -> list[MemoryStatus]:
    """List memories, newest first."""
    from brimful.retrieval.search import memory_scopes  # noqa: PLC0415 - only this command needs it

    scopes = None if persona is None and user is None else memory_scopes(persona, user, None)
    filters: MemoryFilters = {
        "scopes": scopes,
        "types": (type,) if type else (),
        "pinned": pinned,
        "prefix": prefix,
        "user_prefix": user_prefix,
        "metadata": _read_metadata(metadata),
        "archived": archived,
        "state": state,
    }
    last = None if after is None else await _find_memory(store, after)
    before, start = (None, "") if last is None else (last.at, last.id)
    found = await store.memories(before=before, after=start, limit=limit, **filters)
    return await _memory_status(store, found)


def _read_metadata(text: str) -> dict[str, Any] | None:
    try:
        return msgspec.json.decode(text, type=dict[str, Any]) if text else None
    except msgspec.DecodeError as error:
        raise typer.BadParameter(f"must be a JSON object: {error}", param_hint="'--metadata'") from None


async def get_memory(store: "Store", id: Id) -> MemoryStatus:
    """Show a memory and how often contexts included it."""
    return (await _memory_status(store, [await _find_memory(store, id)]))[0]


async def _find_memory(store: "Store", id: str) -> Memory:
    for memory in await store.memories(ids=[id], state=None, limit=1):
        return memory
    raise UnknownRecord("memory", id)


async def _memory_status(store: "Store", memories: Sequence[Memory]) -> list[MemoryStatus]:
    from brimful.engine.writer import find_removed_sources  # noqa: PLC0415 - only these commands need it

    removed = await find_removed_sources(store, memories)
    return [MemoryStatus(memory=each, source_removed=each.source_message in removed) for each in memories]


async def remove_memory(engine: "Engine", id: Id, *, erase: Erase = False) -> None:
    """Remove a memory."""
    await engine.forget(id, erase=erase)


def pin(*, id: Id, target: StoreOptions, as_json: Json = False) -> None:
    """Pin a memory, so that every context it applies to includes it."""
    _set_pinned(id, pinned=True, target=target, as_json=as_json)


def unpin(*, id: Id, target: StoreOptions, as_json: Json = False) -> None:
    """Unpin a memory, so that it is included only when it is relevant."""
    _set_pinned(id, pinned=False, target=target, as_json=as_json)


def _set_pinned(id: str, *, pinned: bool, target: StoreOptions, as_json: bool) -> None:
    async def change(engine: "Engine") -> None:
        await engine.pin(id, pinned=pinned)

    with_engine(change, target=target)
    text = f"{'pinned' if pinned else 'unpinned'} {output.one_line(id)}"
    output.show({"id": id, "pinned": pinned}, text, as_json=as_json)


def search(  # noqa: PLR0913 - the options of a command
    *,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What to search for.")],
    persona: PersonaScope = None,
    user: UserScope = None,
    room: Annotated[
        str | None, typer.Option("--room", metavar="ID", help="Also search the memories of this room.")
    ] = None,
    type: Type = None,
    prefix: Prefix = "",
    user_prefix: UserPrefix = "",
    metadata: Metadata = "",
    min_relevance: MinRelevance = None,
    limit: Limit = 10,
    embedder: EmbedderSpec = DEFAULT_EMBEDDER,
    target: StoreOptions,
    as_json: Json = False,
) -> None:
    """Search memories by words and by meaning, the way a context does.

    Relevance is the probability that a memory helps to answer. `parts` are
    the log-odds in favor of it: 0.7 more of any part doubles the odds.
    """
    filter = _read_metadata(metadata)

    async def find(engine: "Engine") -> "SearchResult":
        await require_room(engine.store, room)
        await wait_for_index(engine)
        return await engine.search(
            text,
            room=room,
            persona=persona,
            user=user,
            types=(type,) if type else (),
            prefix=prefix,
            user_prefix=user_prefix,
            metadata=filter,
            min_relevance=min_relevance,
            limit=limit,
        )

    result = with_engine(find, target=target, embedder=embedder)
    found = [hit for hit in result.hits if isinstance(hit.record, Memory)][:limit]
    for notice in result.degraded:
        output.warn(notice.text)
    if as_json:
        output.show_json({"hits": found, "degraded": result.degraded})
    elif found:
        output.show_table(Table(_HIT_COLUMNS, _hit_rows(found)))
    else:
        output.write("no memories found")


def _hit_rows(hits: "Sequence[Hit]") -> list[list[str]]:
    return [
        [format_relevance(hit.relevance), hit.parts.text, record.id, record.type, _preview(record)]
        for hit in hits
        if isinstance(record := hit.record, Memory)
    ]


def _preview(memory: Memory) -> str:
    return output.preview(memory.content)


def _row(status: MemoryStatus) -> list[str]:
    memory = status.memory
    owners = [memory.persona or "", memory.user or "", memory.room or ""]
    pinned = "pinned" if memory.pinned else ""
    return [memory.id, memory.type, *owners, output.format_time(memory.at), pinned, _preview(memory)]


def _fields(status: MemoryStatus) -> list[tuple[str, str]]:
    memory = status.memory
    removed = " (removed)" if status.source_removed else ""
    return [
        ("id", memory.id),
        ("type", memory.type),
        ("persona", memory.persona or ""),
        ("user", memory.user or ""),
        ("room", memory.room or ""),
        ("importance", output.format_number(memory.importance)),
        ("pinned", "yes" if memory.pinned else "no"),
        ("state", "" if memory.state == "active" else memory.state),
        ("source", memory.source),
        ("source message", f"{memory.source_message or ''}{removed}"),
        ("cluster", memory.cluster or ""),
        ("summary", "yes" if memory.summary else ""),
        ("at", output.format_time(memory.at)),
        ("ended", output.format_time(memory.ended)),
        ("archived", "yes" if memory.archived else ""),
        ("accesses", f"{memory.accesses:,}"),
        ("accessed", output.format_time(memory.accessed)),
        ("metadata", output.format_json(memory.metadata)),
    ]


MEMORIES: Final = RecordKind(
    name="memory",
    plural="memories",
    columns=columns(
        *("id", "type", "persona", "user", "room", "at", "pinned", "text"),
        spare=("type", "user", "pinned", "persona", "at", "room"),
    ),
    row=_row,
    fields=_fields,
    text=lambda status: [status.memory.content],
    data=MemoryStatus.data,
    find=find_memories,
    get=get_memory,
    remove=remove_memory,
    record=Memory,
    examples={
        "list": """\
  brimful memory list
  brimful memory list --user ada --pinned
  brimful memory list --type procedural --json | jq -r '.[].content'""",
        "show": """\
  brimful memory show mem-17
  brimful memory show mem-17 --json | jq .accesses""",
        "remove": """\
  brimful memory remove mem-17
  brimful memory remove mem-17 --erase""",
    },
)
