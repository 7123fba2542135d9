"""Package the records of a store. A package has the id of its record.

Options override the record's values; metadata are merged with the record's.
"""

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from typing import Any, Final, Unpack

import msgspec

from brimful.cache import content_bytes, memoize
from brimful.core.content import ContentPackage, Media, Role, Text, ToolCall, ToolResult
from brimful.core.context import RECALLED_SUFFIX
from brimful.core.cost import SENDER_KEY
from brimful.core.prompt import TokenCounter
from brimful.core.tokens import Count
from brimful.packagers.package import PackageOptions, copy_metadata, lorebook_entry, memory, note, package, summary
from brimful.records import Content, LoreEntry, Memory, Message, Persona, Room, Summary, User
from brimful.records.character import Character
from brimful.records.note import Note

_FAMILIES: Final = ("message", "memory", "summary")
_EXAMPLES_SUFFIX: Final = "/examples"  # of the ids of a character's examples, which are excluded from small windows
MEMORY_TYPE_KEY: Final = "memory_type"
"""The metadata key with the type of a memory. Packages of anything else do not have it."""
_SOURCE: Final = frozenset({"source"})
"""Metadata of a package that its label shows. They are removed from a record's own metadata."""
_MAX_CACHED_CHARACTERS: Final = 32_768  # of a message; most are shorter
_PACKAGE_BYTES: Final = 1_500  # memory of a package without its content, and of its key
MAX_EXAMPLES_SHARE: Final = 0.25  # of the tokens left by the rest of the header: history and memories matter more


def qualified_id(family: str, id: str) -> str:
    """Return an id that distinguishes records of different families with the same id.

    >>> qualified_id("memory", "tea")
    'memory/tea'
    """
    return f"{family}/{id}"


def context_ids(id: str) -> list[str]:
    """Return all ids that a record may have in contexts."""
    return [id, id + RECALLED_SUFFIX, *(qualified_id(family, id) for family in _FAMILIES)]


def record_id(id: str) -> str:
    """Return the id of the record that has this id in a context.

    >>> record_id("memory/tea"), record_id("msg-7/recalled"), record_id("msg-7")
    ('tea', 'msg-7', 'msg-7')
    """
    family, slash, rest = id.removesuffix(RECALLED_SUFFIX).partition("/")
    return rest if slash and family in _FAMILIES else id.removesuffix(RECALLED_SUFFIX)


JANITOR: Final = "brimful-janitor"
"""The id of the janitor's persona."""


def janitor_session(room: str) -> str:
    """Return the id of the room in which the janitor has its contexts while it cleans up another room."""
    return f"{JANITOR}/{room}"


def learning_session(user: str) -> str:
    """Return the id of the room of the contexts in which memories about a user are learned."""
    return f"{JANITOR}/user/{user}"


def ephemeral_id(room: str) -> str:
    """Return the id of the summary that is made for a single context of a room."""
    return f"{room}/ephemeral"


def package_message(
    record: Message, *, counter: TokenCounter, current: bool = False, cluster: str | None = None
) -> ContentPackage:
    """Package a message of the recent history. `current` is the message to answer."""
    options: PackageOptions = {
        "id": record.id,
        "role": record.role,
        "name": record.sender,
        "timestamp": record.at,
        "position": record.seq,
        "metadata": {
            **_without_keys(record.metadata, _SOURCE),
            **_sender_metadata(record.sender, record.persona, record.role),
        },
    }
    if cluster is not None:
        options["cluster"] = cluster
    return package(_kind(record, current=current), record.content, counter=counter, **options)


def package_recalled_message(
    record: Message, *, counter: TokenCounter, source: str = "", id: str = "", tokens: Count | None = None
) -> ContentPackage:
    """Package an older message found by retrieval, as text for a labeled block."""
    text = plain_text(record.content)
    make = _cached_recalled if len(text) <= _MAX_CACHED_CHARACTERS and not record.metadata else _package_recalled
    return make(
        id or record.id,
        text,
        record.sender,
        record.persona,
        record.role,
        record.at,
        record.seq,
        source,
        counter.text(text) if tokens is None else tokens,
        counter,
        tuple(_without_keys(record.metadata, _SOURCE).items()),
    )


