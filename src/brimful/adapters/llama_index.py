"""LlamaIndex: an LLM that fits every request, a memory that fits the history, and a retriever.

`BrimfulLLM` wraps any LLM and fits the messages that are really sent, including the calls and results of a running
agent, which never pass through its memory. `BrimfulMemory` has the whole history, in a room of an engine if you like.
"""

import base64
import json
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from io import IOBase
from typing import Any, Final

from brimful import Engine, SyncEngine
from brimful.adapters.fitter import (
    Fitted,
    Fitter,
    RequestDetails,
    WireMessage,
    arun,
    describe_hit,
    read_newest,
    require_engine,
    run,
)
from brimful.engine.options import ResponseOptions
from brimful.errors import InvalidValue, MissingExtra
from brimful.packagers.records import plain_text
from brimful.records import Message
from brimful.retrieval.search import Hit

try:
    from llama_index.core.base.base_retriever import BaseRetriever
    from llama_index.core.base.llms.types import (
        AudioBlock,
        CachePoint,
        ChatMessage,
        ChatResponse,
        ChatResponseAsyncGen,
        ChatResponseGen,
        CitableBlock,
        CitationBlock,
        CompletionResponse,
        CompletionResponseAsyncGen,
        CompletionResponseGen,
        DocumentBlock,
        ImageBlock,
        LLMMetadata,
        MessageRole,
        TextBlock,
        ThinkingBlock,
        ToolCallBlock,
        VideoBlock,
    )
    from llama_index.core.bridge.pydantic import Field, PrivateAttr, SerializeAsAny
    from llama_index.core.llms.function_calling import FunctionCallingLLM
    from llama_index.core.llms.llm import LLM, ToolSelection
    from llama_index.core.memory.types import BaseMemory
    from llama_index.core.prompts.base import BasePromptTemplate, ChatPromptTemplate
    from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
    from llama_index.core.tools.types import BaseTool
except ImportError as error:
    raise MissingExtra("llama-index", "the adapter for LlamaIndex") from error

_ROLES: Final = {MessageRole.CHATBOT: "assistant", MessageRole.MODEL: "assistant", MessageRole.FUNCTION: "tool"}
"""Roles with another name in OpenAI's format."""
_UNKNOWN_MODEL: Final = "unknown"  # LlamaIndex's name for it
_HISTORY_SHARE: Final = 0.75  # of the window, as in ChatMemoryBuffer
_METADATA_KEY: Final = "llama_index"  # of a stored message, for what text and calls do not say
_OWN_FIELDS: Final = ("room", "history", "options", "model", "limit", "whole")
_LIMITING_OPTIONS: Final = ("model", "window", "max_prompt_tokens")

# -- translation ---------------------------------------------------------------------------------------------------


def to_openai(messages: Sequence[ChatMessage]) -> list[list[WireMessage]]:
    """Translate messages into OpenAI's format, to be counted. Each becomes one message."""
    open_calls: deque[str] = deque()
    return [[_translate(message, open_calls)] for message in messages]


def _translate(message: ChatMessage, open_calls: deque[str]) -> WireMessage:
    extra = message.additional_kwargs
    role = _ROLES.get(message.role, message.role.value)
    wire: WireMessage = {"role": role, "content": _content(message)}
    calls = [_call_block(block) for block in message.blocks if isinstance(block, ToolCallBlock)]
    calls = calls or [_call(call) for call in extra.get("tool_calls") or ()]
    if function := _plain(extra.get("function_call")):
        calls = calls or [_call(function)]
    if calls:
        wire["tool_calls"] = calls
        open_calls.extend(call["id"] for call in calls)
    if role == "tool":
        wire["tool_call_id"] = _answered_id(extra, open_calls)
    if isinstance(name := extra.get("name"), str) and role != "tool":
        wire["name"] = name
    return wire


def _answered_id(extra: Mapping[str, Any], open_calls: deque[str]) -> str:
    """Return the id of the call that a result answers: its own, or else that of the oldest call without a result."""
    id = extra.get("tool_call_id") or extra.get("call_id") or extra.get("name")
    if id is None:
        return open_calls.popleft() if open_calls else ""
    if id in open_calls:
        open_calls.remove(id)
    return str(id)


