"""Package everything besides recent history: pinned memories, lore, summaries and search hits."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import accumulate
from math import ceil
from typing import Any, Final, Unpack

import msgspec

from brimful.core.content import ContentPackage, with_metadata, with_search
from brimful.core.context import RECALLED_SUFFIX
from brimful.core.cost import make_cost_function
from brimful.core.decision import make_scorer
from brimful.core.handles import HANDLE_KEY
from brimful.core.policy import Forms, Policy
from brimful.core.prompt import TokenCounter
from brimful.core.selection import RetrievedItem
from brimful.core.tokens import Count
from brimful.core.units import make_pool_lookup
from brimful.core.worth import Findings, is_unlikely
from brimful.janitor.schedule import LEVEL_KEY
from brimful.lore import ActivatedEntry, Activation, ActivationReason, LoreExclusion, LoreIndex
from brimful.packagers.package import PackageOptions
from brimful.packagers.records import (
    package_lore_entry,
    package_memory,
    package_recalled_message,
    package_summary,
    plain_text,
    qualified_id,
    record_id,
)
from brimful.records import LoreEntry, Memory, Message, Summary
from brimful.retrieval.documents import searchable_text
from brimful.retrieval.search import Hit, Parts, Passage

JANITOR_RELEVANCE = 0.01  # of the janitor's summaries: likely answers come first, and unrelated texts after them
TRIGGERED_RELEVANCE = 1.0  # of lore whose keyword appeared
MEDIA_OFF: Final = "this context was built without media"
_MAX_CACHED_KINDS: Final = 256  # kinds whose family is cached
_EXCERPT_PASSAGES: Final = 2  # that an excerpt has: the one that matched, and half of each neighbour
_LABEL_TOKENS = 12  # around a hit: day and speaker, or tags
_SHRUNK_TOKENS: Final = 60  # of the smallest excerpt of a long text
_NEAR_MISSES: Final = 20  # hits on record that are not worth the price of their tokens
_FAMILIES: Final[dict[type, str]] = {Message: "message", Memory: "memory", LoreEntry: "lorebook"}


def name_by_position(packages: Iterable[ContentPackage]) -> list[ContentPackage]:
    """Return stored messages with their positions as handles: in the lines of a ledger, hashes take more tokens."""
    return [with_metadata(each, {HANDLE_KEY: f"r{each.position}"}) for each in packages]


def package_pinned(memories: Iterable[Memory], *, counter: TokenCounter) -> list[ContentPackage]:
    return [package_memory(memory, counter=counter) for memory in memories]


def package_lore(
    lore: Iterable[ActivatedEntry], books: Mapping[str, str], *, counter: TokenCounter
) -> list[ContentPackage]:
    """Package activated lore, with the reason."""
    return [
        _package_entry(
            each.entry,
            each.text,
            books,
            counter,
            relevance=TRIGGERED_RELEVANCE,
            metadata=_lore_metadata(each.reason),
            why=each.reason.text,
        )
        for each in lore
        if each.reason.by != "retrieval"
    ]


def make_lore_cost(index: LoreIndex, books: Mapping[str, str], *, counter: TokenCounter) -> Callable[[LoreEntry], int]:
    """Return a function that computes the tokens of an entry with its label."""
    cost = make_cost_function(counter, names="none")  # lore has no speaker
    return lambda entry: cost(_package_entry(entry, index.entries[entry.id].text, books, counter))


def package_excluded_lore(
    exclusions: Iterable[LoreExclusion], index: LoreIndex, books: Mapping[str, str], *, counter: TokenCounter
) -> list[ContentPackage]:
    """Package lore that was activated but excluded: it does not compete, but is on the record."""
    packages = []
    for each in exclusions:
        prepared = index.entries[each.entry]
        metadata = _lore_metadata(each.match) if each.match else {}
        why = each.match.text if each.match else ""
        entry = _package_entry(
            prepared.entry, prepared.text, books, counter, metadata=metadata, why=why, excluded=each.text
        )
        packages.append(entry)
    return packages


def filter_lore_hits(hits: Iterable[Hit], activation: Activation) -> list[Hit]:
    """Return the hits without lore entries that were not activated by retrieval."""
    activated = {each.entry.id: each for each in activation.activated if each.reason.by == "retrieval"}
    remaining = []
    for hit in hits:
        if not isinstance(hit.record, LoreEntry):
            remaining.append(hit)
        elif hit.record.id in activated:
            remaining.append(msgspec.structs.replace(hit, record=_activated_entry(activated[hit.record.id])))
    return remaining


def package_summaries(summaries: Iterable[Summary], *, counter: TokenCounter) -> list[ContentPackage]:
    """Package summaries. They can replace their messages if these are candidates; otherwise they compete."""
    return [
        package_summary(summary, counter=counter, relevance=JANITOR_RELEVANCE)
        if LEVEL_KEY in summary.metadata
        else package_summary(summary, counter=counter)
        for summary in summaries
    ]


def package_memory_summaries(
    summaries: Iterable[Memory], hits: Iterable[Hit], *, counter: TokenCounter
) -> list[ContentPackage]:
    """Package summaries of memories. They are as relevant as the best hit in their cluster."""
    best: dict[str | None, float] = {}
    for hit in hits:
        if isinstance(hit.record, Memory):
            best[hit.record.cluster] = max(hit.relevance, best.get(hit.record.cluster, 0.0))
    return [
        package_memory(summary, counter=counter, relevance=min(1.0, best.get(summary.cluster, 0.0)))
        for summary in summaries
    ]


def filter_summaries(
    summaries: Iterable[Summary], sure: int | None, partial_clusters: Collection[str] = ()
) -> list[Summary]:
    """Return the summaries, except for days whose messages are all in the window, which begins at position `sure`.

    Some messages of `partial_clusters` are archived, so their summaries stay.
    """
    return [
        summary
        for summary in summaries
        if sure is None
        or summary.first < sure
        or summary.cluster in partial_clusters
        or summary.metadata.get(LEVEL_KEY) in (None, "family")
    ]


def make_hit(
    found: RetrievedItem, messages: Mapping[str, Message], memories: Mapping[str, Memory], lore: LoreIndex
) -> Hit | None:
    """Return a hit for what an earlier search found; None if it is not there any more."""
    id, family = record_id(found.id), _family(found.kind)
    prepared = lore.entries.get(id)
    record: Message | Memory | LoreEntry | None
    if family == "message":
        record = messages.get(id)
    elif prepared is not None and family == "lorebook":
        record = msgspec.structs.replace(prepared.entry, content=prepared.text)
    else:
        record = memories.get(id)
    if record is None:
        return None
    passage = next((Passage(number=0, start=start, stop=stop) for start, stop in found.matches), None)
    return Hit(record=record, relevance=found.relevance or 0.0, passage=passage, again=True)


def package_hits(
    hits: Sequence[Hit], *, counter: TokenCounter, room: str, books: Mapping[str, str], others: Sequence[ContentPackage]
) -> list[ContentPackage]:
    """Package search hits that are not among the `others`, with the parts of their relevance.

    A message of the history is packaged again under another id: if history ends before it, it may still be included,
    and if history includes it, it is dropped as a duplicate.
    """
    taken = {(_family(package.kind), package.id) for package in others}
    counts = counter.texts([plain_text(hit.record.content) for hit in hits])
    packages = []
    for hit, count in zip(hits, counts, strict=True):
        record = hit.record
        family = "summary" if isinstance(record, Memory) and record.summary else _FAMILIES[type(record)]
        if (family, record.id) not in taken:
            packages.append(_package_hit(hit, record.id, count, counter, room, books))
        elif isinstance(record, Message):
            packages.append(_package_hit(hit, record.id + RECALLED_SUFFIX, count, counter, room, books))
    return packages


def add_matches(packages: Iterable[ContentPackage], hits: Iterable[Hit]) -> list[ContentPackage]:
    """Add the passages that search found to packages that are candidates anyway, such as lore with a spoken keyword."""
    found = {(_FAMILIES[type(hit.record)], hit.record.id): hit.passage for hit in hits if hit.passage}
    return [
        msgspec.structs.replace(package, matches=((passage.start, passage.stop),))
        if (passage := found.get((_family(package.kind), package.id)))
        else package
        for package in packages
    ]


def limit_hits(
    hits: Sequence[Hit], *, counter: TokenCounter, tokens: int, price: float = 0.0, few: int = 0
) -> list[Hit]:
    """Return the hits with the highest value per token, enough to fill the tokens one and a half times.

    The fill chooses by value per token, too. By value alone, a few long texts would leave it no choice. Of those that
    are not worth the price of their tokens, only a few are returned, to be on the record; of memories, the best `few`.
    """
    counts = counter.texts([plain_text(hit.record.content) for hit in hits])
    costs = [_hit_cost(hit, count) for hit, count in zip(hits, counts, strict=True)]
    densities = [hit.relevance / cost for hit, cost in zip(hits, costs, strict=True)]
    order = sorted(range(len(hits)), key=densities.__getitem__, reverse=True)
    cheapest = [price * min(cost, _SHRUNK_TOKENS) for cost in costs]
    free = set([i for i in order if isinstance(hits[i].record, Memory)][:few])
    misses = [i for i in order if hits[i].relevance < cheapest[i] and i not in free]
    left_out = set(misses[_NEAR_MISSES:])
    order = [i for i in order if i not in left_out]
    spent = accumulate((costs[i] for i in order), initial=0)
    limit = tokens * 3 // 2
    return [hits[i] for i, before in zip(order, spent, strict=False) if before < limit]


def limit_misses(
    packages: Sequence[ContentPackage], policy: Policy, *, now: float, few: int = 0
) -> list[ContentPackage]:
    """Return the packages of hits, but only a few that are not worth their tokens in any form.

    Unlike `limit_hits`, it knows what a package is worth to the policy. The core would drop all of them one by one.
    The best `few` memories may get in for other reasons.
    """
    price = policy.token_price
    if not price:
        return list(packages)
    score_of, pool_of = make_scorer(policy.weights, now), make_pool_lookup(policy)
    priced = {pool.name for pool in policy.pools if pool.optimize}
    memories = [package for package in packages if package.kind.startswith("memory-")]
    free = {each.id for each in sorted(memories, key=lambda each: -(each.relevance or 0.0))[:few]}
    densities: dict[str, float] = {}
    for package in packages:
        worth, least = score_of(package).total, _min_cost(package, policy.forms)
        is_miss = worth <= price * least or is_unlikely(package, policy, Findings())
        if least and is_miss and pool_of(package) in priced and package.id not in free:
            densities[package.id] = worth / least
    left_out = set(sorted(densities, key=densities.__getitem__, reverse=True)[_NEAR_MISSES:])
    return [package for package in packages if package.id not in left_out]


def exclude_media(packages: Iterable[ContentPackage]) -> list[ContentPackage]:
    """Exclude media items: they do not compete, but are on the record."""
    return [
        msgspec.structs.replace(each, excluded=MEDIA_OFF) if each.kind.startswith("media-") else each
        for each in packages
    ]


def make_ids_unique(packages: Iterable[ContentPackage]) -> list[ContentPackage]:
    """Return packages with unique ids, since a memory may have the id of a message."""
    owners: dict[str, str] = {}
    unique = []
    for package in packages:
        family = _family(package.kind)
        own = owners.setdefault(package.id, family) == family
        unique.append(package if own else msgspec.structs.replace(package, id=qualified_id(family, package.id)))
    return unique


def _package_entry(
    entry: LoreEntry, text: str, books: Mapping[str, str], counter: TokenCounter, **options: Unpack[PackageOptions]
) -> ContentPackage:
    record = entry if entry.content == text else msgspec.structs.replace(entry, content=text)
    return package_lore_entry(record, counter=counter, book=books.get(entry.lorebook, entry.lorebook), **options)


def _activated_entry(lore: ActivatedEntry) -> LoreEntry:
    return msgspec.structs.replace(lore.entry, content=lore.text)


def _lore_metadata(why: ActivationReason) -> dict[str, Any]:
    fields = msgspec.structs.asdict(why)
    facts = {name: value for name, value in fields.items() if value and (name != "location" or why.where)}
    return {"lore": facts}


@lru_cache(_MAX_CACHED_KINDS)
def _family(kind: str) -> str:
    return "message" if kind.startswith("tool-") else kind.partition("-")[0]


def _package_hit(
    hit: Hit, id: str, count: Count, counter: TokenCounter, room: str, books: Mapping[str, str]
) -> ContentPackage:
    record, metadata = hit.record, {"search": _hit_metadata(hit)}
    match record:
        case Message():
            source = "" if record.room == room else record.room
            package = package_recalled_message(record, counter=counter, source=source, id=id, tokens=count)
        case Memory():
            package = package_memory(record, counter=counter, tokens=count)
        case LoreEntry():
            metadata |= _lore_metadata(ActivationReason(by="retrieval", relevance=_round(hit.relevance)))
            book = books.get(record.lorebook, record.lorebook)
            package = package_lore_entry(record, counter=counter, book=book, tokens=count)
    matches = () if hit.passage is None else ((hit.passage.start, hit.passage.stop),)
    if hit.again:
        return msgspec.structs.replace(package, relevance=hit.relevance, matches=matches)
    return with_search(package, relevance=min(1.0, hit.relevance), metadata=metadata, matches=matches)


def _min_cost(package: ContentPackage, forms: Forms) -> int:
    """Return the tokens of the smallest form of a package, at least; 0 if it is not known before its forms are made."""
    if package.forms or package.flex.min_tokens is not None:
        return 0
    tokens = package.tokens.tokens
    return min(tokens, forms.min_tokens) if package.tokens.upper > forms.over else tokens


def _hit_cost(hit: Hit, count: Count) -> int:
    """Return the tokens of a hit with its label. Of a long text, a passage and its neighbours are enough."""
    if hit.passage is None:
        return count.upper + _LABEL_TOKENS
    share = _EXCERPT_PASSAGES * (hit.passage.stop - hit.passage.start) / max(1, len(searchable_text(hit.record)))
    return ceil(count.upper * min(1.0, share)) + _LABEL_TOKENS


def _hit_metadata(hit: Hit) -> dict[str, Any]:
    """Return what the record says about a hit: its relevance, and what speaks for it."""
    parts = zip(Parts.__struct_fields__, msgspec.structs.astuple(hit.parts), strict=True)
    facts: dict[str, Any] = {
        "query": hit.query,
        "relevance": _round(hit.relevance),
        "best": _round(hit.best),
        "total": _round(hit.total),
        "stands_out": hit.stands_out,
        "recency": _round(hit.recency),
        "parts": {name: round(value, 2) for name, value in parts if value},
    }
    if hit.passage is not None:
        facts["passage"] = msgspec.structs.asdict(hit.passage)
    return facts


def _round(value: float) -> float:
    return value if value in (0.0, 1.0) else float(f"{value:.3g}")