def _package_recalled(  # noqa: PLR0913, PLR0917 - a key of the cache
    id: str,
    text: str,
    sender: str,
    persona: str | None,
    role: Role,
    at: float,
    position: int,
    source: str,
    tokens: Count,
    counter: TokenCounter,
    metadata: tuple[tuple[str, Any], ...],
) -> ContentPackage:
    options: PackageOptions = {
        "id": id,
        "name": sender or ("tool" if role == "tool" else ""),
        "timestamp": at,
        "position": position,
        "metadata": {
            **dict(metadata),
            **_sender_metadata(sender, persona, role),
            **({"source": source} if source else {}),
        },
        "tokens": tokens,
    }
    if role != "tool":
        options["role"] = role
    return package("message-older", text, counter=counter, **options)


_cached_recalled: Final = memoize(
    _package_recalled, name="packages", size=lambda args, _: _PACKAGE_BYTES + content_bytes(args[1])
)
"""Cached, because the same messages of a room are found again and again."""


def package_memory(record: Memory, *, counter: TokenCounter, **options: Unpack[PackageOptions]) -> ContentPackage:
    """Package a memory. The summary of a cluster can replace the other memories of it."""
    facts = {"source": record.source, "source_message": record.source_message}
    whole: PackageOptions = {
        "id": record.id,
        "importance": record.importance,
        "timestamp": record.at,
        "pinned": record.pinned,
        **options,
        "metadata": {
            **record.metadata,
            MEMORY_TYPE_KEY: record.type,
            "accesses": record.accesses,
            **{key: value for key, value in facts.items() if value},
            **copy_metadata(options),
        },
    }
    if record.cluster is not None and record.summary:
        return summary(record.content, of=record.cluster, counter=counter, **whole)
    if record.cluster is not None:
        whole["cluster"] = record.cluster
    return memory(record.content, counter=counter, type=record.type, **whole)


def package_lore_entry(
    record: LoreEntry, *, counter: TokenCounter, book: str = "", **options: Unpack[PackageOptions]
) -> ContentPackage:
    """Package a lorebook entry. Its order is its position.

    An entry that is in every context is pinned, as part of the stable prefix. Others are not, because entries that come
    and go would break the prefix.
    """
    whole: PackageOptions = {
        "id": record.id,
        "importance": record.importance,
        "position": record.order,
        "always_on": record.constant,
        **options,
    }
    return lorebook_entry(record.content, counter=counter, book=book, constant=record.steady, **whole)


def package_summary(record: Summary, *, counter: TokenCounter, **options: Unpack[PackageOptions]) -> ContentPackage:
    """Package a summary of messages. If it lists none, it covers its whole cluster."""
    whole: PackageOptions = {"id": record.id, "timestamp": record.at, "covers": record.covers, **options}
    return summary(record.content, of=record.cluster, counter=counter, **whole)


def package_header(
    persona: Persona | None, room: Room, *, counter: TokenCounter, user: User | None = None, available: int
) -> list[ContentPackage]:
    """Package the header of every context of a persona in a room.

    A character's examples are excluded if they take too much of the tokens that the rest of the header leaves of
    `available`. History does not matter for that: examples that come and go with it would break the cached prefix.
    """
    packages = [
        package("system-prompt", text, counter=counter, id=id, position=i, can_drop=id.endswith(_EXAMPLES_SUFFIX))
        for i, (id, text) in enumerate(header_texts(persona, room, user).items())
    ]
    left = available - sum(each.tokens.upper for each in packages if not each.flex.can_drop)
    return [_exclude_if_large(each, left) if each.flex.can_drop else each for each in packages]


