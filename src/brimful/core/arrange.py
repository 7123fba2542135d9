"""Put the chosen units in order: stable content first, content that changes every turn last.

system prompts · pinned block │ history, oldest first │ retrieved block · media · current message
── stable ──────────────────── ── grows at its end ── ── new every turn ─────────────────────────

Notes are inserted among the last messages, at the depth they ask for.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Final, TypeVar

import msgspec

from brimful.core.chat_rules import (
    alternate_roles,
    break_special_tokens,
    has_special_tokens,
    index_before_calls,
    short_ids,
    split_calls,
    unique_ids,
)
from brimful.core.content import ContentPackage, Part, Text, ToolCall, ToolResult, group_tool_results
from brimful.core.cost import NameStyle, has_day, is_question, region_of, role_of, sender_of
from brimful.core.decision import FormName, Region
from brimful.core.labels import (
    PINNED_CLOSE,
    PINNED_OPEN,
    RELATED_CLOSE,
    RELATED_OPEN,
    fold,
    labeled_text,
    line_prefix,
    make_day,
    make_heading,
    quote_days,
    quote_lines,
    speaker_name,
    speaker_prefixes,
)
from brimful.core.model import ModelInfo
from brimful.core.policy import Layout
from brimful.core.prompt import Message, Prompt, Tool
from brimful.core.selection import LEDGER_ID, HistoryStart, RetrievedItem, Selection, ToolLoop
from brimful.core.units import Tie, TimeKey, Unit, time_key

NOTE_KIND: Final = "system-note"
DEPTH_KEY: Final = "depth"
"""In the metadata of a note: how many messages come after it."""

_CONVERSATION: Final = ("history", "current")

T = TypeVar("T")

_Regions = dict[Region, list[tuple[Unit, ContentPackage]]]


class Arrangement(msgspec.Struct, frozen=True):
    """A prompt, with the region and the position of each package in it, by id.

    `broken` are the packages in which special tokens of a chat template were broken up.
    """

    prompt: Prompt
    placements: dict[str, tuple[Region, int]]
    broken: tuple[str, ...] = ()


def arrange(  # noqa: PLR0913 - everything that the order depends on
    selection: Selection,
    *,
    model: ModelInfo,
    tools: tuple[Tool, ...],
    max_output: int,
    layout: Layout,
    names: NameStyle,
    break_tokens: bool,
    days: bool = False,
    loop: ToolLoop | None = None,
) -> Arrangement:
    """Return the prompt that holds exactly the selected units, and where each of them is in it.

    With `days`, the first message that a user wrote on a day begins with that day. In a tool `loop`, search results
    stay before the question, in their order.
    """
    units = _join_media(selection.units)
    regions = _group_by_region(units)
    messages = _ordered_messages(regions, units, layout, loop, within_turns=model.alternate)
    placements = _find_placements(regions, messages, [(unit.key, unit.tie) for unit in selection.units if unit.tie])
    messages = short_ids(messages) if model.short_ids else unique_ids(messages)
    if names != "field":
        messages = _name_speakers(messages, names, ours=_ids_in_blocks(regions))
    if model.names_in_text or (days and names == "text"):  # a day comes before a name
        messages = [_name_in_text(message) for message in messages]
    if days:
        messages = _begin_days(messages, units, layout.timezone)
    broken = _find_special_tokens(units) if break_tokens else ()
    if broken:
        messages = [break_special_tokens(message) for message in messages]
    if model.one_call:
        messages = split_calls(messages)
    if model.alternate:
        messages = alternate_roles(messages, system_role=model.system_role)
    prompt = Prompt(
        model=model.id, messages=tuple(messages), tools=tools, max_output=max_output, system_turns=model.system_turns
    )
    return Arrangement(prompt, placements, broken)


def _find_special_tokens(units: Sequence[Unit]) -> tuple[str, ...]:
    """Return the packages whose content or name spells out special tokens."""
    packages = [package for unit in units for package in unit.packages]
    return tuple(sorted(package.id for package in packages if any(map(has_special_tokens, _strings(package)))))


def _strings(package: ContentPackage) -> Iterator[str]:
    yield package.name
    for part in package.parts:
        match part:
            case Text(text=text):
                yield text
            case ToolCall(arguments=arguments):
                yield arguments
            case ToolResult(content=content):
                yield content


def find_history_start(
    selection: Selection, carried: str = "", *, question: str = "", retrieved: tuple[RetrievedItem, ...] = ()
) -> HistoryStart | None:
    """Return where the optional part of history began, which the next context needs to keep its prefix.

    `carried` is a digest of what earlier rounds wrote, and `retrieved` are the search results of the `question`.
    """
    optional = sorted([unit for unit in selection.units if not unit.fixed and _is_history(unit)], key=_start_key)
    # The task of an agent stays whatever is dropped, so it does not tell where the rest of the history begins.
    task = {unit.key for unit in selection.required}
    units = [unit for unit in optional if unit.key not in task]
    if not units and selection.ledger is None and not question:
        return None
    return HistoryStart(
        first=units[0].key if units else "",
        summaries=tuple(unit.key for unit in units if _is_stand_in(unit)),
        forms=_find_forms(optional if selection.ledger is None else selection.units),
        media=_history_media(selection, units),
        divided=selection.divided,
        ledger=selection.ledger,
        carried=carried,
        question=question,
        retrieved=retrieved,
    )


def _find_forms(units: Sequence[Unit]) -> tuple[tuple[str, int], ...]:
    return tuple(sorted((unit.key, unit.limit) for unit in units if unit.whole and unit.tie is None))


def _is_stand_in(unit: Unit) -> bool:
    return unit.replaced_region is not None and unit.key != LEDGER_ID


def _history_media(selection: Selection, units: Sequence[Unit]) -> tuple[tuple[str, FormName], ...]:
    messages = {package.id for unit in units for package in unit.packages}
    media = ((unit, unit.tie) for unit, _ in selection.media)
    return tuple(sorted((unit.key, unit.form) for unit, tie in media if tie and tie.message in messages))


# -- media -----------------------------------------------------------------------------------------------------------


def _join_media(units: Sequence[Unit]) -> Sequence[Unit]:
    """Return the messages with their media in place of the lines, for media that are sent."""
    sent: dict[str, dict[int, Part]] = {}
    for unit in units:
        if unit.tie is not None and unit.form != "stub":
            sent.setdefault(unit.tie.message, {})[unit.tie.part] = unit.packages[0].parts[0]
    messages = [unit for unit in units if unit.tie is None]
    return [_with_media(unit, sent) for unit in messages] if sent else messages


def _with_media(unit: Unit, sent: Mapping[str, Mapping[int, Part]]) -> Unit:
    if not any(package.id in sent for package in unit.packages):
        return unit
    return msgspec.structs.replace(
        unit,
        packages=tuple(
            msgspec.structs.replace(
                package, content=tuple(sent.get(package.id, {}).get(i, part) for i, part in enumerate(package.parts))
            )
            if package.id in sent
            else package
            for package in unit.packages
        ),
    )


# -- regions ---------------------------------------------------------------------------------------------------------


def _group_by_region(units: Sequence[Unit]) -> _Regions:
    """Group packages by region. A summary goes where the cluster that it replaces would be."""
    regions: _Regions = defaultdict(list)
    for unit in units:
        for package in unit.packages:
            regions[unit.replaced_region or region_of(package)].append((unit, package))
    return regions


def _ordered_messages(
    regions: _Regions, units: Sequence[Unit], layout: Layout, loop: ToolLoop | None, *, within_turns: bool
) -> list[Message]:
    has_blocks = regions["pinned"] or regions["related"] or loop  # whose lines must not look like a speaker's
    speakers = speaker_prefixes(package for unit in units for package in unit.packages if has_blocks)
    stable = _mark_last_cached([*_system(regions), *_pinned(regions, speakers, layout)])
    related = list(_related(regions, speakers, layout, loop.retrieved if loop else None))
    if layout.related == "system":
        stable += [msgspec.structs.replace(block, role="system") for block in related]
        related = []
    history, current = list(_history(regions)), _current(regions)
    notes = [package for _, package in regions["note"]]
    end = len(history)
    if loop is not None:
        end = next((i for i, message in enumerate(history) if loop.question in message.sources), end)
    return [*stable, *_insert_notes([*history, *current], end, related, notes, within_turns=within_turns)]


def _find_placements(
    regions: _Regions, messages: Iterable[Message], media: Sequence[tuple[str, Tie]]
) -> dict[str, tuple[Region, int]]:
    """Return where each package is. Media come after the message that they are in."""
    tied: dict[str, list[str]] = {}
    for id, tie in sorted(media, key=lambda row: row[1].part):
        tied.setdefault(tie.message, []).append(id)
    ids = list(dict.fromkeys([id for message in messages for id in message.sources]))
    if tied:
        ids = [own for id in ids for own in (id, *tied.get(id, ()))]
    positions = {id: i for i, id in enumerate(ids)}
    placements = {
        package.id: (region, position)
        for region, rows in regions.items()
        for _, package in rows
        if (position := positions.get(package.id)) is not None  # an empty media package is in no message
    }
    own = {id: (placements[tie.message][0], positions[id]) for id, tie in media if tie.message in placements}
    return placements | own


def _system(regions: _Regions) -> Iterator[Message]:
    for package in _sort_by_time(regions["system"]):
        yield _message(package)


def _pinned(regions: _Regions, speakers: Collection[str], layout: Layout) -> Iterator[Message]:
    packages = _group_by_heading(_sort_by_time(regions["pinned"]), layout.timezone)
    if packages:
        yield _block("system", PINNED_OPEN, PINNED_CLOSE, packages, speakers, layout.timezone)


def _related(
    regions: _Regions, speakers: Collection[str], layout: Layout, retrieved: Collection[str] | None
) -> Iterator[Message]:
    """Yield the retrieved block, as it was or in the order of the layout; items of a day stay together, by time."""
    if retrieved is not None:
        ranks = {id: rank for rank, id in enumerate(retrieved)}
        rows = sorted(regions["related"], key=lambda row: ranks.get(row[0].key, len(ranks)))
        packages = [package for _, package in rows]
    elif layout.order == "time":
        packages = _sort_by_time(regions["related"])
    else:
        rows = sorted(regions["related"], key=lambda row: (row[0].score.total, row[0].when))
        packages = [package for _, package in rows]
    packages = _group_by_heading(packages, layout.timezone)
    if layout.order == "best-first" and retrieved is None:
        packages = _group_by_heading(packages[::-1], layout.timezone)
    if packages:
        yield _block("user", RELATED_OPEN, RELATED_CLOSE, packages, speakers, layout.timezone)


def _group_by_heading(packages: Sequence[ContentPackage], timezone: str) -> list[ContentPackage]:
    """Put packages with the same heading together, by time, where the last of them was."""
    groups: dict[tuple[str, str], list[ContentPackage]] = {}
    for package in packages:
        above = make_heading(package, timezone)
        key = (above, "" if above else package.id)
        group = groups[key] = groups.pop(key, [])
        group.append(package)
    if len(groups) == len(packages):
        return list(packages)
    return [package for group in groups.values() for package in sorted(group, key=time_key)]


def _history(regions: _Regions) -> Iterator[Message]:
    """Yield turns by time. Packages of a group keep their own times; only a call and its results stay together."""
    turns = [turn for unit in _history_units(regions) for turn in _turns(unit)]
    for _, messages in sorted(turns, key=itemgetter(0)):
        yield from messages


def _turns(unit: Unit) -> list[tuple[TimeKey, list[Message]]]:
    if unit.replaced_region:
        (package,) = unit.packages
        text = Text(text=package.text if package.kind == LEDGER_ID else labeled_text(package).rstrip())
        return [(unit.when, [Message(role="user", parts=(text,), sources=(package.id,))])]
    if len(unit.packages) == 1 and role_of(unit.packages[0]) != "tool":
        return [(time_key(unit.packages[0]), [_message(unit.packages[0])])]
    turns: list[tuple[TimeKey, list[Message]]] = []
    open_calls: dict[str, list[Message]] = {}
    for package in (package for package in unit.packages if region_of(package) == "history"):
        if role_of(package) == "tool":
            # A result sorts with its call, however late it came: providers refuse a message between the two.
            for result, parts in group_tool_results(package.parts):
                open_calls[result.id].append(Message(role="tool", parts=parts, sources=(package.id,)))
            continue
        messages = [_message(package)]
        turns.append((time_key(package), messages))
        open_calls |= {part.id: messages for part in package.parts if isinstance(part, ToolCall)}
    return turns


def _history_units(regions: _Regions) -> list[Unit]:
    units = {unit.key: unit for unit, _ in regions["history"]}
    return sorted(units.values(), key=_start_key)


def _is_history(unit: Unit) -> bool:
    if unit.replaced_region:
        return unit.replaced_region == "history"
    return "history" in [region_of(package) for package in unit.packages]


def _start_key(unit: Unit) -> TimeKey:
    return unit.when if unit.replaced_region else time_key(unit.packages[0])


def _current(regions: _Regions) -> list[Message]:
    packages = _sort_by_time(regions["current"])
    media = [package for package in packages if package.kind.startswith("media-")]
    messages = [_message(package) for package in packages if not package.kind.startswith("media-")]
    if not any(package.parts for package in media):
        return messages
    answers = {package.id for package in packages if not is_question(package)}
    return _add_media(messages, media, answers)


def _add_media(messages: list[Message], media: Sequence[ContentPackage], answers: set[str]) -> list[Message]:
    """Put media before the last question of the user, or into a message of their own if there is none."""
    if not messages or messages[-1].role != "user":
        messages.insert(max(0, len(messages) - 1), Message(role="user", parts=()))
    asked = (i for i, each in enumerate(messages) if each.role == "user" and answers.isdisjoint(each.sources))
    last = max(asked, default=0)
    parts = (*(part for package in media for part in package.parts), *messages[last].parts)
    sources = (*(package.id for package in media), *messages[last].sources)
    messages[last] = msgspec.structs.replace(messages[last], parts=parts, sources=sources)
    return messages


# -- notes -----------------------------------------------------------------------------------------------------------


def note_depth(package: ContentPackage) -> int:
    """Return how many messages come after a note; one without a valid depth comes last."""
    depth = package.metadata.get(DEPTH_KEY)
    return depth if type(depth) is int and depth > 0 else 0


def index_at_depth(messages: Sequence[T], depth: int, counts: Callable[[T], bool]) -> int:
    """Return the index at which a note of this depth is inserted; a depth of 0 is the end.

    The note comes before an item that `counts` as a message. Tool results do not count, so none is separated from its
    call.

    >>> [index_at_depth("ab-c", depth, str.isalpha) for depth in (0, 1, 2, 9)]
    [4, 3, 1, 0]
    """
    index = len(messages)
    while depth > 0 and index > 0:
        index -= 1
        depth -= counts(messages[index])
    return index


def _insert_notes(
    messages: list[Message], end: int, related: list[Message], notes: Sequence[ContentPackage], *, within_turns: bool
) -> list[Message]:
    """Insert search results at an index, and notes among the messages, the deepest first, then by position.

    A note moves with every turn, because the end does. So the cached prefix ends before the first of them. In a tool
    loop, search results do not move, so there is a second one that ends with the last result.
    `within_turns` keeps the user's messages from coming between tool results and the answer to them.
    """
    related_at = index_before_calls(messages, end) if within_turns and related else end
    messages[related_at:related_at] = related
    blocks = {id(block) for block in related}

    def counts(message: Message) -> bool:
        return message.role != "tool" and id(message) not in blocks

    ordered = sorted(notes, key=lambda note: (-note_depth(note), note.position, note.id))
    placed = [(index_at_depth(messages, note_depth(note), counts), note) for note in ordered]
    if within_turns:
        placed = sorted(((_note_index(messages, i, note), note) for i, note in placed), key=lambda row: row[0])
    stable = min([related_at, *(i for i, _ in placed)])
    messages[:stable] = _mark_last_cached(messages[:stable])
    if messages and messages[-1].role == "tool" and not notes:
        messages = _mark_last_cached(messages)
    for index, note in reversed(placed):
        messages.insert(index, _message(note))
    return messages


def _note_index(messages: Sequence[Message], index: int, note: ContentPackage) -> int:
    return index if role_of(note) == "assistant" else index_before_calls(messages, index)


# -- messages --------------------------------------------------------------------------------------------------------


def _sort_by_time(rows: Iterable[tuple[Unit, ContentPackage]]) -> list[ContentPackage]:
    return sorted([package for _, package in rows], key=time_key)


def _message(package: ContentPackage) -> Message:
    return Message(role=role_of(package), parts=package.parts, name=sender_of(package), sources=(package.id,))


def _block(
    role: str, opening: str, closing: str, packages: Sequence[ContentPackage], speakers: Collection[str], timezone: str
) -> Message:
    text = opening + "".join(_under_headings(packages, speakers, timezone)) + closing
    structured = (package.content for package in packages if not isinstance(package.content, str))
    media = tuple(part for parts in structured for part in parts if not isinstance(part, Text))
    sources = tuple(package.id for package in packages)
    return Message(role="system" if role == "system" else "user", parts=(Text(text=text), *media), sources=sources)


def _under_headings(packages: Sequence[ContentPackage], speakers: Collection[str], timezone: str) -> Iterator[str]:
    """Yield packages in their labels. Messages of one day share a heading."""
    previous = ""
    for package in packages:
        above = make_heading(package, timezone)
        if above != previous:
            yield above
        previous = above
        yield labeled_text(package, speakers, timezone)


def _begin_days(messages: Sequence[Message], units: Sequence[Unit], timezone: str) -> list[Message]:
    """Return the messages with each day before the first that a user wrote on it; nothing else looks like a day."""
    turns = {package.id: package for unit in units for package in unit.packages if region_of(package) in _CONVERSATION}
    dated: list[Message] = []
    previous = ""
    for message in messages:
        package = next((turns[id] for id in message.sources if id in turns), None)
        if package is None or message.role not in ("user", "assistant"):
            dated.append(message)
            continue
        day = make_day(package, timezone) if has_day(package) else ""
        # Also without a new day, so that a line which only looks like one is quoted.
        dated.append(_begin_with(message, day if day != previous else ""))
        previous = day or previous
    return dated


def _begin_with(message: Message, day: str) -> Message:
    """Return a message that begins with a line, in which no other line looks like a day."""
    parts = tuple(Text(text=quote_days(part.text)) if isinstance(part, Text) else part for part in message.parts)
    if day:
        index = next((i for i, part in enumerate(parts) if isinstance(part, Text)), len(parts))
        text = day + "".join(part.text for part in parts[index : index + 1] if isinstance(part, Text))
        parts = (*parts[:index], Text(text=text), *parts[index + 1 :])
    return msgspec.structs.replace(message, parts=parts)


def _mark_last_cached(messages: list[Message]) -> list[Message]:
    """Mark the last message: a stable prefix ends here."""
    return [*messages[:-1], *(msgspec.structs.replace(message, cache=True) for message in messages[-1:])]


def _ids_in_blocks(regions: _Regions) -> frozenset[str]:
    """Return the ids of the packages in the pinned and the retrieved block."""
    return frozenset(package.id for region in ("pinned", "related") for _, package in regions.get(region, ()))


def _name_speakers(messages: Sequence[Message], names: NameStyle, ours: Collection[str]) -> list[Message]:
    """Remove the names, or make them safe for the text: no line may look as if another speaker had written it.

    Blocks of `ours` name speakers themselves, and what others wrote in them is quoted already.
    """
    if names == "none":
        return [msgspec.structs.replace(message, name="") if message.name else message for message in messages]
    speakers = frozenset(line_prefix(fold(name)) for message in messages for name in _shown_names(message))
    return [
        message
        if ours and message.sources and all(id in ours for id in message.sources)
        else msgspec.structs.replace(
            message,
            name=speaker_name(message.name),
            parts=tuple(_quote_speakers(part, speakers) for part in message.parts),
        )
        for message in messages
    ]


def _shown_names(message: Message) -> tuple[str, ...]:
    return (message.name, speaker_name(message.name)) if message.name else ()


def _quote_speakers(part: Part, speakers: Collection[str]) -> Part:
    if not isinstance(part, Text):
        return part
    text = quote_lines(part.text, lambda folded: ":" in folded and line_prefix(folded) in speakers)
    return part if text == part.text else Text(text=text)


def _name_in_text(message: Message) -> Message:
    """Move the speaker's name into the first text."""
    if not message.name:
        return message
    parts = list(message.parts)
    index = next((i for i, part in enumerate(parts) if isinstance(part, Text)), None)
    if index is None:
        parts.insert(0, Text(text=f"{message.name}:"))
    else:
        parts[index] = Text(text=f"{message.name}: {getattr(parts[index], 'text', '')}")
    return msgspec.structs.replace(message, name="", parts=tuple(parts))
