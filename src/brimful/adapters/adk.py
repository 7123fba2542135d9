"""Google ADK: a plugin that fits every request of an app's agents, and a memory service."""

import hashlib
import time
import uuid
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, Unpack
from urllib.parse import quote

import msgspec

from brimful.adapters.fitter import Fitted, Fitter, RequestDetails, WireMessage, arun, require_engine
from brimful.assembly.fit import FitOptions
from brimful.cache import LRU
from brimful.engine import Engine, SyncEngine
from brimful.errors import InvalidValue, MissingExtra
from brimful.records import Memory, Usage

try:
    from google.adk.agents.callback_context import CallbackContext
    from google.adk.agents.invocation_context import InvocationContext
    from google.adk.events.event import Event
    from google.adk.memory.base_memory_service import BaseMemoryService, SearchMemoryResponse
    from google.adk.memory.memory_entry import MemoryEntry
    from google.adk.models.llm_request import LlmRequest
    from google.adk.models.llm_response import LlmResponse
    from google.adk.plugins.base_plugin import BasePlugin
    from google.adk.sessions.session import Session
    from google.genai import types
except ImportError as error:
    raise MissingExtra("adk", "brimful.adapters.adk") from error

_DELETED_ROOM: Final = "adk:deleted"  # no search includes it
_MAX_CALLS: Final = 1_000  # that wait for a response; a run that is cancelled does not say so
_MAX_READ: Final = 500  # memories that are read at once


class _Call(msgspec.Struct, frozen=True):
    """A call of a model that waits for its response."""

    contents: list[Any]  # before they were fitted
    messages: list[list[WireMessage]]
    details: RequestDetails
    fitted: Fitted


class BrimfulPlugin(BasePlugin):
    """Fits the contents of every request, and records its usage.

    `App(plugins=[BrimfulPlugin()])`. The options are the same as for `brimful.fit`. The session is never changed.
    """

    def __init__(
        self, name: str = "brimful", *, engine: Engine | SyncEngine | None = None, **options: Unpack[FitOptions]
    ) -> None:
        super().__init__(name)
        self._fitter = Fitter(engine=engine, **options)
        self._calls: LRU[tuple[str, str], _Call] = LRU(max_entries=_MAX_CALLS)

    async def before_model_callback(self, *, callback_context: CallbackContext, llm_request: LlmRequest) -> None:
        """Fit a request."""
        contents, config = llm_request.contents, llm_request.config
        messages = [[_dump(content)] for content in contents]
        details = RequestDetails(
            conversation=_conversation_of(callback_context),
            model=llm_request.model or "",
            system=_read_instruction(config.system_instruction),
            tools=[_dump(tool) for tool in config.tools or () if isinstance(tool, types.Tool)],
            max_output=config.max_output_tokens,
            pin=range(getattr(llm_request, "_static_instruction_prefix_end_index", None) or 0),
            wire="gemini",
        )
        fitted = await self._fitter.afit(messages, **details)
        llm_request.contents = _rebuild(fitted, contents)
        self._calls[_call_key(callback_context)] = _Call(contents, messages, details, fitted)

    async def after_model_callback(self, *, callback_context: CallbackContext, llm_response: LlmResponse) -> None:
        """Record the usage that a response reports. In a stream, the last part of a response has it."""
        if llm_response.partial:
            return
        call = self._calls.pop(_call_key(callback_context))
        if call is not None and (usage := _read_usage(llm_response.usage_metadata)) is not None:
            await self._fitter.aobserve(call.fitted, usage=usage, model=llm_response.model_version or "")

    async def on_model_error_callback(
        self, *, callback_context: CallbackContext, llm_request: LlmRequest, error: Exception
    ) -> LlmResponse | None:
        """Fit a request again that the provider refused as too long, and send it once more."""
        key = _call_key(callback_context)
        call = self._calls.pop(key)
        if call is None:
            return None
        fitted = await self._fitter.arefit(call.messages, call.fitted, error, **call.details)
        if fitted is None:
            return None
        llm_request.contents = _rebuild(fitted, call.contents)
        self._calls[key] = msgspec.structs.replace(call, fitted=fitted)
        agent: Any = callback_context.get_invocation_context().agent
        model = await agent.canonical_model_async(callback_context)
        responses = [response async for response in model.generate_content_async(llm_request, stream=False)]
        return responses[-1] if responses else None

    async def after_run_callback(self, *, invocation_context: InvocationContext) -> None:
        """Forget calls that had no response."""
        for key in [key for key in self._calls if key[0] == invocation_context.invocation_id]:
            self._calls.pop(key)


