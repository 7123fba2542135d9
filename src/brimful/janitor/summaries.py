"""Summarize a day of a room: one line for each flood, and one text for everything else."""

import hashlib
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from brimful.core.labels import iso_date
from brimful.janitor.days import Level, Spans, make_spans, merge_spans, spans_contain, time_range
from brimful.janitor.families import find_families
from brimful.janitor.floods import find_floods, flood_line, sender_names
from brimful.janitor.schedule import LEVEL_KEY, DueDay, RollUp, summary_level
from brimful.janitor.topics import Topics
from brimful.packagers.records import plain_text
from brimful.protocols.summarizer import Digest, Passage
from brimful.records import Message, Summary
from brimful.records.janitor import JanitorChange

SUMMARY_TOKENS: Final[dict[Level, int]] = {"family": 0, "day": 100, "month": 240, "year": 400}
"""What a summary of each level may come to, beside its title."""
MAX_FLOOD_LINES: Final = 3  # of a month or of a year, each with a line of its own


class DayContents(msgspec.Struct, frozen=True):
    """What was said in a day: floods, what is pinned or hidden and left alone, and the rest."""

    floods: tuple[tuple[Message, ...], ...]
    left: tuple[Message, ...]
    rest: tuple[Message, ...]


def separate_floods(messages: Sequence[Message]) -> DayContents:
    """Part the floods of a day from the rest."""
    left = tuple(message for message in messages if _is_exempt(message))
    plain = [message for message in messages if _may_be_flood(message)]
    found = find_families([plain_text(message.content) for message in plain])
    floods = tuple(flood for family in found for flood in find_floods([plain[at] for at in family.members]))
    taken = {message.id for group in (*floods, left) for message in group}
    return DayContents(floods, left, tuple(message for message in messages if message.id not in taken))


def flood_summaries(room: str, day: str, found: DayContents, now: float) -> list[Summary]:
    """Return one line for each flood of a day."""
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
        for flood in found.floods
    ]


def digest_title(messages: Sequence[Message]) -> str:
    """Say how much was said, by whom and when."""
    many = f"{len(messages):,} message{'s' if len(messages) > 1 else ''}"
    return f"{many} from {sender_names(messages)}{time_range(message.at for message in messages)}"


def make_digest(topics: Topics, messages: Sequence[Message], previous: Summary | None) -> Digest:
    """Return what a summarizer is told of a day: all of it, or with a `previous` summary what came since."""
    told = previous.spans if previous else ()
    fresh = [[message for message in topic if not spans_contain(told, message.seq)] for topic in topics]
    return Digest(
        title=digest_title(messages),
        topics=tuple(tuple(map(_make_passage, topic)) for topic in fresh if topic),
        tokens=SUMMARY_TOKENS["day"],
        previous=previous.content.partition("\n")[2] if previous else "",
    )


def extendable_summary(due: DueDay, found: DayContents) -> Summary | None:
    """Return the summary that a day had, if it only grew since then: nothing of it was changed, taken out, or moved."""
    old = next((each for each in due.told if summary_level(each) == "day"), None)
    now = _message_spans(found.rest)
    if old is None or merge_spans((*old.spans, *now)) != now or len(due.told) > 1 + len(found.floods):
        return None
    made = float(old.metadata.get("made", 0.0))
    edited = any(message.edited is not None and message.edited > made for message in found.rest)
    return None if edited else old


def make_day_summary(room: str, day: str, found: DayContents, digest: Digest, text: str, *, now: float) -> Summary:
    """Return the summary of the rest of a day. What is pinned or hidden in it is known, and left alone."""
    content = f"{digest.title}\n{text}" if text else digest.title
    made = _make_summary(room, "day", day, content, _message_spans(found.rest), at=found.rest[-1].at, now=now)
    return _with_metadata(made, beside=list(map(list, _message_spans(found.left))))


