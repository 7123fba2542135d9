"""What to do when a provider says that a prompt is too long: how much smaller the next one has to be."""

from typing import Final

from brimful.core.context import Context
from brimful.core.warning import OVERFLOWED
from brimful.errors import ContextOverflow

_UNTOLD: Final = 0.75  # of the window, where a provider names no number


def smaller_window(context: Context, refused: ContextOverflow) -> int:
    """Return the window under which the same context will fit, as far as the provider's numbers tell.

    Its own window, if it named one; less in proportion, where it counts more tokens than we do.
    """
    budget = context.budget
    limit = refused.window or int(budget.window * _UNTOLD)
    if refused.window and refused.input_only:
        limit += budget.completion
    if refused.prompt and refused.prompt > context.tokens:
        limit = int(limit * context.tokens / refused.prompt)
    return max(1, min(limit, budget.window - 1))


def refusal(context: Context, refused: ContextOverflow) -> str:
    """Say what happened, for the record of the context that is built next."""
    told = f"its window is {refused.window:,}" if refused.window else "it did not say how long it may be"
    prompt = f" of {refused.prompt:,} tokens" if refused.prompt else ""
    return f"{context.id}{prompt} was {OVERFLOWED} by {refused.route} ({told}): built again for a smaller window"
