r"""Chat templates as llama.cpp renders them: its own template engine prints some values differently.

Read in llama.cpp's `common/jinja` and `common/chat.cpp`, and confirmed by a real server in the tests:

- Numbers with a fraction have six digits: in JSON as C++ streams write them (`1.0` is `1`), elsewhere as
  `std::to_string` does (`1e-7` is `0.0`).
- White space is what C's `isspace` says; Python strips more (a no-break space, for one).
- `dictsort` sorts by bytes, and minds case. `None` and objects print as nothing, and a list as its items.
- Templates that support thinking enable it, unless the server was started with thinking disabled.
- Of a message, only some fields reach the template. Content is a string or a list of parts, as the template wants it:
  the server finds out by trying. Parts are joined by line feeds.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date
from typing import Any, Final

import msgspec

_SPACE: Final = " \t\n\v\f\r"
_MAX_INT: Final = 2**63 - 1  # larger integers are read as floating-point numbers
_GEMMA_4_TURN: Final = ("<turn|>\n", "<|turn>model\n")


class CDouble(float):
    """A floating-point number.

    >>> str(CDouble(1e-7)), str(CDouble(2.5)), str(CDouble(3))
    ('0.0', '2.5', '3.0')
    """

    __slots__ = ()

    def __str__(self) -> str:
        """Format like `std::to_string`, without trailing zeros."""
        whole, _, fraction = f"{float(self):.6f}".partition(".")
        return f"{whole}.{fraction.rstrip('0') or '0'}"


class CString(str):
    r"""A string with C's definition of white space.

    >>> CString(" \u00a0hi\n").strip()
    '\xa0hi'
    """

    __slots__ = ()

    def strip(self, chars: str | None = None, /) -> str:
        """Strip both ends."""
        return super().strip(_SPACE if chars is None else chars)

    def lstrip(self, chars: str | None = None, /) -> str:
        """Strip the start."""
        return super().lstrip(_SPACE if chars is None else chars)

    def rstrip(self, chars: str | None = None, /) -> str:
        """Strip the end."""
        return super().rstrip(_SPACE if chars is None else chars)


class CList(list[Any]):
    r"""A list that prints like Python's, but without escapes.

    >>> str(CList(["a\n", "it's", CDouble(1e-7), None]))
    '[\'a\n\', "it\'s", 0.0, None]'
    """

    __slots__ = ()

    def __str__(self) -> str:
        return f"[{', '.join(map(_represent, self))}]"


class CDict(dict[str, Any]):
    """An object that prints like Python's, but without escapes."""

    __slots__ = ()

    def __str__(self) -> str:
        return "{" + ", ".join(f"{_represent(key)}: {_represent(value)}" for key, value in self.items()) + "}"


def _represent(value: Any) -> str:
    if not isinstance(value, str):
        return str(value)
    return to_json(value) if "'" in value else f"'{value}'"


def to_native(value: Any) -> Any:
    """Convert JSON data to llama.cpp's values."""
    match value:
        case str():
            return CString(value)
        case bool() | None:
            return value
        case int():
            return value if abs(value) <= _MAX_INT else CDouble(value)
        case float():
            return CDouble(value)
        case Mapping():
            return CDict({CString(key): to_native(item) for key, item in value.items()})
        case _:
            return CList(to_native(item) for item in value)


def printed_value(value: Any) -> Any:
    """Return a value as the template prints it: None and objects as nothing, and a list as its items."""
    match value:
        case None | Mapping():
            return ""
        case list():
            return "".join(str(printed_value(item)) for item in list.__iter__(value))  # not a look into a `_PartsProbe`
        case _:
            return value


# -- requests: what of them reaches the template ---------------------------------------------------------------------


class Capabilities(msgspec.Struct, frozen=True):
    """What a template can do, as far as the server converts messages for it."""

    strings: bool  # content may be a string
    parts: bool  # content may be a list of parts
    system: bool
    objects: bool  # arguments of calls may be objects

    @classmethod
    def find(cls, render: Callable[..., str]) -> "Capabilities":
        """Try what a template can do. `render` takes the template's variables, and raises an error if it refuses."""

        def renders(*messages: Mapping[str, Any], tools: Sequence[object] = ()) -> str:
            try:
                rendered = render(messages=list(messages), tools=list(tools), add_generation_prompt=True)
            except Exception:  # noqa: BLE001 - a template is a program: it may raise anything
                return ""
            return rendered or " "

        parts = _PartsProbe()
        string = renders({"role": "user", "content": CString(_PROBE)})
        used = bool(renders({"role": "user", "content": parts})) and parts.used
        function = {"name": "tool1", "arguments": {"arg": CString(_PROBE)}}
        call = {"role": "assistant", "content": "", "tool_calls": [_call("call00001", function)]}
        result = {"role": "tool", "content": "1", "tool_call_id": "call00001"}
        return cls(
            strings=_PROBE in string if used else bool(string),
            parts=used,
            system=_PROBE in renders({"role": "system", "content": CString(_PROBE)}, _HI) or not string,
            objects=_PROBE in renders(_HI, call, result, _ANSWER, _HI, tools=_TOOLS),
        )


