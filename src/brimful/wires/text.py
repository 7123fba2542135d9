r"""A plain transcript, for completion APIs without messages.

Every message starts with its speaker, an empty line separates messages, and the last line is left for the assistant.
A line within a message that looks like the start of another one is quoted with `> `. `parse` returns the whole
transcript as one text, which is billed.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from brimful.core.content import Media, Part, Text, ToolCall, ToolResult
from brimful.core.labels import fold, line_prefix, quote_lines, speaker_name
from brimful.core.prompt import Message, Prompt, Request, Tool
from brimful.wires.normalize import normalize_messages, placeholder
from brimful.wires.openai_chat import ChatDraft, list_count_requests, prepare
from brimful.wires.rules import Object, Report, finds_violations
from brimful.wires.tools import json_text, object_schema
from brimful.wires.wire import Wire

_LABELS: Final = {"system": "System", "user": "User", "assistant": "Assistant", "tool": "Tool"}
_TOOLS: Final = "Tools"
_TOOL_LINE: Final = re.compile(r"\S.* calls \S+ \[[^\]]*\]|\S+ (?:answers|fails) \[[^\]]*\]")


def write_request(prompt: Prompt) -> Request:
    r"""Write the request.

    >>> message = Message(role="user", name="Ada", parts=(Text(text="Hi"),))
    >>> write_request(Prompt(model="m", messages=(message,), max_output=9))
    {'model': 'm', 'max_tokens': 9, 'prompt': 'Ada: Hi\n\nAssistant:'}
    """
    request: Request = {"model": prompt.model}
    if prompt.max_output is not None:
        request["max_tokens"] = prompt.max_output
    transcript = _Transcript(normalize_messages(prompt.messages, lambda _: False))
    lines = (*_tools(prompt.tools), *transcript.lines(), f"{transcript.next_speaker}:")
    request["prompt"] = "\n\n".join(lines)
    return request


def read_request(request: Request) -> Prompt:
    """Read a request back, as one message."""
    message = Message(role="user", parts=(Text(text=request["prompt"]),))
    return Prompt(model=request["model"], messages=(message,), max_output=request.get("max_tokens"))


@finds_violations
def find_violations(report: Report, body: Object) -> None:
    """Return what a completion API would refuse."""
    report.require_nonblank("prompt", body.get("prompt"))
    if body.get("max_tokens") is not None:
        report.require_positive("max_tokens", body["max_tokens"])


def _tools(tools: Iterable[Tool]) -> Iterator[str]:
    lines = [
        json_text({"name": tool.name, "description": tool.description, "parameters": object_schema(tool.parameters)})
        for tool in tools
    ]
    if lines:
        yield "\n".join((f"{_TOOLS}:", *lines))


class _Transcript:
    """Messages as lines. No text and no name can imitate the line of another speaker."""

    def __init__(self, messages: Sequence[Message]) -> None:
        self._messages = messages
        own = [_label(message) for message in messages if message.role == "assistant"]
        self.next_speaker = own[-1] if own else _LABELS["assistant"]
        self._own = frozenset(map(fold, own))
        labels = [*_LABELS.values(), _TOOLS, *map(self._label_of, messages)]
        self._prefixes = frozenset(line_prefix(fold(label)) for label in labels)

    def lines(self) -> Iterator[str]:
        """Yield a line for each part of each message."""
        for message in self._messages:
            for part in message.parts:
                yield self._line(message, part)

    def _line(self, message: Message, part: Part) -> str:
        label = self._label_of(message)
        match part:
            case Text(text=text):
                return f"{label}: {self._quote(text)}"
            case Media():
                return f"{label}: {placeholder(part).text}"
            case ToolCall():
                return f"{label} calls {part.name} [{part.id}]: {self._quote(part.arguments)}"
            case ToolResult():
                verb = "fails" if part.is_error else "answers"
                return f"{part.name} {verb} [{part.id}]: {self._quote(part.content)}"

    def _label_of(self, message: Message) -> str:
        label = _label(message)
        return f"({label})" if message.role != "assistant" and message.name and fold(label) in self._own else label

    def _quote(self, text: str) -> str:
        def is_label(folded: str) -> bool:
            prefix = line_prefix(folded)
            return (prefix in self._prefixes or _TOOL_LINE.fullmatch(prefix) is not None) and ":" in folded

        return quote_lines(text, is_label)


def _label(message: Message) -> str:
    return speaker_name(message.name) if message.name else _LABELS[message.role]


WIRE: Final = Wire(
    name="text",
    provider="text",
    write=lambda prompt, _: write_request(prompt),
    read=read_request,
    find_violations=find_violations,
    is_templated=True,
    make_draft=ChatDraft,
    get_path=lambda request, stream: "/completions",  # noqa: ARG005 - called by position
    prepare=prepare,
    count_requests=lambda request: list_count_requests(request, "/completions"),
    models_path="/models",
)
