"""Find the window size at which a candidate would be included."""

from collections.abc import Callable
from pathlib import Path

from brimful.assembly.arguments import resolve_recorded
from brimful.assembly.assemble import prepare_candidates
from brimful.core.context import Context
from brimful.core.decision import Decision
from brimful.core.media import MEDIA_PREFIX
from brimful.core.stages import Candidates, assemble_candidates
from brimful.core.toolset import TOOL_KIND
from brimful.core.validation import preview
from brimful.errors import BudgetExceeded, InvalidValue

MAX_WINDOW = 2**40
"""Tokens. If a candidate does not get into such a window, a rule excludes it."""

Probe = Callable[[int], bool]
"""Whether the candidate is in, given the size of the window."""


def window_for(context: Context, id: str, *, tokenizer: str | Path | None = None) -> int | None:
    """Return a window in which the candidate gets in, while it does not in a window that is one token smaller.

    Everything else stays as it was. For a candidate that is in, the window is at or below the context's own; for one
    that is out, it is above. None means that no window is large enough: the candidate is a duplicate, no pool takes its
    kind, or its pool has a limit in items or tokens.

    If a pool is filled in order and without gaps, there is exactly one such window. If a pool takes the best set, or
    skips what does not fit, there can be several, and one of them is returned.

    If the record names a tokenizer file, name it too: as `tokenizer`, or in your model file.
    """
    if not isinstance(context, Context):
        raise InvalidValue("context", f"must be a Context, not {preview(context)}")
    return find_window(context, id, lambda: prepare_candidates(resolve_recorded(context.inputs, tokenizer)))


def find_window(context: Context, id: str, prepare: Callable[[], Candidates]) -> int | None:
    """Return the same for a context whose candidates may have been prepared before."""
    if not any(decision.id == id for decision in context.decisions):
        raise InvalidValue("id", f"no candidate {preview(id)} in {context.id}")
    candidates = prepare()
    is_tool = context.decision(id).kind == TOOL_KIND

    def is_planned(window: int) -> bool:
        """Whether a fill by the counts of the parts alone includes it: cheap, and nearly right."""
        sized = candidates.with_window(window)
        try:
            tools, selection = sized.plan(sized.allocate())
        except BudgetExceeded:  # the required parts do not fit, so nothing is in
            return False
        if is_tool:
            return not any(decision.id == id and not decision.included for decision in tools.decisions)
        return any(
            package.id == id and not (unit.tie and unit.form == "stub")
            for unit in selection.units
            for package in unit.packages
        )

    def is_built(window: int) -> bool:
        try:
            built = assemble_candidates(candidates.with_window(window)).decisions_by_id
        except BudgetExceeded:
            return False
        return _is_sent(built[id]) if id in built else is_tool  # if all tools fit, none of them competes

    return _search(is_planned, is_built, own=context.budget.window, included=_is_sent(context.decision(id)))


def _is_sent(decision: Decision) -> bool:
    """Whether a candidate is in. A media item is not if only its line is."""
    return decision.included and not (decision.form == "stub" and decision.kind.startswith(MEDIA_PREFIX))


def _search(planned: Probe, built: Probe, *, own: int, included: bool) -> int | None:
    """Find the step from out to in: near it by plans, which are cheap, and exactly by builds."""
    if included:
        low, high = 0, own
    elif planned(MAX_WINDOW) or built(MAX_WINDOW):
        low, high = own, MAX_WINDOW
    else:
        return None
    guess = _bisect(planned, *_narrow_by_doubling(planned, low, high))
    low, high = _bracket(built, guess, low, high)
    return _bisect(built, low, high)


def _narrow_by_doubling(planned: Probe, low: int, high: int) -> tuple[int, int]:
    """Narrow a wide span from below by doubling: the step is seldom near its upper end."""
    reach = max(1, low)
    while low + reach < high:
        if planned(low + reach):
            return low, low + reach
        low, reach = low + reach, 2 * reach
    return low, high


def _bisect(inside: Probe, low: int, high: int) -> int:
    """Return where out becomes in, assuming that `low` is out and `high` is in."""
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if inside(middle) else (middle, high)
    return high


def _bracket(inside: Probe, guess: int, low: int, high: int) -> tuple[int, int]:
    """Return a narrow span around a guess, out at its lower end and in at its upper, by growing strides."""
    stride = 1
    if inside(guess):
        high = guess
        while high - stride > low and inside(high - stride):
            high, stride = high - stride, 2 * stride
        return max(low, high - stride), high
    low = guess
    while low + stride < high and not inside(low + stride):
        low, stride = low + stride, 2 * stride
    return low, min(high, low + stride)
