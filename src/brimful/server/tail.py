"""The end of a room, as a client knows it: what is hidden is not among it."""

import msgspec

from brimful.protocols import Store
from brimful.records import Message


class Tail(msgspec.Struct, frozen=True, kw_only=True):
    """The last messages of a room, oldest first; `whole` if these are all. The last hidden one stands at `left`."""

    messages: tuple[Message, ...]
    left: int
    whole: bool


async def tail_of(store: Store, room: str, most: int) -> Tail:
    """Read back until there are so many messages, whatever is hidden between them."""
    shown: list[Message] = []
    left, before, whole = 0, None, False
    while len(shown) < most and not whole:
        page = [entry.message for entry in await store.history(room, before=before, limit=most)]
        shown += [message for message in page if not message.hidden]
        left = max([left, *(message.seq for message in page if message.hidden)])
        before, whole = page[-1].seq if page else before, len(page) < most
    return Tail(messages=tuple(reversed(shown)), left=left, whole=whole)
