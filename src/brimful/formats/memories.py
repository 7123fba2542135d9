"""What the formats of memory products share: their items one by one, and a memory without secrets."""

from collections.abc import Iterator
from typing import Any, Final, Unpack

from brimful.core.validation import decode_json
from brimful.errors import BrimfulError
from brimful.formats.lenient import as_dict, as_dicts
from brimful.formats.source import Entry, Skipped, Source
from brimful.records import Memory
from brimful.records.memory import MemoryFields
from brimful.secrets import mask

EMPTY: Final = "has no text"
_SINGLE_BYTES: Final = 2**20  # a larger file has many items
_FIRST_LINE_BYTES: Final = 2**20  # searched for the end of the first line of JSON lines


def read_items(source: Source, *containers: str) -> Iterator[tuple[str, Entry | Skipped]]:
    """Yield the items of a file: elements of a list, lines, or of the lists under these keys of one object.

    Every item comes with the key of its list. Other fields of the object are yielded as they are.
    """
    if not source.head.lstrip().startswith(b"{") or _is_json_lines(source):
        yield from (("", entry) for entry in source.entries())
    elif item := _read_single(source, containers):
        yield "", item
    else:
        yield from source.fields(*containers)


def is_json(source: Source) -> bool:
    """Return whether a file begins as JSON. Text that only quotes keys does not."""
    return source.head.lstrip().startswith((b"{", b"["))


def make_memory(location: str, id: str, content: str, **fields: Unpack[MemoryFields]) -> Iterator[Memory | Skipped]:
    """Yield a memory, or why there is none. A secret in its text is masked, and reported."""
    if not content.strip():
        yield Skipped(location, EMPTY)
        return
    text, secrets = mask(content)
    try:
        yield Memory(id=id, content=text, **fields)
    except BrimfulError as error:
        yield Skipped(location, str(error))
        return
    yield from (Skipped(location, f"a secret in it was masked ({kind})") for kind in secrets)


def other_fields(data: dict[str, Any], *known: str) -> dict[str, Any]:
    """Return the fields of an item that have a value and no field of their own in a memory."""
    return {key: value for key, value in data.items() if key not in known and value not in (None, "", [], {})}


def _read_single(source: Source, containers: tuple[str, ...]) -> Entry | None:
    """Return the object of a small file if it is itself an item: it has no list of items."""
    entry = source.whole() if source.size <= _SINGLE_BYTES else None
    if not isinstance(entry, Entry) or any(as_dicts(as_dict(entry.data).get(key)) for key in containers):
        return None
    return entry


def _is_json_lines(source: Source) -> bool:
    """Return whether the first line is a whole object, and more lines follow."""
    stream = source.stream()
    first, _, rest = stream.read(_FIRST_LINE_BYTES).lstrip(b"\xef\xbb\xbf \t\r\n").partition(b"\n")
    if not rest.strip():
        return False
    try:
        decode_json(first)
    except ValueError:
        return False
    return True
