"""Texts that keep a token budget exactly: as many blocks as fit, the last one shortened, and a note on the rest."""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from brimful.errors import InvalidValue
from brimful.shorten import Shortener, TextStructure, cut_text

MIN_BUDGET: Final = 50  # tokens; less does not even hold a heading and a note on what was left out
_MIN_PART: Final = 16  # tokens of a shortened text; less says nothing
_MAX_TRIES: Final = 12  # of a shorter text: escapes in JSON and joined words cost a few tokens more

TokenCount = Callable[[str], int]
Compose = Callable[[Sequence[str]], str]
"""Joins the blocks that are shown into the whole result, with a note if that is not all of them."""


class Block(NamedTuple):
    """A record in a result: a line on what it is, and its text."""

    heading: str
    text: str

    def __str__(self) -> str:
        return f"{self.heading}\n{self.text}" if self.text else self.heading


def fill(blocks: Sequence[Block], compose: Compose, budget: int, count: TokenCount, query: str = "") -> str:
    r"""Return as many of the first blocks as fit into the budget, with the first that does not fit shortened.

    A text of more than half the budget is shortened to that, so that it does not crowd out the others.

    >>> blocks = [Block("[a]", "one two three"), Block("[b]", "four five six"), Block("[c]", "seven")]
    >>> fill(blocks, lambda shown: " ".join([*shown, f"+{3 - len(shown)}"]), 9, lambda text: len(text.split()))
    '[a]\none two three [b]\nfour five six +1'
    """
    texts = [str(block) for block in blocks]
    whole = compose(texts)
    if count(whole) <= budget:
        return whole
    if len(blocks) > 1:
        half = budget // 2
        texts = [_shorten_block(block, half, count, query) for block in blocks]
    shown = _count_fitting(texts, compose, budget, count)
    if shown < len(blocks):
        block, before = blocks[shown], texts[:shown]
        last = _fit(block.text, lambda text: compose([*before, str(Block(block.heading, text))]), budget, count, query)
        if last is not None:
            return last
    return _cut(compose(texts[:shown]), budget, count)


def fit_text(text: str, wrap: Callable[[str], str], budget: int, count: TokenCount, query: str = "") -> str:
    """Return `wrap(text)`, with the text shortened so that all of it fits into the budget.

    Raises `InvalidValue` if it does not fit even without the text.
    """
    whole = wrap(text)
    if count(whole) <= budget:
        return whole
    shorter = _fit(text, wrap, budget, count, query)
    if shorter is not None:
        return shorter
    empty = wrap("")
    if (needed := count(empty)) > budget:
        raise InvalidValue("budget", f"must be at least {needed}: that is what this item costs without its text")
    return empty


def _fit(text: str, wrap: Callable[[str], str], budget: int, count: TokenCount, query: str) -> str | None:
    """Return the longest version of the text that fits together with what is around it; None if none does."""
    limit = budget - count(wrap(""))
    shortener = Shortener(TextStructure(text, query), count, query) if limit >= _MIN_PART else None
    for _ in range(_MAX_TRIES):
        shorter = None if shortener is None or limit < _MIN_PART else shortener.shorten(limit)
        if shorter is None:
            return None
        result = wrap(shorter.text)
        excess = count(result) - budget
        if excess <= 0:
            return result
        limit -= max(excess, limit // 8)
    return None


def _shorten_block(block: Block, limit: int, count: TokenCount, query: str) -> str:
    text = str(block)
    if count(text) <= limit:
        return text
    return _fit(block.text, lambda part: str(Block(block.heading, part)), limit, count, query) or text


def _count_fitting(texts: Sequence[str], compose: Compose, budget: int, count: TokenCount) -> int:
    """Return how many of the first texts fit. The sum of their tokens is close, so few results are counted whole."""
    shown, tokens = 0, count(compose([]))
    for text in texts:
        tokens += count(text)
        if tokens > budget:
            break
        shown += 1
    while shown and count(compose(texts[:shown])) > budget:
        shown -= 1
    while shown < len(texts) and count(compose(texts[: shown + 1])) <= budget:
        shown += 1
    return shown


def _cut(text: str, budget: int, count: TokenCount) -> str:
    """Return a text that fits in any case: notes may quote ids of any length."""
    return text if count(text) <= budget else cut_text(text, budget, count) or ""
