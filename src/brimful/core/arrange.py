"""Put the chosen units in order: stable content first, content that changes every turn last.

system prompts · pinned block │ history, oldest first │ retrieved block · media · current message
── stable ──────────────────── ── grows at its end ── ── new every turn ─────────────────────────

Notes are inserted among the last messages, at the depth they ask for.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Final, TypeVar

import msgspec

from brimful.core.chat_rules import alternate_roles, index_before_calls, short_ids, split_calls, unique_ids
from brimful.core.content import ContentPackage, Text, ToolCall, group_tool_results
from brimful.core.cost import region_of, role_of, speaker_name
from brimful.core.labels import (
    PINNED_CLOSE,
    PINNED_OPEN,
    RELATED_CLOSE,
    RELATED_OPEN,
    labeled_text,
    make_heading,
    speaker_prefixes,
)
from brimful.core.model import ModelInfo
from brimful.core.policy import Layout
from brimful.core.prompt import Message, Prompt, Tool
from brimful.core.selection import HistoryStart, Selection
from brimful.core.units import TimeKey, Unit, time_key

NOTE_KIND: Final = "system-note"
DEPTH_KEY: Final = "depth"
"""In the metadata of a note: how many messages stand behind it. The kind of a note is `system-note`."""

T = TypeVar("T")


def note_depth(package: ContentPackage) -> int:
    """Return how many messages stand behind a note; one that says nothing of use comes last."""
    depth = package.metadata.get(DEPTH_KEY)
    return depth if type(depth) is int and depth > 0 else 0


def place_notes(
    said: Sequence[T], notes: Sequence[ContentPackage], counts: Callable[[T], bool]
) -> list[tuple[int, ContentPackage]]:
    """Return before which of the things said each note stands, in the order in which they stand.

    The deepest comes first, and of one depth they come as their positions say.
    """
    ordered = sorted(notes, key=lambda note: (-note_depth(note), note.position, note.id))
    return [(index_at_depth(said, note_depth(note), counts), note) for note in ordered]


def index_at_depth(said: Sequence[T], depth: int, counts: Callable[[T], bool]) -> int:
    """Return before which of the things said a note of this depth stands; behind all of them with a depth of 0.

    It stands before something that `counts` as a message. Results of tools do not: so none is parted from its call.

    >>> [index_at_depth("ab-c", depth, str.isalpha) for depth in (0, 1, 2, 9)]
    [4, 3, 1, 0]
    """
    at = len(said)
    while depth > 0 and at > 0:
        at -= 1
        depth -= counts(said[at])
    return at


def group_by_heading(packages: Sequence[ContentPackage]) -> list[ContentPackage]:
    """Return packages so that those of one heading stand together, in time, where the last of them stood."""
    groups: dict[tuple[str, str], list[ContentPackage]] = {}
    for package in packages:
        above = make_heading(package)
        key = (above, "" if above else package.id)
        group = groups[key] = groups.pop(key, [])
        group.append(package)
    if len(groups) == len(packages):
        return list(packages)
    return [package for group in groups.values() for package in sorted(group, key=time_key)]


_Regions = dict[str, list[tuple[Unit, ContentPackage]]]


def arrange(
    selection: Selection, *, model: ModelInfo, tools: tuple[Tool, ...], max_output: int, layout: Layout
) -> Prompt:
    """Return the prompt that holds exactly the selected units."""
    placed = _group_by_region(selection.units)
    speakers = speaker_prefixes(package for unit in selection.units for package in unit.packages)
    stable = [*_system(placed), *_pinned(placed, speakers)]
    related = list(_related(placed, speakers))
    history = list(_history(placed))
    current = list(_current(placed))
    notes = [package for _, package in placed["note"]]
    if layout.related == "system":
        stable = [*_mark_last_cached(stable), *(_as_system(block) for block in related)]
        messages = [*stable, *_insert_notes(history, [], current, notes, within_turns=model.alternate)]
    else:
        messages = [
            *_mark_last_cached(stable),
            *_insert_notes(history, related, current, notes, within_turns=model.alternate),
        ]
    messages = short_ids(messages) if model.short_ids else unique_ids(messages)
    if model.names_in_text:
        messages = [_name_in_text(message) for message in messages]
    if model.one_call:
        messages = split_calls(messages)
    if model.alternate:
        messages = alternate_roles(messages, system_role=model.system_role)
    return Prompt(
        model=model.id,
        messages=tuple(messages),
        tools=tools,
        max_output=max_output,
        system_turns=model.system_turns,
    )


def find_history_start(selection: Selection) -> HistoryStart | None:
    """Return what the next context needs to know of this one's history: where its optional part began."""
    units = [unit for unit in selection.units if not unit.fixed and _is_history(unit)]
    if not units:
        return None
    summaries = sorted((unit for unit in units if unit.stands_for), key=_start_key)
    return HistoryStart(first=min(units, key=_start_key).key, summaries=tuple(unit.key for unit in summaries))


