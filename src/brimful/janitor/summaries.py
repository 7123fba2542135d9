"""Summarize a day of a room: one line for each flood, and one text for everything else."""

import hashlib
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from brimful.core.labels import fold, iso_date, local_date, speaker_name
from brimful.core.relative_times import date_times
from brimful.janitor.days import Level, Spans, make_spans, merge_spans, spans_contain, time_range
from brimful.janitor.families import find_families
from brimful.janitor.floods import find_floods, flood_line, sender_names
from brimful.janitor.schedule import LEVEL_KEY, DueDay, RollUp, summary_level
from brimful.janitor.topics import Topics
from brimful.packagers.records import plain_text
from brimful.protocols import Digest, Passage
from brimful.records import Message, Summary
from brimful.records.runs import JanitorChange

SUMMARY_TOKENS: Final[dict[Level, int]] = {"family": 0, "day": 100, "month": 240, "year": 400}
"""The size of a summary by level, without its title."""
MAX_FLOOD_LINES: Final = 3  # of a month or a year; others are only counted


class DayContents(msgspec.Struct, frozen=True):
    """The messages of a day: floods, pinned or hidden messages, which are skipped, and the rest."""

    floods: tuple[tuple[Message, ...], ...]
    skipped: tuple[Message, ...]
    rest: tuple[Message, ...]


def separate_floods(messages: Sequence[Message]) -> DayContents:
    """Separate the floods of a day from the rest."""
    skipped = tuple(message for message in messages if _is_exempt(message))
    plain = [message for message in messages if _may_be_flood(message)]
    families = find_families([plain_text(message.content) for message in plain])
    floods = tuple(flood for family in families for flood in find_floods([plain[i] for i in family.members]))
    separated = {message.id for group in (*floods, skipped) for message in group}
    return DayContents(floods, skipped, tuple(message for message in messages if message.id not in separated))


def flood_summaries(room: str, day: str, contents: DayContents, now: float) -> list[Summary]:
    """Return a summary of one line for each flood of a day."""
    return [
        _make_summary(
            room,
            "family",
            f"{day}/{_flood_name(flood)}",
            flood_line(flood),
            _message_spans(flood),
            at=flood[-1].at,
            now=now,
        )
        for flood in contents.floods
    ]


def digest_title(messages: Sequence[Message]) -> str:
    """Return how many messages there are, from whom and when."""
    count = f"{len(messages):,} message{'s' if len(messages) > 1 else ''}"
    return f"{count} from {sender_names(messages)}{time_range(message.at for message in messages)}"


def unaffected_summaries(due: DueDay, contents: DayContents) -> list[Summary]:
    """Return the existing summary of a day, unless it covers messages that now belong to a flood."""
    flooded = [message.seq for flood in contents.floods for message in flood]
    texts = (each for each in due.summaries if summary_level(each) == "day")
    return [each for each in texts if not any(spans_contain(each.spans, seq) for seq in flooded)]


def make_digest(topics: Topics, messages: Sequence[Message], previous: Summary | None) -> Digest:
    """Return the input of a summarizer for a day: all messages, or those since the `previous` summary."""
    covered = previous.spans if previous else ()
    fresh = [[message for message in topic if not spans_contain(covered, message.seq)] for topic in topics]
    return Digest(
        title=digest_title(messages),
        topics=tuple(tuple(map(_make_passage, topic)) for topic in fresh if topic),
        tokens=SUMMARY_TOKENS["day"],
        previous=previous.content.partition("\n")[2] if previous else "",
    )


def extendable_summary(due: DueDay, contents: DayContents) -> Summary | None:
    """Return the existing summary of a day, if messages were only added since then."""
    old = next((each for each in due.summaries if summary_level(each) == "day"), None)
    now = _message_spans(contents.rest)
    if old is None or merge_spans((*old.spans, *now)) != now or len(due.summaries) > 1 + len(contents.floods):
        return None
    made = float(old.metadata.get("made", 0.0))
    edited = any(message.edited is not None and message.edited > made for message in contents.rest)
    return None if edited else old


def make_day_summary(room: str, day: str, contents: DayContents, digest: Digest, text: str, *, now: float) -> Summary:
    """Return the summary of a day, without floods and skipped messages."""
    content = f"{digest.title}\n{text}" if text else digest.title
    made = _make_summary(room, "day", day, content, _message_spans(contents.rest), at=contents.rest[-1].at, now=now)
    return _with_metadata(made, skipped=list(map(list, _message_spans(contents.skipped))))


def make_day_change(due: DueDay, contents: DayContents, made: Sequence[Summary]) -> JanitorChange:
    """Return the change that replaces the summaries of a day with these, and archives the messages of floods."""
    existing = {each.id: each for each in due.summaries}
    fresh = tuple(each for each in made if each.id not in existing or not _is_same_summary(each, existing[each.id]))
    made_ids = {each.id for each in made}
    archived = {position.seq for position in due.day.positions if position.archived}
    return JanitorChange(
        write=fresh,
        remove=tuple(id for id in existing if id not in made_ids),
        messages=tuple(message.id for flood in contents.floods for message in flood if message.seq not in archived),
    )


