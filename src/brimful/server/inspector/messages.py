"""What was said in rooms: read, searched, taken out."""

from collections.abc import Sequence

from brimful.errors import UnknownRecord
from brimful.records import Message, Room
from brimful.server.inspector.inquiry import Inquiry
from brimful.server.inspector.kept import MessageList, MessageView, Removed
from brimful.server.inspector.loaded import Loaded
from brimful.server.inspector.queries import MessagesQuery, RemoveQuery
from brimful.server.inspector.shelf import shown_as
from brimful.server.inspector.tokens import Tokens
from brimful.server.tenants import Tenants


class Messages:
    """Shows messages."""

    def __init__(self, tenants: Tenants, tokens: Tokens, loaded: Loaded) -> None:
        """Take the stores."""
        self._tenants = tenants
        self._tokens = tokens
        self._loaded = loaded

    async def listed(self, inquiry: Inquiry) -> MessageList:
        """List the messages of a room, newest first, or those that matter for what is searched for, the best first."""
        query: MessagesQuery = inquiry.query
        store, room = self._tenants.store(inquiry.tenant), inquiry.name()
        if await store.get(Room, room) is None:
            raise UnknownRecord("room", room)
        if query.q.strip():
            return await self._found(inquiry.tenant, room, query)
        page = [entry.message for entry in await store.history(room, before=query.before, limit=query.limit)]
        after = page[-1].seq if len(page) == query.limit else None
        return MessageList(messages=await self._shown(page, [None] * len(page), query.model), next=after)

    async def remove(self, inquiry: Inquiry) -> Removed:
        """Take a message out of its room."""
        query: RemoveQuery = inquiry.query
        engine, id = await self._tenants.engine(inquiry.tenant), inquiry.name()
        await engine.delete(id, erase=query.erase)
        self._loaded.drop(inquiry.tenant)
        return Removed(id=id)

    async def _found(self, tenant: str, room: str, query: MessagesQuery) -> MessageList:
        engine = await self._tenants.engine(tenant)
        found = await engine.search(query.q, room=room, limit=query.limit)
        hits = [(hit.record, hit.relevance) for hit in found.hits if isinstance(hit.record, Message)][: query.limit]
        shown = await self._shown([record for record, _ in hits], [relevance for _, relevance in hits], query.model)
        return MessageList(messages=shown, next=None)

    async def _shown(
        self, messages: Sequence[Message], relevances: Sequence[float | None], model: str | None
    ) -> tuple[MessageView, ...]:
        counts = await self._tokens.of([message.content for message in messages], model)
        return tuple(
            shown_as(MessageView, message, tokens=count, relevance=relevance)
            for message, count, relevance in zip(messages, counts, relevances, strict=True)
        )