# -- sections --------------------------------------------------------------------------------------------------------


def _group_by_region(units: Sequence[Unit]) -> _Regions:
    """Part packages by where they stand: a summary stands where its cluster stood."""
    placed: _Regions = defaultdict(list)
    for unit in units:
        for package in unit.packages:
            placed[unit.stands_for or region_of(package)].append((unit, package))
    return placed


def _system(placed: _Regions) -> Iterator[Message]:
    for package in _sort_by_time(placed["system"]):
        yield _message(package)


def _pinned(placed: _Regions, speakers: Collection[str]) -> Iterator[Message]:
    packages = group_by_heading(_sort_by_time(placed["pinned"]))
    if packages:
        yield _block("system", PINNED_OPEN, PINNED_CLOSE, packages, speakers)


def _related(placed: _Regions, speakers: Collection[str]) -> Iterator[Message]:
    """Yield the retrieved block, the best last: nearest to the question."""
    ordered = sorted(placed["related"], key=lambda row: (row[0].score.total, row[0].when))
    packages = group_by_heading([package for _, package in ordered])
    if packages:
        yield _block("user", RELATED_OPEN, RELATED_CLOSE, packages, speakers)


def _history(placed: _Regions) -> Iterator[Message]:
    """Yield turns in time. Packages of one fate keep their own times; only a call and its results stand together."""
    turns = [turn for unit in _history_units(placed) for turn in _turns(unit)]
    for _, messages in sorted(turns, key=lambda turn: turn[0]):
        yield from messages


def _turns(unit: Unit) -> list[tuple[TimeKey, list[Message]]]:
    if unit.stands_for:
        (package,) = unit.packages
        text = Text(text=labeled_text(package).rstrip())
        return [(unit.when, [Message(role="user", parts=(text,), sources=(package.id,))])]
    if len(unit.packages) == 1 and role_of(unit.packages[0]) != "tool":
        return [(time_key(unit.packages[0]), [_message(unit.packages[0])])]
    turns: list[tuple[TimeKey, list[Message]]] = []
    open_calls: dict[str, list[Message]] = {}
    for package in (package for package in unit.packages if region_of(package) == "history"):
        if role_of(package) == "tool":
            for result, parts in group_tool_results(package.parts):
                open_calls[result.id].append(Message(role="tool", parts=parts, sources=(package.id,)))
            continue
        messages = [_message(package)]
        turns.append((time_key(package), messages))
        open_calls |= {part.id: messages for part in package.parts if isinstance(part, ToolCall)}
    return turns


def _current(placed: _Regions) -> Iterator[Message]:
    packages = _sort_by_time(placed["current"])
    media = [package for package in packages if package.kind.startswith("media-")]
    messages = [package for package in packages if not package.kind.startswith("media-")]
    seen = tuple(part for package in media for part in package.parts)
    spoken = [_message(package) for package in messages]
    if seen and (not spoken or spoken[-1].role != "user"):
        spoken.insert(max(0, len(spoken) - 1), Message(role="user", parts=()))
    at = next((at for at in reversed(range(len(spoken))) if spoken[at].role == "user"), 0)
    for here, message in enumerate(spoken):
        if seen and here == at:
            sources = (*(package.id for package in media), *message.sources)
            yield msgspec.structs.replace(message, parts=(*seen, *message.parts), sources=sources)
        else:
            yield message


