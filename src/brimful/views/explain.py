"""Text views of a record: the report, one line per decision, and the difference between two contexts."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence

import msgspec

from brimful.core.context import COMPONENTS, Component, Context
from brimful.core.decision import Decision, FormName, Outcome, Reason
from brimful.core.notice import Notice
from brimful.core.policy import NO_HISTORY_LIMITS, Policy
from brimful.core.selection import PoolUse
from brimful.errors import InvalidValue

_FAINT = 0.0001  # scores below it are shown as "<0.0001"
_NOTHING = 1e-9  # recency after years: shown as 0
_FULL = 99.0  # percent of the budget

_TITLES = {
    "system": ("System Prompt", ""),
    "memories": ("Memories", "item"),
    "recent": ("Recent Messages", "msg"),
    "older": ("Older Messages", "msg"),
    "current": ("Current Message", ""),
    "media": ("Media", "item"),
    "tools": ("Tool Turns", "msg"),
    "definitions": ("Tool Definitions", "tool"),
    "lorebook": ("Lorebook", "entry"),
    "summaries": ("Summaries", "item"),
    "notes": ("Notes", "item"),
    "format": ("Format & Tools", ""),
}
_FORMS = {"bare": "without its reasoning", "excerpt": "as an excerpt", "low": "in low detail"}
_AS_LINES = "as one line each"  # in the ledger of an agent's steps
_COMPOSITE = ("memories", "media", "tools")  # components of several kinds


class Change(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A candidate whose decision differs between two contexts. None means that it was not a candidate."""

    id: str
    before: Outcome | None
    after: Outcome | None
    before_reason: Reason | None
    after_reason: Reason | None
    before_form: FormName | None
    after_form: FormName | None
    tokens: int


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """What changed from one context to another.

    `common_prefix` is the number of bytes that both requests begin with: what a prompt cache can reuse.
    """

    before: str
    after: str
    tokens_before: int
    tokens_after: int
    entered: tuple[Change, ...]
    left: tuple[Change, ...]
    changed: tuple[Change, ...]
    common_prefix: int
    prefix_share: float


