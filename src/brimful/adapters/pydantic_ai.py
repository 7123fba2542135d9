"""Pydantic AI: a capability that fits every request of an agent, part by part.

A response is kept or dropped as a whole. The parts of a request, such as the results of parallel calls and a prompt
after them, are kept or dropped one by one.
"""

import copy
import json
import operator
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any, Self, Unpack

from brimful.adapters.fitter import NOTHING_LEFT_OUT, Fitted, Fitter, RequestDetails, WireMessage
from brimful.assembly.fit import FitOptions
from brimful.assembly.recall_tool import recall_tool
from brimful.core.recall import RECALL
from brimful.engine import Engine, SyncEngine
from brimful.errors import MissingExtra
from brimful.records import Usage

try:
    from pydantic_ai import RunContext
    from pydantic_ai.capabilities import AbstractCapability
    from pydantic_ai.exceptions import ModelAPIError, ModelContextWindowExceededError
    from pydantic_ai.messages import (
        ERROR_OUTCOMES,
        AudioUrl,
        BinaryContent,
        CachePoint,
        CompactionPart,
        DocumentUrl,
        FilePart,
        ImageUrl,
        InstructionBaselinePart,
        InstructionDeltaPart,
        InstructionPart,
        ModelMessage,
        ModelRequest,
        ModelResponse,
        NativeToolCallPart,
        NativeToolReturnPart,
        RetryFeedbackPart,
        RetryPromptPart,
        SpeechPart,
        SystemPromptPart,
        TextContent,
        TextPart,
        ThinkingPart,
        ToolCallPart,
        ToolReturnPart,
        UploadedFile,
        UserPromptPart,
        VideoUrl,
    )
    from pydantic_ai.models import AbstractModel, Model, ModelRequestContext, ModelRequestParameters, StreamedResponse
    from pydantic_ai.models.wrapper import WrapperModel
    from pydantic_ai.settings import ModelSettings
    from pydantic_ai.tools import Tool
    from pydantic_ai.toolsets import AbstractToolset, FunctionToolset
except ImportError as error:
    raise MissingExtra("pydantic-ai", "brimful.adapters.pydantic_ai") from error


class BrimfulCapability(AbstractCapability[Any]):
    """Makes every request of an agent fit its window, and learns from the usage that the model reports.

    The options are the same as for `brimful.fit`. With an `engine`, every request is recorded in its store. The history
    of a run is not changed: `all_messages()` returns all of it. If the provider refuses a request as too long, a
    smaller one is sent. With `recall`, a request that leaves something out offers the model a tool to get it back.
    """

    def __init__(
        self, *, engine: Engine | SyncEngine | None = None, recall: bool = False, **options: Unpack[FitOptions]
    ) -> None:
        self._fitter = Fitter(engine=engine, refusals=(ModelContextWindowExceededError,), recall=recall, **options)
        self._has_recall = recall
        self._sent: Fitted | None = None

    async def for_run(self, ctx: RunContext[Any]) -> Self:
        """Return a copy for one run, which remembers its latest request."""
        del ctx
        return copy.copy(self)

    async def before_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """Replace the messages by those that fit, and remove the recall tool if nothing is left out."""
        given = request_context.model_request_parameters
        tools = [tool for tool in given.function_tools if not (self._has_recall and tool.name == RECALL.name)]
        others = replace(given, function_tools=tools)
        request_context.messages = await self._fit(
            request_context.messages, request_context.model, others, ctx.conversation_id or ""
        )
        if self._sent is None or not self._sent.offers_recall:
            request_context.model_request_parameters = others
        return request_context

    def get_toolset(self) -> AbstractToolset[Any] | None:
        """Return the recall tool."""
        if not self._has_recall:
            return None
        tool = Tool.from_schema(self._recall, RECALL.name, RECALL.description, RECALL.parameters)
        return FunctionToolset([tool])

    def _recall(self, **arguments: Any) -> str:
        """Answer a call of the recall tool, for the latest request of the run."""
        return NOTHING_LEFT_OUT if self._sent is None else recall_tool(self._sent.context)(arguments)

    def get_wrapper_model(self, model: Model) -> Model:
        """Return a model that sends a smaller request if one is refused as too long."""
        return _RetryModel(model, self._fit_again)

    async def after_model_request(
        self, ctx: RunContext[Any], *, request_context: ModelRequestContext, response: ModelResponse
    ) -> ModelResponse:
        """Learn from the usage of a response."""
        del ctx, request_context
        reported = response.usage
        if self._sent is not None and reported.input_tokens:
            usage = Usage(
                prompt=reported.input_tokens,
                cached=reported.cache_read_tokens,
                completion=reported.output_tokens,
                reasoning=reported.details.get("reasoning_tokens", 0),
            )
            await self._fitter.aobserve(self._sent, usage=usage)
        return response

    async def compact(self, messages: list[ModelMessage], ctx: RunContext[Any]) -> list[ModelMessage]:
        """Return the messages that fit, as a `CompactionStrategy` of the harness."""
        return await self._fit(messages, ctx.model, ModelRequestParameters(), ctx.conversation_id or "")

    async def _fit_again(
        self, messages: list[ModelMessage], model: Model, parameters: ModelRequestParameters, error: ModelAPIError
    ) -> list[ModelMessage]:
        """Return the messages that fit into the window that an overflow named; raise any other error."""
        conversation = "" if self._sent is None else self._sent.conversation
        return await self._fit(messages, model, parameters, conversation, error)

    async def _fit(
        self,
        messages: list[ModelMessage],
        model: AbstractModel,
        parameters: ModelRequestParameters,
        conversation: str,
        error: ModelAPIError | None = None,
    ) -> list[ModelMessage]:
        units = [unit for unit in _list_units(messages) if unit.wire]
        wire = [unit.wire for unit in units]
        details = RequestDetails(
            conversation=conversation,
            route=model.system,
            model=model.model_name,
            window=model.context_window,
            system=_join_instructions(parameters),
            tools=list(_list_tools(parameters)),
            pin=[i for i, unit in enumerate(units) if _is_required(unit.value)],
        )
        if error is None or self._sent is None:
            fitted = await self._fitter.afit(wire, **details)
        else:
            smaller = await self._fitter.arefit(wire, self._sent, error, **details)
            if smaller is None:
                raise error
            fitted = smaller
        self._sent = fitted
        sent = fitted.rebuild(
            units,
            shorten=lambda unit, wire: replace(unit, value=_shorten(unit.value, wire[0])),
            add=lambda text: _Unit(message=len(messages), part=0, value=UserPromptPart(text)),
        )
        return messages if sent is units else list(_regroup(messages, sent))