def _rebuild(fitted: Fitted, contents: list[types.Content]) -> list[types.Content]:
    return fitted.rebuild(contents, shorten=_shorten, add=types.UserContent)


def _shorten(content: types.Content, wire: Sequence[dict[str, Any]]) -> types.Content:
    """Return a copy of a content with shorter texts."""
    return content.model_copy(update={"parts": types.Content.model_validate(wire[0]).parts})


def _dump(value: types.Content | types.Tool) -> dict[str, Any]:
    """Return a value as JSON in Gemini's format."""
    dumped: dict[str, Any] = value.model_dump(mode="json", by_alias=True, exclude_none=True)
    return dumped


def _read_instruction(value: object) -> str | None:
    """Return the text of a system instruction, which ADK keeps as a string unless an agent's own config has another."""
    match value:
        case None | str():
            return value
        case types.Content():
            return _read_instruction(value.parts or [])
        case types.Part():
            return value.text or ""
        case list():
            return "\n\n".join(text for each in value if (text := _read_instruction(each)))
        case _:
            raise InvalidValue("system_instruction", f"must be text, not {type(value).__name__}")


def _read_usage(reported: types.GenerateContentResponseUsageMetadata | None) -> Usage | None:
    if reported is None or not reported.prompt_token_count:
        return None
    thoughts = reported.thoughts_token_count or 0
    return Usage(
        prompt=reported.prompt_token_count,
        cached=reported.cached_content_token_count or 0,
        completion=(reported.candidates_token_count or 0) + thoughts,
        reasoning=thoughts,
    )


def _call_key(context: CallbackContext) -> tuple[str, str]:
    """Return what identifies a call of a model until its response: agents run in parallel in branches of their own."""
    return context.invocation_id, f"{context.branch or ''}/{context.agent_name}"


def _conversation_of(context: CallbackContext) -> str:
    """Return the id of a conversation. Sessions of two users may have the same id, and each agent has its own view."""
    session = context.session
    names = (session.app_name, session.user_id, session.id, context.agent_name)
    return "/".join(quote(name, safe="") for name in names)


# -- memory ------------------------------------------------------------------------------------------------------------


