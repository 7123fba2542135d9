"""Near-duplicates are spread out: of many finds that say nearly the same, the first is worth most."""

from collections import Counter
from collections.abc import Iterable
from typing import Final

import msgspec

from brimful.packagers.stored import plain_text
from brimful.retrieval.indexed import LONGEST_READ
from brimful.retrieval.wanted import Hit, best_first

HALVED: Final = 0.5  # what the next one of its like is worth, and the one after it half of that
_DIGITS: Final = b"0123456789"


def spread(hits: Iterable[Hit]) -> list[Hit]:
    """Return the hits, best first; what says what a better one says (the same words, numbers aside) is worth less.

    >>> from brimful.records import Memory
    >>> def hit(id, text, relevance):
    ...     return Hit(record=Memory(id=id, content=text), relevance=relevance)
    >>> rain = [hit("a", "Rain on day 1", 0.8), hit("b", "Rain on day 2", 0.7), hit("c", "Tea at four", 0.5)]
    >>> [(hit.record.id, hit.relevance) for hit in spread(rain)]
    [('a', 0.8), ('c', 0.5), ('b', 0.35)]
    """
    alike: Counter[frozenset[str]] = Counter()
    told_apart = []
    for hit in sorted(hits, key=best_first):
        words = _words(plain_text(hit.record.content)[:LONGEST_READ])
        before = alike[words] if words else 0
        alike[words] += 1
        told_apart.append(msgspec.structs.replace(hit, relevance=hit.relevance * HALVED**before) if before else hit)
    return sorted(told_apart, key=best_first)


def _words(text: str) -> frozenset[str]:
    """Return the words of a text, without digits; bytes lose these in a tenth of the time."""
    plain = text.casefold().encode("utf-8", "surrogatepass").translate(None, _DIGITS)
    return frozenset(plain.decode("utf-8", "surrogatepass").split())
