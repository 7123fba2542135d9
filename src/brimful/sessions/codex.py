"""Sessions of Codex: `.codex/sessions/YYYY/MM/DD/rollout-TIME-ID.jsonl`, with the items of the Responses API."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

from msgspec.structs import replace

from brimful.formats.lenient import as_dict, as_dicts, as_str
from brimful.sessions.events import Call, Category, Compaction, Event, Piece, Unknown, is_from_user, result_category
from brimful.sessions.lines import Progress, as_count, as_json, count_images, read_events, read_lines, text_of, time_of

_SILENT: Final = frozenset({"world_state", "event_msg"})
_CALLS: Final = ("function_call", "custom_tool_call", "local_shell_call", "web_search_call")


class _Reader:
    """The state of a file that is read line by line. What the model answers stands before the usage of its call."""

    def __init__(self) -> None:
        self._model = ""
        self._window = 0
        self._tools: dict[str, str] = {}  # names by call
        self._question: Piece | None = None
        self._answer: list[Piece] = []
        self._has_records = False
        self._total: Any = None

    def read(self, place: int, line: dict[str, Any]) -> Iterator[Event]:
        payload, at = as_dict(line.get("payload")), time_of(line)
        yield from self._release(as_dict(payload.get("item")))
        match line.get("type"):
            case "session_meta":
                if text := text_of([as_dict(payload.get("base_instructions"))]):
                    yield Piece(id="system", category="system", text=text, at=at, place=place, lasting=True)
            case "turn_context":
                self._model = as_str(payload.get("model")) or self._model
            case "response_item":
                yield from self._item(place, payload, at)
            case "token_usage_record":
                self._has_records = True
                yield from self._call(as_str(payload.get("response_id")), as_dict(payload.get("usage")), at)
            case "event_msg":
                yield from self._event(payload, at)
            case "compacted":
                yield from self._compaction(place, payload, at)
            case str(kind) if kind in _SILENT:
                pass
            case kind:
                yield Unknown(f"a line of type {kind!r}")

    def rest(self) -> Iterator[Event]:
        """Yield the user's last message, and an answer whose usage the file does not have."""
        yield from self._release({})
        answer, self._answer = self._answer, []
        yield from answer

    def _release(self, item: dict[str, Any]) -> Iterator[Event]:
        """Yield the user's last message, with the id that an event after it has for the same item."""
        question, self._question = self._question, None
        if question is not None:
            id = as_str(item.get("id")) if item.get("type") == "UserMessage" else ""
            yield replace(question, id=id or question.id)

    def _item(self, place: int, item: dict[str, Any], at: float) -> Iterator[Event]:
        kind, call = as_str(item.get("type")), as_str(item.get("call_id"))
        piece = partial(Piece, id=as_str(item.get("id")), at=at, place=place)
        if kind == "message" and item.get("role") != "assistant":
            yield from self.rest()
            self._question = _message(item, _speaker(item), place, at)
        elif kind == "message":
            self._answer.append(_message(item, "assistant", place, at))
        elif kind == "reasoning":
            text = text_of(item.get("summary")) or text_of(item.get("content"))
            self._answer.append(piece(category="thinking", text=text))
        elif kind in _CALLS:
            tool = as_str(item.get("name")) or kind.removesuffix("_call")
            self._tools[call] = tool
            text = as_json(item.get("arguments") or item.get("input") or item.get("action") or {})
            self._answer.append(piece(category="assistant", text=text, tool=tool, call=call))
        elif kind.endswith("_output"):
            yield from self.rest()
            tool, output = self._tools.get(call, ""), item.get("output")
            text = text_of(output) or text_of(as_dict(output).get("content"))
            yield piece(category=result_category(tool), text=text, images=count_images(output), tool=tool, call=call)
        else:
            yield Unknown(f"an item of type {kind!r}")

    def _compaction(self, place: int, payload: dict[str, Any], at: float) -> Iterator[Event]:
        yield from self.rest()
        yield Compaction(at=at)
        for item in as_dicts(payload.get("replacement_history")):
            for event in self._history(place, item, at, as_str(payload.get("message"))):
                yield replace(event, repeated=True) if isinstance(event, Piece) else event

    def _history(self, place: int, item: dict[str, Any], at: float, summary: str) -> Iterator[Event]:
        """Yield an item of the history that a compaction wrote."""
        if item.get("type") != "message":
            yield from self._item(place, item, at)
            yield from self.rest()
            return
        piece = _message(item, _speaker(item) if item.get("role") != "assistant" else "assistant", place, at)
        is_summary = bool(summary) and summary in piece.text
        yield _message(item, "summary", place, at) if is_summary else piece

    def _event(self, payload: dict[str, Any], at: float) -> Iterator[Event]:
        info = as_dict(payload.get("info"))
        window = payload.get("model_context_window") or info.get("model_context_window")
        self._window = as_count(window) or self._window
        total = info.get("total_token_usage")
        if payload.get("type") != "token_count" or self._has_records or not total or total == self._total:
            return
        self._total = total
        yield from self._call("", as_dict(info.get("last_token_usage")), at)

    def _call(self, id: str, usage: dict[str, Any], at: float) -> Iterator[Event]:
        cached, written = as_count(usage.get("cached_input_tokens")), as_count(usage.get("cache_write_input_tokens"))
        yield Call(
            id=id,
            model=self._model,
            at=at,
            uncached=max(0, as_count(usage.get("input_tokens")) - cached - written),
            read=cached,
            written=written,
            output=as_count(usage.get("output_tokens")),
            window=self._window,
        )
        yield from self.rest()


def read(path: Path, start: int = 0, progress: Progress = lambda _: None) -> Iterator[Event]:
    """Yield what a session file tells, from an offset on."""
    reader = _Reader()
    yield from read_events(read_lines(path, start, progress), reader.read)
    yield from reader.rest()


def _message(item: dict[str, Any], category: Category, place: int, at: float) -> Piece:
    content = item.get("content")
    images = count_images(content)
    return Piece(id=as_str(item.get("id")), category=category, text=text_of(content), images=images, at=at, place=place)


def _speaker(item: dict[str, Any]) -> Category:
    """Return whose message it is: the program speaks as developer, and in messages of the user."""
    facts = as_dict(item.get("internal_chat_message_metadata_passthrough"))
    kinds = facts.get("content_item_kinds")
    if item.get("role") != "user":
        return "system"
    if isinstance(kinds, list) and kinds:
        return "user" if any(as_str(kind).startswith("user") for kind in kinds) else "system"
    return "user" if is_from_user(text_of(item.get("content"))) else "system"
