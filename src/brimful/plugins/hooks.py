"""Answer the hooks of Claude Code, Codex and Qwen Code.

When a large result of a tool arrives, it is replaced by a shorter form with a handle, and the original is stored.
Nothing is changed after that, so every request begins with the one before it. A hook runs for every call of a tool, so
what is slow to import is imported when it is needed.
"""

import asyncio
import json
import re
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

from brimful.errors import InvalidValue, MissingExtra
from brimful.plugins.sessions import SessionLog, store_url
from brimful.plugins.shortener import Original, ResultShortener
from brimful.plugins.tool_results import is_foreign, plain_result, shorten_result

if TYPE_CHECKING:
    from brimful.stores import Store

Program = Literal["claude-code", "codex", "qwen-code"]

MIN_LIMIT: Final = 200  # tokens; a form of fewer says too little
_MEMORY_TOKENS: Final = 500  # beside a prompt
_MAX_MEMORIES: Final = 20
_MAX_PROMPT: Final = 8_000  # characters of a prompt in the log
_MAX_TASK: Final = 2_000  # characters of the task in an answer
_MAX_HANDLES: Final = 40  # that are listed after a compaction: the newest
_TAIL: Final = 4_000_000  # bytes at the end of Codex's session file, with the last command and its output
_EXIT_CODE: Final = re.compile(rb'"exit_code":\s*(-?\d+)')
_HOW: Final = (
    "call the tool `recall` of the MCP server `brimful` with that handle, and with a query or a larger budget if it is"
    " long"
)


def answer_event(event: Mapping[str, Any], program: str, folder: Path, limit: int) -> str:
    """Return what to print for an event: JSON, or plain text for a summarizer; nothing if there is nothing to say.

    `folder` holds the data of plugins. Results of more than `limit` tokens are shortened.
    """
    if program not in get_args(Program):
        raise InvalidValue("program", f"must be one of {', '.join(get_args(Program))}, not {program!r}")
    if not isinstance(event, dict):
        raise InvalidValue("event", "must be a JSON object")
    return _Hook(event, program, folder, max(limit, MIN_LIMIT)).answer()


