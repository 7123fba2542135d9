"""Sessions of Claude Code: `.claude/projects/FOLDER/ID.jsonl`.

Since 2.1.326, each request of the main conversation is in the file, in pieces: a shape (system prompt and tools), the
messages by their hashes, and how many messages it has in common with an earlier request.
"""

import hashlib
from collections import deque
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec

from brimful.core.cache_misses import FIVE_MINUTES, HOUR
from brimful.formats.lenient import as_dict, as_dicts, as_str
from brimful.sessions.events import Call, Category, Compaction, Event, Piece, Unknown, is_from_user, result_category
from brimful.sessions.lines import Progress, as_count, as_json, count_images, read_events, read_lines, text_of, time_of

_SILENT: Final = frozenset(  # lines about the session, of which the model sees nothing
    [
        "queue-operation",
        "atis-latch",
        "last-prompt",
        "tools-used",
        "cost-state",
        "summary",
        "ai-title",
        "custom-title",
        "file-history-snapshot",
        "api-request-blob",
        "progress",
        "permission-mode",
        "mode",
        "agent-name",
        "pr-link",
    ]
)


class _Request(msgspec.Struct, frozen=True):
    """What differs from the request before it."""

    system: str
    tools: str
    rewritten: int


class _Reader:
    """The state of a file that is read line by line."""

    def __init__(self) -> None:
        self._shapes: dict[str, tuple[str, str, dict[str, Any]]] = {}
        self._shape = ""
        self._sizes: dict[str, int] = {}  # messages of each request
        self._requests: dict[str, _Request] = {}
        self._tools: dict[str, str] = {}  # names by call
        self._answer: tuple[str, str] | None = None
        self._has_shapes = False

    def read(self, place: int, line: dict[str, Any]) -> Iterator[Event]:
        kind = as_str(line.get("type"))
        if line.get("isSidechain") is True:
            return
        match kind:
            case "user":
                yield from self._user(place, line)
            case "assistant":
                yield from self._assistant(place, line)
            case "attachment":
                yield from self._attachment(place, line)
            case "system":
                if line.get("subtype") == "compact_boundary":
                    kept = as_dict(as_dict(line.get("compactMetadata")).get("preservedMessages")).get("uuids")
                    yield Compaction(at=time_of(line), keep=frozenset(map(str, kept if isinstance(kept, list) else ())))
            case "api-request-shape":
                self._add_shape(line)
            case "api-request":
                yield from self._request(place, line)
            case _ if kind not in _SILENT:
                yield Unknown(f"a line of type {kind!r}")

    def _user(self, place: int, line: dict[str, Any]) -> Iterator[Event]:
        content = as_dict(line.get("message")).get("content")
        piece = partial(Piece, id=as_str(line.get("uuid")), at=time_of(line), place=place)
        if isinstance(content, str):
            yield piece(category=_speaker(line, content), text=content)
            return
        for block in as_dicts(content):
            if block.get("type") == "tool_result":
                call = as_str(block.get("tool_use_id"))
                tool, result = self._tools.get(call, ""), block.get("content")
                category, text, images = result_category(tool), text_of(result), count_images(result)
                yield piece(category=category, text=text, images=images, tool=tool, call=call)
            else:
                text, images = text_of([block]), count_images([block])
                yield piece(category=_speaker(line, text) if text else "user", text=text, images=images)

    def _assistant(self, place: int, line: dict[str, Any]) -> Iterator[Event]:
        message, at = as_dict(line.get("message")), time_of(line)
        answer = (as_str(message.get("id")), as_str(line.get("requestRef")))
        if message.get("model") == "<synthetic>":
            return
        if answer != self._answer:  # an answer of several blocks has several lines, each with the same usage
            self._answer = answer
            yield self._call(line, message, at)
        piece = partial(Piece, id=as_str(line.get("uuid")), at=at, place=place)
        for block in as_dicts(message.get("content")):
            match block.get("type"):
                case "text":
                    yield piece(category="assistant", text=as_str(block.get("text")))
                case "thinking":
                    yield piece(category="thinking", text=as_str(block.get("thinking")))
                case "tool_use":
                    call, tool = as_str(block.get("id")), as_str(block.get("name"))
                    self._tools[call] = tool
                    yield piece(category="assistant", text=as_json(block.get("input")), tool=tool, call=call)

    def _call(self, line: dict[str, Any], message: dict[str, Any], at: float) -> Call:
        usage = as_dict(message.get("usage"))
        written = as_dict(usage.get("cache_creation"))
        long = as_count(written.get("ephemeral_1h_input_tokens")) or line.get("promptCacheRequested") == "1h"
        ref = as_str(line.get("requestRef"))
        request = self._requests.get(ref)
        return Call(
            id=ref or as_str(message.get("id")),
            model=as_str(message.get("model")),
            at=at,
            uncached=as_count(usage.get("input_tokens")),
            read=as_count(usage.get("cache_read_input_tokens")),
            written=as_count(usage.get("cache_creation_input_tokens")),
            output=as_count(usage.get("output_tokens")),
            lasts=HOUR if long else FIVE_MINUTES,
            system=request.system if request else "",
            tools=request.tools if request else "",
            rewritten=request.rewritten if request else None,
        )

    def _attachment(self, place: int, line: dict[str, Any]) -> Iterator[Event]:
        """Reminders are written as they were sent; older versions name only what they had."""
        attachment = as_dict(line.get("attachment"))
        if attachment.get("type") == "prompt_snapshot":
            return
        rendered = as_dicts(line.get("rendered"))
        text = "\n".join(text_of(each.get("content")) for each in rendered) or text_of(attachment.get("content"))
        if text:
            yield Piece(id=as_str(line.get("uuid")), category="system", text=text, at=time_of(line), place=place)

    def _add_shape(self, line: dict[str, Any]) -> None:
        shape = as_dict(line.get("shape"))
        system, tools = (_digest(shape.get(name)) for name in ("system", "tools"))
        self._shapes[as_str(line.get("shapeHash"))] = (system, tools, shape)

    def _request(self, place: int, line: dict[str, Any]) -> Iterator[Event]:
        id, base, hash = (as_str(line.get(name)) for name in ("id", "base", "shapeHash"))
        keep, tail = as_count(line.get("keep")), line.get("tail")
        before = self._sizes.get(base)
        rewritten = -1 if before is None or keep >= before else keep
        self._sizes[id] = keep + len(tail if isinstance(tail, list) else ())
        system, tools, shape = self._shapes.get(hash, ("", "", {}))
        self._requests[id] = _Request(system, tools, rewritten)
        if hash != self._shape:
            self._shape = hash
            piece = partial(Piece, at=time_of(line), place=place, lasting=True)
            yield piece(id="system", category="system", text=text_of(shape.get("system")))
            yield piece(id="tools", category="tools", text=as_json(shape.get("tools") or []))


