"""Haystack: a chat generator that fits every request, a compactor for the hook of an agent, and a retriever.

`BrimfulChatGenerator` stands in front of any chat generator, so that the state of an agent stays whole. A `Compactor`
changes the state: what it cuts is gone.
"""

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from threading import Lock
from typing import Any, Final

from brimful import Engine, SyncEngine
from brimful.adapters.fitter import Fitted, Fitter, RequestDetails, WireMessage, arun, describe_hit, require_engine, run
from brimful.engine.options import ResponseOptions
from brimful.errors import BudgetExceeded, InvalidValue, MissingExtra
from brimful.packagers.records import plain_text
from brimful.retrieval.search import Hit

try:
    from haystack import Document, component, default_from_dict, default_to_dict
    from haystack.components.generators.chat.types import ChatGenerator
    from haystack.core.serialization import component_to_dict
    from haystack.dataclasses import (
        ChatMessage,
        FileContent,
        ImageContent,
        ReasoningContent,
        StreamingCallbackT,
        TextContent,
        ToolCall,
        ToolCallResult,
    )
    from haystack.token_counters import TokenCounter
    from haystack.tools import ToolsType, flatten_tools_or_toolsets
    from haystack.utils.deserialization import deserialize_component_inplace
except ImportError as error:
    raise MissingExtra("haystack", "the adapter for Haystack") from error

_OUTPUT_LIMITS: Final = ("max_completion_tokens", "max_tokens", "max_output_tokens", "max_new_tokens")
_COMPACTION_KEY: Final = "context_compaction"  # Haystack's mark of messages that a compactor wrote


# -- translation -------------------------------------------------------------------------------------------------------


def to_openai(messages: Sequence[ChatMessage]) -> list[list[WireMessage]]:
    """Translate messages into OpenAI's format, to be counted. Each result of a tool becomes a message."""
    return [list(map(_result, message.tool_call_results)) or [_message(message)] for message in messages]


def _message(message: ChatMessage) -> WireMessage:
    wire: WireMessage = {"role": message.role.value, "content": _content(_parts(message))}
    if message.tool_calls:
        wire["tool_calls"] = [_call(call) for call in message.tool_calls]
    if message.name:
        wire["name"] = message.name
    if isinstance(refusal := message.meta.get("refusal"), str):
        wire["refusal"] = refusal
    return wire


def _parts(message: ChatMessage) -> Sequence[Any]:
    """Return all parts of a message, in order. Its properties have them by type only."""
    return message._content  # noqa: SLF001 - and this is a field of the constructor


def _call(call: ToolCall) -> dict[str, Any]:
    arguments = json.dumps(call.arguments, ensure_ascii=False, default=str)
    return {"id": _id(call), "type": "function", "function": {"name": call.tool_name, "arguments": arguments}}


def _result(result: ToolCallResult) -> WireMessage:
    content = result.result if isinstance(result.result, str) else _content(result.result)
    return {"role": "tool", "tool_call_id": _id(result.origin), "content": content}


def _id(call: ToolCall) -> str:
    return call.id or call.tool_name


def _content(parts: Sequence[object]) -> str | list[dict[str, Any]]:
    match parts:
        case [TextContent(text=text)]:
            return text
        case _:
            return [block for part in parts if (block := _block(part))]


def _block(part: object) -> dict[str, Any]:
    """Translate a part of a message. One of an unknown type is counted by its fields."""
    match part:
        case TextContent():
            return {"type": "text", "text": part.text}
        case ReasoningContent():
            return {"type": "thinking", "thinking": part.reasoning_text, **part.extra}
        case ImageContent():
            image = {"url": f"data:{part.mime_type or 'image/jpeg'};base64,{part.base64_image}"}
            return {"type": "image_url", "image_url": image | ({"detail": part.detail} if part.detail else {})}
        case FileContent():
            data = f"data:{part.mime_type or 'application/pdf'};base64,{part.base64_data}"
            return {"type": "file", "file": {"file_data": data, "filename": part.filename or ""}}
        case ToolCall():
            return {}
        case _:
            return {"type": type(part).__name__, **vars(part)}


