"""The tools: their arguments, their descriptions, and what they do with an engine.

Nothing here depends on the MCP SDK. A tool returns text. That of a reading tool has at most `budget` tokens.
"""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Final
from urllib.parse import quote

import msgspec
from msgspec import Meta

from brimful.assembly.assemble import count as count_tokens
from brimful.assembly.assemble import counter
from brimful.assembly.recall_tool import read_call
from brimful.core.context import ID_PREFIX, Context
from brimful.core.model import ModelInfo
from brimful.core.recall import is_erased, item_text
from brimful.core.validation import clean_text
from brimful.errors import ContentErased, InvalidValue, UnknownRecord
from brimful.mcp.budget import MIN_BUDGET, Block, TokenCount, fill, fit_text
from brimful.models import default_registry
from brimful.packagers.records import plain_text
from brimful.records import Memory, MemoryType, Message, Room, Snapshot
from brimful.records.contexts import Build
from brimful.retrieval.search import memory_scopes
from brimful.threads import run_in_thread
from brimful.views.explain import describe_decision, plural
from brimful.views.sections import excluded_decisions

if TYPE_CHECKING:
    from brimful.engine import Engine

DEFAULT_MODEL: Final = "gpt-4o"
"""The model whose tokenizer counts budgets."""
PIN: Final = "pin"
"""The tool that is offered only by name."""
SCHEME: Final = "brimful://"
"""Of the URIs of resources."""
_MAX_HITS: Final = 20  # memories, and as many messages
_MAX_ROOMS: Final = 20  # that are searched if no room is named: the ones with the newest messages
_PAGE: Final = 200  # records that are read for a page, of which the budget may hold fewer
_MAX_LEFT_OUT: Final = 50  # candidates in the explanation of a context
_TITLE_CHARS: Final = 80
_NOTHING: Final = "Nothing found."

Budget = Annotated[int, Meta(ge=MIN_BUDGET, description="Most tokens to return")]


class Recall(msgspec.Struct, forbid_unknown_fields=True):
    """Arguments of `recall`."""

    query: str = ""
    handle: Annotated[str, Meta(description='Return this, as named in [… recall "HANDLE"]')] = ""
    user: Annotated[str, Meta(description="Also search memories of this user")] = ""
    room: Annotated[str, Meta(description="Search only this room")] = ""
    budget: Budget = 2_000


class Memories(msgspec.Struct, forbid_unknown_fields=True):
    """Arguments of `memories`."""

    user: str = ""
    pinned: Annotated[bool, Meta(description="Only pinned ones")] = False
    before: Annotated[str, Meta(description="Continue after this id")] = ""
    budget: Budget = 2_000


class History(msgspec.Struct, forbid_unknown_fields=True):
    """Arguments of `history`."""

    room: str = ""
    before: Annotated[int, Meta(ge=0, description="Only messages before this number")] = 0
    budget: Budget = 2_000


class Search(msgspec.Struct, forbid_unknown_fields=True):
    """Arguments of `search`."""

    query: str
    budget: Budget = 2_000


class Fetch(msgspec.Struct, forbid_unknown_fields=True):
    """Arguments of `fetch`."""

    id: str
    budget: Budget = 8_000


class Explain(msgspec.Struct, forbid_unknown_fields=True):
    """Arguments of `explain`."""

    context: Annotated[str, Meta(description="Id of a context, or of an answered message or its answer")] = ""
    item: Annotated[str, Meta(description="Explain only this message or memory")] = ""
    budget: Budget = 2_000


class CountText(msgspec.Struct, forbid_unknown_fields=True):
    """Arguments of `count`."""

    text: str
    model: str = DEFAULT_MODEL


class Remember(msgspec.Struct, forbid_unknown_fields=True):
    """Arguments of `remember`."""

    text: Annotated[str, Meta(description="One fact, in a full sentence")]
    type: MemoryType = "semantic"
    user: Annotated[str, Meta(description="Only for this user")] = ""
    id: Annotated[str, Meta(description="Replace this memory")] = ""


class Forget(msgspec.Struct, forbid_unknown_fields=True):
    """Arguments of `forget`."""

    id: str
    erase: Annotated[bool, Meta(description="Also from past contexts")] = False


