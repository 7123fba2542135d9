"""The inspector and the table of all its operations, from which routes and the OpenAPI description are made."""

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from brimful.core.recall import Recalled
from brimful.engine.janitor import JanitorReport
from brimful.engine.learning import LearningReport
from brimful.models.registry import Registry
from brimful.records.janitor import JanitorRun
from brimful.server.access import Authenticator
from brimful.server.background import BackgroundTasks, Shutdown
from brimful.server.config import FitConfig
from brimful.server.inspector import queries, record_views, views
from brimful.server.inspector.administration import Administration, JobList, Status, TenantList
from brimful.server.inspector.catalogue import Catalogue, ContentCounter
from brimful.server.inspector.chat import AssembledView, Chat, InspectionView, ReplyList
from brimful.server.inspector.context_cache import ContextCache
from brimful.server.inspector.contexts import Contexts
from brimful.server.inspector.events import Events
from brimful.server.inspector.fitting import Fitting, FitView
from brimful.server.inspector.janitor import JanitorEndpoints, JanitorRuns
from brimful.server.inspector.operation import EVENT_STREAM, Operation, OperationHandler
from brimful.server.inspector.records import LoreEntries, Memories, Messages, make_lorebooks, make_personas, make_rooms
from brimful.server.inspector.search import FindView, Search, SearchView
from brimful.server.inspector.served_models import ServedModels
from brimful.server.inspector.statistics import StatisticsEndpoint, StatisticsList
from brimful.server.inspector.views import Prices
from brimful.server.inspector.what_if import Comparisons
from brimful.server.proxy.fit_mode import RecordWriter
from brimful.server.tenants import Tenants


