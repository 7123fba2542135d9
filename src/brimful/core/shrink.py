"""A unit made smaller: texts cut at a sentence or line end, marked, and counted again."""

from collections.abc import Callable

import msgspec

from brimful.core.content import ContentPackage, Part, Text, ToolResult
from brimful.core.cut import cut
from brimful.core.tokens import TokenCounter
from brimful.core.unit import Unit


def shrinker(counter: TokenCounter) -> Callable[[Unit, int], Unit | None]:
    """Return a function that shrinks a unit to a number of tokens, where its packages allow that, the largest first."""

    def shrink(unit: Unit, room: int) -> Unit | None:
        packages, costs, shrunk = list(unit.packages), list(unit.costs), list(unit.shrunk)
        for at in sorted(range(unit.items), key=lambda at: (-unit.costs[at], at)):
            over = sum(costs) - room
            smaller = _shrunk(packages[at], packages[at].tokens.upper - over, counter) if over > 0 else None
            if smaller is not None:
                costs[at] -= packages[at].tokens.upper - smaller.tokens.upper
                packages[at] = smaller
                shrunk.append(smaller.id)
        if sum(costs) > room:
            return None
        return msgspec.structs.replace(
            unit, packages=tuple(packages), shares=tuple(costs), cost=sum(costs), shrunk=tuple(shrunk)
        )

    return shrink


def least_cost(unit: Unit) -> int | None:
    """Return about what the unit costs when all that may be cut is cut, or nothing if that is none of it."""
    saved = 0
    for package in unit.packages:
        if _text(package) is not None and package.flex.min_tokens is not None:
            # A cut at a sentence end falls short of its limit; twice the least leaves it a place to fall.
            saved += max(0, package.tokens.upper - 2 * package.flex.min_tokens)
    return unit.cost - saved if saved else None


def _shrunk(package: ContentPackage, limit: int, counter: TokenCounter) -> ContentPackage | None:
    """Cut the package's text to the limit; if that is less than it must keep, then nearly to that."""
    text, least = _text(package), package.flex.min_tokens
    if text is None or least is None:
        return None
    shorter = cut(text, limit if limit >= least else 2 * least, lambda part: counter.text(part).upper)
    if shorter is None or (count := counter.text(shorter)).upper < least:
        return None
    return msgspec.structs.replace(
        package, content=_with_text(package, shorter), tokens=count, hash="", normalized_hash=""
    )


def _text(package: ContentPackage) -> str | None:
    """Return the text that can be cut: a plain content, or what a tool answered."""
    if isinstance(package.content, str):
        return package.content
    match package.content:
        case (Text(text=text),) | (ToolResult(content=text),):
            return text
        case _:
            return None


def _with_text(package: ContentPackage, text: str) -> str | tuple[Part, ...]:
    match package.content:
        case (ToolResult() as result,):
            return (msgspec.structs.replace(result, content=text),)
        case _:
            return text
