"""Token counter for open models: render the chat template, then tokenize the result.

This is what the reference servers bill. llama.cpp, vLLM and Hugging Face tokenize the rendered text with special
tokens enabled, so a special token spelled out in a message becomes a single token there, and is counted as one here.
`text` counts it as plain text, which is never fewer tokens, so budgets built from texts stay on the safe side.

Per-message overhead is measured by rendering probe messages and taking the difference.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, Final, assert_never

import msgspec

from brimful.cache import LRU, content_bytes
from brimful.core.content import Media, Part, Role, Text, ToolCall, ToolResult
from brimful.core.prompt import Message, Prompt, Tool
from brimful.core.tokens import Count, sum_counts
from brimful.counting.chat_template import (
    ChatTemplate,
    TemplateRefused,
    WireMessage,
    wire_messages,
    wire_tools,
    with_short_ids,
)
from brimful.counting.features import Features, request_features
from brimful.counting.media import MediaCounter
from brimful.counting.overheads import tool_json
from brimful.counting.text_counters import UNVERIFIED_MARGIN, CalibratedTextCounter, TextCounter

_PROBES: Final = ("hi", "", "1", "\nhi", " hi", "hi\n", "hi ", "ing", "漢", "…", "<b>\r\n")
"""Texts that merge with their surroundings in different ways. The largest difference counts."""

CountRendered = Callable[[Sequence[Message], bool], int]
CountText = Callable[[str], int]
MEDIA_MARKERS: Final = 2  # tokens around an image in a rendered template
THINKING_MARKERS: Final = 6  # maximum tokens of an empty thinking block
_PROBE_NAME: Final = "probe_of_brimful"  # a name that no template prints by itself
_PROBE_SCHEMA: Final[dict[str, Any]] = {"type": "object", "properties": {"a": {"type": "string", "description": "a"}}}
_PROBE_TOOL: Final = Tool(name=_PROBE_NAME, description=_PROBE_NAME, parameters=_PROBE_SCHEMA)
_TEXT_FIELDS: Final = ("content", "reasoning_content", "reasoning", "name")  # of a message
_HI: Final = Message(role="user", parts=(Text(text="hi"),))
_ANSWER: Final = Message(role="assistant", parts=(Text(text="hi"),))


class Probes:
    """Overheads of a template with a tokenizer: the maximum over all probes."""

    def __init__(self, rendered: CountRendered, text: CountText) -> None:
        """Probe with `rendered`, which counts messages with or without the start of an answer, and `text`."""
        self._rendered = rendered
        self._text = text

    @cached_property
    def request(self) -> int:
        return max(0, self._max(lambda probe: self._whole([_user_message(probe)])) - self._user)

    @cached_property
    def max_message(self) -> int:
        """The maximum overhead of any message."""
        return max(self._user, self._assistant)

    def message(self, role: Role) -> int:
        """Return the overhead of a message with this role."""
        match role:
            case "user":
                return self._user
            case "assistant":
                return self._assistant
            case "system":
                return self._system
            case "tool":
                return self._tool
            case _:
                assert_never(role)

    @cached_property
    def _user(self) -> int:
        return max(0, self._max(self._one_more))

    @cached_property
    def _assistant(self) -> int:
        # The minimum for the user's turn, so that nothing is missing here.
        user = self._one_more("hi")

        def answered(probe: str) -> int:
            return self._whole([_HI, _assistant_message(probe), _HI]) - self._whole([_HI]) - user

        return max(0, self._max(answered))

    def _one_more(self, probe: str) -> int:
        """Return the tokens of one more user message, including its text."""
        try:
            return self._whole([_HI, _user_message(probe)]) - self._whole([_HI])
        except TemplateRefused:  # turns must alternate: add an answer too, and subtract it again
            pair = self._whole([_HI, _ANSWER, _user_message(probe)]) - self._whole([_HI])
            return pair - (self._before([_HI, _ANSWER]) - self._before([_HI]))

    @cached_property
    def _system(self) -> int:
        def first(probe: str) -> int:
            return self._before([_system_message(probe), _HI]) - self._before([_HI])

        def later(probe: str) -> int:
            messages = [_HI, _ANSWER, _system_message(probe), _HI]
            return self._before(messages) - self._before([_HI, _ANSWER, _HI])

        return self._max_allowed(first, later)

    @cached_property
    def _tool(self) -> int:
        call = [_HI, _assistant_message(ToolCall(id="call00001", name="f"))]

        def answered(probe: str) -> int:
            result = Message(role="tool", parts=(ToolResult(id="call00001", content=probe, name="f"),))
            return self._before([*call, result]) - self._before(call)

        return self._max_allowed(answered)

    def _max_allowed(self, *differences: Callable[[str], int]) -> int:
        """Return the maximum of the differences that the template allows, or of all roles if it allows none."""
        found = []
        for difference in differences:
            try:
                found.append(self._max(difference))
            except TemplateRefused:
                continue
        return max(0, *found) if found else self.max_message

    def _max(self, difference: Callable[[str], int]) -> int:
        return max(difference(probe) - self._text(probe) for probe in _PROBES)

    def _before(self, messages: Sequence[Message]) -> int:
        return self._rendered(messages, False)  # noqa: FBT003 - a callable has no keywords

    def _whole(self, messages: Sequence[Message]) -> int:
        return self._rendered(messages, True)  # noqa: FBT003 - a callable has no keywords


def _user_message(text: str) -> Message:
    return Message(role="user", parts=(Text(text=text),))


def _system_message(text: str) -> Message:
    return Message(role="system", parts=(Text(text=text),))


def _assistant_message(content: str | ToolCall) -> Message:
    part: Part = Text(text=content) if isinstance(content, str) else content
    return Message(role="assistant", parts=(part,))


class TemplateCounter:
    """A `TokenCounter` for a model with a chat template."""

    def __init__(self, texts: TextCounter, template: ChatTemplate, media: MediaCounter) -> None:
        self._texts = texts
        self._template = template
        self._media = media
        # Rendering takes a millisecond, and the same call is counted several times.
        self._calls: LRU[tuple[str, str], Count] = LRU(
            name="tool-calls", size=lambda call, _: sum(map(content_bytes, call))
        )

    @property
    def tokenizer(self) -> str:
        """The name of the counts."""
        return self._texts.name

    def text(self, text: str) -> Count:
        return self._texts.text(text)

    def texts(self, texts: Sequence[str]) -> list[Count]:
        return self._texts.texts(texts)

    def media(self, part: Media) -> Count:
        """Count an image, audio clip or video. The margin covers the markers around it."""
        count = self._media.count(part)
        return msgspec.structs.replace(count, margin=count.margin + MEDIA_MARKERS)

    def tool_calls(self, calls: Sequence[ToolCall]) -> Count:
        """Count tool calls: the difference between messages rendered with and without them."""
        return sum_counts([self._call(call.name, call.arguments) for call in calls], self.tokenizer)

    def message_overhead(self, role: Role, name: str = "") -> int:  # noqa: ARG002 - templates have no names
        """Return the maximum overhead of a message with this role."""
        return self._probes.message(role)

    def request_overhead(self) -> int:
        """Return the maximum overhead of a request: date header, default system prompt, start of the answer."""
        return self._probes.request

    def prompt(self, prompt: Prompt) -> Count:
        """Render and tokenize the prompt. If the template refuses it, return an upper bound."""
        media = [self.media(part) for message in prompt.messages for part in message.parts if isinstance(part, Media)]
        request = _Request.of(prompt)
        try:
            rendered = self._render(request)
        except TemplateRefused:
            return sum_counts([*self._bound(prompt), *media], self.tokenizer)
        counted = self._texts.rendered(rendered)
        if not self._template.is_exact(request.messages, request.options):
            counted = _as_estimate(counted)
        if self._template.continues and request.messages and request.messages[-1]["role"] == "assistant":
            counted = self._continued(request, counted)
        return sum_counts([counted, *self._unseen(prompt), *media], self.tokenizer)

    def measure(self, prompt: Prompt) -> Features:
        """Return the features of a prompt: of the rendered text, and its fixed tokens."""
        media = sum(self.media(part).tokens for m in prompt.messages for part in m.parts if isinstance(part, Media))
        around = {"media": float(media), **request_features(prompt)}
        if not isinstance(self._texts, CalibratedTextCounter):
            return {"fixed": float(self.prompt(prompt).tokens - media), **around}
        try:
            measured = self._texts.measure_rendered(self._render(_Request.of(prompt)))
        except TemplateRefused:
            return {"fixed": float(sum(count.tokens for count in self._bound(prompt))), **around}
        measured["fixed"] += sum(count.tokens for count in self._unseen(prompt))
        return measured | around

    @cached_property
    def _probes(self) -> Probes:
        return Probes(self._rendered, lambda text: self.text(text).upper)

    def _rendered(self, messages: Sequence[Message], answer: bool) -> int:  # noqa: FBT001 - `CountRendered`
        return self._texts.rendered(self._render(_Request(wire_messages(messages)), answer=answer)).upper

    def _render(self, request: "_Request", *, answer: bool = True) -> str:
        def rendered(messages: Sequence[WireMessage]) -> str:
            return self._template.render(messages, request.tools, options=request.options, answer=answer)

        try:
            return rendered(request.messages)
        except TemplateRefused:
            return rendered(with_short_ids(request.messages))

    def _continued(self, request: "_Request", whole: Count) -> Count:
        """Return an upper bound for runtimes that continue the last message; `whole` is the count for all others."""
        *before, last = request.messages
        text = last["content"] if isinstance(last["content"], str) else ""
        try:
            begun = self._texts.rendered(self._render(msgspec.structs.replace(request, messages=before)) + text)
        except TemplateRefused:
            return _as_bound(whole)
        return Count(tokens=max(whole.upper, begun.upper + THINKING_MARKERS), basis="bound", tokenizer=self.tokenizer)

    def _unseen(self, prompt: Prompt) -> list[Count]:
        """Count tools and calls that the template omits: most servers add them to the prompt in their own way."""
        if self._template.says_all:
            return []
        tools = [] if self._shows_tools else [tool_json(tool) for tool in prompt.tools]
        calls = [] if self._shows_calls else [call.name + call.arguments for call in _tool_calls(prompt)]
        return [_as_bound(count) for count in self.texts(tools + calls)]

    @cached_property
    def _shows_tools(self) -> bool:
        return self._shows((_HI,), (_PROBE_TOOL,))

    @cached_property
    def _shows_calls(self) -> bool:
        call, result = ToolCall(id="call00001", name=_PROBE_NAME), ToolResult(id="call00001", content="1")
        exchange = (Message(role="assistant", parts=(call,)), Message(role="tool", parts=(result,)))
        return self._shows((_HI, *exchange), ())

    def _shows(self, messages: Sequence[Message], tools: Sequence[Tool]) -> bool:
        try:
            return _PROBE_NAME in self._render(_Request(wire_messages(messages), wire_tools(tools)))
        except TemplateRefused:
            return False

    def _bound(self, prompt: Prompt) -> list[Count]:
        """Return an upper bound for a prompt that the template refuses: every part with its maximum overhead."""
        sent = _Request.of(prompt).messages
        around = self.request_overhead() + sum(self.message_overhead(message.role) for message in prompt.messages)
        around += self._toolset if prompt.tools else 0
        texts = [tool_json(tool) for tool in prompt.tools]
        texts += [text for message in sent for field in _TEXT_FIELDS for text in _texts_in(message.get(field))]
        return [Count(tokens=around, basis="bound"), self.tool_calls(_tool_calls(prompt)), *self.texts(texts)]

    @cached_property
    def _toolset(self) -> int:
        """What the template writes about tools in general, and about one that hardly says anything."""
        try:
            with_tools = self._texts.rendered(self._render(_Request(wire_messages((_HI,)), wire_tools((_PROBE_TOOL,)))))
        except TemplateRefused:
            return 0
        return max(0, with_tools.upper - self._rendered((_HI,), True))  # noqa: FBT003

    def _call(self, name: str, arguments: str) -> Count:
        count = self._calls.get((name, arguments))
        if count is None:
            count = self._calls[name, arguments] = self._count_call(name, arguments)
        return count

    def _count_call(self, name: str, arguments: str) -> Count:
        message = Message(role="assistant", parts=(ToolCall(id="call00001", name=name, arguments=arguments),))
        written = sum_counts(self.texts([name, arguments]), self.tokenizer)
        try:
            difference = self._rendered([_HI, message], False) - self._rendered([_HI], False)  # noqa: FBT003
        except TemplateRefused:
            return sum_counts([written, Count(tokens=self._probes.max_message, basis="bound")], self.tokenizer)
        # A template that omits calls would show no difference: they are then charged as text, if a server may add them.
        least = 0 if self._template.says_all and not self._shows_calls else written.upper
        tokens = max(difference - self.message_overhead("assistant"), least)
        return Count(tokens=tokens, basis=written.basis, tokenizer=self.tokenizer)


def _texts_in(content: object) -> list[str]:
    """Return the texts of a message's field: a string, or a list of parts."""
    if isinstance(content, str):
        return [content]
    parts = content if isinstance(content, list) else []
    return [part["text"] for part in parts if isinstance(part, dict) and isinstance(part.get("text"), str)]


class _Request(msgspec.Struct, frozen=True):
    """A request in OpenAI's form, as a server passes it to a chat template. `options` are its other fields."""

    messages: Sequence[WireMessage]
    tools: Sequence[dict[str, Any]] = ()
    options: Mapping[str, Any] = {}

    @classmethod
    def of(cls, prompt: Prompt) -> "_Request":
        """Return the request that the prompt was read from, or one with the same content."""
        messages = wire_messages(prompt.messages) if prompt.body is None else prompt.body["messages"]
        return cls(messages, wire_tools(prompt.tools), prompt.body or {})


def _tool_calls(prompt: Prompt) -> list[ToolCall]:
    return [part for message in prompt.messages for part in message.parts if isinstance(part, ToolCall)]


def _as_estimate(count: Count) -> Count:
    """Return an exact count as an estimate, for a prompt that may be rendered in another way."""
    margin = max(count.margin, math.ceil(count.tokens * UNVERIFIED_MARGIN))
    return Count(tokens=count.tokens, basis="calibrated", tokenizer=count.tokenizer, margin=margin)


def _as_bound(count: Count) -> Count:
    return Count(tokens=count.upper, basis="bound", tokenizer=count.tokenizer)
