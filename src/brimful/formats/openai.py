"""Messages in OpenAI's format: a list, a request, JSON lines of messages or conversations, and batch files.

An entry of the file is a message or a conversation (it has `messages`, or is a list of messages). Messages go into
the source's room. So does the first conversation; the n-th goes into `ROOM/n`, and one with an id into `ROOM/id`.
Formats that can be translated to OpenAI's use `read_conversations` as well.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import msgspec

from brimful.core.content import Media, Part, Role, Text, ToolCall, ToolResult, group_tool_results
from brimful.core.validation import preview
from brimful.errors import BrimfulError, InvalidRequest
from brimful.formats.ids import IdChain, join_id
from brimful.formats.lenient import as_dict, as_dicts, as_id, as_str, parse_time, without_empty
from brimful.formats.source import Entry, Format, ImportedRecord, Skipped, Source
from brimful.records import Content, Message, Room
from brimful.wires.openai_chat import read_history

NO_BATCH_ANSWER = "is a batch response without an answer"
_TIMES: Final = ("timestamp", "created", "created_at")
_TEXT_PARTS: Final = {"input_text": "text", "output_text": "text", "refusal": "refusal"}
"""Other types of text parts, and the field with the text."""
_MEDIA_PARTS: Final = ("image_url", "input_audio")
_MESSAGE_FIELDS: Final = frozenset({"content", "tool_calls", "function_call", "refusal"})
"""A message has at least one of these; otherwise its format is unknown."""
_KNOWN_FIELDS: Final = frozenset(
    {"role", "content", "tool_calls", "refusal", "name", "id", "metadata", "tool_call_id", *_TIMES}
)
_PLAIN_ROLES: Final = ("user", "assistant", "system")
_ROLES: Final = ("system", "developer", "user", "assistant", "tool")
_JSON_TYPE_NAMES: Final[dict[type, str]] = {
    str: "a string",
    int: "a number",
    float: "a number",
    bool: "a boolean",
    list: "a list",
}
_PRESET_KEYS: Final = {"prompts", "prompt_order"}


def unwrap_batch_request(data: Any) -> Any:
    """Return the request of a batch line, with its `custom_id` as its id; anything else is returned unchanged.

    >>> unwrap_batch_request({"custom_id": "a", "method": "POST", "body": {"messages": []}})
    {'messages': [], 'id': 'a'}
    """
    match data:
        case {"custom_id": id, "body": {"messages": list()} as body}:
            return {**body, "id": id}
        case _:
            return data


def batch_answers(line: dict[str, Any]) -> list[dict[str, Any]] | str:
    """Return the messages of a batch response, one for each choice, or why there are none.

    >>> batch_answers({"response": {"body": {"id": "c1", "choices": [{"message": {"content": "Hi"}}]}}})
    [{'content': 'Hi', 'id': 'c1', 'created': None, 'metadata': {}}]
    >>> batch_answers({"response": None, "error": {"message": "It took too long."}})
    'is a batch response without an answer: It took too long.'
    """
    body = as_dict(as_dict(line.get("response")).get("body"))
    choices = as_dicts(body.get("choices"))
    if not choices:
        failure = as_dict(line.get("error")) or as_dict(body.get("error"))
        return ": ".join(filter(None, (NO_BATCH_ANSWER, as_str(failure.get("message")))))
    return [
        {
            **as_dict(choice.get("message")),
            "id": as_id(body.get("id")),
            "created": body.get("created"),
            "metadata": without_empty(
                model=as_str(body.get("model")), finish_reason=choice.get("finish_reason"), usage=body.get("usage")
            ),
        }
        for choice in choices
    ]


Translate = Callable[[dict[str, Any]], dict[str, Any]]
"""Translates a message to OpenAI's format; one that it does not know is returned unchanged."""


def read_conversations(source: Source, translate: Translate) -> Iterator[ImportedRecord | Skipped]:
    """Yield messages, and rooms for requests with more fields."""
    loose = ConversationReader(source.room, source.modified)
    for item in source.entries():
        entry = (
            item if isinstance(item, Skipped) else Entry(item.location, unwrap_batch_request(item.data), item.number)
        )
        match entry:
            case Skipped():
                yield entry
            case Entry(data={"custom_id": str() | int() as id, "response": _} as line):
                yield from _read_answers(source, entry.location, id, line)
            case Entry(data={"messages": list(messages)} as request) if "role" not in request:
                room = _room(source, entry)
                yield from _read_request(room, entry, request)
                yield from read_conversation(room, source, f"{entry.location}: messages", messages, translate)
            case Entry(data=list(messages)):
                room = _room(source, entry)
                yield from read_conversation(room, source, f"{entry.location}: messages", messages, translate)
            case _:
                yield from loose.read(entry.location, _translated(entry.data, translate))


