"""`brimful stats`: usage statistics of contexts and answers, and how accurate token counts were."""

import time
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
import typer

from brimful.cli import output
from brimful.cli.options import Json, Last, ModelFilter, PersonaFilter, RoomFilter, StoreOptions
from brimful.cli.output import Column, Table, columns
from brimful.cli.records import require_room
from brimful.cli.store import with_database, with_store
from brimful.core.decision import format_relevance
from brimful.core.model import Prior
from brimful.core.notice import NoticeKind
from brimful.counting import (
    MAX_REPORTS,
    LearnedCalibration,
    canonical_model_id,
    default_calibration,
    learn_calibration,
    learned_window,
)
from brimful.errors import MissingExtra
from brimful.models import Spending, default_registry, spending
from brimful.records import Persona
from brimful.records.own_calls import OwnCallStatistics, OwnSpending
from brimful.records.statistics import Grouping, GroupKey, MemoryStatistics, Statistics
from brimful.records.usage import Accuracy
from brimful.views.explain import component_title, plural

if TYPE_CHECKING:
    from brimful.stores import Database, Store


_NAME_WIDTH: Final = 26  # columns for the name of a figure
_STATISTICS_COLUMNS: Final = (
    *("contexts", "tokens", "max", "window", "memories", "warned", "answers", "cached", "error", "cost", "saved"),
)
_PROBLEM_KINDS: Final[tuple[NoticeKind, ...]] = ("margin-used", "required-shrunk", "pins-dropped")
_USAGE_LINES: Final = (
    ("Average Token Usage", "mean", "{} of all budgets together"),
    ("Max Token Usage", "max", "at most {} of a budget"),
    ("Min Token Usage", "min", "at least {} of a budget"),
)
"""The largest context does not always take the largest share of its window."""
_SPARE_COLUMNS: Final = ("memories", "warned", "max", "error", "cached", "saved")


class CostStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """Statistics with their cost; `unpriced` says why the cost is not known."""

    figures: Statistics
    spent: Spending | None
    unpriced: str = ""

    def data(self) -> dict[str, Any]:
        spent = self.spent
        return {
            **msgspec.to_builtins(self.figures),
            "cost": spent and spent.cost,
            "saved": spent and spent.saved,
            "saved_by_cache": spent and spent.saved_by_cache,
            "unpriced": spent.unpriced if spent else [each.model for each in self.figures.models],
        }


def add_cost(figures: Statistics) -> CostStatistics:
    """Return statistics with their cost, if it is known."""
    try:
        return CostStatistics(figures=figures, spent=spending(figures.models))
    except MissingExtra as error:
        return CostStatistics(figures=figures, spent=None, unpriced=str(error))


def own_call_lines(spent: OwnSpending) -> list[str]:
    """Return what own calls of models spent in a period, by kind, and today's limit."""
    if not spent:
        return []
    lines = [_line(each.kind.capitalize(), _format_own_calls(each)) for each in spent.kinds]
    lines.append(_line("Limit today", _format_limit(spent)))
    return ["", "OWN CALLS OF MODELS:", *(f"  {line}" for line in lines)]


def _format_own_calls(each: OwnCallStatistics) -> str:
    cost = (
        f"{format_dollars(Decimal(str(each.dollars)))}{f', {each.unpriced:,} without a price' if each.unpriced else ''}"
    )
    return f"{plural(each.calls, 'call')}, {each.tokens:,} tokens, {cost}"


def _format_limit(spent: OwnSpending) -> str:
    limits = []
    if spent.tokens_per_day is not None:
        limits.append(f"{spent.tokens_today:,} of {spent.tokens_per_day:,} tokens spent")
    if spent.dollars_per_day is not None:
        today, limit = (format_dollars(Decimal(str(each))) for each in (spent.dollars_today, spent.dollars_per_day))
        limits.append(f"{today} of {limit} spent")
    held = f"; {spent.reserved_tokens:,} tokens reserved" if spent.reserved_tokens else ""
    return (", ".join(limits) or "none") + held


def report_lines(each: CostStatistics, title: str) -> list[str]:
    figures = each.figures
    lines = [title, "", *_usage_lines(figures)]
    for name, section in (
        ("COMPONENT BREAKDOWN (average)", _component_lines(figures)),
        ("MEMORY RETRIEVAL", _memory_lines(figures)),
        ("WARNINGS", _warning_lines(figures)),
        ("ANSWERS", _answer_lines(figures)),
        ("COST", _cost_lines(each)),
    ):
        lines += ["", f"{name}:", *(f"  {line}" for line in section)]
    return lines


