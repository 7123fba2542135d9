"""Ollama's /api/chat, where the window is part of the request.

Ollama silently truncates a prompt that does not fit. So every request names its window and asks for an error instead
(`truncate`, `shift`; servers that do not know these fields ignore them). A message's images go beside its text.

Writing and reading share no code: tokens are counted from the request as it was read.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from brimful.core.chat_rules import OPENING
from brimful.core.content import Media, Part, Role, Text, ToolCall, ToolResult
from brimful.core.prompt import Message, Prompt, Request
from brimful.core.validation import clean_text, is_whole_number, preview
from brimful.records import Usage
from brimful.records.reply import FinishReason, Reply, ReplyChunk
from brimful.wires.call_names import NAME_ID, number_calls
from brimful.wires.event_stream import Lines
from brimful.wires.normalize import normalize_messages, with_name_in_text
from brimful.wires.parts import read_unknown, text_or_empty
from brimful.wires.replies import Draft, JsonObject, as_count, as_object, as_objects, as_string, make_usage, split_words
from brimful.wires.rounds import BETWEEN, PieceAnswer, add_usage
from brimful.wires.rules import CallPairing, Object, Report, check_tools, finds_violations
from brimful.wires.storage import Problem, Storage, ToolStep, has_content
from brimful.wires.tools import (
    arguments_object,
    check_functions,
    function_tool,
    json_text,
    read_function,
    read_functions,
)
from brimful.wires.wire import ReasoningRule, Wire, WirePaths, read_call

_ROLES: Final = ("system", "user", "assistant", "tool")


def write_request(prompt: Prompt, window: int) -> Request:
    """Write the request.

    >>> message = Message(role="user", name="Ada", parts=(Text(text="Hi"),))
    >>> request = write_request(Prompt(model="qwen3", messages=(message,), max_output=99), 8192)
    >>> request["options"], request["messages"]
    ({'num_ctx': 8192, 'num_predict': 99}, [{'role': 'user', 'content': 'Ada: Hi'}])
    """
    options = {"num_ctx": window}
    if prompt.max_output is not None:
        options["num_predict"] = prompt.max_output
    request: Request = {"model": prompt.model, "stream": False, "truncate": False, "shift": False, "options": options}
    if prompt.tools:
        request["tools"] = [function_tool(tool) for tool in prompt.tools]
    messages = [with_name_in_text(message) for message in normalize_messages(prompt.messages, accepts_media)]
    written = [wire_message for message in messages for wire_message in _write_message(message)]
    request["messages"] = written or [{"role": "user", "content": OPENING}]
    return request


def accepts_media(media: Media) -> bool:
    """Whether the API accepts these media."""
    return media.modality == "image" and bool(media.data)


def _write_message(message: Message) -> Iterator[JsonObject]:
    if message.role != "tool":
        yield _write_spoken(message)
        return
    for part in message.parts:
        if isinstance(part, ToolResult):
            yield {"role": "tool", "tool_name": part.name, "tool_call_id": part.id, "content": part.content}


def _write_spoken(message: Message) -> JsonObject:
    texts = [part.text for part in message.parts if isinstance(part, Text)]
    images = [part.data for part in message.parts if isinstance(part, Media)]
    calls = [
        {"id": part.id, "function": {"name": part.name, "arguments": arguments_object(part.arguments)}}
        for part in message.parts
        if isinstance(part, ToolCall)
    ]
    written: JsonObject = {"role": message.role, "content": "\n\n".join(texts)}
    if images:
        written["images"] = images
    if calls:
        written["tool_calls"] = calls
    return written


# -- reading -----------------------------------------------------------------------------------------------------------


def read_request(request: Request) -> Prompt:
    """Read the request.

    >>> read_request({"model": "m", "options": {"num_ctx": 9}, "messages": [{"role": "user", "content": "Hi"}]}).model
    'm'
    """
    return Prompt(
        model=request["model"],
        messages=tuple(read for message in request["messages"] for read in _read_turn(message, current=False)),
        tools=tuple(read_function(tool["function"]) for tool in request.get("tools") or ()),
        max_output=request["options"].get("num_predict"),
    )


# -- rules -------------------------------------------------------------------------------------------------------------


@finds_violations
def find_violations(report: Report, body: Object) -> None:
    """Return every violation of the API's rules.

    >>> find_violations({"model": "qwen3", "messages": [{"role": "user", "content": "Hi"}]})
    ['options: must be an object, but is missing']
    """
    _check_options(report, body.get("options"))
    for switch in ("stream", "truncate", "shift"):
        if not isinstance(body.get(switch, False), bool):
            report.add(switch, "must be true or false")
    if body.get("tools") is not None:
        check_tools(report, check_functions(report, body["tools"]))
    _check_messages(report, body.get("messages"))


def _check_options(report: Report, value: object) -> None:
    options = report.require_object("options", value)
    if options is not None:
        report.require_positive("options.num_ctx", options.get("num_ctx"))
        if options.get("num_predict") is not None:
            report.require_positive("options.num_predict", options["num_predict"])


def _check_messages(report: Report, messages: object) -> None:
    pairing = CallPairing(report)
    for path, message in report.require_objects("messages", messages):
        role = report.require_one_of(f"{path}.role", message.get("role"), _ROLES)
        if role == "tool":
            _check_result(report, pairing, path, message)
            continue
        pairing.close()
        if role is not None:
            _check_spoken(report, pairing, path, message)
    pairing.close()


def _check_result(report: Report, pairing: CallPairing, path: str, message: Object) -> None:
    name = report.require_nonblank(f"{path}.tool_name", message.get("tool_name"))
    report.require_string(f"{path}.content", message.get("content"))
    id = message.get("tool_call_id")
    key = report.require_nonblank(f"{path}.tool_call_id", id) if id is not None else name
    if key is not None:
        pairing.result(path, key)


def _check_spoken(report: Report, pairing: CallPairing, path: str, message: Object) -> None:
    images, calls = message.get("images"), message.get("tool_calls")
    if images is not None:
        _check_images(report, f"{path}.images", images)
    if calls is not None:
        _check_calls(report, pairing, path, message)
    content = message.get("content")
    if content is not None or (images is None and calls is None):
        text = report.require_string(f"{path}.content", content)
        if text == "" and not images and not calls:
            report.add(path, "must have content, images or tool calls")


def _check_images(report: Report, path: str, images: object) -> None:
    for index, image in enumerate(report.require_list(path, images)):
        data = report.require_nonblank(f"{path}[{index}]", image)
        if data is not None and data.startswith(("data:", "http:", "https:")):
            report.add(f"{path}[{index}]", "must be bare base64, not a URL")


def _check_calls(report: Report, pairing: CallPairing, path: str, message: Object) -> None:
    if message["role"] != "assistant":
        report.add(f"{path}.tool_calls", "only an assistant message may call tools")
    for item_path, call in report.require_objects(f"{path}.tool_calls", message["tool_calls"]):
        function = report.require_object(f"{item_path}.function", call.get("function"))
        if function is None:
            continue
        name = report.require_nonblank(f"{item_path}.function.name", function.get("name"))
        if function.get("arguments") is not None:
            report.require_object(f"{item_path}.function.arguments", function["arguments"])
        if call.get("id") is not None:
            id = report.require_nonblank(f"{item_path}.id", call["id"])
            if id is not None:
                pairing.call(path, id)
        elif name is not None:
            pairing.call_by_name(path, name)


# -- requests of clients -----------------------------------------------------------------------------------------------

_CLIENT_ROLES: Final[dict[str, Role]] = {"system": "system", "assistant": "assistant"}
_OPTIONS: Final = "options"
_MAX_OUTPUT: Final = "num_predict"
_WINDOW: Final = "num_ctx"
_THINKING: Final = "thinking"


def _read_turn(message: Mapping[str, Any], *, current: bool) -> tuple[Message, ...]:
    """Read a message. `current` means that no user message follows it."""
    content = tuple(_read_text(message.get("content")))
    images = tuple(_read_images(message.get("images")))
    if message["role"] == "tool":
        name = text_or_empty(message.get("tool_name")) or text_or_empty(message.get("name"))
        text = "".join(part.text for part in content if isinstance(part, Text))
        id = text_or_empty(message.get("tool_call_id")) or NAME_ID + name
        return (Message(role="tool", parts=(ToolResult(id=id, name=name, content=text), *images)),)
    thoughts = [Text(text=text_or_empty(message["thinking"]))] if current and message.get("thinking") else []
    calls = number_calls(list(_read_calls(message.get("tool_calls"))))
    role = _CLIENT_ROLES.get(message["role"], "user")
    return (Message(role=role, parts=(*thoughts, *content, *images, *calls)),)


def _read_text(content: object) -> Iterator[Part]:
    if isinstance(content, str):
        yield from [Text(text=clean_text(content))] if content else []
    else:
        yield from read_unknown(content)


def _read_images(images: object) -> Iterator[Part]:
    for image in images if isinstance(images, list) else ():
        if isinstance(image, str) and image:
            yield Media(modality="image", data=clean_text(image))


def _read_calls(calls: object) -> Iterator[Part]:
    for call in calls if isinstance(calls, list) else ():
        match call:
            case {"function": {"name": str(name), **function}}:
                id = text_or_empty(call.get("id")) or NAME_ID + clean_text(name)
                yield ToolCall(id=id, name=clean_text(name), arguments=json_text(function.get("arguments") or {}))
            case _:
                yield from read_unknown(call)


def with_image_texts(message: JsonObject) -> JsonObject:
    r"""Return a message in which texts that replace images are part of its content.

    >>> with_image_texts({"role": "user", "content": "Look:", "images": ["aGk=", {"type": "text", "text": "[image]"}]})
    {'role': 'user', 'content': 'Look:\n\n[image]', 'images': ['aGk=']}
    """
    images = message.get("images")
    if not isinstance(images, list) or not any(isinstance(each, dict) for each in images):
        return message
    texts = [each["text"] for each in images if isinstance(each, dict)]
    left = [each for each in images if not isinstance(each, dict)]
    content = "\n\n".join(text for text in (message.get("content"), *texts) if text)
    changed = {key: left if key == "images" else value for key, value in message.items() if key != "images" or left}
    return changed | {"content": content}


def _read_option(request: Request, name: str) -> int | None:
    """Return an option of a request, if it is a positive number."""
    options = request.get(_OPTIONS)
    value = options.get(name) if isinstance(options, Mapping) else None
    return int(value) if isinstance(value, int) and is_whole_number(value) else None


def _read_max_output(request: Request) -> int | None:
    """Return the request's output limit, if it has one."""
    return _read_option(request, _MAX_OUTPUT)