class _PartsProbe(list[object]):
    """An empty list of parts that notes whether a template looks into it."""

    used = False

    def __iter__(self) -> Any:
        self.used = True
        return super().__iter__()

    def __getitem__(self, index: Any) -> Any:
        self.used = True
        return super().__getitem__(index)


def _call(id: str, function: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "function", "function": function} | ({"id": id} if id else {})


_PROBE: Final = "STRING_MARKER"
_HI: Final = {"role": "user", "content": CString("User message")}
_ANSWER: Final = {"role": "assistant", "content": CString("Answer")}
_PARAMETERS: Final = {
    "type": "object",
    "properties": {"arg": {"type": "string", "description": "Arg description"}},
    "required": ["arg"],
}
_TOOLS: Final = [
    {
        "type": "function",
        "function": {
            "name": "tool1",
            "description": "Tool description",
            "parameters": _PARAMETERS | {"required": ["arg"]},
        },
    }
]
_GPT_OSS: Final = "<|channel|>"  # in the source of a template
_OTHER_CONVERSIONS: Final[
    tuple[Callable[[str], bool], ...]
] = (  # templates for which the server rewrites messages in a way of its own
    lambda source: "[ARGS]" in source and "[SYSTEM_PROMPT]" in source and "[CALL_ID]" not in source,  # Ministral 3
    lambda source: "<|tool_list_start|>" in source or "List of tools: [" in source,  # LFM 2
    lambda source: "dsml_token" in source,  # DeepSeek 3.2 and 4
    lambda source: "'<|tool_call>call:'" in source and "{#- OpenAI Chat Completions:" not in source,  # early Gemma 4
    lambda source: "You have access to the following functions in JSONSchema format" in source,  # StepFun
    lambda source: "<|inner_prefix|>" in source,  # Apertus: whether it thinks by default depends on the server
)


def is_modelled(source: str) -> bool:
    """Whether messages reach a template as `prepare_messages` returns them.

    >>> is_modelled("{{ messages[0].content }}"), is_modelled("{% set dsml_token = 'DSML' %}")
    (True, False)
    """
    return not any(is_converted(source) for is_converted in _OTHER_CONVERSIONS)


def patch_source(source: str) -> str:
    """Remove checks from a template that the server removes, too."""
    for check in _REMOVED_CHECKS:
        source = source.replace(check, "{%- if false %}")
    return source


_REMOVED_CHECKS: Final = (
    '{%- if "<|channel|>analysis<|message|>" in message.content or "<|channel|>final<|message|>" in message.content %}',
    """{%- if (message['content'] is none or message['content'] == '' or message['content']|length == 0) and \
(message['tool_calls'] is not defined or message['tool_calls'] is none or message['tool_calls']|length == 0) %}""",
)


def prepare_messages(messages: Sequence[Mapping[str, Any]], source: str, can: Capabilities) -> list[dict[str, Any]]:
    r"""Return the messages of a request as a template gets them.

    >>> strings = Capabilities(strings=True, parts=False, system=True, objects=True)
    >>> parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    >>> prepare_messages([{"role": "developer", "content": parts, "mood": "good"}], "", strings)
    [{'role': 'system', 'content': 'a\nb'}]
    """
    prepared = [_prepare_message(message, can) for message in messages]
    if _GPT_OSS in source:
        return [_with_thinking(message) for message in prepared]
    for message in prepared:
        if message["role"] == "developer":
            message["role"] = "system"
    if not can.system and prepared and prepared[0]["role"] == "system":
        system, *prepared = prepared
        if prepared:
            prepared[0]["content"] = system["content"] + "\n" + prepared[0]["content"]
    return prepared


def _prepare_message(message: Mapping[str, Any], can: Capabilities) -> dict[str, Any]:
    prepared: dict[str, Any] = {"role": message["role"], "content": _prepare_content(message.get("content"), can)}
    for field in ("reasoning_content", "name", "tool_call_id"):
        if value := message.get(field):
            prepared[field] = value
    if calls := message.get("tool_calls"):
        prepared["tool_calls"] = [_prepare_call(call, can) for call in calls]
    return prepared


def _prepare_content(content: Any, can: Capabilities) -> Any:
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if can.parts and not can.strings else content
    parts = [{"type": "text", "text": part["text"]} for part in content or () if part["type"] == "text"]
    if not parts or (can.strings and not can.parts):
        return _join(part["text"] for part in parts)
    return parts


def _join(texts: Iterable[str]) -> str:
    """Join texts by line feeds, but for empty ones at the start."""
    joined = ""
    for text in texts:
        joined += f"\n{text}" if joined else text
    return joined


