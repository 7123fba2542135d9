"""The inspector and the table of all its operations, from which routes and the OpenAPI description are made."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from operator import attrgetter
from typing import Any, Final

import msgspec

from brimful.core.recall import Recalled
from brimful.engine.janitor import JanitorReport
from brimful.engine.learning import LearningReport
from brimful.models.registry import Registry
from brimful.records.runs import JanitorRun
from brimful.server.access import Authenticator
from brimful.server.background import BackgroundTasks, Shutdown
from brimful.server.config import FitConfig
from brimful.server.inspector import queries, record_views, views
from brimful.server.inspector.administration import Administration, Features, JobList, Reloaded, Status, TenantList
from brimful.server.inspector.agent_runs import AgentRuns, RunDetail
from brimful.server.inspector.audit import Audits
from brimful.server.inspector.catalogue import Catalogue, ContentCounter
from brimful.server.inspector.chat import AssembledView, Chat, InspectionView, ReplyList, ServedModelList
from brimful.server.inspector.context_cache import ContextCache
from brimful.server.inspector.contexts import Contexts
from brimful.server.inspector.events import Events
from brimful.server.inspector.fitting import Fitting, FitView
from brimful.server.inspector.keys import KeyList, Keys, LimitList, NewKey, RevokedKey
from brimful.server.inspector.operation import EVENT_STREAM, Operation, OperationHandler
from brimful.server.inspector.records import LoreEntries, Memories, Messages, make_lorebooks, make_personas, make_rooms
from brimful.server.inspector.request_messages import RequestMessages
from brimful.server.inspector.runs import JanitorEndpoints, JanitorRuns
from brimful.server.inspector.search import FindView, Search, SearchView
from brimful.server.inspector.served_models import ServedModels
from brimful.server.inspector.sessions import SessionList, Sessions, SessionView
from brimful.server.inspector.statistics import StatisticsEndpoint, StatisticsList
from brimful.server.inspector.views import Costs
from brimful.server.inspector.what_if import Comparisons
from brimful.server.limits import Limiter
from brimful.server.proxy.fit_mode import RecordWriter
from brimful.server.proxy.upstreams import UpstreamState
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
        limiter: Limiter,
        access: Authenticator,
        tasks: BackgroundTasks,
        shutdown: Shutdown,
        running_jobs: Callable[[], int],
        upstream_states: Callable[[], Mapping[str, UpstreamState]],
        reload: Callable[[], Awaitable[tuple[str, ...]]],
        sessions: Sessions | None,
        clock: Callable[[], float],
    ) -> None:
        cache, costs = ContextCache(clock), Costs(registry)
        self.contexts = Contexts(tenants, tasks, cache=cache, costs=costs)
        self.runs = AgentRuns(tenants, tasks, costs)
        self.events = Events(tenants, costs, access=access, stopping=shutdown.started)
        self.comparisons = Comparisons(
            tenants, registry, models=models, limiter=limiter, records=records, cache=cache, costs=costs, clock=clock
        )
        self.statistics = StatisticsEndpoint(tenants, clock=clock)
        self.catalogue = Catalogue(registry, tenants, tokens, upstreams=upstreams)
        self.search = Search(tenants, cache)
        self.rooms = make_rooms(tenants, tokens, cache, clock=clock)
        self.messages = Messages(tenants, tokens, cache, costs)
        self.personas = make_personas(tenants, tokens, cache)
        self.memories = Memories(tenants, tokens, cache, clock=clock)
        self.audits = Audits(tenants, self.memories)
        self.lorebooks = make_lorebooks(tenants, tokens, cache)
        self.entries = LoreEntries(tenants, tokens)
        self.chat = Chat(
            tenants,
            models,
            messages=self.messages,
            tokens=tokens,
            costs=costs,
            limiter=limiter,
            stopping=shutdown.forced,
            clock=clock,
        )
        self.janitor = JanitorEndpoints(tenants, models, limiter)
        self.keys = Keys(tenants, limiter, clock=clock)
        self.sessions = sessions
        self.administration = Administration(
            tenants,
            running_jobs=running_jobs,
            upstreams=upstream_states,
            reload=reload,
            has_upstreams=bool(upstreams),
            shows_sessions=sessions is not None,
        )
        self.fitting = Fitting(tenants, registry, config=fit, records=records, costs=costs, tasks=tasks, clock=clock)

    def close(self) -> None:
        """Stop what runs in threads."""
        if self.sessions is not None:
            self.sessions.close()


StructType = type[msgspec.Struct]
Row = tuple[Operation, Callable[[Inspector], OperationHandler]]
"""An operation, and the function that gets its handler from the inspector."""


def _get(
    path: str,
    summary: str,
    handler: str,
    answer: StructType | None = None,
    query: StructType = queries.NoQuery,
    **more: Any,
) -> Row:
    fields = {"method": "GET", "scope": "read", **more}
    return Operation(path=path, summary=summary, answer=answer, query=query, **fields), attrgetter(handler)


def _post(
    path: str, summary: str, handler: str, answer: StructType, body: StructType | None = None, **more: Any
) -> Row:
    return _get(path, summary, handler, answer, body=body, **{"method": "POST", "scope": "write", **more})


def _delete(path: str, summary: str, handler: str, answer: StructType = record_views.Removed, **more: Any) -> Row:
    return _get(path, summary, handler, answer, method="DELETE", scope="write", **more)


_create: Final = partial(_post, query=queries.ModelQuery, status=201)
_put: Final = partial(_post, method="PUT", query=queries.ModelQuery)

OPERATIONS: Final[tuple[Row, ...]] = (
    _post("/fit", "Make a request fit its window", "fitting.fit", FitView, queries.FitBody, scope="chat"),
    _get("/contexts", "List contexts, newest first", "contexts.list_page", views.ContextList, queries.ContextsQuery),
    _get(
        "/events",
        "Stream contexts and answers",
        "events.follow",
        media=EVENT_STREAM,
        headers={"Last-Event-ID": "The id of the last event seen; the stream continues after it."},
    ),
    _get("/contexts/{id}", "Show a context with all its decisions", "contexts.show", views.ContextView),
    _get("/contexts/{id}/request", "Get the request as sent to the provider", "contexts.request"),
    _get("/contexts/{id}/messages", "Show the messages of the request", "contexts.messages", RequestMessages),
    _get("/contexts/{id}/items/{item:path}", "Show a candidate, or why it was none", "contexts.item", views.ItemView),
    _get("/runs/{id}", "Show a run with its steps", "runs.show", RunDetail, queries.RunQuery),
    _get("/contexts/{id}/find", "Find what a context left out", "search.find", FindView, queries.FindQuery),
    _get(
        "/contexts/{id}/recall",
        "Recall what was shortened or left out",
        "contexts.recall",
        Recalled,
        queries.RecallQuery,
    ),
    _post(
        "/contexts/{id}/what-if",
        "Rebuild with another model, policy, window or reserve, or with pins",
        "comparisons.what_if",
        views.WhatIf,
        queries.WhatIfBody,
        scope="read",
    ),
    _post(
        "/contexts/{id}/answer",
        "Answer again, with other settings",
        "comparisons.answer",
        views.AnsweredAgain,
        queries.WhatIfBody,
        scope="chat",
    ),
    _post(
        "/contexts/{id}/usage",
        "Report what the provider billed for a context",
        "fitting.report_usage",
        views.AnswerView,
        queries.UsageBody,
        scope="chat",
    ),
    _post(
        "/answers/{id:path}/feedback",
        "Say what you think of an answer",
        "contexts.rate",
        views.AnswerView,
        queries.FeedbackBody,
    ),
    _get("/contexts/{id}/diff/{other}", "Compare two contexts", "comparisons.diff", views.DiffView),
    _get("/statistics", "Get usage statistics", "statistics.show", StatisticsList, queries.StatisticsQuery),
    _get("/search", "Search everything", "search.show", SearchView, queries.SearchQuery),
    _get("/models", "List models", "catalogue.models", views.ModelList),
    _get("/policies", "List policies", "catalogue.policies", views.PolicyList),
    _post("/count", "Count tokens", "catalogue.count", views.TextCount, queries.CountBody, scope="read"),
    _get("/tenants", "List tenants", "administration.list_tenants", TenantList, queries.TenantsQuery, scope="admin"),
    _get("/jobs", "List background jobs", "administration.list_jobs", JobList, queries.JobsQuery, scope="admin"),
    _get("/status", "Show what the process holds in memory", "administration.status", Status, scope="admin"),
    _post("/reload", "Reload the configuration", "administration.reload", Reloaded, scope="admin"),
    _get("/keys", "List API keys", "keys.list_all", KeyList, queries.PageQuery, scope="keys"),
    _post("/keys", "Make an API key", "keys.create", NewKey, queries.KeyBody, scope="keys", status=201),
    _get("/keys/{id}", "Revoke an API key", "keys.revoke", RevokedKey, method="DELETE", scope="keys"),
    _get("/limits", "List limits and what was used", "keys.list_limits", LimitList, queries.PageQuery, scope="keys"),
    _get("/served-models", "List the models that upstreams offer", "chat.list_models", ServedModelList),
    _get("/features", "Show which optional parts are on", "administration.features", Features),
    _get("/rooms", "List rooms", "rooms.list_page", record_views.RoomList, queries.ListQuery),
    _create("/rooms", "Create a room", "rooms.create", record_views.RoomView, queries.RoomBody),
    _get(
        "/rooms/{id:path}/messages",
        "List or search messages",
        "messages.list_page",
        record_views.MessageList,
        queries.MessagesQuery,
    ),
    _create(
        "/rooms/{id:path}/messages", "Post a message", "messages.create", record_views.MessageView, queries.MessageBody
    ),
    _post(
        "/rooms/{id:path}/respond",
        "Post a message and answer it",
        "chat.respond",
        ReplyList,
        queries.RespondBody,
        scope="chat",
        streams=True,
    ),
    _post(
        "/rooms/{id:path}/assemble",
        "Build the context for the next answer",
        "chat.assemble",
        AssembledView,
        queries.AssembleBody,
        scope="read",
    ),
    _get("/rooms/{id:path}/inspect", "Preview the next context", "chat.inspect", InspectionView, queries.BuildQuery),
    _get("/rooms/{id:path}/recall", "Recall from a room", "chat.recall", Recalled, queries.RoomRecallQuery),
    _post("/rooms/{id:path}/janitor", "Clean up a room", "janitor.run", JanitorReport, queries.JanitorBody),
    _get("/janitor", "List the janitor's runs", "janitor.list_runs", JanitorRuns, queries.JanitorQuery),
    _post("/janitor/undo", "Undo the janitor's last run", "janitor.undo", JanitorRun, query=queries.UndoQuery),
    _get(
        "/audit", "Find memories that are not worth having", "audits.show", record_views.AuditView, queries.AuditQuery
    ),
    _post("/audit", "Archive memories", "audits.archive", record_views.ArchivedMemories, queries.ArchiveBody),
    _post("/learn", "Learn memories from a conversation", "janitor.learn", LearningReport, queries.LearnBody),
    _post(
        "/learn/undo", "Undo a run that learned memories", "janitor.undo_learning", JanitorRun, queries.UndoLearningBody
    ),
    _get("/rooms/{id:path}", "Show a room", "rooms.show", record_views.RoomView, queries.ModelQuery),
    _put("/rooms/{id:path}", "Update a room", "rooms.change", record_views.RoomView, queries.RoomBody),
    _delete("/rooms/{id:path}", "Remove a room and its messages", "rooms.remove"),
    _put("/messages/{id:path}", "Edit a message", "messages.change", record_views.MessageView, queries.EditBody),
    _delete("/messages/{id:path}", "Remove a message", "messages.remove", query=queries.RemoveQuery),
    _get("/personas", "List personas", "personas.list_page", record_views.PersonaList, queries.ListQuery),
    _create("/personas", "Create a persona", "personas.create", record_views.PersonaView, queries.PersonaBody),
    _get("/personas/{id:path}", "Show a persona", "personas.show", record_views.PersonaView, queries.ModelQuery),
    _put("/personas/{id:path}", "Update a persona", "personas.change", record_views.PersonaView, queries.PersonaBody),
    _delete("/personas/{id:path}", "Remove a persona", "personas.remove"),
    _get(
        "/memories", "List memories, newest first", "memories.list_page", record_views.MemoryList, queries.MemoriesQuery
    ),
    _post("/memories/review", "Confirm or reject proposed memories", "memories.review", JanitorRun, queries.ReviewBody),
    _create("/memories", "Create a memory", "memories.create", record_views.MemoryView, queries.MemoryBody),
    _get(
        "/memories/{id:path}/chain",
        "Show what a memory replaced, and what replaced it",
        "memories.chain",
        record_views.MemoryChain,
        queries.ModelQuery,
    ),
    _get("/memories/{id:path}", "Show a memory", "memories.show", record_views.MemoryView, queries.ModelQuery),
    _put(
        "/memories/{id:path}",
        "Update, pin or unpin a memory",
        "memories.change",
        record_views.MemoryView,
        queries.MemoryBody,
    ),
    _delete(
        "/memories",
        "Remove the memories that match filters",
        "memories.remove_matching",
        record_views.RemovedMemories,
        query=queries.RemoveMemoriesQuery,
    ),
    _delete("/memories/{id:path}", "Remove a memory", "memories.remove", query=queries.RemoveQuery),
    _get("/lorebooks", "List lorebooks", "lorebooks.list_page", record_views.LorebookList, queries.ListQuery),
    _create("/lorebooks", "Create a lorebook", "lorebooks.create", record_views.LorebookView, queries.LorebookBody),
    _get(
        "/lorebooks/{id:path}/entries",
        "List the entries of a lorebook",
        "entries.list_page",
        record_views.EntryList,
        queries.ModelQuery,
    ),
    _create(
        "/lorebooks/{id:path}/entries", "Create an entry", "entries.create", record_views.EntryView, queries.EntryBody
    ),
    _put(
        "/lorebooks/{id:path}/entries/{entry:path}",
        "Update an entry",
        "entries.change",
        record_views.EntryView,
        queries.EntryBody,
    ),
    _delete("/lorebooks/{id:path}/entries/{entry:path}", "Remove an entry", "entries.remove"),
    _get("/lorebooks/{id:path}", "Show a lorebook", "lorebooks.show", record_views.LorebookView, queries.ModelQuery),
    _put(
        "/lorebooks/{id:path}", "Update a lorebook", "lorebooks.change", record_views.LorebookView, queries.LorebookBody
    ),
    _delete("/lorebooks/{id:path}", "Remove a lorebook and its entries", "lorebooks.remove"),
)

LOCAL_OPERATIONS: Final[tuple[Row, ...]] = (
    _get("/sessions", "List sessions of coding agents", "sessions.list_page", SessionList, queries.SessionsQuery),
    _get("/sessions/{id}", "Show a session", "sessions.show", SessionView),
)
"""Operations with the setting `sessions`, for local use."""
