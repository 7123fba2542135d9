"""All that may be asked of the inspector: the one list from which it is served and described."""

from collections.abc import Callable
from typing import Final

import msgspec

from brimful.server.inspector import kept, queries, views
from brimful.server.inspector.figures import StatisticsList
from brimful.server.inspector.inspector import Inspector
from brimful.server.inspector.operation import EVENT_STREAM, Answer, Operation

Serves = Callable[[Inspector], Answer]
Form = type[msgspec.Struct]


def _get(path: str, summary: str, answer: Form | None, query: Form = queries.NoQuery) -> Operation:
    return Operation(method="GET", path=path, summary=summary, scope="read", answer=answer, query=query)


def _post(path: str, summary: str, answer: Form, body: Form) -> Operation:
    return Operation(
        method="POST",
        path=path,
        summary=summary,
        scope="write",
        answer=answer,
        query=queries.TextQuery,
        body=body,
        status=201,
    )


def _put(path: str, summary: str, answer: Form, body: Form) -> Operation:
    return Operation(
        method="PUT", path=path, summary=summary, scope="write", answer=answer, query=queries.TextQuery, body=body
    )


def _delete(path: str, summary: str, query: Form = queries.NoQuery) -> Operation:
    return Operation(method="DELETE", path=path, summary=summary, scope="write", answer=kept.Removed, query=query)


OPERATIONS: Final[tuple[tuple[Operation, Serves], ...]] = (
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
    (_get("/rooms", "List rooms by id", kept.RoomList, queries.ListQuery), lambda to: to.rooms.listed),
    (_post("/rooms", "Make a room", kept.RoomView, queries.RoomBody), lambda to: to.rooms.create),
    (
        _get(
            "/rooms/{id:path}/messages",
            "List or search what was said in a room",
            kept.MessageList,
            queries.MessagesQuery,
        ),
        lambda to: to.messages.listed,
    ),
    (_get("/rooms/{id:path}", "Show a room", kept.RoomView, queries.TextQuery), lambda to: to.rooms.show),
    (_put("/rooms/{id:path}", "Change a room", kept.RoomView, queries.RoomBody), lambda to: to.rooms.change),
    (_delete("/rooms/{id:path}", "Remove a room with all that was said in it"), lambda to: to.rooms.remove),
    (
        _delete("/messages/{id:path}", "Take a message out of its room", queries.RemoveQuery),
        lambda to: to.messages.remove,
    ),
    (_get("/personas", "List personas by id", kept.PersonaList, queries.ListQuery), lambda to: to.personas.listed),
    (_post("/personas", "Make a persona", kept.PersonaView, queries.PersonaBody), lambda to: to.personas.create),
    (_get("/personas/{id:path}", "Show a persona", kept.PersonaView, queries.TextQuery), lambda to: to.personas.show),
    (
        _put("/personas/{id:path}", "Change a persona", kept.PersonaView, queries.PersonaBody),
        lambda to: to.personas.change,
    ),
    (_delete("/personas/{id:path}", "Remove a persona"), lambda to: to.personas.remove),
    (
        _get("/memories", "List memories, newest first", kept.MemoryList, queries.MemoriesQuery),
        lambda to: to.memories.listed,
    ),
    (
        _post("/memories", "Keep something to be known later", kept.MemoryView, queries.MemoryBody),
        lambda to: to.memories.create,
    ),
    (_get("/memories/{id:path}", "Show a memory", kept.MemoryView, queries.TextQuery), lambda to: to.memories.show),
    (
        _put("/memories/{id:path}", "Change a memory, pin it or let it go", kept.MemoryView, queries.MemoryBody),
        lambda to: to.memories.change,
    ),
    (_delete("/memories/{id:path}", "Forget a memory", queries.RemoveQuery), lambda to: to.memories.forget),
    (_get("/lorebooks", "List lorebooks by id", kept.LorebookList, queries.ListQuery), lambda to: to.lorebooks.listed),
    (_post("/lorebooks", "Make a lorebook", kept.LorebookView, queries.LorebookBody), lambda to: to.lorebooks.create),
    (
        _get("/lorebooks/{id:path}/entries", "List the entries of a lorebook", kept.EntryList, queries.TextQuery),
        lambda to: to.entries.listed,
    ),
    (
        _post("/lorebooks/{id:path}/entries", "Write an entry", kept.EntryView, queries.EntryBody),
        lambda to: to.entries.create,
    ),
    (
        _put("/lorebooks/{id:path}/entries/{entry:path}", "Change an entry", kept.EntryView, queries.EntryBody),
        lambda to: to.entries.change,
    ),
    (_delete("/lorebooks/{id:path}/entries/{entry:path}", "Remove an entry"), lambda to: to.entries.remove),
    (
        _get("/lorebooks/{id:path}", "Show a lorebook", kept.LorebookView, queries.TextQuery),
        lambda to: to.lorebooks.show,
    ),
    (
        _put("/lorebooks/{id:path}", "Change a lorebook", kept.LorebookView, queries.LorebookBody),
        lambda to: to.lorebooks.change,
    ),
    (_delete("/lorebooks/{id:path}", "Remove a lorebook with its entries"), lambda to: to.lorebooks.remove),
)