def statistics_table(found: Sequence[CostStatistics], by: Grouping, key_names: Mapping[str, str]) -> Table:
    """Return a table with one row per group. `key_names` are those of API keys by id."""
    titles: tuple[Column, ...] = columns(by, *_STATISTICS_COLUMNS, right=_STATISTICS_COLUMNS, spare=_SPARE_COLUMNS)
    rows = ((each.figures.key or "–", _statistics_row(each)) for each in found)
    return Table(titles, [[_name_key(key, key_names) if by == "key" else key, *row] for key, row in rows])


def _name_key(id: str, names: Mapping[str, str]) -> str:
    """Return the name of an API key with its id.

    >>> _name_key("5f1c", {"5f1c": "the bot"}), _name_key("77d2", {})
    ('the bot (5f1c)', '77d2')
    """
    return f"{names[id]} ({id})" if names.get(id) else id


def format_percent(share: float, *, sign: bool = False) -> str:
    """Format a share as a percentage.

    >>> format_percent(0.0123, sign=True), format_percent(1.0), format_percent(-0.0001, sign=True)
    ('+1.2 %', '100.0 %', '0.0 %')
    """
    rounded = round(100 * share, 1) or 0.0  # and not -0.0
    return f"{rounded:+.1f} %" if sign and rounded else f"{rounded:.1f} %"


def format_dollars(amount: Decimal) -> str:
    """Format an amount of dollars, with more digits if it is small.

    >>> format_dollars(Decimal("1234.567")), format_dollars(Decimal("0.00192")), format_dollars(Decimal(0))
    ('$1,234.57', '$0.0019', '$0.00')
    """
    return f"${amount:,.4f}" if 0 < abs(amount) < Decimal("0.1") else f"${amount:,.2f}"


def _usage_lines(figures: Statistics) -> Iterator[str]:
    yield _line("Total Contexts Built", f"{figures.contexts:,}")
    for name, part, of in _USAGE_LINES:
        tokens, share = getattr(figures.tokens, part), getattr(figures.share, part)
        yield _line(name, f"{tokens:,.0f} tokens ({of.format(format_percent(share))})")
    yield _line("Candidates", f"{figures.candidates:,}, {figures.left_out:,} of them left out")


def _component_lines(figures: Statistics) -> Iterator[str]:
    for each in figures.components:
        items = f", {each.items:,.1f} items" if each.items else ""
        yield _line(component_title(each.name), f"{each.tokens:,.0f} tokens ({format_percent(each.share)}{items})")


def _memory_lines(figures: Statistics) -> Iterator[str]:
    memories = figures.memories
    yield _line("Total Memories Retrieved", f"{memories.total:,}")
    yield _line("Average per Context", f"{memories.per_context:.1f}")
    types = (f"{name} ({count / memories.total:.0%})" for name, count in memories.types.items())
    yield _line("Top Memory Types", ", ".join(types) or "none")
    score = "unknown" if memories.relevance is None else format_relevance(memories.relevance)
    yield _line("Average Relevance Score", score)


def _warning_lines(figures: Statistics) -> Iterator[str]:
    counts = figures.warnings
    yield _line("Over-budget", _format_times(counts.get("overflowed", 0), "rejected by the provider and rebuilt"))
    yield _line("Margin used", _format_times(counts.get("margin-used", 0)))
    yield _line(">80% usage", _format_times(figures.nearly_full))
    yield _line("Required shortened", _format_times(counts.get("required-shrunk", 0)))
    if counts.get("pins-dropped"):
        yield _line("Pins left out", _format_times(counts["pins-dropped"]))
    yield _line("No memories retrieved", _without_memories(figures.memories))
    yield _line("Degraded", _format_times(figures.degraded))
    uptime = f"vector search available for {format_percent(figures.vector_uptime)} of contexts"
    yield _line("Breaker opened", f"{_format_times(figures.breaker_openings)}, {uptime}")
    if counts.get("unknown-model"):
        yield _line("Unknown model", _format_times(counts["unknown-model"]))


