r"""A plain transcript, for completion APIs without messages.

Every message starts with its speaker, an empty line separates messages, and the last line is left for the assistant.
A transcript cannot be split into messages again, because a text may contain such lines itself. So `parse` returns the
whole transcript as one text, which is what is billed.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from brimful.core.content import Media, Part, Text, ToolCall, ToolResult
from brimful.core.prompt import Message, Prompt, Request, Tool
from brimful.render.normalize import normalize_messages, placeholder
from brimful.render.renderer import Renderer
from brimful.render.rules import Report
from brimful.render.tools import json_text, object_schema

_LABELS: Final = {"system": "System", "user": "User", "assistant": "Assistant", "tool": "Tool"}


def write_request(prompt: Prompt) -> Request:
    r"""Write the request.

    >>> message = Message(role="user", name="Ada", parts=(Text(text="Hi"),))
    >>> write_request(Prompt(model="m", messages=(message,), max_output=9))
    {'model': 'm', 'max_tokens': 9, 'prompt': 'Ada: Hi\n\nAssistant:'}
    """
    request: Request = {"model": prompt.model}
    if prompt.max_output is not None:
        request["max_tokens"] = prompt.max_output
    messages = normalize_messages(prompt.messages, lambda _: False)
    lines = (*_tools(prompt.tools), *_transcript(messages), f"{_next_speaker(messages)}:")
    request["prompt"] = "\n\n".join(lines)
    return request


def read_request(request: Request) -> Prompt:
    """Read a request back, as one message."""
    message = Message(role="user", parts=(Text(text=request["prompt"]),))
    return Prompt(model=request["model"], messages=(message,), max_output=request.get("max_tokens"))


def find_violations(request: object) -> list[str]:
    """Return what a completion API would refuse."""
    report = Report()
    body = report.require_object("request", request)
    if body is not None:
        report.require_nonblank("model", body.get("model"))
        report.require_nonblank("prompt", body.get("prompt"))
        if body.get("max_tokens") is not None:
            report.require_positive("max_tokens", body["max_tokens"])
    return report.violations


RENDERER: Final = Renderer(
    wire="text",
    names_in_text=True,
    write=lambda prompt, _: write_request(prompt),
    read=read_request,
    find_violations=find_violations,
    accepts_media=lambda _: False,
)


def _tools(tools: Iterable[Tool]) -> Iterator[str]:
    lines = [
        json_text({"name": tool.name, "description": tool.description, "parameters": object_schema(tool.parameters)})
        for tool in tools
    ]
    if lines:
        yield "\n".join(("Tools:", *lines))


def _transcript(messages: Iterable[Message]) -> Iterator[str]:
    for message in messages:
        for part in message.parts:
            yield _line(message, part)


def _line(message: Message, part: Part) -> str:
    match part:
        case Text(text=text):
            return f"{_label(message)}: {text}"
        case Media():
            return f"{_label(message)}: {placeholder(part).text}"
        case ToolCall():
            return f"{_label(message)} calls {part.name} [{part.id}]: {part.arguments}"
        case ToolResult():
            return f"{part.name} {'fails' if part.is_error else 'answers'} [{part.id}]: {part.content}"


def _label(message: Message) -> str:
    return message.name or _LABELS[message.role]


def _next_speaker(messages: Iterable[Message]) -> str:
    """Return the assistant's last name."""
    labels = [_label(message) for message in messages if message.role == "assistant"]
    return labels[-1] if labels else _LABELS["assistant"]
