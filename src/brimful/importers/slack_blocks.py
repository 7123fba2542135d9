"""What Slack's blocks and attachments say, as text. See docs.slack.dev/reference/block-kit and …/legacy/attachments."""

from collections.abc import Iterator
from typing import Any, Final

from brimful.importers.loose import mapping, mappings, name, text

LEVELS: Final = 8  # of blocks within blocks; Slack has four

_LINES: Final = ("rich_text_section", "rich_text_quote", "rich_text_preformatted")


def block_lines(blocks: object, levels: int = LEVELS) -> Iterator[str]:
    """Yield the lines of blocks, in Slack's own markup.

    >>> list(block_lines([{"type": "section", "text": {"type": "mrkdwn", "text": "*Hi*"}, "fields": [{"text": "a"}]}]))
    ['*Hi*', 'a']
    """
    for block in mappings(blocks) if levels else ():
        if block.get("type") == "rich_text":
            yield from _rich_lines(block, levels)
            continue
        shown = (block.get(key) for key in ("title", "text", "label", "alt_text"))
        told = [text(each) or text(mapping(each).get("text")) for each in shown]
        yield from filter(None, told)
        yield from block_lines(block.get("fields"), levels - 1)
        yield from block_lines(block.get("elements"), levels - 1)


def _rich_lines(block: dict[str, Any], levels: int) -> Iterator[str]:
    """Yield the paragraphs of a rich text, and the points of its lists."""
    for element in mappings(block.get("elements")) if levels else ():
        if element.get("type") in _LINES:
            yield from filter(None, ["".join(map(_piece, mappings(element.get("elements"))))])
        else:
            yield from (f"- {line}" for line in _rich_lines(element, levels - 1))


def _piece(piece: dict[str, Any]) -> str:
    match piece.get("type"):
        case "user":
            return f"<@{name(piece.get('user_id'))}>"
        case "channel":
            return f"<#{name(piece.get('channel_id'))}>"
        case "broadcast":
            return f"<!{text(piece.get('range'))}>"
        case "emoji":
            return f":{text(piece.get('name'))}:"
        case "link":
            return f"<{text(piece.get('url'))}|{text(piece.get('text'))}>"
        case _:
            return text(piece.get("text"))


def is_preview(attachment: dict[str, Any]) -> bool:
    """Say whether Slack added it to a link by itself. A message that somebody shared is none."""
    shared = attachment.get("is_msg_unfurl") is True or attachment.get("is_share") is True
    return not shared and bool(text(attachment.get("from_url")) or text(attachment.get("original_url")))


def attachment_lines(attachment: dict[str, Any]) -> Iterator[str]:
    """Yield the lines of an attachment; its plain `fallback` if it has no others.

    >>> list(attachment_lines({"title": "Build", "fields": [{"title": "State", "value": "ok"}], "fallback": "x"}))
    ['Build', 'State: ok']
    """
    keys = ("pretext", "author_name", "title", "text")
    told = [*filter(None, (text(attachment.get(key)) for key in keys)), *_field_lines(attachment)]
    told += [*block_lines(attachment.get("blocks"))] if not text(attachment.get("text")) else []
    told += [*filter(None, [text(attachment.get("footer"))])] if told else []
    yield from told or filter(None, [text(attachment.get("fallback")) or text(attachment.get("image_url"))])


def _field_lines(attachment: dict[str, Any]) -> Iterator[str]:
    for field in mappings(attachment.get("fields")):
        yield from filter(None, [": ".join(filter(None, (text(field.get("title")), text(field.get("value")))))])