def _insert_notes(
    history: list[Message],
    related: list[Message],
    current: list[Message],
    notes: Sequence[ContentPackage],
    *,
    within_turns: bool,
) -> list[Message]:
    """Put notes among the messages. History is marked where the first of them stands: what is behind it will move.

    `within_turns` keeps what is the user's from standing between results of tools and the answer to them.
    """
    end = len(history)
    said = [*history, *current]
    place = index_before_calls(said, end) if within_turns and related else end
    said[place:place] = related
    blocks = {id(block) for block in related}

    def counts(message: Message) -> bool:
        return message.role != "tool" and id(message) not in blocks

    placed = place_notes(said, notes, counts)
    if within_turns:
        placed = sorted(((_note_index(said, at, note), note) for at, note in placed), key=lambda row: row[0])
    stays = min([place, *(at for at, _ in placed)])
    said[:stays] = _mark_last_cached(said[:stays])
    for at, note in reversed(placed):
        said.insert(at, _message(note))
    return said


def _note_index(said: Sequence[Message], at: int, note: ContentPackage) -> int:
    return at if role_of(note) == "assistant" else index_before_calls(said, at)


def _history_units(placed: _Regions) -> list[Unit]:
    inside = {unit.key: unit for unit, _ in placed["history"]}
    return sorted(inside.values(), key=_start_key)


def _is_history(unit: Unit) -> bool:
    if unit.stands_for:
        return unit.stands_for == "history"
    return "history" in map(region_of, unit.packages)


def _start_key(unit: Unit) -> TimeKey:
    return unit.when if unit.stands_for else time_key(unit.packages[0])


# -- messages --------------------------------------------------------------------------------------------------------


def _sort_by_time(rows: Iterable[tuple[Unit, ContentPackage]]) -> list[ContentPackage]:
    return sorted((package for _, package in rows), key=time_key)


def _message(package: ContentPackage) -> Message:
    return Message(role=role_of(package), parts=package.parts, name=speaker_name(package), sources=(package.id,))


def _block(
    role: str, opening: str, closing: str, packages: Sequence[ContentPackage], speakers: Collection[str]
) -> Message:
    text = opening + "".join(_under_headings(packages, speakers)) + closing
    media = tuple(part for package in packages for part in package.parts if not isinstance(part, Text))
    sources = tuple(package.id for package in packages)
    return Message(role="system" if role == "system" else "user", parts=(Text(text=text), *media), sources=sources)


def _under_headings(packages: Sequence[ContentPackage], speakers: Collection[str]) -> Iterator[str]:
    """Yield packages in their labels. What is said on one day stands together, under one heading."""
    said = ""
    for package in packages:
        above = make_heading(package)
        if above != said:
            yield above
        said = above
        yield labeled_text(package, speakers)


def _as_system(message: Message) -> Message:
    return msgspec.structs.replace(message, role="system")


def _mark_last_cached(messages: list[Message]) -> list[Message]:
    """Mark the last one: a stable prefix ends here."""
    return [*messages[:-1], *(msgspec.structs.replace(message, cache=True) for message in messages[-1:])]


def _name_in_text(message: Message) -> Message:
    """Move the speaker's name into the first text, on one line: a name is not a place to write turns of others."""
    name = " ".join(message.name.split())
    if not name:
        return msgspec.structs.replace(message, name="")
    parts = list(message.parts)
    at = next((at for at, part in enumerate(parts) if isinstance(part, Text)), None)
    if at is None:
        parts.insert(0, Text(text=f"{name}:"))
    else:
        parts[at] = Text(text=f"{name}: {getattr(parts[at], 'text', '')}")
    return msgspec.structs.replace(message, name="", parts=tuple(parts))
