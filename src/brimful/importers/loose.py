"""Fields of other programs' data, of which nothing is sure: what is of another type is as good as not there."""

from typing import Any

from brimful.core.content import Media, Part, Text
from brimful.core.lenient import decode_json
from brimful.records import Content


def mapping(value: object) -> dict[str, Any]:
    """Return an object, or an empty one.

    >>> mapping({"a": 1}), mapping([1])
    ({'a': 1}, {})
    """
    return value if isinstance(value, dict) else {}


def mappings(value: object) -> list[dict[str, Any]]:
    """Return the objects of a list.

    >>> mappings([{"a": 1}, 7]), mappings(None)
    ([{'a': 1}], [])
    """
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def parsed(data: bytes) -> dict[str, Any]:
    """Return the object that JSON tells, or an empty one.

    >>> parsed(b'{"a": 1}'), parsed(b"{")
    ({'a': 1}, {})
    """
    try:
        return mapping(decode_json(data))
    except ValueError:
        return {}


def text(value: object) -> str:
    """Return a text, or an empty one.

    >>> text("a"), text(7), text(None)
    ('a', '', '')
    """
    return value if isinstance(value, str) else ""


def texts(value: object) -> list[str]:
    """Return the texts of a list that say anything.

    >>> texts(["a", 7, ""])
    ['a']
    """
    return [each for each in value if isinstance(each, str) and each] if isinstance(value, list) else []


def name(value: object) -> str:
    """Return what may serve as a name or an id: a text or a whole number.

    >>> name("a"), name(7), name(True), name(None)
    ('a', '7', '', '')
    """
    return str(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""


def kept(**values: object) -> dict[str, Any]:
    """Return metadata without what says nothing.

    >>> kept(a=1, b=None, c=[], d=False)
    {'a': 1}
    """
    return {key: value for key, value in values.items() if value not in (None, "", False) and value not in ([], {})}


def content_of(parts: list[Part]) -> Content:
    r"""Return what a message says: a text alone is no part.

    >>> content_of([Text(text="a"), Text(text="b")])
    'a\n\nb'
    """
    if all(isinstance(part, Text) for part in parts):
        return "\n\n".join(part.text for part in parts if isinstance(part, Text))
    return tuple(parts)


def picture(data: bytes, encoded: str) -> Media | None:
    """Return a picture by its own bytes, if they are those of one.

    >>> picture(b"GIF89a", "R0lGODlh").media_type
    'image/gif'
    """
    kinds = ((b"\x89PNG", "png"), (b"\xff\xd8\xff", "jpeg"), (b"GIF8", "gif"), (b"RIFF", "webp"))
    kind = next((kind for magic, kind in kinds if data.startswith(magic)), None)
    if kind is None or (kind == "webp" and data[8:12] != b"WEBP"):
        return None
    return Media(modality="image", data=encoded, media_type=f"image/{kind}")
