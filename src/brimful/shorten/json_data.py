"""JSON that stays JSON: long arrays lose elements, long strings their end; keys and short values stay longest."""

import json
from collections.abc import Callable
from typing import Any, Final

from brimful.shorten.matching import word_set
from brimful.shorten.segments import Shortened

_LEVELS: Final = (
    # elements of an array, characters of a string, depth
    (10**9, 10**9, 10**9),
    (200, 4000, 50),
    (100, 2000, 30),
    (50, 1000, 20),
    (30, 500, 15),
    (20, 300, 12),
    (12, 200, 10),
    (8, 120, 9),
    (5, 80, 8),
    (3, 60, 7),
    (2, 40, 6),
    (1, 24, 5),
    (1, 24, 4),
    (1, 24, 3),
    (1, 16, 2),
    (0, 16, 1),
)
_MAX_KEYS: Final = 40  # of an object at the level with one element; more are treated like elements of an array


class JsonText:
    """JSON data, and its size in characters.

    Raises `ValueError` or `RecursionError` if the text is no JSON, or nested too deeply.
    """

    def __init__(self, text: str) -> None:
        self.data = json.loads(text)
        self.size = len(_dump(self.data))


class JsonShortener:
    """Shortens JSON to several lengths. Elements that match the query are kept first.

    >>> JsonShortener(JsonText('{"items": [' + ", ".join(map(str, range(100))) + "]}"), "").shorten(40, len).text
    '{"items":[0,1,2,"… 95 more",98,99]}'
    """

    def __init__(self, known: JsonText, query: str) -> None:
        self._data = known.data
        self._size = known.size
        self._wanted = word_set(query)
        self._texts: dict[int, str] = {}

    def shorten(self, limit: int, count: Callable[[str], int]) -> Shortened | None:
        """Return as much as fits, still valid JSON; None if nothing does."""
        low, high, best = 0, len(_LEVELS) - 1, ""
        while low <= high:  # the first level that fits; later levels give shorter texts
            middle = (low + high) // 2
            if middle not in self._texts:
                self._texts[middle] = _dump(_Level(self._wanted, *_LEVELS[middle]).shorten(self._data))
            if count(self._texts[middle]) <= limit:
                best, high = self._texts[middle], middle - 1
            else:
                low = middle + 1
        return Shortened(best, "json", min(1.0, (len(best) / self._size) ** 0.5)) if best else None


def _dump(data: Any) -> str:
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"))


class _Level:
    def __init__(self, wanted: set[str], elements: int, characters: int, depth: int) -> None:
        self.wanted = wanted
        self.elements = elements
        self.characters = characters
        self.depth = depth

    def shorten(self, data: Any, level: int = 0) -> Any:
        if isinstance(data, str):
            return self._string(data)
        if isinstance(data, list):
            return f"… {len(data):,} elements" if level >= self.depth and data else self._array(data, level)
        if isinstance(data, dict):
            return f"… {len(data):,} keys" if level >= self.depth and data else self._object(data, level)
        return data

    def _string(self, text: str) -> str:
        if len(text) <= self.characters + 24:  # the mark takes that much
            return text
        return f"{text[: self.characters]}… (+{len(text) - self.characters:,} characters)"

    def _array(self, items: list[Any], level: int) -> list[Any]:
        kept = self._choose([_dump(item) for item in items]) if len(items) > self.elements else range(len(items))
        shorter: list[Any] = []
        before = -1
        for at in kept:
            if at - before > 1:
                shorter.append(f"… {at - before - 1:,} more")
            shorter.append(self.shorten(items[at], level + 1))
            before = at
        if len(items) - before > 1:
            shorter.append(f"… {len(items) - before - 1:,} more")
        return shorter

    def _object(self, fields: dict[str, Any], level: int) -> dict[str, Any]:
        most = max(self.elements * 4, _MAX_KEYS)
        if len(fields) <= most:
            return {key: self.shorten(value, level + 1) for key, value in fields.items()}
        rows = list(fields.items())
        kept = self._choose([f"{key} {_dump(value)}" for key, value in rows], most)
        shorter = {rows[at][0]: self.shorten(rows[at][1], level + 1) for at in kept}
        return {**shorter, "…": f"{len(rows) - len(kept):,} more keys"}

    def _choose(self, texts: list[str], most: int | None = None) -> list[int]:
        """Return the indices of the first, the last, and the elements that match the query best."""
        most = self.elements if most is None else most
        matches = [len(self.wanted & word_set(text)) for text in texts] if self.wanted else [0] * len(texts)
        last = len(texts) - 1
        ranked = sorted(range(len(texts)), key=lambda at: (-matches[at], min(at, last - at), at))
        return sorted(ranked[:most])
