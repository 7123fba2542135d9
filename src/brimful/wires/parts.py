"""Parts of a client's messages, read tolerantly: texts, images, documents, blocks of unknown form, and tools."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from brimful.core.content import Media, Part, Text, ToolResult
from brimful.core.frame import NOT_CONTENT
from brimful.core.prompt import Tool
from brimful.core.validation import clean_text
from brimful.wires.normalize import IMAGE_STARTS, decode_data_url

AUDIO_TYPES: Final = {"wav": "audio/wav", "mp3": "audio/mpeg"}
_MIN_DATA_CHARACTERS: Final = 256  # without a space; from here on, a string is taken for encoded data
_REFERENCE_FIELDS: Final = frozenset(("url", "uri", "file_id", "file_url", "file_uri"))
"""Fields that name content which the provider fetches."""
_PLAIN_TOOL_FIELDS: Final = frozenset(("name", "description", "strict", "parameters", "input_schema", "cache_control"))
"""Fields of a tool without arguments. A tool with other fields is of an unknown kind."""


def text_or_empty(value: object) -> str:
    """Return a string without lone surrogates, or an empty one for any other value.

    >>> text_or_empty("tea"), text_or_empty(None)
    ('tea', '')
    """
    return clean_text(value) if isinstance(value, str) else ""


def read_image(url: object, detail: object = "auto") -> Iterator[Part]:
    """Yield an image, if there is a URL."""
    if isinstance(url, str) and url:
        yield decode_data_url(Media(modality="image", url=clean_text(url), detail=text_or_empty(detail) or "auto"))


def read_unknown(value: object) -> Iterator[Part]:
    """Yield the content of a block of unknown form: its texts, and documents for its data and for references.

    >>> list(read_unknown({"type": "refusal", "refusal": "No."}))
    [Text(text='No.')]
    >>> [part.modality for part in read_unknown({"type": "slides", "slides": {"file_id": "file-1"}})]
    ['document']
    """
    if isinstance(value, str):
        yield read_string(clean_text(value))
    elif isinstance(value, dict):
        is_result = text_or_empty(value.get("type")).endswith("_result")  # of a search: its URLs are only named
        for key, item in value.items():
            if key in _REFERENCE_FIELDS and isinstance(item, str) and item and not is_result:
                yield read_document(item)
            elif key not in NOT_CONTENT:
                yield from read_unknown(item)
    elif isinstance(value, list):
        for item in value:
            yield from read_unknown(item)


def read_string(text: str) -> Part:
    """Return a text, or media if it is encoded data."""
    encoded = (
        len(text) >= _MIN_DATA_CHARACTERS and text.isascii() and not any(map(str.isspace, text[:_MIN_DATA_CHARACTERS]))
    )
    if not encoded:
        return Text(text=text)
    if text.startswith("data:image/"):
        return decode_data_url(Media(modality="image", url=text))
    is_image = text.startswith(IMAGE_STARTS)
    return Media(modality="image", data=text) if is_image else read_document(text)


def name_results(parts: Iterable[Part], names: Mapping[str, str]) -> tuple[Part, ...]:
    """Return parts in which results have the names of the tools that were called, by the ids of the calls."""
    return tuple(
        [
            msgspec.structs.replace(part, name=names.get(part.id, "")) if isinstance(part, ToolResult) else part
            for part in parts
        ]
    )


def read_document(reference: str) -> Media:
    """Return a document by its URL, id or data."""
    text = clean_text(reference)
    if len(text) < _MIN_DATA_CHARACTERS or text.startswith(("data:", "http:", "https:")):
        return decode_data_url(Media(modality="document", url=text))
    return Media(modality="document", data=text)


def read_tool_definition(described: dict[str, Any], schema: str) -> Tool:
    """Return a tool whose JSON schema is in the field `schema`, or any other kind of tool with all of its fields.

    >>> read_tool_definition({"name": "look_up", "parameters": {"type": "object"}}, "parameters")
    Tool(name='look_up', description='', parameters={'type': 'object'})
    >>> read_tool_definition({"name": "now", "description": "The time."}, "parameters")
    Tool(name='now', description='The time.', parameters={})
    """
    name, parameters = text_or_empty(described.get("name")) or "tool", described.get(schema) or {}
    if isinstance(parameters, dict) and (parameters or _PLAIN_TOOL_FIELDS.issuperset(described)):
        return Tool(name=name, description=text_or_empty(described.get("description")), parameters=parameters)
    return Tool(name=name, parameters={key: item for key, item in described.items() if key != "name"})