def make_day_change(due: DueDay, found: DayContents, made: Sequence[Summary]) -> JanitorChange:
    """Return what is to be done so that a day is told by these summaries, and by no other."""
    held = {each.id: each for each in due.told}
    fresh = tuple(each for each in made if each.id not in held or not _is_same_summary(each, held[each.id]))
    stay = {each.id for each in made}
    aside = {place.seq for place in due.day.places if place.aside}
    return JanitorChange(
        write=fresh,
        remove=tuple(id for id in held if id not in stay),
        messages=tuple(message.id for flood in found.floods for message in flood if message.seq not in aside),
    )


def make_roll_up_digest(past: RollUp) -> Digest:
    """Return what a summarizer is told of a month, or of a year: what its days, or months, were told to be."""
    lines = [(part, text) for part in past.parts for text in _summary_lines(part)]
    return Digest(
        title=f"{past.name}: {sum(map(_covered_count, past.parts)):,} messages",
        topics=tuple((Passage(text=text, at=part.at + at * 1e-6),) for at, (part, text) in enumerate(lines)),
        tokens=SUMMARY_TOKENS[_roll_up_level(past)],
    )


def make_roll_up_change(room: str, past: RollUp, digest: Digest, text: str, *, now: float) -> JanitorChange:
    """Put one summary in the place of those of a month, or of a year, and one in the place of its floods' lines.

    They cover exactly what those covered.
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
    made[0] = _with_metadata(made[0], beside=list(map(list, past.left)))
    return JanitorChange(write=tuple(made), remove=tuple(each.id for each in past.told))


def _roll_up_floods(room: str, past: RollUp, now: float) -> Summary:
    """Tell the floods of a month, or of a year: how many, and the line of each of the largest; of one, its line."""
    floods, last = past.floods, max(part.at for part in past.floods)
    many = sum(int(part.metadata.get("floods", 1)) for part in floods)
    largest = sorted((each for part in floods for each in _largest_floods(part)), key=lambda each: -each[0])[
        :MAX_FLOOD_LINES
    ]
    head = f"{past.name}: {many:,} floods, {sum(map(_covered_count, floods)):,} messages in all"
    content = floods[0].content if many == 1 else "\n".join([head, *(text for _, text in largest)])
    made = _make_summary(room, "family", f"{past.name}/floods", content, _covered_spans(floods), at=last, now=now)
    return made if many == 1 else _with_metadata(made, floods=many, largest=[count for count, _ in largest])


def _largest_floods(part: Summary) -> list[tuple[int, str]]:
    """Return the floods that a summary names, each with its size, and a line that says its day."""
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
    said = isinstance(message.content, str) and message.role in ("user", "assistant")
    return said and not _is_exempt(message)


def _is_exempt(message: Message) -> bool:
    return bool(message.metadata.get("pinned")) or message.hidden


def _flood_name(flood: Sequence[Message]) -> str:
    """Return what tells a flood from the others of its day, whose texts may be the same: who stands first in it."""
    return hashlib.blake2b(flood[0].id.encode(), digest_size=6).hexdigest()


def _make_passage(message: Message) -> Passage:
    speaker = message.sender or ("" if message.role == "user" else message.role)
    return Passage(text=plain_text(message.content), speaker=speaker, at=message.at)


def _summary_lines(part: Summary) -> list[str]:
    """Return what a summary tells, without its title."""
    return part.content.partition("\n")[2].splitlines()


def _is_same_summary(one: Summary, other: Summary) -> bool:
    """Say whether two summaries tell the same of the same; when they were made does not matter."""
    return msgspec.structs.replace(one, metadata={**one.metadata, "made": other.metadata.get("made")}) == other


def _make_summary(room: str, level: Level, name: str, content: str, spans: Spans, *, at: float, now: float) -> Summary:
    """Return a summary of the janitor's; a flood's name is that of its day, and one of its own."""
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
        metadata={LEVEL_KEY: level, "of": name.partition("/")[0], "made": now},
    )


def _with_metadata(summary: Summary, **more: Any) -> Summary:
    """Return a summary with what is worth noting beside it."""
    noted = {key: value for key, value in more.items() if value}
    return msgspec.structs.replace(summary, metadata={**summary.metadata, **noted})


def _message_spans(messages: Sequence[Message]) -> Spans:
    return make_spans(message.seq for message in messages)
