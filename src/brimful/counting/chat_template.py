"""Chat templates of open models, rendered as the servers that run them do.

Rendering is deterministic: the date is an argument, never the clock.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date
from functools import cache, cached_property, partial
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

WireMessage = Mapping[str, Any]
_NO_OPTIONS: Final[Mapping[str, Any]] = {}
_UNMODELLED_FIELDS: Final = ("continue_final_message", "chat_template", "documents", "truncate_prompt_tokens")
"""Fields of a request that change the prompt in ways of their own."""
_REASONING_FIELDS: Final = ("reasoning_content", "reasoning")
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
        tool_source: str = "",
        bos: str = "",
        eos: str = "",
        today: date = DEFAULT_DATE,
        runtime: Runtime = "transformers",
        thinking: bool | None = None,
    ) -> None:
        """Compile the source; `bos` and `eos` are the tokens at the beginning and end of a text.

        `tool_source` is the template for requests with tools, if it is another one.
        """
        self._for_tools: ChatTemplate | None = None
        if tool_source:
            self._for_tools = ChatTemplate(
                tool_source, bos=bos, eos=eos, today=today, runtime=runtime, thinking=thinking
            )
        self._is_llama_cpp = runtime == "llama.cpp"
        self._source = llama_cpp.patch_source(source) if self._is_llama_cpp else source
        self._render = _compile(self._source, today, runtime)
        self._tokens = {"bos_token": bos, "eos_token": eos}
        self._today = today
        self._thinking = thinking

    @classmethod
    def named(cls, name: str, **options: Unpack[TemplateOptions]) -> "ChatTemplate":
        """Return a built-in template by name, or a template file by path."""
        return cls(_read_template(name), **options)

    @property
    def continues(self) -> bool:
        """Whether a final assistant message is continued instead of answered."""
        return self._is_llama_cpp

    @property
    def says_all(self) -> bool:
        """Whether the runtime adds nothing to what the template prints, such as tools that the template omits."""
        return self._is_llama_cpp

    def is_exact(self, messages: Sequence[WireMessage], options: Mapping[str, Any]) -> bool:
        """Whether the runtime is known to render these messages as we do; `options` are the request's other fields.

        Servers built on Hugging Face's libraries join the parts of a message in different ways.
        """
        if any(options.get(field) for field in _UNMODELLED_FIELDS):
            return False
        if self._is_llama_cpp:
            return llama_cpp.is_modelled(self._source)
        return not any(_has_several_parts(message) for message in messages)

    def render(
        self,
        messages: Sequence[WireMessage],
        tools: Sequence[Mapping[str, Any]] = (),
        *,
        options: Mapping[str, Any] = _NO_OPTIONS,
        answer: bool = True,
    ) -> str:
        """Return the text that the model reads, with `answer` up to the start of the model's answer.

        Messages and tools have OpenAI's form; `options` are the other fields of the request.
        """
        if tools and self._for_tools:
            return self._for_tools.render(messages, tools, options=options, answer=answer)
        try:
            if self._is_llama_cpp:
                return self._render_as_llama_cpp(messages, tools, options, answer=answer)
            variables = dict(options.get("chat_template_kwargs") or {})
            if self._thinking is not None:
                variables = {"enable_thinking": self._thinking} | variables
            prepared = [_prepare_message(message, parts=self._capabilities.parts) for message in messages]
            variables |= {"messages": prepared, "tools": list(tools) or None, "add_generation_prompt": answer}
            return self._render(**self._tokens | variables)
        except (TypeError, ValueError, LookupError, AttributeError, ArithmeticError, RecursionError) as error:
            # A template is a program: input that it does not expect raises any of these.
            raise TemplateRefused(f"the chat template refused the messages: {error}") from error

    @cached_property
    def _capabilities(self) -> llama_cpp.Capabilities:
        return llama_cpp.Capabilities.find(partial(self._render, bos_token="", eos_token=""))

    def _render_as_llama_cpp(
        self,
        messages: Sequence[WireMessage],
        tools: Sequence[Mapping[str, Any]],
        options: Mapping[str, Any],
        *,
        answer: bool,
    ) -> str:
        prepared = llama_cpp.prepare_messages(messages, self._source, self._capabilities)
        variables = llama_cpp.template_variables(options, self._today, thinking=self._thinking is not False)
        variables |= {"messages": prepared} | ({"tools": list(tools)} if tools else {})
        native = llama_cpp.to_native(variables | ({"add_generation_prompt": True} if answer else {}))
        rendered = self._render(**self._tokens | native)
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
    from jinja2 import ChainableUndefined, TemplateError, Undefined  # noqa: PLC0415 - only for models with a template
    from jinja2.sandbox import ImmutableSandboxedEnvironment, SandboxedEnvironment  # noqa: PLC0415

    def raise_exception(message: str) -> NoReturn:
        raise TemplateError(message)

    class LlamaEnvironment(SandboxedEnvironment):
        """Gives every string C's methods."""

        def getattr(self, obj: Any, attribute: str) -> Any:
            return super().getattr(llama_cpp.CString(obj) if type(obj) is str else obj, attribute)

    is_llama_cpp = runtime == "llama.cpp"
    environment = (LlamaEnvironment if is_llama_cpp else ImmutableSandboxedEnvironment)(
        undefined=ChainableUndefined if is_llama_cpp else Undefined,
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=["jinja2.ext.loopcontrols"],
        finalize=llama_cpp.printed_value if is_llama_cpp else None,
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
    "llama.cpp": {
        "tojson": llama_cpp.to_json,
        "string": llama_cpp.to_string,
        "safe": llama_cpp.to_string,
        "trim": llama_cpp.trim,
        "items": llama_cpp.items,
        "dictsort": llama_cpp.dictsort,
    },
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
    content = "\n\n".join(part.text for part in message.parts if isinstance(part, Text))
    calls = [
        {"id": part.id, "type": "function", "function": {"name": part.name, "arguments": part.arguments}}
        for part in message.parts
        if isinstance(part, ToolCall)
    ]
    return {"role": message.role, "content": content} | ({"tool_calls": calls} if calls else {})


def _has_several_parts(message: WireMessage) -> bool:
    return isinstance(message.get("content"), list) and len(message["content"]) > 1


def _prepare_message(message: WireMessage, *, parts: bool) -> dict[str, Any]:
    """Return a message as vLLM passes it to a template: arguments as objects, and content that the template accepts."""
    prepared = {**message, "content": _prepare_content(message.get("content"), parts=parts)}
    if message["role"] == "developer":
        prepared["role"] = "system"
    reasoning = next((message[field] for field in _REASONING_FIELDS if message.get(field)), None)
    if reasoning:
        prepared |= dict.fromkeys(_REASONING_FIELDS, reasoning)
    if calls := message.get("tool_calls"):
        prepared["tool_calls"] = [_prepare_call(call) for call in calls]
    return prepared


def _prepare_content(content: Any, *, parts: bool) -> Any:
    if not isinstance(content, list):
        return content or ""
    texts = [part for part in content if part["type"] == "text"]
    return texts if parts else "\n".join(part["text"] for part in texts)


def _prepare_call(call: Mapping[str, Any]) -> dict[str, Any]:
    function = call["function"]
    if not isinstance(function["arguments"], str):
        return {**call}
    return {**call, "function": {**function, "arguments": llama_cpp.parse_arguments(function["arguments"])}}