def _call_block(block: ToolCallBlock) -> dict[str, Any]:
    return _function(block.tool_call_id, block.tool_name, block.tool_kwargs)


def _call(call: object) -> dict[str, Any]:
    """Translate a call of `additional_kwargs`, whose form depends on the provider."""
    match _plain(call):
        case {"function": {"name": name, "arguments": arguments}, **rest}:
            return _function(rest.get("id"), name, arguments)
        case {"name": name, **rest}:  # Anthropic, Bedrock, and OpenAI's older function calls
            id = rest.get("id") or rest.get("toolUseId") or rest.get("call_id")
            return _function(id, name, rest.get("input", rest.get("arguments")))
        case {"tool_name": name, **rest}:
            return _function(rest.get("tool_id") or rest.get("tool_call_id"), name, rest.get("tool_kwargs"))
        case other:
            return _function(None, "", other)


def _function(id: object, name: object, arguments: object) -> dict[str, Any]:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments or {}, ensure_ascii=False, default=str)
    return {"id": str(id or name or ""), "type": "function", "function": {"name": str(name or ""), "arguments": text}}


def _plain(value: object) -> Any:
    """Return a pydantic model as a dict."""
    dump = getattr(value, "model_dump", None)
    return dump() if callable(dump) else value


def _content(message: ChatMessage) -> str | list[dict[str, Any]]:
    match message.blocks:
        case []:
            return ""
        case [TextBlock(text=text)]:
            return text
        case blocks:
            return [part for block in blocks for part in _parts(block)]


def _parts(block: object) -> Iterator[dict[str, Any]]:  # noqa: C901 - one case for each type of block
    """Translate a content block. One of an unknown type is counted by its text and data."""
    match block:
        case TextBlock():
            yield {"type": "text", "text": block.text}
        case ImageBlock():
            image = {"url": _data_url(block, block.image, block.image_mimetype or "image/png")}
            yield {"type": "image_url", "image_url": image | ({"detail": block.detail} if block.detail else {})}
        case AudioBlock():
            yield {
                "type": "audio_url",
                "audio_url": {"url": _data_url(block, block.audio, f"audio/{block.format or 'wav'}")},
            }
        case VideoBlock():
            url = _data_url(block, block.video, block.video_mimetype or "video/mp4")
            yield {"type": "video_url", "video_url": {"url": url}}
        case DocumentBlock():
            url = _data_url(block, block.data, block.document_mimetype or "application/pdf")
            yield {"type": "file", "file": {"file_data": url, "filename": block.title or ""}}
        case CitableBlock():
            yield {"type": "text", "text": f"{block.title}\n{block.source}"}
            for inner in block.content:
                yield from _parts(inner)
        case CitationBlock():
            yield {"type": "text", "text": f"{block.title}\n{block.source}"}
            yield from _parts(block.cited_content)
        case ThinkingBlock():
            yield {"type": "thinking", "thinking": block.content or "", **block.additional_information}
        case CachePoint() | ToolCallBlock():
            return
        case _:
            fields = _plain(block)
            yield {"type": getattr(block, "block_type", "unknown")} | (fields if isinstance(fields, dict) else {})


def _data_url(block: Any, data: object, media_type: str) -> str:
    """Return a block's data, file or URL as a URL. LlamaIndex holds data as base64."""
    if isinstance(data, bytes):
        encoded = data
    elif isinstance(data, IOBase):
        encoded = base64.b64encode(_peek(data))
    elif block.path is not None:
        with open(block.path, "rb") as file:  # noqa: PTH123 - a string or a path
            encoded = base64.b64encode(file.read())
    else:
        return str(block.url or "")
    return f"data:{media_type};base64,{encoded.decode()}"


def _peek(file: IOBase) -> bytes:
    """Return the content of an open file, and leave it at its position."""
    position = file.tell()
    file.seek(0)
    try:
        content: bytes = file.read()
    finally:
        file.seek(position)
    return content


