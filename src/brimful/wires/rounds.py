"""Join the answers of several rounds into one, so that a client does not see the model's calls of the recall tool.

In each round the model answers or calls tools. If it calls the recall tool, the proxy answers that call and sends the
request again with the result. What the client sees of each round is joined: texts and thoughts pass at once, tool calls
are held back until the message is complete, since a recall may be among them.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal, Protocol

import msgspec

from brimful.core.content import ToolCall
from brimful.core.recall import RECALL
from brimful.core.validation import decode_json
from brimful.wires.dialect import JsonObject, as_count, as_object, as_objects, as_string
from brimful.wires.event_stream import ServerEventDecoder
from brimful.wires.responses_replies import PREAMBLE_EVENTS, WHOLE_EVENTS
from brimful.wires.tools import arguments_object, arguments_text, json_text

_EVENT_END: Final = re.compile(rb"\r\n\r\n|\n\n|\r\r")
_DONE: Final = b"[DONE]"
BETWEEN: Final = "\n\n"  # the texts of two rounds
_REASONING_FIELDS: Final = ("reasoning_content", "reasoning_details")  # that servers want back between tool calls

_ANSWERED_CALLS: Final = ("function_call", "custom_tool_call")  # items of the Responses API that take a text as result
_OTHER_CALLS: Final = frozenset(
    ("computer_call", "local_shell_call", "shell_call", "apply_patch_call", "mcp_approval_request")
)
"""Items of the Responses API that only the client can answer."""

RoundState = Literal["open", "held", "recalled", "passed"]
"""A round while it is streamed: all passes, tool calls are held back, they are ours, or they are the client's."""


class JoinedAnswer(Protocol):
    """One answer to the client, made of the answers of all rounds.

    In the last round, calls of the recall tool are removed, because nobody answers them anymore.
    """

    is_last: bool

    def add(self, body: JsonObject) -> None:
        """Add the complete answer of a round."""
        ...

    def feed(self, chunk: bytes) -> bytes:
        """Add some bytes of a streamed answer, and return what the client may see now."""
        ...

    def end(self) -> bytes:
        """Return the rest at the end of a stream."""
        ...

    @property
    def calls(self) -> list[ToolCall]:
        """The tool calls of the current round."""
        ...

    def step(self, results: Mapping[str, str]) -> list[JsonObject]:
        """Return the messages to add to the request: the model's calls, and a result for each."""
        ...

    def advance(self) -> None:
        """Begin the next round."""
        ...

    def whole(self, body: JsonObject) -> JsonObject:
        """Return the answer of the last round, joined with those before it."""
        ...


def wants_recall(answer: JoinedAnswer) -> bool:
    """Whether the model called the recall tool, and may."""
    return not answer.is_last and any(call.name == RECALL.name for call in answer.calls)


def add_usage(one: Any, other: Any) -> Any:
    """Add two usages of any form.

    >>> add_usage({"total_tokens": 7, "details": {"cached_tokens": 1}, "tier": "a"}, {"total_tokens": 5, "tier": "b"})
    {'total_tokens': 12, 'details': {'cached_tokens': 1}, 'tier': 'b'}
    """
    if isinstance(one, dict) and isinstance(other, dict):
        return {key: add_usage(one.get(key), other.get(key)) for key in one | other}
    if type(one) in (int, float) and type(other) in (int, float):
        return one + other
    return one if other is None else other


class Event(msgspec.Struct, frozen=True):
    """An event of a stream: its bytes, and its data if that is a JSON object."""

    raw: bytes
    data: JsonObject | None = None
    is_done: bool = False


class Events:
    """Splits a stream into events, and keeps their bytes."""

    def __init__(self) -> None:
        self._buffer = b""

    def feed(self, chunk: bytes) -> Iterator[Event]:
        """Yield the events that are complete now."""
        data, done = self._buffer + chunk, 0
        for end in _EVENT_END.finditer(data, max(0, len(self._buffer) - 3)):
            yield _read_event(data[done : end.end()])
            done = end.end()
        self._buffer = data[done:]

    def end(self) -> Iterator[Event]:
        """Yield an unterminated last event."""
        rest, self._buffer = self._buffer, b""
        if rest.strip():
            yield _read_event(rest.rstrip() + b"\n\n")