def _read_window(request: Request) -> int | None:
    """Return the window that a request asks for, if it does."""
    return _read_option(request, _WINDOW)


def _write_max_output(request: Request, tokens: int, provider: str) -> Request:
    """Return a request with an output limit, unless it has one of its own."""
    del provider
    return request if _read_max_output(request) is not None else _with_option(request, _MAX_OUTPUT, tokens)


def _lower_max_output(request: Request, tokens: int) -> Request:
    """Return a request that allows an answer of at most so many tokens."""
    return _with_option(request, _MAX_OUTPUT, tokens) if (_read_max_output(request) or 0) > tokens else request


def write_window(request: Request, tokens: int) -> Request:
    """Return a request that asks for a window, unless it asks for one itself.

    >>> write_window({"options": {"temperature": 0}}, 8192), write_window({"options": {"num_ctx": 4096}}, 8192)
    ({'options': {'temperature': 0, 'num_ctx': 8192}}, {'options': {'num_ctx': 4096}})
    """
    return request if _read_window(request) is not None else _with_option(request, _WINDOW, tokens)


def _with_option(request: Request, name: str, value: int) -> Request:
    options = request.get(_OPTIONS)
    return {**request, _OPTIONS: {**(options if isinstance(options, Mapping) else {}), name: value}}