def _exclude_if_large(examples: ContentPackage, left: int) -> ContentPackage:
    if examples.tokens.upper <= left * MAX_EXAMPLES_SHARE:
        return examples
    why = f"more than {MAX_EXAMPLES_SHARE:.0%} of the {max(0, left):,} tokens left by the rest of the header"
    return msgspec.structs.replace(examples, excluded=f"it takes {examples.tokens.upper:,} tokens, {why}")


def header_texts(persona: Persona | None, room: Room, user: User | None = None) -> dict[str, str]:
    """Return the header of every context by id: the persona's prompt, the room's headers and its goal.

    A character's prompt is used if the persona has none. Notes without a depth come last.
    """
    texts = {} if persona is None else _persona_texts(persona, persona.character or Character())
    texts |= {f"room/{room.id}/header-{i}": header for i, header in enumerate(room.headers, start=1)}
    texts[f"room/{room.id}/goal"] = f"Goal of this conversation: {room.goal}" if room.goal else ""
    texts |= {id: note.text for id, note in collect_notes(persona, room, user).items() if note.depth is None}
    return {id: text for id, text in texts.items() if text}


def collect_notes(persona: Persona | None, room: Room, user: User | None) -> dict[str, Note]:
    """Return all notes of a context by id. At the same depth, the persona's notes come last."""
    owners = ((f"room/{room.id}", room), *(((f"user/{user.id}", user),) if user else ()))
    owners += ((f"persona/{persona.id}", persona),) if persona else ()
    return dict(each for name, owner in owners for each in _with_note_ids(name, owner.notes))


def package_notes(notes: dict[str, Note], turn: int, *, counter: TokenCounter) -> list[ContentPackage]:
    """Package the notes that have a depth. Notes that are not due in this turn are excluded, and recorded."""
    return [
        note(
            each.text,
            counter=counter,
            depth=each.depth,
            id=id,
            role=each.role,
            position=i,
            excluded="" if each.is_due(turn) else f"it is included every {each.every} turns, and this is turn {turn:,}",
        )
        for i, (id, each) in enumerate(notes.items())
        if each.depth is not None and each.text.strip()
    ]


def _with_note_ids(owner: str, notes: tuple[Note, ...]) -> Iterator[tuple[str, Note]]:
    for index, each in enumerate(notes, start=1):
        yield f"{owner}/note-{index}" + (f"/{each.name}" if each.name else ""), each


def _persona_texts(persona: Persona, character: Character) -> dict[str, str]:
    name = f"persona/{persona.id}"
    return {
        name: persona.prompt or character.prompt,
        f"{name}/character": character.sheet,
        f"{name}{_EXAMPLES_SUFFIX}": f"How {persona.called} talks:\n{character.examples}" if character.examples else "",
    }


def plain_text(content: Content) -> str:
    r"""Return content as plain text, with a call as its name and arguments, and media as their modality.

    >>> plain_text((Text(text="Look:"), Media(modality="image", url="https://example.org/cat.png")))
    'Look:\n[image]'
    """
    if isinstance(content, str):
        return content
    return "\n".join(_part_text(part) for part in content)


def _without_keys(metadata: dict[str, Any], names: AbstractSet[str]) -> dict[str, Any]:
    return metadata if names.isdisjoint(metadata) else {key: metadata[key] for key in metadata if key not in names}


def _sender_metadata(sender: str, persona: str | None, role: Role) -> dict[str, str]:
    """Return the id of a message's sender, and whether it is a user, a persona, a tool or the system."""
    kind = "persona" if persona is not None or role == "assistant" else role
    return {"sender": persona or sender, SENDER_KEY: kind}


def _part_text(part: Text | Media | ToolCall | ToolResult) -> str:
    match part:
        case Text():
            return part.text
        case Media():
            return f"[{part.modality}]"
        case ToolCall():
            return f"[called {part.name}: {part.arguments}]"
        case ToolResult():
            return part.content


def _kind(record: Message, *, current: bool) -> str:
    if record.role == "tool":
        return "tool-result"
    if not isinstance(record.content, str) and any(isinstance(part, ToolCall) for part in record.content):
        return "tool-call"
    return "message-current" if current else "message-recent"
