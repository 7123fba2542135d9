"""LangChain: middleware that fits every request of an agent, a retriever, and exact token counters.

Messages are translated one way, to be counted; LangChain's own objects are sent. `convert_to_openai_messages` does not
do that job: it moves tool results behind the message that they stand in, drops invalid tool calls, and refuses images
by file id.
"""

import json
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar, Unpack

from brimful.adapters.fitter import (
    NOTHING_LEFT_OUT,
    Fitted,
    Fitter,
    RequestDetails,
    WireMessage,
    arun,
    count_request,
    describe_hit,
    run,
)
from brimful.assembly.fit import FitOptions
from brimful.assembly.recall_tool import recall_tool
from brimful.cache import LRU
from brimful.core.context import Context
from brimful.core.recall import RECALL
from brimful.engine import Engine, SyncEngine
from brimful.engine.options import ResponseOptions
from brimful.errors import MissingExtra
from brimful.packagers.records import plain_text
from brimful.records import Usage
from brimful.retrieval.search import Hit

try:
    from langchain.agents.middleware import AgentMiddleware, ExtendedModelResponse, ModelRequest, ModelResponse
    from langchain.agents.structured_output import AutoStrategy, ProviderStrategy, ToolStrategy
    from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
    from langchain_core.documents import Document
    from langchain_core.exceptions import ContextOverflowError
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import (
        AIMessage,
        BaseMessage,
        ChatMessage,
        FunctionMessage,
        HumanMessage,
        RemoveMessage,
        ToolMessage,
        convert_to_messages,
    )
    from langchain_core.retrievers import BaseRetriever
    from langchain_core.tools import BaseTool, StructuredTool
    from langchain_core.utils.function_calling import convert_to_openai_tool
    from langgraph.config import get_config
    from langgraph.prebuilt import ToolRuntime
except ImportError as error:
    raise MissingExtra("langchain", "brimful.adapters.langchain") from error

B = TypeVar("B", bound=BaseMessage)

# -- translation -------------------------------------------------------------------------------------------------------

_CALL_BLOCKS: Final = frozenset(("tool_call", "tool_use", "function_call", "invalid_tool_call", "tool_call_chunk"))
"""Blocks that repeat a tool call of the message."""
_MEDIA_BLOCKS: Final = frozenset(("image", "audio", "video", "file", "media"))
_DEFAULT_TYPES: Final = {"image": "image/png", "file": "application/pdf"}
_ASSISTANT_ROLES: Final = frozenset(("assistant", "ai"))
_SYSTEM_ROLES: Final = frozenset(("system", "developer"))


def to_openai(message: BaseMessage) -> list[dict[str, Any]]:
    """Return the messages of OpenAI's format that a message is equal to, to be counted.

    Most are one message. A user's message with results of tools, as Anthropic has them, is several.
    """
    match message:
        case RemoveMessage():
            return []
        case AIMessage():
            return [_assistant_message(message)]
        case ToolMessage():
            return [{"role": "tool", "tool_call_id": message.tool_call_id, "content": _content(message.content)}]
        case FunctionMessage():
            return [{"role": "function", "name": message.name, "content": _content(message.content)}]
        case _:
            return _user_messages(message)


def _user_messages(message: BaseMessage) -> list[dict[str, Any]]:
    blocks = message.content if isinstance(message.content, list) else []
    results = [
        {"role": "tool", "tool_call_id": str(block.get("tool_use_id")), "content": _content(block.get("content", ""))}
        for block in blocks
        if isinstance(block, dict) and _is_result(block)
    ]
    content = _content(message.content)
    if results and not content:
        return results
    named = {"name": message.name} if message.name else {}
    return [*results, {"role": _role(message), **named, "content": content}]


def _role(message: BaseMessage) -> str:
    role = message.role if isinstance(message, ChatMessage) else message.type
    return "system" if role in _SYSTEM_ROLES else "assistant" if role in _ASSISTANT_ROLES else "user"


def _assistant_message(message: AIMessage) -> dict[str, Any]:
    calls = {call["id"] or f"call-{i}": _call(call["name"], call["args"]) for i, call in enumerate(message.tool_calls)}
    for index, broken in enumerate(message.invalid_tool_calls):  # answered by a tool message with an error
        calls.setdefault(broken["id"] or f"broken-{index}", _call(broken["name"], broken["args"]))
    for block in message.content if isinstance(message.content, list) else ():
        if isinstance(block, dict) and block.get("type") in ("tool_use", "function_call"):
            id = block.get("call_id") or block.get("id")
            calls.setdefault(str(id), _call(block.get("name"), block.get("input", block.get("arguments"))))
    content = _content(message.content)
    named = {"name": message.name} if message.name else {}
    extra = {key: message.additional_kwargs[key] for key in _EXTRA_FIELDS if message.additional_kwargs.get(key)}
    tools = {"tool_calls": [{"id": id, "type": "function", "function": call} for id, call in calls.items()]}
    return {"role": "assistant", **named, "content": content, **extra, **(tools if calls else {})}