class _Hook:
    """One event of a session."""

    def __init__(self, event: dict[str, Any], program: str, folder: Path, limit: int) -> None:
        self._event = event
        self._program = program
        self._folder = folder
        self._limit = limit
        self._log = SessionLog(folder, program, self._text("session_id") or "unknown")

    def answer(self) -> str:
        match self._text("hook_event_name"):
            case "PostToolUse":
                return self._replace_result()
            case "SessionStart":
                return self._add_context(self._introduce())
            case "UserPromptSubmit":
                return self._add_context(self._find_memories())
            case "PreCompact":
                return self._instruct_summarizer()
            case "SessionEnd":
                self._import_transcript()
        return ""

    def _text(self, field: str) -> str:
        value = self._event.get(field)
        return value if isinstance(value, str) else ""

    def _add_context(self, text: str) -> str:
        output = {"hookEventName": self._text("hook_event_name"), "additionalContext": text}
        return json.dumps({"hookSpecificOutput": output}) if text else ""

    # -- results of tools --------------------------------------------------------------------------------------------

    def _replace_result(self) -> str:
        """Replace the long texts of a result. The originals are stored before the answer is printed."""
        tool = self._text("tool_name")
        if self._program == "qwen-code" or (tool.startswith("mcp__") and not is_foreign(tool)):
            return ""  # Qwen Code has no answer that replaces a result
        shortener = ResultShortener(self._event, self._log, self._limit)
        answer = self._shorten(tool, shortener)
        if not shortener.originals:
            return ""
        if find_spec("mcp") is None:
            raise MissingExtra("mcp", "the tool that gives shortened results back")
        asyncio.run(self._store_originals(tool, shortener.originals))
        for each in shortener.originals:
            about = f"{tool}: {shortener.about}"
            self._log.add(handle=each.handle, about=about, tokens=each.tokens, shown=each.shown)
        return json.dumps(answer)

    def _shorten(self, tool: str, shortener: ResultShortener) -> dict[str, Any]:
        arguments, result = self._event.get("tool_input"), self._event.get("tool_response")
        if self._program == "codex":
            shorter = shortener.shorten(plain_result(result))
            return {"decision": "block", "reason": self._exit_code() + shorter if shortener.originals else ""}
        given = arguments if isinstance(arguments, dict) else {}
        replaced = shorten_result(tool, given, result, shortener.shorten, shortener.shorten_file)
        return {"hookSpecificOutput": {"hookEventName": "PostToolUse", "updatedToolOutput": replaced}}

    async def _store_originals(self, tool: str, originals: Sequence[Original]) -> None:
        from brimful.records import Message  # noqa: PLC0415 - see above
        from brimful.retrieval.documents import make_document  # noqa: PLC0415

        room, now = f"{self._log.room}/results", time.time()
        messages = [
            Message(id=each.handle, room=room, content=each.text, role="tool", sender=tool, at=now)
            for each in originals
        ]
        async with self._open_store(room) as store:
            stored = await store.post([(message, make_document(message)) for message in messages])
        for each, message in zip(originals, stored, strict=True):
            if (message.content, message.room) != (each.text, room):
                raise InvalidValue("tool_response", "cannot be stored exactly, so it is left as it is")

    def _exit_code(self) -> str:
        """Return the line with a command's exit code, which Codex writes into its session file only."""
        path, call = Path(self._text("transcript_path")), self._text("tool_use_id").encode()
        if not path.is_file() or not call:
            return ""
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - _TAIL))
            codes = [code for line in file if call in line for code in _EXIT_CODE.findall(line)]
        return f"Process exited with code {int(codes[-1])}\n" if codes else ""

    # -- the conversation --------------------------------------------------------------------------------------------

    def _introduce(self) -> str:
        """Explain the marks once; after a compaction, with the task and the handles that there are."""
        explanation = (
            f"Brimful shortens tool results of more than {self._limit:,} tokens. A shortened result ends with a mark "
            f'like [… recall "r0123456789"], in JSON with "recall r0123456789". To read what was left out, {_HOW}.'
        )
        is_compacted = self._text("source") == "compact"
        if not is_compacted and self._log.entries:
            return ""  # a resumed session has it already
        self._log.add(started=self._text("source"))
        return "\n\n".join(filter(None, [explanation, *([self._task(), self._handles()] if is_compacted else [])]))

    def _instruct_summarizer(self) -> str:
        if self._program != "claude-code" or not self._log.results:
            return ""
        return (
            f"{self._task()}\n\nResults of tools were shortened. Keep the handle of each result that may still be "
            f'needed, with what it is, as in: output of the tests [… recall "r0123456789"].\n\n{self._handles()}'
        ).strip()

    def _task(self) -> str:
        prompts = self._log.prompts
        first = f"The user's task, in their words:\n{prompts[0][:_MAX_TASK]}" if prompts else ""
        last = f"\n\nThe user's last prompt:\n{prompts[-1][:_MAX_TASK]}" if len(prompts) > 1 else ""
        return first + last

    def _handles(self) -> str:
        results = self._log.results[-_MAX_HANDLES:]
        lines = [f'- {each["about"]}, {each["tokens"]:,} tokens [… recall "{each["handle"]}"]' for each in results]
        return "\n".join(["Shortened results of this session:", *lines]) if lines else ""

    def _find_memories(self) -> str:
        """Return memories that match a new prompt, each once in a session, or until it is compacted."""
        from brimful.sessions.events import is_from_user  # noqa: PLC0415 - see above

        prompt = self._text("prompt")[:_MAX_PROMPT]
        if not is_from_user(prompt) or self._log.prompts[-1:] == [prompt]:
            return ""  # Qwen Code repeats the event after each result of a tool
        self._log.add(prompt=prompt)
        return asyncio.run(self._search(prompt))

    async def _search(self, prompt: str) -> str:
        async with self._open_store() as store:
            if not await store.count_memories():
                return ""
        from brimful.assembly.assemble import counter  # noqa: PLC0415 - see above
        from brimful.assembly.memory_text import render_memories  # noqa: PLC0415
        from brimful.engine import Engine  # noqa: PLC0415
        from brimful.records import Memory  # noqa: PLC0415

        known = self._log.memories
        async with Engine(store_url(self._folder), indexing=False) as engine:
            hits = await engine.search(prompt, limit=_MAX_MEMORIES)
        found: list[Memory] = [hit.record for hit in hits if isinstance(hit.record, Memory)]
        new = [memory for memory in found if memory.id not in known]
        text, added = render_memories(new, prompt, _MEMORY_TOKENS, counter("gpt-4o"))
        if not added:
            return ""
        self._log.add(memories=sorted(added))
        return text

    def _import_transcript(self) -> None:
        """Write what was said since the last import to a room. What was read is noted after each batch."""
        path = Path(self._text("transcript_path"))
        if not path.is_file():
            return
        start = next((value for value in reversed(self._log.values("read")) if isinstance(value, int)), 0)
        asyncio.run(self._import_from(path, start))

    async def _import_from(self, path: Path, start: int) -> None:
        from brimful.retrieval.documents import make_document  # noqa: PLC0415 - see above
        from brimful.sessions.files import open_file  # noqa: PLC0415
        from brimful.sessions.records import SessionRecords  # noqa: PLC0415

        records = SessionRecords(open_file(path, self._program, self._text("session_id")), texts_only=True)
        async with self._open_store(records.room) as store:
            for messages, position in records.read(start):
                await store.post([(message, make_document(message)) for message in messages])
                self._log.add(read=position)

    @asynccontextmanager
    async def _open_store(self, room: str = "") -> "AsyncGenerator[Store, None]":
        """Open the store, and create the room if it is missing."""
        from brimful.records import Room  # noqa: PLC0415 - see above
        from brimful.stores import connect  # noqa: PLC0415

        async with connect(store_url(self._folder)) as database:
            store = database.tenant("default")
            if room and await store.get(Room, room) is None:
                metadata = {"program": self._program, "folder": self._text("cwd")}
                await store.put(Room(id=room, created=time.time(), metadata=metadata))
            yield store


