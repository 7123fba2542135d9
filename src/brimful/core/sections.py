"""What a model saw, part by part, in the order in which it stood in the prompt."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from brimful.core.content import ContentPackage, Media, content_hash
from brimful.core.cost import Region, region_of
from brimful.core.decision import Decision
from brimful.core.explain import COMPONENTS, component_title
from brimful.core.order import reading_order

if TYPE_CHECKING:
    from brimful.core.context import Context

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
_EMPTY_HASH: Final = content_hash("")


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """A candidate that is in: what was decided on it, and the package that it was."""

    decision: Decision
    package: ContentPackage


class Section(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a prompt, with what stands in it: in time, or what was retrieved by its score, the best first."""

    name: str
    heading: str
    tokens: int
    entries: tuple[Entry, ...]


GroupedEntries = Mapping[tuple[Region, str], Sequence[Entry]]
"""What is in, by its place and the name of its part there."""


def sections(context: "Context") -> list[Section]:
    """Return the parts of a context's prompt that are not empty, in their order."""
    packages = {(package.id, package.kind): package for package in context.inputs.packages}
    parted: dict[tuple[Region, str], list[Entry]] = {}
    for decision in context.decisions:
        package = packages.get((decision.id, decision.kind))
        if decision.included and package is not None:
            where = _section_key(decision, package)
            parted.setdefault(where, []).append(Entry(decision=decision, package=package))
    return [_section(place, name, parted[place, name]) for place, name in _order_keys(context, parted)]


def is_erased(package: ContentPackage) -> bool:
    """Say whether the content of a package was taken out of the record."""
    return package.content == "" and package.hash != _EMPTY_HASH


def media_name(package: ContentPackage) -> str:
    """Return what to call a medium: the last part of its address, or its id where it has none.

    >>> from brimful.core.tokens import Count
    >>> part = Media(modality="image", url="https://x.example/shots/screenshot.png?v=2")
    >>> media_name(ContentPackage(id="i", kind="media-image", content=(part,), tokens=Count(tokens=1, basis="exact")))
    'screenshot.png'
    """
    for part in package.parts:
        if isinstance(part, Media) and part.url:
            name = part.url.partition("?")[0].partition("#")[0].rstrip("/").rpartition("/")[2]
            return name or package.id
    return package.id


def _section_key(decision: Decision, package: ContentPackage) -> tuple[Region, str]:
    """Return the place of a candidate, and the name of its part there: a summary stands where its cluster stood."""
    place: Region = "history" if decision.reason == "summary" else region_of(package)
    if place in ("pinned", "system", "current") and not decision.kind.startswith("media-"):
        return place, place
    return place, COMPONENTS.get(decision.kind, decision.kind)


def _order_keys(context: "Context", parted: GroupedEntries) -> list[tuple[Region, str]]:
    """Put parts in order: as `arrange` puts them, media right before the message that they came with."""
    related_first = context.inputs.policy.layout.related == "system"
    middle: tuple[Region, ...] = ("related", "history") if related_first else ("history", "related")
    places: tuple[Region, ...] = ("system", "pinned", *middle, "note", "current")
    known = list(_HEADINGS)

    def order(key: tuple[Region, str]) -> tuple[int, bool, int, str]:
        place, name = key
        return (places.index(place), name == "current", known.index(name) if name in known else len(known), name)

    keys = sorted(parted, key=order)
    return _place_notes(reading_order(context), parted, keys) if any(place == "note" for place, _ in keys) else keys


def _place_notes(
    order: Mapping[str, int], parted: GroupedEntries, keys: Sequence[tuple[Region, str]]
) -> list[tuple[Region, str]]:
    """Put notes where the last of them stands in the request: before the first part that begins behind it."""
    notes = [key for key in keys if key[0] == "note"]
    others = [key for key in keys if key[0] != "note"]
    last = max(order[entry.decision.id] for key in notes for entry in parted[key])
    begins = [min(order[entry.decision.id] for entry in parted[key]) for key in others]
    at = next((number for number, begin in enumerate(begins) if begin > last), len(others))
    return [*others[:at], *notes, *others[at:]]


def _section(place: Region, name: str, entries: Sequence[Entry]) -> Section:
    ordered = sorted(entries, key=_by_score if place == "related" else _by_time)
    heading = _HEADINGS.get(name) or component_title(name).upper()
    return Section(
        name=name, heading=heading, tokens=sum(entry.decision.cost for entry in entries), entries=tuple(ordered)
    )


def _by_score(entry: Entry) -> tuple[float, str]:
    score = entry.decision.score
    return (-score.total if score else 0.0, entry.decision.id)


def _by_time(entry: Entry) -> tuple[float, int, str]:
    package = entry.package
    return (package.timestamp, package.position, package.id)


def excluded_decisions(context: "Context") -> Iterator[Decision]:
    """Yield what the model did not see, the nearest to the cut first; what had no rank was never near."""
    pools = [pool.name for pool in context.pools]

    def order(decision: Decision) -> tuple[bool, int, int, str]:
        pool = pools.index(decision.pool) if decision.pool in pools else len(pools)
        return (not decision.rank, max(0, decision.rank - decision.cut), pool, decision.id)

    yield from sorted((each for each in context.decisions if not each.included), key=order)
