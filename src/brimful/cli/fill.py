"""`brimful fill`: build the best context for a model from packages in a file.

Each JSON object of the input is recognized by its keys, in this order:

1. `tokens` is an object: a complete package, as a record stores it. Its count is used as it is.
2. `kind`: a short form with `content` and any option of `brimful.package`; it is counted here.
3. `role`: a message in OpenAI's format. All of them form one conversation, in the order of the file.

A message or tool turn in short form without a `position` gets the position of its line, since messages have an order
even without timestamps. The ids of other kinds do not depend on their line.
"""

import os
import re
import time
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Annotated, Any, Final, Literal

import msgspec
import typer
from msgspec import UNSET, UnsetType

from brimful.assembly.assemble import assemble
from brimful.assembly.assemble import counter as counter_of
from brimful.cli import output
from brimful.cli.files import parse_json, read_context, read_text, source_name, write_context
from brimful.cli.options import (
    Completion,
    Json,
    MaxPromptTokens,
    Model,
    Now,
    Out,
    PolicyName,
    Previous,
    Price,
    RequestOnly,
    Settings,
    Window,
    read_overrides,
    resolve_model,
)
from brimful.cli.output import Failure
from brimful.core.content import ContentPackage, Form, Part, Role
from brimful.core.context import Context
from brimful.core.model import WrittenWire
from brimful.core.prompt import TokenCounter, Tool
from brimful.errors import BrimfulError, InvalidRequest
from brimful.packagers import conversation, package
from brimful.policies import load_policy
from brimful.wires import find_wire, request_bytes
from brimful.wires.openai_chat import read_history

EntryForm = Literal["whole", "short", "message"]

_MESSAGE_PREFIXES: Final = ("message-", "tool-")
_FIELD_ERROR: Final = re.compile(r"Object (contains unknown|missing required) field `(.+)`")
_MESSAGE_PATH: Final = re.compile(r"messages\[(\d+)\]\.?(?:: )?")


class Entry(msgspec.Struct, frozen=True):
    """One JSON object of the input, and its position for error messages."""

    where: str
    data: dict[str, Any]

    def form(self) -> EntryForm:
        """Return the form of the entry, recognized by its keys."""
        if isinstance(self.data.get("tokens"), dict):
            return "whole"
        if "kind" in self.data:
            return "short"
        if "role" in self.data:
            return "message"
        raise Failure(f"{self.where}: needs a 'kind' (content to package) or a 'role' (a message)")


class LoadedPackages(msgspec.Struct, frozen=True):
    """The packages of a file, and the tools of a request."""

    packages: tuple[ContentPackage, ...]
    tools: tuple[Tool, ...] = ()


