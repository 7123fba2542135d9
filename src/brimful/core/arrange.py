"""What was chosen, put in order: stable content first, what changes every turn last.

system prompts · pinned block │ history, oldest first │ retrieved block · media · current message
── stable ──────────────────── ── grows at its end ── ── new every turn ─────────────────────────

Notes stand among the last messages, as deep as they say.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence

import msgspec

from brimful.core.alternate import alternating, before_calls
from brimful.core.call_ids import short_ids, unique_ids
from brimful.core.content import ContentPackage, Text, ToolCall
from brimful.core.cost import place_of, role_of, speaker
from brimful.core.depth import placed_in
from brimful.core.headings import gathered
from brimful.core.label import PINNED_CLOSE, PINNED_OPEN, RELATED_CLOSE, RELATED_OPEN, heading, labelled, speakers_of
from brimful.core.model import ModelInfo
from brimful.core.one_call import one_at_a_time
from brimful.core.policy import Layout
from brimful.core.prompt import Message, Prompt, Tool
from brimful.core.results import results_of
from brimful.core.selection import Previous, Selection
from brimful.core.unit import Unit, When, time_of

_Placed = dict[str, list[tuple[Unit, ContentPackage]]]


def arrange(
    selection: Selection, *, model: ModelInfo, tools: tuple[Tool, ...], max_output: int, layout: Layout
) -> Prompt:
    """Return the prompt that holds exactly the selected units."""
    placed = _placed(selection.units)
    speakers = speakers_of(package for unit in selection.units for package in unit.packages)
    stable = [*_system(placed), *_pinned(placed, speakers)]
    related = list(_related(placed, speakers))
    history = list(_history(placed))
    current = list(_current(placed))
    notes = [package for _, package in placed["note"]]
    if layout.related == "system":
        stable = [*_mark(stable), *(_as_system(block) for block in related)]
        messages = [*stable, *_noted(history, [], current, notes, within_turns=model.alternate)]
    else:
        messages = [*_mark(stable), *_noted(history, related, current, notes, within_turns=model.alternate)]
    messages = short_ids(messages) if model.short_ids else unique_ids(messages)
    if model.names_in_text:
        messages = [_named(message) for message in messages]
    if model.one_call:
        messages = one_at_a_time(messages)
    if model.alternate:
        messages = alternating(messages, system_role=model.system_role)
    return Prompt(
        model=model.id,
        messages=tuple(messages),
        tools=tools,
        max_output=max_output,
        system_turns=model.system_turns,
    )


def previous_mark(selection: Selection) -> Previous | None:
    """Return what the next context needs to know of this one's history: where its optional part began."""
    units = [unit for unit in selection.units if not unit.fixed and _is_history(unit)]
    if not units:
        return None
    summaries = sorted((unit for unit in units if unit.stands_for), key=_began)
    return Previous(first=min(units, key=_began).key, summaries=tuple(unit.key for unit in summaries))


# -- sections --------------------------------------------------------------------------------------------------------


def _placed(units: Sequence[Unit]) -> _Placed:
    """Part packages by where they stand: a summary stands where its cluster stood."""
    placed: _Placed = defaultdict(list)
    for unit in units:
        for package in unit.packages:
            placed[unit.stands_for or place_of(package)].append((unit, package))
    return placed


def _system(placed: _Placed) -> Iterator[Message]:
    for package in _in_time(placed["system"]):
        yield _message(package)


def _pinned(placed: _Placed, speakers: Collection[str]) -> Iterator[Message]:
    packages = gathered(_in_time(placed["pinned"]))
    if packages:
        yield _block("system", PINNED_OPEN, PINNED_CLOSE, packages, speakers)


def _related(placed: _Placed, speakers: Collection[str]) -> Iterator[Message]:
    """Yield the retrieved block, the best last: nearest to the question."""
    ordered = sorted(placed["related"], key=lambda row: (row[0].score.total, row[0].when))
    packages = gathered([package for _, package in ordered])
    if packages:
        yield _block("user", RELATED_OPEN, RELATED_CLOSE, packages, speakers)


def _history(placed: _Placed) -> Iterator[Message]:
    """Yield turns in time. Packages of one fate keep their own times; only a call and its results stand together."""
    turns = [turn for unit in _history_units(placed) for turn in _turns(unit)]
    for _, messages in sorted(turns, key=lambda turn: turn[0]):
        yield from messages


def _turns(unit: Unit) -> list[tuple[When, list[Message]]]:
    if unit.stands_for:
        (package,) = unit.packages
        text = Text(text=labelled(package).rstrip())
        return [(unit.when, [Message(role="user", parts=(text,), sources=(package.id,))])]
    if len(unit.packages) == 1 and role_of(unit.packages[0]) != "tool":
        return [(time_of(unit.packages[0]), [_message(unit.packages[0])])]
    turns: list[tuple[When, list[Message]]] = []
    open_calls: dict[str, list[Message]] = {}
    for package in (package for package in unit.packages if place_of(package) == "history"):
        if role_of(package) == "tool":
            for result, parts in results_of(package.parts):
                open_calls[result.id].append(Message(role="tool", parts=parts, sources=(package.id,)))
            continue
        messages = [_message(package)]
        turns.append((time_of(package), messages))
        open_calls |= {part.id: messages for part in package.parts if isinstance(part, ToolCall)}
    return turns


def _current(placed: _Placed) -> Iterator[Message]:
    packages = _in_time(placed["current"])
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


def _noted(
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
    place = before_calls(said, end) if within_turns and related else end
    said[place:place] = related
    blocks = {id(block) for block in related}

    def counts(message: Message) -> bool:
        return message.role != "tool" and id(message) not in blocks

    placed = placed_in(said, notes, counts)
    if within_turns:
        placed = sorted(((_settled(said, at, note), note) for at, note in placed), key=lambda row: row[0])
    stays = min([place, *(at for at, _ in placed)])
    said[:stays] = _mark(said[:stays])
    for at, note in reversed(placed):
        said.insert(at, _message(note))
    return said


def _settled(said: Sequence[Message], at: int, note: ContentPackage) -> int:
    return at if role_of(note) == "assistant" else before_calls(said, at)


def _history_units(placed: _Placed) -> list[Unit]:
    inside = {unit.key: unit for unit, _ in placed["history"]}
    return sorted(inside.values(), key=_began)


def _is_history(unit: Unit) -> bool:
    if unit.stands_for:
        return unit.stands_for == "history"
    return "history" in map(place_of, unit.packages)


def _began(unit: Unit) -> When:
    return unit.when if unit.stands_for else time_of(unit.packages[0])


# -- messages --------------------------------------------------------------------------------------------------------


def _in_time(rows: Iterable[tuple[Unit, ContentPackage]]) -> list[ContentPackage]:
    return sorted((package for _, package in rows), key=time_of)


def _message(package: ContentPackage) -> Message:
    return Message(role=role_of(package), parts=package.parts, name=speaker(package), sources=(package.id,))


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
        above = heading(package)
        if above != said:
            yield above
        said = above
        yield labelled(package, speakers)


def _as_system(message: Message) -> Message:
    return msgspec.structs.replace(message, role="system")


def _mark(messages: list[Message]) -> list[Message]:
    """Mark the last one: a stable prefix ends here."""
    return [*messages[:-1], *(msgspec.structs.replace(message, cache=True) for message in messages[-1:])]


def _named(message: Message) -> Message:
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
