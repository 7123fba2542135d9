"""Microsoft Agent Framework: middleware that fits every request of an agent, a tokenizer, and memories."""

import copy
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, TypeVar, Unpack

import msgspec

from brimful.adapters.fitter import Fitted, Fitter, RequestDetails, WireMessage, arun, require_engine
from brimful.assembly.assemble import count
from brimful.assembly.fit import FitOptions
from brimful.engine import Engine, SyncEngine
from brimful.engine.options import ResponseOptions
from brimful.errors import MissingExtra
from brimful.records import Memory, Usage

try:
    from agent_framework import (
        AgentSession,
        ChatContext,
        ChatMiddleware,
        ChatResponse,
        Content,
        ContextProvider,
        FunctionTool,
        Message,
        SessionContext,
        SupportsAgentRun,
    )
except ImportError as error:
    raise MissingExtra("agent-framework", "brimful.adapters.agent_framework") from error

C = TypeVar("C")

_UNSENT: Final = ("usage", "oauth_consent_request")  # contents that no provider gets
_REASONING: Final = "text_reasoning"
_OPENAI, _DETAIL = "openai", "image_detail"  # where an image has its resolution
_MEMORIES: Final = "What you remember, which may help with what follows:"


class BrimfulMiddleware(ChatMiddleware):
    """Fits the messages of every request, and records its usage: `Agent(client, middleware=[BrimfulMiddleware()])`.

    The options are the same as for `brimful.fit`. What the session has stored is never changed.
    """

    def __init__(self, *, engine: Engine | SyncEngine | None = None, **options: Unpack[FitOptions]) -> None:
        self._fitter = Fitter(engine=engine, **options)

    async def process(self, context: ChatContext, call_next: Callable[[], Awaitable[None]]) -> None:
        """Fit a request and send it. One that the provider refuses as too long is sent once more, if it can be smaller.

        In a stream, such an error comes too late for that.
        """
        listed, options = list(context.messages), context.options or {}
        messages = [_translate(message) for message in listed]
        details = RequestDetails(
            conversation=context.session.session_id if context.session else "",
            model=options.get("model") or getattr(context.client, "model", None) or "",
            system=_join_instructions(options.get("instructions")),
            tools=[_read_tool(tool) for tool in options.get("tools") or ()],
            max_output=options.get("max_tokens"),
            ties=[(i, i + 1) for i, message in enumerate(listed[:-1]) if _is_reasoning(message)],
        )
        if context.stream:
            fitted = await self._fitter.afit(messages, **details)
            context.messages = _rebuild(fitted, listed)
            context.stream_result_hooks.append(
                lambda response: self._fitter.aobserve(fitted, **_read_response(response))
            )
            await call_next()
            return

        async def send(fitted: Fitted) -> Any:
            context.messages = _rebuild(fitted, listed)
            await call_next()
            return context.result

        await self._fitter.acall(messages, send, _read_response, **details)


# -- translating messages ----------------------------------------------------------------------------------------------


def _translate(message: Message) -> list[WireMessage]:
    """Return a message in OpenAI's format: results of tools are messages of their own."""
    blocks = [_make_block(content) for content in message.contents if _is_block(content)]
    calls = [_make_call(content) for content in message.contents if _is_call(content)]
    results = [
        {"role": "tool", "tool_call_id": each.call_id, "content": [_make_block(item) for item in _list_items(each)]}
        for each in message.contents
        if _is_result(each)
    ]
    if results and not blocks and not calls:
        return results
    return [{"role": message.role, "content": blocks} | ({"tool_calls": calls} if calls else {}), *results]


def _is_call(content: Content) -> bool:
    return content.type == "function_call" and bool(content.call_id and content.name)


def _is_result(content: Content) -> bool:
    return content.type == "function_result" and bool(content.call_id)


def _is_block(content: Content) -> bool:
    """Whether a content is sent as part of its message. Reasoning that is encrypted has no text to count."""
    hidden = content.type in _UNSENT or (content.type == _REASONING and not content.text)
    return not hidden and not _is_call(content) and not _is_result(content)


def _make_call(content: Content) -> dict[str, Any]:
    arguments = content.arguments or {}
    written = arguments if isinstance(arguments, str) else msgspec.json.encode(arguments, enc_hook=str).decode()
    return {"id": content.call_id, "type": "function", "function": {"name": content.name, "arguments": written}}


def _make_block(content: Content) -> dict[str, Any]:
    """Return a content in OpenAI's format. Its own kinds are counted by their fields."""
    if content.type in ("text", _REASONING):
        return {"type": "text", "text": content.text or ""}
    if content.type not in ("data", "uri") or not content.uri:
        fields = content.to_dict(
            exclude={"raw_representation", "additional_properties", "annotations", "id", "call_id"}
        )
        written: dict[str, Any] = msgspec.to_builtins(fields, enc_hook=str)
        return written
    match (content.media_type or "").partition("/")[0]:
        case "image":
            detail = (content.additional_properties.get(_OPENAI) or {}).get(_DETAIL)
            return {"type": "image_url", "image_url": {"url": content.uri} | ({"detail": detail} if detail else {})}
        case "audio" | "video" as modality:
            return {"type": f"{modality}_url", f"{modality}_url": {"url": content.uri}}
        case _:
            return {"type": "file", "file": {"file_data": content.uri}}


def _list_items(result: Content) -> Sequence[Content]:
    return result.items or [
        Content.from_text(result.result if isinstance(result.result, str) else str(result.result or ""))
    ]