_EXTRA_FIELDS: Final = ("refusal", "reasoning_content", "function_call")


def _call(name: object, arguments: object) -> dict[str, str]:
    written = arguments if isinstance(arguments, str) else json.dumps(arguments or {}, ensure_ascii=False, default=str)
    return {"name": str(name or ""), "arguments": written}


def _content(content: object) -> str | list[dict[str, Any]]:
    """Return content with one block for each block that is neither a tool call nor a tool result."""
    if not isinstance(content, list):
        return content if isinstance(content, str) else ""
    return [_block(block) for block in content if _is_content(block)]


def _is_content(block: object) -> bool:
    return not _is_result(block) and not (isinstance(block, dict) and block.get("type") in _CALL_BLOCKS)


def _is_result(block: object) -> bool:
    return isinstance(block, dict) and block.get("type") == "tool_result"


def _block(block: str | dict[str, Any]) -> dict[str, Any]:
    match block:
        case str():
            return {"type": "text", "text": block}
        case {"type": "text" | "text-plain", "text": str(text)}:
            return {"type": "text", "text": text}
        case {"type": str(kind)} if kind in _MEDIA_BLOCKS:
            return _media(kind, block)
        case _:
            return block


def _media(kind: str, block: dict[str, Any]) -> dict[str, Any]:
    """Return a media block in OpenAI's format. A file id is counted like a URL: only the provider has the content."""
    source = block["source"] if isinstance(block.get("source"), dict) else block
    media_type = str(source.get("mime_type") or source.get("media_type") or "")
    data = source.get("base64") or source.get("data")
    reference = source.get("url") or source.get("file_id") or source.get("id")
    url = f"data:{media_type or _DEFAULT_TYPES.get(kind, '')};base64,{data}" if isinstance(data, str) else reference
    if not isinstance(url, str):  # bytes, or no block of LangChain's
        return block
    match media_type.partition("/")[0] if kind == "media" else kind:
        case "image":
            return {"type": "image_url", "image_url": {"url": url}}
        case "audio" if isinstance(data, str):
            return {"type": "input_audio", "input_audio": {"data": data, "format": media_type.rpartition("/")[2]}}
        case "audio" | "video" as modality:
            return {"type": f"{modality}_url", f"{modality}_url": {"url": url}}
        case _:
            return {"type": "file", "file": {"file_data": url}}


# -- middleware --------------------------------------------------------------------------------------------------------

_NAME_FIELDS: Final = ("model_name", "model", "model_id", "deployment_name")
"""Where chat models of LangChain have the name of their model."""
_MAX_CONTEXTS: Final = 1_000  # of conversations that may recall something
_LIMIT_FIELDS: Final = ("max_tokens", "max_completion_tokens", "max_output_tokens", "num_predict")
"""Where they have the length of the answer."""


class BrimfulMiddleware(AgentMiddleware[Any, Any, Any]):
    """Fits every request of an agent to the window of its model, and leaves what the agent has stored alone.

    The options are the same as for `brimful.fit`. The model and its window are those of the agent's chat model, unless
    you pass them here. With an `engine`, every request is recorded in its store, and counts are calibrated by the usage
    that the provider reports. Pass a `SyncEngine` if the agent is called without `await`.

    A request that the provider refuses as too long is made smaller and sent once more. With `recall`, a request that
    leaves something out offers the model a tool to get it back.
    """

    def __init__(
        self, *, engine: Engine | SyncEngine | None = None, recall: bool = False, **options: Unpack[FitOptions]
    ) -> None:
        super().__init__()
        self._fitter = Fitter(engine=engine, refusals=(ContextOverflowError,), recall=recall, **options)
        self._contexts: LRU[tuple[str, str], Context] = LRU(max_entries=_MAX_CONTEXTS)
        schema = {"name": RECALL.name, "description": RECALL.description, "args_schema": RECALL.parameters}
        self.tools = [StructuredTool.from_function(self._recall, **schema)] if recall else []

    def _recall(self, runtime: ToolRuntime, **arguments: Any) -> str:
        """Answer a call of the recall tool, for the latest request of its conversation."""
        context = self._contexts.get(_find_run(runtime.state))
        return NOTHING_LEFT_OUT if context is None else recall_tool(context)(arguments)

    def _apply(self, request: ModelRequest[Any], fitted: Fitted) -> ModelRequest[Any]:
        """Return a request with what is sent."""
        changed: dict[str, Any] = {}
        messages = fitted.rebuild(request.messages, shorten=_shorten, add=HumanMessage)
        if messages is not request.messages:
            changed["messages"] = messages
        if self.tools and fitted.offers_recall:
            self._contexts[_find_run(request.state)] = fitted.context
        elif self.tools:
            changed["tools"] = self._list_others(request)
        return request.override(**changed) if changed else request

    def _list_others(self, request: ModelRequest[Any]) -> list[BaseTool | dict[str, Any]]:
        """Return the tools of a request without the recall tool, which is counted if it is needed."""
        return [tool for tool in request.tools if not any(tool is own for own in self.tools)]

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        """Fit a request, and call the model."""
        messages, details = _translate(request, self._list_others(request))
        if not messages:
            return handler(request)
        return self._fitter.call(
            messages, lambda fitted: handler(self._apply(request, fitted)), _read_response, **details
        )

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any]:
        """Fit a request, and call the model, without blocking the event loop."""
        messages, details = _translate(request, self._list_others(request))
        if not messages:
            return await handler(request)
        return await self._fitter.acall(
            messages, lambda fitted: handler(self._apply(request, fitted)), _read_response, **details
        )


