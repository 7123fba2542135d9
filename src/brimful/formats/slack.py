"""Slack exports: a folder or archive with `users.json`, `channels.json` and a folder of days for each channel.

A day is a list of messages (`channel/2024-01-31.json`). User ids become names if `users.json` is there. See
https://slack.com/help/articles/220556107, api.slack.com/events/message and docs.slack.dev/reference/block-kit.
"""

import re
from collections.abc import Iterator
from typing import Any, Final

from brimful.formats.ids import join_id
from brimful.formats.lenient import as_dict, as_dicts, as_id, as_str, as_strs, parse_time, without_empty
from brimful.formats.source import Entry, Format, ImportedRecord, Skipped, Source, read_each
from brimful.records import Message, Room, User

MAX_BLOCK_DEPTH: Final = 8  # of nested blocks; Slack has four

_LINE_ELEMENTS: Final = ("rich_text_section", "rich_text_quote", "rich_text_preformatted")
PREFIX: Final = "slack"
CHANNEL_FILES: Final = frozenset({"channels.json", "groups.json", "dms.json", "mpims.json"})
"""Files that describe public and private channels and direct conversations."""
_REFERENCE: Final = re.compile(r"<([^<>]*)>")


def block_lines(blocks: object, levels: int = MAX_BLOCK_DEPTH) -> Iterator[str]:
    """Yield the lines of blocks, in Slack's markup.

    >>> list(block_lines([{"type": "section", "text": {"type": "mrkdwn", "text": "*Hi*"}, "fields": [{"text": "a"}]}]))
    ['*Hi*', 'a']
    """
    for block in as_dicts(blocks) if levels else ():
        if block.get("type") == "rich_text":
            yield from _rich_lines(block, levels)
            continue
        shown = (block.get(key) for key in ("title", "text", "label", "alt_text"))
        lines = [as_str(each) or as_str(as_dict(each).get("text")) for each in shown]
        yield from filter(None, lines)
        yield from block_lines(block.get("fields"), levels - 1)
        yield from block_lines(block.get("elements"), levels - 1)


def _rich_lines(block: dict[str, Any], levels: int) -> Iterator[str]:
    """Yield the paragraphs and list items of a rich text."""
    for element in as_dicts(block.get("elements")) if levels else ():
        if element.get("type") in _LINE_ELEMENTS:
            yield from filter(None, ["".join(map(_inline_text, as_dicts(element.get("elements"))))])
        else:
            yield from (f"- {line}" for line in _rich_lines(element, levels - 1))


def _inline_text(piece: dict[str, Any]) -> str:
    match piece.get("type"):
        case "user":
            return f"<@{as_id(piece.get('user_id'))}>"
        case "channel":
            return f"<#{as_id(piece.get('channel_id'))}>"
        case "broadcast":
            return f"<!{as_str(piece.get('range'))}>"
        case "emoji":
            return f":{as_str(piece.get('name'))}:"
        case "link":
            return f"<{as_str(piece.get('url'))}|{as_str(piece.get('text'))}>"
        case _:
            return as_str(piece.get("text"))


def is_link_preview(attachment: dict[str, Any]) -> bool:
    """Return whether Slack added an attachment to a link by itself. A shared message is not a preview."""
    shared = attachment.get("is_msg_unfurl") is True or attachment.get("is_share") is True
    return not shared and bool(as_str(attachment.get("from_url")) or as_str(attachment.get("original_url")))


def attachment_lines(attachment: dict[str, Any]) -> Iterator[str]:
    """Yield the lines of an attachment; its `fallback` if it has no others.

    >>> list(attachment_lines({"title": "Build", "fields": [{"title": "State", "value": "ok"}], "fallback": "x"}))
    ['Build', 'State: ok']
    """
    keys = ("pretext", "author_name", "title", "text")
    lines = [*filter(None, (as_str(attachment.get(key)) for key in keys)), *_field_lines(attachment)]
    lines += [*block_lines(attachment.get("blocks"))] if not as_str(attachment.get("text")) else []
    lines += [*filter(None, [as_str(attachment.get("footer"))])] if lines else []
    yield from lines or filter(None, [as_str(attachment.get("fallback")) or as_str(attachment.get("image_url"))])


def _field_lines(attachment: dict[str, Any]) -> Iterator[str]:
    for field in as_dicts(attachment.get("fields")):
        yield from filter(None, [": ".join(filter(None, (as_str(field.get("title")), as_str(field.get("value")))))])


def recognizes(source: Source) -> bool:
    """Return whether it is a day of a channel, or one of the files that describe users and channels."""
    keys = source.keys
    if source.path.name in CHANNEL_FILES:
        return {"id", "members"} <= keys
    if source.path.name == "users.json":
        return {"id", "team_id", "profile"} <= keys
    return {"type", "ts"} <= keys and not keys.isdisjoint(("user", "text", "bot_id")) and source.shape == "array"


def read(source: Source) -> Iterator[ImportedRecord | Skipped]:
    """Yield users, rooms, or the messages of a day."""
    users = source.once("people", lambda: _user_names(source))
    return read_each(source, lambda entry: [_record(source, entry, users)])


def _record(source: Source, entry: Entry, users: dict[str, str]) -> ImportedRecord | Skipped:
    data = as_dict(entry.data)
    if source.path.name in CHANNEL_FILES:
        return _room(source, data, users)
    if source.path.name == "users.json":
        return User(id=join_id(PREFIX, as_id(data.get("id"))), name=_user_name(data), metadata=_user_metadata(data))
    return _message(source, entry.location, data, users)