def _answer_lines(figures: Statistics) -> Iterator[str]:
    answers = figures.answers
    yield _line("Answers", f"{answers.total:,}, {answers.reported:,} of them with usage")
    if answers.reported:
        cached = f"{format_percent(_share(answers.cached, answers.prompt))} cached"
        expected = f"{format_percent(_share(answers.expected_cached, answers.prompt))} expected"
        yield _line("Prompt tokens", f"{answers.prompt:,} ({cached}, {expected})")
        for cause, count in answers.cache_misses.items():
            yield _line("Cache missed", f"{cause}: {_format_times(count)}, {answers.missed_tokens[cause]:,} tokens")
        yield _line("Completion tokens", f"{answers.completion:,} ({answers.reasoning:,} reasoning)")
    summaries = figures.summaries
    if summaries.total:
        tokens = f"{summaries.prompt:,} prompt and {summaries.completion:,} completion tokens"
        yield _line("Summaries by a model", f"{summaries.total:,}, {tokens}")
    if answers.count_error is not None:
        yield _line("Count error", f"{format_percent(answers.count_error, sign=True)} compared with reported usage")
    if answers.seconds is not None:
        yield _line("Average time", f"{answers.seconds:.1f} s")


def _cost_lines(each: CostStatistics) -> Iterator[str]:
    answers, spent = each.figures.answers, each.spent
    if spent is not None:
        yield _line("Cost", format_dollars(spent.cost))
        share = float(spent.saved / (spent.cost + spent.saved)) if spent.saved else 0.0
        yield _line("Saved", f"{format_dollars(spent.saved)} ({format_percent(share)}) less than sending everything")
        yield _line("Saved by caches", format_dollars(spent.saved_by_cache))
        if spent.unpriced:
            yield _line("Without a price", ", ".join(spent.unpriced))
    elif answers.reported:
        yield _line("Cost", f"unknown: {each.unpriced}" if each.unpriced else "unknown: no prices for these models")
    naive = each.figures.naive
    less = format_percent(_share(naive - each.figures.total_tokens, naive))
    yield _line("Tokens of everything", f"{naive:,}; {each.figures.total_tokens:,} were sent ({less} less)")


def _statistics_row(each: CostStatistics) -> list[str]:
    figures, answers, spent = each.figures, each.figures.answers, each.spent
    return [
        f"{figures.contexts:,}",
        f"{figures.tokens.mean:,.0f}",
        f"{figures.tokens.max:,.0f}",
        format_percent(figures.share.mean),
        f"{figures.memories.per_context:.1f}",
        f"{figures.degraded + sum(figures.warnings.get(kind, 0) for kind in _PROBLEM_KINDS):,}",
        f"{answers.total:,}",
        format_percent(_share(answers.cached, answers.prompt)) if answers.reported else "",
        "" if answers.count_error is None else format_percent(answers.count_error, sign=True),
        "" if spent is None else format_dollars(spent.cost),
        "" if spent is None else format_dollars(spent.saved),
    ]


def _line(name: str, value: str) -> str:
    return f"{name + ':':<{_NAME_WIDTH}}{value}"


def _format_times(count: int, what: str = "") -> str:
    times = "once" if count == 1 else f"{count:,} times"
    return f"{times}, {what}" if what and count else times


def _without_memories(memories: MemoryStatistics) -> str:
    """Return how often there was no memory, and how often the circuit breaker was the reason."""
    all, off = memories.missing, memories.missing_without_vectors
    why = "" if not off else " (circuit breaker)" if off == all else f" (circuit breaker: {off:,})"
    return f"{_format_times(all)}{why}"


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


NO_USAGE: Final = (
    "no usage has been recorded yet. It is recorded when a model answers through `brimful chat`, `brimful serve` or "
    "Engine.respond, and by Engine.record_response."
)
_LARGE_ERROR: Final = 0.02  # of a prompt; an exact count should never be off by more

_ACCURACY_COLUMNS: Final = columns(
    *("model", "route", "requests", "error", "mean", "worst", "covered", "counted by", "cached", "expected"),
    *("overflows", "cuts", "last"),
    right=["requests", "error", "mean", "worst", "covered", "cached", "expected", "overflows", "cuts"],
    spare=["route", "worst", "cuts", "overflows", "expected", "cached", "last", "error"],
)


class CountAccuracy(msgspec.Struct, frozen=True, kw_only=True):
    """How accurately a model was counted on a route, its calibration, and the window that its server reported."""

    accuracy: Accuracy
    learned: LearnedCalibration
    window: int | None

    def data(self) -> dict[str, Any]:
        learned = self.learned
        return {
            **msgspec.to_builtins(self.accuracy),
            "tokenizer": learned.model.tokenizer,
            "prior": _prior(learned.model.prior),
            "learned_from": learned.reports if learned.plausible else 0,
            "plausible": learned.plausible,
            "learned_error": learned.error,
            "interval": learned.interval,
            "drift": msgspec.to_builtins(learned.drift),
            "learned_window": self.window,
        }


