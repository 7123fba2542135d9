"""What the model saw, section by section, in the order of the prompt."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from brimful.core.content import ContentPackage, Media
from brimful.core.context import COMPONENTS, Context
from brimful.core.decision import Decision, Region
from brimful.core.media import media_name as file_name
from brimful.views.explain import component_title

_HEADINGS: Final = {
    "system": "SYSTEM PROMPT",
    "memories": "RETRIEVED MEMORIES",
    "recent": "RECENT MESSAGES",
    "older": "OLDER MESSAGES",
    "tools": "TOOL TURNS",
    "lorebook": "LOREBOOK",
    "summaries": "SUMMARIES",
    "notes": "NOTES",
    "media": "MEDIA",
    "current": "USER MESSAGE",
    "pinned": "PINNED",
}


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """A candidate that is in the prompt: its decision and its package."""

    decision: Decision
    package: ContentPackage


class Section(msgspec.Struct, frozen=True, kw_only=True):
    """A part of the prompt with its entries: in prompt order, or best score first if they were retrieved."""

    name: str
    heading: str
    tokens: int
    entries: tuple[Entry, ...]


_Key = tuple[Region | None, str]  # the region of the prompt, and the name of the section in it
_Groups = Mapping[_Key, Sequence[Entry]]


def sections(context: Context) -> list[Section]:
    """Return the sections of a context's prompt that are not empty, in order."""
    packages = {(package.id, package.kind): package for package in context.candidates}
    groups: dict[_Key, list[Entry]] = {}
    for decision in context.decisions:
        package = packages.get((decision.id, decision.kind))
        if decision.included and package is not None:
            groups.setdefault(_section_key(decision), []).append(Entry(decision=decision, package=package))
    return [_make_section(key, groups[key]) for key in _order_keys(groups)]


def media_name(package: ContentPackage) -> str:
    """Return the file name in a media item's URL, or the package's id if it has none.

    >>> from brimful.core.tokens import Count
    >>> part = Media(modality="image", url="https://x.example/shots/screenshot.png?v=2")
    >>> media_name(ContentPackage(id="i", kind="media-image", content=(part,), tokens=Count(tokens=1, basis="exact")))
    'screenshot.png'
    """
    return next((name for part in package.parts if isinstance(part, Media) and (name := file_name(part))), package.id)


def describe_media_entry(entry: Entry) -> str:
    """Return the name of a media item with its tokens, and whether all of it is sent."""
    form = {"low": ", in low detail", "stub": ", left out"}.get(entry.decision.form, "")
    return f"{media_name(entry.package)} ({entry.decision.cost:,} tokens{form})"


def excluded_decisions(context: Context) -> Iterator[Decision]:
    """Yield the decisions on what the model did not see, nearest to the cut first; unranked candidates come last."""
    pools = [pool.name for pool in context.pools]

    def order(decision: Decision) -> tuple[bool, int, int, str]:
        pool = pools.index(decision.pool) if decision.pool in pools else len(pools)
        return (not decision.rank, max(0, decision.rank - decision.cut), pool, decision.id)

    yield from sorted((each for each in context.decisions if not each.included), key=order)


def _section_key(decision: Decision) -> _Key:
    region = decision.region
    if region in ("pinned", "system", "current") and not decision.kind.startswith("media-"):
        return region, region
    return region, COMPONENTS.get(decision.kind, decision.kind)


def _order_keys(groups: _Groups) -> list[_Key]:
    """Sort by where regions begin, and notes by where the last of them is. Media precede the message they belong to."""
    starts: dict[Region | None, int] = {}
    for (region, _), entries in groups.items():
        positions = [_position(entry) for entry in entries]
        first = max(positions) if region == "note" else min(positions)
        starts[region] = min(first, starts.get(region, first))
    known = list(_HEADINGS)

    def order(key: _Key) -> tuple[int, bool, int, str]:
        region, name = key
        return (starts[region], name == "current", known.index(name) if name in known else len(known), name)

    return sorted(groups, key=order)


def _make_section(key: _Key, entries: Sequence[Entry]) -> Section:
    region, name = key
    ordered = sorted(entries, key=_by_score) if region == "related" else sorted(entries, key=_position)
    heading = _HEADINGS.get(name) or component_title(name).upper()
    return Section(
        name=name, heading=heading, tokens=sum(entry.decision.cost for entry in entries), entries=tuple(ordered)
    )


def _by_score(entry: Entry) -> tuple[float, str]:
    score = entry.decision.score
    return (-score.total if score else 0.0, entry.decision.id)


def _position(entry: Entry) -> int:
    return entry.decision.position or 0