def _shorten(message: ChatMessage, wire: Sequence[WireMessage]) -> ChatMessage:
    """Return a copy of a message with a shorter text. All other parts stay."""
    if not message.tool_call_results:
        return replace(message, _content=_with_text(_parts(message), wire[0]["content"]))
    results = zip(message.tool_call_results, wire, strict=True)
    return replace(message, _content=[_shorter_result(result, sent["content"]) for result, sent in results])


def _shorter_result(result: ToolCallResult, content: object) -> ToolCallResult:
    if isinstance(result.result, str):
        return replace(result, result=_text(content))
    return replace(result, result=_with_text(result.result, content))


def _with_text(parts: Sequence[Any], content: object) -> list[Any]:
    first = next((i for i, part in enumerate(parts) if isinstance(part, TextContent)), len(parts))
    others = [part for part in parts[first:] if not isinstance(part, TextContent)]
    return [*parts[:first], TextContent(text=_text(content)), *others]


def _text(content: object) -> str:
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, list) else []
    return "".join(block["text"] for block in blocks if block.get("type") == "text")


def _note(text: str) -> ChatMessage:
    return ChatMessage.from_user(text, meta={_COMPACTION_KEY: {"strategy": "brimful"}})


# -- the engine --------------------------------------------------------------------------------------------------------


class _EngineSource:
    """An engine, or the URL of a store that is opened when it is first needed."""

    def __init__(self, engine: Any) -> None:
        if engine is not None and not isinstance(engine, Engine | SyncEngine | str):
            reason = (
                f"must be a brimful.SyncEngine, a brimful.Engine or the URL of a store, not {type(engine).__name__}"
            )
            raise InvalidValue("engine", reason)
        self.given: Engine | SyncEngine | str | None = engine
        self._opened: SyncEngine | None = None
        self._opening = Lock()

    def open(self) -> Engine | SyncEngine | None:
        if not isinstance(self.given, str):
            return self.given
        with self._opening:
            if self._opened is None:
                self._opened = SyncEngine(self.given).open()
            return self._opened

    def close(self) -> None:
        """Close the engine if it was opened here."""
        with self._opening:
            if self._opened is not None:
                self._opened.close()
                self._opened = None

    def to_url(self) -> str | None:
        if self.given is None or isinstance(self.given, str):
            return self.given
        raise InvalidValue("engine", "is open and cannot be serialized: pass the URL of its store instead")


# -- the chat generator ------------------------------------------------------------------------------------------------


