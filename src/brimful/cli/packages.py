"""Lines of JSON → content packages, each error with its line.

An entry is told by its keys, in this order:

1. `tokens` is an object: a whole package, as a record holds it. Its count stands.
2. `kind`: a short form. `content` and any option of `brimful.package`; it is counted here.
3. `role`: a message in OpenAI's form. All of them together are one conversation, in the order of the file.

A short form without a `position` stands where its line stands, if it is a message or part of a tool turn: what was said
has an order even where nobody wrote down the time. The ids of other things do not depend on their line.
"""

import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, Final, Literal

import msgspec
from msgspec import UNSET, UnsetType

from brimful.cli.failure import Failure
from brimful.cli.source import parse_json, read_text, source_name
from brimful.core.content import ContentPackage, Part, Role
from brimful.core.prompt import Tool
from brimful.core.tokens import TokenCounter
from brimful.errors import BrimfulError, InvalidRequest
from brimful.packagers import conversation, package
from brimful.render import read_history, renderer_for

Form = Literal["whole", "short", "message"]

_SPOKEN: Final = ("message-", "tool-")
_FIELD: Final = re.compile(r"Object (contains unknown|missing required) field `(.+)`")
_PLACE: Final = re.compile(r"messages\[(\d+)\]\.?(?:: )?")


class Entry(msgspec.Struct, frozen=True):
    """One JSON object of the input, and where it stands."""

    where: str
    data: dict[str, Any]

    def form(self) -> Form:
        """Tell what it is, by its keys."""
        if isinstance(self.data.get("tokens"), dict):
            return "whole"
        if "kind" in self.data:
            return "short"
        if "role" in self.data:
            return "message"
        raise Failure(f"{self.where}: needs a 'kind' (content to package) or a 'role' (a message)")


class Loaded(msgspec.Struct, frozen=True):
    """What a file held: packages, and the tools of a request."""

    packages: tuple[ContentPackage, ...]
    tools: tuple[Tool, ...] = ()