class Pin(msgspec.Struct, forbid_unknown_fields=True):
    """Arguments of `pin`."""

    id: str
    pinned: bool = True


AskUser = Callable[[str], Awaitable[str]]
"""Shows the user a question, and returns `accept`, `decline`, or something else if there is no answer."""


async def _ask_nobody(_: str) -> str:
    return ""


class Toolbox:
    """What the tools do, for one tenant.

    With a `user`, they are bound to that user: they read the user's memories, rooms and contexts and the memories of
    everybody, and change only the user's memories. Without `can_pin`, they leave pinned memories as they are. With
    `ask_user`, the user is asked whether to remember what a model wants to write.
    """

    def __init__(
        self,
        engine: "Engine",
        *,
        user: str | None = None,
        persona: str | None = None,
        model: str = DEFAULT_MODEL,
        can_pin: bool = False,
        ask_user: AskUser | None = None,
    ) -> None:
        self._engine = engine
        self._user = user
        self._persona = persona
        self._model = model
        self._can_pin = can_pin
        self._ask_user = ask_user or _ask_nobody

    # -- reading -----------------------------------------------------------------------------------------------------

    async def recall(self, arguments: Recall) -> str:
        """Return the memories and messages that match a query best, most relevant first; with a handle, that record."""
        if arguments.handle:
            return await self._recall_handle(arguments)
        records = await self._search(arguments.query, user=arguments.user, room=arguments.room)
        return await self._page(records, arguments.budget, query=arguments.query)

    async def _recall_handle(self, arguments: Recall) -> str:
        """Return the whole text of a record, or the parts of it that match the query best."""
        record = await self.find_record(read_call({"handle": arguments.handle}, arguments.budget).handle)
        text, count = plain_text(record.content), await self._counter()
        size = await run_in_thread(count, text)
        if size <= arguments.budget:
            return text
        note = f"\n[a part of {size:,} tokens; pass a query or a larger budget for more]"
        return await run_in_thread(
            fit_text, text, lambda part: part + note, arguments.budget, count, clean_text(arguments.query)
        )

    async def memories(self, arguments: Memories) -> str:
        """Return memories, newest first, with the id to continue from."""
        user = self._require_user(arguments.user)
        scopes = None if user is None and self._persona is None else memory_scopes(self._persona, user, None)
        start = await self._find_memory(arguments.before) if arguments.before else None
        found = await self._engine.store.memories(
            scopes=scopes,
            pinned=arguments.pinned or None,
            before=None if start is None else start.at,
            after="" if start is None else start.id,
            limit=_PAGE,
        )

        def note(shown: int) -> str:
            is_last = shown == len(found) < _PAGE
            return "" if is_last or not shown else f'More memories: before="{found[shown - 1].id}"'

        return await self._page(found, arguments.budget, note=note)

    async def history(self, arguments: History) -> str:
        """Return the newest messages of a room, oldest first; without a room, all rooms, the last active one first."""
        store = self._engine.store
        if not arguments.room:
            return await self._rooms(arguments.budget)
        room = await self._require_room(arguments.room)
        page = await store.history(room, before=arguments.before or None, limit=_PAGE)
        messages = [each.message for each in page if not each.message.hidden]
        blocks = [Block(_describe(message), plain_text(message.content)) for message in messages]

        def compose(shown: Sequence[str]) -> str:
            is_first = len(shown) == len(blocks) and len(page) < _PAGE
            first = messages[len(shown) - 1].seq if shown else 0
            note = [] if is_first or not shown else [f"Earlier messages: before={first}"]
            return "\n\n".join([*note, *reversed(shown)]) or _NOTHING

        return await self._fill(blocks, compose, arguments.budget)

    async def search(self, arguments: Search) -> str:
        """Return the results of a search as JSON, in the format that ChatGPT's connectors expect."""
        records = await self._search(arguments.query)
        found = [{"id": each.id, "title": _title(each), "url": get_uri(each)} for each in records]
        results = [Block(msgspec.json.encode(each).decode(), "") for each in found]
        return await self._fill(results, lambda shown: f'{{"results":[{",".join(shown)}]}}', arguments.budget)

    async def fetch(self, arguments: Fetch) -> str:
        """Return one record as JSON, in the format that ChatGPT's connectors expect."""
        record = await self.find_record(arguments.id)

        def wrap(text: str) -> str:
            fields = {"id": record.id, "title": _title(record), "text": text, "url": get_uri(record)}
            return msgspec.json.encode(fields | {"metadata": _metadata(record)}).decode()

        count = await self._counter()
        return await run_in_thread(fit_text, plain_text(record.content), wrap, arguments.budget, count)

    async def explain(self, arguments: Explain) -> str:
        """Return why a context is as it is, or what happened to one item; without a context, the newest contexts."""
        if not arguments.context:
            if arguments.item:
                raise InvalidValue("context", "is required to explain an item; without arguments, you get the newest")
            return await self._contexts(arguments.budget)
        snapshot = await self._find_context(arguments.context)
        if arguments.item:
            block = await self._explain_item(snapshot, arguments.item)
            return await self._fill([block], _join, arguments.budget)
        blocks = await run_in_thread(_explain_context, snapshot.context)
        return await self._fill(
            blocks, lambda shown: _join(shown, _left_out(len(blocks) - len(shown))), arguments.budget
        )

    async def count(self, arguments: CountText) -> str:
        """Return the number of tokens of a text, and the model's window."""
        model = default_registry().resolve(clean_text(arguments.model))
        return await run_in_thread(_describe_count, arguments.text, model)

    # -- writing -----------------------------------------------------------------------------------------------------

    async def remember(self, arguments: Remember) -> str:
        """Write a memory and return its id.

        Whether its text comes from the user, or from a page that the model has read, cannot be known here. So it is
        only proposed, and the client asks the user, if it can.
        """
        replaced = await self._check_change(arguments.id, may_be_new=True) if arguments.id else None
        memory = await self._engine.propose(
            clean_text(arguments.text),
            type=arguments.type,
            user=self._require_user(arguments.user) or (replaced.user if replaced else None),
            persona=self._persona,
            id=arguments.id or None,
            source="mcp",
        )
        if memory is None:
            return "Nothing was written: this is remembered or proposed already, was rejected, or may not be written."
        if memory.state == "proposed":
            match await self._ask_user(f"Remember this?\n\n{memory.content}"):
                case "accept":
                    await self._engine.confirm_memories(memory.id)
                case "decline":
                    await self._engine.reject_memories(memory.id)
                    return "The user does not want this to be remembered."
                case _:
                    return f"Proposed as {memory.id}. It is remembered when the user confirms it in Brimful."
        return f"Remembered as {memory.id}."

    async def forget(self, arguments: Forget) -> str:
        await self._check_change(arguments.id)
        await self._engine.forget(clean_text(arguments.id), erase=arguments.erase)
        return f"Forgot {arguments.id}."

    async def pin(self, arguments: Pin) -> str:
        await self._check_change(arguments.id)
        await self._engine.pin(clean_text(arguments.id), pinned=arguments.pinned)
        return f"{'Pinned' if arguments.pinned else 'Unpinned'} {arguments.id}."

    # -- records -----------------------------------------------------------------------------------------------------

    async def find_record(self, id: str) -> Memory | Message:
        name = clean_text(id)
        store = self._engine.store
        for memory in await store.memories(ids=[name], limit=1):
            if await self._may_read(memory):
                return memory
        for message in await store.messages([name]):
            if not message.hidden and await self._may_read_room(message.room):
                return message
        if self._user is None and await store.deleted_messages([name]):
            raise ContentErased("message", name)
        raise UnknownRecord("memory or message", name)

    async def show_record(self, id: str, budget: int) -> str:
        return await self._page([await self.find_record(id)], budget)

    async def _find_memory(self, id: str) -> Memory:
        for memory in await self._engine.store.memories(ids=[clean_text(id)], limit=1):
            if await self._may_read(memory):
                return memory
        raise UnknownRecord("memory", id)

    async def _require_room(self, id: str) -> str:
        name = clean_text(id)
        if not await self._may_read_room(name):
            raise UnknownRecord("room", id)
        return name

    # -- what a user may see and change ------------------------------------------------------------------------------

    def _require_user(self, named: str) -> str | None:
        """Return the user of a call. If the tools are bound to a user, it may name no other."""
        user = clean_text(named) or self._user
        if self._user is not None and user != self._user:
            raise InvalidValue("user", f"must be {self._user!r} or empty: these tools are bound to that user")
        return user

    async def _may_read_room(self, id: str) -> bool:
        room = await self._engine.store.get(Room, id)
        return room is not None and (self._user is None or room.user == self._user)

    async def _may_read(self, memory: Memory) -> bool:
        if self._user is None:
            return True
        return memory.user in (None, self._user) and (memory.room is None or await self._may_read_room(memory.room))

    async def _check_change(self, id: str, *, may_be_new: bool = False) -> Memory | None:
        """Return the memory to change. Reject a change of another user's memory, of everybody's, or of a pinned one."""
        for memory in await self._engine.store.memories(ids=[clean_text(id)], state=None, limit=1):
            if memory.state != "active" or (self._user is not None and memory.user != self._user):
                raise InvalidValue("id", "is taken: use another one") if may_be_new else UnknownRecord("memory", id)
            if memory.pinned and not self._can_pin:
                raise InvalidValue("id", f"{id!r} is pinned, and these tools do not change pinned memories")
            return memory
        return None

    async def _search(self, query: str, *, user: str = "", room: str = "") -> list[Memory | Message]:
        """Search a room, or without one the last active rooms of the user, and all memories that may be used there."""
        if not query.strip():
            raise InvalidValue("query", "must not be empty")
        whose = self._require_user(user)
        others = [] if room else await self._engine.store.rooms_of(whose, limit=_MAX_ROOMS)
        found = await self._engine.search(
            clean_text(query),
            persona=self._persona,
            user=whose,
            room=await self._require_room(room) if room else None,
            other_rooms=[each.id for each in others],
            limit=_MAX_HITS,
        )
        return [hit.record for hit in found if isinstance(hit.record, Memory | Message)]

    async def _rooms(self, budget: int) -> str:
        store = self._engine.store
        rooms = await store.rooms_of(self._user, limit=_PAGE)
        sizes = await store.count_messages([room.id for room in rooms])
        blocks = [Block(_bracketed(room.id, room.name, plural(sizes.get(room.id, 0), "message")), "") for room in rooms]
        return await self._list(blocks, budget)

    # -- contexts ----------------------------------------------------------------------------------------------------

    async def _find_context(self, id: str) -> Snapshot:
        name = clean_text(id)
        store = self._engine.store
        ids = [name] if name.startswith(ID_PREFIX) else await store.contexts_of(name, limit=1)
        snapshot = await store.snapshot(ids[0]) if ids else None
        if snapshot is None or (self._user is not None and snapshot.user != self._user):
            raise UnknownRecord("context or answered message", id)
        return snapshot

    async def _explain_item(self, snapshot: Snapshot, id: str) -> Block:
        from brimful.engine.absence import find_absence  # noqa: PLC0415 - the engine is slow to import

        context, name = snapshot.context, clean_text(id)
        if name not in context.decisions_by_id:
            absence = await find_absence(self._engine.store, snapshot, name)
            if absence is not None:
                return Block(f"[{name}] was not a candidate: {absence.why}", absence.text)
        explanation = await run_in_thread(context.explain, name)
        package = next(each for each in context.candidates if each.id == name)
        return Block(f"[{name}] {explanation}", "(erased)" if is_erased(package) else item_text(package))

    async def list_contexts(self) -> list[Build]:
        """Return the newest contexts; for a user, of the last active rooms."""
        store = self._engine.store
        if self._user is None:
            return await store.builds(limit=_MAX_HITS)
        rooms = await store.rooms_of(self._user, limit=_MAX_ROOMS)
        builds = [build for room in rooms for build in await store.builds(room=room.id, limit=_MAX_HITS)]
        own = (build for build in builds if build.user == self._user)
        return sorted(own, key=lambda build: -build.number)[:_MAX_HITS]

    async def _contexts(self, budget: int) -> str:
        blocks = [
            Block(
                _bracketed(build.id, f"room {build.room}", build.model, _time(build.at)),
                f"{build.tokens:,} of {build.available:,} tokens, {build.left_out:,} of "
                f"{plural(build.candidates, 'candidate')} left out",
            )
            for build in await self.list_contexts()
        ]
        return await self._list(blocks, budget)

    # -- results -----------------------------------------------------------------------------------------------------

    async def _page(
        self,
        records: Sequence[Memory | Message],
        budget: int,
        *,
        query: str = "",
        note: Callable[[int], str] | None = None,
    ) -> str:
        """Return records as text. `note` says how to get what comes after those that are shown."""
        blocks = [Block(_describe(record), plain_text(record.content)) for record in records]
        return await self._list(blocks, budget, query=query, note=note)

    async def _list(
        self, blocks: Sequence[Block], budget: int, *, query: str = "", note: Callable[[int], str] | None = None
    ) -> str:
        def compose(shown: Sequence[str]) -> str:
            return _join(shown, _left_out(len(blocks) - len(shown)) if note is None else note(len(shown)))

        return await self._fill(blocks, compose, budget, query)

    async def _fill(
        self, blocks: Sequence[Block], compose: Callable[[Sequence[str]], str], budget: int, query: str = ""
    ) -> str:
        count = await self._counter()
        return await run_in_thread(fill, blocks, compose, budget, count, query)

    async def _counter(self) -> TokenCount:
        tokens = await run_in_thread(counter, self._model)
        return lambda text: tokens.text(text).upper