class _RetryModel(WrapperModel):
    """Sends a request again, smaller, if it is refused as too long."""

    def __init__(self, wrapped: Model, fit_again: Callable[..., Awaitable[list[ModelMessage]]]) -> None:
        super().__init__(wrapped)
        self._fit_again = fit_again

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        """Send a request."""
        try:
            return await self.wrapped.request(messages, model_settings, model_request_parameters)
        except ModelAPIError as error:
            smaller = await self._fit_again(messages, self.wrapped, model_request_parameters, error)
        return await self.wrapped.request(smaller, model_settings, model_request_parameters)

    @asynccontextmanager
    async def request_stream(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
        run_context: RunContext[Any] | None = None,
    ) -> AsyncGenerator[StreamedResponse]:
        """Send a request for a stream."""
        rest = (model_settings, model_request_parameters, run_context)
        async with AsyncExitStack() as stack:
            try:
                stream = await stack.enter_async_context(self.wrapped.request_stream(messages, *rest))
            except ModelAPIError as error:
                smaller = await self._fit_again(messages, self.wrapped, model_request_parameters, error)
                stream = await stack.enter_async_context(self.wrapped.request_stream(smaller, *rest))
            yield stream


# -- requests ----------------------------------------------------------------------------------------------------------


def _join_instructions(parameters: ModelRequestParameters) -> str | None:
    parts = parameters.instruction_parts or []
    return InstructionPart.join([part for part in parts if parameters.instruction_visibility_of(part) == "prefix"])


def _list_tools(parameters: ModelRequestParameters) -> Iterator[dict[str, Any]]:
    """Yield the definitions that are sent with a request: of tools, and of the output, which is counted like a tool."""
    for tool in (*parameters.declared_function_tools, *parameters.output_tools):
        yield _make_tool(tool.name, tool.description, tool.parameters_json_schema)
    for native in parameters.native_tools:
        yield {"type": native.kind}
    if (output := parameters.output_object) is not None and parameters.output_mode in ("native", "prompted"):
        yield _make_tool(output.name or "output", output.description, output.json_schema)


def _make_tool(name: str, description: str | None, schema: dict[str, Any]) -> dict[str, Any]:
    function = {"name": name, "description": description or "", "parameters": schema}
    return {"type": "function", "function": function}


@dataclass(frozen=True)
class _Unit:
    """A response, or a part of a request: its value, where it is, and its translation."""

    message: int
    part: int
    value: Any
    wire: list[WireMessage] = field(default_factory=list)


def _list_units(messages: Sequence[ModelMessage]) -> Iterator[_Unit]:
    for index, message in enumerate(messages):
        parts = [message] if isinstance(message, ModelResponse) else message.parts
        yield from (_Unit(index, number, part, _to_wire(part)) for number, part in enumerate(parts))


