"""Explain why a stored record was not a candidate for a context, and what would make it one."""

from typing import Final, Literal

import msgspec

from brimful.core.context import Context
from brimful.core.decision import format_relevance
from brimful.packagers.records import plain_text
from brimful.records import LoreEntry, Memory, Message, Persona, Room, Snapshot, User
from brimful.stores import Store

_SEARCH_FAILURES: Final = ("text-search-failed", "vector-search-failed", "vector-search-off", "vector-search-behind")

_LEAST: Final = 0.001  # of a relevance: below one percent, no number is shown

AbsenceReason = Literal[
    "left-out",  # the context was built without memories or lore
    "later",  # written after the context was built
    "edited",  # a memory that was edited after the context was built
    "archived",  # superseded, or archived by the janitor
    "other-owner",  # belongs to another persona, user or room
    "other-room",  # a message of another room
    "hidden",  # a message that no context may include
    "other-lorebook",  # the lorebook belongs to none of the room, the persona and the user
    "disabled",  # a lorebook entry that is turned off
    "no-keyword",  # no keyword of the entry appeared
    "search-failed",  # search did not work when the context was built
    "not-found",  # search found better results
]


class Absence(msgspec.Struct, frozen=True, kw_only=True):
    """A stored record that was not a candidate for a context: why, and what to do about it."""

    id: str
    kind: str
    text: str
    reason: AbsenceReason
    why: str
    fix: str
    at: float = 0.0


_Explanation = tuple[AbsenceReason, str, str]  # reason, why, what to do


async def find_absence(store: Store, snapshot: Snapshot, id: str) -> Absence | None:
    """Explain why a memory, message or lore entry was not a candidate; return None if there is no such record.

    The explanation uses the records as they are now, which may have changed since the build.
    """
    for memory in await store.memories(ids=[id], limit=1):
        archived = bool(await store.memories(ids=[id], archived=True, limit=1))
        explanation = _explain_memory(memory, snapshot, archived=archived)
        return _absence(id, f"memory-{memory.type}", memory.content, explanation, at=memory.at)
    for message in await store.messages([id]):
        room = await store.get(Room, message.room)
        archived = not await store.messages_at(message.room, [message.seq])
        owner = None if room is None else room.user
        explanation = _explain_message(message, snapshot, owner=owner, archived=archived)
        return _absence(id, "message", plain_text(message.content), explanation, at=message.at)
    for entry in await store.lore(ids=[id]):
        explanation = _explain_entry(entry, snapshot.context, attached=await _lorebooks(store, snapshot))
        return _absence(id, "lorebook", entry.content, explanation)
    return None


def _absence(id: str, kind: str, text: str, explanation: _Explanation, *, at: float = 0.0) -> Absence:
    reason, why, fix = explanation
    return Absence(id=id, kind=kind, text=text, reason=reason, why=why, fix=fix, at=at)


async def _lorebooks(store: Store, snapshot: Snapshot) -> set[str]:
    """Return the lorebooks of the room, the persona and the user of a context."""
    owners = (
        await store.get(Room, snapshot.room),
        None if snapshot.persona is None else await store.get(Persona, snapshot.persona),
        None if snapshot.user is None else await store.get(User, snapshot.user),
    )
    return {book for owner in owners if owner is not None for book in owner.lorebooks}