# -- words -----------------------------------------------------------------------------------------------------------


def get_uri(record: Memory | Message) -> str:
    """Return the URI of a record as a resource.

    >>> get_uri(Memory(id="mem/1", content="Tea"))
    'brimful://memories/mem%2F1'
    """
    kind = "memories" if isinstance(record, Memory) else "messages"
    return f"{SCHEME}{kind}/{quote(record.id, safe='')}"


def _describe(record: Memory | Message) -> str:
    if isinstance(record, Memory):
        owners = (f"{kind} {id}" for kind, id in (("user", record.user), ("room", record.room)) if id)
        return _bracketed(record.id, record.type, *owners, "pinned" if record.pinned else "", _time(record.at))
    return _bracketed(
        record.id, f"room {record.room}", f"#{record.seq}", record.sender or record.role, _time(record.at)
    )


def _bracketed(*facts: str) -> str:
    return f"[{' · '.join(fact for fact in facts if fact)}]"


def _time(at: float) -> str:
    """Return a time to the minute, in UTC; empty if it is unknown or out of range."""
    try:
        return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M}" if at else ""
    except (OverflowError, ValueError, OSError):
        return ""


def _join(shown: Sequence[str], note: str = "") -> str:
    return "\n\n".join([*shown, *([note] if note else [])]) or _NOTHING