class _Short(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The options of a package as JSON can say them. Ranges are checked by the package."""

    kind: str
    content: str | tuple[Part, ...]
    id: str | UnsetType = UNSET
    role: Role | UnsetType = UNSET
    name: str | UnsetType = UNSET
    importance: int | float | UnsetType = UNSET
    timestamp: int | float | str | UnsetType = UNSET
    position: int | UnsetType = UNSET
    relevance: int | float | UnsetType = UNSET
    priority: int | UnsetType = UNSET
    can_drop: bool | UnsetType = UNSET
    min_tokens: int | UnsetType = UNSET
    cluster: str | UnsetType = UNSET
    group: str | UnsetType = UNSET
    covers: tuple[str, ...] | UnsetType = UNSET
    metadata: dict[str, Any] | UnsetType = UNSET
    tokens: int | UnsetType = UNSET


def load_packages(path: str, *, counter: TokenCounter, start: float) -> Loaded:
    """Read packages from JSON lines, a JSON array, or a request in OpenAI's form. Messages get the time `start`."""
    name, text = source_name(path), read_text(path)
    request = _request(text)
    if request is not None:
        messages = _array(request["messages"], f"{name}: messages")
        return Loaded(_conversation(messages, counter, start), read_tools(request.get("tools") or [], name))
    entries = _entries(text, name)
    if not entries:
        raise Failure(f"{name}: holds no packages")
    return Loaded(tuple(_packages(entries, counter, start)))


def read_tools(data: Any, where: str) -> tuple[Tool, ...]:
    """Read tools: as OpenAI writes them (`function`), or plainly with name, description and parameters."""
    if not isinstance(data, list):
        raise Failure(f"{where}: must be a list of tools")
    if not data:
        return ()
    wrapped = [{"type": "function", "function": tool} if _plain_tool(tool) else tool for tool in data]
    probe = {"model": "any", "messages": [{"role": "user", "content": ""}], "tools": wrapped}
    try:
        return renderer_for("openai").parse(probe).tools
    except InvalidRequest as error:
        raise Failure(f"{where}: {error.violations[0]}") from None


def _plain_tool(tool: Any) -> bool:
    return isinstance(tool, dict) and "function" not in tool


def _request(text: str) -> dict[str, Any] | None:
    """Return the request if the whole text is one: in JSON lines, the second line would be too much."""
    if not text.lstrip().startswith("{"):
        return None
    try:
        data = parse_json(text, "")
    except Failure:
        return None
    return data if isinstance(data, dict) and "messages" in data else None


def _entries(text: str, name: str) -> list[Entry]:
    if text.lstrip().startswith("["):
        return _array(parse_json(text, name), name)
    # Not splitlines(): that would also split at separators which JSON allows inside of a text.
    lines = ((f"{name}:{at}", line) for at, line in enumerate(text.split("\n"), start=1))
    return [_entry(where, parse_json(line, where)) for where, line in lines if line.strip()]


def _array(data: Any, name: str) -> list[Entry]:
    if not isinstance(data, list):
        raise Failure(f"{name}: must be a list")
    return [_entry(f"{name}[{at}]", item) for at, item in enumerate(data)]


def _entry(where: str, data: Any) -> Entry:
    if not isinstance(data, dict):
        raise Failure(f"{where}: must be a JSON object, not {msgspec.json.encode(data).decode()[:40]}")
    return Entry(where, data)


def _packages(entries: Sequence[Entry], counter: TokenCounter, start: float) -> Iterator[ContentPackage]:
    messages: list[Entry] = []
    for line, entry in enumerate(entries):
        match entry.form():
            case "whole":
                yield _whole(entry)
            case "short":
                yield _short(entry, line, counter)
            case "message":
                messages.append(entry)
    yield from _conversation(messages, counter, start)


def _whole(entry: Entry) -> ContentPackage:
    try:
        return msgspec.convert(entry.data, ContentPackage)
    except msgspec.ValidationError as error:
        raise _located(entry, error) from None


def _short(entry: Entry, line: int, counter: TokenCounter) -> ContentPackage:
    try:
        short = msgspec.convert(entry.data, _Short)
        said = {key: value for key, value in msgspec.structs.asdict(short).items() if value is not UNSET}
        kind, content = said.pop("kind"), said.pop("content")
        if isinstance(short.timestamp, str):
            said["timestamp"] = _moment(short.timestamp)
        if kind.startswith(_SPOKEN):
            said.setdefault("position", line)
        return package(kind, content, counter=counter, **said)
    except msgspec.ValidationError as error:
        raise _located(entry, error) from None
    except BrimfulError as error:
        raise Failure(f"{entry.where}: {error}") from None


def _moment(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise msgspec.ValidationError(f"{text!r} is no ISO 8601 time - at `$.timestamp`") from None


def _conversation(entries: Sequence[Entry], counter: TokenCounter, start: float) -> tuple[ContentPackage, ...]:
    if not entries:
        return ()
    try:
        messages = read_history([entry.data for entry in entries])
    except InvalidRequest as error:
        raise _in_its_line(entries, error.violations[0]) from None
    return tuple(conversation(messages, counter=counter, start=start))


def _in_its_line(entries: Sequence[Entry], violation: str) -> Failure:
    """Turn `messages[3].role: …` into the line of that message."""
    place = _PLACE.match(violation)
    return Failure(f"{entries[int(place[1])].where}: {violation[place.end() :]}" if place else violation)


def _located(entry: Entry, error: msgspec.ValidationError) -> Failure:
    """Turn msgspec's `… - at `$.flex.priority`` into a line and a key. Our own checks name the key themselves."""
    if isinstance(error.__cause__, BrimfulError):
        return Failure(f"{entry.where}: {error.__cause__}")
    reason, _, path = str(error).partition(" - at `$")
    keys = [path.rstrip("`").lstrip(".")]
    if field := _FIELD.search(reason):
        keys.append(field[2])
        reason = "no such key" if field[1] == "contains unknown" else "is missing"
    return Failure(": ".join(filter(None, (entry.where, ".".join(filter(None, keys)), reason))))