def read(path: Path, start: int = 0, progress: Progress = lambda _: None) -> Iterator[Event]:
    """Yield what a session file tells, from an offset on."""
    yield from read_events(read_lines(path, start, progress), _Reader().read)


def rebuild_requests(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the requests of the main conversation with their ids, as they were sent.

    The file lacks the block of the system prompt that identifies the program's build, and older files all requests.
    """
    shapes: dict[str, dict[str, Any]] = {}
    blobs: dict[str, dict[str, Any]] = {}
    sent: dict[str, list[dict[str, Any]]] = {}
    new: list[dict[str, Any]] = []  # since the last request
    for _, line in read_lines(path):
        match line:
            case {"type": "api-request-shape", "shapeHash": str(hash), "shape": dict(shape)}:
                shapes[hash] = shape
            case {"type": "api-request-blob", "hash": str(hash), "message": dict(message)}:
                blobs[hash] = message
            case {"type": "assistant" | "user", "message": {"role": str(role), "content": content}}:
                if line.get("isSidechain") is not True:
                    _add_to(new, role, content)
            case {"type": "api-request", "id": str(id), "shapeHash": str(hash), "tail": list(tail)}:
                kept = sent.get(as_str(line.get("base")), [])[: as_count(line.get("keep"))]
                sent[id] = [*kept, *_find_messages(tail, blobs, new)]
                new = []
                request = {**as_dict(line.get("params")), **shapes.get(hash, {}), "messages": sent[id]}
                yield id, _mark(request, line.get("cacheControl"))


def _add_to(messages: list[dict[str, Any]], role: str, content: object) -> None:
    """Add a message. Blocks of the same speaker are one."""
    blocks = content if isinstance(content, list) else [{"type": "text", "text": content}]
    if messages and messages[-1]["role"] == role:
        messages[-1]["content"] += blocks
    else:
        messages.append({"role": role, "content": list(blocks)})


def _find_messages(
    tail: list[Any], blobs: Mapping[str, dict[str, Any]], new: list[dict[str, Any]]
) -> Iterator[dict[str, Any]]:
    """Yield messages by their hashes. One without a blob was sent as the file has it."""
    waiting = deque(new)
    for hash in tail:
        message = blobs.get(hash) if isinstance(hash, str) else None
        if waiting and (message is None or message.get("role") == waiting[0]["role"]):
            own = waiting.popleft()
            message = message or own
        if message is not None:
            yield message


def _mark(request: dict[str, Any], marks: object) -> dict[str, Any]:
    """Return a copy of a request with its cache marks where they were."""
    marked: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(request))
    for mark in as_dicts(marks):
        node: Any = marked
        path = mark.get("path")
        for step in path if isinstance(path, list) else ():
            inside = isinstance(node, list) and isinstance(step, int) and step < len(node)
            node = node[step] if inside or (isinstance(node, Mapping) and step in node) else None
        if isinstance(node, dict):
            node["cache_control"] = mark.get("value")
    for message in marked["messages"]:
        match message.get("content"):
            case [{"type": "text", "text": str(text)} as only] if only.keys() == {"type", "text"}:
                message["content"] = text  # it is a block only to be marked
    return marked


def _speaker(line: dict[str, Any], text: str) -> Category:
    """Return whose message it is: the program and its summaries speak in messages of the user, too."""
    if line.get("isCompactSummary") is True:
        return "summary"
    return "system" if line.get("isMeta") is True or not is_from_user(text) else "user"


def _digest(value: object) -> str:
    return hashlib.blake2b(msgspec.json.encode(value), digest_size=8).hexdigest()