def _is_required(value: Any) -> bool:
    """Whether a unit must stay as it is: a compaction, or a result whose content Pydantic AI reads itself."""
    if isinstance(value, ModelResponse):
        return any(isinstance(part, CompactionPart) for part in value.parts)
    return isinstance(value, CompactionPart) or (isinstance(value, ToolReturnPart) and value.tool_kind is not None)


def _regroup(messages: Sequence[ModelMessage], units: Sequence[_Unit]) -> Iterator[ModelMessage]:
    """Yield the messages of units: the same objects if they are complete, else copies.

    What is never sent to the model stays: a part with its message, and a message without any other parts.
    """
    done = 0
    for index, group in groupby(units, lambda unit: unit.message):
        if index < len(messages):
            yield from filter(_is_silent, messages[done:index])
            done = index + 1
        stay = {unit.part: unit.value for unit in group}
        message = messages[index] if index < len(messages) else ModelRequest(parts=list(stay.values()))
        if isinstance(message, ModelResponse):
            yield stay[0]
            continue
        parts = [stay.get(i, part) for i, part in enumerate(message.parts) if i in stay or not _to_wire(part)]
        is_complete = len(parts) == len(message.parts) and all(map(operator.is_, parts, message.parts))
        yield message if is_complete else replace(message, parts=parts)
    yield from filter(_is_silent, messages[done:])


def _is_silent(message: ModelMessage) -> bool:
    return isinstance(message, ModelRequest) and not any(map(_to_wire, message.parts))


# -- translation -------------------------------------------------------------------------------------------------------


def _to_wire(value: Any) -> list[WireMessage]:  # noqa: PLR0911 - one for each kind of part
    """Return a response or a part of a request as a message in OpenAI's format, to be counted."""
    match value:
        case ModelResponse():
            return [_response_to_wire(value)]
        case InstructionBaselinePart():  # never sent
            return []
        case SystemPromptPart():
            return [{"role": "system", "content": value.content}]
        case UserPromptPart():
            return [_user_message(_content(value.content))]
        case ToolReturnPart():
            return [_tool_message(value.tool_call_id, _result_content(value))]
        case RetryPromptPart() if value.tool_name is not None:
            return [_tool_message(value.tool_call_id, value.model_response())]
        case RetryPromptPart() | RetryFeedbackPart():
            return [_user_message(value.model_response())]
        case InstructionDeltaPart():
            return [_user_message(value.render())]
        case SpeechPart():
            return [_user_message(list(_part_blocks(value)))]
        case _:
            return [_user_message([_unknown_block(value)])]


def _result_content(result: ToolReturnPart) -> str | list[dict[str, Any]]:
    """Return the content of a result. An error has a block more, for what some providers are sent it in."""
    text = result.model_response_str(wrap_if_error=False)
    content = _content(_result_items(result) if result.files else text)
    if result.outcome not in ERROR_OUTCOMES:
        return content
    blocks = [_block(content)] if isinstance(content, str) else content
    return [*blocks, {"type": "error", "error": "\\" * (len(json.dumps(text)) - len(text))}]


def _result_items(result: ToolReturnPart) -> Sequence[Any]:
    return result.content_items(mode="str", wrap_if_error=False)


def _user_message(content: str | list[dict[str, Any]]) -> WireMessage:
    return {"role": "user", "content": content}


def _tool_message(id: str, content: str | list[dict[str, Any]]) -> WireMessage:
    return {"role": "tool", "tool_call_id": id, "content": content}


def _response_to_wire(response: ModelResponse) -> WireMessage:
    content = [block for part in response.parts for block in _part_blocks(part)]
    calls = [
        {
            "id": part.tool_call_id,
            "type": "function",
            "function": {"name": part.tool_name, "arguments": part.args_as_json_str()},
        }
        for part in response.parts
        if isinstance(part, ToolCallPart)
    ]
    return {"role": "assistant", "content": content, **({"tool_calls": calls} if calls else {})}


def _part_blocks(part: Any) -> Iterator[dict[str, Any]]:  # noqa: C901 - one case for each kind of part
    """Yield the content of a part of a response. Only blocks of text may be shortened."""
    match part:
        case ToolCallPart():
            return
        case TextPart():
            yield {"type": "text", "text": part.content}
        case ThinkingPart():
            if part.content:
                yield {"type": "thinking", "thinking": part.content}
            if part.signature and (not part.content or part.provider_name == "openai"):
                yield {"type": "reasoning", "encrypted_content": part.signature}
        case FilePart():
            yield _block(part.content)
        case SpeechPart():
            yield {"type": "speech", "transcript": part.content}
            if part.audio is not None:
                yield _block(part.audio)
        case NativeToolCallPart():
            yield {"type": "call", "name": part.tool_name, "arguments": part.args_as_json_str()}
        case NativeToolReturnPart():
            yield {"type": "result", "result": part.model_response_str()}
        case _:
            yield _unknown_block(part)


