"""Find the window size at which a candidate would be included."""

from collections.abc import Callable

from brimful.assembly.assemble import prepare_candidates
from brimful.core.context import Context
from brimful.core.selection import Selection
from brimful.core.validation import preview
from brimful.errors import BudgetExceeded, InvalidValue

MAX_WINDOW = 2**40
"""Tokens of a window in which there is room for whatever is not kept out by a rule."""

Probe = Callable[[int], bool]
"""Tells whether the candidate is in a window of so many tokens."""


def window_for(context: Context, id: str) -> int | None:
    """Return the window in which a candidate gets in, all else being equal: in it, it is in; a token less, it is not.

    For what is in, that is where it would begin to be missing, at or below the context's own window. For what is out,
    it is above that window; None says that it stays out however large the window is: a duplicate, a kind without a
    pool, more items than its pool takes, what a limit in tokens keeps out.

    Where a pool is filled in order and without gaps, there is one such window, and it is the smallest. Where pools take
    the best set, or go on past what does not fit, a candidate may get in by luck, and out again when something better
    fits: there can then be several, and one of them is returned.
    """
    if not isinstance(context, Context):
        raise InvalidValue("context", f"must be a Context, not {preview(context)}")
    if not any(decision.id == id for decision in context.decisions):
        raise InvalidValue("id", f"no candidate {preview(id)} in {context.id}")
    pile = prepare_candidates(context.inputs)

    def planned(window: int) -> bool:
        return _is_in(id, lambda: pile.planned(window))

    def built(window: int) -> bool:
        return _is_in(id, lambda: pile.filled(pile.budget(window)).selection)

    return _find_window(planned, built, own=context.budget.window, included=context.decision(id).included)


def _is_in(id: str, select: Callable[[], Selection]) -> bool:
    try:
        selection = select()
    except BudgetExceeded:  # what is required does not fit: nothing is in
        return False
    return any(package.id == id for unit in selection.units for package in unit.packages)


def _find_window(planned: Probe, built: Probe, *, own: int, included: bool) -> int | None:
    """Find the step between out and in. Plans are cheap and nearly right: they lead to where builds decide."""
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
    """Narrow a wide span from below by doubling: what is looked for is seldom near its upper end."""
    reach = max(1, low)
    while low + reach < high:
        if planned(low + reach):
            return low, low + reach
        low, reach = low + reach, 2 * reach
    return low, high


def _bisect(inside: Probe, low: int, high: int) -> int:
    """Return where out becomes in. `low` is taken to be out, and `high` to be in."""
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if inside(middle) else (middle, high)
    return high


def _bracket(inside: Probe, guess: int, low: int, high: int) -> tuple[int, int]:
    """Return a narrow span around a guess, out at its lower end and in at its upper, by strides that grow."""
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
