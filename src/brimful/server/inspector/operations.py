"""The inspector and the table of all its operations, from which routes and the OpenAPI description are made."""

import asyncio
from collections.abc import Callable
from typing import Final

import msgspec

from brimful.models.registry import Registry
from brimful.server.access import Authenticator
from brimful.server.background import BackgroundTasks
from brimful.server.inspector import queries, record_views, views
from brimful.server.inspector.catalogue import Catalogue, ContentCounter
from brimful.server.inspector.context_cache import ContextCache
from brimful.server.inspector.contexts import Contexts
from brimful.server.inspector.events import Events
from brimful.server.inspector.executor import NewestFirstExecutor
from brimful.server.inspector.operation import EVENT_STREAM, Operation, OperationHandler
from brimful.server.inspector.records import LoreEntries, Memories, Messages, make_lorebooks, make_personas, make_rooms
from brimful.server.inspector.statistics import StatisticsEndpoint, StatisticsList
from brimful.server.inspector.views import Prices
from brimful.server.inspector.what_if import Comparisons
from brimful.server.tenants import Tenants


class Inspector:
    """What answers questions, by what they are about."""

    def __init__(
        self,
        tenants: Tenants,
        registry: Registry,
        *,
        tokens: ContentCounter,
        access: Authenticator,
        tasks: BackgroundTasks,
        stopping: asyncio.Event,
        clock: Callable[[], float],
    ) -> None:
        """Put it together. `stopping` ends all streams of events."""
        loaded, costs, self._newest = ContextCache(clock), Prices(registry), NewestFirstExecutor()
        self.contexts = Contexts(tenants, tasks, loaded=loaded, costs=costs, newest=self._newest)
        self.events = Events(tenants, costs, access=access, stopping=stopping)
        self.supposing = Comparisons(tenants, registry, loaded=loaded, newest=self._newest)
        self.figures = StatisticsEndpoint(tenants, clock=clock)
        self.catalogue = Catalogue(registry, tokens)
        self.rooms = make_rooms(tenants, tokens, loaded, clock=clock)
        self.messages = Messages(tenants, tokens, loaded)
        self.personas = make_personas(tenants, tokens, loaded)
        self.memories = Memories(tenants, tokens, loaded, clock=clock)
        self.lorebooks = make_lorebooks(tenants, tokens, loaded)
        self.entries = LoreEntries(tenants, tokens)

    async def close(self) -> None:
        """Wait for what is being worked out."""
        await self._newest.close()


SelectHandler = Callable[[Inspector], OperationHandler]
StructType = type[msgspec.Struct]


def _get(path: str, summary: str, answer: StructType | None, query: StructType = queries.NoQuery) -> Operation:
    return Operation(method="GET", path=path, summary=summary, scope="read", answer=answer, query=query)


def _post(path: str, summary: str, answer: StructType, body: StructType) -> Operation:
    return Operation(
        method="POST",
        path=path,
        summary=summary,
        scope="write",
        answer=answer,
        query=queries.ModelQuery,
        body=body,
        status=201,
    )


def _put(path: str, summary: str, answer: StructType, body: StructType) -> Operation:
    return Operation(
        method="PUT", path=path, summary=summary, scope="write", answer=answer, query=queries.ModelQuery, body=body
    )


def _delete(path: str, summary: str, query: StructType = queries.NoQuery) -> Operation:
    return Operation(
        method="DELETE", path=path, summary=summary, scope="write", answer=record_views.Removed, query=query
    )


