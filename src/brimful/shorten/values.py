"""The values of a text that later steps may need: identifiers, dates, names and numbers in JSON and in prose."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

_MIN_LENGTH: Final = 2  # characters; a shorter value identifies nothing
_MAX_LENGTH: Final = 80  # characters; a longer one is a text
_MAX_WHOLE: Final = 160  # characters of a text that is one value
_MAX_TEXT: Final = 100_000  # characters that are read; of a longer text, the beginning and the end
_MAX_VALUES: Final = 1_000

IDENTIFIER: Final = 1.0  # worth of what names one thing: an id, a code, a path, an address
_ERROR_WORTH: Final = 2.0  # … of an error message, so that nobody tries the same again
_SHORT: Final = 0.8  # … of a short text as a whole
_DATE: Final = 0.6
_TEXT: Final = 0.3  # … of a few words, such as a name
_NUMBER: Final = 0.15
_TIME: Final = 0.05  # … of a time of day: it hardly ever comes back as an argument
_LONG: Final = 0.02  # … of a long text

_DATE_PATTERN: Final = re.compile(r"\d{4}-\d\d-\d\d|\d\d?[./]\d\d?[./]\d{2,4}")
_TIME_PATTERN: Final = re.compile(r"\d\d?:\d\d(?::\d\d)?(?: ?[AaPp][Mm])?|\d{4}-\d\d-\d\d[T ].*")
_NUMBER_PATTERN: Final = re.compile(r"[-+$€£]?\d[\d.,]*%?")
_CODE_PATTERN: Final = re.compile(r"[A-Z]{2,6}")
_IN_PROSE: Final = re.compile(
    r"(?<![\w#@~./\\-])(?>[\w#@~./\\-]*[\d_/@\\])[\w#@~./\\:-]*+"  # identifiers, paths, addresses, dates and numbers
    r"|\b[A-Z]{2,6}\b|\b[A-Z][a-z]+(?: [A-Z][a-z]+)+"  # codes and names
)
_ERROR: Final = re.compile(r"\W*(?:\w*error|\w*exception|traceback|fatal|failed|failure|denied)\b", re.IGNORECASE)


class Value(msgspec.Struct, frozen=True, gc=False):
    """A value with its key, if it has one, and how likely it is to be needed compared with others.

    `siblings` is how many values of the text have its key.
    """

    text: str
    key: str = ""
    worth: float = _TEXT
    siblings: int = 1

    @property
    def written(self) -> str:
        """The value, with its key unless it says by itself what it is."""
        return f"{self.key} {self.text}" if self.key and self.worth < IDENTIFIER else self.text


def find_values(text: str) -> tuple[Value, ...]:
    """Return the values of a text in order, each once. An error or a short text is a value as a whole.

    >>> [value.written for value in find_values('{"order": "W-17", "total": 80, "paid": true, "by": {"name": "Ada"}}')]
    ['W-17', 'total 80', 'name Ada']
    >>> [value.text for value in find_values("Error: no seats on flight X12")]
    ['Error: no seats on flight X12']
    """
    found: dict[str, Value] = {}
    for value in _list_values(text):
        known = found.get(value.text)
        if known is None or known.worth < value.worth:
            found[value.text] = value
        if len(found) == _MAX_VALUES:
            break
    keys = Counter(value.key for value in found.values())
    return tuple(
        msgspec.structs.replace(value, siblings=keys[value.key]) if value.key and keys[value.key] > 1 else value
        for value in found.values()
    )


def write_values(values: Iterable[Value]) -> str:
    """Return values on one line. Keys of texts and dates are written once, those of numbers always.

    >>> write_values([Value("W-17", "id", 1.0), Value("2024-05-01", "date", 0.6), Value("2024-05-02", "date", 0.6)])
    'W-17, date 2024-05-01, 2024-05-02'
    """
    shown: set[str] = set()
    parts = []
    for value in values:
        is_number = _NUMBER_PATTERN.fullmatch(value.text) is not None
        parts.append(value.text if value.key in shown and not is_number else value.written)
        shown.add(value.key)
    return ", ".join(parts)


def is_error(text: str) -> bool:
    """Whether a tool result looks like an error message.

    >>> is_error("Error: not found"), is_error('{"errors": 0}')
    (True, False)
    """
    return text[:1] not in ("{", "[") and _ERROR.match(text[:_MAX_WHOLE]) is not None


def parse_json(text: str) -> Any:
    """Return the object or the list that a text is in JSON, or None if it is another text.

    >>> parse_json('{"id": 17}'), parse_json("17"), parse_json("{broken")
    ({'id': 17}, None, None)
    """
    if text.lstrip()[:1] not in ("{", "["):
        return None
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return None


def walk_json(data: Any) -> Iterator[tuple[str, str | float]]:
    """Yield the texts and numbers of JSON data in order, each with its key. Names with digits may be ids: they count.

    >>> list(walk_json({"cards": {"card_17": {"brand": "visa", "paid": True}}, "total": 80}))
    [('cards', 'card_17'), ('brand', 'visa'), ('total', 80)]
    """
    stack = [("", data)]  # no recursion: it would be slow and fail for deep data
    while stack:
        key, value = stack.pop()
        if isinstance(value, dict):
            for name in reversed(value):
                stack.append((name, value[name]))
                if any(map(str.isdigit, name)):
                    stack.append((key, name))
        elif isinstance(value, list):
            stack.extend((key, each) for each in reversed(value))
        elif value is not None and not isinstance(value, bool):
            yield key, value


def _list_values(text: str) -> Iterator[Value]:
    data = parse_json(text)
    if data is not None:
        for key, leaf in walk_json(data):
            yield from _read_leaf(key, leaf)
        return
    line = " ".join(text[: 4 * _MAX_WHOLE].split())
    if len(line) <= _MAX_WHOLE and len(text) <= 4 * _MAX_WHOLE:
        if line:
            yield Value(line, worth=_ERROR_WORTH if is_error(line) else _SHORT)
        return
    if is_error(text):
        yield Value(_cut(line), worth=_ERROR_WORTH)
        last = " ".join(text[-_MAX_WHOLE:].strip().rpartition("\n")[2].split())
        if is_error(last):
            yield Value(last, worth=_ERROR_WORTH)
    if len(text) > _MAX_TEXT:
        text = f"{text[: _MAX_TEXT // 2]} {text[-_MAX_TEXT // 2 :]}"
    for match in _IN_PROSE.finditer(text):
        value = match[0].strip(".-:/\\").rstrip("#@~.-:/\\")
        if _MIN_LENGTH <= len(value) <= _MAX_LENGTH:
            yield Value(value, worth=_worth(value))


def _cut(line: str) -> str:
    return line[:_MAX_WHOLE].rstrip() + "…"


def _read_leaf(key: str, leaf: str | float) -> Iterator[Value]:
    if not isinstance(leaf, str):
        yield Value(str(leaf), key, _NUMBER)
        return
    line = " ".join(leaf.split())
    if len(line) > _MAX_LENGTH:
        yield Value(_cut(line), key, _LONG)
    elif len(line) >= _MIN_LENGTH:
        yield Value(line, key, _worth(line))


def _worth(value: str) -> float:
    """Return how likely a value is to be an argument of a later call, by how it looks."""
    if _NUMBER_PATTERN.fullmatch(value):
        return _NUMBER
    if _DATE_PATTERN.fullmatch(value):
        return _DATE
    if _TIME_PATTERN.fullmatch(value):
        return _TIME
    if " " in value:
        return _TEXT
    has_sign = any(each in value for each in "_@/\\") or _CODE_PATTERN.fullmatch(value) is not None
    return IDENTIFIER if has_sign or any(map(str.isdigit, value)) else _TEXT