def _shorten(message: ChatMessage, wire: Sequence[WireMessage]) -> ChatMessage:
    """Return a copy of a message with a shorter text. All other blocks stay."""
    content = wire[0]["content"]
    text = content if isinstance(content, str) else "".join(part["text"] for part in content if part["type"] == "text")
    blocks: list[Any] = []
    for block in message.blocks:
        if not isinstance(block, TextBlock | CitableBlock | CitationBlock):
            blocks.append(block)
            continue
        if text:
            blocks.append(TextBlock(text=text))
            text = ""
        if isinstance(block, CitableBlock):
            blocks += [inner for inner in block.content if not isinstance(inner, TextBlock)]
    return message.model_copy(update={"blocks": blocks})


def _user_message(text: str) -> ChatMessage:
    return ChatMessage(role=MessageRole.USER, content=text)


# -- usage -------------------------------------------------------------------------------------------------------------


def _read_response(response: ChatResponse | None) -> ResponseOptions:
    """Return the usage that a provider reported, in its own format. Integrations put it in different places."""
    if response is None:  # a stream without a chunk
        return {}
    raw = _plain(response.raw)
    extra = response.additional_kwargs
    fields = raw if isinstance(raw, Mapping) else {}
    for usage in (_plain(fields.get("usage")), _plain(extra.get("usage")), extra):
        match usage:
            case {"prompt_tokens": int()} | {"input_tokens": int()}:
                return {"usage": usage}
    return {}


# -- the LLM -----------------------------------------------------------------------------------------------------------


