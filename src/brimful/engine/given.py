"""What calls are given, checked before anything is done with it."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from brimful.arguments import listed
from brimful.core.check import shown
from brimful.core.content import Media
from brimful.core.context import Context
from brimful.errors import InvalidValue
from brimful.records import Memory, Usage


def want_texts(**fields: object) -> None:
    """Refuse what is neither a text nor nothing."""
    for field, value in fields.items():
        if value is not None and not isinstance(value, str):
            raise InvalidValue(field, f"must be a text, not {shown(value)}")


def want_known(memory: Memory) -> None:
    """Refuse a memory that holds nothing."""
    if not memory.content.strip():
        raise InvalidValue("content", "is empty: say what is to be known")


def media_of(media: Sequence[Media]) -> tuple[Media, ...]:
    """Return media as such."""
    given = tuple(listed("media", media))
    for at, part in enumerate(given):
        if not isinstance(part, Media):
            raise InvalidValue(f"media[{at}]", f"must be a Media, not {shown(part)}")
    return given


def usage_of(usage: Usage | Mapping[str, Any] | None) -> Usage | None:
    """Return usage that may be given by its fields.

    >>> usage_of({"prompt": 12, "completion": 3})
    Usage(prompt=12, cached=0, completion=3, reasoning=0)
    """
    if usage is None or isinstance(usage, Usage):
        return usage
    try:
        return msgspec.convert(usage, Usage)
    except msgspec.ValidationError as error:
        raise InvalidValue("usage", f"must be a Usage, or its fields ({error})") from None


def context_id_of(context: Context | str) -> str:
    """Return the id of a context that may be given by it."""
    if not isinstance(context, Context | str):
        raise InvalidValue("context", f"must be a Context or its id, not {shown(context)}")
    return context if isinstance(context, str) else context.id