class DecisionLines:
    """Describes the decisions of a context. Faster than `describe_decision` for many, because they share headlines."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._whys = context.explanations
        self._headlines: dict[tuple[Reason, str, str, str], str] = {}

    def of(self, decision: Decision) -> str:
        kind = (decision.reason, decision.pool, decision.kind, decision.by)
        headline = self._headlines.get(kind)
        if headline is None:
            headline = self._headlines[kind] = _headline(self._context, decision)
        return _describe(headline, decision, self._whys)


def describe_decision(context: Context, decision: Decision) -> str:
    """Return one line that says what happened to a candidate, with the numbers that decided it."""
    return _describe(_headline(context, decision), decision, context.explanations)


def _describe(headline: str, decision: Decision, whys: Mapping[str, str]) -> str:
    line = f"{decision.outcome}: {headline}"
    if decision.score is not None:
        line += f", score {format_score(decision.score.total)}"
    rank = decision.rank
    if decision.included:
        line += f", {decision.cost:,} tokens{_describe_form(decision)}" + (f", rank {rank}" if rank else "")
    elif decision.reason in ("not-worth", "unlikely"):
        line += f", {decision.tokens:,} tokens"
    elif rank > decision.cut:
        below = rank - decision.cut
        line += f", {below} rank{'s' if below > 1 else ''} below the cut"
    if decision.group:
        line += f", one unit with {decision.group!r}" if decision.group != decision.id else ", a unit of several"
    why = "" if decision.reason == "excluded" else whys.get(decision.id, "")
    return f"{line}; candidate because {why}" if why else line


def _describe_form(decision: Decision) -> str:
    if decision.form == "full":
        return ""
    form = _FORMS.get(decision.form, f"as a {decision.form}")
    smaller = f", {decision.smaller:,} as a stub" if decision.smaller else ""
    return f" {form} ({decision.full:,} in full{smaller})"


def format_score(score: float) -> str:
    """Return a score with two decimals, or with one significant digit if it is very small.

    >>> format_score(0.615), format_score(0.0052), format_score(1e-7), format_score(1e-300)
    ('0.61', '0.005', '<0.0001', '0.00')
    """
    if _NOTHING < score < _FAINT:
        return f"<{_FAINT}"
    return f"{score:.1g}" if _NOTHING < score < 0.01 else f"{score:.2f}"  # noqa: PLR2004 - two decimals would be 0.00


def report(context: Context) -> str:
    """Return the budget report: window, components, totals, reserve and warnings."""
    lines = [
        *window_lines(context),
        f"Policy: {context.budget.policy}",
        *counting_lines(context),
        "",
        "COMPONENTS:",
        *(line for component in context.components for line in _component_lines(context, component)),
        "  " + "─" * 41,
        f"  {'TOTAL USED:':<22}{context.tokens:>9,} ({context.percent:.1f}%)",
        "",
        *(f"  {title:<22}{tokens:>9,} {remark}".rstrip() for title, tokens, remark in reserve_rows(context)),
        f"  {'REMAINING:':<22}{context.remaining:>9,}",
        "",
        candidates_line(context),
        "",
        *status_lines(context),
    ]
    return draw_frame(f"BRIMFUL: {context.budget.model}", lines)


def summarize(context: Context) -> dict[str, object]:
    """Return the figures of a context as plain data."""
    return {
        "id": context.id,
        "model": context.budget.model,
        "policy": context.budget.policy,
        "focus": context.inputs.focus,
        "window": context.budget.window,
        "available": context.budget.available,
        "reserved": context.budget.reserved,
        "tokens": context.tokens,
        "percent": round(context.percent, 1),
        "remaining": context.remaining,
        "components": context.components,
        "kinds": context.kinds,
        "pools": context.pools,
        "warnings": context.warnings,
        "left_out": context.left_out,
        "naive": context.naive,
        "stopped_at": context.stopped_at,
    }


def window_lines(context: Context) -> Iterator[str]:
    """Yield the window, and what of it is available for the prompt."""
    yield f"Context Window: {context.budget.window:,} tokens"
    yield f"Available: {context.budget.available:,} tokens"


def counting_lines(context: Context) -> Iterator[str]:
    """Yield how tokens were counted, if that is not exact."""
    if context.verification.basis != "exact":
        yield f"Token Counts: {context.verification.basis}, not exact"


def reserve_rows(context: Context) -> Iterator[tuple[str, int, str]]:
    """Yield what the reserve consists of: title, tokens and remark."""
    budget = context.budget
    yield "Reserved:", budget.reserved, "(completion + safety)"
    yield "  Answer:", budget.completion, "(by default)" if context.inputs.reserve is None else ""
    if budget.hard_limit < budget.window - budget.completion:
        yield "  Prompt limit:", budget.hard_limit, ""


def candidates_line(context: Context) -> str:
    """Return the line that counts the candidates by outcome."""
    return f"CANDIDATES: {', '.join(f'{count:,} {outcome}' for outcome, count in count_outcomes(context))}"


def draw_frame(title: str, lines: Sequence[str]) -> str:
    """Draw a frame around lines, open to the right."""
    width = max([len(title) + 4, *(len(line) + 1 for line in lines)])
    top = f"┌─ {title} " + "─" * (width - len(title) - 2) + "┐"
    return "\n".join([top, *(f"│ {line}".rstrip() for line in lines), "└" + "─" * (len(top) - 2) + "┘"])


def component_title(component: str) -> str:
    """Return the title of a component.

    >>> component_title("recent"), component_title("weather-report")
    ('Recent Messages', 'Weather Report')
    """
    return _TITLES[component][0] if component in _TITLES else component.replace("-", " ").title()


def format_items(component: str, count: int, kinds: Collection[str] = ()) -> str:
    """Return the number of items of a component with its unit, or an empty string if it always has one.

    >>> format_items("recent", 20), format_items("media", 1, {"media-image"}), format_items("system", 1)
    ('20 msgs', '1 image', '')
    """
    unit = "image" if set(kinds) == {"media-image"} else _TITLES.get(component, ("", "item"))[1]
    return plural(count, unit) if unit else ""


def plural(count: int, one: str) -> str:
    """Return a number with its noun.

    >>> plural(1, "item"), plural(1200, "item"), plural(0, "entry")
    ('1 item', '1,200 items', '0 entries')
    """
    many = f"{one.removesuffix('y')}ies" if one.endswith("ry") else f"{one}s"
    return f"{count:,} {one if count == 1 else many}"


def diff(before: Context, after: Context) -> Difference:
    """Return what entered, what left, and how long a prefix the requests share."""
    for field, value in (("before", before), ("after", after)):
        if not hasattr(value, "decisions"):
            raise InvalidValue(field, f"must be a Context, not {type(value).__name__}")
    entered, left, changed = _changes(before.decisions_by_id, after.decisions_by_id)
    a, b = msgspec.json.encode(before.request), msgspec.json.encode(after.request)
    common = _common_prefix(a, b)
    return Difference(
        before=before.id,
        after=after.id,
        tokens_before=before.tokens,
        tokens_after=after.tokens,
        entered=tuple(entered),
        left=tuple(left),
        changed=tuple(changed),
        common_prefix=common,
        prefix_share=common / max(1, len(b)),
    )


def _max_items(context: Context, pool: PoolUse) -> str:
    pools = context.inputs.policy.pools  # without that of tools, which has no such limit
    history = next((each.history for each in pools if each.name == pool.name), NO_HISTORY_LIMITS)
    return f"{pool.items:,} items" if history.max_items is None else f"{history.max_items:,} messages"


def _headline(context: Context, decision: Decision) -> str:
    pool = next((use for use in context.pools if use.name == decision.pool), None)
    borrowed = f", {pool.borrowed:,} borrowed" if pool and pool.borrowed else ""
    numbers = f" ({pool.used:,}/{pool.limit:,} tokens{borrowed})" if pool else ""
    named, policy = f"pool {decision.pool!r}", context.inputs.policy
    lines: dict[Reason, str] = {
        "required": "required",
        "fits": f"fits in {named}{numbers}",
        "min-items": f"within the minimum number of items of {named}",
        "free": f"one of the few or best memories, which need not be worth their tokens, in {named}",
        "borrowed": f"fits in {named} with tokens borrowed from other pools",
        "used": "called or searched for before",
        "ledger": f"a line in {decision.by!r} stands for it" if decision.by else "what was done in steps that are out",
        "summary": f"covered by summary {decision.by!r}" if decision.by else "stands for its cluster",
        "same-id": "another candidate has this id",
        "same-content": f"same text as {decision.by!r}",
        "too-large": f"larger than {named} can hold ({pool.max_tokens if pool else 0:,} tokens)",
        "pool-full": f"{named} full{numbers}",
        "window-full": f"window full ({context.tokens:,}/{context.budget.available:,} tokens)",
        "not-worth": f"not worth its tokens at a price of {policy.price:g} per 1,000",
        "unlikely": _describe_unlikely(policy, decision.kind),
        "max-items": f"{named} already holds its maximum of {_max_items(context, pool) if pool else ''}",
        "low-water": f"{named} is at its low water, after one large step{numbers}",
        "no-modality": f"{context.budget.model} takes no {decision.kind.removeprefix('media-')} on this wire",
        "not-needed": "the current message does not ask about it",
        "unchanged": "left out as in the previous context, so that prompt caches can be reused",
        "message-dropped": f"its message {decision.by!r} is not in",
        "reasoning": "the model's reasoning of an earlier turn, which goes first",
        "older": f"older than {_history_boundary(context)} in {named}{numbers}",
        "trimmed": f"trimmed from {named} to fit the window",
        "no-pool": f"no pool of policy {context.budget.policy!r} takes kind {decision.kind!r}",
        "verbatim": "not needed, what it covers is in or out by itself",
        "excluded": f"excluded, {context.explanations.get(decision.id, 'for an unknown reason')}",
        "unpaired": "a tool call without its result, or a result without its call",
    }
    return lines[decision.reason]


def _describe_unlikely(policy: Policy, kind: str) -> str:
    least = f"relevance under {policy.min_relevance_of(kind):.1%}"
    if policy.min_share_of_best:
        least += f", under {policy.min_share_of_best:.0%} of the best that its search found"
    search = f"{policy.min_best_relevance:.0%} for the best and {policy.min_total_relevance:.0%} for all"
    return f"unlikely to help: {least}, or under {search} that its search found"


def _history_boundary(context: Context) -> str:
    """Name the boundary of history: where it began in the previous context, kept for the prompt cache, or what fits."""
    before, now = context.inputs.previous, context.history
    kept = before is not None and now is not None and before.first == now.first
    return "where history began in the previous context" if kept else "the history that fits"


def _component_lines(context: Context, component: Component) -> Iterator[str]:
    """Yield the line of a component, and one for each kind in it if its title does not tell the kind."""
    yield _component_line("  ", component_title(component.name), component)
    if component.name in _COMPOSITE:
        for kind in context.kinds:
            if COMPONENTS.get(kind.name) == component.name:
                yield _component_line("    ", kind.name, kind)


def _component_line(indent: str, title: str, component: Component) -> str:
    items = format_items(component.name, component.items)
    return f"{f'{indent}{title}:':<24}{component.tokens:>9,}{f' ({items})' if items else ''}"


def status_lines(context: Context, notices: Sequence[Notice] = ()) -> Iterator[str]:
    """Yield the warnings and other notices, if there are any, and how much of the budget is used."""
    if context.warnings or notices:
        yield "WARNINGS:"
        yield from (f"  {notice.text}" for notice in (*context.warnings, *notices))
        yield ""
    yield f"STATUS: {_status(context)}"


def _status(context: Context) -> str:
    used = f"{context.tokens:,} of {context.budget.available:,} tokens used"
    if context.remaining < 0:
        return f"{used} ({-context.remaining:,} of the safety margin)"
    return f"{used} (full)" if context.percent >= _FULL else f"{used} ({context.percent:.1f}%)"


def count_outcomes(context: Context) -> list[tuple[str, int]]:
    """Return the number of candidates by outcome, those that are in first, and of messages that were not loaded.

    What an agent's ledger replaced is told from what a summary did: the model sees a line of each.
    """
    counts = Counter[str](
        _AS_LINES if (each.outcome, each.reason) == ("replaced", "ledger") else each.outcome
        for each in context.decisions
    )
    counts["not loaded"] = context.inputs.unread.messages
    order = ("kept", "shrunk", _AS_LINES, "replaced", "duplicate", "dropped", "not loaded")
    return [(outcome, counts[outcome]) for outcome in order if counts[outcome]]


def _changes(
    before: Mapping[str, Decision], after: Mapping[str, Decision]
) -> tuple[list[Change], list[Change], list[Change]]:
    """Return what entered, what left, and what changed its outcome or reason, each sorted by id."""
    ids = after.keys() - before.keys()
    ids |= {
        id
        for id, each in before.items()
        if (now := after.get(id)) is None
        or (each.outcome, each.reason, each.form) != (now.outcome, now.reason, now.form)
    }
    entered, left, changed = list[Change](), list[Change](), list[Change]()
    for id in sorted(ids):
        change = _change(id, before.get(id), after.get(id))
        was, is_now = _is_included(change.before), _is_included(change.after)
        (changed if was == is_now else left if was else entered).append(change)
    return entered, left, changed


def _change(id: str, before: Decision | None, after: Decision | None) -> Change:
    either = after or before
    return Change(
        id=id,
        before=before.outcome if before else None,
        after=after.outcome if after else None,
        before_reason=before.reason if before else None,
        after_reason=after.reason if after else None,
        before_form=before.form if before and before.included else None,
        after_form=after.form if after and after.included else None,
        tokens=either.tokens if either else 0,
    )


def _is_included(outcome: Outcome | None) -> bool:
    return outcome in ("kept", "shrunk")


def _common_prefix(a: bytes, b: bytes) -> int:
    low, high = 0, min(len(a), len(b))
    while low < high:
        middle = (low + high + 1) // 2
        if a[:middle] == b[:middle]:
            low = middle
        else:
            high = middle - 1
    return low
