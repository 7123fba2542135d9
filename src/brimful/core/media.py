"""Media of messages as items of their own: each is sent in full, in low detail, or replaced by one line of text.

The line is part of the message, so that leaving a picture out never leaves a gap. An item costs what it takes beyond
its line.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import inf
from typing import Final

import msgspec

from brimful.core.content import ContentPackage, Flex, Media, Modality, Role, Text
from brimful.core.cost import count_content, is_from_user, region_of, role_of
from brimful.core.decision import FormName, Reason, make_scorer
from brimful.core.handles import Handles
from brimful.core.model import ModelInfo
from brimful.core.policy import MediaUse, Policy
from brimful.core.prompt import Renderer, TokenCounter
from brimful.core.tokens import Count
from brimful.core.units import ShrunkPackage, Tie, Unit
from brimful.core.validation import require_text
from brimful.errors import InvalidValue

MEDIA_PRIORITY: Final = 3
MEDIA_IMPORTANCE: Final = 0.3
MEDIA_PREFIX: Final = "media-"  # of the kinds of media items
LOW_WORTH: Final = 0.5  # of a picture in low detail
_FOLLOW_UP: Final = 4  # turns: a question right after a picture is probably about it
_MAX_LABEL: Final = 80  # characters of an id or a file name in a line
_LINE_SHARE: Final = 0.5  # of an item's tokens: a line that costs more is only the modality
_ASKS: Final[dict[Modality, re.Pattern[str]]] = {
    "image": re.compile(
        r"look at|see|image|screenshot|picture|describe (the|this)|what('?s| is) (in|shown)", re.IGNORECASE
    ),
    "audio": re.compile(r"listen|hear|audio|recording|sound|song|voice|transcri|what('?s| is) said", re.IGNORECASE),
    "document": re.compile(r"document|file|pdf|attach|paper|report|page|read|summar|what('?s| is) in", re.IGNORECASE),
}


class MediaLine(Text, frozen=True, kw_only=True, gc=False, tag_field="type", tag="text"):
    """The line of text in the place of a media item."""


class MediaItem(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A media item of a message, and where it belongs."""

    package: ContentPackage
    tie: Tie


def is_media(package: ContentPackage) -> bool:
    """Whether the package is a media item."""
    return package.kind.startswith(MEDIA_PREFIX)


def needs_vision(message: str) -> bool:
    """Whether a message is about something to look at.

    >>> needs_vision("What's in this screenshot?"), needs_vision("Thanks!")
    (True, False)
    """
    return asks_about("image", require_text("message", message, InvalidValue))


def asks_about(modality: Modality, message: str) -> bool:
    """Whether a message asks about media of this modality. What can be seen covers videos, too.

    >>> asks_about("audio", "What does she say in the recording?"), asks_about("audio", "Thanks!")
    (True, False)
    """
    return _ASKS["image" if modality == "video" else modality].search(message) is not None


def media_parts(package: ContentPackage) -> Iterator[tuple[str, int, Media]]:
    """Yield the id, the index and the part of each media item in a message.

    >>> from brimful.core.tokens import Count
    >>> parts = (Text(text="Look:"), Media(modality="image", url="https://example.org/cat.png"))
    >>> message = ContentPackage(id="m1", kind="message-recent", content=parts, tokens=Count(tokens=9, basis="exact"))
    >>> [(id, index) for id, index, _ in media_parts(message)]
    [('m1/image-1', 1)]
    """
    if isinstance(package.content, str) or is_media(package):
        return
    numbers: dict[str, int] = {}
    for index, part in enumerate(package.content):
        if isinstance(part, Media) and not part.is_opaque:
            number = numbers[part.modality] = numbers.get(part.modality, 0) + 1
            yield f"{package.id}/{part.modality}-{number}", index, part


def make_media_package(message: ContentPackage, id: str, part: Media, tokens: Count) -> ContentPackage:
    """Package a media item of a message. It is required if the message is."""
    return ContentPackage(
        id=id,
        kind=f"{MEDIA_PREFIX}{part.modality}",
        content=(part,),
        tokens=tokens,
        role="user" if message.role == "tool" else message.role,
        importance=MEDIA_IMPORTANCE,
        timestamp=message.timestamp,
        position=message.position,
        flex=Flex(can_drop=message.flex.can_drop, priority=MEDIA_PRIORITY),
    )


def describe_media(part: Media, handle: str) -> str:
    """Return the line that replaces a media item.

    >>> describe_media(Media(modality="image", url="https://a.example/cat.png?k=1", width=64, height=48), "m1/image-1")
    '[image: cat.png, 64×48, left out · recall "m1/image-1"]'
    """
    name = media_name(part)[:_MAX_LABEL]
    size = f"{part.width}×{part.height}" if part.width and part.height else ""
    length = f"{part.seconds:g} s" if part.seconds else ""
    facts = ", ".join(fact for fact in (name, size, length, "left out") if fact)
    return f'[{part.modality}: {facts} · recall "{handle}"]'