class BrimfulMemoryService(BaseMemoryService):
    """Remembers the texts of sessions, and finds them by words and meaning.

    A memory belongs to an app, as its persona, and to a user: nobody else finds it. Memories that you write yourself
    are found, too, such as `engine.remember("…", persona="my_app")`. A search returns at most `limit` memories, with
    at least `min_relevance`.
    """

    def __init__(self, engine: Engine | SyncEngine, *, limit: int = 10, min_relevance: float | None = None) -> None:
        self._engine = require_engine(engine)
        self._limit = limit
        self._min_relevance = min_relevance

    async def add_session_to_memory(self, session: Session) -> None:
        """Add the texts of a session. Those that were added before, or deleted since, are skipped."""
        await self.add_events_to_memory(
            app_name=session.app_name, user_id=session.user_id, events=session.events, session_id=session.id
        )

    async def add_events_to_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        events: Sequence[Event],
        session_id: str | None = None,
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Add the texts of events. Those that were added before, or deleted since, are skipped."""
        session = {"session": session_id} if session_id else {}
        made = [
            _make_memory(
                (app_name, user_id, event.id),
                event.content,
                at=event.timestamp,
                author=event.author,
                custom={**session, **(custom_metadata or {})},
            )
            for event in events
        ]
        await self._add([memory for memory in made if memory.content])

    async def add_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        memories: Sequence[MemoryEntry],
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Add memories. One whose id was added before, or deleted since, is skipped."""
        made = [
            _make_memory(
                (app_name, user_id, entry.id or uuid.uuid4().hex),
                entry.content,
                at=time.time() if entry.timestamp is None else _parse_time(entry.timestamp),
                author=entry.author,
                custom={**entry.custom_metadata, **(custom_metadata or {})},
            )
            for entry in memories
        ]
        if any(not memory.content for memory in made):
            raise InvalidValue("memories", "must have texts: other content cannot be searched")
        await self._add(made)

    async def search_memory(self, *, app_name: str, user_id: str, query: str) -> SearchMemoryResponse:
        """Return what a user of an app may know about a query, most relevant first."""
        found = await arun(
            self._engine,
            lambda engine: engine.search(
                query, persona=app_name, user=user_id, limit=self._limit, min_relevance=self._min_relevance
            ),
        )
        records = (hit.record for hit in found)
        return SearchMemoryResponse(memories=[_make_entry(record) for record in records if isinstance(record, Memory)])

    async def delete_memory(self, *, app_name: str, user_id: str, memory_id: str | None = None) -> None:
        """Delete a memory of this service. A session that has its event does not add it again."""
        if not memory_id:
            return
        id = _make_id(app_name, user_id, memory_id)
        known = await arun(self._engine, lambda engine: engine.store.memories(ids=[id]))
        if known and not known[0].metadata.get("deleted"):
            mark = Memory(id=id, content="(deleted)", room=_DELETED_ROOM, metadata={"deleted": True})
            await arun(self._engine, lambda engine: engine.remember_many([mark]))

    async def _add(self, memories: Sequence[Memory]) -> None:
        await arun(self._engine, lambda engine: _add_new(engine, {memory.id: memory for memory in memories}))


async def _add_new(engine: Engine, memories: dict[str, Memory]) -> None:
    """Add those memories that the store does not have."""
    ids, known = list(memories), set[str]()
    for start in range(0, len(ids), _MAX_READ):
        part = ids[start : start + _MAX_READ]
        known.update(memory.id for memory in await engine.store.memories(ids=part, limit=len(part)))
    if new := [memory for id, memory in memories.items() if id not in known]:
        await engine.remember_many(new)


def _make_memory(
    key: tuple[str, str, str],
    content: types.Content | None,
    *,
    at: float,
    author: str | None,
    custom: Mapping[str, object],
) -> Memory:
    parts = (content.parts if content else None) or ()
    return Memory(
        id=_make_id(*key),
        content="\n".join(part.text for part in parts if part.text and not part.thought),
        type="episodic",
        persona=key[0],
        user=key[1],
        source="adk",
        at=at,
        metadata={**custom, "adk": {"id": key[2], "author": author, "role": content.role if content else None}},
    )


def _make_id(app_name: str, user_id: str, id: str) -> str:
    """Return the id of a memory: ids of events may be the same for several apps and users."""
    digest = hashlib.blake2b(msgspec.json.encode((app_name, user_id, id)), digest_size=16)
    return f"adk-{digest.hexdigest()}"


def _make_entry(memory: Memory) -> MemoryEntry:
    custom = dict(memory.metadata)
    own = custom.pop("adk", {})
    return MemoryEntry(
        id=own.get("id", memory.id),
        author=own.get("author"),
        content=types.Content(role=own.get("role"), parts=[types.Part(text=memory.content)]),
        custom_metadata=custom,
        timestamp=datetime.fromtimestamp(memory.at, UTC).isoformat(),
    )


def _parse_time(text: str) -> float:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise InvalidValue("timestamp", f"must be in ISO 8601, not {text!r}") from error
    return moment.timestamp()
