"""Under which id a record stands in a context: its own, unless something else bears that one there."""

from typing import Final

RECALLED: Final = "/recalled"  # behind the id of a message that is a candidate twice, once for having been found
_FAMILIES: Final = ("message", "memory", "summary")


def told_apart(family: str, id: str) -> str:
    """Return the id of what bears the same one as something else that is no relative of it.

    >>> told_apart("memory", "tea")
    'memory/tea'
    """
    return f"{family}/{id}"


def ids_in_contexts(id: str) -> list[str]:
    """Return all ids under which a record may stand in contexts."""
    return [id, id + RECALLED, *(told_apart(family, id) for family in _FAMILIES)]
