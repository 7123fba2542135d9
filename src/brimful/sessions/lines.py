"""Lines of JSON in a file that another process may be writing, in bounded memory."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from brimful.formats.lenient import as_dict, as_dicts, as_str, parse_time
from brimful.sessions.events import Event, Unknown

MAX_LINE: Final = 64 * 2**20  # bytes; a longer line is skipped
Progress = Callable[[int], None]
Lines = Iterator[tuple[int, Any]]
"""Objects with their places, or `Unknown` ones."""
_DECODER: Final = msgspec.json.Decoder(dict[str, Any])


def read_lines(path: Path, start: int = 0, progress: Progress = lambda _: None) -> Lines:
    """Yield the objects in the lines of a file from an offset on, each with its offset. What is none, is `Unknown`.

    The last line may be half written: without its end, it is left for the next time.
    """
    with path.open("rb") as file:
        file.seek(start)
        place = start
        while line := file.readline(MAX_LINE):
            if not line.endswith(b"\n"):
                if len(line) < MAX_LINE:
                    return
                yield place, Unknown("a line that is too long")
                while (rest := file.readline(MAX_LINE)) and not rest.endswith(b"\n"):
                    pass
            elif line.strip():
                try:
                    yield place, _DECODER.decode(line)
                except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
                    yield place, Unknown("a line that is no JSON object")
            place = file.tell()
            progress(place)


def read_events(lines: Lines, read_line: Callable[[int, dict[str, Any]], Iterator[Event]]) -> Iterator[Event]:
    """Yield what each line tells."""
    for place, line in lines:
        if isinstance(line, Unknown):
            yield line
        else:
            yield from read_line(place, line)


def text_of(content: object) -> str:
    r"""Return the text of a content: a string, or a list of strings and of blocks with text.

    >>> text_of([{"type": "text", "text": "One"}, {"type": "image"}, "Two"])
    'One\nTwo'
    """
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    texts = (each if isinstance(each, str) else as_str(as_dict(each).get("text")) for each in content)
    return "\n".join(text for text in texts if text)


def time_of(line: Mapping[str, Any], key: str = "timestamp") -> float:
    """Return when a line was written; 0 if it does not say."""
    return parse_time(line.get(key)) or 0.0


def count_images(content: object) -> int:
    """Return how many images a content has."""
    return sum("image" in as_str(each.get("type")) for each in as_dicts(content))


def as_count(value: object) -> int:
    """Return a number of tokens; 0 for anything else."""
    return int(value) if isinstance(value, int | float) and 0 < value < 10**12 else 0


def as_json(value: object) -> str:
    """Write the arguments of a call."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
