"""Which conversation a request belongs to, who speaks in it, and what is said: from headers, or from the body."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from brimful.core.content import Text
from brimful.core.prompt import Message as Said
from brimful.core.prompt import Tool
from brimful.records import Content, Message
from brimful.render.given import read_given
from brimful.server.asked import Asked
from brimful.server.carried import check_carried
from brimful.server.errors import Refusal
from brimful.server.thoughts import Step, steps_of, without_thoughts

CONVERSATION: Final = "x-brimful-conversation"
USER: Final = "x-brimful-user"
_CONVERSATION_FIELDS: Final = ("conversation", "conversation_id", "thread_id", "session_id")
_USER_FIELDS: Final = ("user_id", "user")
_PROMPTS: Final = ("system", "developer")  # roles of what many conversations begin with alike


class Conversation(msgspec.Struct, frozen=True, kw_only=True):
    """What a request says to a room: `system` is its prompt, `said` are its turns, oldest first, not stored yet.

    `places` tell which of the request's messages each of them is. `steps` are those that go out as they came.
    """

    room: str
    user: str | None
    system: str | None
    said: tuple[Message, ...]
    places: tuple[int, ...]
    tools: tuple[Tool, ...]
    steps: tuple[Step, ...]
    completion: int | None


def conversation_of(asked: Asked) -> Conversation:
    """Read a request as a part of a conversation."""
    read_given(asked.body, asked.wire)
    messages = asked.body["messages"]
    check_carried(messages, asked.wire)
    given = read_given(asked.body | {"messages": without_thoughts(messages, asked.wire)}, asked.wire)
    room = home_of(asked)
    spoken = [(at, message) for at, turn in enumerate(given.turns) for message in turn.said]
    prompts = [*given.system, *(message for _, message in spoken if message.role == "system")]
    said = [(at, message) for at, message in spoken if message.role != "system" and _says(message)]
    if not said:
        raise Refusal(
            "invalid", "messages: there is nothing but system messages, and nothing to answer", param="messages"
        )
    return Conversation(
        room=room,
        user=user_of(asked),
        system="\n\n".join(map(_text, prompts)) if prompts else None,
        said=tuple([_record(message, room, asked.at) for _, message in said]),
        places=tuple([at for at, _ in said]),
        tools=given.tools,
        steps=steps_of(messages, asked.wire),
        completion=given.completion,
    )


def home_of(asked: Asked) -> str:
    """Return the room of a request: the conversation that it names, or its user's own."""
    user = user_of(asked)
    room = room_of(asked) or (f"user/{user}" if user else "")
    if not room:
        raise Refusal(
            "invalid",
            "to remember, a conversation must be named: by the header X-Brimful-Conversation, or metadata.conversation",
            param="metadata.conversation",
        )
    return room


def room_of(asked: Asked) -> str:
    """Return the conversation that a request names; nothing if it names none."""
    return asked.headers.get(CONVERSATION) or _first(_metadata(asked.body), _CONVERSATION_FIELDS)


def opening_of(asked: Asked) -> str:
    """Return a digest of how a request begins, up to its first turn: clients send all of a conversation each time."""
    messages = asked.body.get("messages")
    listed = messages if isinstance(messages, list) else []
    turns = (
        at for at, message in enumerate(listed) if isinstance(message, dict) and message.get("role") not in _PROMPTS
    )
    opening = listed[: next(turns, 0) + 1]
    return hashlib.blake2b(msgspec.json.encode(opening), digest_size=12).hexdigest()


def user_of(asked: Asked) -> str | None:
    """Return the user that a request names: by header, as OpenAI's `user`, or in `metadata`."""
    named = asked.headers.get(USER) or _first(asked.body, ("user",)) or _first(_metadata(asked.body), _USER_FIELDS)
    return named or None


def with_ids(messages: Sequence[Message], room: str, after: Message | None, left: int = 0) -> list[Message]:
    """Give messages the ids that they get whenever they are sent to the same place: sent again, they are the same.

    `left` is the place of the last message that the conversation left behind: said again after that, it is another.

    >>> hi = Message(id="(new)", room="r", content="Hi")
    >>> first, second = with_ids([hi, hi], "r", None)
    >>> with_ids([hi], "r", None) == [first], first.id == second.id
    (True, False)
    """
    place = [room, after.id if after else "", after.seq if after else 0]
    digest = hashlib.blake2b(msgspec.json.encode([*place, left] if left else place))
    named = []
    for message in messages:
        digest.update(msgspec.json.encode([message.role, message.content]))
        named.append(msgspec.structs.replace(message, id=f"msg-{digest.hexdigest()[:32]}"))
    return named


def _record(message: Said, room: str, at: float) -> Message:
    return Message(id="(new)", room=room, content=_content(message), sender=message.name, role=message.role, at=at)


def _says(message: Said) -> bool:
    """Say whether there is anything to keep: an assistant may have done nothing but think."""
    return message.role != "assistant" or bool(message.parts)


def _content(message: Said) -> Content:
    """Return plain text as such: it is counted once."""
    match message.parts:
        case (Text(text=text),):
            return text
        case ():
            return ""
        case parts:
            return parts


def _text(message: Said) -> str:
    return "\n\n".join(part.text for part in message.parts if isinstance(part, Text))


def _metadata(body: Mapping[str, Any]) -> Mapping[str, Any]:
    metadata = body.get("metadata")
    return metadata if isinstance(metadata, dict) else {}


def _first(fields: Mapping[str, Any], names: Sequence[str]) -> str:
    return next((fields[name] for name in names if isinstance(fields.get(name), str) and fields[name]), "")