def _translate(
    request: ModelRequest[Any], tools: Sequence[BaseTool | dict[str, Any]]
) -> tuple[list[list[WireMessage]], RequestDetails]:
    """Return the messages of a request, and everything else that is counted."""
    details = RequestDetails(
        conversation=_find_conversation(request.messages),
        model=_find_model(request.model),
        window=(request.model.profile or {}).get("max_input_tokens"),
        max_output=_find_max_output(request),
        system=None if request.system_message is None else str(request.system_message.text),
        tools=[*map(_tool, tools), *_response_tools(request.response_format)],
    )
    return [to_openai(message) for message in request.messages], details


def _find_conversation(messages: Sequence[BaseMessage]) -> str:
    """Return the thread that runs; without one, the id that LangGraph gave the first message."""
    try:
        thread = get_config().get("configurable", {}).get("thread_id")
    except RuntimeError:  # outside of a graph
        thread = None
    return str(thread or (messages[0].id if messages else "") or "")


def _find_run(state: Mapping[str, Any]) -> tuple[str, str]:
    """Return the thread and the first message of a run: a subagent runs in the thread of its caller."""
    return _find_conversation([]), str(state["messages"][0].id)


def _find_model(model: object) -> str:
    """Return the name of the model behind a chat model; an empty string if it has none."""
    names = (getattr(model, field, None) for field in _NAME_FIELDS)
    return next((name for name in names if isinstance(name, str) and name), "")


def _find_max_output(request: ModelRequest[Any]) -> int | None:
    """Return the length of the answer that a request allows; None if it does not say."""
    limits = [request.model_settings.get(field) for field in _LIMIT_FIELDS]
    limits += (getattr(request.model, field, None) for field in _LIMIT_FIELDS)
    return next((limit for limit in limits if type(limit) is int and limit > 0), None)


def _tool(tool: Any) -> dict[str, Any]:
    """Return a tool in OpenAI's format, or a tool of another provider as it is."""
    try:
        converted: dict[str, Any] = convert_to_openai_tool(tool)
    except ValueError:
        return tool if isinstance(tool, dict) else {"name": str(getattr(tool, "name", "tool"))}
    return converted


def _response_tools(response_format: Any) -> Iterator[dict[str, Any]]:
    """Yield the schemas of structured answers: they are sent as tools, or counted by the provider like tools."""
    if response_format is None:
        return
    if isinstance(response_format, ProviderStrategy):
        specs = [response_format.schema_spec]
    else:
        strategy = response_format.schema if isinstance(response_format, AutoStrategy) else response_format
        specs = (strategy if isinstance(strategy, ToolStrategy) else ToolStrategy(strategy)).schema_specs
    for spec in specs:
        function = {"name": spec.name, "description": spec.description, "parameters": spec.json_schema}
        yield {"type": "function", "function": function}


def _shorten(message: B, shortened: Sequence[WireMessage]) -> B:
    """Return a copy of a message with the shorter texts that `fit` gave it."""
    results = {each["tool_call_id"]: each["content"] for each in shortened if each["role"] == "tool"}
    is_own = isinstance(message, ToolMessage) or shortened[-1]["role"] != "tool"
    content = _merge(message.content, shortened[-1]["content"]) if is_own else message.content
    if isinstance(content, list):
        content = [
            {**block, "content": _merge(block.get("content", ""), results[str(block.get("tool_use_id"))])}
            if _is_result(block)
            else block
            for block in content
        ]
    return message.model_copy(update={"content": content})


