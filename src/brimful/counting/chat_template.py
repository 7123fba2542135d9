"""Chat templates of open models, rendered as the servers that run them do.

Rendering is deterministic: the date is an argument, never the clock.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any, Final, TypedDict, Unpack

from brimful.core.content import Text, ToolCall, ToolResult
from brimful.core.model import Runtime
from brimful.core.prompt import Message, Tool
from brimful.counting.llama_cpp import add_answer_head, to_native
from brimful.errors import CountingError, InvalidModel

DEFAULT_DATE: Final = date(2024, 7, 26)
"""The date that templates print. Any other has as many tokens; Llama 3.1's own template falls back to this one."""

_TEMPLATES: Final = Path(__file__).with_name("templates")

WireMessage = dict[str, Any]


class TemplateRefused(CountingError):
    """A chat template does not take these messages: a role, an order or a tool call that it has no form for."""


class TemplateOptions(TypedDict, total=False):
    """What a template depends on beside its source and the messages."""

    bos: str
    eos: str
    today: date
    runtime: Runtime
    thinking: bool | None


class ChatTemplate:
    r"""A chat template that can be rendered.

    >>> chatml = ChatTemplate.named("chatml")
    >>> chatml.render([{"role": "user", "content": "hi"}])
    '<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n'
    """

    def __init__(
        self,
        source: str,
        *,
        bos: str = "",
        eos: str = "",
        today: date = DEFAULT_DATE,
        runtime: Runtime = "transformers",
        thinking: bool | None = None,
    ) -> None:
        """Compile the source; `bos` and `eos` are the tokens that begin and end a text."""
        from brimful.counting.sandbox import compile_template  # noqa: PLC0415 - jinja2 loads for those who need it

        self._render = compile_template(source, today, runtime)
        self._variables: dict[str, object] = {"bos_token": bos, "eos_token": eos}
        self._as_llama_cpp = runtime == "llama.cpp"
        if thinking is not None or self._as_llama_cpp:
            self._variables["enable_thinking"] = thinking is not False

    @classmethod
    def named(cls, name: str, **options: Unpack[TemplateOptions]) -> "ChatTemplate":
        """Return the template of that name, or the one in the file of that path."""
        return cls(_read_template(name), **options)

    @property
    def continues(self) -> bool:
        """Whether a last message of the assistant's is gone on with, instead of answered."""
        return self._as_llama_cpp

    def render(
        self,
        messages: Sequence[WireMessage],
        tools: Sequence[Mapping[str, Any]] = (),
        *,
        answer: bool = True,
    ) -> str:
        """Return the text that the model reads; with `answer`, it ends where the model's answer begins."""
        shown: dict[str, Any] = {"messages": list(messages), "tools": list(tools) or None}
        try:
            if self._as_llama_cpp:
                return self._rendered_by_llama_cpp(shown, answer=answer)
            return self._render(**shown, **self._variables, add_generation_prompt=answer)
        except (
            TypeError,
            ValueError,
            LookupError,
            AttributeError,
            ArithmeticError,
            RecursionError,
        ) as error:
            # A template is a program: what it does not foresee shows as any of these.
            raise TemplateRefused(f"the chat template refused the messages: {error}") from error

    def _rendered_by_llama_cpp(self, shown: dict[str, Any], *, answer: bool) -> str:
        rendered = self._render(**to_native(shown), **self._variables, add_generation_prompt=answer)
        return add_answer_head(rendered) if answer else rendered


def template_names() -> tuple[str, ...]:
    """Return the names of the templates at hand.

    >>> "llama-3.1" in template_names()
    True
    """
    return tuple(sorted(file.name.removesuffix(".jinja") for file in _TEMPLATES.glob("*.jinja")))


@cache
def _read_template(name: str) -> str:
    if name in template_names():
        return (_TEMPLATES / f"{name}.jinja").read_text(encoding="utf-8")
    try:
        return Path(name).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        known = ", ".join(template_names())
        reason = f"no template {name!r} and no readable file of that path ({error}); known: {known}"
        raise InvalidModel("model", "chat_template", reason) from error


_SHORT_ID: Final = 9  # Mistral's templates refuse ids of any other length


def wire_messages(messages: Sequence[Message]) -> list[WireMessage]:
    """Return the messages in the form of the chat completion APIs. Names are not sent: the text already holds them.

    >>> wire_messages([Message(role="user", parts=(Text(text="Hi"),), name="Ada")])
    [{'role': 'user', 'content': 'Hi'}]
    """
    return [sent for message in messages for sent in _wire_messages(message)]


def wire_tools(tools: Sequence[Tool]) -> list[dict[str, Any]]:
    """Return the tools in the form of the chat completion APIs."""
    return [
        {
            "type": "function",
            "function": {"name": tool.name, "description": tool.description, "parameters": tool.parameters},
        }
        for tool in tools
    ]


def with_short_ids(messages: Sequence[WireMessage]) -> list[WireMessage]:
    """Return the messages with ids of tool calls cut or filled to nine characters, as Mistral's servers do.

    >>> with_short_ids([{"role": "tool", "content": "4", "tool_call_id": "call_7"}])[0]["tool_call_id"]
    '000call_7'
    """
    return [_message_with_short_ids(message) for message in messages]


def _message_with_short_ids(message: WireMessage) -> WireMessage:
    if "tool_calls" in message:
        return {**message, "tool_calls": [{**call, "id": _short_id(call["id"])} for call in message["tool_calls"]]}
    if "tool_call_id" in message:
        return {**message, "tool_call_id": _short_id(message["tool_call_id"])}
    return message


def _short_id(id: str) -> str:
    return id[-_SHORT_ID:].rjust(_SHORT_ID, "0")


def _wire_messages(message: Message) -> Iterator[WireMessage]:
    results = [part for part in message.parts if isinstance(part, ToolResult)]
    if not results or any(isinstance(part, Text | ToolCall) for part in message.parts):
        yield _wire_turn(message)
    for result in results:
        yield {
            "role": "tool",
            "content": result.content,
            "tool_call_id": result.id,
            **({"name": result.name} if result.name else {}),
        }


def _wire_turn(message: Message) -> WireMessage:
    # Neighbouring texts are joined by an empty line, as the requests' renderers do.
    turn: WireMessage = {
        "role": message.role,
        "content": "\n\n".join(part.text for part in message.parts if isinstance(part, Text)),
    }
    if calls := [part for part in message.parts if isinstance(part, ToolCall)]:
        turn["tool_calls"] = [_wire_call(call) for call in calls]
    return turn


def _wire_call(call: ToolCall) -> dict[str, Any]:
    return {
        "id": call.id,
        "type": "function",
        "function": {"name": call.name, "arguments": _parse_arguments(call.arguments)},
    }


def _parse_arguments(arguments: str) -> object:
    try:
        return json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments
