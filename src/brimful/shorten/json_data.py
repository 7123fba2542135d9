"""JSON that stays JSON: whole objects and arrays are left out, and long arrays and strings are cut.

An object that is shown has all of its keys, unless there are very many. What is left out is counted.
"""

import json
import re
from collections.abc import Callable, Iterable, Sequence
from heapq import heappop, heappush
from typing import Any, Final, TypeVar

import msgspec

from brimful.shorten.matching import WordIndex, word_set
from brimful.shorten.segments import Shortened

_LEVELS: Final = (
    # characters of a string, simple elements of an array
    (10**9, 10**9),
    (4_000, 200),
    (1_500, 80),
    (600, 40),
    (300, 20),
    (150, 12),
    (80, 8),
)
_SMALL_LEVELS: Final = ((40, 5), (24, 3), (16, 1))  # where not all objects fit
_MAX_KEYS: Final = 40  # of an object; more are treated like elements of an array
_MAX_DEPTH: Final = 60
_MARK_LENGTH: Final = 24  # characters of a mark: a string that is longer by less than that is not cut
_MATCH_WEIGHT: Final = 20.0  # of an object that matches the query fully; the outermost weighs 1
_DEPTH_WEIGHT: Final = 0.9  # of an object inside another
_MORE_KEYS: Final = re.compile(r'(?<="…":")([\d,]+ more keys)(?="}$)')
_MAX_TRIES: Final = 6
_CLOSE_ENOUGH: Final = 0.9  # of the limit

K = TypeVar("K", str, int)


class _Node(msgspec.Struct, gc=False):
    """An object or array, and its children by key or index. The weight falls with depth, and toward the middle."""

    data: Any
    weight: float
    parent: int
    children: dict[str | int, int]


class JsonText:
    """JSON data: its objects and arrays, parents first, and its size in characters.

    Raises `ValueError` or `RecursionError` if the text is no JSON, or nested too deeply.
    """

    def __init__(self, text: str) -> None:
        self.data = json.loads(text)
        self.size = len(_dump(self.data))
        self.nodes = [_Node(self.data, 1.0, -1, {})]
        depths, index = [0], 0
        while index < len(self.nodes):
            node, depth = self.nodes[index], depths[index]
            for key, value in _items(node.data) if depth < _MAX_DEPTH else ():
                if isinstance(value, dict | list):
                    node.children[key] = len(self.nodes)
                    weight = node.weight * _DEPTH_WEIGHT
                    if isinstance(key, int):
                        weight /= 1 + min(key, len(node.data) - 1 - key)
                    self.nodes.append(_Node(value, weight, index, {}))
                    depths.append(depth + 1)
            index += 1
        self._words: WordIndex | None = None

    def weigh(self, query: str) -> list[float]:
        """Return the weight of each object or array. What contains a match weighs as much as the match."""
        weights = [node.weight for node in self.nodes]
        if word_set(query):
            if self._words is None:
                self._words = WordIndex([_own_text(node) for node in self.nodes])
            weights = [
                own + _MATCH_WEIGHT * match for own, match in zip(weights, self._words.match(query), strict=True)
            ]
            for index in range(len(weights) - 1, 0, -1):
                parent = self.nodes[index].parent
                weights[parent] = max(weights[parent], weights[index])
        return weights


class JsonShortener:
    """Shortens JSON to several lengths. What matches the query is kept first.

    >>> JsonShortener(JsonText('{"items": [' + ", ".join(map(str, range(100))) + "]}"), "").shorten(40, len).text
    '{"items":[0,1,2,"… 95 more",98,99]}'
    """

    def __init__(self, known: JsonText, query: str) -> None:
        self._known = known
        self._weights = known.weigh(query)
        self._wanted = word_set(query)
        self._texts: dict[int, str] = {}

    def shorten(self, limit: int, count: Callable[[str], int]) -> Shortened | None:
        """Return as much as fits, still valid JSON; None if nothing does."""
        text = self._shorten_values(limit, count) or self._leave_out(limit, count)
        return Shortened(text, "json", min(1.0, (len(text) / self._known.size) ** 0.5)) if text else None

    def _shorten_values(self, limit: int, count: Callable[[str], int]) -> str:
        """Return all objects with the longest strings and arrays that fit; nothing if none do."""
        low, high, best = 0, len(_LEVELS) - 1, ""
        everything = range(len(self._known.nodes))
        while low <= high:  # the first level that fits; later levels give shorter texts
            middle = (low + high) // 2
            if middle not in self._texts:
                self._texts[middle] = self._write(everything, *_LEVELS[middle])
            if count(self._texts[middle]) <= limit:
                best, high = self._texts[middle], middle - 1
            else:
                low = middle + 1
        return best

    def _leave_out(self, limit: int, count: Callable[[str], int]) -> str:
        """Return the heaviest objects that fit, with short strings and arrays; nothing if the outermost does not."""
        for characters, elements in _SMALL_LEVELS:
            room, low, high, best = 4 * limit, 0, self._known.size, ""
            sizes = [_estimate_size(node, characters, elements) for node in self._known.nodes]
            for _ in range(_MAX_TRIES):
                chosen = self._choose_nodes(sizes, room)
                text = self._write(chosen, characters, elements)
                tokens = count(text)
                if tokens <= limit:
                    low, best = room, text
                    if tokens >= _CLOSE_ENOUGH * limit or len(chosen) == len(sizes):
                        break
                elif len(chosen) == 1:
                    break
                else:
                    high = room
                guess = room * limit // max(1, tokens)
                room = guess if low < guess < high else (low + high) // 2
            if best:
                return best
        return ""

    def _choose_nodes(self, sizes: Sequence[int], room: int) -> set[int]:
        """Choose the heaviest objects and arrays that fit into a number of characters, each with all around it."""
        chosen = {0}
        room -= sizes[0]
        queue = sorted((-self._weights[index], index) for index in self._known.nodes[0].children.values())
        while queue and room > 0:
            _, index = heappop(queue)
            if sizes[index] <= room:
                chosen.add(index)
                room -= sizes[index]
                for child in self._known.nodes[index].children.values():
                    heappush(queue, (-self._weights[child], child))
        return chosen

    def _write(self, chosen: set[int] | range, characters: int, elements: int) -> str:
        return _dump(_Writer(self._known.nodes, chosen, self._wanted, characters, elements).node(0))