def _read_answers(source: Source, location: str, id: str | int, line: dict[str, Any]) -> Iterator[Message | Skipped]:
    """Yield the answers of a batch response: the first in the room of its request, others in rooms of their own."""
    answers = batch_answers(line)
    if isinstance(answers, str):
        yield Skipped(location, answers)
        return
    for index, message in enumerate(answers):
        room = join_id(source.room, id, index + 1) if index else join_id(source.room, id)
        yield from ConversationReader(room, source.modified).read(f"{location}: choices[{index}]", message)


def read_conversation(
    room: str, source: Source, location: str, messages: list[Any], translate: Translate
) -> Iterator[Message | Skipped]:
    conversation = ConversationReader(room, source.modified)
    for index, message in enumerate(messages):
        yield from conversation.read(f"{location}[{index}]", _translated(message, translate))


def _translated(data: Any, translate: Translate) -> Any:
    return translate(data) if isinstance(data, dict) else data


def _read_request(room: str, entry: Entry, request: Mapping[str, Any]) -> Iterator[Room | Skipped]:
    """Yield the room of a request that has more fields than messages, with those as its metadata."""
    metadata = _without_empty({key: value for key, value in request.items() if key not in ("id", "messages")})
    if metadata:
        try:
            yield Room(id=room, metadata=metadata)
        except BrimfulError as error:
            yield Skipped(entry.location, f"{', '.join(metadata)}: {error}")


def _room(source: Source, entry: Entry) -> str:
    id = entry.data.get("id") if isinstance(entry.data, dict) else None
    if isinstance(id, str | int) and str(id):
        return join_id(source.room, id)
    return source.room if entry.number == 1 else f"{source.room}/{entry.number}"


class ConversationReader:
    """A room that is being read: its ids, the time of the last message, and the calls without a result."""

    def __init__(self, room: str, start: float) -> None:
        self._room = room
        self._at = start
        self._ids = IdChain(room)
        self._calls: dict[str, str] = {}

    def read(self, location: str, data: Any) -> Iterator[Message | Skipped]:
        """Yield a message as a record, or why it is skipped, and its parts of unknown types."""
        message = self._read(location, data)
        yield message
        if isinstance(message, Message):
            for part in _unknown_parts(data):
                reason = f"has a part of the unknown type {preview(part['type'])}: only its type is in the text"
                yield Skipped(location, reason)

    def _read(self, location: str, data: Any) -> Message | Skipped:
        if not isinstance(data, dict):
            return Skipped(location, f"must be a JSON object, not {_JSON_TYPE_NAMES.get(type(data), 'null')}")
        if "role" not in data:
            return Skipped(location, "has neither a role nor a list of messages")
        if _MESSAGE_FIELDS.isdisjoint(data) and data["role"] in _ROLES:
            return Skipped(location, "has no content")
        try:
            return self._plain_record(data["role"], data["content"]) if _is_plain(data) else self._record(data)
        except InvalidRequest as error:
            return Skipped(location, error.violations[0].removeprefix("messages[0]").lstrip(".: "))
        except BrimfulError as error:
            return Skipped(location, str(error))

    def _plain_record(self, role: Role, content: str) -> Message:
        id = self._ids.next(role, "", content, None)
        return Message(id=id, room=self._room, content=content, role=role, at=self._at)

    def _record(self, data: Mapping[str, Any]) -> Message:
        [message] = read_history([_normalize_message(data)])
        own_time = _time(data)
        self._at = self._at if own_time is None else own_time
        parts = tuple(self._with_tool_name(part) for part in message.parts)
        content: Content = parts[0].text if len(parts) == 1 and isinstance(parts[0], Text) else parts
        derived = self._ids.next(message.role, message.name, content, own_time)
        return Message(
            id=join_id(self._room, data["id"]) if _is_id(data.get("id")) else derived,
            room=self._room,
            content=content,
            sender=message.name,
            role=message.role,
            at=self._at,
            metadata=_metadata(data),
        )

    def _with_tool_name(self, part: Part) -> Part:
        """Return a tool result with the name of the tool, which only its call contains."""
        if isinstance(part, ToolCall):
            self._calls[part.id] = part.name
        elif isinstance(part, ToolResult):
            return msgspec.structs.replace(part, name=self._calls.pop(part.id, part.name))
        return part


def _is_plain(data: Mapping[str, Any]) -> bool:
    """Whether a message has only a role and a text, as most do: there is nothing to translate."""
    content = data.get("content")
    return (
        len(data) == len(("role", "content"))
        and type(content) is str
        and content != ""
        and data["role"] in _PLAIN_ROLES
    )