def _unknown_block(part: Any) -> dict[str, Any]:
    """Return a part that is passed on as it is: a compaction, or one of an unknown type."""
    if isinstance(part, CompactionPart):
        details = part.provider_details or {}
        return {"type": "summary", "summary": part.content or "", **details}
    return {"type": "part", "value": repr(part)}


def _content(items: str | Sequence[Any]) -> str | list[dict[str, Any]]:
    """Return content as one block for each item that is sent."""
    return items if isinstance(items, str) else [_block(item) for item in items if not isinstance(item, CachePoint)]


def _block(item: Any) -> dict[str, Any]:  # noqa: C901, PLR0911 - one case for each kind of content
    match item:
        case str():
            return {"type": "text", "text": item}
        case TextContent():
            return {"type": "text", "text": item.content}
        case ImageUrl():
            return _image(item.url, item.vendor_metadata)
        case AudioUrl():
            return {"type": "audio_url", "audio_url": {"url": item.url}}
        case VideoUrl():
            return {"type": "video_url", "video_url": {"url": item.url}}
        case DocumentUrl():
            return {"type": "file", "file": {"file_data": item.url}}
        case UploadedFile():
            return {"type": "file", "file": {"file_id": item.file_id}}
        case BinaryContent() if item.is_image:
            return _image(item.data_uri, item.vendor_metadata)
        case BinaryContent() if item.is_audio:
            return {"type": "input_audio", "input_audio": {"data": item.base64, "format": item.format}}
        case BinaryContent() if item.is_video:
            return {"type": "video_url", "video_url": {"url": item.data_uri}}
        case BinaryContent():
            return {"type": "file", "file": {"file_data": item.data_uri}}
        case _:
            return {"type": "part", "value": repr(item)}


def _image(url: str, metadata: Mapping[str, Any] | None) -> dict[str, Any]:
    detail = (metadata or {}).get("detail")
    return {"type": "image_url", "image_url": {"url": url, **({"detail": detail} if detail else {})}}


# -- shorter copies ----------------------------------------------------------------------------------------------------


def _shorten(value: Any, wire: WireMessage) -> Any:
    """Return a copy of a response or a part of a request with the texts of its shortened translation."""
    content = wire["content"]
    match value:
        case ModelResponse():
            return replace(value, parts=list(_shorten_parts(value.parts, wire)))
        case UserPromptPart():
            return replace(value, content=_shorten_items(value.content, content))
        case ToolReturnPart():
            return replace(value, content=_shorten_items(_result_items(value) if value.files else "", content))
        case RetryPromptPart() if value.tool_name is not None:
            return ToolReturnPart(value.tool_name, content, tool_call_id=value.tool_call_id, outcome="retried")
        case SystemPromptPart():
            return replace(value, content=content)
        case _:
            return UserPromptPart(content)


def _shorten_items(items: str | Sequence[Any], content: str | list[dict[str, Any]]) -> str | list[Any]:
    """Return content with the texts of shortened blocks; a medium that became a text is one."""
    if isinstance(items, str) or isinstance(content, str):
        return content if isinstance(content, str) else "".join(block.get("text", "") for block in content)
    blocks = iter(content)
    return [item if isinstance(item, CachePoint) else _shorten_item(item, next(blocks)) for item in items]


def _shorten_item(item: Any, block: dict[str, Any]) -> Any:
    if block == _block(item):
        return item
    if block["type"] == "text":
        return replace(item, content=block["text"]) if isinstance(item, TextContent) else block["text"]
    return replace(item, vendor_metadata={**(item.vendor_metadata or {}), "detail": block["image_url"]["detail"]})


def _shorten_parts(parts: Sequence[Any], wire: WireMessage) -> Iterator[Any]:
    blocks = iter(wire["content"])
    arguments = {call["id"]: call["function"]["arguments"] for call in wire.get("tool_calls", ())}
    for part in parts:
        own = [next(blocks) for _ in _part_blocks(part)]
        if isinstance(part, TextPart) and own[0]["text"] != part.content:
            yield replace(part, content=own[0]["text"])
        elif isinstance(part, ToolCallPart) and arguments[part.tool_call_id] != part.args_as_json_str():
            yield replace(part, args=arguments[part.tool_call_id])
        else:
            yield part