# -- replies -----------------------------------------------------------------------------------------------------------

_FINISH_REASONS: Final[dict[str, FinishReason]] = {"stop": "stop", "length": "length"}


class _Draft(Draft):
    """A complete answer and each line of a stream have the same form."""

    def add(self, data: JsonObject) -> ReplyChunk:
        self.model = self.model or as_string(data.get("model"))
        self.seed = self.seed or as_string(data.get("created_at"))
        message = as_object(data.get("message"))
        self.has_started = self.has_started or bool(message)
        for call in as_objects(message.get("tool_calls")):
            self._call(call)
        if data.get("done"):
            self.is_over = True
            self.finish = _FINISH_REASONS.get(as_string(data.get("done_reason")) or "stop", "other")
            self.usage = _read_usage(data)
        return ReplyChunk(
            text=self.add_text(as_string(message.get("content"))), thought=as_string(message.get("thinking"))
        )

    def _call(self, call: JsonObject) -> None:
        """Add a call, which arrives complete; older servers give it no id."""
        function = as_object(call.get("function"))
        arguments = json_text(as_object(function.get("arguments")))
        self.add_call(None, id=as_string(call.get("id")), name=as_string(function.get("name")), arguments=arguments)


def _read_usage(data: JsonObject) -> Usage | None:
    if "prompt_eval_count" not in data and "eval_count" not in data:
        return None
    return make_usage(prompt=as_count(data.get("prompt_eval_count")), completion=as_count(data.get("eval_count")))


