"""Read message parts of any form."""

from collections.abc import Iterator
from typing import Any, Final

from brimful.core.content import clean_text
from brimful.core.prompt import Media, Part, Text, Tool
from brimful.render.normalize import decode_data_url

_MIN_DATA_CHARACTERS: Final = 256  # characters without a space, from which on a text is taken for encoded data
_IGNORED_FIELDS: Final = frozenset(("type", "id", "cache_control", "signature", "format", "detail", "media_type"))
"""Fields of a block that are no content of their own."""
_PLAIN_TOOL_FIELDS: Final = frozenset(("name", "description", "strict", "parameters", "input_schema", "cache_control"))
"""Fields of a tool that takes no arguments. One with others is of a kind that we do not know."""


def text_or_empty(value: object) -> str:
    """Return a text that no record refuses; nothing for what is no text.

    >>> text_or_empty("tea"), text_or_empty(None)
    ('tea', '')
    """
    return clean_text(value) if isinstance(value, str) else ""


def read_image(url: object, detail: object = "auto") -> Iterator[Part]:
    """Yield an image, if there is one at all."""
    if isinstance(url, str) and url:
        yield decode_data_url(Media(modality="image", url=clean_text(url), detail=text_or_empty(detail) or "auto"))


def read_unknown(value: object) -> Iterator[Part]:
    """Yield all that a block of an unknown form says: its texts, and its data as an image of unknown size.

    >>> list(read_unknown({"type": "refusal", "refusal": "No."}))
    [Text(text='No.')]
    """
    if isinstance(value, str):
        yield _read_string(clean_text(value))
    elif isinstance(value, dict):
        for key, item in value.items():
            if key not in _IGNORED_FIELDS:
                yield from read_unknown(item)
    elif isinstance(value, list):
        for item in value:
            yield from read_unknown(item)


def _read_string(text: str) -> Part:
    encoded = (
        len(text) >= _MIN_DATA_CHARACTERS and text.isascii() and not any(map(str.isspace, text[:_MIN_DATA_CHARACTERS]))
    )
    if not encoded:
        return Text(text=text)
    return (
        decode_data_url(Media(modality="image", url=text))
        if text.startswith("data:")
        else Media(modality="image", data=text)
    )


def read_tool_definition(described: dict[str, Any], schema: str) -> Tool:
    """Return a tool whose JSON schema stands in the field `schema`; another kind of tool as all that is said of it.

    >>> read_tool_definition({"name": "look_up", "parameters": {"type": "object"}}, "parameters")
    Tool(name='look_up', description='', parameters={'type': 'object'})
    >>> read_tool_definition({"name": "now", "description": "The time."}, "parameters")
    Tool(name='now', description='The time.', parameters={})
    """
    name, parameters = text_or_empty(described.get("name")) or "tool", described.get(schema) or {}
    if isinstance(parameters, dict) and (parameters or _PLAIN_TOOL_FIELDS.issuperset(described)):
        return Tool(name=name, description=text_or_empty(described.get("description")), parameters=parameters)
    return Tool(name=name, parameters={key: item for key, item in described.items() if key != "name"})
