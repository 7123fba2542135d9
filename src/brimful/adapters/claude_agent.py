"""Claude Agent SDK: transcripts in rooms of the engine, and memories beside the user's prompts."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final
from urllib.parse import quote, unquote
from uuid import uuid4
from weakref import WeakValueDictionary

import msgspec

from brimful import Engine, SyncEngine
from brimful.adapters.fitter import arun, read_newest, require_engine
from brimful.assembly.assemble import counter as counter_for
from brimful.assembly.memory_text import render_memories
from brimful.cache import LRU
from brimful.core.validation import is_whole_number, preview
from brimful.errors import InvalidValue, MissingExtra
from brimful.formats.lenient import as_dict
from brimful.records import Memory, Message, Room
from brimful.sessions.lines import text_of, time_of

try:
    from claude_agent_sdk import (
        SessionKey,
        SessionListSubkeysKey,
        SessionStore,
        SessionStoreEntry,
        SessionStoreListEntry,
        SessionSummaryEntry,
        fold_session_summary,
    )
except ImportError as error:
    raise MissingExtra("claude-agent", "the adapter for the Claude Agent SDK") from error

MemoryHook = Callable[[Any, str | None, Any], Awaitable[dict[str, Any]]]

_ROOT: Final = "claude"  # of the names of all rooms with transcripts
_SESSION_PARTS: Final = 3  # of the name of a session's own room: root, project and session
_PAGE: Final = 500  # records
_MAX_SESSIONS: Final = 1_000


class BrimfulSessionStore(SessionStore):
    """Mirrors the transcripts of Claude's sessions in rooms, in which the texts of user and assistant can be searched.

    A session is a room, and so is each of its subagents: `room_for(key)` is its name. Rooms belong to `user`, if there
    is one.
    """

    def __init__(self, engine: Engine | SyncEngine, *, user: str | None = None) -> None:
        self._engine = require_engine(engine)
        self._user = user
        self._appending: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def append(self, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        """Append entries to a transcript. One with the `uuid` of an earlier one is ignored."""
        if entries:
            await arun(self._engine, lambda engine: self._append(engine, key, entries))

    async def load(self, key: SessionKey) -> list[SessionStoreEntry] | None:
        """Return all entries of a transcript, or None if there are none."""
        return await arun(self._engine, lambda engine: _load(engine, room_for(key)))

    async def list_sessions(self, project_key: str) -> list[SessionStoreListEntry]:
        """Return the sessions of a project, with the times of their last changes."""
        return [
            {"session_id": summary["session_id"], "mtime": summary["mtime"]}
            for summary in await self.list_session_summaries(project_key)
        ]

    async def list_session_summaries(self, project_key: str) -> list[SessionSummaryEntry]:
        """Return the summaries of a project's sessions, as the SDK made them."""
        rooms = await arun(self._engine, lambda engine: _list_rooms(engine, f"{_name(_ROOT, project_key)}/"))
        return [
            json.loads(room.metadata["summary"])
            for room in rooms
            if len(room.id.split("/")) == _SESSION_PARTS and "summary" in room.metadata
        ]

    async def delete(self, key: SessionKey) -> None:
        """Delete a session and the transcripts of its subagents; with a `subpath`, only that transcript."""
        await arun(self._engine, lambda engine: _delete(engine, key))

    async def list_subkeys(self, key: SessionListSubkeysKey) -> list[str]:
        """Return the subpaths of the transcripts of a session's subagents."""
        prefix = f"{_name(_ROOT, key['project_key'], key['session_id'])}/"
        rooms = await arun(self._engine, lambda engine: _list_rooms(engine, prefix))
        return [unquote(room.id.removeprefix(prefix), errors="surrogatepass") for room in rooms]

    async def _append(self, engine: Engine, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        name = room_for(key)
        async with self._appending.setdefault(name, asyncio.Lock()):  # summaries are read, changed and written
            now = time.time()
            room = await engine.store.get(Room, name)
            if room is None:
                room = Room(id=name, user=self._user, created=now)
                await engine.put(room)
            await engine.post_many([_make_message(name, entry, now) for entry in entries])
            if key.get("subpath") is None:
                known = room.metadata.get("summary")
                summary = fold_session_summary(None if known is None else json.loads(known), key, entries)
                changed = json.dumps({**summary, "mtime": int(now * 1000)})
                await engine.put(msgspec.structs.replace(room, metadata={**room.metadata, "summary": changed}))


def room_for(key: SessionKey) -> str:
    """Return the room with a transcript.

    >>> room_for({"project_key": "shop", "session_id": "s-1", "subpath": "subagents/agent-1"})
    'claude/shop/s-1/subagents%2Fagent-1'
    """
    return _name(_ROOT, key["project_key"], key["session_id"], *([key["subpath"]] if "subpath" in key else []))


def memory_hook(
    engine: Engine | SyncEngine,
    *,
    budget: int = 500,
    model: str = "claude-sonnet-4-5",
    user: str | None = None,
    persona: str | None = None,
    limit: int = 20,
) -> MemoryHook:
    """Return a hook for `UserPromptSubmit` that adds the memories that match the prompt, in at most `budget` tokens.

    A memory is added once in a session. Use the hook for `PreCompact` as well: then memories are added again after
    Claude has compacted the session.
    """
    require_engine(engine)
    if not is_whole_number(budget):
        raise InvalidValue("budget", f"must be a positive whole number of tokens, not {preview(budget)}")
    counter = counter_for(model)
    sessions: LRU[str, set[str]] = LRU(max_entries=_MAX_SESSIONS, name="claude-sessions", size=lambda _, ids: len(ids))

    async def add_memories(input: Mapping[str, Any], _tool_use_id: str | None, _context: object) -> dict[str, Any]:
        session, event = str(input.get("session_id")), input.get("hook_event_name")
        if event != "UserPromptSubmit":
            sessions.pop(session)
            return {}
        prompt = input["prompt"]
        found = await arun(engine, lambda opened: opened.search(prompt, user=user, persona=persona, limit=limit))
        known = sessions.get(session) or set()
        memories = [hit.record for hit in found if isinstance(hit.record, Memory) and hit.record.id not in known]
        text, added = await asyncio.to_thread(render_memories, memories, prompt, budget, counter)
        sessions[session] = known | added
        if not added:
            return {}
        return {"hookSpecificOutput": {"hookEventName": event, "additionalContext": text}}

    return add_memories


def _make_message(room: str, entry: SessionStoreEntry, now: float) -> Message:
    """Return the message for an entry. Only texts of user and assistant are visible in the room."""
    role, text = entry.get("type"), text_of(as_dict(entry.get("message")).get("content"))
    is_said = role in ("user", "assistant") and bool(text.strip()) and not entry.get("isMeta")
    return Message(
        id=f"{room}/{_name(str(entry.get('uuid') or uuid4()))}",
        room=room,
        content=text if is_said else f"[{role}]",
        role="assistant" if role == "assistant" else "user",
        at=time_of(entry) or now,
        hidden=not is_said,
        metadata={"entry": json.dumps(entry)},  # a string, since it may hold what a store does not: lone surrogates …
    )


async def _load(engine: Engine, room: str) -> list[SessionStoreEntry] | None:
    messages = await read_newest(engine, room)
    return [json.loads(message.metadata["entry"]) for message in reversed(messages)] or None


async def _delete(engine: Engine, key: SessionKey) -> None:
    name = room_for(key)
    parts = [] if "subpath" in key else await _list_rooms(engine, f"{name}/")
    for id in [name, *(room.id for room in parts)]:
        await engine.store.remove(Room, id)


async def _list_rooms(engine: Engine, prefix: str) -> list[Room]:
    """Return all rooms whose names begin with a prefix."""
    found: list[Room] = []
    after = prefix
    while page := await engine.store.list_records(Room, after=after, limit=_PAGE):
        found += [room for room in page if room.id.startswith(prefix)]
        after = page[-1].id
        if not after.startswith(prefix):
            break
    return found


def _name(*parts: str) -> str:
    return "/".join(quote(part, safe="", errors="surrogatepass") for part in parts)