# -- rebuilding messages -----------------------------------------------------------------------------------------------


def _rebuild(fitted: Fitted, messages: list[Message]) -> list[Message]:
    return fitted.rebuild(messages, shorten=_shorten, add=lambda text: Message("user", [text]))


def _shorten(message: Message, wire: Sequence[WireMessage]) -> Message:
    """Return a copy of a message with shorter texts and smaller images."""
    results = iter([each for each in wire if each["role"] == "tool"])
    own: WireMessage = next((each for each in wire if each["role"] != "tool"), {"content": []})
    blocks = _shorten_contents([each for each in message.contents if _is_block(each)], own["content"])
    contents: list[Content] = []
    for content in message.contents:
        if _is_result(content):
            items = _shorten_contents(_list_items(content), next(results)["content"])
            text = "\n".join(each.text for each in items if each.text)
            contents.append(_copy(content, items=items, result=text))
        elif _is_block(content):
            contents += blocks
            blocks = []
        else:
            contents.append(content)
    return _copy(message, contents=contents)


def _shorten_contents(contents: Sequence[Content], shortened: str | Sequence[dict[str, Any]]) -> list[Content]:
    """Return contents for shortened blocks: the same objects for those that did not change."""
    blocks = [{"type": "text", "text": shortened}] if isinstance(shortened, str) else shortened
    known = [(_make_block(content), content) for content in contents]
    made = []
    for block in blocks:
        index = next((i for i, (own, _) in enumerate(known) if own == block), None)
        made.append(_shrink(block, known) if index is None else known.pop(index)[1])
    return made


def _shrink(block: dict[str, Any], known: Sequence[tuple[dict[str, Any], Content]]) -> Content:
    """Return the content for a changed block: a text, or an image in another resolution."""
    if block["type"] == "text":
        return Content.from_text(block["text"])
    image = block["image_url"]
    content = next(own for written, own in known if written.get("image_url", {}).get("url") == image["url"])
    properties = content.additional_properties
    detail = {**properties.get(_OPENAI, {}), _DETAIL: image["detail"]}
    return _copy(content, additional_properties={**properties, _OPENAI: detail})


def _copy(value: C, **fields: Any) -> C:
    made = copy.copy(value)
    for name, field in fields.items():
        setattr(made, name, field)
    return made


# -- reading requests and responses ------------------------------------------------------------------------------------


def _is_reasoning(message: Message) -> bool:
    """Whether a message is nothing but reasoning. OpenAI refuses it without the message that follows it."""
    return bool(message.contents) and all(content.type == _REASONING for content in message.contents)


def _join_instructions(instructions: str | Sequence[str] | None) -> str | None:
    return instructions if instructions is None or isinstance(instructions, str) else "\n".join(instructions)


def _read_tool(tool: object) -> dict[str, Any]:
    """Return a tool in OpenAI's format, or the fields of a tool that a provider runs."""
    if isinstance(tool, FunctionTool):
        spec: dict[str, Any] = tool.to_json_schema_spec()
        return spec
    return dict(tool) if isinstance(tool, Mapping) else {"name": str(getattr(tool, "name", type(tool).__name__))}


def _read_response(response: object) -> ResponseOptions:
    if not isinstance(response, ChatResponse):  # of other middleware
        return {}
    return {"usage": _read_usage(response.usage_details or {}), "model": response.model or ""}


def _read_usage(reported: Mapping[str, Any]) -> Usage | None:
    if not reported.get("input_token_count"):
        return None
    return Usage(
        prompt=reported["input_token_count"],
        cached=reported.get("cache_read_input_token_count") or 0,
        completion=reported.get("output_token_count") or 0,
        reasoning=reported.get("reasoning_output_token_count") or 0,
    )


# -- tokens and memories -----------------------------------------------------------------------------------------------


class BrimfulTokenizer:
    """Counts tokens for the framework's own strategies: `Agent(client, tokenizer=BrimfulTokenizer("gpt-4o"))`."""

    def __init__(self, model: str) -> None:
        self._model = model

    def count_tokens(self, text: str) -> int:
        """Return the number of tokens of a text."""
        return count(text, model=self._model).tokens


class BrimfulContextProvider(ContextProvider):
    """Adds memories that match what the user said: `Agent(client, context_providers=[BrimfulContextProvider(engine)])`.

    They are those that `persona` and `user` may know, at most `limit`, with at least `min_relevance`.
    """

    def __init__(
        self,
        engine: Engine | SyncEngine,
        *,
        persona: str | None = None,
        user: str | None = None,
        limit: int = 5,
        min_relevance: float | None = None,
        source_id: str = "brimful",
    ) -> None:
        super().__init__(source_id)
        self._engine = require_engine(engine)
        self._persona = persona
        self._user = user
        self._limit = limit
        self._min_relevance = min_relevance

    async def before_run(
        self, *, agent: SupportsAgentRun, session: AgentSession, context: SessionContext, state: dict[str, Any]
    ) -> None:
        """Search for the texts of the new messages."""
        del agent, session, state
        query = "\n".join(message.text for message in context.input_messages if message.text)
        if not query:
            return
        found = await arun(
            self._engine,
            lambda engine: engine.search(
                query, persona=self._persona, user=self._user, limit=self._limit, min_relevance=self._min_relevance
            ),
        )
        lines = [f"- {hit.record.content}" for hit in found if isinstance(hit.record, Memory)]
        if lines:
            context.extend_messages(self, [Message("user", ["\n".join((_MEMORIES, *lines))])])