def _user_names(source: Source) -> dict[str, str]:
    """Return the names of users by their ids, from the root of the export."""
    users = source.sibling("../users.json") or source.sibling("users.json")
    return {as_id(user.get("id")): _user_name(user) for user in as_dicts(users)}


def _user_name(user: dict[str, Any]) -> str:
    profile = as_dict(user.get("profile"))
    shown = as_str(profile.get("display_name")) or as_str(profile.get("real_name"))
    return shown or as_str(user.get("real_name")) or as_str(user.get("name")) or as_id(user.get("id"))


def _user_metadata(user: dict[str, Any]) -> dict[str, Any]:
    profile = as_dict(user.get("profile"))
    return without_empty(
        handle=as_str(user.get("name")), title=as_str(profile.get("title")), bot=user.get("is_bot") is True
    )


def _room(source: Source, data: dict[str, Any], users: dict[str, str]) -> Room:
    members = [users.get(member, member) for member in as_strs(data.get("members"))]
    folder = as_str(data.get("name")) or as_id(data.get("id"))
    room = join_id(source.requested_room or PREFIX, folder)
    return Room(
        id=room,
        name=f"#{as_str(data['name'])}" if as_str(data.get("name")) else ", ".join(members),
        created=parse_time(data.get("created")) or 0.0,
        metadata=without_empty(
            slack=as_id(data.get("id")),
            topic=as_str(as_dict(data.get("topic")).get("value")),
            purpose=as_str(as_dict(data.get("purpose")).get("value")),
            archived=data.get("is_archived") is True,
            members=members,
            pins=[join_id(room, as_id(pin.get("id"))) for pin in as_dicts(data.get("pins")) if as_id(pin.get("id"))],
        ),
    )


def _message(source: Source, location: str, data: dict[str, Any], users: dict[str, str]) -> Message | Skipped:
    if data.get("type") != "message" or not as_id(data.get("ts")):
        return Skipped(location, "is not a message: it has no time (`ts`) or another type")
    room = join_id(source.requested_room or PREFIX, source.path.parent.name or source.room)
    content = "\n".join(_lines(data, users))
    if not content:
        return Skipped(location, "is empty")
    ts, thread = as_id(data["ts"]), as_id(data.get("thread_ts"))
    return Message(
        id=join_id(room, ts),
        room=room,
        content=content,
        sender=_sender(data, users),
        at=parse_time(ts) or source.modified,
        edited=parse_time(as_dict(data.get("edited")).get("ts")),
        metadata=without_empty(
            subtype=as_str(data.get("subtype")),
            user=as_id(data.get("user")) or as_id(data.get("bot_id")),
            thread=join_id(room, thread) if thread else None,
            reactions={as_str(each.get("name")): each.get("count") for each in as_dicts(data.get("reactions"))},
            files=[as_str(each.get("url_private")) for each in as_dicts(data.get("files"))],
            attachments=as_dicts(data.get("attachments")),
            blocks=[each for each in as_dicts(data.get("blocks")) if each.get("type") != "rich_text"],
        ),
    )


def _sender(data: dict[str, Any], users: dict[str, str]) -> str:
    id = as_id(data.get("user"))
    profile = as_dict(data.get("user_profile"))
    display_name = as_str(profile.get("display_name")) or as_str(profile.get("real_name"))
    bot = as_str(data.get("username")) or as_str(as_dict(data.get("bot_profile")).get("name"))
    return users.get(id) or display_name or bot or id or as_id(data.get("bot_id"))


def _lines(data: dict[str, Any], users: dict[str, str]) -> Iterator[str]:
    """Yield the lines of a message: its text or else its blocks, its attachments, and the names of its files.

    Link previews are included only if there is nothing else.
    """
    attached = as_dicts(data.get("attachments"))
    lines = [as_str(data["text"])] if as_str(data.get("text")) else [*block_lines(data.get("blocks"))]
    lines += [line for each in attached if not is_link_preview(each) for line in attachment_lines(each)]
    lines = lines or [line for each in attached for line in attachment_lines(each)]
    yield from (render_markup(line, users) for line in lines)
    for file in as_dicts(data.get("files")):
        yield f"[file {as_str(file.get('name')) or as_str(file.get('title')) or as_id(file.get('id'))}]"


def render_markup(text: str, users: dict[str, str]) -> str:
    """Replace references by names, and entities by characters.

    >>> render_markup("<@U1> see <#C2|general> &amp; <https://a.org|this> <!here>", {"U1": "Ada"})
    '@Ada see #general & this (https://a.org) @here'
    """
    rendered = _REFERENCE.sub(lambda match: _render_reference(match[1], users), text)
    return rendered.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


def _render_reference(reference: str, users: dict[str, str]) -> str:
    target, _, label = reference.partition("|")
    match target[:1]:
        case "@":
            return "@" + (users.get(target[1:]) or label or target[1:])
        case "#":
            return "#" + (label or target[1:])
        case "!":
            return label or "@" + target[1:].partition("^")[0]
        case _:
            return f"{label} ({target})" if label and label != target else target.removeprefix("mailto:")


FORMAT: Final = Format(
    name="slack",
    description="Slack exports: users, channels and messages; import the whole folder or archive",
    recognizes=recognizes,
    read=read,
)