def show_counts(*, since: float | None, model: str | None, target: StoreOptions, as_json: bool) -> None:
    """Show how accurately prompts were counted, by model and server (route)."""

    async def read(store: "Store") -> list[CountAccuracy]:
        named = None if model is None else canonical_model_id(default_registry().resolve(model))
        found = await store.accuracy(since=since, model=named)
        return [await _load_accuracy(store, each) for each in found]

    found = with_store(read, target=target)
    if as_json:
        output.show_json([each.data() for each in found])
    elif not found:
        output.write(NO_USAGE if since is None and model is None else "no usage matches")
    else:
        output.show_table(Table(_ACCURACY_COLUMNS, [_accuracy_row(each) for each in found]))
        for note in [note for each in found for note in _accuracy_notes(each)]:
            output.write(f"\n{output.one_line(note)}")


async def _load_accuracy(store: "Store", accuracy: Accuracy) -> CountAccuracy:
    observations = await store.usage_reports(accuracy.model, accuracy.route, limit=MAX_REPORTS)
    info = default_registry().resolve(accuracy.model)
    return CountAccuracy(
        accuracy=accuracy,
        learned=learn_calibration(info, observations, route=accuracy.route),
        window=learned_window(observations, now=accuracy.last),
    )


def _accuracy_row(each: CountAccuracy) -> list[str]:
    seen = each.accuracy
    return [
        seen.model,
        seen.route,
        f"{seen.requests:,}",
        *(_error_cells(seen) if seen.requests else [""] * 4),
        _counted_by(each),
        format_percent(seen.cached / seen.reported) if seen.reported else "",
        format_percent(seen.expected_cached / seen.reported) if seen.reported else "",
        f"{seen.overflows:,}",
        f"{seen.cuts:,}",
        output.format_time(seen.last),
    ]


def _error_cells(seen: Accuracy) -> list[str]:
    errors = (format_percent(seen.mean_error, sign=True), format_percent(seen.mean_absolute_error))
    return [*errors, format_percent(seen.worst_error, sign=True), format_percent(seen.covered)]


def _counted_by(each: CountAccuracy) -> str:
    """Return how the model was counted at first, and how it is counted after calibration."""
    info = default_registry().resolve(each.accuracy.model)
    known, now = default_calibration(info), default_calibration(each.learned.model)
    first = info.tokenizer or f"{known.tokenizer} × {known.factor:g} ± {format_percent(known.margin)}"
    if not each.learned.reports or not each.learned.plausible:
        return first
    return f"{first} → × {now.factor:g} ± {format_percent(each.learned.interval)}, from {each.learned.reports}"


def _prior(prior: Prior | None) -> dict[str, Any] | None:
    """Return a prior in the form of a model file."""
    if prior is None:
        return None
    return msgspec.structs.asdict(prior) | {"weights": dict(prior.weights), "spread": dict(prior.spread)}


def _accuracy_notes(each: CountAccuracy) -> list[str]:
    """Return remarks that do not fit in the table."""
    seen, notes = each.accuracy, []
    name = f"{seen.model} on {seen.route}"
    if drift := each.learned.drift:
        notes.append(
            f"{name}: the server has counted {format_percent(drift.step, sign=True)} differently since "
            f"{output.format_time(drift.at)}; "
            f"{drift.ignored} older reports are ignored, and the margin is wider"
        )
    if not each.learned.plausible:
        notes.append(f"{name}: the reported usage is ignored, since no tokenizer would count like that")
    if each.window is not None:
        notes.append(f"{name}: the server reported a window of {each.window:,} tokens when it rejected a prompt")
    if each.learned.model.tokenizer is not None and seen.requests and seen.mean_absolute_error > _LARGE_ERROR:
        notes.append(
            f"{name}: counted by its own tokenizer, and still {format_percent(seen.mean_error, sign=True)} off: "
            "the server may run another model, or another chat template; see `chat_template` in docs/models.md"
        )
    return notes


EXAMPLES: Final = """\
Examples:
  brimful stats
  brimful stats --last 24h --persona helper
  brimful stats --last 30d --by day
  brimful stats --last 30d --by user
  brimful stats --by model --json | jq '.[] | {key, contexts, cost, saved}'
  brimful stats --counts --model claude-sonnet-4-5"""

NO_CONTEXTS: Final = (
    "no contexts yet. They are built by `brimful assemble`, `brimful chat`, `brimful serve` and Engine.assemble."
)