def _left_out(count: int) -> str:
    return f"{count:,} more; raise `budget` to see them." if count else ""


def _title(record: Memory | Message) -> str:
    text = " ".join(plain_text(record.content)[: 4 * _TITLE_CHARS].split())
    return text if len(text) <= _TITLE_CHARS else f"{text[: _TITLE_CHARS - 1]}…"


def _metadata(record: Memory | Message) -> dict[str, str]:
    if isinstance(record, Memory):
        facts = {"type": record.type, "user": record.user, "room": record.room, "time": _time(record.at)}
    else:
        facts = {"room": record.room, "sender": record.sender, "role": record.role, "time": _time(record.at)}
    return {name: value for name, value in facts.items() if value}


def _explain_context(context: Context) -> list[Block]:
    left_out = [
        Block(f"[left out: {decision.id}]", describe_decision(context, decision))
        for _, decision in zip(range(_MAX_LEFT_OUT), excluded_decisions(context), strict=False)
    ]
    return [Block(f"[context {context.id}]", context.report()), *left_out]


def _describe_count(text: str, model: ModelInfo) -> str:
    found = count_tokens(clean_text(text), model=model)
    return f"{found.tokens:,} tokens for {model.id} ({found.basis}); its window has {model.window:,}."


# -- the table -------------------------------------------------------------------------------------------------------


