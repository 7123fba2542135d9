"""Find the conversation, the user and the new messages of a request, from its headers or its body."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from brimful.assembly.conversations import without_cache_marks
from brimful.core.content import Text, ToolCall
from brimful.core.prompt import Message as PromptMessage
from brimful.core.prompt import Tool
from brimful.core.validation import clean_text
from brimful.records import Message
from brimful.server.access import Client, find_user
from brimful.server.errors import ApiError
from brimful.server.proxy.request import ProxyRequest
from brimful.server.proxy.storable import check_storable
from brimful.wires.incoming import read_incoming
from brimful.wires.storage import Storage, ToolStep

CONVERSATION_HEADER: Final = "x-brimful-conversation"
USER_HEADER: Final = "x-brimful-user"
_CONVERSATION_FIELDS: Final = ("conversation", "conversation_id", "thread_id", "session_id")
_USER_FIELDS: Final = ("user_id", "user")
_PROMPT_ROLES: Final = ("system", "developer")  # roles of prompts that many conversations share


class Conversation(msgspec.Struct, frozen=True, kw_only=True):
    """A request as part of a conversation: `messages` are its messages, oldest first, not stored yet.

    `positions` are their indexes in the request. `steps` are sent exactly as the client sent them. `recalled` are the
    recalls of earlier rounds, which come last and are never stored.
    """

    room: str
    user: str | None
    system: str | None
    messages: tuple[Message, ...]
    positions: tuple[int, ...]
    recalled: tuple[Message, ...]
    tools: tuple[Tool, ...]
    steps: tuple[ToolStep, ...]
    completion: int | None


def get_storage(request: ProxyRequest) -> Storage:
    """Return how the conversation of a request is stored."""
    if request.wire.storage is None:
        name = request.wire.name
        message = f"the wire format {name!r} is not supported in remember mode: set X-Brimful-Mode to fit"
        raise ApiError("invalid", message, param="x-brimful-mode")
    return request.wire.storage


def parse_conversation(request: ProxyRequest) -> Conversation:
    """Parse a request as part of a conversation."""
    wire, storage = request.wire, get_storage(request)
    read_incoming(request.body, wire.name)
    check_storable(request, storage)
    messages, field = request.messages, wire.message_field
    incoming = read_incoming(request.body | {field: storage.strip(messages)}, wire.name)
    room = conversation_room(request)
    numbered = [(i, message) for i, turn in enumerate(incoming.turns) for message in turn.messages]
    prompts = [*incoming.system, *(message for _, message in numbered if message.role == "system")]
    turns = [(i, message) for i, message in numbered if message.role != "system" and _has_content(message)]
    if not turns:
        raise ApiError("invalid", f"{field}: only system messages, nothing to answer", param=field)
    if storage.joins_calls:
        turns = _join_calls(turns)
    read = [_to_message(message, room, request.at) for _, message in turns]
    own = sum(i < len(messages) - request.recalled for i, _ in turns)
    return Conversation(
        room=room,
        user=named_user(request),
        system="\n\n".join(map(_text, prompts)) if prompts else None,
        messages=tuple(read[:own]),
        positions=tuple([i for i, _ in turns[:own]]),
        recalled=tuple(assign_ids(read[own:], room, None)),
        tools=incoming.tools,
        steps=storage.find_steps(messages),
        completion=incoming.completion,
    )


def conversation_room(request: ProxyRequest) -> str:
    """Return the room of a request: the conversation it names, or else that of its user."""
    user = named_user(request)
    room = named_room(request) or (f"user/{user}" if user else "")
    if not room:
        raise ApiError(
            "invalid",
            "remember mode needs a conversation: set the header X-Brimful-Conversation or metadata.conversation",
            param="metadata.conversation",
        )
    return room


def named_room(request: ProxyRequest) -> str:
    """Return the conversation that a request names, or an empty string."""
    return request.headers.get(CONVERSATION_HEADER) or _first(_metadata(request.body), _CONVERSATION_FIELDS)


def opening_digest(request: ProxyRequest) -> str:
    """Return a digest of the start of a request up to its first turn, which identifies the conversation."""
    listed = request.messages
    turns = (
        i for i, message in enumerate(listed) if isinstance(message, dict) and message.get("role") not in _PROMPT_ROLES
    )
    opening = [without_cache_marks(message) for message in listed[: next(turns, 0) + 1]]
    return hashlib.blake2b(msgspec.json.encode(opening), digest_size=12).hexdigest()


def named_user(request: ProxyRequest) -> str | None:
    """Return the user that the key is bound to, or the one that a request names: in a header, `user`, or `metadata`."""
    user = find_user(request.client, request.headers.get(USER_HEADER, ""))
    return user or _first(request.body, ("user",)) or _first(_metadata(request.body), _USER_FIELDS) or None


def limited_user(client: Client, headers: Mapping[str, str], body: Mapping[str, Any]) -> str | None:
    """Return the user whose limits apply to a request: like `named_user`, but the key's own user in any case."""
    named = headers.get(USER_HEADER, "") or _first(body, ("user",)) or _first(_metadata(body), _USER_FIELDS)
    return client.user or named or None


