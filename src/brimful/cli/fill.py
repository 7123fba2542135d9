"""`brimful fill`: packages in, the best context for a model out, with its record."""

import os
import time
from typing import Annotated, Final

import typer

from brimful.assembly import assemble
from brimful.assembly import counter as counter_of
from brimful.cli import output
from brimful.cli.options import (
    Completion,
    Json,
    Model,
    Now,
    Out,
    PolicyName,
    RequestOnly,
    Settings,
    Window,
    known_model,
)
from brimful.cli.options import overrides as read_overrides
from brimful.cli.packages import load_packages, read_tools
from brimful.cli.source import parse_json, read_context, read_text, source_name, write_context
from brimful.core.context import Context
from brimful.core.model import Wire
from brimful.core.prompt import Tool
from brimful.policies import load_policy
from brimful.render import request_bytes

EXAMPLES: Final = """\
Examples:
  brimful fill packages.jsonl --model gpt-4o
  brimful fill chat.jsonl -m gpt-4 -p window --completion 3000 --out a.json
  brimful fill chat.jsonl -m gpt-4o --previous a.json --set pools.recent.most=50
  brimful fill request.json -m claude-sonnet-4-5 --request > body.json"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("fill", epilog=EXAMPLES)(fill)


def fill(  # noqa: PLR0913 - the options of a command
    *,
    file: Annotated[
        str,
        typer.Argument(metavar="FILE", help="JSON lines, a JSON array, or a request. `-` is standard input."),
    ],
    model: Model,
    policy: PolicyName = "default",
    now: Now = None,
    window: Window = None,
    completion: Completion = None,
    previous: Annotated[
        str | None,
        typer.Option("--previous", metavar="FILE", help="The record of the context before: keeps its prefix."),
    ] = None,
    tools: Annotated[
        str | None, typer.Option("--tools", metavar="FILE", help="A JSON list of tools, in OpenAI's form.")
    ] = None,
    settings: Settings = None,
    wire: Annotated[
        Wire | None, typer.Option("--wire", help="Write the request in this form, not the model's.")
    ] = None,
    out: Out = None,
    request: RequestOnly = False,
    as_json: Json = False,
) -> None:
    """Fill a model's window with the best of the packages, and report what went where.

    Each line of FILE is one JSON object, told by its keys:

    - `tokens` is an object: a whole content package, as a record holds it.
    - `kind`: content to package and count, with any option of a package:
      {"kind": "memory-semantic", "content": "Ada likes tea.", "relevance": 0.8}
    - `role`: a message in OpenAI's form; all of them are one conversation:
      {"role": "user", "content": "When is the demo?"}

    Options of a package: id, role, name, importance, timestamp (seconds or
    ISO 8601), position, relevance, priority, can_drop, min_tokens, cluster,
    group, covers, metadata, tokens. FILE may also be a JSON array of such
    objects, or one request in OpenAI's form.
    """
    info = known_model(model)
    changes = read_overrides(settings)
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
        overrides=changes,
        wire=wire,
    )
    write_context(out, context)
    if not show_data(context, request=request, as_json=as_json):
        output.say(context.report())


def show_data(context: Context, *, request: bool, as_json: bool) -> bool:
    """Print the request or the record, if that is what is wanted."""
    if request:
        output.say(request_bytes(context.request).decode())
    elif as_json:
        output.show_json(context)
    return request or as_json


def _tools(path: str) -> tuple[Tool, ...]:
    name = source_name(path)
    return read_tools(parse_json(read_text(path), name), name)
