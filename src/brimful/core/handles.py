"""Handles: short names by which the items of a context are recalled."""

import re
from base64 import b32encode
from collections.abc import Collection, Container
from functools import cached_property
from hashlib import blake2b
from typing import Final

_PLAIN: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/-]{0,15}")  # few tokens, and safe in a quoted mark
_MESSAGE: Final = re.compile(r"msg-(\d{6,9})(/\d+)?")  # of a fitted request
_DIGITS: Final = 8  # of a hash, 5 bits each: of 10,000 items, two share them once in 20,000 contexts


class Handles:
    """The handles of ids: the id itself if it is short and plain, else the first digits of its hash.

    A message of a fitted request is named by its number: `r12` is `msg-000012`, and `r12/2` its second part.

    A handle stays the same from turn to turn, because it depends on the id alone. Only if two ids would share one, the
    second gets more digits.

    >>> handles = Handles(["msg-12", "msg-000012", "msg-000012/2", "msg-00c2ec87c9d04a4b8cbee9a0f9a4f4b1"])
    >>> handles["msg-12"], handles["msg-000012"], handles["msg-000012/2"]
    ('msg-12', 'r12', 'r12/2')
    >>> handles["msg-00c2ec87c9d04a4b8cbee9a0f9a4f4b1"]
    'hythy3be'
    """

    def __init__(self, ids: Collection[str]) -> None:
        """Take the ids. Nothing is hashed before a handle is needed."""
        self._ids = frozenset(ids)

    def __getitem__(self, id: str) -> str:
        """Return the handle of an id."""
        if (message := _MESSAGE.fullmatch(id)) and (short := f"r{int(message[1])}{message[2] or ''}") not in self._ids:
            return short
        return id if _PLAIN.fullmatch(id) else self._hashed[id]

    @cached_property
    def _hashed(self) -> dict[str, str]:
        taken = {id for id in self._ids if _PLAIN.fullmatch(id)}
        handles = {}
        for id in sorted(self._ids - taken):
            handles[id] = hash_handle(id, taken)
            taken.add(handles[id])
        return handles


def hash_handle(text: str, taken: Container[str]) -> str:
    """Return the first digits of a text's hash that are not taken."""
    digest, size = b32encode(blake2b(text.encode(), digest_size=20).digest()).decode().lower(), _DIGITS
    while digest[:size] in taken:
        size += 1
    return digest[:size]