def make_roll_up_digest(past: RollUp) -> Digest:
    """Return the input of a summarizer for a month or year: the summaries of its days or months."""
    lines = [(part, text) for part in past.parts for text in _summary_lines(part)]
    return Digest(
        title=f"{past.name}: {sum(map(_covered_count, past.parts)):,} messages",
        topics=tuple((Passage(text=text, at=part.at + i * 1e-6),) for i, (part, text) in enumerate(lines)),
        tokens=SUMMARY_TOKENS[_roll_up_level(past)],
    )


def make_roll_up_change(room: str, past: RollUp, digest: Digest, text: str, *, now: float) -> JanitorChange:
    """Return the change that replaces the summaries of a month or year by one, and its summaries of floods by another.

    They cover exactly the same messages.
    """
    made = []
    if past.parts:
        content = f"{digest.title}\n{text}" if text else digest.title
        last = max(part.at for part in past.parts)
        made.append(
            _make_summary(room, _roll_up_level(past), past.name, content, _covered_spans(past.parts), at=last, now=now)
        )
    if past.floods:
        made.append(_roll_up_floods(room, past, now))
    made[0] = _with_metadata(made[0], skipped=list(map(list, past.skipped)))
    return JanitorChange(write=tuple(made), remove=tuple(each.id for each in past.summaries))


def _roll_up_floods(room: str, past: RollUp, now: float) -> Summary:
    """Return a summary of the floods of a month or year: their number, and the lines of the largest."""
    floods, last = past.floods, max(part.at for part in past.floods)
    count = sum(int(part.metadata.get("floods", 1)) for part in floods)
    largest = sorted((each for part in floods for each in _largest_floods(part)), key=lambda each: -each[0])[
        :MAX_FLOOD_LINES
    ]
    head = f"{past.name}: {count:,} floods, {sum(map(_covered_count, floods)):,} messages in all"
    content = floods[0].content if count == 1 else "\n".join([head, *(text for _, text in largest)])
    made = _make_summary(room, "family", f"{past.name}/floods", content, _covered_spans(floods), at=last, now=now)
    return made if count == 1 else _with_metadata(made, floods=count, largest=[size for size, _ in largest])


def _largest_floods(part: Summary) -> list[tuple[int, str]]:
    """Return the size and line of each flood that a summary lists, with its day."""
    if "floods" not in part.metadata:
        return [(_covered_count(part), f"{iso_date(part.at)}: {part.content}")]
    return list(zip(part.metadata["largest"], part.content.split("\n")[1:], strict=True))


def _covered_count(part: Summary) -> int:
    return sum(last - first + 1 for first, last in part.spans)


def _covered_spans(parts: Sequence[Summary]) -> Spans:
    return merge_spans(span for part in parts for span in part.spans)


def _roll_up_level(past: RollUp) -> Level:
    return "month" if "-" in past.name else "year"


def _may_be_flood(message: Message) -> bool:
    plain = isinstance(message.content, str) and message.role in ("user", "assistant")
    return plain and not _is_exempt(message)


def _is_exempt(message: Message) -> bool:
    return bool(message.metadata.get("pinned")) or message.hidden


def _flood_name(flood: Sequence[Message]) -> str:
    """Return a name that is unique within the day, from the first message."""
    return hashlib.blake2b(flood[0].id.encode(), digest_size=6).hexdigest()


def _make_passage(message: Message) -> Passage:
    text = date_times(plain_text(message.content), local_date(message.at))
    # Without a speaker before it, "Ada: I quit." would be quoted as if Ada had written it.
    unnamed = "" if message.role == "user" and ":" not in fold(text) else message.role
    return Passage(text=text, speaker=speaker_name(message.sender) or unnamed, at=message.at)


def _summary_lines(part: Summary) -> list[str]:
    """Return the lines of a summary without its title."""
    return part.content.partition("\n")[2].splitlines()


def _is_same_summary(one: Summary, other: Summary) -> bool:
    """Return whether two summaries are equal, apart from when they were made."""
    return msgspec.structs.replace(one, metadata={**one.metadata, "made": other.metadata.get("made")}) == other


def _make_summary(room: str, level: Level, name: str, content: str, spans: Spans, *, at: float, now: float) -> Summary:
    """Return a summary. The name of a flood is its day and a unique suffix."""
    id = f"{room}/{level}/{name}"
    return Summary(
        id=id,
        room=room,
        content=content,
        cluster=id,
        first=spans[0][0],
        last=spans[-1][1],
        spans=spans,
        at=at,
        metadata={LEVEL_KEY: level, "period": name.partition("/")[0], "made": now},
    )


def _with_metadata(summary: Summary, **more: Any) -> Summary:
    added = {key: value for key, value in more.items() if value}
    return msgspec.structs.replace(summary, metadata={**summary.metadata, **added})


def _message_spans(messages: Sequence[Message]) -> Spans:
    return make_spans(message.seq for message in messages)
