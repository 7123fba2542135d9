"""The values of a text that later steps may need: identifiers, dates, names and numbers in JSON and in prose."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import msgspec

_MIN_LENGTH: Final = 2  # characters; a shorter value identifies nothing
_MAX_LENGTH: Final = 80  # characters; a longer one is a text
_MAX_WHOLE: Final = 160  # characters of a text that is one value
_MAX_TEXT: Final = 100_000  # characters that are read; of a longer text, the beginning and the end
_MAX_VALUES: Final = 2_000
_MAX_LINES: Final = 400  # of a text that are values as a whole; of more, the ones that differ most from all others
_PHRASE: Final = 2  # spaces

IDENTIFIER: Final = 1.0  # worth of what names one thing: an id, a code, a path, an address
_ERROR_WORTH: Final = 2.0  # … of an error message, so that nobody tries the same again
_SHORT: Final = 0.8  # … of a short text as a whole
_DATE: Final = 0.6
_TEXT: Final = 0.3  # … of a few words, such as a name
_NUMBER: Final = 0.15
_TIME: Final = 0.05  # … of a time of day: it hardly ever comes back as an argument
_LONG: Final = 0.02  # … of a long text, or a line of one
_FLAG: Final = 0.05  # … of true or false
_ERROR_LINE: Final = 0.8  # … of an error message in a longer text

_DATE_PATTERN: Final = re.compile(r"\d{4}-\d\d-\d\d|\d\d?[./]\d\d?[./]\d{2,4}")
_TIME_PATTERN: Final = re.compile(r"\d\d?:\d\d(?::\d\d)?(?: ?[AaPp][Mm])?|\d{4}-\d\d-\d\d[T ].*")
_NUMBER_PATTERN: Final = re.compile(r"[-+$€£]?\d[\d.,]*%?")
_PAIR: Final = re.compile(r'"(\w{1,60})":\s?(?:"([^"\\]{2,80})"|(-?\d[\d.]{0,20}|true|false)(?=[,}\]]))')
_PLAIN_NUMBER: Final = re.compile(r"-?\d{1,18}(?:\.\d{1,18})?", re.ASCII)
_SHAPED: Final = re.compile(r"[A-Za-z]+")
_ALWAYS_NAMED: Final = re.compile(rf"{_NUMBER_PATTERN.pattern}|true|false")
_CODE_PATTERN: Final = re.compile(r"[A-Z]{2,6}")
_IN_PROSE: Final = re.compile(
    r"(?<![\w#@~./\\-])(?>[\w#@~./\\-]*[\d_/@\\])[\w#@~./\\:-]*+"  # identifiers, paths, addresses, dates and numbers
    r"|(?<![A-Z][ ,])\b[A-Z]{2,6}\b(?![ ,]+[A-Z]{2})|\b[A-Z][a-z]+(?: [A-Z][a-z]+)+"  # codes and names
)
_VARIABLE: Final = re.compile(r"\b[0-9a-f]{7,}\b|\d+")  # what differs between lines that say the same
_ERROR: Final = re.compile(r"\W*(?:\w*error|\w*exception|traceback|fatal|failed|failure|denied)\b", re.IGNORECASE)


class Value(msgspec.Struct, frozen=True, gc=False):
    """A value with its key, if it has one, and how likely a later step needs it compared with others.

    `siblings` is how many values of the text have its key or, without one, its shape. Values of the same object in a
    list have the same `row`, from 1.
    """

    text: str
    key: str = ""
    worth: float = _TEXT
    siblings: int = 1
    row: int = 0

    @property
    def written(self) -> str:
        """The value, with its key unless it says by itself what it is."""
        return f"{self.key} {self.text}" if self.key and self.worth < IDENTIFIER else self.text

    @property
    def is_likely(self) -> bool:
        """Whether a later call may well need it."""
        return self.worth >= IDENTIFIER / 2

    @property
    def is_phrase(self) -> bool:
        """Whether it is a line or a sentence, of which single words may be asked for."""
        return self.worth == _LONG or self.text.count(" ") >= _PHRASE

    @property
    def shape(self) -> str:
        """How it looks, unless it is a path or an address."""
        return "" if "/" in self.text or "." in self.text else _SHAPED.sub("a", _VARIABLE.sub("0", self.text))


def find_values(text: str) -> tuple[Value, ...]:
    """Return the values of a text in order, each once, or once for each row. An error or a short text is a whole value.

    >>> [value.written for value in find_values('{"order": "W-17", "total": 80, "paid": true, "by": {"name": "Ada"}}')]
    ['W-17', 'total 80', 'paid true', 'name Ada']
    >>> [value.text for value in find_values("Error: no seats on flight X12")]
    ['Error: no seats on flight X12']
    """
    found: dict[tuple[int, str], Value] = {}
    for value in _list_values(text):
        known = found.get((value.row, value.text))
        if known is None or known.worth < value.worth:
            found[value.row, value.text] = value
        if len(found) == _MAX_VALUES:
            break
    kinds = [value.key or value.shape for value in found.values()]
    counts = Counter(kinds)
    return tuple(
        msgspec.structs.replace(value, siblings=counts[kind]) if kind and counts[kind] > 1 else value
        for value, kind in zip(found.values(), kinds, strict=True)
    )


def write_values(values: Iterable[Value]) -> str:
    """Return values on one line, rows apart. Texts and dates have a key once, numbers always.

    >>> write_values([Value("W-17", "id", 1.0), Value("2024-05-01", "date", 0.6), Value("2024-05-02", "date", 0.6)])
    'W-17, date 2024-05-01, 2024-05-02'
    >>> write_values([Value("W-1", "id", 1.0, row=1), Value("sent", "is", row=1), Value("W-2", "id", 1.0, row=2)])
    'W-1, is sent; W-2'
    """
    shown: set[str] = set()
    text, row = "", 0
    for value in values:
        has_key = value.key in shown and _ALWAYS_NAMED.fullmatch(value.text) is None
        mark = "" if not text else ", " if value.row == row else "; "
        text += mark + (value.text if has_key else value.written)
        shown.add(value.key)
        row = value.row
    return text


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


def walk_json(data: Any) -> Iterator[tuple[str, str | float, int]]:
    """Yield the leaves of JSON data in order, each with its key and the row that it is in, from 1; 0 is no row.

    A row is an object in a list, or one whose name has digits. Such names may be ids: they count.

    >>> list(walk_json({"cards": {"card_17": {"brand": "visa", "paid": True}}, "total": 80}))
    [('cards', 'card_17', 1), ('brand', 'visa', 1), ('paid', True, 1), ('total', 80, 0)]
    """
    rows = 0
    stack: list[tuple[str, Any, int]] = [("", data, 0)]  # no recursion: it would be slow and fail for deep data
    while stack:
        key, value, row = stack.pop()
        if isinstance(value, _Row):
            rows += 1
            stack.append((key, value.value, rows))
            if value.name:
                yield key, value.name, rows
        elif isinstance(value, dict):
            stack.extend(
                (key, _Row(each, name), row) if isinstance(each, dict) and has_digit(name) else (name, each, row)
                for name, each in reversed(value.items())
            )
        elif isinstance(value, list):
            stack.extend((key, _Row(each) if isinstance(each, dict) else each, row) for each in reversed(value))
        elif value is not None:
            yield key, value, row


class _Row(msgspec.Struct, gc=False):
    """An object that is a row, and its name if it has one."""

    value: dict[str, Any]
    name: str = ""


def is_plain_number(text: str) -> bool:
    """Whether a text is a number as JSON writes it.

    >>> [is_plain_number(text) for text in ("-7.5", "80", "2e9", "$80", "1,000", "nan")]
    [True, True, False, False, False, False]
    """
    return _PLAIN_NUMBER.fullmatch(text) is not None


def has_digit(text: str) -> bool:
    return any(map(str.isdigit, text))


def _list_values(text: str) -> Iterator[Value]:
    data = parse_json(text)
    if data is None and text.startswith(('{"', '[{"')):  # JSON that was cut
        data = {match[1]: match[2] or match[3] for match in _PAIR.finditer(text[:_MAX_TEXT])} or None
    if data is None:
        yield from _read_text(text)
        return
    for key, leaf, row in walk_json(data):
        yield from _read_leaf(key, leaf, row)


def _read_text(text: str, row: int = 0) -> Iterator[Value]:
    line = " ".join(text[: 4 * _MAX_WHOLE].split())
    if len(line) <= _MAX_WHOLE and len(text) <= 4 * _MAX_WHOLE:
        if line:
            yield Value(line, worth=_ERROR_WORTH if is_error(line) else _SHORT, row=row)
        return
    if is_error(text):
        yield Value(_cut(line), worth=_ERROR_WORTH, row=row)
        last = " ".join(text[-_MAX_WHOLE:].strip().rpartition("\n")[2].split())
        if is_error(last):
            yield Value(last, worth=_ERROR_WORTH, row=row)
    lines = text.splitlines()
    if len(text) > _MAX_TEXT:
        text = f"{text[: _MAX_TEXT // 2]} {text[-_MAX_TEXT // 2 :]}"
    for match in _IN_PROSE.finditer(text):
        value = match[0].strip(".-:/\\").rstrip("#@~.-:/\\")
        if _MIN_LENGTH <= len(value) <= _MAX_LENGTH:
            yield Value(value, worth=_worth(value), row=row)
    for line in pick_lines(lines) if len(lines) > 1 else ():
        yield Value(line, worth=_ERROR_LINE if is_error(line) else _LONG, row=row)


def pick_lines(lines: Sequence[str]) -> list[str]:
    """Return the lines of a text that may be wanted as they are, in order: of many, the ones unlike most others.

    >>> pick_lines(["12:01 request 17 done", "12:02 request 18 done", "12:02 disk full", "12:03 request 19 done"])
    ['12:01 request 17 done', '12:02 disk full']
    """
    written = (" ".join(line[: 4 * _MAX_WHOLE].split()) for line in lines)
    known = [(line, _VARIABLE.sub("0", line)) for line in written if " " in line]
    counts = Counter(shape for _, shape in known)
    first: dict[str, str] = {}
    for line, shape in known:
        first.setdefault(shape, line)
    rarest = set(sorted(first, key=counts.__getitem__)[:_MAX_LINES])
    return [line if len(line) <= _MAX_WHOLE else _cut(line) for shape, line in first.items() if shape in rarest]


def _cut(line: str) -> str:
    return line[:_MAX_WHOLE].rstrip() + "…"


def _read_leaf(key: str, leaf: str | float, row: int) -> Iterator[Value]:
    if isinstance(leaf, bool):
        yield Value(str(leaf).lower(), key, _FLAG, row=row)
        return
    if not isinstance(leaf, str):
        yield Value(str(leaf), key, _NUMBER, row=row)
        return
    line = " ".join(leaf.split())
    if len(line) > _MAX_LENGTH:
        yield Value(_cut(line) if len(line) > _MAX_WHOLE else line, key, _LONG, row=row)
        if len(line) > _MAX_WHOLE:
            yield from _read_text(leaf, row)
    elif len(line) >= _MIN_LENGTH:
        yield Value(line, key, _worth(line), row=row)


def _worth(value: str) -> float:
    """Return how likely a value becomes an argument of a later call, by how it looks."""
    if _NUMBER_PATTERN.fullmatch(value):
        return _NUMBER
    if _DATE_PATTERN.fullmatch(value):
        return _DATE
    if _TIME_PATTERN.fullmatch(value):
        return _TIME
    if " " in value:
        return _TEXT
    has_sign = any(each in value for each in "_@/\\") or _CODE_PATTERN.fullmatch(value) is not None
    return IDENTIFIER if has_sign or has_digit(value) else _TEXT