@component
class BrimfulChatGenerator:
    """A chat generator that fits every request into the window of the generator that it wraps.

    `engine` is an engine, or the URL of a store: every request is recorded there, with its usage. `conversation` names
    the conversation in its records. The options are the same as for `brimful.fit`; set `window` for a model that
    Brimful does not know. A request that the provider refuses as too long is fitted again, and sent once more.
    """

    def __init__(
        self,
        generator: ChatGenerator,
        *,
        engine: Engine | SyncEngine | str | None = None,
        conversation: str = "",
        **options: Any,
    ) -> None:
        if not callable(getattr(generator, "run", None)):
            raise InvalidValue("generator", f"must be a chat generator, not {type(generator).__name__}")
        self.generator = generator
        self.conversation = conversation
        self.options = options
        self._source = _EngineSource(engine)
        self._fitter = Fitter(**options)

    @component.output_types(replies=list[ChatMessage])
    def run(
        self,
        messages: list[ChatMessage] | str,
        streaming_callback: StreamingCallbackT | None = None,
        generation_kwargs: dict[str, Any] | None = None,
        *,
        tools: ToolsType | None = None,
        conversation: str | None = None,
    ) -> dict[str, Any]:
        """Fit the messages and let the wrapped generator answer."""
        self.warm_up()
        listed = _listed(messages)
        inputs = _inputs(streaming_callback=streaming_callback, generation_kwargs=generation_kwargs, tools=tools)
        return self._fitter.call(
            to_openai(listed),
            lambda fitted: self.generator.run(messages=_rebuild(fitted, listed), **inputs),
            _read_response,
            **self._details(generation_kwargs, tools, conversation),
        )

    @component.output_types(replies=list[ChatMessage])
    async def run_async(
        self,
        messages: list[ChatMessage] | str,
        streaming_callback: StreamingCallbackT | None = None,
        generation_kwargs: dict[str, Any] | None = None,
        *,
        tools: ToolsType | None = None,
        conversation: str | None = None,
    ) -> dict[str, Any]:
        """Fit the messages and let the wrapped generator answer."""
        await self.warm_up_async()
        listed = _listed(messages)
        inputs = _inputs(streaming_callback=streaming_callback, generation_kwargs=generation_kwargs, tools=tools)
        return await self._fitter.acall(
            to_openai(listed),
            lambda fitted: self._run_async(_rebuild(fitted, listed), inputs),
            _read_response,
            **self._details(generation_kwargs, tools, conversation),
        )

    def to_dict(self) -> dict[str, Any]:
        """Serialize the component and the generator that it wraps."""
        return default_to_dict(
            self,
            generator=component_to_dict(self.generator, "generator"),
            engine=self._source.to_url(),
            conversation=self.conversation,
            **self.options,
        )

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "BrimfulChatGenerator":
        """Restore a serialized component."""
        deserialize_component_inplace(data["init_parameters"], key="generator")
        return default_from_dict(cls, data)

    def warm_up(self) -> None:
        """Open the store, if there is a URL, and warm up the wrapped generator."""
        self._fitter.engine = self._source.open()
        _call_if_there(self.generator, "warm_up")

    async def warm_up_async(self) -> None:
        """Like `warm_up`."""
        self._fitter.engine = await asyncio.to_thread(self._source.open)
        await _await_if_there(self.generator, "warm_up_async", "warm_up")

    def close(self) -> None:
        """Close the store, if it was opened here, and the wrapped generator."""
        self._source.close()
        _call_if_there(self.generator, "close")

    async def close_async(self) -> None:
        """Like `close`."""
        await asyncio.to_thread(self._source.close)
        await _await_if_there(self.generator, "close_async", "close")

    def _details(
        self, generation_kwargs: Mapping[str, Any] | None, tools: ToolsType | None, conversation: str | None
    ) -> RequestDetails:
        own = getattr(self.generator, "generation_kwargs", None) or {}
        settings = {**own, **(generation_kwargs or {})}
        model = settings.get("model") or getattr(self.generator, "model", "")
        offered = flatten_tools_or_toolsets(tools or getattr(self.generator, "tools", None))
        limits = (settings.get(name) for name in _OUTPUT_LIMITS)
        return {
            "conversation": self.conversation if conversation is None else conversation,
            "model": model if isinstance(model, str) else "",
            "tools": [{"type": "function", "function": tool.tool_spec} for tool in offered],
            "max_output": next((limit for limit in limits if type(limit) is int and limit > 0), None),
        }

    async def _run_async(self, messages: list[ChatMessage], inputs: dict[str, Any]) -> dict[str, Any]:
        run_async = getattr(self.generator, "run_async", None)
        if run_async is None:
            return await asyncio.to_thread(self.generator.run, messages=messages, **inputs)
        result: dict[str, Any] = await run_async(messages=messages, **inputs)
        return result


def _listed(messages: list[ChatMessage] | str) -> list[ChatMessage]:
    if isinstance(messages, str):
        return [ChatMessage.from_user(messages)]
    if not isinstance(messages, list) or not all(isinstance(message, ChatMessage) for message in messages):
        raise InvalidValue("messages", "must be a string or a list of ChatMessage")
    return messages


def _inputs(**inputs: object) -> dict[str, Any]:
    """Return the inputs that are set: not every generator accepts all of them."""
    return {name: value for name, value in inputs.items() if value is not None}


def _rebuild(fitted: Fitted, messages: list[ChatMessage]) -> list[ChatMessage]:
    return fitted.rebuild(messages, shorten=_shorten, add=_note)