class _Writer:
    """Writes the chosen objects and arrays, with long strings and arrays cut."""

    def __init__(
        self, nodes: Sequence[_Node], chosen: set[int] | range, wanted: set[str], characters: int, elements: int
    ) -> None:
        self._nodes = nodes
        self._chosen = chosen
        self._wanted = wanted
        self._characters = characters
        self._elements = elements

    def node(self, index: int) -> Any:
        node = self._nodes[index]
        return self._object(node) if isinstance(node.data, dict) else self._array(node)

    def _value(self, node: _Node, key: str | int, value: Any) -> Any:
        child = node.children.get(key)
        if child is not None and child in self._chosen:
            return self.node(child)
        if isinstance(value, str):
            return self._string(value)
        if isinstance(value, dict | list) and value:
            return f"… {len(value):,} {'keys' if isinstance(value, dict) else 'elements'}"
        return value

    def _string(self, text: str) -> str:
        if len(text) <= self._characters + _MARK_LENGTH:
            return text
        return f"{text[: self._characters]}… (+{len(text) - self._characters:,} characters)"

    def _array(self, node: _Node) -> list[Any]:
        shorter: list[Any] = []
        before = -1
        for index in self._shown(node, range(len(node.data)), self._elements):
            if index - before > 1:
                shorter.append(f"… {index - before - 1:,} more")
            shorter.append(self._value(node, index, node.data[index]))
            before = index
        if len(node.data) - before > 1:
            shorter.append(f"… {len(node.data) - before - 1:,} more")
        return shorter

    def _object(self, node: _Node) -> dict[str, Any]:
        keys = list(node.data)
        if len(keys) > _MAX_KEYS:
            keys = self._shown(node, keys, max(self._elements * 4, _MAX_KEYS))
        shorter = {key: self._value(node, key, node.data[key]) for key in keys}
        hidden = len(node.data) - len(keys)
        return {**shorter, "…": f"{hidden:,} more keys"} if hidden else shorter

    def _shown(self, node: _Node, keys: Sequence[K], most: int) -> list[K]:
        """Return the keys of chosen objects, and of the simple values that match best or are first or last."""
        simple = [i for i, key in enumerate(keys) if key not in node.children]
        if len(simple) > most:
            last = len(keys) - 1
            matches = {i: self._match(keys[i], node.data[keys[i]]) for i in simple}
            simple = sorted(simple, key=lambda i: (-matches[i], min(i, last - i), i))[:most]
        inside = {keys[i] for i in simple} | {key for key, child in node.children.items() if child in self._chosen}
        return [key for key in keys if key in inside]

    def _match(self, key: str | int, value: Any) -> int:
        return len(self._wanted & word_set(f"{key} {value}")) if self._wanted else 0


def add_json_note(text: str, note: str) -> str:
    """Return a JSON object or array with a note at its end: the last element, or the key that counts what is left out.

    >>> add_json_note('{"id":7}', "cut"), add_json_note("[1]", "cut"), add_json_note('{"a":1,"…":"2 more keys"}', "cut")
    ('{"id":7,"…":"cut"}', '[1,"… cut"]', '{"a":1,"…":"2 more keys, cut"}')
    """
    if _MORE_KEYS.search(text):
        return _MORE_KEYS.sub(lambda found: f"{found[0]}, {note}", text)
    comma = "," if len(text) > len("{}") else ""
    return text[:-1] + comma + (f'"…":{_dump(note)}}}' if text.endswith("}") else f"{_dump(f'… {note}')}]")


def _items(data: Any) -> Iterable[tuple[str | int, Any]]:
    return data.items() if isinstance(data, dict) else enumerate(data)


def _own_text(node: _Node) -> str:
    return " ".join(f"{key} {'' if key in node.children else value}" for key, value in _items(node.data))


def _estimate_size(node: _Node, characters: int, elements: int) -> int:
    """Estimate the characters of an object or array, without the objects and arrays in it."""
    most = elements if isinstance(node.data, list) else max(elements * 4, _MAX_KEYS)
    sizes = [
        len(str(key)) * isinstance(node.data, dict) + min(len(str(value)), characters + _MARK_LENGTH) + 4
        for key, value in _items(node.data)
        if key not in node.children
    ]
    left_out = len(node.children) * _MARK_LENGTH if isinstance(node.data, dict) else _MARK_LENGTH
    return sum(sizes[:most]) + min(left_out, _MAX_KEYS * _MARK_LENGTH) + 2


def _dump(data: Any) -> str:
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"))
