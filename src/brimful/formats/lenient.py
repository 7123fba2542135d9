"""Lenient access to other programs' JSON: a value of the wrong type counts as missing.

Timestamps become seconds since 1970.
"""

import re
from datetime import UTC, datetime
from typing import Any, Final

from brimful.core import validation
from brimful.core.content import Media, Part, Text
from brimful.core.validation import decode_json
from brimful.records import Content

_MILLISECONDS: Final = 1e11  # a larger number is in milliseconds: in seconds, it would be after the year 5138
# SillyTavern writes three forms of its own (public/scripts/utils.js, parseTimestamp), in the time zone where it ran:
# `2024-7-12@01h31m37s`, `2024-6-5 @14h 56m 50s 682ms` and `June 19, 2023 2:20pm`.
_SILLYTAVERN_TIME: Final = re.compile(
    r"(\d{4})-(\d{1,2})-(\d{1,2}) ?@(\d{1,2})h ?(\d{1,2})m ?(\d{1,2})s(?: ?(\d{1,3})ms)?"
)
_WRITTEN_OUT_TIME: Final = re.compile(r"([A-Za-z]+) (\d{1,2}), (\d{4}) (\d{1,2}):(\d{2}) ?([ap]m)", re.IGNORECASE)
_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_NOON: Final = 12


def as_dict(value: object) -> dict[str, Any]:
    """Return a dict; an empty one for any other type.

    >>> as_dict({"a": 1}), as_dict([1])
    ({'a': 1}, {})
    """
    return value if isinstance(value, dict) else {}


def as_dicts(value: object) -> list[dict[str, Any]]:
    """Return the dicts of a list.

    >>> as_dicts([{"a": 1}, 7]), as_dicts(None)
    ([{'a': 1}], [])
    """
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def parse_object(data: bytes) -> dict[str, Any]:
    """Return a JSON object; an empty one if it is invalid.

    >>> parse_object(b'{"a": 1}'), parse_object(b"{")
    ({'a': 1}, {})
    """
    try:
        return as_dict(decode_json(data))
    except ValueError:
        return {}


def as_str(value: object) -> str:
    """Return a string; an empty one for any other type.

    >>> as_str("a"), as_str(7), as_str(None)
    ('a', '', '')
    """
    return value if isinstance(value, str) else ""


def as_strs(value: object) -> list[str]:
    """Return the non-empty strings of a list.

    >>> as_strs(["a", 7, ""])
    ['a']
    """
    return [each for each in value if isinstance(each, str) and each] if isinstance(value, list) else []


def as_id(value: object) -> str:
    """Return a string or an integer as a name or id; empty for any other type.

    >>> as_id("a"), as_id(7), as_id(True), as_id(None)
    ('a', '7', '', '')
    """
    return str(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""


def without_empty(**values: object) -> dict[str, Any]:
    """Return metadata without empty values.

    >>> without_empty(a=1, b=None, c=[], d=False)
    {'a': 1}
    """
    return {key: value for key, value in values.items() if value not in (None, "", False) and value not in ([], {})}


def message_content(parts: list[Part]) -> Content:
    r"""Return the content of a message: a string if there are only texts.

    >>> message_content([Text(text="a"), Text(text="b")])
    'a\n\nb'
    """
    if all(isinstance(part, Text) for part in parts):
        return "\n\n".join(part.text for part in parts if isinstance(part, Text))
    return tuple(parts)


def image_from_bytes(data: bytes, encoded: str) -> Media | None:
    """Return an image with the media type that its bytes have; None if they are not an image.

    >>> image_from_bytes(b"GIF89a", "R0lGODlh").media_type
    'image/gif'
    """
    kinds = ((b"\x89PNG", "png"), (b"\xff\xd8\xff", "jpeg"), (b"GIF8", "gif"), (b"RIFF", "webp"))
    kind = next((kind for magic, kind in kinds if data.startswith(magic)), None)
    if kind is None or (kind == "webp" and data[8:12] != b"WEBP"):
        return None
    return Media(modality="image", data=encoded, media_type=f"image/{kind}")


def parse_time(value: object) -> float | None:
    """Return a time in seconds since 1970; None if it cannot be parsed. UTC is assumed if there is no time zone.

    >>> parse_time(1700000000), parse_time(1700000000000), parse_time("2023-11-14T22:13:20"), parse_time("soon")
    (1700000000.0, 1700000000.0, 1700000000.0, None)
    >>> parse_time("2023-11-14@22h13m20s"), parse_time("November 14, 2023 10:13pm"), parse_time("1700000000.000100")
    (1700000000.0, 1699999980.0, 1700000000.0001)
    """
    if isinstance(value, str):
        return _parse_time_string(value.strip())
    number = validation.to_finite_float(value)
    if number is None:
        return None
    return number / 1000 if abs(number) > _MILLISECONDS else number


def _parse_time_string(text: str) -> float | None:
    if re.fullmatch(r"\d{1,20}(\.\d{1,9})?", text):
        return parse_time(float(text))
    try:
        moment = _parse_sillytavern_time(text) or datetime.fromisoformat(text)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None


def _parse_sillytavern_time(text: str) -> datetime | None:
    if match := _SILLYTAVERN_TIME.match(text):
        *whole, thousandths = (int(part or 0) for part in match.groups())
        year, month, day, hour, minute, second = whole
        return datetime(year, month, day, hour, minute, second, thousandths * 1000, tzinfo=UTC)
    if match := _WRITTEN_OUT_TIME.match(text):
        name, *numbers, half = match.groups()
        month = _MONTHS.index(name[:3].lower()) + 1
        day, year, hour, minute = map(int, numbers)
        hour = hour % _NOON + _NOON * (half.lower() == "pm")
        return datetime(year, month, day, hour, minute, tzinfo=UTC)
    return None
