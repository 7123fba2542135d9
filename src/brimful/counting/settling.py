"""When to learn anew, and from which observations.

Counts decide where histories begin, and those are to stay where they are for the sake of prompt caches. So what was
learned stands until there is reason to learn anew: after 1, 2, 3, 5, 8, 13 … observations; and when one of them escapes
the margin, with it and the next two, since they may tell that the server counts otherwise from now on.
"""

import hashlib
from collections.abc import Sequence
from typing import Final

from brimful.counting.drift import WITNESSES
from brimful.observation import Observation

WINDOW: Final = 256  # observations that are learned from: what is older says little of what a server does now
_STEPS: Final = (1, 2, 3, 5, 8, 13, 20, 32, 50, 80, 128)  # observations after which all is learned anew
_STRIDE: Final = 32  # … and from then on after so many
_ABSURD: Final = 10  # times as many tokens as were counted: a report that means something else
_LEAST_GAP: Final = 0.01  # of a prompt: counts that are too high by less are no reason to learn anew


def settled(observations: Sequence[Observation], tokenizer: str) -> list[Observation]:
    """Return those that are to be learned from now, oldest first; they are given newest first.

    They have features by this tokenizer, if any is named, and a report of the whole prompt.
    """
    usable = [
        each
        for each in reversed(observations[:WINDOW])
        if _is_sound(each) and (not tokenizer or each.tokenizer == tokenizer)
    ]
    if len(observations) >= WINDOW:
        usable = usable[_beginning(usable) :]
    alarmed = set(alarms(usable))
    return usable[: next((at for at in range(len(usable), 0, -1) if _is_step(at) or at in alarmed), 0)]


def alarms(usable: Sequence[Observation]) -> list[int]:
    """Return after how many observations, oldest first, there is reason to ask whether the server counts otherwise."""
    escapes = [at for at, each in enumerate(usable, start=1) if _escaped(each)]
    return sorted({at + more for at in escapes for more in range(WITNESSES) if at + more <= len(usable)})


def _is_sound(each: Observation) -> bool:
    """Say whether a report can be meant as the tokens of the prompt."""
    likely = each.counted < _ABSURD * each.reported and each.reported < _ABSURD * each.counted
    return each.kind == "usage" and bool(each.features) and likely


def _beginning(usable: Sequence[Observation]) -> int:
    """Return where to begin in a history that goes on before: at a place that stays the same while new ones come."""
    return next((at for at, each in enumerate(usable[: WINDOW // 2]) if _marked(each.id)), 0)


def _marked(id: str) -> bool:
    """Choose one id in so many, whoever asks and whenever."""
    return hashlib.blake2b(id.encode(), digest_size=1).digest()[0] % _STRIDE == 0


def _is_step(count: int) -> bool:
    return count in _STEPS or (count > _STEPS[-1] and count % _STRIDE == 0)


def _escaped(each: Observation) -> bool:
    """Say whether the margin did not cover what was reported, or the count was far too high."""
    gap = each.counted - each.reported
    return -gap > each.margin or gap > each.margin + _LEAST_GAP * each.reported