def media_name(part: Media) -> str:
    """Return the file name in a media item's URL, without the query, which may hold secrets; empty if it has none."""
    path = "" if part.url.startswith("data:") else part.url.partition("?")[0].partition("#")[0]
    return " ".join(path.rstrip("/").rpartition("/")[2].split())


def split_media(
    packages: Sequence[ContentPackage],
    *,
    handles: Handles,
    when: MediaUse,
    query: str,
    model: ModelInfo,
    renderer: Renderer,
    counter: TokenCounter,
) -> tuple[list[ContentPackage], list[MediaItem]]:
    """Replace the media in messages by lines, and return the media as items.

    Media stay in their message if they cost no more than a line, if the message's count was set by the caller, or if
    another candidate has the id of such an item.
    """
    if not any(map(has_media, packages)):
        return list(packages), []
    ids = {package.id for package in packages}
    discussed = _find_discussed(packages, query)
    split: list[ContentPackage] = []
    items: list[MediaItem] = []
    for package in packages:
        own = list(media_parts(package)) if package.tokens.tokenizer and has_media(package) else []
        # A count that the caller set cannot be divided among the parts, and each candidate needs an id of its own.
        if not own or not ids.isdisjoint(id for id, _, _ in own):
            split.append(package)
            continue
        parts = list(package.parts)
        for id, index, part in own:
            whole = make_media_package(package, id, part, counter.media(part))
            unsupported = find_placeholder(part, role_of(package), model, renderer)
            line = unsupported or _choose_line(part, handles[id], whole.tokens.upper, counter)
            if line is None:
                continue
            asked = package.id in discussed or asks_about(part.modality, query)
            reason: Reason | None = "no-modality" if unsupported else _why_unasked(package, when, asked=asked)
            tie = Tie(message=package.id, part=index, line=counter.text(line).upper, is_requested=asked, reason=reason)
            items.append(MediaItem(package=whole, tie=tie))
            parts[index] = MediaLine(text=line)
        split.append(msgspec.structs.replace(package, content=tuple(parts)))
    return split, items


def _why_unasked(package: ContentPackage, when: MediaUse, *, asked: bool) -> Reason | None:
    is_out = when == "never" or (when == "needed" and not asked and package.flex.can_drop)
    return "not-needed" if is_out else None


def _find_discussed(packages: Sequence[ContentPackage], query: str) -> set[str]:
    """Return the turns whose media the current message is probably about, whatever it says.

    They came with the user's last message or after it; if it is a question, also shortly before it.
    """
    turns = [package for package in packages if region_of(package) in ("history", "current")]
    start = max((i for i, turn in enumerate(turns) if is_from_user(turn)), default=0)
    return {turn.id for turn in turns[max(0, start - _FOLLOW_UP * ("?" in query)) :]}


def has_media(package: ContentPackage) -> bool:
    """Whether there are media in the package's content that can be items of their own."""
    return not isinstance(package.content, str) and any(
        isinstance(part, Media) and not part.is_opaque for part in package.content
    )


def find_placeholder(part: Media, role: Role, model: ModelInfo, renderer: Renderer) -> str | None:
    """Return the text that replaces a media item that cannot be sent; None if it can be.

    An unknown model is not known to lack a modality. Media from a tool are sent by the user after its result, because
    few providers accept images from tools.
    """
    unsupported = model.known and part.modality not in model.modalities
    sender: Role = "assistant" if unsupported else "user" if role == "tool" else role
    placeholder = renderer.media_placeholder(part, sender)
    return None if placeholder is None else placeholder.text


def _choose_line(part: Media, handle: str, tokens: int, counter: TokenCounter) -> str | None:
    """Return the line that replaces an item: a short one if it costs little; None if even that costs as much."""
    line, short = describe_media(part, handle), f"[{part.modality}]"
    if counter.text(line).upper <= _LINE_SHARE * tokens:
        return line
    return short if counter.text(short).upper < tokens else None


def in_low_detail(package: ContentPackage, counter: TokenCounter) -> ContentPackage | None:
    """Return a picture in low detail; None if that costs no less."""
    low = tuple(
        msgspec.structs.replace(part, detail="low") if isinstance(part, Media) and part.modality == "image" else part
        for part in package.parts
    )
    tokens = count_content(low, counter)
    if tokens.upper >= package.tokens.upper:
        return None
    return msgspec.structs.replace(package, content=low, tokens=tokens)


def make_media_units(items: Sequence[MediaItem], policy: Policy, now: float) -> list[Unit]:
    """Return the units of media items. Those of required messages that are not sent are lines."""
    score_of = make_scorer(policy.weights, now)
    units = [
        Unit(
            key=item.package.id,
            packages=(item.package,),
            cost=max(0, item.package.tokens.upper - item.tie.line),
            score=score_of(item.package),
            pool="" if (pool := policy.pool_for(item.package)) is None or pool.contiguous else pool.name,
            fixed=not item.package.flex.can_drop,
            may_shrink=True,
            tie=item.tie,
        )
        for item in items
    ]
    return [as_line(unit, unit.cost) if unit.fixed and unit.tie and unit.tie.reason else unit for unit in units]