class BrimfulLLM(FunctionCallingLLM):
    """An LLM that fits every chat request into the window of the LLM that it wraps.

    `conversation` names the conversation in the records of an `engine`. The options are the same as for `brimful.fit`.
    A request that the provider refuses as too long is fitted again, and sent once more. Prompts of `complete` are
    passed through.
    """

    llm: SerializeAsAny[LLM]
    conversation: str = ""
    options: dict[str, Any] = Field(default_factory=dict, exclude=True)
    _fitter: Fitter = PrivateAttr()

    def __init__(
        self, llm: LLM, *, conversation: str = "", engine: Engine | SyncEngine | None = None, **options: Any
    ) -> None:
        if not isinstance(llm, LLM):
            raise InvalidValue("llm", f"must be an LLM of LlamaIndex, not {type(llm).__name__}")
        own = {name: options.pop(name) for name in list(options) if name in type(self).model_fields}
        fit_options = {**own.pop("options", {}), **options}
        shared = {name: getattr(llm, name) for name in LLM.model_fields if name != "rate_limiter"}
        fitter = Fitter(engine=engine, **fit_options)
        super().__init__(**{**shared, **own, "llm": llm, "conversation": conversation, "options": fit_options})
        self._fitter = fitter

    @classmethod
    def class_name(cls) -> str:
        """Return the name for serialization."""
        return "BrimfulLLM"

    @property
    def metadata(self) -> LLMMetadata:
        """The metadata of the wrapped LLM."""
        return self.llm.metadata

    def to_payload(self) -> dict[str, Any]:
        """Return what traces show about the wrapped LLM."""
        return dict(self.llm.to_payload())

    # -- chat --------------------------------------------------------------------------------------------------------

    def chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        """Fit the messages and let the wrapped LLM answer."""
        return self._send(messages, (), lambda sent: self.llm.chat(sent, **kwargs))

    async def achat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        """Fit the messages and let the wrapped LLM answer."""
        return await self._asend(messages, (), lambda sent: self.llm.achat(sent, **kwargs))

    def stream_chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponseGen:
        """Fit the messages and stream the answer of the wrapped LLM."""
        return self._stream(messages, (), lambda sent: self.llm.stream_chat(sent, **kwargs))

    async def astream_chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponseAsyncGen:
        """Fit the messages and stream the answer of the wrapped LLM."""
        return await self._astream(messages, (), lambda sent: self.llm.astream_chat(sent, **kwargs))

    def chat_with_tools(
        self,
        tools: Sequence[BaseTool],
        user_msg: str | ChatMessage | None = None,
        chat_history: list[ChatMessage] | None = None,
        *args: Any,
        **kwargs: Any,
    ) -> ChatResponse:
        """Fit the messages and let the wrapped LLM answer or call tools."""
        call = self._function_calling.chat_with_tools
        return self._send(_join(chat_history, user_msg), tools, lambda sent: call(tools, None, sent, *args, **kwargs))

    async def achat_with_tools(
        self,
        tools: Sequence[BaseTool],
        user_msg: str | ChatMessage | None = None,
        chat_history: list[ChatMessage] | None = None,
        *args: Any,
        **kwargs: Any,
    ) -> ChatResponse:
        """Fit the messages and let the wrapped LLM answer or call tools."""
        call = self._function_calling.achat_with_tools
        return await self._asend(
            _join(chat_history, user_msg), tools, lambda sent: call(tools, None, sent, *args, **kwargs)
        )

    def stream_chat_with_tools(
        self,
        tools: Sequence[BaseTool],
        user_msg: str | ChatMessage | None = None,
        chat_history: list[ChatMessage] | None = None,
        *args: Any,
        **kwargs: Any,
    ) -> ChatResponseGen:
        """Fit the messages and stream the answer or the calls of the wrapped LLM."""
        call = self._function_calling.stream_chat_with_tools
        return self._stream(_join(chat_history, user_msg), tools, lambda sent: call(tools, None, sent, *args, **kwargs))

    async def astream_chat_with_tools(
        self,
        tools: Sequence[BaseTool],
        user_msg: str | ChatMessage | None = None,
        chat_history: list[ChatMessage] | None = None,
        *args: Any,
        **kwargs: Any,
    ) -> ChatResponseAsyncGen:
        """Fit the messages and stream the answer or the calls of the wrapped LLM."""
        call = self._function_calling.astream_chat_with_tools
        return await self._astream(
            _join(chat_history, user_msg), tools, lambda sent: call(tools, None, sent, *args, **kwargs)
        )

    def get_tool_calls_from_response(
        self, response: ChatResponse, error_on_no_tool_call: bool = True, **kwargs: Any
    ) -> list[ToolSelection]:
        """Return the tool calls in an answer of the wrapped LLM."""
        return self._function_calling.get_tool_calls_from_response(response, error_on_no_tool_call, **kwargs)

    def _prepare_chat_with_tools(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Prepare a request as the wrapped LLM does."""
        return self._function_calling._prepare_chat_with_tools(*args, **kwargs)  # noqa: SLF001

    @property
    def _function_calling(self) -> FunctionCallingLLM:
        if isinstance(self.llm, FunctionCallingLLM):
            return self.llm
        raise InvalidValue("llm", f"must be a FunctionCallingLLM to call tools, not {type(self.llm).__name__}")

    # -- completion --------------------------------------------------------------------------------------------------

    def complete(self, prompt: str, *args: Any, **kwargs: Any) -> CompletionResponse:
        """Let the wrapped LLM complete a prompt."""
        return self.llm.complete(prompt, *args, **kwargs)

    async def acomplete(self, prompt: str, *args: Any, **kwargs: Any) -> CompletionResponse:
        """Let the wrapped LLM complete a prompt."""
        return await self.llm.acomplete(prompt, *args, **kwargs)

    def stream_complete(self, prompt: str, *args: Any, **kwargs: Any) -> CompletionResponseGen:
        """Stream the completion of the wrapped LLM."""
        return self.llm.stream_complete(prompt, *args, **kwargs)

    async def astream_complete(self, prompt: str, *args: Any, **kwargs: Any) -> CompletionResponseAsyncGen:
        """Stream the completion of the wrapped LLM."""
        return await self.llm.astream_complete(prompt, *args, **kwargs)

    # -- structured output -------------------------------------------------------------------------------------------

    def structured_predict(
        self, output_cls: type[Any], prompt: BasePromptTemplate, llm_kwargs: Any = None, **prompt_args: Any
    ) -> Any:
        """Fit the messages of a prompt and let the wrapped LLM answer with an object."""
        fitted = self._fit_prompt(output_cls, prompt, prompt_args)
        return self.llm.structured_predict(output_cls, fitted, llm_kwargs=llm_kwargs)

    async def astructured_predict(
        self, output_cls: type[Any], prompt: BasePromptTemplate, llm_kwargs: Any = None, **prompt_args: Any
    ) -> Any:
        """Fit the messages of a prompt and let the wrapped LLM answer with an object."""
        fitted = await self._afit_prompt(output_cls, prompt, prompt_args)
        return await self.llm.astructured_predict(output_cls, fitted, llm_kwargs=llm_kwargs)

    def stream_structured_predict(
        self, output_cls: type[Any], prompt: BasePromptTemplate, llm_kwargs: Any = None, **prompt_args: Any
    ) -> Iterator[Any]:
        """Fit the messages of a prompt and stream the object that the wrapped LLM answers with."""
        fitted = self._fit_prompt(output_cls, prompt, prompt_args)
        return self.llm.stream_structured_predict(output_cls, fitted, llm_kwargs=llm_kwargs)

    async def astream_structured_predict(
        self, output_cls: type[Any], prompt: BasePromptTemplate, llm_kwargs: Any = None, **prompt_args: Any
    ) -> AsyncIterator[Any]:
        """Fit the messages of a prompt and stream the object that the wrapped LLM answers with."""
        fitted = await self._afit_prompt(output_cls, prompt, prompt_args)
        return await self.llm.astream_structured_predict(output_cls, fitted, llm_kwargs=llm_kwargs)

    # -- fitting -----------------------------------------------------------------------------------------------------

    def _details(self, tools: Sequence[BaseTool]) -> RequestDetails:
        known = self.metadata
        return {
            "conversation": self.conversation,
            "model": "" if known.model_name == _UNKNOWN_MODEL else known.model_name,
            "window": known.context_window,
            "tools": [tool.metadata.to_openai_tool(skip_length_check=True) for tool in tools],
        }

    def _send(
        self,
        messages: Sequence[ChatMessage],
        tools: Sequence[BaseTool],
        send: Callable[[list[ChatMessage]], ChatResponse],
    ) -> ChatResponse:
        listed = _listed(messages)
        return self._fitter.call(
            to_openai(listed), lambda fitted: send(_rebuild(fitted, listed)), _read_response, **self._details(tools)
        )

    async def _asend(
        self,
        messages: Sequence[ChatMessage],
        tools: Sequence[BaseTool],
        send: Callable[[list[ChatMessage]], Awaitable[ChatResponse]],
    ) -> ChatResponse:
        listed = _listed(messages)
        return await self._fitter.acall(
            to_openai(listed), lambda fitted: send(_rebuild(fitted, listed)), _read_response, **self._details(tools)
        )

    def _stream(
        self,
        messages: Sequence[ChatMessage],
        tools: Sequence[BaseTool],
        send: Callable[[list[ChatMessage]], ChatResponseGen],
    ) -> ChatResponseGen:
        listed, details = _listed(messages), self._details(tools)
        wire = to_openai(listed)
        first = self._fitter.fit(wire, **details)

        def responses() -> ChatResponseGen:
            fitted, response = first, None
            try:
                for response in send(_rebuild(fitted, listed)):
                    yield response
            except Exception as error:
                smaller = self._fitter.refit(wire, fitted, error, **details) if response is None else None
                if smaller is None:
                    raise
                fitted = smaller
                for response in send(_rebuild(fitted, listed)):
                    yield response
            self._fitter.observe(fitted, **_read_response(response))

        return responses()

    async def _astream(
        self,
        messages: Sequence[ChatMessage],
        tools: Sequence[BaseTool],
        send: Callable[[list[ChatMessage]], Awaitable[ChatResponseAsyncGen]],
    ) -> ChatResponseAsyncGen:
        listed, details = _listed(messages), self._details(tools)
        wire = to_openai(listed)
        first = await self._fitter.afit(wire, **details)

        async def responses() -> ChatResponseAsyncGen:
            fitted, response = first, None
            try:
                async for response in await send(_rebuild(fitted, listed)):
                    yield response
            except Exception as error:
                smaller = await self._fitter.arefit(wire, fitted, error, **details) if response is None else None
                if smaller is None:
                    raise
                fitted = smaller
                async for response in await send(_rebuild(fitted, listed)):
                    yield response
            await self._fitter.aobserve(fitted, **_read_response(response))

        return responses()

    def _fit_prompt(
        self, output_cls: type[Any], prompt: BasePromptTemplate, prompt_args: dict[str, Any]
    ) -> BasePromptTemplate:
        messages = prompt.format_messages(llm=self.llm, **prompt_args)
        fitted = self._fitter.fit(to_openai(messages), **self._schema_details(output_cls))
        return _FixedPrompt.from_messages(_rebuild(fitted, messages), output_parser=prompt.output_parser)

    async def _afit_prompt(
        self, output_cls: type[Any], prompt: BasePromptTemplate, prompt_args: dict[str, Any]
    ) -> BasePromptTemplate:
        messages = prompt.format_messages(llm=self.llm, **prompt_args)
        fitted = await self._fitter.afit(to_openai(messages), **self._schema_details(output_cls))
        return _FixedPrompt.from_messages(_rebuild(fitted, messages), output_parser=prompt.output_parser)

    def _schema_details(self, output_cls: type[Any]) -> RequestDetails:
        """Count the schema of an object as the tool that it is sent as, and the system prompt that is added later."""
        function = {"name": output_cls.__name__, "parameters": output_cls.model_json_schema()}
        details = self._details(())
        return {**details, "tools": [{"type": "function", "function": function}], "system": self.llm.system_prompt}


def _listed(messages: Sequence[ChatMessage]) -> list[ChatMessage]:
    return messages if isinstance(messages, list) else list(messages)


def _rebuild(fitted: Fitted, messages: list[ChatMessage]) -> list[ChatMessage]:
    return fitted.rebuild(messages, shorten=_shorten, add=_user_message)


def _join(history: list[ChatMessage] | None, message: str | ChatMessage | None) -> list[ChatMessage]:
    if message is None:
        return [] if history is None else history
    return [*(history or ()), _user_message(message) if isinstance(message, str) else message]


class _FixedPrompt(ChatPromptTemplate):
    """Messages that were fitted. Braces in them are text, not variables."""

    def format_messages(self, llm: Any = None, **kwargs: Any) -> list[ChatMessage]:
        """Return the messages."""
        del llm, kwargs
        messages = self.message_templates
        return messages if self.output_parser is None else self.output_parser.format_messages(messages)


# -- the memory --------------------------------------------------------------------------------------------------------


class BrimfulMemory(BaseMemory):
    """A chat memory that has the whole history, and returns as much of it as fits.

    `llm` is the LLM that the messages are for. History may take three quarters of its window, like LlamaIndex's own
    memories, or `max_prompt_tokens`. A `BrimfulLLM` fits its requests itself, so it gets the whole history. The other
    options are the same as for `brimful.fit`.

    With an `engine`, the history is stored in a `room`, and is there again after a restart.
    """

    room: str = "chat"
    history: list[ChatMessage] = Field(default_factory=list)
    options: dict[str, Any] = Field(default_factory=dict)
    model: str = ""
    limit: int | None = None
    whole: bool = False
    _fitter: Fitter = PrivateAttr()
    _engine: SyncEngine | None = PrivateAttr(default=None)
    _ids: list[str] = PrivateAttr(default_factory=list)

    def __init__(
        self,
        llm: LLM | None = None,
        *,
        chat_history: list[ChatMessage] | None = None,
        engine: SyncEngine | None = None,
        **options: Any,
    ) -> None:
        if engine is not None and not isinstance(engine, SyncEngine):
            raise InvalidValue("engine", "must be a brimful.SyncEngine, since a memory is read without `await`")
        own = {name: options.pop(name) for name in list(options) if name in _OWN_FIELDS}
        fit_options = {**own.pop("options", {}), **options}
        if llm is not None:
            own = {**_settings(llm, fit_options), **own}
        elif fit_options.keys().isdisjoint(_LIMITING_OPTIONS) and "limit" not in own:
            raise InvalidValue("llm", "is missing: pass the LLM that the messages are for, or max_prompt_tokens")
        fitter = Fitter(**fit_options)
        super().__init__(**{**own, "options": fit_options})
        self._fitter = fitter
        self._engine = engine
        if engine is not None:
            self._load(engine)
        if chat_history is not None:
            self.set(chat_history)

    @classmethod
    def class_name(cls) -> str:
        """Return the name for serialization."""
        return "BrimfulMemory"

    @classmethod
    def from_defaults(cls, **kwargs: Any) -> "BrimfulMemory":
        """Create a memory. The arguments are those of the class."""
        return cls(**kwargs)

    def get(self, input: str | None = None, initial_token_count: int = 0, **kwargs: Any) -> list[ChatMessage]:
        """Return as much of the history as fits, beside `initial_token_count` tokens that LlamaIndex adds."""
        del input, kwargs
        messages = self.get_all()
        if self.whole or not messages:
            return messages
        limit = self.options.get("max_prompt_tokens", self.limit)
        details = RequestDetails(conversation=self.room, model=self.model)
        if limit is not None:
            details["max_prompt_tokens"] = max(limit - initial_token_count, 1)
        return _rebuild(self._fitter.fit(to_openai(messages), **details), messages)

    def get_all(self) -> list[ChatMessage]:
        """Return the whole history."""
        return list(self.history)

    def put(self, message: ChatMessage) -> None:
        """Append a message."""
        if self._engine is not None:
            self._ids.append(self._engine.post(room=self.room, **_stored(message)).id)
        self.history.append(message)

    def set(self, messages: list[ChatMessage]) -> None:
        """Replace the history. Messages at its beginning that are the same are not written again."""
        pairs = zip(self.history, messages, strict=False)
        same = next((i for i, (old, new) in enumerate(pairs) if old != new), min(len(self.history), len(messages)))
        self._truncate(same)
        self.put_messages(messages[same:])

    def reset(self) -> None:
        """Delete the history."""
        self._truncate(0)

    def _truncate(self, length: int) -> None:
        if self._engine is not None:
            for id in self._ids[length:]:
                self._engine.delete(id)
            del self._ids[length:]
        del self.history[length:]

    def _load(self, engine: SyncEngine) -> None:
        """Read the history of the room."""
        records = engine.run(read_newest(engine.engine, self.room))
        shown = [record for record in reversed(records) if not (record.hidden or record.superseded)]
        self._ids = [record.id for record in shown]
        self.history = [_restored(record) for record in shown]


def _settings(llm: LLM, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a memory for an LLM."""
    known = llm.metadata
    model = "" if known.model_name == _UNKNOWN_MODEL else known.model_name
    if isinstance(llm, BrimfulLLM) and not options:
        return {"model": model, "whole": True}
    return {"model": model, "limit": None if options.get("window") else int(known.context_window * _HISTORY_SHARE)}


def _stored(message: ChatMessage) -> dict[str, Any]:
    """Return a message as arguments of `Engine.post`: its text, its calls, and the whole of it if that is not all."""
    wire = to_openai([message])[0][0]
    text = message.content or ""
    content: dict[str, Any] = {"role": wire["role"], "content": text}
    content |= {key: wire[key] for key in ("tool_calls", "tool_call_id") if key in wire}
    if message == ChatMessage(role=wire["role"], content=text):
        return {"content": content}
    return {"content": content, "metadata": {_METADATA_KEY: message.model_dump(mode="json")}}


def _restored(record: Message) -> ChatMessage:
    """Return a stored message. One that something else wrote has only a role and a text."""
    stored = record.metadata.get(_METADATA_KEY)
    if stored is None:
        return ChatMessage(role=record.role, content=plain_text(record.content))
    return ChatMessage.model_validate(stored)


# -- the retriever -----------------------------------------------------------------------------------------------------


class BrimfulRetriever(BaseRetriever):
    """Searches the memories of an engine and the messages of a room.

    The options are the same as for `Engine.search`: `room`, `user`, `persona`, `types`, `min_relevance`, `limit` …
    """

    def __init__(self, engine: Engine | SyncEngine, *, callback_manager: Any = None, **options: Any) -> None:
        super().__init__(callback_manager=callback_manager)
        self._engine = require_engine(engine)
        self._options = options

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        found = run(self._engine, lambda engine: engine.search(query_bundle.query_str, **self._options))
        return [_node(hit) for hit in found]

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        found = await arun(self._engine, lambda engine: engine.search(query_bundle.query_str, **self._options))
        return [_node(hit) for hit in found]


def _node(hit: Hit) -> NodeWithScore:
    metadata = describe_hit(hit)
    metadata.pop(_METADATA_KEY, None)
    node = TextNode(id_=hit.record.id, text=plain_text(hit.record.content), metadata=metadata)
    return NodeWithScore(node=node, score=hit.relevance)
