"""Conversations of messages in OpenAI's form, or in one that can be told in it → rooms and messages.

A piece of the file is a message or a conversation (it has `messages`, or is a list of them). Messages go into the
source's room, and so does a conversation that comes first; the n-th goes into `ROOM/n`, and one that has an id into
`ROOM/id`.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import msgspec

from brimful.core.content import Part, Text, ToolCall, ToolResult
from brimful.core.prompt import Message as Spoken
from brimful.errors import BrimfulError, InvalidRequest
from brimful.importers.batches import answers_of, request_of
from brimful.importers.ids import Chain, joined
from brimful.importers.importer import Imported
from brimful.importers.source import Entry, Skipped, Source
from brimful.importers.times import seconds
from brimful.records import Content, Message, Room
from brimful.render import read_history

Translate = Callable[[dict[str, Any]], dict[str, Any]]
"""Tells a message of another form in OpenAI's; one that it does not know stays as it is."""

_TIMES: Final = ("timestamp", "created", "created_at")
_TEXTS: Final = {"input_text": "text", "output_text": "text", "refusal": "refusal"}
"""Parts that are texts under another name, and the field in which they hold it."""

_OF_A_MESSAGE: Final = frozenset({"content", "tool_calls", "function_call", "refusal"})
"""What something with a role must have one of: else it is of a form that we do not know."""
_PLACED: Final = frozenset(
    {"role", "content", "tool_calls", "refusal", "name", "id", "metadata", "tool_call_id", *_TIMES}
)
_ROLES: Final = ("system", "developer", "user", "assistant", "tool")

_SORTS: Final[dict[type, str]] = {
    str: "a text",
    int: "a number",
    float: "a number",
    bool: "a truth value",
    list: "a list",
}


def read_conversations(source: Source, translate: Translate) -> Iterator[Imported | Skipped]:
    """Yield messages, and rooms where a request says more than them."""
    loose = Conversation(source.room, source.modified)
    for found in source.entries():
        entry = found if isinstance(found, Skipped) else Entry(found.place, request_of(found.data), found.number)
        match entry:
            case Skipped():
                yield entry
            case Entry(data={"custom_id": str() | int() as id, "response": _} as line):
                yield from _read_answers(source, entry.place, id, line)
            case Entry(data={"messages": list(messages)} as request) if "role" not in request:
                room = _room(source, entry)
                yield from _read_request(room, entry, request)
                yield from read_conversation(room, source, f"{entry.place}: messages", messages, translate)
            case Entry(data=list(messages)):
                room = _room(source, entry)
                yield from read_conversation(room, source, f"{entry.place}: messages", messages, translate)
            case _:
                yield loose.read(entry.place, _told(entry.data, translate))


def _read_answers(source: Source, place: str, id: str | int, line: dict[str, Any]) -> Iterator[Message | Skipped]:
    """Yield the answer of a batch, into the room of its request; each further choice into a room of its own."""
    told = answers_of(line)
    if isinstance(told, str):
        yield Skipped(place, told)
        return
    for at, message in enumerate(told):
        room = joined(source.room, id, at + 1) if at else joined(source.room, id)
        yield Conversation(room, source.modified).read(f"{place}: choices[{at}]", message)


def read_conversation(
    room: str, source: Source, place: str, messages: list[Any], translate: Translate
) -> Iterator[Message | Skipped]:
    """Yield the messages of one room."""
    conversation = Conversation(room, source.modified)
    for at, message in enumerate(messages):
        yield conversation.read(f"{place}[{at}]", _told(message, translate))


def _told(data: Any, translate: Translate) -> Any:
    return translate(data) if isinstance(data, dict) else data


def _read_request(room: str, entry: Entry, request: Mapping[str, Any]) -> Iterator[Room | Skipped]:
    """Yield the room of a request that says more than messages: it keeps the tools, the model and all else."""
    metadata = _saying({key: value for key, value in request.items() if key not in ("id", "messages")})
    if metadata:
        try:
            yield Room(id=room, metadata=metadata)
        except BrimfulError as error:
            yield Skipped(entry.place, f"{', '.join(metadata)}: {error}")