def _read_response(result: Mapping[str, Any]) -> ResponseOptions:
    """Return what the provider reported about a request."""
    meta: Mapping[str, Any] = next((reply.meta for reply in result.get("replies", ())), {})
    usage = meta.get("usage")
    known = isinstance(usage, Mapping) and not usage.keys().isdisjoint(("prompt_tokens", "input_tokens"))
    return {"usage": usage if known else None, "finish": str(meta.get("finish_reason") or "")}


def _call_if_there(owner: object, name: str) -> None:
    if (method := getattr(owner, name, None)) is not None:
        method()


async def _await_if_there(owner: object, name: str, fallback: str) -> None:
    if (method := getattr(owner, name, None)) is not None:
        await method()
    else:
        _call_if_there(owner, fallback)


# -- the compactor -----------------------------------------------------------------------------------------------------


class BrimfulCompactor:
    """A strategy for Haystack's `CompactionHook`. What it cuts is gone from the state of the agent for good.

    The options are the same as for `brimful.fit`. `model` is the model to count for.
    """

    def __init__(self, **options: Any) -> None:
        self.options = options
        self._fitter = Fitter(**options)

    def compact(
        self, messages: list[ChatMessage], target_tokens: int, token_counter: TokenCounter
    ) -> list[ChatMessage] | None:
        """Return a shorter conversation, or None if it cannot be shortened."""
        try:
            fitted = self._fitter.fit(to_openai(messages), max_prompt_tokens=max(target_tokens, 1))
        except BudgetExceeded:  # even the task and the last step are longer: leave them to the model
            return None
        shorter = _rebuild(fitted, messages)
        is_smaller = shorter is not messages and token_counter.count(shorter) < token_counter.count(messages)
        return shorter if is_smaller else None

    async def compact_async(
        self, messages: list[ChatMessage], target_tokens: int, token_counter: TokenCounter
    ) -> list[ChatMessage] | None:
        """Like `compact`, without blocking the event loop."""
        return await asyncio.to_thread(self.compact, messages, target_tokens, token_counter)

    def to_dict(self) -> dict[str, Any]:
        """Serialize the compactor."""
        return default_to_dict(self, **self.options)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "BrimfulCompactor":
        """Restore a serialized compactor."""
        return default_from_dict(cls, data)


# -- the retriever -----------------------------------------------------------------------------------------------------


@component
class BrimfulRetriever:
    """Searches the memories of an engine and the messages of a room.

    `engine` is an engine, or the URL of a store; calls without `await` need a `SyncEngine` or a URL. The options are
    those of `Engine.search`: `room`, `user`, `persona`, `types`, `min_relevance` …
    """

    def __init__(self, engine: Engine | SyncEngine | str, *, top_k: int = 10, **options: Any) -> None:
        self.top_k = top_k
        self.options = options
        self._source = _EngineSource(engine)

    @component.output_types(documents=list[Document])
    def run(self, query: str, top_k: int | None = None) -> dict[str, Any]:
        """Return the most relevant records as documents."""
        return run(require_engine(self._source.open()), lambda engine: self._search(engine, query, top_k))

    @component.output_types(documents=list[Document])
    async def run_async(self, query: str, top_k: int | None = None) -> dict[str, Any]:
        """Like `run`, without blocking the event loop."""
        engine = require_engine(await asyncio.to_thread(self._source.open))
        return await arun(engine, lambda opened: self._search(opened, query, top_k))

    async def _search(self, engine: Engine, query: str, top_k: int | None) -> dict[str, Any]:
        limit = top_k or self.top_k
        found = await engine.search(query, **{**self.options, "limit": limit})
        return {"documents": [_document(hit) for hit in found][:limit]}

    def to_dict(self) -> dict[str, Any]:
        """Serialize the component."""
        return default_to_dict(self, engine=self._source.to_url(), top_k=self.top_k, **self.options)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "BrimfulRetriever":
        """Restore a serialized component."""
        return default_from_dict(cls, data)

    def warm_up(self) -> None:
        """Open the store, if there is a URL."""
        self._source.open()

    def close(self) -> None:
        """Close the store, if it was opened here."""
        self._source.close()


def _document(hit: Hit) -> Document:
    text = plain_text(hit.record.content)
    return Document(id=hit.record.id, content=text, meta=describe_hit(hit), score=hit.relevance)