def _merge(content: Any, shortened: Any) -> Any:
    """Return content with the texts of a shortened version of it. Blocks that did not change are the same objects."""
    if isinstance(content, str) or not isinstance(shortened, list):
        return shortened
    shorter = iter(shortened)
    return [_shorten_block(block, next(shorter, block)) if _is_content(block) else block for block in content]


def _shorten_block(block: Any, shortened: dict[str, Any]) -> Any:
    match block, shortened:
        case {"type": "text", "text": str(text)}, {"type": "text", "text": str(shorter)}:
            return block if text == shorter else {**block, "text": shorter}
        case _, {"type": "text", "text": str(shorter)} if block != shorter:  # a line for an image, for example
            return shortened
        case _:
            return block


def _read_response(response: object) -> ResponseOptions:
    return {"usage": _find_usage(response)}


def _find_usage(response: object) -> Usage | None:
    """Return what the provider reported about a request; None if it reported nothing."""
    if isinstance(response, ExtendedModelResponse):
        response = response.model_response
    messages = response.result if isinstance(response, ModelResponse) else [response]
    for message in reversed(messages):
        usage = message.usage_metadata if isinstance(message, AIMessage) else None
        if usage:
            read, written = usage.get("input_token_details") or {}, usage.get("output_token_details") or {}
            return Usage(
                prompt=usage["input_tokens"],
                cached=read.get("cache_read") or 0,
                completion=usage["output_tokens"],
                reasoning=written.get("reasoning") or 0,
            )
    return None


# -- counting ----------------------------------------------------------------------------------------------------------


def token_counter(
    model: str | BaseChatModel,
    *,
    system: str | None = None,
    tools: Sequence[BaseTool | dict[str, Any] | Callable[..., Any]] = (),
) -> Callable[[Sequence[BaseMessage]], int]:
    """Return a function that counts messages as the model's provider does, for `trim_messages` and for middleware.

    It counts what a request with these messages takes: their texts, tool calls and media, and the overhead of the
    messages and of the request. Pass `system` and `tools` if the request has them beside its messages, as those of an
    agent do.
    """
    name = model if isinstance(model, str) else _find_model(model)
    definitions = [_tool(tool) for tool in tools]

    def count_tokens(messages: Sequence[BaseMessage]) -> int:
        translated = [each for message in convert_to_messages(messages) for each in to_openai(message)]
        return count_request(translated, model=name, system=system, tools=definitions) if translated else 0

    return count_tokens


# -- retriever ---------------------------------------------------------------------------------------------------------


class BrimfulRetriever(BaseRetriever):
    """Finds memories, and messages of a room, for a question. Calls without `await` need a `SyncEngine`.

    - `k`: the number of documents; `retriever.invoke(question, k=3)` overrides it.
    - `user`, `persona`, `room`: whose memories to search, and the room whose messages to search as well.
    - `types`, `min_relevance`: as in `engine.search`.

    Documents have the `id` of their record, and its `kind`, `relevance` and `at` as metadata.
    """

    engine: Engine | SyncEngine
    k: int = 10
    user: str | None = None
    persona: str | None = None
    room: str | None = None
    types: tuple[str, ...] = ()
    min_relevance: float | None = None

    def _get_relevant_documents(
        self,
        query: str,
        *,
        run_manager: CallbackManagerForRetrieverRun,  # noqa: ARG002 - LangChain passes it
        k: int | None = None,
    ) -> list[Document]:
        return run(self.engine, lambda engine: self._search(engine, query, k))

    async def _aget_relevant_documents(
        self,
        query: str,
        *,
        run_manager: AsyncCallbackManagerForRetrieverRun,  # noqa: ARG002 - LangChain passes it
        k: int | None = None,
    ) -> list[Document]:
        return await arun(self.engine, lambda engine: self._search(engine, query, k))

    async def _search(self, engine: Engine, query: str, k: int | None) -> list[Document]:
        limit = self.k if k is None else k
        result = await engine.search(
            query,
            user=self.user,
            persona=self.persona,
            room=self.room,
            types=self.types,
            min_relevance=self.min_relevance,
            limit=limit,
        )
        return [_document(hit) for hit in result[:limit]]


def _document(hit: Hit) -> Document:
    passage, text = hit.passage, plain_text(hit.record.content)
    return Document(
        id=hit.record.id,
        page_content=text if passage is None else text[passage.start : passage.stop],
        metadata={**describe_hit(hit), "relevance": hit.relevance},
    )