def _read_event(raw: bytes) -> Event:
    events = ServerEventDecoder().feed(raw)
    if not events:
        return Event(raw)
    try:
        value = decode_json(events[0].data)
    except ValueError:
        return Event(raw, is_done=events[0].data.strip() == _DONE)
    return Event(raw, value if isinstance(value, dict) else None)


class ChatAnswer:
    """Joins chat completions."""

    def __init__(self) -> None:
        self.is_last = False
        self._round = 0
        self._head: JsonObject = {}
        self._texts: list[str] = []
        self._usage: JsonObject = {}
        self._start()

    def _start(self) -> None:
        self._state: RoundState = "open"
        self._events = Events()
        self._held: list[Event] = []
        self._message: JsonObject = {}
        self._calls: list[JsonObject] = []
        self._own_usage: JsonObject = {}
        self._has_text = False

    def add(self, body: JsonObject) -> None:
        """Add the complete answer of a round."""
        choice = next(iter(as_objects(body.get("choices"))), {})
        self._message = as_object(choice.get("message"))
        self._calls = [dict(call) for call in as_objects(self._message.get("tool_calls"))]
        self._own_usage = as_object(body.get("usage"))

    def whole(self, body: JsonObject) -> JsonObject:
        """Return the answer of the last round, joined with those before it."""
        own = self._own_calls()
        if not self._round and own is None:
            return body
        first, *others = as_objects(body.get("choices")) or [{}]
        message = as_object(first.get("message"))
        texts = [text for text in (*self._texts, as_string(message.get("content"))) if text]
        message = message | {"content": BETWEEN.join(texts) if texts else message.get("content")}
        if own is not None:
            message = {
                key: own if key == "tool_calls" else value
                for key, value in message.items()
                if own or key != "tool_calls"
            }
            first = first | {"finish_reason": _finish(first.get("finish_reason"), own)}
        usage = {"usage": add_usage(self._usage, self._own_usage)} if self._usage or self._own_usage else {}
        return body | {"choices": [first | {"message": message}, *others]} | usage

    def feed(self, chunk: bytes) -> bytes:
        """Add some bytes of a streamed answer, and return what the client may see now."""
        return b"".join([self._add_event(event) for event in self._events.feed(chunk)])

    def end(self) -> bytes:
        """Return the rest at the end of a stream."""
        rest = b"".join([self._add_event(event) for event in self._events.end()])
        return rest + (self._decide() if self._state == "held" else b"")

    @property
    def calls(self) -> list[ToolCall]:
        """The tool calls of the current round."""
        found = []
        for at, call in enumerate(self._calls):
            function = as_object(call.get("function"))
            arguments = function.get("arguments")
            written = arguments_text(arguments) if isinstance(arguments, str) else json_text(as_object(arguments))
            id = as_string(call.get("id")) or f"call_{self._round}_{at}"
            found.append(ToolCall(id=id, name=as_string(function.get("name")), arguments=written))
        return found

    def step(self, results: Mapping[str, str]) -> list[JsonObject]:
        """Return the messages to add to the request."""
        calls = [
            {key: value for key, value in call.items() if key != "index"}
            | {"id": read.id, "type": "function"}
            | {"function": as_object(call.get("function")) | {"arguments": read.arguments}}
            for call, read in zip(self._calls, self.calls, strict=True)
        ]
        thoughts = {key: self._message[key] for key in _REASONING_FIELDS if self._message.get(key)}
        content = self._message.get("content") or None
        return [
            {"role": "assistant", "content": content, **thoughts, "tool_calls": calls},
            *({"role": "tool", "tool_call_id": call.id, "content": results[call.id]} for call in self.calls),
        ]

    def advance(self) -> None:
        """Begin the next round."""
        self._round += 1
        text = as_string(self._message.get("content"))
        self._texts += [text] if text else []
        self._usage = add_usage(self._usage, self._own_usage)
        self._start()

    def _add_event(self, event: Event) -> bytes:
        if event.data is None:
            held = self._decide() if event.is_done and self._state == "held" else b""
            return b"" if event.is_done and self._state == "recalled" else held + event.raw
        self._merge(event.data)
        choice = next(iter(as_objects(event.data.get("choices"))), {})
        if self._state == "open" and as_objects(as_object(choice.get("delta")).get("tool_calls")):
            self._state = "held"
        if self._state == "held":
            self._held.append(event)
            return self._decide() if choice.get("finish_reason") else b""
        return b"" if self._state == "recalled" and "error" not in event.data else self._write(event)

    def _decide(self) -> bytes:
        """Decide at the end of a message whether its calls are for the client."""
        held, self._held = self._held, []
        if wants_recall(self):
            self._state = "recalled"
            return b""
        self._state = "passed"
        own = self._own_calls()
        if own is None:
            return b"".join(map(self._write, held))
        indexed = [{**call, "index": at} for at, call in enumerate(own)]
        return b"".join([self._write(event, indexed if event is held[-1] else []) for event in held])

    def _own_calls(self) -> list[JsonObject] | None:
        """Return the calls without those of the recall tool; None if there is none of those."""
        own = [call for call, read in zip(self._calls, self.calls, strict=True) if read.name != RECALL.name]
        return own if len(own) < len(self._calls) else None

    def _merge(self, chunk: JsonObject) -> None:
        """Add a chunk to the message of this round."""
        self._head = self._head or {key: chunk[key] for key in ("id", "created") if key in chunk}
        self._own_usage = as_object(chunk.get("usage")) or self._own_usage
        for choice in as_objects(chunk.get("choices"))[:1]:
            for key, value in as_object(choice.get("delta")).items():
                if key == "tool_calls":
                    for at, call in enumerate(as_objects(value)):
                        self._merge_call(call, at)
                elif isinstance(value, str):
                    self._message[key] = as_string(self._message.get(key)) + value
                elif isinstance(value, list):
                    before = self._message.get(key)
                    self._message[key] = [*(before if isinstance(before, list) else ()), *value]

    def _merge_call(self, delta: JsonObject, position: int) -> None:
        index = as_count(delta["index"]) if "index" in delta else position
        id = as_string(delta.get("id"))
        known = [
            call for call in self._calls if call["index"] == index and (not id or call.get("id") in ("", id, None))
        ]
        if not known:  # some servers give all calls one index
            known = [{"index": index, "function": {"name": "", "arguments": ""}}]
            self._calls += known
        call, function = known[-1], as_object(delta.get("function"))
        before, arguments = call["function"], function.get("arguments")
        more = json_text(arguments) if isinstance(arguments, dict) else as_string(arguments)
        call |= {key: value for key, value in delta.items() if key != "index" and value is not None}
        call["function"] = {
            "name": before["name"] or as_string(function.get("name")),
            "arguments": before["arguments"] + more,
        }

    def _write(self, event: Event, calls: list[JsonObject] | None = None) -> bytes:
        """Return an event as the client sees it; `calls` replace the tool calls in it."""
        if not self._round and calls is None:
            return event.raw
        chunk: JsonObject = as_object(event.data) | self._head
        if as_object(chunk.get("usage")):
            chunk["usage"] = add_usage(self._usage, chunk["usage"])
        choices = as_objects(chunk.get("choices"))
        if choices:
            choice = self._write_choice(choices[0], calls)
            if not any(choice["delta"].values()) and not choice.get("finish_reason") and not chunk.get("usage"):
                return b""
            chunk["choices"] = [choice, *choices[1:]]
        return b"data: " + msgspec.json.encode(chunk) + b"\n\n"

    def _write_choice(self, choice: JsonObject, calls: list[JsonObject] | None) -> JsonObject:
        delta = {
            key: value for key, value in as_object(choice.get("delta")).items() if key != "role" or not self._round
        }
        if delta.get("content") and self._texts and not self._has_text:
            delta["content"] = BETWEEN + delta["content"]
        self._has_text = self._has_text or bool(delta.get("content"))
        if calls is None:
            return choice | {"delta": delta}
        delta = {key: value for key, value in delta.items() if key != "tool_calls"} | (
            {"tool_calls": calls} if calls else {}
        )
        return choice | {"delta": delta, "finish_reason": _finish(choice.get("finish_reason"), self._own_calls() or [])}