class Inspector:
    """All endpoints of the inspector."""

    def __init__(  # noqa: PLR0913 - the parts of the server that its endpoints use
        self,
        tenants: Tenants,
        registry: Registry,
        *,
        models: ServedModels,
        tokens: ContentCounter,
        upstreams: Sequence[str],
        fit: FitConfig,
        records: RecordWriter,
        access: Authenticator,
        tasks: BackgroundTasks,
        shutdown: Shutdown,
        running_jobs: Callable[[], int],
        clock: Callable[[], float],
    ) -> None:
        cache, prices = ContextCache(clock), Prices(registry)
        self.contexts = Contexts(tenants, tasks, cache=cache, prices=prices)
        self.events = Events(tenants, prices, access=access, stopping=shutdown.started)
        self.comparisons = Comparisons(tenants, registry, cache=cache)
        self.statistics = StatisticsEndpoint(tenants, clock=clock)
        self.catalogue = Catalogue(registry, tenants, tokens, upstreams=upstreams)
        self.search = Search(tenants, cache)
        self.rooms = make_rooms(tenants, tokens, cache, clock=clock)
        self.messages = Messages(tenants, tokens, cache)
        self.personas = make_personas(tenants, tokens, cache)
        self.memories = Memories(tenants, tokens, cache, clock=clock)
        self.lorebooks = make_lorebooks(tenants, tokens, cache)
        self.entries = LoreEntries(tenants, tokens)
        self.chat = Chat(
            tenants,
            models,
            messages=self.messages,
            tokens=tokens,
            prices=prices,
            stopping=shutdown.forced,
            clock=clock,
        )
        self.janitor = JanitorEndpoints(tenants, models)
        self.administration = Administration(tenants, running_jobs)
        self.fitting = Fitting(tenants, registry, config=fit, records=records, prices=prices, tasks=tasks, clock=clock)


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
        Operation(
            method="POST",
            path="/fit",
            summary="Make a request fit its window",
            scope="chat",
            answer=FitView,
            body=queries.FitBody,
        ),
        lambda to: to.fitting.fit,
    ),
    (
        _get("/contexts", "List contexts, newest first", views.ContextList, queries.ContextsQuery),
        lambda to: to.contexts.list_page,
    ),
    (
        Operation(
            method="GET",
            path="/events",
            summary="Stream contexts and answers",
            scope="read",
            media=EVENT_STREAM,
            headers={"Last-Event-ID": "The id of the last event seen; the stream continues after it."},
        ),
        lambda to: to.events.follow,
    ),
    (
        _get("/contexts/{id}", "Show a context with all its decisions", views.ContextView),
        lambda to: to.contexts.show,
    ),
    (
        _get("/contexts/{id}/request", "Get the request as sent to the provider", None),
        lambda to: to.contexts.request,
    ),
    (
        _get("/contexts/{id}/items/{item:path}", "Show a candidate, or why it was none", views.ItemView),
        lambda to: to.contexts.item,
    ),
    (
        _get("/contexts/{id}/find", "Find what a context left out", FindView, queries.FindQuery),
        lambda to: to.search.find,
    ),
    (
        _get("/contexts/{id}/recall", "Recall what was shortened or left out", Recalled, queries.RecallQuery),
        lambda to: to.contexts.recall,
    ),
    (
        Operation(
            method="POST",
            path="/contexts/{id}/what-if",
            summary="Rebuild with another model, policy, window or reserve, or with pins",
            scope="read",
            answer=views.WhatIf,
            body=queries.WhatIfBody,
        ),
        lambda to: to.comparisons.what_if,
    ),
    (
        Operation(
            method="POST",
            path="/contexts/{id}/usage",
            summary="Report what the provider billed for a context",
            scope="chat",
            answer=views.AnswerView,
            body=queries.UsageBody,
        ),
        lambda to: to.fitting.report_usage,
    ),
    (
        _get("/contexts/{id}/diff/{other}", "Compare two contexts", views.DiffView),
        lambda to: to.comparisons.diff,
    ),
    (
        _get("/statistics", "Get usage statistics", StatisticsList, queries.StatisticsQuery),
        lambda to: to.statistics.show,
    ),
    (_get("/search", "Search everything", SearchView, queries.SearchQuery), lambda to: to.search.show),
    (_get("/models", "List models", views.ModelList), lambda to: to.catalogue.models),
    (_get("/policies", "List policies", views.PolicyList), lambda to: to.catalogue.policies),
    (
        Operation(
            method="POST",
            path="/count",
            summary="Count tokens",
            scope="read",
            answer=views.TextCount,
            body=queries.CountBody,
        ),
        lambda to: to.catalogue.count,
    ),
    (
        Operation(
            method="GET",
            path="/tenants",
            summary="List tenants",
            scope="admin",
            answer=TenantList,
            query=queries.TenantsQuery,
        ),
        lambda to: to.administration.list_tenants,
    ),
    (
        Operation(
            method="GET",
            path="/jobs",
            summary="List background jobs",
            scope="admin",
            answer=JobList,
            query=queries.JobsQuery,
        ),
        lambda to: to.administration.list_jobs,
    ),
    (
        Operation(
            method="GET", path="/status", summary="Show what the process holds in memory", scope="admin", answer=Status
        ),
        lambda to: to.administration.status,
    ),
    (_get("/rooms", "List rooms", record_views.RoomList, queries.ListQuery), lambda to: to.rooms.list_page),
    (_post("/rooms", "Create a room", record_views.RoomView, queries.RoomBody), lambda to: to.rooms.create),
    (
        _get(
            "/rooms/{id:path}/messages",
            "List or search messages",
            record_views.MessageList,
            queries.MessagesQuery,
        ),
        lambda to: to.messages.list_page,
    ),
    (
        _post("/rooms/{id:path}/messages", "Post a message", record_views.MessageView, queries.MessageBody),
        lambda to: to.messages.create,
    ),
    (
        Operation(
            method="POST",
            path="/rooms/{id:path}/respond",
            summary="Post a message and answer it",
            scope="chat",
            answer=ReplyList,
            body=queries.RespondBody,
            streams=True,
        ),
        lambda to: to.chat.respond,
    ),
    (
        Operation(
            method="POST",
            path="/rooms/{id:path}/assemble",
            summary="Build the context for the next answer",
            scope="read",
            answer=AssembledView,
            body=queries.AssembleBody,
        ),
        lambda to: to.chat.assemble,
    ),
    (
        _get("/rooms/{id:path}/inspect", "Preview the next context", InspectionView, queries.BuildQuery),
        lambda to: to.chat.inspect,
    ),
    (
        _get("/rooms/{id:path}/recall", "Recall from a room", Recalled, queries.RoomRecallQuery),
        lambda to: to.chat.recall,
    ),
    (
        Operation(
            method="POST",
            path="/rooms/{id:path}/janitor",
            summary="Clean up a room",
            scope="write",
            answer=JanitorReport,
            body=queries.JanitorBody,
        ),
        lambda to: to.janitor.run,
    ),
    (
        _get("/janitor", "List the janitor's runs", JanitorRuns, queries.JanitorQuery),
        lambda to: to.janitor.list_runs,
    ),
    (
        Operation(
            method="POST",
            path="/janitor/undo",
            summary="Undo the janitor's last run",
            scope="write",
            answer=JanitorRun,
        ),
        lambda to: to.janitor.undo,
    ),
    (
        Operation(
            method="POST",
            path="/learn",
            summary="Learn memories from a conversation",
            scope="write",
            answer=LearningReport,
            body=queries.LearnBody,
        ),
        lambda to: to.janitor.learn,
    ),
    (
        Operation(
            method="POST",
            path="/learn/undo",
            summary="Undo a run that learned memories",
            scope="write",
            answer=JanitorRun,
            body=queries.UndoLearningBody,
        ),
        lambda to: to.janitor.undo_learning,
    ),
    (_get("/rooms/{id:path}", "Show a room", record_views.RoomView, queries.ModelQuery), lambda to: to.rooms.show),
    (_put("/rooms/{id:path}", "Update a room", record_views.RoomView, queries.RoomBody), lambda to: to.rooms.change),
    (_delete("/rooms/{id:path}", "Remove a room and its messages"), lambda to: to.rooms.remove),
    (
        _delete("/messages/{id:path}", "Remove a message", queries.RemoveQuery),
        lambda to: to.messages.remove,
    ),
    (
        _get("/personas", "List personas", record_views.PersonaList, queries.ListQuery),
        lambda to: to.personas.list_page,
    ),
    (
        _post("/personas", "Create a persona", record_views.PersonaView, queries.PersonaBody),
        lambda to: to.personas.create,
    ),
    (
        _get("/personas/{id:path}", "Show a persona", record_views.PersonaView, queries.ModelQuery),
        lambda to: to.personas.show,
    ),
    (
        _put("/personas/{id:path}", "Update a persona", record_views.PersonaView, queries.PersonaBody),
        lambda to: to.personas.change,
    ),
    (_delete("/personas/{id:path}", "Remove a persona"), lambda to: to.personas.remove),
    (
        _get("/memories", "List memories, newest first", record_views.MemoryList, queries.MemoriesQuery),
        lambda to: to.memories.list_page,
    ),
    (
        _post("/memories", "Create a memory", record_views.MemoryView, queries.MemoryBody),
        lambda to: to.memories.create,
    ),
    (
        _get("/memories/{id:path}", "Show a memory", record_views.MemoryView, queries.ModelQuery),
        lambda to: to.memories.show,
    ),
    (
        _put("/memories/{id:path}", "Update, pin or unpin a memory", record_views.MemoryView, queries.MemoryBody),
        lambda to: to.memories.change,
    ),
    (
        Operation(
            method="DELETE",
            path="/memories",
            summary="Remove the memories that match filters",
            scope="write",
            answer=record_views.RemovedMemories,
            query=queries.RemoveMemoriesQuery,
        ),
        lambda to: to.memories.remove_matching,
    ),
    (_delete("/memories/{id:path}", "Remove a memory", queries.RemoveQuery), lambda to: to.memories.remove),
    (
        _get("/lorebooks", "List lorebooks", record_views.LorebookList, queries.ListQuery),
        lambda to: to.lorebooks.list_page,
    ),
    (
        _post("/lorebooks", "Create a lorebook", record_views.LorebookView, queries.LorebookBody),
        lambda to: to.lorebooks.create,
    ),
    (
        _get(
            "/lorebooks/{id:path}/entries", "List the entries of a lorebook", record_views.EntryList, queries.ModelQuery
        ),
        lambda to: to.entries.list_page,
    ),
    (
        _post("/lorebooks/{id:path}/entries", "Create an entry", record_views.EntryView, queries.EntryBody),
        lambda to: to.entries.create,
    ),
    (
        _put("/lorebooks/{id:path}/entries/{entry:path}", "Update an entry", record_views.EntryView, queries.EntryBody),
        lambda to: to.entries.change,
    ),
    (_delete("/lorebooks/{id:path}/entries/{entry:path}", "Remove an entry"), lambda to: to.entries.remove),
    (
        _get("/lorebooks/{id:path}", "Show a lorebook", record_views.LorebookView, queries.ModelQuery),
        lambda to: to.lorebooks.show,
    ),
    (
        _put("/lorebooks/{id:path}", "Update a lorebook", record_views.LorebookView, queries.LorebookBody),
        lambda to: to.lorebooks.change,
    ),
    (_delete("/lorebooks/{id:path}", "Remove a lorebook and its entries"), lambda to: to.lorebooks.remove),
)