class Tool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool as clients see it, and the method of the toolbox that runs it."""

    name: str
    description: str
    arguments: type[msgspec.Struct]
    run: Callable[[Toolbox, Any], Awaitable[str]]
    writes: bool = False
    destructive: bool = False

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON schema of the arguments, without titles."""
        _, components = msgspec.json.schema_components((self.arguments,), ref_template="{name}")
        schema = dict(components[self.arguments.__name__])
        return {key: value for key, value in schema.items() if key not in ("title", "description")}


TOOLS: Final = {
    tool.name: tool
    for tool in (
        Tool(
            name="recall",
            description="Find what was said and remembered earlier that helps with a question, or read what was "
            "shortened, by its handle. Use it before you answer from memory.",
            arguments=Recall,
            run=Toolbox.recall,
        ),
        Tool(
            name="remember",
            description="Remember a lasting fact about the user, a project or a decision, if the user confirms it. "
            "Returns its id.",
            arguments=Remember,
            run=Toolbox.remember,
            writes=True,
        ),
        Tool(
            name="forget",
            description="Remove a memory that is wrong or unwanted.",
            arguments=Forget,
            run=Toolbox.forget,
            writes=True,
            destructive=True,
        ),
        Tool(
            name=PIN,
            description="Pin a memory, so that every context includes it, or unpin it.",
            arguments=Pin,
            run=Toolbox.pin,
            writes=True,
        ),
        Tool(name="memories", description="List memories, newest first.", arguments=Memories, run=Toolbox.memories),
        Tool(
            name="history",
            description="Read the last messages of a room (a conversation). Without a room, list the rooms.",
            arguments=History,
            run=Toolbox.history,
        ),
        Tool(
            name="search",
            description="Search memories and messages. Returns ids, titles and URLs; `fetch` returns the text.",
            arguments=Search,
            run=Toolbox.search,
        ),
        Tool(name="fetch", description="Return a memory or message by its id.", arguments=Fetch, run=Toolbox.fetch),
        Tool(
            name="explain",
            description="Show what a model saw in a context, what was left out and why. Without a context, list the "
            "newest ones.",
            arguments=Explain,
            run=Toolbox.explain,
        ),
        Tool(name="count", description="Count the tokens of a text.", arguments=CountText, run=Toolbox.count),
    )
}
"""All tools by name."""


