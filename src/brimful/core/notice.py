"""Notices: what a build warns about, with a kind that programs can count and a text for people."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, Literal, get_args

from brimful.core.exclusions import CONSTANT

if TYPE_CHECKING:
    from brimful.core.context import Context


WarningKind = Literal[
    "overflowed",  # the provider refused the context before it as too long
    "margin",  # some of the safety margin is in use
    "nearly-full",  # more than 80 % of the window
    "pins-lost",  # something that should stand in every context did not get in
    "no-memories",  # no memory is in it
    "memories-off",  # no memory is in it, and the breaker was open
    "degraded",  # it had to do without something, whatever that was
    "words-failed",  # full text search did not answer
    "vectors-failed",  # vector search did not answer
    "vectors-off",  # the breaker was open: vector search was not asked
    "vectors-behind",  # many documents had no vector yet: much was written, or the embedder is a new one
    "breaker-opened",  # the first one that met the breaker since it opened
    "unknown-model",  # its window is a guess
    "inexact",  # its tokens were not counted by the model's own tokenizer
]
WARNING_KINDS: Final[tuple[WarningKind, ...]] = get_args(WarningKind)

REMARK: Final = "ℹ️"
"""How a warning begins that asks nothing of anybody."""
_MOST_NAMED: Final = 5  # ids in a warning
NEARLY_FULL: Final = 80  # percent of the window; the seeds warn above it

WORDS_FAILED: Final = "full text search failed"
VECTORS_FAILED: Final = "vector search failed"
VECTORS_OFF: Final = "vector search is off"
VECTORS_BEHIND: Final = "vector search is behind"
BREAKER_OPENED: Final = "the breaker opened"
OVERFLOWED: Final = "refused as too long"

_SPOKEN: Final[dict[str, WarningKind]] = {
    WORDS_FAILED: "words-failed",
    VECTORS_FAILED: "vectors-failed",
    VECTORS_OFF: "vectors-off",
    VECTORS_BEHIND: "vectors-behind",
    BREAKER_OPENED: "breaker-opened",
    OVERFLOWED: "overflowed",
}
"""Words by which a note tells of what kind it is: whoever writes such a note takes them from here."""


def warnings_of(context: "Context") -> list[str]:
    """Return what a context warns of, for people."""
    return [*context.inputs.degraded, *(text for _, text in _facts(context))]


def warning_kinds(context: "Context") -> list[WarningKind]:
    """Return the kinds of what a context warns of, each once."""
    notes = context.inputs.degraded
    kinds: list[WarningKind] = ["degraded"] if notes else []
    kinds += [kind for words, kind in _SPOKEN.items() if any(words in note for note in notes)]
    kinds += [kind for kind, _ in _facts(context)]
    return [*kinds, "memories-off"] if {"no-memories", "vectors-off"} <= set(kinds) else kinds


def _facts(context: "Context") -> Iterator[tuple[WarningKind, str]]:
    if not context.inputs.model.known:
        window = context.budget.window
        yield "unknown-model", f"⚠️  Unknown model {context.inputs.model.id!r}: assuming a window of {window:,} tokens"
    if context.remaining < 0:
        yield "margin", f"⚠️  {-context.remaining:,} tokens of the safety margin are in use"
    if context.percent > NEARLY_FULL:
        yield "nearly-full", f"⚠️  Using {context.percent:.1f}% of context window (>{NEARLY_FULL}%)"
    lost = _lost_pins(context)
    if lost:
        named = ", ".join(map(repr, lost[:_MOST_NAMED])) + (" …" if len(lost) > _MOST_NAMED else "")
        yield "pins-lost", f"⚠️  {len(lost):,} that should stand in every context did not get in: {named}"
    if not context.component("memories").items:
        yield "no-memories", f"{REMARK}  No memories in this context"
    if context.verification.basis != "exact":
        yield "inexact", f"{REMARK}  Token counts are {context.verification.basis}, not exact"


def _lost_pins(context: "Context") -> list[str]:
    """Return what is pinned, or always to be told, and found no place."""
    standing = {
        package.id
        for package in context.inputs.packages
        if package.metadata and (package.metadata.get("pinned") or package.metadata.get(CONSTANT))
    }
    if not standing:
        return []
    out = (each for each in context.decisions if each.outcome == "dropped" and each.reason != "held-back")
    return sorted(each.id for each in out if each.id in standing)