def _prepare_call(call: Mapping[str, Any], can: Capabilities) -> dict[str, Any]:
    arguments = call["function"]["arguments"]
    if not isinstance(arguments, str):
        arguments = json.dumps(arguments, ensure_ascii=False, separators=(",", ":"))
    function = {"name": call["function"]["name"], "arguments": parse_arguments(arguments) if can.objects else arguments}
    return _call(call.get("id") or "", function)


def _with_thinking(message: dict[str, Any]) -> dict[str, Any]:
    if "reasoning_content" not in message:
        return message
    kept = {key: value for key, value in message.items() if key != "content" or not message.get("tool_calls")}
    return kept | {"thinking": message["reasoning_content"]}


def parse_arguments(arguments: str) -> object:
    """Return the arguments of a call as JSON data, or as they are."""
    try:
        return json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments


def template_variables(options: Mapping[str, Any], today: date, *, thinking: bool) -> dict[str, Any]:
    """Return a template's variables besides messages and tools; `options` are the fields of the request.

    >>> template_variables({"reasoning_effort": "none"}, date(2026, 1, 2), thinking=True)["enable_thinking"]
    False
    """
    chosen = dict(options.get("chat_template_kwargs") or {})
    effort = options.get("reasoning_effort")
    if effort == "none":
        thinking = False
        chosen.pop("reasoning_effort", None)
    elif effort:
        chosen["reasoning_effort"] = effort
    variables: dict[str, Any] = {
        "enable_thinking": thinking,
        "datetime": f"{today:%b %d %Y}",
        "date_string": f"{today:%d %b %Y}",
    }
    if isinstance(preserve := chosen.get("preserve_reasoning"), bool):
        variables |= {"preserve_thinking": preserve}
        variables |= dict.fromkeys(("clear_thinking", "truncate_history_thinking", "drop_thinking"), not preserve)
    if chosen.get("reasoning_effort"):
        variables["reasoning_strength"] = chosen["reasoning_effort"]
    return variables | chosen


def add_answer_head(rendered: str) -> str:
    """Add the start of the answer if Gemma 4's template omits it, as the server does."""
    before, head = _GEMMA_4_TURN
    return rendered + head if rendered.endswith(before) else rendered


# -- filters: their signatures are Jinja's ---------------------------------------------------------------------------


def to_json(
    value: Any,
    ensure_ascii: bool = False,  # noqa: FBT001, FBT002
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
) -> str:
    """Write JSON.

    >>> to_json({"a": [1.0, 2.5e-8, None]})
    '{"a": [1, 2.5e-08, null]}'
    """
    between, colon = separators or (", " if indent is None else ",", ": ")
    return _JsonWriter(between, colon, indent, ensure_ascii).write(value, 0)


def to_string(value: Any) -> str:
    """Convert a value to a string: numbers as in JSON.

    >>> to_string(CDouble(1e-7)), to_string(True), to_string("é")
    ('1e-07', 'True', 'é')
    """
    return to_json(value) if isinstance(value, int | float) and not isinstance(value, bool) else str(value)


def trim(value: Any, chars: str | None = None) -> str:
    """Strip both ends."""
    return CString(value).strip(chars)


def items(value: Mapping[str, Any] | None) -> list[tuple[str, Any]]:
    """Return the items of an object; None and undefined values have none."""
    return list(value.items()) if value else []


def dictsort(value: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Return the items of an object, sorted by the bytes of their keys.

    >>> dictsort({"b": 1, "A": 2, "a": 3})
    [('A', 2), ('a', 3), ('b', 1)]
    """
    return sorted(value.items(), key=lambda item: item[0])


class _JsonWriter:
    """Writes JSON with fixed separators."""

    def __init__(self, between: str, colon: str, indent: int | None, ascii: bool) -> None:  # noqa: FBT001
        self._between, self._colon, self._indent, self._ascii = between, colon, indent, ascii

    def write(self, value: Any, level: int) -> str:
        match value:
            case bool() | int() | str() | None:
                return json.dumps(value, ensure_ascii=self._ascii)
            case float():
                return f"{value:g}"
            case Mapping():
                pairs = (
                    f"{self.write(key, 0)}{self._colon}{self.write(item, level + 1)}" for key, item in value.items()
                )
                return self._block("{", list(pairs), "}", level)
            case _:
                items = list.__iter__(value) if isinstance(value, list) else value
                return self._block("[", [self.write(item, level + 1) for item in items], "]", level)

    def _block(self, opening: str, items: list[str], closing: str, level: int) -> str:
        if not items or self._indent is None:
            return opening + self._between.join(items) + closing
        line = "\n" + " " * self._indent * level
        deeper = line + " " * self._indent
        return opening + deeper + (self._between + deeper).join(items) + line + closing