def _normalize_message(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return a message with its refusal as its text, and with all text parts of type `text`."""
    content = data.get("content")
    if _is_refusal(data):
        content = data["refusal"]
    if isinstance(content, list):
        content = [_normalize_part(part, data["role"]) for part in content]
    return {**data, "content": content}


def _normalize_part(part: Any, role: object) -> Any:
    if isinstance(part, dict) and isinstance(part.get("type"), str) and part["type"] in _TEXT_PARTS:
        return {"type": "text", "text": part.get(_TEXT_PARTS[part["type"]])}
    return {"type": "text", "text": f"[{part['type']}]"} if _is_unknown_part(part, role) else part


def _is_unknown_part(part: Any, role: object) -> bool:
    """Whether a part is of a type that messages of this role cannot have. It is kept in the metadata."""
    if not isinstance(part, dict) or not isinstance(part.get("type"), str) or not part["type"]:
        return False
    media = _MEDIA_PARTS if role in ("user", "tool") else ()
    return part["type"] != "text" and part["type"] not in _TEXT_PARTS and part["type"] not in media


def _metadata(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metadata of a message, and all fields without a counterpart."""
    value = data.get("metadata")
    metadata = dict(value) if isinstance(value, dict) else _without_empty({"metadata": value})
    extra = _without_empty({key: value for key, value in data.items() if key not in _KNOWN_FIELDS})
    refused = True if _is_refusal(data) else data.get("refusal")
    return {**extra, **metadata, **_without_empty({"refusal": refused, "unknown_parts": _unknown_parts(data)})}


def _unknown_parts(data: Mapping[str, Any]) -> list[dict[str, Any]]:
    parts = data["content"] if isinstance(data.get("content"), list) else ()
    return [part for part in parts if _is_unknown_part(part, data["role"])]


def _is_refusal(data: Mapping[str, Any]) -> bool:
    """Return whether a message contains only a refusal. Its content is then null, "" or []."""
    return isinstance(data.get("refusal"), str) and data["refusal"] != "" and data.get("content") in (None, "", [])


def _without_empty(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that are not empty; 0 and False are not."""
    return {key: value for key, value in fields.items() if value is not None and value not in ("", [], {})}


def _is_id(value: object) -> bool:
    return isinstance(value, str | int) and not isinstance(value, bool) and value != ""


def _time(data: Mapping[str, Any]) -> float | None:
    return next((at for at in (parse_time(data.get(key)) for key in _TIMES) if at is not None), None)


def recognizes(source: Source) -> bool:
    """Return whether there are roles or messages, except for the prompts of SillyTavern's settings."""
    return not source.keys.isdisjoint(("role", "messages")) and not source.keys >= _PRESET_KEYS


def read(source: Source) -> Iterator[ImportedRecord | Skipped]:
    """Yield messages, and rooms for requests with more fields."""
    return read_conversations(source, lambda message: message)


FORMAT: Final = Format(
    name="openai",
    description="OpenAI messages: a list, a request, JSON lines of messages or conversations, batch files",
    recognizes=recognizes,
    read=read,
    reads_entries=True,
)


def write_openai_messages(message: Message) -> Iterator[dict[str, Any]]:
    """Yield a message in OpenAI's format; the results of several tools become a message each.

    >>> next(write_openai_messages(Message(id="m", room="r", content="Hi", sender="Ada", at=60.0)))
    {'role': 'user', 'name': 'Ada', 'content': 'Hi', 'id': 'm', 'timestamp': 60.0}
    """
    extra = {"timestamp": message.at, **({"metadata": message.metadata} if message.metadata else {})}
    parts = (Text(text=message.content),) if isinstance(message.content, str) else message.content
    results = group_tool_results(parts)
    for number, (result, answer) in enumerate(results):
        id = message.id if number == 0 else f"{message.id}/{number + 1}"
        yield {"role": "tool", "tool_call_id": result.id, "content": _tool_content(result, answer), "id": id, **extra}
    if results:
        return
    name = {"name": message.sender} if message.sender else {}
    yield {"role": message.role, **name, **_write_content(message.content), "id": message.id, **extra}


def _tool_content(result: ToolResult, parts: tuple[Part, ...]) -> str | list[dict[str, Any]]:
    others = [_write_part(part) for part in parts if isinstance(part, Text | Media)]
    return [_write_part(Text(text=result.content)), *others] if others else result.content


def _write_content(content: str | tuple[Part, ...]) -> dict[str, Any]:
    if isinstance(content, str):
        return {"content": content}
    parts = [_write_part(part) for part in content if isinstance(part, Text | Media)]
    calls = [
        {"id": part.id, "type": "function", "function": {"name": part.name, "arguments": part.arguments}}
        for part in content
        if isinstance(part, ToolCall)
    ]
    return {"content": parts or None, **({"tool_calls": calls} if calls else {})}


def _write_part(part: Text | Media) -> dict[str, Any]:
    if isinstance(part, Text):
        return {"type": "text", "text": part.text}
    if part.modality == "audio" and part.data:
        format = part.media_type.removeprefix("audio/") or "wav"
        return {"type": "input_audio", "input_audio": {"data": part.data, "format": format}}
    url = f"data:{part.media_type or 'image/png'};base64,{part.data}" if part.data else part.url
    image = {"url": url} if part.detail == "auto" else {"url": url, "detail": part.detail}
    return {"type": "image_url", "image_url": image}
