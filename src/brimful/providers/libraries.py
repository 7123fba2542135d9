"""The optional libraries behind HTTP, loaded when they are first needed."""

import logging
from functools import cache
from types import ModuleType
from typing import NamedTuple

from brimful.errors import MissingExtra


class Libraries(NamedTuple):
    """httpx2 talks, stamina tries again."""

    httpx2: ModuleType
    stamina: ModuleType


@cache
def libraries() -> Libraries:
    """Return both, or say how to get them."""
    try:
        import httpx2  # noqa: PLC0415 - an extra
        import stamina  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise MissingExtra("remote", "a provider behind HTTP") from error
    # A retry is logged for whoever listens. Where nobody does, Python would print it among a program's own words.
    logging.getLogger("stamina").addHandler(logging.NullHandler())
    return Libraries(httpx2, stamina)
