"""Join the answers of several rounds in formats whose streams consist of pieces that look like whole answers.

These are Gemini's and Ollama's. A tool call is always in one piece.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, Protocol

import msgspec

from brimful.core.content import ToolCall
from brimful.core.recall import RECALL
from brimful.core.validation import decode_json
from brimful.wires.dialect import JsonObject, as_object, as_objects, as_string
from brimful.wires.event_stream import JsonLinesDecoder
from brimful.wires.rounds import BETWEEN, Event, Events, RoundState, add_usage, wants_recall
from brimful.wires.tools import json_text

_CALL: Final = "functionCall"
_USAGE: Final = "usageMetadata"
_LINE_USAGE: Final = (
    *("total_duration", "load_duration", "prompt_eval_count", "prompt_eval_duration", "eval_count", "eval_duration"),
)


class _Splitter(Protocol):
    def feed(self, chunk: bytes) -> Iterator[Event]: ...

    def end(self) -> Iterator[Event]: ...


class _Lines:
    """Splits a stream into lines of JSON."""

    def __init__(self) -> None:
        self._lines = JsonLinesDecoder()

    def feed(self, chunk: bytes) -> Iterator[Event]:
        return (_read_line(event.data) for event in self._lines.feed(chunk))

    def end(self) -> Iterator[Event]:
        return (_read_line(event.data) for event in self._lines.end())


def _read_line(line: bytes) -> Event:
    try:
        value = decode_json(line)
    except ValueError:
        value = None
    return Event(line + b"\n", value if isinstance(value, dict) else None)


class _PieceAnswer(ABC):
    """Joins answers. In a stream, everything from the first tool call of a round on is held until the round ends."""

    def __init__(self, splitter: Callable[[], _Splitter]) -> None:
        self.is_last = False
        self._splitter = splitter
        self._round = 0
        self._usage: JsonObject = {}
        self._begun_with_text = False  # an earlier round showed a text
        self._start()

    def _start(self) -> None:
        self._state: RoundState = "open"
        self._events = self._splitter()
        self._held: list[Event] = []
        self._pieces: list[JsonObject] = []
        self._has_text = False  # the client has seen a text of this round

    def add(self, body: JsonObject) -> None:
        """Add the complete answer of a round."""
        self._pieces = [body]

    def feed(self, chunk: bytes) -> bytes:
        """Add some bytes of a streamed answer, and return what the client may see now."""
        return b"".join([self._add_event(event) for event in self._events.feed(chunk)])

    def end(self) -> bytes:
        """Return the rest at the end of a stream."""
        rest = b"".join([self._add_event(event) for event in self._events.end()])
        return rest + (self._decide() if self._state == "held" else b"")

    def advance(self) -> None:
        """Begin the next round."""
        self._round += 1
        self._remember()
        self._begun_with_text = self._begun_with_text or any(map(self._text, self._pieces))
        self._usage = add_usage(self._usage, self._own_usage())
        self._start()

    @property
    def calls(self) -> list[ToolCall]:
        """The tool calls of the current round."""
        written = [call for piece in self._pieces for call in self._calls_in(piece)]
        return [self._read_call(call, f"call_{self._round}_{at}") for at, call in enumerate(written)]

    def _add_event(self, event: Event) -> bytes:
        if event.data is None or "error" in event.data:
            return event.raw
        self._pieces.append(event.data)
        if self._state == "open" and self._calls_in(event.data):
            self._state = "held"
        if self._state == "held":
            self._held.append(event)
            return self._decide() if self._is_end(event.data) else b""
        return b"" if self._state == "recalled" else self._write(event)

    def _decide(self) -> bytes:
        """Decide at the end of a round whether its calls are for the client."""
        held, self._held = self._held, []
        if wants_recall(self):
            self._state = "recalled"
            return b""
        self._state = "passed"
        return b"".join(map(self._write, held))

    def _write(self, event: Event) -> bytes:
        """Return a piece as the client sees it."""
        piece = as_object(event.data)
        shown = self._without_recalls(piece)
        if self._round:
            shown = self._with_usage(shown)
        text = self._text(shown)
        if text and self._begun_with_text and not self._has_text:
            shown = self._after_a_gap(shown)
        self._has_text = self._has_text or bool(text)
        return event.raw if shown == piece else self._frame(shown)

    # -- what differs ------------------------------------------------------------------------------------------------

    @abstractmethod
    def step(self, results: Mapping[str, str]) -> list[JsonObject]:
        """Return the messages to add to the request: the model's calls, and a result for each."""

    @abstractmethod
    def whole(self, body: JsonObject) -> JsonObject:
        """Return the answer of the last round, joined with those before it."""

    @abstractmethod
    def _remember(self) -> None:
        """Remember what the client is shown of a round when it ends."""

    @abstractmethod
    def _calls_in(self, piece: JsonObject) -> list[JsonObject]: ...

    @abstractmethod
    def _read_call(self, call: JsonObject, default_id: str) -> ToolCall: ...

    @abstractmethod
    def _is_end(self, piece: JsonObject) -> bool: ...

    @abstractmethod
    def _text(self, piece: JsonObject) -> str: ...

    @abstractmethod
    def _without_recalls(self, piece: JsonObject) -> JsonObject: ...

    @abstractmethod
    def _after_a_gap(self, piece: JsonObject) -> JsonObject:
        """Return a piece whose text is set off from that of the round before."""

    @abstractmethod
    def _own_usage(self) -> JsonObject: ...

    @abstractmethod
    def _with_usage(self, piece: JsonObject) -> JsonObject:
        """Return a piece whose usage includes that of earlier rounds."""

    @abstractmethod
    def _frame(self, piece: JsonObject) -> bytes: ...


