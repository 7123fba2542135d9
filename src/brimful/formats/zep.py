"""Zep and Graphiti: facts with the time in which they are true, entities, users and messages, as their APIs have them.

Both products call a fact an edge. One that became untrue becomes an archived memory, with the time when it ended.
"""

from collections.abc import Iterator
from typing import Any, Final, get_args

from brimful.core.content import Role
from brimful.errors import BrimfulError
from brimful.formats.ids import join_id
from brimful.formats.lenient import as_dict, as_dicts, as_id, as_str, parse_time, without_empty
from brimful.formats.memories import is_json, make_memory, other_fields, read_items
from brimful.formats.source import Format, ImportedRecord, Skipped, Source
from brimful.records import Message, User

PREFIX: Final = "zep"
IS_EPISODE: Final = "is an episode: the text that facts were taken from"
IS_THREAD: Final = "is the head of a thread: import its messages"
UNKNOWN: Final = "is not a fact, an entity, a user or a message of Zep or Graphiti"
_LISTS: Final = ("edges", "facts", "nodes", "episodes", "items", "messages", "users", "threads", "results")
_FACT_KEYS: Final = frozenset(("valid_at", "invalid_at", "expired_at", "episodes", "source_node_uuid"))
_ENTITY_KEYS: Final = frozenset(("labels", "name_embedding", "attributes"))
_FACT_KNOWN: Final = (
    *("uuid", "fact", "name", "fact_embedding", "created_at", "valid_at", "invalid_at", "expired_at", "group_id"),
    *("user_uuid", "user_id", "score", "relevance"),
)
_ENTITY_KNOWN: Final = (
    *("uuid", "name", "summary", "name_embedding", "created_at", "group_id", "user_uuid", "user_id", "score"),
    *("relevance", "degree"),
)


def recognizes(source: Source) -> bool:
    """Return whether there are facts, entities, users or messages."""
    keys = source.keys
    facts = {"uuid", "fact"} <= keys and not keys.isdisjoint(_FACT_KEYS)
    entities = {"uuid", "name", "summary"} <= keys and not keys.isdisjoint(_ENTITY_KEYS)
    messages = {"uuid", "role", "content"} <= keys and not keys.isdisjoint(("processed", "thread_uuid", "role_type"))
    return is_json(source) and (facts or entities or messages or {"uuid", "user_id", "graph_uuid"} <= keys)


def read(source: Source) -> Iterator[ImportedRecord | Skipped]:
    """Yield facts and entities as memories, and users and messages."""
    for key, entry in read_items(source, *_LISTS):
        if isinstance(entry, Skipped):
            yield entry
        elif key in ("", *_LISTS):
            yield from _read_one(source, entry.location, as_dict(entry.data))


def _read_one(source: Source, location: str, data: dict[str, Any]) -> Iterator[ImportedRecord | Skipped]:
    nested = [(key, each) for key in _LISTS for each in as_dicts(data.get(key))]
    if "fact" in data:
        yield from _make_fact(source, location, data)
    elif "content" in data:
        yield from _make_message(source, location, data)
    elif "summary" in data and "name" in data:
        yield from _make_entity(source, location, data)
    elif nested:  # an answer of the API on each line
        for number, (key, each) in enumerate(nested):
            yield from _read_one(source, f"{location}: {key}[{number}]", each)
    elif as_id(data.get("user_id")):
        yield from _make_user(location, data)
    else:
        yield Skipped(location, IS_THREAD if "thread_id" in data else UNKNOWN)


def _owner(data: dict[str, Any]) -> str | None:
    """Return whose fact it is: Graphiti's group, or Zep's user."""
    return as_id(data.get("user_id")) or as_id(data.get("group_id")) or as_id(data.get("user_uuid")) or None


def _make_fact(source: Source, location: str, data: dict[str, Any]) -> Iterator[ImportedRecord | Skipped]:
    """Yield a fact. It is archived if it was no longer true when the file was written."""
    times = [parse_time(data.get(key)) for key in ("valid_at", "created_at")]
    invalid, expired = parse_time(data.get("invalid_at")), parse_time(data.get("expired_at"))
    ended = expired if invalid is None else invalid
    uuid = as_id(data.get("uuid"))
    if not uuid:
        yield Skipped(location, "has no uuid")
        return
    yield from make_memory(
        location,
        join_id(PREFIX, uuid),
        as_str(data.get("fact")),
        user=_owner(data),
        source=PREFIX,
        at=next((time for time in times if time is not None), source.modified),
        edited=expired,
        ended=ended,
        archived=expired is not None or (ended is not None and ended <= source.modified),
        metadata={
            **other_fields(data, *_FACT_KNOWN),
            **without_empty(relation=as_str(data.get("name")), created=times[1] if times[0] is not None else None),
        },
    )


def _make_entity(source: Source, location: str, data: dict[str, Any]) -> Iterator[ImportedRecord | Skipped]:
    """Yield the facts about an entity, if there are any."""
    name, summary, uuid = as_str(data.get("name")), as_str(data.get("summary")), as_id(data.get("uuid"))
    created = parse_time(data.get("created_at"))
    yield from make_memory(
        location,
        join_id(PREFIX, "entity", uuid or name),
        summary if name in summary else f"{name}: {summary}" if summary.strip() else "",
        user=_owner(data),
        source=PREFIX,
        at=source.modified if created is None else created,
        edited=None if created is None else source.modified,  # neither product says when
        metadata={**other_fields(data, *_ENTITY_KNOWN), "entity": name},
    )


def _make_message(source: Source, location: str, data: dict[str, Any]) -> Iterator[ImportedRecord | Skipped]:
    """Yield a message of a thread. Graphiti's episodes have no role."""
    role = as_str(data.get("role_type")) or as_str(data.get("role"))
    if "source" in data or not role:
        yield Skipped(location, IS_EPISODE)
        return
    uuid, text = as_id(data.get("uuid")), as_str(data.get("content"))
    thread = as_id(data.get("thread_uuid")) or as_id(data.get("session_id"))
    room = join_id(source.requested_room or PREFIX, thread) if thread else source.room
    if not uuid or not text.strip():
        yield Skipped(location, "has no uuid or no text")
        return
    at = parse_time(data.get("reference_time"))
    at = parse_time(data.get("created_at")) if at is None else at
    try:
        yield Message(
            id=join_id(room, uuid),
            room=room,
            content=text,
            role=role if role in get_args(Role) and role != "tool" else "user",  # type: ignore[arg-type]
            sender=as_str(data.get("name")),
            at=source.modified if at is None else at,
            metadata=as_dict(data.get("metadata")),
        )
    except BrimfulError as error:
        yield Skipped(location, str(error))


def _make_user(location: str, data: dict[str, Any]) -> Iterator[ImportedRecord | Skipped]:
    names = (as_str(data.get("first_name")), as_str(data.get("last_name")))
    try:
        yield User(
            id=join_id(as_id(data["user_id"])),
            name=" ".join(name for name in names if name),
            metadata=as_dict(data.get("metadata")) | without_empty(email=as_str(data.get("email"))),
        )
    except BrimfulError as error:
        yield Skipped(location, str(error))


FORMAT: Final = Format(
    name="zep",
    description="Zep and Graphiti: facts with the time in which they are true, entities, users and messages",
    recognizes=recognizes,
    read=read,
)
