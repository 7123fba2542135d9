"""Recall what a context left out, and what was never a candidate, within what its room, persona and user may see."""

from collections.abc import Sequence
from typing import Final

import msgspec

from brimful.assembly.assemble import check_recall, counter_of, find_item
from brimful.core.content import ContentPackage
from brimful.core.context import Context
from brimful.core.model import ModelInfo
from brimful.core.prompt import TokenCounter
from brimful.core.recall import Item, Recalled, hidden_items, rank_items, recall_best, recall_item
from brimful.counting import counter_for
from brimful.engine.builder import Builder
from brimful.engine.options import EngineSettings, require_string
from brimful.engine.personas import as_seen_by
from brimful.engine.responder import find_snapshot
from brimful.errors import ContentErased, InvalidValue, UnknownRecord
from brimful.packagers.records import package_memory, package_message, package_summary, record_id
from brimful.records import Memory, Message, Persona, Room
from brimful.retrieval.queries import make_queries
from brimful.retrieval.retriever import Retriever
from brimful.retrieval.search import Hit, SearchRequest, memory_scopes
from brimful.stores import Store
from brimful.threads import run_in_thread

_MAX_HITS: Final = 20
_RECENT_CONTEXTS: Final = 20  # in which a handle is looked up, newest first


class Viewer(msgspec.Struct, frozen=True, kw_only=True):
    """On whose behalf something is recalled. A context has the room, persona and user that it was built for."""

    room: str
    persona: str | None
    user: str | None
    counter: TokenCounter
    context: Context | None = None

    @property
    def scopes(self) -> tuple[str, ...]:
        """The scopes whose memories they may see."""
        return memory_scopes(self.persona, self.user, self.room)