class ContentAnswer(_PieceAnswer):
    """Joins Gemini's answers."""

    def __init__(self) -> None:
        self._seen: list[JsonObject] = []  # parts of earlier rounds
        super().__init__(Events)

    def step(self, results: Mapping[str, str]) -> list[JsonObject]:
        """Return the contents to add to the request. Signatures stay with their parts."""
        parts = [part for piece in self._pieces for part in _parts(piece)]
        written = [call for piece in self._pieces for call in self._calls_in(piece)]
        responses = [
            {"functionResponse": _id_of(each) | {"name": call.name, "response": {"output": results[call.id]}}}
            for each, call in zip(written, self.calls, strict=True)
        ]
        return [{"role": "model", "parts": parts}, {"role": "user", "parts": responses}]

    def whole(self, body: JsonObject) -> JsonObject:
        """Return the answer of the last round, joined with those before it."""
        own = self._without_recalls(body)
        if not self._round:
            return own
        if self._begun_with_text:
            own = self._after_a_gap(own)
        return self._with_usage(_with_parts(own, [*self._seen, *_parts(own)]))

    def _remember(self) -> None:
        self._seen += [part for piece in self._pieces for part in _parts(piece) if _CALL not in part]

    def _calls_in(self, piece: JsonObject) -> list[JsonObject]:
        return [as_object(part[_CALL]) for part in _parts(piece) if _CALL in part]

    def _read_call(self, call: JsonObject, default_id: str) -> ToolCall:
        arguments = json_text(as_object(call.get("args")))
        return ToolCall(
            id=as_string(call.get("id")) or default_id, name=as_string(call.get("name")), arguments=arguments
        )

    def _is_end(self, piece: JsonObject) -> bool:
        return any(candidate.get("finishReason") for candidate in as_objects(piece.get("candidates")))

    def _text(self, piece: JsonObject) -> str:
        return "".join(as_string(part.get("text")) for part in _parts(piece) if not part.get("thought"))

    def _without_recalls(self, piece: JsonObject) -> JsonObject:
        parts = _parts(piece)
        own = [part for part in parts if as_object(part.get(_CALL)).get("name") != RECALL.name]
        return piece if len(own) == len(parts) else _with_parts(piece, own)

    def _after_a_gap(self, piece: JsonObject) -> JsonObject:
        parts = _parts(piece)
        first = next((at for at, part in enumerate(parts) if part.get("text") and not part.get("thought")), None)
        if first is None:
            return piece
        spaced = parts[first] | {"text": BETWEEN + parts[first]["text"]}
        return _with_parts(piece, [*parts[:first], spaced, *parts[first + 1 :]])

    def _own_usage(self) -> JsonObject:
        return next((as_object(piece[_USAGE]) for piece in reversed(self._pieces) if _USAGE in piece), {})

    def _with_usage(self, piece: JsonObject) -> JsonObject:
        return piece | {_USAGE: add_usage(self._usage, as_object(piece[_USAGE]))} if _USAGE in piece else piece

    def _frame(self, piece: JsonObject) -> bytes:
        return b"data: " + msgspec.json.encode(piece) + b"\r\n\r\n"