# -- rounds ------------------------------------------------------------------------------------------------------------

_LINE_USAGE: Final = (
    *("total_duration", "load_duration", "prompt_eval_count", "prompt_eval_duration", "eval_count", "eval_duration"),
)


class OllamaAnswer(PieceAnswer):
    """Joins Ollama's answers."""

    splitter = Lines

    def __init__(self) -> None:
        self._texts: dict[str, list[str]] = {"content": [], "thinking": []}  # of earlier rounds
        super().__init__()

    def step(self, results: Mapping[str, str]) -> list[JsonObject]:
        """Return the messages to add to the request."""
        written = [call for piece in self._pieces for call in self._calls_in(piece)]
        texts = {field: self._joined(field) for field in self._texts}
        thoughts = {"thinking": texts["thinking"]} if texts["thinking"] else {}
        return [
            {"role": "assistant", "content": texts["content"], **thoughts, "tool_calls": written},
            *(
                {"role": "tool", "tool_name": call.name, "content": results[call.id]}
                | ({"tool_call_id": each["id"]} if each.get("id") else {})
                for each, call in zip(written, self.calls, strict=True)
            ),
        ]

    def whole(self, body: JsonObject) -> JsonObject:
        own = self._without_recalls(body)
        if not self._round:
            return own
        message = as_object(own.get("message"))
        joined = {
            field: BETWEEN.join(text for text in (*before, as_string(message.get(field))) if text)
            for field, before in self._texts.items()
            if before
        }
        return self._with_usage(own | {"message": message | joined})

    def _remember(self) -> None:
        super()._remember()
        for field, texts in self._texts.items():
            texts += [text for text in [self._joined(field)] if text]

    def _joined(self, field: str) -> str:
        return "".join(as_string(as_object(piece.get("message")).get(field)) for piece in self._pieces)

    def _calls_in(self, piece: JsonObject) -> list[JsonObject]:
        return as_objects(as_object(piece.get("message")).get("tool_calls"))

    def _read_call(self, call: JsonObject, default_id: str) -> ToolCall:
        function = as_object(call.get("function"))
        arguments = json_text(as_object(function.get("arguments")))
        id = as_string(call.get("id")) or default_id
        return ToolCall(id=id, name=as_string(function.get("name")), arguments=arguments)

    def _is_end(self, data: JsonObject) -> bool:
        return bool(data.get("done"))

    def _text(self, piece: JsonObject) -> str:
        return as_string(as_object(piece.get("message")).get("content"))

    def _without_recalls(self, piece: JsonObject) -> JsonObject:
        calls = self._calls_in(piece)
        own = [call for call in calls if as_object(call.get("function")).get("name") not in self.answered]
        if len(own) == len(calls):
            return piece
        message = {key: own if key == "tool_calls" else value for key, value in piece["message"].items()}
        return piece | {"message": {key: value for key, value in message.items() if key != "tool_calls" or own}}

    def _after_a_gap(self, piece: JsonObject) -> JsonObject:
        return piece | {"message": piece["message"] | {"content": BETWEEN + self._text(piece)}}

    def _own_usage(self) -> JsonObject:
        last = self._pieces[-1] if self._pieces else {}
        return {field: last[field] for field in _LINE_USAGE if field in last}

    def _with_usage(self, piece: JsonObject) -> JsonObject:
        own = {field: piece[field] for field in _LINE_USAGE if field in piece}
        return piece | add_usage(self._usage, own) if own else piece

    def _frame(self, piece: JsonObject) -> bytes:
        return msgspec.json.encode(piece) + b"\n"


# -- storing -----------------------------------------------------------------------------------------------------------


def _find_problems(messages: Sequence[JsonObject]) -> Iterator[Problem]:
    for index, message in enumerate(messages):
        role, content = message["role"], message.get("content")
        if role not in _ROLES:
            yield f"[{index}].role", f"must be one of {', '.join(_ROLES)}, not {preview(role)}"
        if content is not None and not isinstance(content, str):
            yield f"[{index}].content", f"must be a string, not {preview(content)}"
        if role == "user" and not has_content(content) and not message.get("images"):
            yield f"[{index}].content", "is empty"


