"""Candidates before selection: in canonical order, without excluded ones, unsupported media and duplicates."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from brimful.cache import content_bytes, memoize
from brimful.core.content import ContentPackage, Media, Text, with_content
from brimful.core.cost import KIND_REGIONS, role_of
from brimful.core.decision import RETRIEVED_KINDS, Decision, Reason
from brimful.core.labels import local_date
from brimful.core.media import MEDIA_PREFIX, find_placeholder, has_media, is_media
from brimful.core.model import ModelInfo
from brimful.core.policy import Policy
from brimful.core.prompt import Renderer, TokenCounter
from brimful.core.relative_times import find_dates, insert_dates
from brimful.core.units import Unit, time_key
from brimful.core.worth import Findings, is_unlikely

_PLACED_KINDS: Final = frozenset(kind for kind in KIND_REGIONS if not kind.startswith(MEDIA_PREFIX))
"""Kinds that have their own place in the prompt."""


def split_excluded(packages: Sequence[ContentPackage]) -> tuple[list[ContentPackage], list[Decision]]:
    """Return the packages that compete, and decisions on those that were excluded."""
    excluded = [package for package in packages if package.excluded]
    if not excluded:
        return list(packages), []
    return [package for package in packages if not package.excluded], [_make_exclusion(each) for each in excluded]


def _make_exclusion(package: ContentPackage) -> Decision:
    return Decision(
        id=package.id, kind=package.kind, outcome="dropped", reason="excluded", tokens=package.tokens.tokens
    )


def replace_unsupported_media(
    packages: Sequence[ContentPackage], model: ModelInfo, renderer: Renderer
) -> tuple[list[ContentPackage], list[Decision]]:
    """Replace each media item that is still in its package and cannot be sent by a short text.

    A package that consists of such an item alone is dropped if it may be.
    """
    if not any(map(has_media, packages)):
        return list(packages), []
    seen: list[ContentPackage] = []
    decisions: list[Decision] = []
    for package in packages:
        if not has_media(package):
            seen.append(package)
            continue
        texts = [
            find_placeholder(part, role_of(package), model, renderer) if isinstance(part, Media) else None
            for part in package.parts
        ]
        parts = tuple(
            part if text is None else Text(text=text) for part, text in zip(package.parts, texts, strict=True)
        )
        # A message still says something without its picture; a picture alone would leave nothing but the placeholder.
        if is_media(package) and package.flex.can_drop and parts != package.content:
            decisions.append(_make_unsupported(package))
        elif parts != package.content:
            seen.append(msgspec.structs.replace(package, content=parts, hash="", normalized_hash=""))
        else:
            seen.append(package)
    return seen, decisions


def resolve_times(packages: Sequence[ContentPackage], policy: Policy, counter: TokenCounter) -> list[ContentPackage]:
    """Return the packages with dates behind relative times in memories and older messages that may get in.

    They keep their hashes: a message is still a duplicate of itself.
    """
    findings = Findings.of(packages)
    found = {
        i: dates
        for i, package in enumerate(packages)
        if package.kind.startswith(RETRIEVED_KINDS)
        and isinstance(package.content, str)
        and not (policy.price and package.kind == "message-older" and is_unlikely(package, policy, findings))
        and (dates := _find_dates(package.content, local_date(package.timestamp, policy.layout.timezone)))
    }
    resolved = list(packages)
    texts = [insert_dates(packages[i].text, dates) for i, dates in found.items()]
    for (index, dates), text, tokens in zip(found.items(), texts, counter.texts(texts), strict=True):
        package = with_content(packages[index], text, tokens)
        matches = tuple((_shift(start, dates), _shift(stop, dates)) for start, stop in package.matches)
        resolved[index] = msgspec.structs.replace(package, matches=matches) if matches else package
    return resolved


_find_dates: Final = memoize(find_dates, name="texts", size=lambda args, _: content_bytes(args[0]))
"""Cached, because the same messages of a room are found again and again."""


def _shift(position: int, dates: Sequence[tuple[int, str]]) -> int:
    return position + sum(len(written) for i, written in dates if i < position)


def _make_unsupported(package: ContentPackage) -> Decision:
    return Decision(
        id=package.id, kind=package.kind, outcome="dropped", reason="no-modality", tokens=package.tokens.tokens
    )


def canonical_order(packages: Sequence[ContentPackage]) -> list[ContentPackage]:
    """Sort candidates by time, so that the order of the input list does not matter.

    Packages with the same time, id and text are ordered by all of their data.
    """
    if len({package.id for package in packages}) == len(packages):
        return sorted(packages, key=time_key)
    occurrences = Counter(package.id for package in packages)

    def data(package: ContentPackage) -> bytes:
        return msgspec.json.encode(package) if occurrences[package.id] > 1 else b""

    return sorted(packages, key=lambda package: (time_key(package), package.hash, data(package)))


def dedupe_by_id(packages: Sequence[ContentPackage], policy: Policy) -> tuple[list[ContentPackage], list[Decision]]:
    """Keep one package of each id: preferably a required one, then that of the earlier pool, then the newer one."""
    if len({package.id for package in packages}) == len(packages):
        return list(packages), []
    survivors: dict[str, ContentPackage] = {}
    decisions = []
    for package in packages:
        if package.id not in survivors:
            survivors[package.id] = package
            continue
        winner, loser = sorted((survivors[package.id], package), key=lambda rival: _rank(rival, policy))
        survivors[package.id] = winner
        decisions.append(_make_duplicate(loser, "same-id", package.id))
    return list(survivors.values()), decisions


class Deduplicated(msgspec.Struct, frozen=True):
    """Units without duplicates by normalized text; `duplicates` come with the id of their original.

    `owners` maps normalized hashes to the id of the first package with that text.
    """

    units: list[Unit]
    duplicates: list[tuple[Unit, str]]
    owners: dict[str, str]


def is_placed(unit: Unit) -> bool:
    """Whether a unit stays even if its text is in the prompt already: it is there for its place as well as its text.

    People say "ok" twice, notes repeat what matters at some depth, and a group is kept whole.
    """
    return len(unit.packages) > 1 or unit.packages[0].kind in _PLACED_KINDS


def dedupe_by_content(units: Sequence[Unit], included: Mapping[str, str], *, everything: bool) -> Deduplicated:
    """Separate units whose normalized text is in `included`, or in an earlier unit, from all others.

    Turns of the conversation are never duplicates, unless `everything` is compared.
    """
    unique: list[Unit] = []
    duplicates: list[tuple[Unit, str]] = []
    owners = dict(included)
    for unit in units:
        if is_placed(unit) and not (everything and len(unit.packages) == 1):
            unique.append(unit)
            continue
        first = unit.packages[0]
        owner = owners.setdefault(first.normalized_hash, first.id)
        if owner == first.id:
            unique.append(unit)
        else:
            duplicates.append((unit, owner))
    return Deduplicated(unique, duplicates, owners)


def content_owners(units: Iterable[Unit]) -> dict[str, str]:
    """Return the ids of all packages by normalized hash, except packages that history has as a digest or a stub.

    What search found of them may not be in that, so it is no duplicate.
    """
    owners = {}
    for unit in units:
        parts = {form.id for form in unit.forms if form.name in ("digest", "stub")}
        owners.update({each.normalized_hash: each.id for each in unit.packages if each.id not in parts})
    return owners


def find_copies(units: Iterable[Unit], originals: Iterable[Unit]) -> list[tuple[Unit, str]]:
    """Return the units that repeat one of the `originals` that is there for its place, each with the id of that one."""
    others = [unit for unit in units if not is_placed(unit)]
    owners = content_owners(filter(is_placed, originals)) if others else {}
    found = ((unit, owners.get(unit.packages[0].normalized_hash)) for unit in others)
    return [(unit, owner) for unit, owner in found if owner is not None]


def confirmed_duplicates(duplicates: Sequence[tuple[Unit, str]], included: Sequence[Unit]) -> list[tuple[Unit, str]]:
    """Return the duplicates whose original is in. The original of the others may have been dropped."""
    ids = {package.id for unit in included for package in unit.packages}
    return [(unit, other) for unit, other in duplicates if other in ids]


def _rank(package: ContentPackage, policy: Policy) -> tuple[bool, int, float]:
    pool = policy.pool_for(package)
    index = policy.pools.index(pool) if pool else len(policy.pools)
    return (package.flex.can_drop, index, -package.timestamp)


def _make_duplicate(package: ContentPackage, reason: Reason, by: str) -> Decision:
    return Decision(
        id=package.id, kind=package.kind, outcome="duplicate", reason=reason, tokens=package.tokens.tokens, by=by
    )