def _explain_memory(memory: Memory, snapshot: Snapshot, *, archived: bool) -> _Explanation:
    if _is_left_out(snapshot.context, "memories"):
        return "left-out", "this context was built without memories", "build contexts with memories"
    if memory.at > snapshot.at:
        return "later", "it was written after this context was built", "newer contexts can include it"
    if archived:
        why = "it is archived: a newer memory superseded it, or the janitor archived it"
        return "archived", why, "undo the run that archived it, or write the memory again"
    owners = (
        ("persona", memory.persona, snapshot.persona),
        ("room", memory.room, snapshot.room),
        ("user", memory.user, snapshot.user),
    )
    for kind, owner, actual in owners:
        if owner is not None and owner != actual:
            why = f"it belongs to the {kind} {owner!r}; {_describe_own(kind, actual)}"
            return "other-owner", why, f"change the {kind} of the memory, or remove it so that everybody may know it"
    if memory.edited is not None and memory.edited > snapshot.at:
        why = "it was edited after this context was built, which did not find its earlier version"
        return "edited", why, "write it in the words that such questions use"
    unknown = "" if memory.at else "it may have been written later, since its time is unknown; otherwise "
    reason, why = _explain_search(snapshot.context, "memory-", "memories")
    return reason, unknown + why, "write it in the words that such questions use"


def _describe_own(kind: str, owner: str | None) -> str:
    return f"this context has {f'no {kind}' if owner is None else f'the {kind} {owner!r}'}"


def _explain_message(message: Message, snapshot: Snapshot, *, owner: str | None, archived: bool) -> _Explanation:
    if message.superseded:
        return "archived", "a later version of it superseded it", "newer contexts include the later version"
    if message.hidden:
        return "hidden", "it is hidden, so no context includes it", "post it again without `hidden`"
    if message.room != snapshot.room:
        return _explain_room(message.room, owner, snapshot)
    if message.at > snapshot.at:
        return "later", "it was posted after this context was built", "newer contexts can include it"
    if archived:
        return "archived", "the janitor archived it", "undo the janitor's run, or save it as a memory"
    reason, why = _explain_search(snapshot.context, "message-older", "older messages")
    why = f"it is older than the history that was loaded, and {why}"
    fix = "build new contexts with a larger window, which load more history (what-if only has this one's candidates)"
    return reason, why, fix


def _explain_room(room: str, owner: str | None, snapshot: Snapshot) -> _Explanation:
    if owner not in (None, snapshot.user):
        why = f"it was posted in room {room!r} of the user {owner!r}; {_describe_own('user', snapshot.user)}"
        return "other-room", why, "if everybody may know it, save it as a memory without a user"
    why = f"it was posted in room {room!r}, which was not searched or had no better results"
    return "other-room", why, "search other rooms of the user (`other_rooms`), or save it as a memory of the user"


def _explain_entry(entry: LoreEntry, context: Context, *, attached: set[str]) -> _Explanation:
    if _is_left_out(context, "lore"):
        return "left-out", "this context was built without lore", "build contexts with lore"
    if not entry.enabled:
        return "disabled", "it is disabled", "enable it"
    if entry.lorebook not in attached:
        why = f"its lorebook {entry.lorebook!r} belongs to neither the room nor the persona nor the user"
        return "other-lorebook", why, "add the lorebook to the persona or the room"
    why = "none of its keywords appeared, and search did not find it"
    return "no-keyword", why, "give it a keyword that appears in such questions, or make it constant"


def _is_left_out(context: Context, source: str) -> bool:
    return any(source in each.facts.get("sources", ()) for each in context.inputs.degraded if each.kind == "left-out")


def _explain_search(context: Context, kind: str, plural: str) -> tuple[AbsenceReason, str]:
    """Explain what search found instead, or why it failed."""
    failures = [each.text for each in context.inputs.degraded if each.kind in _SEARCH_FAILURES]
    if failures:
        return "search-failed", f"search did not find it, and something failed: {'; '.join(failures)}"
    relevances = [
        package.relevance
        for package in context.inputs.packages
        if package.kind.startswith(kind) and package.relevance is not None
    ]
    if not relevances:
        return "not-found", f"search found no {plural} for this question"
    best, least = (format_relevance(max(each, _LEAST)) for each in (max(relevances), min(relevances)))
    span = best if best == least else f"{best} to {least}"
    return "not-found", f"search offered {len(relevances):,} other {plural} instead (relevance {span})"