def _parts(piece: JsonObject) -> list[JsonObject]:
    first = next(iter(as_objects(piece.get("candidates"))), {})
    return as_objects(as_object(first.get("content")).get("parts"))


def _with_parts(piece: JsonObject, parts: Sequence[JsonObject]) -> JsonObject:
    first, *others = as_objects(piece.get("candidates")) or [{}]
    content = {"role": "model"} | as_object(first.get("content")) | {"parts": [*parts]}
    return piece | {"candidates": [first | {"content": content}, *others]}


def _id_of(call: JsonObject) -> JsonObject:
    return {"id": call["id"]} if call.get("id") else {}


class OllamaAnswer(_PieceAnswer):
    """Joins Ollama's answers."""

    def __init__(self) -> None:
        self._texts: dict[str, list[str]] = {"content": [], "thinking": []}  # of earlier rounds
        super().__init__(_Lines)

    def step(self, results: Mapping[str, str]) -> list[JsonObject]:
        """Return the messages to add to the request."""
        written = [call for piece in self._pieces for call in self._calls_in(piece)]
        texts = {field: self._joined(field) for field in self._texts}
        thoughts = {"thinking": texts["thinking"]} if texts["thinking"] else {}
        return [
            {"role": "assistant", "content": texts["content"], **thoughts, "tool_calls": written},
            *(
                {"role": "tool", "tool_name": call.name, "content": results[call.id]}
                | ({"tool_call_id": each["id"]} if each.get("id") else {})
                for each, call in zip(written, self.calls, strict=True)
            ),
        ]

    def whole(self, body: JsonObject) -> JsonObject:
        """Return the answer of the last round, joined with those before it."""
        own = self._without_recalls(body)
        if not self._round:
            return own
        message = as_object(own.get("message"))
        joined = {
            field: BETWEEN.join(text for text in (*before, as_string(message.get(field))) if text)
            for field, before in self._texts.items()
            if before
        }
        return self._with_usage(own | {"message": message | joined})

    def _remember(self) -> None:
        for field, texts in self._texts.items():
            texts += [text for text in [self._joined(field)] if text]

    def _joined(self, field: str) -> str:
        return "".join(as_string(as_object(piece.get("message")).get(field)) for piece in self._pieces)

    def _calls_in(self, piece: JsonObject) -> list[JsonObject]:
        return as_objects(as_object(piece.get("message")).get("tool_calls"))

    def _read_call(self, call: JsonObject, default_id: str) -> ToolCall:
        function = as_object(call.get("function"))
        arguments = json_text(as_object(function.get("arguments")))
        id = as_string(call.get("id")) or default_id
        return ToolCall(id=id, name=as_string(function.get("name")), arguments=arguments)

    def _is_end(self, piece: JsonObject) -> bool:
        return bool(piece.get("done"))

    def _text(self, piece: JsonObject) -> str:
        return as_string(as_object(piece.get("message")).get("content"))

    def _without_recalls(self, piece: JsonObject) -> JsonObject:
        calls = self._calls_in(piece)
        own = [call for call in calls if as_object(call.get("function")).get("name") != RECALL.name]
        if len(own) == len(calls):
            return piece
        message = {key: own if key == "tool_calls" else value for key, value in piece["message"].items()}
        return piece | {"message": {key: value for key, value in message.items() if key != "tool_calls" or own}}

    def _after_a_gap(self, piece: JsonObject) -> JsonObject:
        return piece | {"message": piece["message"] | {"content": BETWEEN + self._text(piece)}}

    def _own_usage(self) -> JsonObject:
        last = self._pieces[-1] if self._pieces else {}
        return {field: last[field] for field in _LINE_USAGE if field in last}

    def _with_usage(self, piece: JsonObject) -> JsonObject:
        own = {field: piece[field] for field in _LINE_USAGE if field in piece}
        return piece | add_usage(self._usage, own) if own else piece

    def _frame(self, piece: JsonObject) -> bytes:
        return msgspec.json.encode(piece) + b"\n"