OPERATIONS: Final[tuple[tuple[Operation, SelectHandler], ...]] = (
    (
        _get("/contexts", "List contexts, newest first", views.ContextList, queries.ContextsQuery),
        lambda to: to.contexts.listed,
    ),
    (
        Operation(
            method="GET",
            path="/events",
            summary="Follow contexts and answers as they come",
            scope="read",
            media=EVENT_STREAM,
            headers={"Last-Event-ID": "The id of the last event that was seen: what came after it is told first."},
        ),
        lambda to: to.events.follow,
    ),
    (
        _get("/contexts/{id}", "Say what was sent, what was left out, and why", views.ContextView),
        lambda to: to.contexts.show,
    ),
    (
        _get("/contexts/{id}/request", "Give the request as the provider got it", None),
        lambda to: to.contexts.request,
    ),
    (
        _get("/contexts/{id}/items/{item:path}", "Tell all of one candidate", views.ItemView),
        lambda to: to.contexts.item,
    ),
    (
        Operation(
            method="POST",
            path="/contexts/{id}/what-if",
            summary="Build it again with another model, policy, window or reserve",
            scope="read",
            answer=views.WhatIf,
            body=queries.WhatIfBody,
        ),
        lambda to: to.supposing.what_if,
    ),
    (
        _get("/contexts/{id}/diff/{other}", "Compare a context with another", views.DiffView),
        lambda to: to.supposing.diff,
    ),
    (
        _get("/statistics", "Tell what contexts and answers come to", StatisticsList, queries.StatisticsQuery),
        lambda to: to.figures.told,
    ),
    (_get("/models", "List the models that may be chosen", views.ModelList), lambda to: to.catalogue.models),
    (_get("/policies", "List the policies that may be chosen", views.PolicyList), lambda to: to.catalogue.policies),
    (
        Operation(
            method="POST",
            path="/count",
            summary="Count a text",
            scope="read",
            answer=views.TextCount,
            body=queries.CountBody,
        ),
        lambda to: to.catalogue.count,
    ),
    (_get("/rooms", "List rooms by id", record_views.RoomList, queries.ListQuery), lambda to: to.rooms.listed),
    (_post("/rooms", "Make a room", record_views.RoomView, queries.RoomBody), lambda to: to.rooms.create),
    (
        _get(
            "/rooms/{id:path}/messages",
            "List or search what was said in a room",
            record_views.MessageList,
            queries.MessagesQuery,
        ),
        lambda to: to.messages.listed,
    ),
    (_get("/rooms/{id:path}", "Show a room", record_views.RoomView, queries.ModelQuery), lambda to: to.rooms.show),
    (_put("/rooms/{id:path}", "Change a room", record_views.RoomView, queries.RoomBody), lambda to: to.rooms.change),
    (_delete("/rooms/{id:path}", "Remove a room with all that was said in it"), lambda to: to.rooms.remove),
    (
        _delete("/messages/{id:path}", "Take a message out of its room", queries.RemoveQuery),
        lambda to: to.messages.remove,
    ),
    (
        _get("/personas", "List personas by id", record_views.PersonaList, queries.ListQuery),
        lambda to: to.personas.listed,
    ),
    (
        _post("/personas", "Make a persona", record_views.PersonaView, queries.PersonaBody),
        lambda to: to.personas.create,
    ),
    (
        _get("/personas/{id:path}", "Show a persona", record_views.PersonaView, queries.ModelQuery),
        lambda to: to.personas.show,
    ),
    (
        _put("/personas/{id:path}", "Change a persona", record_views.PersonaView, queries.PersonaBody),
        lambda to: to.personas.change,
    ),
    (_delete("/personas/{id:path}", "Remove a persona"), lambda to: to.personas.remove),
    (
        _get("/memories", "List memories, newest first", record_views.MemoryList, queries.MemoriesQuery),
        lambda to: to.memories.listed,
    ),
    (
        _post("/memories", "Keep something to be known later", record_views.MemoryView, queries.MemoryBody),
        lambda to: to.memories.create,
    ),
    (
        _get("/memories/{id:path}", "Show a memory", record_views.MemoryView, queries.ModelQuery),
        lambda to: to.memories.show,
    ),
    (
        _put(
            "/memories/{id:path}", "Change a memory, pin it or let it go", record_views.MemoryView, queries.MemoryBody
        ),
        lambda to: to.memories.change,
    ),
    (_delete("/memories/{id:path}", "Forget a memory", queries.RemoveQuery), lambda to: to.memories.forget),
    (
        _get("/lorebooks", "List lorebooks by id", record_views.LorebookList, queries.ListQuery),
        lambda to: to.lorebooks.listed,
    ),
    (
        _post("/lorebooks", "Make a lorebook", record_views.LorebookView, queries.LorebookBody),
        lambda to: to.lorebooks.create,
    ),
    (
        _get(
            "/lorebooks/{id:path}/entries", "List the entries of a lorebook", record_views.EntryList, queries.ModelQuery
        ),
        lambda to: to.entries.listed,
    ),
    (
        _post("/lorebooks/{id:path}/entries", "Write an entry", record_views.EntryView, queries.EntryBody),
        lambda to: to.entries.create,
    ),
    (
        _put("/lorebooks/{id:path}/entries/{entry:path}", "Change an entry", record_views.EntryView, queries.EntryBody),
        lambda to: to.entries.change,
    ),
    (_delete("/lorebooks/{id:path}/entries/{entry:path}", "Remove an entry"), lambda to: to.entries.remove),
    (
        _get("/lorebooks/{id:path}", "Show a lorebook", record_views.LorebookView, queries.ModelQuery),
        lambda to: to.lorebooks.show,
    ),
    (
        _put("/lorebooks/{id:path}", "Change a lorebook", record_views.LorebookView, queries.LorebookBody),
        lambda to: to.lorebooks.change,
    ),
    (_delete("/lorebooks/{id:path}", "Remove a lorebook with its entries"), lambda to: to.lorebooks.remove),
)