def select_tools(names: Collection[str] | None) -> dict[str, Tool]:
    """Return the tools with these names, in the order of the table; by default all but `pin`.

    A pinned memory is in every context, and one that a model wrote may be what somebody else told it to write.
    """
    unknown = [] if names is None else [name for name in names if name not in TOOLS]
    if unknown:
        raise InvalidValue("tools", f"there is no tool {unknown[0]!r}; tools are {', '.join(TOOLS)}")
    return {name: tool for name, tool in TOOLS.items() if name in (TOOLS.keys() - {PIN} if names is None else names)}


def read_arguments(tool: Tool, arguments: Mapping[str, Any] | None) -> msgspec.Struct:
    """Validate the arguments of a call. Models may pass null for what they leave out, and numbers as strings.

    >>> read_arguments(TOOLS["recall"], {"query": "tea", "room": None, "budget": "500"})
    Recall(query='tea', handle='', user='', room='', budget=500)
    >>> read_arguments(TOOLS["recall"], {"query": "tea", "limit": 3})
    Traceback (most recent call last):
    ...
    brimful.errors.InvalidValue: limit: is no argument of this tool; it takes query, handle, user, room, budget
    """
    passed = {name: value for name, value in (arguments or {}).items() if value is not None}
    fields = msgspec.structs.fields(tool.arguments)
    names = [field.name for field in fields]
    for name in passed:
        if name not in names:
            raise InvalidValue(name, f"is no argument of this tool; it takes {', '.join(names)}")
    for field in fields:
        if field.required and field.name not in passed:
            raise InvalidValue(field.name, "is required")
    try:
        return msgspec.convert(passed, tool.arguments, strict=False)
    except msgspec.ValidationError as error:
        reason, _, path = str(error).partition(" - at `$.")
        raise InvalidValue(path.rstrip("`"), f"{reason[0].lower()}{reason[1:]}".replace("`", "'")) from None