def register(app: typer.Typer) -> None:
    app.command("stats", epilog=EXAMPLES)(stats)


def stats(  # noqa: PLR0913 - one argument per option
    *,
    last: Last = None,
    persona: PersonaFilter = None,
    room: RoomFilter = None,
    user: Annotated[str | None, typer.Option("--user", metavar="ID", help="Only for this user.")] = None,
    key: Annotated[str | None, typer.Option("--key", metavar="ID", help="Only for this API key.")] = None,
    by: Annotated[GroupKey | None, typer.Option("--by", help="Group by this; one row per group.")] = None,
    counts: Annotated[
        bool, typer.Option("--counts", help="Show how accurate the token counts were, by model and server.")
    ] = False,
    model: ModelFilter = None,
    target: StoreOptions,
    as_json: Json = False,
) -> None:
    """Show usage: contexts, tokens, cost, cache hits, warnings.

    With --by, there is one row per day, hour, model, policy, persona,
    user or API key.
    Statistics are kept when contexts are pruned. Costs need the extra
    `prices`.

    With --counts, our token counts are compared with the usage that providers
    reported. ERROR is the mean error (+ if we counted too many), MEAN the mean
    absolute error, WORST the largest. COVERED is the share of prompts within
    our count plus margin: those could not overflow. COUNTED BY shows the
    tokenizer, and its calibration. CACHED is the share of prompt tokens read
    from the provider's cache, EXPECTED the share that we expected. OVERFLOWS
    are prompts rejected as too long, CUTS prompts that the server silently
    truncated.
    """
    since = None if last is None else time.time() - last
    if counts:
        _reject_options("cannot be combined with --counts", persona=persona, room=room, user=user, key=key, by=by)
        show_counts(since=since, model=model, target=target, as_json=as_json)
        return
    _reject_options("needs --counts; to group by model, use --by model", model=model)

    if (room and (user or key)) or (user and key):
        raise typer.BadParameter("only one of --room, --user and --key can be used", param_hint="'--key' / '--user'")
    is_whole = not (by or persona or room or user or key)

    async def read(database: "Database") -> tuple[list[Statistics], str, OwnSpending, dict[str, str]]:
        store = database.tenant(target.tenant)
        spent = await store.own_spending(now=time.time(), since=since) if is_whole else OwnSpending()
        record = None if persona is None else await store.get(Persona, persona)
        statistics = await store.statistics(since=since, persona=persona, room=room, user=user, key=key, by=by or "")
        if not any(each.contexts for each in statistics):
            await require_room(store, room)
        keys = await database.api_keys(target.tenant).list_keys() if by == "key" or key else []
        return statistics, record.called if record else persona or "", spent, {each.id: each.name for each in keys}

    statistics, name, spent, key_names = with_database(read, target.db)
    found = [add_cost(each) for each in statistics]
    if as_json:
        own = {"own_calls": msgspec.to_builtins(spent)} if is_whole else {}
        named = ({"name": key_names.get(each.figures.key, "")} if by == "key" else {} for each in found)
        output.show_json([each.data() | extra | own for each, extra in zip(found, named, strict=True)])
    elif not spent and not any(each.figures.contexts or each.figures.answers.total for each in found):
        output.write(
            NO_CONTEXTS
            if last is None and not (persona or room or user or key or by in ("user", "key"))
            else "no contexts match"
        )
    elif by:
        output.show_table(statistics_table(found, by, key_names))
    else:
        for line in (
            *report_lines(found[0], _title(last, [name, user or "", _name_key(key, key_names) if key else ""], room)),
            *own_call_lines(spent),
        ):
            output.write(output.one_line(line))


def _reject_options(why: str, **options: str | None) -> None:
    for name, value in options.items():
        if value:
            raise typer.BadParameter(why, param_hint=f"--{name}")


def _title(last: float | None, names: Sequence[str], room: str | None) -> str:
    whose = f" for {' and '.join(filter(None, names))}" if any(names) else ""
    where = f" in {room}" if room else ""
    return f"Statistics{whose}{where} ({_period(last)}):"


def _period(last: float | None) -> str:
    """Return the period as text.

    >>> _period(None), _period(86_400.0), _period(5400.0)
    ('all time', 'last 24 hours', 'last 90 minutes')
    """
    if last is None:
        return "all time"
    for seconds, unit in ((86_400, "days"), (3_600, "hours"), (60, "minutes")):
        if last % seconds == 0 and last > seconds:
            return f"last {last / seconds:g} {unit}"
    return f"last {last:g} seconds"