class Recaller:
    """Recalls items of one tenant."""

    def __init__(self, store: Store, retriever: Retriever, settings: EngineSettings, builder: Builder) -> None:
        self._store = store
        self._retriever = retriever
        self._settings = settings
        self._builder = builder

    async def recall(
        self,
        handle: str,
        *,
        query: str,
        max_tokens: int,
        context: Context | str | None,
        room: str | None,
        persona: str | None,
        user: str | None,
        model: str | ModelInfo | None,
    ) -> Recalled:
        """Return an item by handle; without one, the best passages of what matches the query."""
        check_recall(handle, query, max_tokens)
        for field, value in (("room", room), ("persona", persona), ("user", user)):
            require_string(field, value)
        if context is not None:
            viewer = await self._view_context(context)
        elif room is not None:
            viewer = await self._view_room(room, persona, user, model)
        else:
            raise InvalidValue("context", "pass a context, or a room")
        if handle:
            item = await self._find(viewer, handle)
            return await run_in_thread(recall_item, item, query, max_tokens, viewer.counter)
        items = await self._search(viewer, query)
        return await run_in_thread(recall_best, items, query, max_tokens, viewer.counter)

    async def _view_context(self, context: Context | str) -> Viewer:
        snapshot = await find_snapshot(self._store, context)
        return Viewer(
            room=snapshot.room,
            persona=snapshot.persona,
            user=snapshot.user,
            counter=await run_in_thread(counter_of, snapshot.context),
            context=snapshot.context,
        )

    async def _view_room(
        self, room: str, persona: str | None, user: str | None, model: str | ModelInfo | None
    ) -> Viewer:
        """Return who sees a room: by default its own persona and user, as in a build."""
        stored = await self._store.require(Room, room)
        name = stored.persona if persona is None else persona
        info = self._builder.choose_model(model, None if name is None else await self._store.get(Persona, name))
        counter = await run_in_thread(counter_for, info)
        return Viewer(room=room, persona=name, user=user or stored.user, counter=counter)

    # -- by handle ---------------------------------------------------------------------------------------------------

    async def _find(self, viewer: Viewer, handle: str) -> Item:
        """Return an item of the context, of the store, or of an earlier context of the same participants."""
        context = viewer.context
        if context is not None and (handle in context.items or handle in context.decisions_by_id):
            return await self._require_present(context, find_item(context, handle))
        if context is not None and context.inputs.is_fitted:  # a client's own request has nothing in the store
            return find_item(context, handle)
        package = await self._find_record(viewer, record_id(handle))
        if package is not None:
            return Item(handle=handle, package=package)
        builds = await self._store.builds(room=viewer.room, persona=viewer.persona, limit=_RECENT_CONTEXTS)
        for build in builds:
            if (build.persona, build.user) != (viewer.persona, viewer.user) or not build.recorded:
                continue  # it may hold what this persona or user may not see
            snapshot = await self._store.snapshot(build.id)
            if snapshot is not None and handle in snapshot.context.items:
                return await self._require_present(snapshot.context, find_item(snapshot.context, handle))
        if context is not None:
            return find_item(context, handle)  # raises an error that names similar handles
        raise UnknownRecord("handle", handle)

    async def _find_record(self, viewer: Viewer, id: str) -> ContentPackage | None:
        """Return a message, memory or summary that the viewer may see; None if there is none."""
        if await self._store.deleted_messages([id], room=viewer.room):
            raise ContentErased("message", id)
        for message in await self._store.messages([id]):
            # A superseded message was replaced by another one; other hidden messages are not for the model.
            if message.room == viewer.room and (message.superseded or not message.hidden):
                return await self._package(viewer, message)
        for memory in await self._store.memories(ids=[id], scopes=viewer.scopes, limit=1):
            return await self._package(viewer, memory)
        for summary in await self._store.summaries(viewer.room):
            if summary.id == id:
                return await run_in_thread(package_summary, summary, counter=viewer.counter)
        return None

    async def _package(self, viewer: Viewer, record: Message | Memory) -> ContentPackage:
        if isinstance(record, Memory):
            return await run_in_thread(package_memory, record, counter=viewer.counter)
        persona = None if viewer.persona is None else await self._store.get(Persona, viewer.persona)
        [message] = as_seen_by([record], persona or (Persona(id=viewer.persona) if viewer.persona else None))
        return await run_in_thread(package_message, message, counter=viewer.counter)

    async def _require_present(self, context: Context, item: Item) -> Item:
        """Return a candidate, unless its record was deleted since: then it must not be shown again."""
        if not await self._list_present(context, [item]):
            raise ContentErased(item.package.kind, item.package.id)
        return item

    async def _list_present(self, context: Context, items: Sequence[Item]) -> list[Item]:
        """Return the items whose records were not deleted since. A fitted request was never stored."""
        if context.inputs.is_fitted:
            return list(items)
        ids = [record_id(item.package.id) for item in items]
        deleted = set(await self._store.deleted_messages(ids))
        memories = [id for id, item in zip(ids, items, strict=True) if item.package.kind.startswith("memory-")]
        stored = {each.id for each in await self._store.memories(ids=memories, limit=len(memories))}
        gone = deleted | (set(memories) - stored)
        return [item for id, item in zip(ids, items, strict=True) if id not in gone]

    # -- by query ----------------------------------------------------------------------------------------------------

    async def _search(self, viewer: Viewer, query: str) -> list[Item]:
        """Return what matches the query best: of what the context left out, and of everything in the store."""
        context = viewer.context
        candidates = [] if context is None else list(context.items.values())
        fitted = context is not None and context.inputs.is_fitted
        hits = [] if fitted else await self._search_store(viewer, query)
        known = {record_id(item.package.id) for item in candidates}
        relevance = {hit.record.id: hit.relevance for hit in hits}
        hidden = [
            msgspec.structs.replace(item, relevance=relevance.get(record_id(item.package.id), 0.0))
            for item in hidden_items(candidates)
        ]
        fresh = [
            Item(handle=hit.record.id, package=await self._package(viewer, hit.record), relevance=hit.relevance)
            for hit in hits
            if isinstance(hit.record, Message | Memory) and hit.record.id not in known
        ]
        ranked = (await run_in_thread(rank_items, [*hidden, *fresh], query))[: 2 * _MAX_HITS]
        if context is None:
            return ranked
        own = [item for item in ranked if item.decision is not None]
        present = {item.handle for item in await self._list_present(context, own)}
        return [item for item in ranked if item.decision is None or item.handle in present]

    async def _search_store(self, viewer: Viewer, query: str) -> Sequence[Hit]:
        request = SearchRequest(room=viewer.room, memories=viewer.scopes, limit=_MAX_HITS)
        result = await self._retriever.retrieve(make_queries(query), request, now=self._settings.clock())
        return result.hits
