"""Chat templates of open models, rendered as the servers that run them do.

Rendering is deterministic: the date is an argument, never the clock.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any, Final, NoReturn, TypedDict, Unpack

from brimful.core.content import Text, ToolCall, ToolResult
from brimful.core.model import Runtime
from brimful.core.prompt import Message, Tool
from brimful.counting import llama_cpp
from brimful.errors import CountingError, InvalidModel

DEFAULT_DATE: Final = date(2024, 7, 26)
"""The date that templates print. Any date has as many tokens; Llama 3.1's template defaults to this one."""

_TEMPLATES: Final = Path(__file__).with_name("templates")

WireMessage = dict[str, Any]
_SHORT_ID: Final = 9  # characters; Mistral's templates refuse any other length


class TemplateRefused(CountingError):
    """A chat template rejects these messages: it has no form for a role, an order or a tool call."""


class TemplateOptions(TypedDict, total=False):
    """What the output depends on besides the template's source and the messages."""

    bos: str
    eos: str
    today: date
    runtime: Runtime
    thinking: bool | None


class ChatTemplate:
    r"""A compiled chat template.

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
        """Compile the source; `bos` and `eos` are the tokens at the beginning and end of a text."""
        self._render = _compile(source, today, runtime)
        self._variables: dict[str, object] = {"bos_token": bos, "eos_token": eos}
        self._is_llama_cpp = runtime == "llama.cpp"
        if thinking is not None or self._is_llama_cpp:
            self._variables["enable_thinking"] = thinking is not False

    @classmethod
    def named(cls, name: str, **options: Unpack[TemplateOptions]) -> "ChatTemplate":
        """Return a built-in template by name, or a template file by path."""
        return cls(_read_template(name), **options)

    @property
    def continues(self) -> bool:
        """Whether a final assistant message is continued instead of answered."""
        return self._is_llama_cpp

    def render(
        self,
        messages: Sequence[WireMessage],
        tools: Sequence[Mapping[str, Any]] = (),
        *,
        answer: bool = True,
    ) -> str:
        """Return the text that the model reads, with `answer` up to the start of the model's answer."""
        variables: dict[str, Any] = {"messages": list(messages), "tools": list(tools) or None}
        try:
            if self._is_llama_cpp:
                return self._render_as_llama_cpp(variables, answer=answer)
            return self._render(**variables, **self._variables, add_generation_prompt=answer)
        except (
            TypeError,
            ValueError,
            LookupError,
            AttributeError,
            ArithmeticError,
            RecursionError,
        ) as error:
            # A template is a program: input that it does not expect raises any of these.
            raise TemplateRefused(f"the chat template refused the messages: {error}") from error

    def _render_as_llama_cpp(self, variables: dict[str, Any], *, answer: bool) -> str:
        rendered = self._render(**llama_cpp.to_native(variables), **self._variables, add_generation_prompt=answer)
        return llama_cpp.add_answer_head(rendered) if answer else rendered


def template_names() -> tuple[str, ...]:
    """Return the names of the built-in templates.

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
        reason = f"{name!r} is neither a built-in template nor a readable file ({error}); built-in: {known}"
        raise InvalidModel("model", "chat_template", reason) from error


# -- rendering: Jinja as Hugging Face's `apply_chat_template` or llama.cpp defines it --------------------------------


@cache
def _compile(source: str, today: date, runtime: Runtime) -> Callable[..., str]:
    """Return a function that renders the template in a sandbox. It raises `ValueError` if the template refuses."""
    from jinja2 import TemplateError  # noqa: PLC0415 - loaded only for models with a chat template
    from jinja2.sandbox import ImmutableSandboxedEnvironment  # noqa: PLC0415

    def raise_exception(message: str) -> NoReturn:
        raise TemplateError(message)

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=["jinja2.ext.loopcontrols"],
        finalize=llama_cpp.printed_value if runtime == "llama.cpp" else None,
    )
    environment.filters |= _FILTERS[runtime]
    environment.globals["raise_exception"] = raise_exception
    environment.globals["strftime_now"] = today.strftime
    try:
        template = environment.from_string(source)
    except TemplateError as error:
        raise InvalidModel("model", "chat_template", f"is not a valid template: {error}") from error

    def render(**variables: Any) -> str:
        try:
            return template.render(**variables)
        except TemplateError as error:
            raise ValueError(error.message) from error

    return render


def _to_json(
    value: object,
    ensure_ascii: bool = False,  # noqa: FBT001, FBT002 - Hugging Face's signature
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,  # noqa: FBT001, FBT002 - Hugging Face's signature
) -> str:
    # Unlike Jinja's own filter, this one does not escape HTML.
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


_FILTERS: Final[dict[Runtime, dict[str, Callable[..., object]]]] = {
    "transformers": {"tojson": _to_json},
    "llama.cpp": {"tojson": llama_cpp.to_json, "trim": llama_cpp.trim, "dictsort": llama_cpp.dictsort},
}


# -- messages and tools as chat templates expect them ----------------------------------------------------------------


def wire_messages(messages: Sequence[Message]) -> list[WireMessage]:
    """Convert messages to the chat completions format. Names are omitted, because they are already in the text.

    >>> wire_messages([Message(role="user", parts=(Text(text="Hi"),), name="Ada")])
    [{'role': 'user', 'content': 'Hi'}]
    """
    return [sent for message in messages for sent in _wire_messages(message)]


def wire_tools(tools: Sequence[Tool]) -> list[dict[str, Any]]:
    """Convert tools to the chat completions format."""
    return [
        {
            "type": "function",
            "function": {"name": tool.name, "description": tool.description, "parameters": tool.parameters},
        }
        for tool in tools
    ]


def with_short_ids(messages: Sequence[WireMessage]) -> list[WireMessage]:
    """Cut or pad the ids of tool calls to nine characters, as Mistral's servers do.

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
    # Joined by an empty line, as in rendered requests.
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
