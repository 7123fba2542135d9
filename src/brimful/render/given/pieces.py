"""Parts of messages, read whatever form they have."""

from collections.abc import Iterator
from typing import Any, Final

from brimful.core.content import clean_text
from brimful.core.prompt import Media, Part, Text, Tool
from brimful.render.media import inline

_LEAST_DATA: Final = 256  # characters without a space, from which on a text is taken for encoded data
_LABELS: Final = frozenset(("type", "id", "cache_control", "signature", "format", "detail", "media_type"))
"""Fields of a block that are no content of their own."""
_OF_ANY_TOOL: Final = frozenset(("name", "description", "strict", "parameters", "input_schema", "cache_control"))
"""Fields of a tool that takes no arguments. One with others is of a kind that we do not know."""


def words(value: object) -> str:
    """Return a text that no record refuses; nothing for what is no text.

    >>> words("tea"), words(None)
    ('tea', '')
    """
    return clean_text(value) if isinstance(value, str) else ""


def image(url: object, detail: object = "auto") -> Iterator[Part]:
    """Yield an image, if there is one at all."""
    if isinstance(url, str) and url:
        yield inline(Media(modality="image", url=clean_text(url), detail=words(detail) or "auto"))


def leaves(value: object) -> Iterator[Part]:
    """Yield all that a block of an unknown form says: its texts, and its data as an image of unknown size.

    >>> list(leaves({"type": "refusal", "refusal": "No."}))
    [Text(text='No.')]
    """
    if isinstance(value, str):
        yield _leaf(clean_text(value))
    elif isinstance(value, dict):
        for key, item in value.items():
            if key not in _LABELS:
                yield from leaves(item)
    elif isinstance(value, list):
        for item in value:
            yield from leaves(item)


def _leaf(text: str) -> Part:
    encoded = len(text) >= _LEAST_DATA and text.isascii() and not any(map(str.isspace, text[:_LEAST_DATA]))
    if not encoded:
        return Text(text=text)
    return inline(Media(modality="image", url=text)) if text.startswith("data:") else Media(modality="image", data=text)


def tool_of(described: dict[str, Any], schema: str) -> Tool:
    """Return a tool whose JSON schema stands in the field `schema`; another kind of tool as all that is said of it.

    >>> tool_of({"name": "look_up", "parameters": {"type": "object"}}, "parameters")
    Tool(name='look_up', description='', parameters={'type': 'object'})
    >>> tool_of({"name": "now", "description": "The time."}, "parameters")
    Tool(name='now', description='The time.', parameters={})
    """
    name, parameters = words(described.get("name")) or "tool", described.get(schema) or {}
    if isinstance(parameters, dict) and (parameters or _OF_ANY_TOOL.issuperset(described)):
        return Tool(name=name, description=words(described.get("description")), parameters=parameters)
    return Tool(name=name, parameters={key: item for key, item in described.items() if key != "name"})
