"""A channel of Discord, as DiscordChatExporter writes it (`--format Json`): one object, with the messages in a list.

The messages are read one by one, however large the file is. Replies, reactions and embeds stay with the message as
metadata; the names of files, and what was forwarded, stand in its text. Links to Discord's files expire, so they are
only kept beside it.
"""

from collections.abc import Iterator
from typing import Any, Final

from brimful.errors import BrimfulError
from brimful.importers.ids import joined
from brimful.importers.importer import Imported, Importer
from brimful.importers.loose import kept, mapping, mappings, name, text
from brimful.importers.source import Entry, Skipped, Source
from brimful.importers.times import seconds
from brimful.records import Message, Room

PREFIX: Final = "discord"


def recognises(source: Source) -> bool:
    """Say whether there is a guild and a channel."""
    return source.head.lstrip().startswith(b"{") and {"guild", "channel"} <= source.keys


def read(source: Source) -> Iterator[Imported | Skipped]:
    """Yield the room and its messages."""
    told: dict[str, Any] = {}
    channel: _Channel | None = None
    for key, entry in source.fields("messages"):
        if isinstance(entry, Skipped):
            yield entry
        elif key != "messages":
            told[key] = entry.data
        elif isinstance(entry.data, list):
            yield Skipped(entry.place, "is no message")
        else:
            if channel is None:
                channel = _Channel(source, told)
                yield from channel.room(source)
            yield channel.message(entry)


class _Channel:
    """One channel as it is read."""

    def __init__(self, source: Source, told: dict[str, Any]) -> None:
        self._guild = mapping(told.get("guild"))
        self._channel = mapping(told.get("channel"))
        self._room = joined(source.named or PREFIX, name(self._channel.get("id")) or source.room)
        self._at = source.modified

    def room(self, source: Source) -> Iterator[Room | Skipped]:
        """Yield the room."""
        about = {key: text(self._channel.get(key)) for key in ("type", "category", "topic")}
        try:
            yield Room(
                id=self._room,
                name=text(self._channel.get("name")),
                metadata=kept(guild=text(self._guild.get("name")), **about),
            )
        except BrimfulError as error:
            yield Skipped(source.name, str(error))

    def message(self, entry: Entry) -> Message | Skipped:
        """Return a message, or why it is none."""
        data = mapping(entry.data)
        id = name(data.get("id"))
        if not id:
            return Skipped(entry.place, "has no id, as every message of Discord has")
        said = "\n".join(_lines(data))
        if not said:
            return Skipped(entry.place, "says nothing")
        self._at = seconds(data.get("timestamp")) or self._at
        author = mapping(data.get("author"))
        try:
            return Message(
                id=joined(self._room, id),
                room=self._room,
                content=said,
                sender=text(author.get("nickname")) or text(author.get("name")),
                at=self._at,
                edited=seconds(data.get("timestampEdited")),
                metadata=self._beside(data, author),
            )
        except BrimfulError as error:
            return Skipped(entry.place, str(error))

    def _beside(self, data: dict[str, Any], author: dict[str, Any]) -> dict[str, Any]:
        replied = name(mapping(data.get("reference")).get("messageId"))
        reactions = {_emoji(each): each.get("count") for each in mappings(data.get("reactions"))}
        return kept(
            type=text(data.get("type")) if data.get("type") not in ("Default", "Reply") else None,
            author=name(author.get("id")),
            bot=author.get("isBot") is True,
            reply_to=joined(self._room, replied) if replied else None,
            pinned=data.get("isPinned") is True,
            reactions=reactions,
            files=[text(each.get("url")) for each in mappings(data.get("attachments"))],
            embeds=[kept(**each) for each in mappings(data.get("embeds"))],
            forwarded=kept(**mapping(data.get("forwardedMessage"))),
            interaction=mapping(data.get("interaction")),
            mentions=[text(each.get("name")) for each in mappings(data.get("mentions"))],
        )


_EMBED: Final = ("title", "url", "description")


def _emoji(reaction: dict[str, Any]) -> str:
    emoji = mapping(reaction.get("emoji"))
    return text(emoji.get("name")) or text(emoji.get("code")) or "?"


def _lines(data: dict[str, Any]) -> Iterator[str]:
    """Yield what is said: the text, else what is embedded; the names of what is attached, and what was forwarded."""
    if said := text(data.get("content")):
        yield said
    else:
        for embed in mappings(data.get("embeds")):
            yield from _embedded(embed)
    for file in mappings(data.get("attachments")):
        yield f"[file {text(file.get('fileName'))}]"
    for sticker in mappings(data.get("stickers")):
        yield f"[sticker {text(sticker.get('name'))}]"
    if forwarded := mapping(data.get("forwardedMessage")):
        yield "[forwarded]"
        yield from _lines({key: value for key, value in forwarded.items() if key != "forwardedMessage"})


def _embedded(embed: dict[str, Any]) -> Iterator[str]:
    """Yield the lines of an embed, from its author to its footer; a picture where there is nothing else."""
    author = text(mapping(embed.get("author")).get("name"))
    fields = [
        ": ".join(filter(None, (text(field.get("name")), text(field.get("value")))))
        for field in mappings(embed.get("fields"))
    ]
    footer = text(mapping(embed.get("footer")).get("text"))
    told = [*filter(None, (author, *(text(embed.get(key)) for key in _EMBED), *fields, footer))]
    shown = [mapping(embed.get(key)) for key in ("image", "thumbnail", "video")] + mappings(embed.get("images"))
    yield from told or (f"[image {text(each.get('url'))}]" for each in shown if text(each.get("url")))


IMPORTER: Final = Importer(
    name="discord",
    description="a channel of Discord, as DiscordChatExporter writes it in JSON",
    recognises=recognises,
    read=read,
)