def _strip(messages: Sequence[JsonObject]) -> list[JsonObject]:
    return [{key: value for key, value in message.items() if key != _THINKING} for message in messages]


def _find_steps(messages: Sequence[JsonObject]) -> tuple[ToolStep, ...]:
    """Return the messages with calls since the user's last one that have thoughts."""
    last_user = max((i for i, message in enumerate(messages) if message["role"] == "user"), default=-1)
    return tuple(
        ToolStep(messages=(message,), calls=_call_keys(message), unstored=message[_THINKING])
        for message in messages[last_user + 1 :]
        if message.get(_THINKING) and message.get("tool_calls")
    )


def _call_keys(message: JsonObject) -> tuple[str, ...]:
    """Return what identifies the calls in a message: older clients give them no ids."""
    functions = (as_object(call.get("function")) for call in as_objects(message.get("tool_calls")))
    keys = ([each.get("name"), each.get("arguments") or {}] for each in functions)
    return tuple(msgspec.json.encode(key, order="sorted").decode() for key in keys)


def _restore(messages: Sequence[JsonObject], steps: Sequence[ToolStep]) -> list[JsonObject]:
    """Give messages of ours the thoughts of the client's, the newest first."""
    restored, left = list(messages), list(steps)
    for index in reversed(range(len(messages))):
        keys = _call_keys(messages[index])
        found = next((i for i in reversed(range(len(left))) if keys and left[i].calls == keys), None)
        if found is not None:
            restored[index] = {**messages[index], _THINKING: left[found].unstored}
            del left[found:]
    return restored


# -- for tests: written replies ----------------------------------------------------------------------------------------


def _write_reply(reply: Reply) -> tuple[JsonObject, list[bytes]]:
    """Return a reply as Ollama's message, and as the lines of one."""
    usage = reply.usage or Usage(prompt=10, completion=2)
    head = {"model": reply.model or "scripted", "created_at": "2026-11-17T00:00:00Z"}
    calls = [
        {"function": {"name": call.name, "arguments": msgspec.json.decode(call.arguments)}} for call in reply.calls
    ]
    end = {"done": True, "done_reason": "stop", "prompt_eval_count": usage.prompt, "eval_count": usage.completion}

    def piece(text: str, **more: Any) -> JsonObject:
        return {**head, "message": {"role": "assistant", "content": text, **more}, "done": False}

    lines = [piece(word) for word in split_words(reply.text)] + [piece("", tool_calls=[call]) for call in calls]
    lines.append(piece("") | end)
    whole = (piece(reply.text, tool_calls=calls) if calls else piece(reply.text)) | end
    return whole, [msgspec.json.encode(line) + b"\n" for line in lines]


WIRE: Final = Wire(
    name="ollama",
    provider="ollama",
    write=write_request,
    read=read_request,
    find_violations=find_violations,
    accepts_media=accepts_media,
    is_templated=True,
    read_turn=_read_turn,
    pairs_by_name=True,
    read_tools=read_functions,
    read_max_output=_read_max_output,
    write_max_output=_write_max_output,
    lower_max_output=_lower_max_output,
    read_window=_read_window,
    write_window=write_window,
    repair=with_image_texts,
    reasoning=ReasoningRule(
        is_removable=False,
        why="the model's template decides which thoughts it repeats",
        source="https://docs.ollama.com/capabilities/thinking",
    ),
    make_draft=_Draft,
    is_json_lines=True,
    join_rounds=OllamaAnswer,
    can_join=lambda body, _: not body.get("format"),
    is_free=True,
    storage=Storage(find_problems=_find_problems, strip=_strip, find_steps=_find_steps, restore=_restore),
    get_path=lambda request, stream: "/api/chat",  # noqa: ARG005 - called by position
    prepare=lambda request, stream, _: request | {"stream": stream},
    paths=WirePaths(root="/api", completions=("/api/chat",), is_whole=True, has_one_version=True, prefixes=("/api/",)),
    read_call=lambda path, parameters, body: read_call(path, parameters, {"stream": True, **body}),
    error_frame=(b"\n", b"\n"),
    write_reply=_write_reply,
)