def as_line(whole: Unit, larger: int) -> Unit:
    """Return a media item of a message as the line in its place, which costs nothing more."""
    return as_form(whole, whole.packages[0], ShrunkPackage(whole.key, "stub", larger, 0), cost=0, worth=0.0)


def as_form(whole: Unit, package: ContentPackage, form: ShrunkPackage, *, cost: int, worth: float) -> Unit:
    """Return a unit of one package in a smaller form."""
    return msgspec.structs.replace(
        whole, packages=(package,), cost=cost, forms=(form,), whole=whole, limit=cost, worth=worth
    )


def line_costs(media: Iterable[Unit]) -> dict[str, int]:
    """Return what the lines of media items cost, by the ids of their messages."""
    lines: dict[str, int] = {}
    for tie in (unit.tie for unit in media if unit.tie):
        lines[tie.message] = lines.get(tie.message, 0) + tie.line
    return lines


def charge_lines(unit: Unit, lines: Mapping[str, int]) -> Unit:
    """Return a message without the cost of its lines, or a media item with that of its own: so the record adds up."""
    if unit.tie is not None:
        more = [unit.tie.line]
        packages = (_with_tokens(unit.packages[0], unit.tie.line),) if unit.form == "stub" else unit.packages
    else:
        # The message was counted with the lines of all its media.
        more = [-lines.get(package.id, 0) for package in unit.packages]
        if not any(more):
            return unit
        changed = zip(unit.packages, more, strict=True)
        packages = tuple(_with_tokens(package, package.tokens.tokens + line) for package, line in changed)
    by_id = dict(zip((package.id for package in unit.packages), more, strict=True))
    shares = tuple(max(0, cost + line) for cost, line in zip(unit.costs, more, strict=True))
    return msgspec.structs.replace(
        unit,
        packages=packages,
        cost=sum(shares),
        shares=shares if unit.shares else (),
        forms=tuple(_charge_form(form, by_id[form.id]) for form in unit.forms),
        whole=unit.whole and charge_lines(unit.whole, lines),
    )


def _charge_form(form: ShrunkPackage, line: int) -> ShrunkPackage:
    smaller = form.smaller + line if form.smaller or form.name == "low" else 0
    return ShrunkPackage(form.id, form.name, form.larger + line, smaller)


def _with_tokens(package: ContentPackage, tokens: int) -> ContentPackage:
    return msgspec.structs.replace(package, tokens=msgspec.structs.replace(package.tokens, tokens=max(0, tokens)))


def candidate_ids(packages: Iterable[ContentPackage]) -> list[str]:
    """Return the ids of packages and of the media in them."""
    ids: list[str] = []
    for package in packages:
        ids.append(package.id)
        if not isinstance(package.content, str):
            ids += [id for id, _, _ in media_parts(package)]
    return ids


def choose_media(
    media: Iterable[tuple[Unit, Tie]],
    before: Mapping[str, FormName],
    rooms: dict[str, tuple[float, float]],
    left: float,
    shrink: Callable[[Unit, int], Unit | None],
) -> Iterator[tuple[Unit, Reason]]:
    """Yield the media of messages that are in, each in the largest form that fits, with the reason for it.

    Those that had a form `before` come first. `rooms` are the tokens and items that they may take of their pools.
    """
    for unit, tie in sorted(media, key=lambda row: before.get(row[0].key, "stub") == "stub"):
        tokens, items = rooms.get(unit.pool, (left, inf))
        taken, reason = _choose_form(unit, tie, before.get(unit.key), min(left, tokens) if items > 0 else 0, shrink)
        if reason == "fits" and taken.form == "stub":
            reason = "max-items" if items <= 0 else "pool-full" if tokens < left else "window-full"
        left -= taken.cost
        if unit.pool in rooms:
            rooms[unit.pool] = tokens - taken.cost, items - bool(taken.cost)
        yield taken, reason


def _choose_form(
    unit: Unit, tie: Tie, was: FormName | None, room: float, shrink: Callable[[Unit, int], Unit | None]
) -> tuple[Unit, Reason]:
    """Return the largest form of a media item that fits, but no larger one than it had, and the reason for it.

    One that was left out stays out until the current message asks about it, so that the prefix stays as it is.
    """
    stub = shrink(unit, 0) or unit
    if tie.reason is None and was == "stub" and not tie.is_requested:
        return stub, "unchanged"
    if tie.reason == "no-modality" or (tie.reason is not None and was not in ("full", "low")):
        return stub, tie.reason
    if unit.cost <= room and was != "low":
        return unit, "fits"
    return shrink(unit, max(0, int(min(room, unit.cost)))) or unit, "fits"
