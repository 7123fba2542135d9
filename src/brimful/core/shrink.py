"""A package made smaller: cut at a sentence or line end, marked, and counted again."""

from collections.abc import Callable

import msgspec

from brimful.core.content import ContentPackage
from brimful.core.cut import cut
from brimful.core.tokens import TokenCounter
from brimful.core.unit import Unit


def shrinker(counter: TokenCounter) -> Callable[[Unit, int], Unit | None]:
    """Return a function that shrinks a unit to a number of tokens, where its package allows that."""

    def shrink(unit: Unit, room: int) -> Unit | None:
        package = unit.packages[0]
        around = unit.cost - package.tokens.upper
        least = package.flex.min_tokens
        if least is None or unit.items > 1 or not isinstance(package.content, str) or room - around < least:
            return None
        smaller = _shrunk(package, room - around, counter)
        if smaller is None or smaller.tokens.upper < least:
            return None
        cost = around + smaller.tokens.upper
        return msgspec.structs.replace(unit, packages=(smaller,), costs=(cost,), cost=cost, shrunk=True)

    return shrink


def _shrunk(package: ContentPackage, limit: int, counter: TokenCounter) -> ContentPackage | None:
    text = cut(str(package.content), limit, lambda part: counter.text(part).upper)
    if text is None:
        return None
    return msgspec.structs.replace(package, content=text, tokens=counter.text(text), hash="", normalized_hash="")