def _room(source: Source, entry: Entry) -> str:
    id = entry.data.get("id") if isinstance(entry.data, dict) else None
    if isinstance(id, str | int) and str(id):
        return joined(source.room, id)
    return source.room if entry.number == 1 else f"{source.room}/{entry.number}"


class Conversation:
    """One room as it is read: the ids, the time of what was said last, and the calls that wait for results."""

    def __init__(self, room: str, start: float) -> None:
        """Begin a room at this time."""
        self._room = room
        self._at = start
        self._ids = Chain(room)
        self._calls: dict[str, str] = {}

    def read(self, place: str, data: Any) -> Message | Skipped:
        """Return a message as a record, or why it is none."""
        if not isinstance(data, dict):
            return Skipped(place, f"must be a JSON object, not {_SORTS.get(type(data), 'null')}")
        if "role" not in data:
            return Skipped(place, "has neither a role, as a message has, nor a list of messages")
        if _OF_A_MESSAGE.isdisjoint(data) and data["role"] in _ROLES:
            return Skipped(place, "has no content, as a message has")
        try:
            [spoken] = read_history([_mended(data)])
            return self._record(spoken, data)
        except InvalidRequest as error:
            return Skipped(place, error.violations[0].removeprefix("messages[0]").lstrip(".: "))
        except BrimfulError as error:
            return Skipped(place, str(error))

    def _record(self, spoken: Spoken, data: Mapping[str, Any]) -> Message:
        given = _time(data)
        self._at = self._at if given is None else given
        parts = tuple(self._named(part) for part in spoken.parts)
        content: Content = parts[0].text if len(parts) == 1 and isinstance(parts[0], Text) else parts
        derived = self._ids.next(spoken.role, spoken.name, content, given)
        return Message(
            id=joined(self._room, data["id"]) if _is_id(data.get("id")) else derived,
            room=self._room,
            content=content,
            sender=spoken.name,
            role=spoken.role,
            at=self._at,
            metadata=_metadata(data),
        )

    def _named(self, part: Part) -> Part:
        """Return a result with the name of the tool that was called, which its call told us."""
        if isinstance(part, ToolCall):
            self._calls[part.id] = part.name
        elif isinstance(part, ToolResult):
            return msgspec.structs.replace(part, name=self._calls.pop(part.id, part.name))
        return part


def _mended(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return a message with its refusal as its text, and other names of text parts as `text`."""
    content = data.get("content")
    if _is_refusal(data):
        content = data["refusal"]
    if isinstance(content, list):
        content = [_mended_part(part) for part in content]
    return {**data, "content": content}


def _mended_part(part: Any) -> Any:
    if isinstance(part, dict) and isinstance(part.get("type"), str) and part["type"] in _TEXTS:
        return {"type": "text", "text": part.get(_TEXTS[part["type"]])}
    return part


def _metadata(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the message says of itself, and whatever has no place of its own."""
    given = data.get("metadata")
    metadata = dict(given) if isinstance(given, dict) else _saying({"metadata": given})
    beside = _saying({key: value for key, value in data.items() if key not in _PLACED})
    refused = True if _is_refusal(data) else data.get("refusal")
    return {**beside, **metadata, **_saying({"refusal": refused})}


def _is_refusal(data: Mapping[str, Any]) -> bool:
    """Say whether the refusal is all that a message says. Servers write nothing beside it as null, "" or []."""
    return isinstance(data.get("refusal"), str) and data["refusal"] != "" and data.get("content") in (None, "", [])


def _saying(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return fields that say anything; 0 and False do."""
    return {key: value for key, value in fields.items() if value is not None and value not in ("", [], {})}


def _is_id(value: object) -> bool:
    return isinstance(value, str | int) and not isinstance(value, bool) and value != ""


def _time(data: Mapping[str, Any]) -> float | None:
    return next((at for at in (seconds(data.get(key)) for key in _TIMES) if at is not None), None)
