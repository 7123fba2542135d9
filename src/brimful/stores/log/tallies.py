"""Tallies: sums over contexts and responses per hour and per day: all of them, and by room, user and API key.

They are written in the transaction of the events they count, and remain when those are pruned. All sums are integers,
so the order of addition does not matter: relevance is stored in billionths, durations in microseconds.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final, Literal

import msgspec

from brimful.core.context import COMPONENTS, Context
from brimful.core.notice import NEARLY_FULL, NOTICE_KINDS, NoticeKind
from brimful.core.validation import MAX_INTEGER
from brimful.records import Response
from brimful.records.contexts import Build
from brimful.records.statistics import (
    ComponentShare,
    Distribution,
    MemoryStatistics,
    ModelStatistics,
    ResponseStatistics,
    Statistics,
)
from brimful.records.usage import Usage, UsageReport
from brimful.stores.session import Session

_MILLION: Final = 1_000_000
_BILLION: Final = 1_000_000_000
_MEMORY: Final = "memory-"
_MAX_VALUE: Final = 10**10  # tokens or microseconds; larger values are errors and must not spoil the sums
_ORDER: Final = (*dict.fromkeys(COMPONENTS.values()),)
_MAPS: Final = (
    "component_tokens",
    "component_items",
    "memories",
    "warnings",
    "summaries",
    "cache_misses",
    "missed_tokens",
)
HOUR: Final = 3_600.0  # seconds
DAY: Final = 24  # hours
_COLUMNS: Final = ("scope", "owner", "size", "hour", "persona", "model", "policy")
_KEYS: Final = ", ".join(_COLUMNS)
_AT_ONCE: Final = 8  # tallies that one statement reads or writes: as many as one event has
_READ: Final = """
SELECT hour, persona, model, policy, owner, body FROM tallies
WHERE tenant = :tenant AND scope = :scope AND size = :size AND hour >= :first AND hour < :last
"""
_ONE_OWNER: Final = " AND owner = :owner"
_EVERY_OWNER: Final = " AND scope IN ('user', 'key')"  # as the index says that is read for all of them
Scope = Literal["all", "room", "user", "key"]
"""What a tally is about: everything, a room, a user, or an API key."""


class Tally(msgspec.Struct, kw_only=True, array_like=True):
    """Sums, stored as an array: add new fields at the end, with a default."""

    contexts: int = 0
    tokens: int = 0
    max_tokens: int = 0
    min_tokens: int = 0
    available: int = 0
    fullest: float = 0.0
    emptiest: float = 0.0
    component_tokens: dict[str, int] = {}
    component_items: dict[str, int] = {}
    memories: dict[str, int] = {}
    relevance: int = 0
    rated: int = 0
    candidates: int = 0
    left_out: int = 0
    naive: int = 0
    warnings: dict[NoticeKind, int] = {}
    degraded: int = 0
    nearly_full: int = 0
    without_memories: int = 0
    without_memories_or_vectors: int = 0
    answers: int = 0
    reported: int = 0
    prompt: int = 0
    cached: int = 0
    expected_cached: int = 0
    completion: int = 0
    reasoning: int = 0
    counted: int = 0
    naive_prompt: int = 0
    known_prompt: int = 0
    duration: int = 0
    timed: int = 0
    summaries: dict[str, int] = {}  # by field of ResponseStatistics
    cache_misses: dict[str, int] = {}  # by cause
    missed_tokens: dict[str, int] = {}

    def add(self, other: "Tally") -> None:
        if other.contexts:
            self._compare(other)
        for name in _MAPS:
            _add_up(getattr(self, name), getattr(other, name))
        for name in _SUMS:
            more = getattr(other, name)
            if more:  # most tallies are of either contexts or responses
                setattr(self, name, getattr(self, name) + more)

    def _compare(self, other: "Tally") -> None:
        first = not self.contexts
        self.max_tokens = other.max_tokens if first else max(self.max_tokens, other.max_tokens)
        self.min_tokens = other.min_tokens if first else min(self.min_tokens, other.min_tokens)
        self.fullest = other.fullest if first else max(self.fullest, other.fullest)
        self.emptiest = other.emptiest if first else min(self.emptiest, other.emptiest)


_SUMS: Final = tuple(
    name for name in Tally.__struct_fields__ if name not in (*_MAPS, "max_tokens", "min_tokens", "fullest", "emptiest")
)


def tally_build(build: Build, context: Context) -> Tally:
    share = build.tokens / build.available if build.available else 1.0
    seen = [each for each in context.decisions if each.included and each.kind.startswith(_MEMORY)]
    relevance = {package.id: package.relevance for package in context.inputs.packages}
    rated = [found for each in seen if (found := relevance.get(each.id)) is not None]
    kinds = [notice.kind for notice in context.warnings]
    without = not context.component("memories").items
    memories: dict[str, int] = {}
    for each in seen:
        _add_up(memories, {each.kind.removeprefix(_MEMORY): 1})
    return Tally(
        contexts=1,
        tokens=build.tokens,
        max_tokens=build.tokens,
        min_tokens=build.tokens,
        available=build.available,
        fullest=share,
        emptiest=share,
        component_tokens={each.name: each.tokens for each in build.components},
        component_items={each.name: each.items for each in build.components},
        memories=memories,
        relevance=sum(round(each * _BILLION) for each in rated),
        rated=len(rated),
        candidates=build.candidates,
        left_out=build.left_out,
        naive=min(build.naive, _MAX_VALUE),
        warnings=dict.fromkeys(kinds, 1),
        degraded=int(bool(context.inputs.degraded)),
        nearly_full=int(share > NEARLY_FULL),
        without_memories=int(without),
        without_memories_or_vectors=int(without and "vector-search-off" in kinds),
    )


def tally_response(response: Response, build: Build | None) -> Tally:
    """Return the tally of a response. Without its context, our own count is unknown."""
    usage = response.usage
    seconds = response.seconds
    tally = Tally(answers=1, timed=int(seconds is not None))
    tally.duration = round(min(max(0.0, seconds or 0.0), _MAX_VALUE / _MILLION) * _MILLION)
    if usage is None or not usage.prompt:
        return tally
    prompt = min(usage.prompt, _MAX_VALUE)
    missed = {each.facts["cause"]: each.facts["tokens"] for each in response.notices if each.kind == "cache-missed"}
    return msgspec.structs.replace(
        tally,
        reported=1,
        prompt=prompt,
        cached=min(usage.cached, _MAX_VALUE),
        expected_cached=min(response.expected_cached, _MAX_VALUE),
        completion=min(usage.completion, _MAX_VALUE),
        reasoning=min(usage.reasoning, _MAX_VALUE),
        counted=build.tokens if build else 0,
        naive_prompt=min(build.naive, _MAX_VALUE) if build else 0,
        known_prompt=prompt if build else 0,
        cache_misses=dict.fromkeys(missed, 1),
        missed_tokens=missed,
    )


def tally_request(usage: Usage) -> Tally:
    """Return the tally of a request without a context."""
    sums = {name: min(value, _MAX_VALUE) for name, value in msgspec.structs.asdict(usage).items()}
    return Tally(answers=1, reported=1, **sums)


def tally_summary(report: UsageReport) -> Tally:
    """Return the tally of a request for a summary."""
    tokens = {"prompt": report.reported, "cached": report.cached, "completion": report.completion}
    sums = {name: min(value, _MAX_VALUE) for name, value in (tokens | {"reasoning": report.reasoning}).items()}
    return Tally(summaries={"total": 1, "reported": int(report.reported > 0), **sums})


def make_statistics(key: str, begin: float | None, models: Mapping[str, Tally]) -> Statistics:
    """Return the statistics of tallies, in total and by model."""
    all = sum_tallies(models.values())
    contexts = max(1, all.contexts)
    lost = all.warnings.get("vector-search-failed", 0) + all.warnings.get("vector-search-off", 0)
    return Statistics(
        key=key,
        begin=begin,
        contexts=all.contexts,
        tokens=Distribution(mean=all.tokens / contexts, max=all.max_tokens, min=all.min_tokens),
        share=Distribution(mean=all.tokens / max(1, all.available), max=all.fullest, min=all.emptiest),
        total_tokens=all.tokens,
        components=tuple(_components(all)),
        memories=_memories(all),
        candidates=all.candidates,
        left_out=all.left_out,
        naive=all.naive,
        warnings={kind: all.warnings[kind] for kind in NOTICE_KINDS if kind in all.warnings},
        degraded=all.degraded,
        nearly_full=all.nearly_full,
        breaker_openings=all.warnings.get("breaker-opened", 0),
        vector_uptime=1 - lost / contexts,
        answers=_responses(all),
        summaries=msgspec.convert(all.summaries, ResponseStatistics),
        models=tuple(_model(name, models[name]) for name in sorted(models)),
    )


def sum_tallies(tallies: Iterable[Tally]) -> Tally:
    total = Tally()
    for each in tallies:
        total.add(each)
    return total


def _components(tally: Tally) -> list[ComponentShare]:
    contexts, tokens, items = max(1, tally.contexts), tally.component_tokens, tally.component_items
    return [
        ComponentShare(
            name=name,
            tokens=tokens[name] / contexts,
            items=items.get(name, 0) / contexts,
            share=tokens[name] / max(1, tally.tokens),
        )
        for name in sorted(tokens, key=_component_order)
    ]


def _component_order(component: str) -> tuple[int, str]:
    """Return the sort key of a component: known ones in their order, then others, `format` last."""
    if component == "format":
        return (len(_ORDER) + 1, "")
    return (_ORDER.index(component), "") if component in _ORDER else (len(_ORDER), component)


def _memories(tally: Tally) -> MemoryStatistics:
    total = sum(tally.memories.values())
    return MemoryStatistics(
        total=total,
        per_context=total / max(1, tally.contexts),
        types=dict(sorted(tally.memories.items(), key=lambda each: (-each[1], each[0]))),
        relevance=tally.relevance / _BILLION / tally.rated if tally.rated else None,
        missing=tally.without_memories,
        missing_without_vectors=tally.without_memories_or_vectors,
    )


def _responses(tally: Tally) -> ResponseStatistics:
    return ResponseStatistics(
        total=tally.answers,
        reported=tally.reported,
        prompt=tally.prompt,
        cached=tally.cached,
        expected_cached=tally.expected_cached,
        completion=tally.completion,
        reasoning=tally.reasoning,
        counted=tally.counted,
        naive=tally.naive_prompt,
        count_error=tally.counted / tally.known_prompt - 1 if tally.known_prompt else None,
        seconds=tally.duration / _MILLION / tally.timed if tally.timed else None,
        cache_misses=dict(sorted(tally.cache_misses.items())),
        missed_tokens=dict(sorted(tally.missed_tokens.items())),
    )


def _model(name: str, tally: Tally) -> ModelStatistics:
    return ModelStatistics(
        model=name,
        contexts=tally.contexts,
        tokens=tally.tokens,
        answers=_responses(tally),
        summaries=msgspec.convert(tally.summaries, ResponseStatistics),
    )


def _add_up(sums: dict[str, int], more: Mapping[str, int]) -> None:
    for name, count in more.items():
        sums[name] = sums.get(name, 0) + count


Size = Literal[1, 24]
"""Hours of a tally."""

_DECODER: Final = msgspec.json.Decoder(Tally)


class TallyKey(msgspec.Struct, frozen=True):
    """What is counted together: persona, model and policy, and who asked: the user and the id of the API key."""

    persona: str
    model: str
    policy: str
    user: str = ""
    api_key: str = ""


class TallyEvent(msgspec.Struct, frozen=True):
    """An event and its tally."""

    room: str
    at: float
    sort: TallyKey
    tally: Tally


def hour_of(at: float) -> int:
    """Return the hour of a timestamp, counted from 1970.

    >>> hour_of(3599.9), hour_of(3600.0), hour_of(-1.0), hour_of(1e300) == hour_of(1e299)
    (0, 1, -1, True)
    """
    return int(max(-MAX_INTEGER, min(MAX_INTEGER, at // HOUR)))


def day_of(at: float) -> int:
    """Return the day of a timestamp, counted from 1970."""
    return hour_of(at) // DAY


def decode_tally(body: bytes) -> Tally:
    return _DECODER.decode(body)


def add_to_tallies(session: Session, events: Sequence[TallyEvent]) -> None:
    """Add events to their tallies. The caller must hold the lock of the log."""
    sums = _sum_events(events, 1) | _sum_events(events, DAY)
    every = sorted(sums)
    for start in range(0, len(every), _AT_ONCE):
        keys = every[start : start + _AT_ONCE]
        values = {f"{name}{i}": key[column] for i, key in enumerate(keys) for column, name in enumerate(_COLUMNS)}
        for index, body in session.rows(_find(len(keys)), **values):
            sums[keys[index]].add(decode_tally(body))
        bodies = {f"body{i}": msgspec.json.encode(sums[key]) for i, key in enumerate(keys)}
        session.run(_put(len(keys)), **values, **bodies)


def read_tallies(
    session: Session, size: Size, first: int, last: int, *, scope: Scope, owner: str | None, persona: str | None
) -> Iterator[tuple[int, TallyKey, Tally]]:
    """Yield tallies of a size whose first hour is in a range: of one owner, or of every user or API key."""
    which = _EVERY_OWNER if owner is None else _ONE_OWNER
    which += "" if persona is None else " AND persona = :persona"
    values = {"scope": scope, "owner": owner, "size": size, "first": first, "last": last, "persona": persona}
    for hour, tally_persona, model, policy, whose, body in session.rows(f"{_READ}{which}", **values):
        user, key = (whose if scope == each else "" for each in ("user", "key"))
        yield hour, TallyKey(tally_persona, model, policy, user, key), decode_tally(body)


def remove_owner(session: Session, scope: Scope, owner: str) -> None:
    """Delete the tallies of a room or a user. It stays in the totals."""
    sql = "DELETE FROM tallies WHERE tenant = :tenant AND scope = :scope AND owner = :owner"
    session.run(sql, scope=scope, owner=owner)


_Key = tuple[Any, ...]


def _sum_events(events: Sequence[TallyEvent], size: int) -> dict[_Key, Tally]:
    sums: dict[_Key, Tally] = {}
    for event in events:
        hour = hour_of(event.at) // size * size
        sort = event.sort
        owners: dict[Scope, str] = {"room": event.room, "user": sort.user, "key": sort.api_key}
        for scope, owner in (("all", ""), *owners.items()):
            if owner or scope == "all":
                key = (scope, owner, size, hour, sort.persona, sort.model, sort.policy)
                sums.setdefault(key, Tally()).add(event.tally)
    return sums


@cache
def _find(count: int) -> str:
    """Return the statement that reads some tallies. Each is a search of its own: SQLite would scan for a list."""
    where = (" AND ".join(f"{name} = :{name}{i}" for name in _COLUMNS) for i in range(count))
    return " UNION ALL ".join(
        f"SELECT {i}, body FROM tallies WHERE tenant = :tenant AND {condition}"  # noqa: S608 - our own columns
        for i, condition in enumerate(where)
    )


@cache
def _put(count: int) -> str:
    """Return the statement that writes some tallies."""
    columns = (*_COLUMNS, "body")
    rows = (f"(:tenant, {', '.join(f':{name}{i}' for name in columns)})" for i in range(count))
    return f"""
INSERT INTO tallies (tenant, {_KEYS}, body) VALUES {", ".join(rows)}
ON CONFLICT (tenant, {_KEYS}) DO UPDATE SET body = excluded.body
"""  # noqa: S608 - our own columns