class _ShortForm(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The options of a package in JSON. The package checks their ranges."""

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
    can_shrink: bool | UnsetType = UNSET
    forms: tuple[Form, ...] | UnsetType = UNSET
    cluster: str | UnsetType = UNSET
    group: str | UnsetType = UNSET
    covers: tuple[str, ...] | UnsetType = UNSET
    metadata: dict[str, Any] | UnsetType = UNSET
    tokens: int | UnsetType = UNSET


def load_packages(path: str, *, counter: TokenCounter, start: float) -> LoadedPackages:
    """Read packages from JSON lines, a JSON array, or a request in OpenAI's format. Messages get the time `start`."""
    name, text = source_name(path), read_text(path)
    request = _request(text)
    if request is not None:
        messages = _array(request["messages"], f"{name}: messages")
        return LoadedPackages(_conversation(messages, counter, start), read_tools(request.get("tools") or [], name))
    entries = _entries(text, name)
    if not entries:
        raise Failure(f"{name}: contains no packages")
    return LoadedPackages(tuple(_packages(entries, counter, start)))


def read_tools(data: Any, where: str) -> tuple[Tool, ...]:
    """Read tools in OpenAI's format (`function`), or as plain objects with name, description and parameters."""
    if not isinstance(data, list):
        raise Failure(f"{where}: must be a list of tools")
    if not data:
        return ()
    wrapped = [
        {"type": "function", "function": tool} if isinstance(tool, dict) and "function" not in tool else tool
        for tool in data
    ]
    probe = {"model": "any", "messages": [{"role": "user", "content": ""}], "tools": wrapped}
    try:
        return find_wire("openai").parse(probe).tools
    except InvalidRequest as error:
        raise Failure(f"{where}: {error.violations[0]}") from None


def _request(text: str) -> dict[str, Any] | None:
    """Return the request if the whole text is one; JSON lines with several lines are not valid JSON."""
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
    # Not splitlines(): that would also split at separators that JSON allows inside strings.
    lines = ((f"{name}:{i}", line) for i, line in enumerate(text.split("\n"), start=1))
    return [_entry(where, parse_json(line, where)) for where, line in lines if line.strip()]


def _array(data: Any, name: str) -> list[Entry]:
    if not isinstance(data, list):
        raise Failure(f"{name}: must be a list")
    return [_entry(f"{name}[{i}]", item) for i, item in enumerate(data)]


def _entry(where: str, data: Any) -> Entry:
    if not isinstance(data, dict):
        raise Failure(f"{where}: must be a JSON object, not {msgspec.json.encode(data).decode()[:40]}")
    return Entry(where, data)


def _packages(entries: Sequence[Entry], counter: TokenCounter, start: float) -> Iterator[ContentPackage]:
    messages: list[Entry] = []
    for line, entry in enumerate(entries):
        match entry.form():
            case "whole":
                yield _whole_package(entry)
            case "short":
                yield _short_package(entry, line, counter)
            case "message":
                messages.append(entry)
    yield from _conversation(messages, counter, start)


def _whole_package(entry: Entry) -> ContentPackage:
    try:
        return msgspec.convert(entry.data, ContentPackage)
    except msgspec.ValidationError as error:
        raise _error_at_key(entry, error) from None


def _short_package(entry: Entry, line: int, counter: TokenCounter) -> ContentPackage:
    try:
        short = msgspec.convert(entry.data, _ShortForm)
        options = {key: value for key, value in msgspec.structs.asdict(short).items() if value is not UNSET}
        kind, content = options.pop("kind"), options.pop("content")
        if isinstance(short.timestamp, str):
            options["timestamp"] = _read_timestamp(short.timestamp)
        if kind.startswith(_MESSAGE_PREFIXES):
            options.setdefault("position", line)
        return package(kind, content, counter=counter, **options)
    except msgspec.ValidationError as error:
        raise _error_at_key(entry, error) from None
    except BrimfulError as error:
        raise Failure(f"{entry.where}: {error}") from None


def _read_timestamp(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise msgspec.ValidationError(f"{text!r} is not an ISO 8601 time - at `$.timestamp`") from None


def _conversation(entries: Sequence[Entry], counter: TokenCounter, start: float) -> tuple[ContentPackage, ...]:
    if not entries:
        return ()
    try:
        messages = read_history([entry.data for entry in entries])
    except InvalidRequest as error:
        raise _error_at_message(entries, error.violations[0]) from None
    return tuple(conversation(messages, counter=counter, start=start))


def _error_at_message(entries: Sequence[Entry], violation: str) -> Failure:
    """Replace the `messages[3]` of an error with the line of that message."""
    path = _MESSAGE_PATH.match(violation)
    return Failure(f"{entries[int(path[1])].where}: {violation[path.end() :]}" if path else violation)


def _error_at_key(entry: Entry, error: msgspec.ValidationError) -> Failure:
    """Turn the error of msgspec, `… - at `$.flex.priority``, into a line and a key."""
    if isinstance(error.__cause__, BrimfulError):
        return Failure(f"{entry.where}: {error.__cause__}")
    reason, _, path = str(error).partition(" - at `$")
    keys = [path.rstrip("`").lstrip(".")]
    if field := _FIELD_ERROR.search(reason):
        keys.append(field[2])
        reason = "unknown key" if field[1] == "contains unknown" else "is missing"
    return Failure(": ".join(filter(None, (entry.where, ".".join(filter(None, keys)), reason))))


EXAMPLES: Final = """\
Examples:
  brimful fill packages.jsonl --model gpt-4o
  brimful fill chat.jsonl -m gpt-4 -p window --completion 3000 --out a.json
  brimful fill chat.jsonl -m gpt-4o --previous a.json --set pools.recent.max_items=50
  brimful fill request.json -m claude-sonnet-4-5 --request > body.json"""


def register(app: typer.Typer) -> None:
    app.command("fill", epilog=EXAMPLES)(fill)


def fill(  # noqa: PLR0913 - the options of a command
    *,
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="JSON lines, a JSON array, or a request. `-` reads standard input.")
    ],
    model: Model,
    policy: PolicyName = "default",
    now: Now = None,
    window: Window = None,
    completion: Completion = None,
    max_prompt_tokens: MaxPromptTokens = None,
    previous: Previous = None,
    tools: Annotated[
        str | None, typer.Option("--tools", metavar="FILE", help="A JSON list of tools in OpenAI's format.")
    ] = None,
    price: Price = None,
    settings: Settings = None,
    wire: Annotated[
        WrittenWire | None, typer.Option("--wire", help="Write the request in this format, instead of the model's.")
    ] = None,
    out: Out = None,
    request: RequestOnly = False,
    as_json: Json = False,
) -> None:
    """Build the best context for a model from a file.

    Each line of FILE is a JSON object, recognized by its keys:

    - `kind`: content to package and count, with any option of a package:
      {"kind": "memory-semantic", "content": "Ada likes tea.", "relevance": 0.8}
    - `role`: a message in OpenAI's format; all of them form one conversation:
      {"role": "user", "content": "When is the demo?"}
    - `tokens` is an object: a complete package, as in a saved context.

    Options of a package: id, role, name, importance, timestamp (seconds or
    ISO 8601), position, relevance, priority, can_drop, min_tokens, can_shrink,
    forms, cluster, group, covers, metadata, tokens. FILE may also be a JSON
    array of such objects, or a request in OpenAI's format.
    """
    info = resolve_model(model)
    changes = read_overrides(settings, price)
    moment = time.time() if now is None else now
    method = load_policy(policy, overrides=changes, environ=os.environ).counting
    loaded = load_packages(file, counter=counter_of(info, method=method), start=moment)
    context = assemble(
        loaded.packages,
        model=info,
        policy=policy,
        now=moment,
        previous=read_context(previous) if previous else None,
        tools=_tools(tools) if tools else loaded.tools,
        window=window,
        completion=completion,
        max_prompt_tokens=max_prompt_tokens,
        overrides=changes,
        wire=wire,
    )
    write_context(out, context)
    if not show_data(context, request=request, as_json=as_json):
        output.write(context.report())


def show_data(context: Context, *, request: bool, as_json: bool) -> bool:
    """Print the request or the context as JSON, if an option asks for it. Return whether it did."""
    if request:
        output.write_json(request_bytes(context.request))
    elif as_json:
        output.show_json(context)
    return request or as_json


def _tools(path: str) -> tuple[Tool, ...]:
    name = source_name(path)
    return read_tools(parse_json(read_text(path), name), name)