def recorded_user(request: ProxyRequest) -> str | None:
    """Return the user of a request for its record."""
    return storable_user(named_user(request))


def storable_user(user: str | None) -> str | None:
    """Return a user, or None if no store could hold the name."""
    return user if user and "\0" not in user and clean_text(user) == user else None


def assign_ids(messages: Sequence[Message], room: str, after: Message | None, left: int = 0) -> list[Message]:
    """Give messages ids that depend on their position, so that resending a message gives the same id.

    `left` is the position of the last abandoned message: repeated after that, a message is a new one.

    >>> hi = Message(id="(new)", room="r", content="Hi")
    >>> first, second = assign_ids([hi, hi], "r", None)
    >>> assign_ids([hi], "r", None) == [first], first.id == second.id
    (True, False)
    """
    position = [room, after.id if after else "", after.seq if after else 0]
    digest = hashlib.blake2b(msgspec.json.encode([*position, left] if left else position))
    named = []
    for message in messages:
        digest.update(msgspec.json.encode([message.role, message.content]))
        named.append(msgspec.structs.replace(message, id=f"msg-{digest.hexdigest()[:32]}"))
    return named


def _join_calls(turns: Sequence[tuple[int, PromptMessage]]) -> list[tuple[int, PromptMessage]]:
    """Return messages in which the calls of an answer are part of it."""
    joined: list[tuple[int, PromptMessage]] = []
    for index, message in turns:
        is_call = message.role == "assistant" and all(isinstance(part, ToolCall) for part in message.parts)
        if is_call and joined and joined[-1][1].role == "assistant":
            first, before = joined[-1]
            joined[-1] = first, msgspec.structs.replace(before, parts=(*before.parts, *message.parts))
        else:
            joined.append((index, message))
    return joined


def _to_message(message: PromptMessage, room: str, at: float) -> Message:
    return Message(id="(new)", room=room, content=message.content, sender=message.name, role=message.role, at=at)


def _has_content(message: PromptMessage) -> bool:
    """Return whether there is anything to store: an assistant message may contain reasoning only."""
    return message.role != "assistant" or bool(message.parts)


def _text(message: PromptMessage) -> str:
    return "\n\n".join(part.text for part in message.parts if isinstance(part, Text))


def _metadata(body: Mapping[str, Any]) -> Mapping[str, Any]:
    metadata = body.get("metadata")
    return metadata if isinstance(metadata, dict) else {}


def _first(fields: Mapping[str, Any], names: Sequence[str]) -> str:
    return next((fields[name] for name in names if isinstance(fields.get(name), str) and fields[name]), "")
