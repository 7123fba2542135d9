r"""Chat templates as llama.cpp renders them: its own template engine prints some values differently.

Read in llama.cpp's `common/jinja` and `common/chat.cpp`, and confirmed by a real server in the tests:

- Numbers with a fraction have six digits: in JSON as C++ streams write them (`1.0` is `1`), elsewhere as
  `std::to_string` does (`1e-7` is `0.0`).
- White space is what C's `isspace` says; Python strips more (a no-break space, for one).
- `dictsort` sorts by bytes, and minds case; nothing (`None`) prints as nothing.
- Templates that support thinking enable it, unless the server was started with thinking disabled.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

_SPACE: Final = " \t\n\v\f\r"
_MAX_INT: Final = 2**63 - 1  # larger integers are read as floating-point numbers
_GEMMA_4_TURN: Final = ("<turn|>\n", "<|turn>model\n")


class CDouble(float):
    """A floating-point number.

    >>> str(CDouble(1e-7)), str(CDouble(2.5)), str(CDouble(3))
    ('0.0', '2.5', '3.0')
    """

    __slots__ = ()

    def __str__(self) -> str:
        """Format like `std::to_string`, without trailing zeros."""
        whole, _, fraction = f"{float(self):.6f}".partition(".")
        return f"{whole}.{fraction.rstrip('0') or '0'}"


class CString(str):
    r"""A string with C's definition of white space.

    >>> CString(" \u00a0hi\n").strip()
    '\xa0hi'
    """

    __slots__ = ()

    def strip(self, chars: str | None = None, /) -> str:
        """Strip both ends."""
        return super().strip(_SPACE if chars is None else chars)

    def lstrip(self, chars: str | None = None, /) -> str:
        """Strip the start."""
        return super().lstrip(_SPACE if chars is None else chars)

    def rstrip(self, chars: str | None = None, /) -> str:
        """Strip the end."""
        return super().rstrip(_SPACE if chars is None else chars)


def to_native(value: Any) -> Any:
    """Convert JSON data to llama.cpp's values."""
    match value:
        case str():
            return CString(value)
        case bool() | None:
            return value
        case int():
            return value if abs(value) <= _MAX_INT else CDouble(value)
        case float():
            return CDouble(value)
        case Mapping():
            return {CString(key): to_native(item) for key, item in value.items()}
        case _:
            return [to_native(item) for item in value]


def printed_value(value: Any) -> Any:
    """Return what is printed for a value: None prints as nothing."""
    return "" if value is None else value


def add_answer_head(rendered: str) -> str:
    """Add the start of the answer if Gemma 4's template omits it, as the server does."""
    before, head = _GEMMA_4_TURN
    return rendered + head if rendered.endswith(before) else rendered


# -- filters: their signatures are Jinja's ---------------------------------------------------------------------------


def to_json(
    value: Any,
    ensure_ascii: bool = False,  # noqa: FBT001, FBT002
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
) -> str:
    """Write JSON.

    >>> to_json({"a": [1.0, 2.5e-8, None]})
    '{"a": [1, 2.5e-08, null]}'
    """
    between, colon = separators or (", " if indent is None else ",", ": ")
    return _JsonWriter(between, colon, indent, ensure_ascii).write(value, 0)


def trim(value: Any, chars: str | None = None) -> str:
    """Strip both ends."""
    return CString(value).strip(chars)


def dictsort(value: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Return the items of an object, sorted by the bytes of their keys.

    >>> dictsort({"b": 1, "A": 2, "a": 3})
    [('A', 2), ('a', 3), ('b', 1)]
    """
    return sorted(value.items(), key=lambda item: item[0])


class _JsonWriter:
    """Writes JSON with fixed separators."""

    def __init__(self, between: str, colon: str, indent: int | None, ascii: bool) -> None:  # noqa: FBT001
        self._between, self._colon, self._indent, self._ascii = between, colon, indent, ascii

    def write(self, value: Any, level: int) -> str:
        match value:
            case bool() | int() | str() | None:
                return json.dumps(value, ensure_ascii=self._ascii)
            case float():
                return f"{value:g}"
            case Mapping():
                pairs = (
                    f"{self.write(key, 0)}{self._colon}{self.write(item, level + 1)}" for key, item in value.items()
                )
                return self._block("{", list(pairs), "}", level)
            case _:
                return self._block("[", [self.write(item, level + 1) for item in value], "]", level)

    def _block(self, opening: str, items: list[str], closing: str, level: int) -> str:
        if not items or self._indent is None:
            return opening + self._between.join(items) + closing
        line = "\n" + " " * self._indent * level
        deeper = line + " " * self._indent
        return opening + deeper + (self._between + deeper).join(items) + line + closing
