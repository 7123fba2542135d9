"""Slack's export: a folder or archive with `users.json`, `channels.json` and a folder of days for each channel.

A day is a list of messages (`channel/2024-01-31.json`). What `users.json` says makes names of the ids in it; a day that
is imported alone keeps the ids. See https://slack.com/help/articles/220556107 and api.slack.com/events/message.
"""

import re
from collections.abc import Iterator
from typing import Any, Final

from brimful.errors import BrimfulError
from brimful.importers.ids import joined
from brimful.importers.importer import Imported, Importer
from brimful.importers.loose import kept, mapping, mappings, name, text, texts
from brimful.importers.slack_blocks import attachment_lines, block_lines, is_preview
from brimful.importers.source import Entry, Skipped, Source
from brimful.importers.times import seconds
from brimful.records import Message, Room, User

PREFIX: Final = "slack"
PLACES: Final = frozenset({"channels.json", "groups.json", "dms.json", "mpims.json"})
"""Files that tell of channels, private ones, and talks of two or more."""
_REFERENCE: Final = re.compile(r"<([^<>]*)>")


def recognises(source: Source) -> bool:
    """Say whether it is a day of a channel, or one of the files that tell of people and channels."""
    keys = source.keys
    if source.path.name in PLACES:
        return {"id", "members"} <= keys
    if source.path.name == "users.json":
        return {"id", "team_id", "profile"} <= keys
    return {"type", "ts"} <= keys and not keys.isdisjoint(("user", "text", "bot_id")) and source.shape == "array"


def read(source: Source) -> Iterator[Imported | Skipped]:
    """Yield people, rooms, or the messages of a day."""
    people = source.once("people", lambda: _names(source))
    for entry in source.entries():
        if isinstance(entry, Skipped):
            yield entry
            continue
        try:
            yield _record(source, entry, people)
        except BrimfulError as error:
            yield Skipped(entry.place, str(error))


def _record(source: Source, entry: Entry, people: dict[str, str]) -> Imported | Skipped:
    data = mapping(entry.data)
    if source.path.name in PLACES:
        return _room(source, data, people)
    if source.path.name == "users.json":
        return User(id=joined(PREFIX, name(data.get("id"))), name=_name(data), metadata=_person(data))
    return _message(source, entry.place, data, people)


def _names(source: Source) -> dict[str, str]:
    """Return the names of people by their ids, from the root of the export."""
    users = source.beside("../users.json") or source.beside("users.json")
    return {name(user.get("id")): _name(user) for user in mappings(users)}


def _name(user: dict[str, Any]) -> str:
    profile = mapping(user.get("profile"))
    shown = text(profile.get("display_name")) or text(profile.get("real_name"))
    return shown or text(user.get("real_name")) or text(user.get("name")) or name(user.get("id"))


def _person(user: dict[str, Any]) -> dict[str, Any]:
    profile = mapping(user.get("profile"))
    return kept(handle=text(user.get("name")), title=text(profile.get("title")), bot=user.get("is_bot") is True)


def _room(source: Source, data: dict[str, Any], people: dict[str, str]) -> Room:
    members = [people.get(member, member) for member in texts(data.get("members"))]
    folder = text(data.get("name")) or name(data.get("id"))
    room = joined(source.named or PREFIX, folder)
    return Room(
        id=room,
        name=f"#{text(data['name'])}" if text(data.get("name")) else ", ".join(members),
        created=seconds(data.get("created")) or 0.0,
        metadata=kept(
            slack=name(data.get("id")),
            topic=text(mapping(data.get("topic")).get("value")),
            purpose=text(mapping(data.get("purpose")).get("value")),
            archived=data.get("is_archived") is True,
            members=members,
            pins=[joined(room, name(pin.get("id"))) for pin in mappings(data.get("pins")) if name(pin.get("id"))],
        ),
    )


def _message(source: Source, place: str, data: dict[str, Any], people: dict[str, str]) -> Message | Skipped:
    if data.get("type") != "message" or not name(data.get("ts")):
        return Skipped(place, "is no message: it has no time (`ts`), or is of another type")
    room = joined(source.named or PREFIX, source.path.parent.name or source.room)
    said = "\n".join(_lines(data, people))
    if not said:
        return Skipped(place, "says nothing")
    ts, thread = name(data["ts"]), name(data.get("thread_ts"))
    return Message(
        id=joined(room, ts),
        room=room,
        content=said,
        sender=_sender(data, people),
        at=seconds(ts) or source.modified,
        edited=seconds(mapping(data.get("edited")).get("ts")),
        metadata=kept(
            subtype=text(data.get("subtype")),
            user=name(data.get("user")) or name(data.get("bot_id")),
            thread=joined(room, thread) if thread else None,
            reactions={text(each.get("name")): each.get("count") for each in mappings(data.get("reactions"))},
            files=[text(each.get("url_private")) for each in mappings(data.get("files"))],
            attachments=mappings(data.get("attachments")),
            blocks=[each for each in mappings(data.get("blocks")) if each.get("type") != "rich_text"],
        ),
    )


def _sender(data: dict[str, Any], people: dict[str, str]) -> str:
    id = name(data.get("user"))
    profile = mapping(data.get("user_profile"))
    called = text(profile.get("display_name")) or text(profile.get("real_name"))
    bot = text(data.get("username")) or text(mapping(data.get("bot_profile")).get("name"))
    return people.get(id) or called or bot or id or name(data.get("bot_id"))


def _lines(data: dict[str, Any], people: dict[str, str]) -> Iterator[str]:
    """Yield what is said: the text, else the blocks; what is attached, and the names of files.

    Previews of links are told where nothing else is.
    """
    attached = mappings(data.get("attachments"))
    told = [text(data["text"])] if text(data.get("text")) else [*block_lines(data.get("blocks"))]
    told += [line for each in attached if not is_preview(each) for line in attachment_lines(each)]
    told = told or [line for each in attached for line in attachment_lines(each)]
    yield from (readable(line, people) for line in told)
    for file in mappings(data.get("files")):
        yield f"[file {text(file.get('name')) or text(file.get('title')) or name(file.get('id'))}]"


def readable(said: str, people: dict[str, str]) -> str:
    """Put names in the place of references, and signs in that of their codes.

    >>> readable("<@U1> see <#C2|general> &amp; <https://a.org|this> <!here>", {"U1": "Ada"})
    '@Ada see #general & this (https://a.org) @here'
    """
    named = _REFERENCE.sub(lambda found: _referred(found[1], people), said)
    return named.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


def _referred(reference: str, people: dict[str, str]) -> str:
    target, _, label = reference.partition("|")
    match target[:1]:
        case "@":
            return "@" + (people.get(target[1:]) or label or target[1:])
        case "#":
            return "#" + (label or target[1:])
        case "!":
            return label or "@" + target[1:].partition("^")[0]
        case _:
            return f"{label} ({target})" if label and label != target else target.removeprefix("mailto:")


IMPORTER: Final = Importer(
    name="slack",
    description="Slack's export: people, channels and their days; best as the whole folder or archive",
    recognises=recognises,
    read=read,
)
