"""What a node of a ChatGPT conversation says. Its `content_type` tells in which fields it stands."""

import base64
import json
import re
from collections.abc import Iterator
from typing import Any, Final

from brimful.core.content import Part, Text
from brimful.core.lenient import decode_json
from brimful.importers.loose import mapping, mappings, name, picture, text
from brimful.importers.source import Source

LARGEST_PICTURE: Final = 20 * 2**20  # bytes: no provider takes a larger one
_FIELDS: Final[dict[str, tuple[str, ...]]] = {
    "code": ("text",),
    "execution_output": ("text",),
    "tether_quote": ("title", "url", "text"),
    "tether_browsing_display": ("result", "summary"),
    "sonic_webpage": ("title", "url", "text"),
    "system_error": ("name", "text"),
    "citable_code_output": ("output_str",),
    "model_editable_context": ("model_set_context",),
    "user_editable_context": ("user_profile", "user_instructions"),
    "reasoning_recap": (),
    "thoughts": (),
}
"""Where the text is, by type of content; what the model thought is told apart."""
SILENT: Final = ("text", "multimodal_text", *_FIELDS)
"""Types of content that we know: where one of them says nothing, there is nothing to miss."""
_ANYWHERE: Final = ("text", "result", "content")
_FILE: Final = re.compile(r"^[a-z-]+://(?:[^/]*/)?([\w-]+)")


def parts_of(message: dict[str, Any], source: Source | None, *, pictures: bool) -> Iterator[Part]:
    """Yield texts, and pictures where the export holds them and they may stand; else a line says what was there."""
    content = mapping(message.get("content"))
    for field in _FIELDS.get(text(content.get("content_type")), _ANYWHERE):
        if said := text(content.get(field)):
            yield Text(text=said)
    parts = content.get("parts")
    for part in parts if isinstance(parts, list) else ():
        if isinstance(part, str) and part:
            yield Text(text=part)
        elif isinstance(part, dict):
            yield from _part(part, source, pictures=pictures)


def _part(part: dict[str, Any], source: Source | None, *, pictures: bool) -> Iterator[Part]:
    pointer = text(part.get("asset_pointer"))
    if said := text(part.get("text")):  # audio_transcription, and whatever else says something
        yield Text(text=said)
    elif pointer:
        sort = "image" if "image" in text(part.get("content_type")) else "audio"
        shown = _picture(pointer, source) if source and pictures and sort == "image" else None
        yield shown or Text(text=f"[{sort} {_file_of(pointer)}]")
    elif sort := text(part.get("content_type")):
        yield Text(text=f"[{sort}]")


def _picture(pointer: str, source: Source) -> Part | None:
    data = source.starting(_file_of(pointer), LARGEST_PICTURE)
    return picture(data, base64.b64encode(data).decode()) if data else None


def _file_of(pointer: str) -> str:
    """Return the name with which a file of the export begins.

    >>> _file_of("file-service://file-AbC"), _file_of("sediment://file_00a")
    ('file-AbC', 'file_00a')
    """
    found = _FILE.match(pointer)
    return found[1] if found else ""


def instructions(message: dict[str, Any]) -> Iterator[Text]:
    """Yield what the user told of themselves, which older exports keep beside an empty message."""
    told = mapping(mapping(message.get("metadata")).get("user_context_message_data"))
    for field in ("about_user_message", "about_model_message"):
        if said := text(told.get(field)):
            yield Text(text=said)


def thoughts_of(message: dict[str, Any]) -> str:
    """Return what the model thought, if this is that."""
    content = mapping(message.get("content"))
    if content.get("content_type") != "thoughts":
        return ""
    thoughts = mappings(content.get("thoughts"))
    return "\n\n".join(filter(None, (text(each.get("content")) or name(each.get("summary")) for each in thoughts)))


def arguments(said: list[Part]) -> str:
    """Return what a tool was given as JSON: as it is, if it is an object, else as its input."""
    given = "\n\n".join(part.text for part in said if isinstance(part, Text))
    try:
        if isinstance(decode_json(given), dict):
            return given
    except ValueError:
        pass
    return json.dumps({"input": given}, ensure_ascii=False)