def _finish(reason: Any, own_calls: list[JsonObject]) -> Any:
    return "stop" if reason == "tool_calls" and not own_calls else reason


class MessageAnswer:
    """Joins Anthropic's messages."""

    def __init__(self) -> None:
        self.is_last = False
        self._round = 0
        self._usage: JsonObject = {}
        self._seen: list[JsonObject] = []  # blocks of earlier rounds
        self._next = 0  # the index of the next block for the client
        self._start()

    def _start(self) -> None:
        self._state: RoundState = "open"
        self._events = Events()
        self._held: list[Event] = []
        self._blocks: dict[int, JsonObject] = {}
        self._inputs: dict[int, str] = {}
        self._indexes: dict[int, int] = {}
        self._own_usage: JsonObject = {}

    def add(self, body: JsonObject) -> None:
        """Add the complete answer of a round."""
        self._blocks = dict(enumerate(as_objects(body.get("content"))))
        self._own_usage = as_object(body.get("usage"))

    def whole(self, body: JsonObject) -> JsonObject:
        """Return the answer of the last round, joined with those before it."""
        if not self._round and not self._removed:
            return body
        own = [block for at, block in self._blocks.items() if at not in self._removed]
        return body | {
            "content": [*self._seen, *own],
            "stop_reason": self._stop_reason(body.get("stop_reason")),
            "usage": add_usage(self._usage, self._own_usage),
        }

    def feed(self, chunk: bytes) -> bytes:
        """Add some bytes of a streamed answer, and return what the client may see now."""
        return b"".join([self._add_event(event) for event in self._events.feed(chunk)])

    def end(self) -> bytes:
        """Return the rest at the end of a stream."""
        rest = b"".join([self._add_event(event) for event in self._events.end()])
        return rest + (self._decide() if self._state == "held" else b"")

    @property
    def calls(self) -> list[ToolCall]:
        """The tool calls of the current round."""
        return [
            ToolCall(
                id=as_string(block.get("id")), name=as_string(block.get("name")), arguments=json_text(block["input"])
            )
            for block in self._content()
            if block.get("type") == "tool_use"
        ]

    def step(self, results: Mapping[str, str]) -> list[JsonObject]:
        """Return the messages to add to the request."""
        content = [block for block in self._content() if block.get("type") != "text" or block.get("text")]
        answers = [{"type": "tool_result", "tool_use_id": call.id, "content": results[call.id]} for call in self.calls]
        return [{"role": "assistant", "content": content}, {"role": "user", "content": answers}]

    def advance(self) -> None:
        """Begin the next round."""
        self._round += 1
        self._seen += [block for block in self._content() if block.get("type") != "tool_use"]
        self._usage = add_usage(self._usage, self._own_usage)
        self._start()

    def _content(self) -> list[JsonObject]:
        return [
            block
            | {"input": arguments_object(self._inputs[at]) if at in self._inputs else as_object(block.get("input"))}
            if block.get("type") == "tool_use"
            else block
            for at, block in sorted(self._blocks.items())
        ]

    @property
    def _removed(self) -> set[int]:
        """The indices of calls of the recall tool."""
        found = self._blocks.items()
        return {at for at, block in found if block.get("type") == "tool_use" and block.get("name") == RECALL.name}

    def _add_event(self, event: Event) -> bytes:
        data = event.data or {}
        kind, index = as_string(data.get("type")), as_count(data.get("index"))
        self._merge(kind, index, data)
        if not kind.startswith(("message_", "content_block_")):
            return event.raw  # a ping, an error or a comment
        if kind == "content_block_start" and self._state == "open" and self._blocks[index].get("type") == "tool_use":
            self._state = "held"
        if self._state == "held":
            self._held.append(event)
            return self._decide() if kind == "message_delta" else b""
        return b"" if self._state == "recalled" else self._write(event)

    def _merge(self, kind: str, index: int, data: JsonObject) -> None:
        """Add an event to the message of this round."""
        match kind:
            case "message_start":
                self._own_usage = as_object(as_object(data.get("message")).get("usage"))
            case "message_delta":
                usage = as_object(data.get("usage")).items()
                self._own_usage = self._own_usage | {key: value for key, value in usage if value is not None}
            case "content_block_start":
                self._blocks[index] = dict(as_object(data.get("content_block")))
            case "content_block_delta":
                self._merge_delta(index, as_object(data.get("delta")))

    def _merge_delta(self, index: int, delta: JsonObject) -> None:
        block = self._blocks.setdefault(index, {"type": "text", "text": ""})
        match delta:
            case {"type": "input_json_delta", "partial_json": str(more)}:
                self._inputs[index] = self._inputs.get(index, "") + more
            case {"type": "citations_delta", "citation": citation}:
                block["citations"] = [*(block.get("citations") or ()), citation]
            case _:
                for key, value in delta.items():
                    if key != "type" and isinstance(value, str):
                        block[key] = as_string(block.get(key)) + value

    def _decide(self) -> bytes:
        """Decide at the end of a message whether its calls are for the client."""
        held, self._held = self._held, []
        if wants_recall(self):
            self._state = "recalled"
            return b""
        self._state = "passed"
        return b"".join(map(self._write, held))

    def _write(self, event: Event) -> bytes:
        """Return an event as the client sees it, with the index that its block has there."""
        data = as_object(event.data)
        match data:
            case {"type": "message_start"} if self._round:
                return b""
            case {"type": "message_delta"} if self._round or self._removed:
                delta = as_object(data.get("delta"))
                data = data | {
                    "delta": delta | {"stop_reason": self._stop_reason(delta.get("stop_reason"))},
                    "usage": add_usage(self._usage, self._own_usage),
                }
            case {"index": int(index)}:
                if index in self._removed:
                    return b""
                if index not in self._indexes:
                    self._indexes[index] = self._next
                    self._next += 1
                data = data | {"index": self._indexes[index]}
        if data == event.data:
            return event.raw
        return b"event: " + as_string(data["type"]).encode() + b"\ndata: " + msgspec.json.encode(data) + b"\n\n"

    def _stop_reason(self, reason: Any) -> Any:
        calls = {at for at, block in self._blocks.items() if block.get("type") == "tool_use"}
        return "end_turn" if reason == "tool_use" and calls <= self._removed else reason