def status_line(status: Mapping[str, Any], folder: Path) -> str:
    """Return a line for Claude Code's status line, with what is known: window, cache, last miss, tokens saved.

    >>> window = {"total_input_tokens": 61_000, "context_window_size": 200_000, "used_percentage": 30.5}
    >>> cache = {"hit_ratio": 0.92, "last_miss_cause": "ttl_expired_5m"}
    >>> status_line({"context_window": window, "prompt_cache": cache}, Path("missing"))
    '61k of 200k tokens · 30 % full · cache 92 % · last miss: ttl_expired_5m'
    """
    window, cache = _dict(status, "context_window"), _dict(status, "prompt_cache")
    session, cause = status.get("session_id"), cache.get("last_miss_cause")
    saved = SessionLog(folder, "claude-code", session).saved if isinstance(session, str) else 0
    parts = (
        _format("{:.0f}k of {:.0f}k tokens", window, "total_input_tokens", "context_window_size", scale=1_000),
        _format("{:.0f} % full", window, "used_percentage"),
        _format("cache {:.0f} %", cache, "hit_ratio", scale=0.01),
        f"last miss: {cause}" if isinstance(cause, str) and cause else "",
        f"Brimful saved {saved / 1_000:.0f}k" if saved else "",
    )
    return " · ".join(filter(None, parts))


def _dict(status: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = status.get(key)
    return value if isinstance(value, dict) else {}


def _format(text: str, values: Mapping[str, Any], *keys: str, scale: float = 1) -> str:
    """Return a text with values in it; nothing if one is missing."""
    numbers = [value / scale for key in keys if isinstance(value := values.get(key), int | float)]
    return text.format(*numbers) if len(numbers) == len(keys) else ""
