"""Discord channels, as DiscordChatExporter writes them (`--format Json`): one object with a list of messages.

Messages are read one by one, so files may be of any size. Replies, reactions and embeds are stored in the message's
metadata; file names and forwarded messages become part of its text. Links to Discord's files expire, so they are only
stored in the metadata.
"""

from collections.abc import Iterator
from typing import Any, Final

from brimful.errors import BrimfulError
from brimful.formats.ids import join_id
from brimful.formats.lenient import as_dict, as_dicts, as_id, as_str, parse_time, without_empty
from brimful.formats.source import Entry, Format, ImportedRecord, Skipped, Source
from brimful.records import Message, Room

PREFIX: Final = "discord"
_EMBED_FIELDS: Final = ("title", "url", "description")


def recognizes(source: Source) -> bool:
    """Return whether there is a guild and a channel."""
    return source.head.lstrip().startswith(b"{") and {"guild", "channel"} <= source.keys


def read(source: Source) -> Iterator[ImportedRecord | Skipped]:
    """Yield the room and its messages."""
    header: dict[str, Any] = {}
    channel: _Channel | None = None
    for key, entry in source.fields("messages"):
        if isinstance(entry, Skipped):
            yield entry
        elif key != "messages":
            header[key] = entry.data
        elif isinstance(entry.data, list):
            yield Skipped(entry.location, "is not a message")
        else:
            if channel is None:
                channel = _Channel(source, header)
                yield from channel.room(source)
            yield channel.message(entry)


class _Channel:
    """A channel that is being read."""

    def __init__(self, source: Source, header: dict[str, Any]) -> None:
        self._guild = as_dict(header.get("guild"))
        self._channel = as_dict(header.get("channel"))
        self._room = join_id(source.requested_room or PREFIX, as_id(self._channel.get("id")) or source.room)
        self._at = source.modified

    def room(self, source: Source) -> Iterator[Room | Skipped]:
        about = {key: as_str(self._channel.get(key)) for key in ("type", "category", "topic")}
        try:
            yield Room(
                id=self._room,
                name=as_str(self._channel.get("name")),
                metadata=without_empty(guild=as_str(self._guild.get("name")), **about),
            )
        except BrimfulError as error:
            yield Skipped(source.name, str(error))

    def message(self, entry: Entry) -> Message | Skipped:
        """Return a message, or why it is skipped."""
        data = as_dict(entry.data)
        id = as_id(data.get("id"))
        if not id:
            return Skipped(entry.location, "has no id")
        content = "\n".join(_lines(data))
        if not content:
            return Skipped(entry.location, "is empty")
        self._at = parse_time(data.get("timestamp")) or self._at
        author = as_dict(data.get("author"))
        try:
            return Message(
                id=join_id(self._room, id),
                room=self._room,
                content=content,
                sender=as_str(author.get("nickname")) or as_str(author.get("name")),
                at=self._at,
                edited=parse_time(data.get("timestampEdited")),
                metadata=self._metadata(data, author),
            )
        except BrimfulError as error:
            return Skipped(entry.location, str(error))

    def _metadata(self, data: dict[str, Any], author: dict[str, Any]) -> dict[str, Any]:
        replied = as_id(as_dict(data.get("reference")).get("messageId"))
        reactions = {_emoji(each): each.get("count") for each in as_dicts(data.get("reactions"))}
        return without_empty(
            type=as_str(data.get("type")) if data.get("type") not in ("Default", "Reply") else None,
            author=as_id(author.get("id")),
            bot=author.get("isBot") is True,
            reply_to=join_id(self._room, replied) if replied else None,
            pinned=data.get("isPinned") is True,
            reactions=reactions,
            files=[as_str(each.get("url")) for each in as_dicts(data.get("attachments"))],
            embeds=[without_empty(**each) for each in as_dicts(data.get("embeds"))],
            forwarded=without_empty(**as_dict(data.get("forwardedMessage"))),
            interaction=as_dict(data.get("interaction")),
            mentions=[as_str(each.get("name")) for each in as_dicts(data.get("mentions"))],
        )


def _emoji(reaction: dict[str, Any]) -> str:
    emoji = as_dict(reaction.get("emoji"))
    return as_str(emoji.get("name")) or as_str(emoji.get("code")) or "?"


def _lines(data: dict[str, Any]) -> Iterator[str]:
    """Yield the lines of a message: its text or else its embeds, the names of its files, and forwarded messages."""
    if content := as_str(data.get("content")):
        yield content
    else:
        for embed in as_dicts(data.get("embeds")):
            yield from _embed_lines(embed)
    for file in as_dicts(data.get("attachments")):
        yield f"[file {as_str(file.get('fileName'))}]"
    for sticker in as_dicts(data.get("stickers")):
        yield f"[sticker {as_str(sticker.get('name'))}]"
    if forwarded := as_dict(data.get("forwardedMessage")):
        yield "[forwarded]"
        yield from _lines({key: value for key, value in forwarded.items() if key != "forwardedMessage"})


def _embed_lines(embed: dict[str, Any]) -> Iterator[str]:
    """Yield the lines of an embed, from its author to its footer; its image if there is nothing else."""
    author = as_str(as_dict(embed.get("author")).get("name"))
    fields = [
        ": ".join(filter(None, (as_str(field.get("name")), as_str(field.get("value")))))
        for field in as_dicts(embed.get("fields"))
    ]
    footer = as_str(as_dict(embed.get("footer")).get("text"))
    lines = [*filter(None, (author, *(as_str(embed.get(key)) for key in _EMBED_FIELDS), *fields, footer))]
    images = [as_dict(embed.get(key)) for key in ("image", "thumbnail", "video")] + as_dicts(embed.get("images"))
    yield from lines or (f"[image {as_str(each.get('url'))}]" for each in images if as_str(each.get("url")))


FORMAT: Final = Format(
    name="discord",
    description="a channel of Discord, as DiscordChatExporter writes it in JSON",
    recognizes=recognizes,
    read=read,
)