class ResponsesAnswer:
    """Joins responses of OpenAI's Responses API.

    A reasoning item is not valid without the item that follows it, so it is held back until that is known. A stream
    has the id of its first response. A whole answer has that of the last one, which can be continued by its id.
    """

    def __init__(self) -> None:
        self.is_last = False
        self._round = 0
        self._usage: JsonObject = {}
        self._seen: list[JsonObject] = []  # items of earlier rounds that the client sees
        self._sequence = 0  # the number of the next event
        self._id: JsonObject = {}  # of the first response of a stream
        self._start()

    def _start(self) -> None:
        self._state: RoundState = "open"
        self._events = Events()
        self._held: list[Event] = []
        self._response: JsonObject = {}
        self._kinds: dict[int, str] = {}  # of items that were begun
        self._indexes: dict[int, int] = {}

    def add(self, body: JsonObject) -> None:
        """Add the complete answer of a round."""
        self._response = body

    def whole(self, body: JsonObject) -> JsonObject:
        """Return the answer of the last round, joined with those before it."""
        own = self._own_items()
        if not self._round and len(own) == len(self._items):
            return body
        usage = add_usage(self._usage, as_object(body.get("usage"))) or None
        return body | {"output": [*self._seen, *(item for _, item in own)], "usage": usage}

    def feed(self, chunk: bytes) -> bytes:
        """Add some bytes of a streamed answer, and return what the client may see now."""
        return b"".join([self._add_event(event) for event in self._events.feed(chunk)])

    def end(self) -> bytes:
        """Return the rest at the end of a stream."""
        rest = b"".join([self._add_event(event) for event in self._events.end()])
        held, self._held = self._held, []
        return rest + b"".join(map(self._write, held))

    @property
    def calls(self) -> list[ToolCall]:
        """The tool calls of the current round; none if not all of them can be answered."""
        kinds = {as_string(item.get("type")) for item in self._items}
        if self._response.get("status", "completed") != "completed" or kinds & _OTHER_CALLS:
            return []
        return [
            ToolCall(
                id=as_string(item.get("call_id")),
                name=as_string(item.get("name")),
                arguments=as_string(item.get("arguments")) or "{}",
            )
            for item in self._items
            if item.get("type") in _ANSWERED_CALLS
        ]

    def step(self, results: Mapping[str, str]) -> list[JsonObject]:
        """Return the items to add to the request. What the provider does not store needs no id."""
        items = self._items
        if self._response.get("store") is False:
            items = [item for item in items if item.get("type") != "reasoning" or item.get("encrypted_content")]
            items = [{key: value for key, value in item.items() if key != "id"} for item in items]
        answers = [
            {"type": f"{item['type']}_output", "call_id": item["call_id"], "output": results[item["call_id"]]}
            for item in self._items
            if item.get("type") in _ANSWERED_CALLS
        ]
        return [*items, *answers]

    def advance(self) -> None:
        """Begin the next round."""
        calls = [at for at, item in enumerate(self._items) if item.get("type") in _ANSWERED_CALLS]
        self._seen += _without_last_reasoning(self._items[: calls[0]] if calls else self._items)
        self._usage = add_usage(self._usage, as_object(self._response.get("usage")))
        self._round += 1
        self._start()

    @property
    def _items(self) -> list[JsonObject]:
        return as_objects(self._response.get("output"))

    def _own_items(self) -> list[tuple[int, JsonObject]]:
        """Return the items of this round without calls of the recall tool, with their indices."""
        own = [(at, item) for at, item in enumerate(self._items) if not _is_recall(item)]
        return own if len(own) == len(self._items) else own[: len(_without_last_reasoning([item for _, item in own]))]

    def _add_event(self, event: Event) -> bytes:
        data = event.data or {}
        kind = as_string(data.get("type"))
        if not kind.startswith("response."):
            return event.raw  # an error or a comment
        if kind in WHOLE_EVENTS:
            return self._finish(event)
        if kind == "response.output_item.added":
            self._begin_item(as_count(data.get("output_index")), as_string(as_object(data.get("item")).get("type")))
        if self._state == "held":
            self._held.append(event)
            return b""
        held, self._held = self._held, []
        return b"".join(map(self._write, (*held, event)))

    def _begin_item(self, index: int, kind: str) -> None:
        self._kinds[index] = kind
        has_call = any(each in _ANSWERED_CALLS for each in self._kinds.values())
        self._state = "held" if has_call or kind == "reasoning" else "open"

    def _finish(self, event: Event) -> bytes:
        """Decide at the end of a response whether its calls are for the client."""
        self._response = as_object(as_object(event.data).get("response"))
        held, self._held = self._held, []
        if wants_recall(self):
            self._state = "recalled"
            return b""
        self._state = "passed"
        own = {at for at, _ in self._own_items()} if self._items else set(self._kinds)
        shown = [each for each in held if as_count(as_object(each.data).get("output_index")) in own]
        return b"".join(map(self._write, (*shown, event)))

    def _write(self, event: Event) -> bytes:
        """Return an event as the client sees it, with the index that its item has there."""
        data = as_object(event.data)
        kind = as_string(data.get("type"))
        if kind in PREAMBLE_EVENTS:
            if self._round:
                return b""
            self._id = {"id": as_object(data.get("response")).get("id")}
        if kind in WHOLE_EVENTS:
            data = data | {"response": self.whole(self._response) | self._id}
        elif "output_index" in data:
            index = as_count(data["output_index"])
            self._indexes.setdefault(index, len(self._seen) + len(self._indexes))
            data = data | {"output_index": self._indexes[index]}
        if "sequence_number" in data:
            data = data | {"sequence_number": self._sequence}
        self._sequence += 1
        if data == event.data:
            return event.raw
        return b"event: " + kind.encode() + b"\ndata: " + msgspec.json.encode(data) + b"\n\n"


def _is_recall(item: JsonObject) -> bool:
    return item.get("type") == "function_call" and item.get("name") == RECALL.name


def _without_last_reasoning(items: list[JsonObject]) -> list[JsonObject]:
    """Return items without reasoning at their end."""
    end = len(items)
    while end and items[end - 1].get("type") == "reasoning":
        end -= 1
    return items[:end]
