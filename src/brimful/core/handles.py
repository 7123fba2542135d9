"""Handles: short names by which the items of a context are recalled."""

import re
from base64 import b32encode
from collections.abc import Collection, Container, Iterable, Mapping
from functools import cached_property
from hashlib import blake2b
from types import MappingProxyType
from typing import Final

from brimful.core.content import ContentPackage

HANDLE_KEY: Final = "fit:handle"
"""In the metadata of a message: its handle, if an earlier round of the conversation has used some."""
MARK_KEY: Final = "fit:mark"
"""In the metadata of a message: the handle that a mark at the end of its text names."""
_PLAIN: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/-]{0,15}")  # few tokens, and safe in a quoted mark
_MESSAGE: Final = re.compile(r"msg-(\d{6,9})(/\d+)?")  # of a fitted request
_DIGITS: Final = 8  # of a hash, 5 bits each: of 10,000 items, two share them once in 20,000 contexts
_NONE: Final[Mapping[str, str]] = MappingProxyType({})


class Handles:
    """The handles of ids: the id itself if it is short and plain, else the first digits of its hash.

    A message of a fitted request is named by its number: `r12` is `msg-000012`, and `r12/2` its second part.

    A handle stays the same from turn to turn, because it depends on the id alone. Only if two ids would share one, the
    second gets more digits. `names` are the handles of messages that an earlier round has named.

    >>> handles = Handles(["msg-12", "msg-000012", "msg-000012/2", "msg-00c2ec87c9d04a4b8cbee9a0f9a4f4b1"])
    >>> handles["msg-12"], handles["msg-000012"], handles["msg-000012/2"]
    ('msg-12', 'r12', 'r12/2')
    >>> handles["msg-00c2ec87c9d04a4b8cbee9a0f9a4f4b1"]
    'hythy3be'
    >>> renamed = Handles(["msg-000012"], {"msg-000012": "r40"})
    >>> renamed["msg-000012"], renamed["msg-000012/image-1"]
    ('r40', 'r40/image-1')
    """

    def __init__(self, ids: Collection[str], names: Mapping[str, str] = _NONE) -> None:
        """Take the ids. Nothing is hashed before a handle is needed."""
        self._ids = frozenset(ids)
        self._names = names

    def __getitem__(self, id: str) -> str:
        if id in self._names:
            return self._names[id]
        message, slash, media = id.rpartition("/")
        if message in self._names:
            return f"{self._names[message]}{slash}{media}"
        if not self._names and (number := _MESSAGE.fullmatch(id)):
            short = f"r{int(number[1])}{number[2] or ''}"
            if short not in self._ids:
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


def find_names(packages: Iterable[ContentPackage]) -> dict[str, str]:
    """Return the handles of messages that an earlier round has named, by id."""
    return {each.id: each.metadata[HANDLE_KEY] for each in packages if HANDLE_KEY in each.metadata}


def hash_handle(text: str, taken: Container[str]) -> str:
    """Return the first digits of a text's hash that are not taken."""
    digest, size = b32encode(blake2b(text.encode(), digest_size=20).digest()).decode().lower(), _DIGITS
    while digest[:size] in taken:
        size += 1
    return digest[:size]
