"""What is to be known later: found, made, changed, pinned, forgotten."""

from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from brimful.engine.given import want_known
from brimful.errors import UnknownRecord
from brimful.protocols import Store
from brimful.records import Memory
from brimful.retrieval.wanted import memory_scopes
from brimful.server.errors import Refusal
from brimful.server.inspector.inquiry import Inquiry
from brimful.server.inspector.kept import MemoryList, MemoryView, Removed
from brimful.server.inspector.loaded import Loaded
from brimful.server.inspector.queries import MemoriesQuery, RemoveQuery
from brimful.server.inspector.shelf import changed, said_in, shown_as, taken
from brimful.server.inspector.tokens import Tokens
from brimful.server.tenants import Tenants

SCANNED: Final = 5_000  # memories looked through for words at a time; `next` goes on behind them
_PAGE: Final = 500  # … read at a time


class Memories:
    """Shows and changes memories."""

    def __init__(self, tenants: Tenants, tokens: Tokens, loaded: Loaded, *, clock: Callable[[], float]) -> None:
        """Take the stores, and what tells the time."""
        self._tenants = tenants
        self._tokens = tokens
        self._loaded = loaded
        self._clock = clock

    async def listed(self, inquiry: Inquiry) -> MemoryList:
        """List memories, newest first."""
        query: MemoriesQuery = inquiry.query
        found, after = await _found(self._tenants.store(inquiry.tenant), query)
        return MemoryList(memories=tuple(await self._views(found, query.model)), next=after)

    async def show(self, inquiry: Inquiry) -> MemoryView:
        """Show one."""
        return await self._shown(await _one(self._tenants.store(inquiry.tenant), inquiry.name()), inquiry)

    async def create(self, inquiry: Inquiry) -> MemoryView:
        """Keep something to be known later; an id that is taken is refused."""
        fresh: dict[str, Any] = {"at": self._clock(), "content": ""}
        memory = Memory(**fresh | said_in(inquiry.body, id="mem"))
        want_known(memory)
        engine = await self._tenants.engine(inquiry.tenant)
        if await engine.store.memories(ids=[memory.id], limit=1):
            raise taken("memory", memory.id)
        await engine.remember_many([memory])
        return await self._shown(memory, inquiry)

    async def change(self, inquiry: Inquiry) -> MemoryView:
        """Change one. Where it is only pinned, or let go again, nothing else of it is touched."""
        engine, said = await self._tenants.engine(inquiry.tenant), said_in(inquiry.body)
        memory = changed(await _one(engine.store, inquiry.name()), dict(said))
        want_known(memory)
        if set(said) <= {"pinned", "id"}:
            await engine.pin(memory.id, pinned=memory.pinned)
        else:
            await engine.remember_many([memory])
        return await self._shown(memory, inquiry)

    async def forget(self, inquiry: Inquiry) -> Removed:
        """Forget one."""
        query: RemoveQuery = inquiry.query
        engine, id = await self._tenants.engine(inquiry.tenant), inquiry.name()
        await engine.forget(id, erase=query.erase)
        self._loaded.drop(inquiry.tenant)
        return Removed(id=id)

    async def _shown(self, memory: Memory, inquiry: Inquiry) -> MemoryView:
        return (await self._views([memory], inquiry.query.model))[0]

    async def _views(self, memories: Sequence[Memory], model: str | None) -> list[MemoryView]:
        counts = await self._tokens.of([memory.content for memory in memories], model)
        return [shown_as(MemoryView, memory, tokens=count) for memory, count in zip(memories, counts, strict=True)]


async def _one(store: Store, id: str) -> Memory:
    found = await store.memories(ids=[id], limit=1)
    if not found:
        raise UnknownRecord("memory", id)
    return found[0]


async def _found(store: Store, query: MemoriesQuery) -> tuple[list[Memory], str | None]:
    """Return a page of memories, and where the next one begins."""
    owners = (query.persona, query.user, query.room)
    scopes = memory_scopes(*owners) if any(owner is not None for owner in owners) else None
    words = query.q.casefold().split()
    found: list[Memory] = []
    at, after = _place(query.before)
    for _ in range(max(1, SCANNED // _PAGE) if words else 1):
        size = _PAGE if words else query.limit
        page = await store.memories(scopes=scopes, pinned=query.pinned, before=at, after=after, limit=size)
        for memory in page:
            at, after = memory.at, memory.id
            if all(word in memory.content.casefold() for word in words):
                found.append(memory)
                if len(found) == query.limit:
                    return found, _cursor(memory)
        if len(page) < size:
            return found, None
    return found, _cursor(page[-1])


def _cursor(memory: Memory) -> str:
    return f"{memory.at!r} {memory.id}"


def _place(cursor: str) -> tuple[float | None, str]:
    """Read where a page begins: behind the memory of that time and id."""
    if not cursor:
        return None, ""
    at, _, id = cursor.partition(" ")
    try:
        return msgspec.convert(at, float, strict=False), id
    except msgspec.ValidationError:
        raise Refusal("invalid", "before: must be the `next` of another answer", param="before") from None
