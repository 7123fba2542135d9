"""Explain why a stored record was not a candidate for a context."""

from typing import Final

import msgspec

from brimful.core.context import Context
from brimful.core.decision import format_relevance
from brimful.packagers.records import plain_text
from brimful.records import LoreEntry, Memory, Message, Room, Snapshot
from brimful.stores import Store

_SEARCH_FAILURES: Final = ("text-search-failed", "vector-search-failed", "vector-search-off", "vector-search-behind")


class Absence(msgspec.Struct, frozen=True, kw_only=True):
    """A stored record that was not a candidate for a context, and why."""

    id: str
    kind: str
    text: str
    why: str


async def find_absence(store: Store, snapshot: Snapshot, id: str) -> Absence | None:
    """Explain why a memory, message or lore entry was not a candidate; return None if there is no such record.

    The explanation uses the records as they are now, which may have changed since the build.
    """
    for memory in await store.memories(ids=[id], limit=1):
        why = _explain_memory(memory, snapshot)
        return Absence(id=id, kind=f"memory-{memory.type}", text=memory.content, why=why)
    for message in await store.messages([id]):
        why = _explain_message(message, snapshot, await store.get(Room, message.room))
        return Absence(id=id, kind="message", text=plain_text(message.content), why=why)
    for entry in await store.lore(ids=[id]):
        return Absence(id=id, kind="lorebook", text=entry.content, why=_explain_entry(entry, snapshot.context))
    return None


def _explain_memory(memory: Memory, snapshot: Snapshot) -> str:
    if _is_left_out(snapshot.context, "memories"):
        return "this context was built without memories"
    if memory.at > snapshot.at:
        return "it was written after this context was built"
    owners = (
        ("persona", memory.persona, snapshot.persona),
        ("room", memory.room, snapshot.room),
        ("user", memory.user, snapshot.user),
    )
    for kind, owner, actual in owners:
        if owner is not None and owner != actual:
            return f"it belongs to the {kind} {owner!r}; this context has {_describe_owner(kind, actual)}"
    unknown = "" if memory.at else "it may have been written later, since its time is unknown; otherwise "
    return unknown + _explain_search(snapshot.context, "memory-", "pin it to have it in every context")


def _describe_owner(kind: str, owner: str | None) -> str:
    return f"no {kind}" if owner is None else f"the {kind} {owner!r}"


def _explain_message(message: Message, snapshot: Snapshot, room: Room | None) -> str:
    if message.hidden:
        return "it is hidden, so no context includes it"
    if room is not None and room.user is not None and room.user != snapshot.user:
        where = f"room {room.id!r} of the user {room.user!r}"
        return f"it was posted in {where}; this context has {_describe_owner('user', snapshot.user)}"
    if message.room != snapshot.room:
        return f"it was posted in room {message.room!r}, which was not searched or had no better results"
    if message.at > snapshot.at:
        return "it was posted after this context was built"
    return _explain_search(snapshot.context, "message-older", "it is older than the history that was loaded")


def _explain_entry(entry: LoreEntry, context: Context) -> str:
    if _is_left_out(context, "lore"):
        return "this context was built without lore"
    if not entry.enabled:
        return "it is disabled"
    return "none of its keywords appeared, and search did not find it"


def _is_left_out(context: Context, source: str) -> bool:
    return any(source in each.facts.get("sources", ()) for each in context.inputs.degraded if each.kind == "left-out")


def _explain_search(context: Context, kind: str, more: str) -> str:
    """Explain what search found instead, or why it failed."""
    failures = [each.text for each in context.inputs.degraded if each.kind in _SEARCH_FAILURES]
    if failures:
        return f"search did not find it, and something failed: {'; '.join(failures)}"
    relevances = [
        package.relevance
        for package in context.inputs.packages
        if package.kind.startswith(kind) and package.relevance is not None
    ]
    if not relevances:
        return f"search found nothing of this kind; {more}"
    least = format_relevance(min(relevances))
    return f"search found {len(relevances):,} more relevant (relevance {least} or higher); {more}"
