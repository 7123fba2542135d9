"""OpenAI Agents SDK: a filter that fits every request of a run, and a session in a Brimful store.

The SDK's items are items of the Responses API, which `fit` reads as they are.
"""

import json
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass
from operator import methodcaller
from typing import Any, Final, Self, Unpack, cast

from brimful.adapters.fitter import NOTHING_LEFT_OUT, Fitted, Fitter, RequestDetails, arun, read_newest, require_engine
from brimful.assembly.fit import FitOptions
from brimful.assembly.recall_tool import recall_tool
from brimful.core.content import Role, ToolCall, ToolResult
from brimful.core.recall import RECALL
from brimful.core.validation import clean_text
from brimful.engine import Engine, SyncEngine
from brimful.errors import InvalidValue, MissingExtra, UnknownRecord
from brimful.packagers.records import plain_text
from brimful.records import Content, Message, Room, Usage
from brimful.wires.openai_responses import find_ties

try:
    from agents import (
        Agent,
        AgentOutputSchema,
        AgentOutputSchemaBase,
        FunctionTool,
        Handoff,
        Model,
        ModelResponse,
        RetryPolicyContext,
        RunContextWrapper,
        RunHooks,
        SessionSettings,
        TResponseInputItem,
        get_current_trace,
        handoff,
    )
    from agents.models import get_default_model
    from agents.models.openai_responses import Converter
    from agents.run import CallModelData, ModelInputData
except ImportError as error:
    raise MissingExtra("openai-agents", "brimful.adapters.openai_agents") from error

Item = dict[str, Any]

_session_id: ContextVar[str] = ContextVar("brimful_session_id", default="")
"""The session of the current run. The SDK does not pass it to filters."""


@dataclass
class _Request:
    """A request: what the SDK passed to a filter, and what the filter returned."""

    filter: "BrimfulFilter"
    given: list[TResponseInputItem]
    details: RequestDetails
    fitted: Fitted
    sent: ModelInputData


_latest: ContextVar[_Request | None] = ContextVar("brimful_request", default=None)
"""The latest request of the current run."""


class BrimfulFilter(RunHooks[Any]):
    """Makes every request of a run fit its window, and learns from the usage that the model reports.

    Pass it as `RunConfig(call_model_input_filter=…)`, and as `hooks` for the usage. The options are the same as for
    `brimful.fit`. With an `engine`, every request is recorded in its store. `conversation` is the id of the
    conversation, or a function that takes the SDK's `CallModelData` and returns it. By default it is the id of a
    `BrimfulSession`, or else the `group_id` of the run.
    """

    def __init__(
        self,
        *,
        engine: Engine | SyncEngine | None = None,
        conversation: str | Callable[[CallModelData[Any]], str] = "",
        **options: Unpack[FitOptions],
    ) -> None:
        self._fitter = Fitter(engine=engine, **options)
        self._conversation = conversation
        self.recall_tool = FunctionTool(
            name=RECALL.name,
            description=RECALL.description,
            params_json_schema=RECALL.parameters,
            on_invoke_tool=self._recall,
            strict_json_schema=False,
        )
        """A tool for agents, with which the model gets back what was left out."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Return the same filter: model settings are copied with their retry policy, and an engine cannot be."""
        return self

    async def __call__(self, data: CallModelData[Any]) -> ModelInputData:
        """Return the input that is sent to the model."""
        given, agent = data.model_data, data.agent
        details = RequestDetails(
            conversation=self._find_conversation(data),
            model=_find_model(agent),
            system=given.instructions,
            tools=await _list_tools(agent, data.context),
            wire="responses",
        )
        fitted = await self._fitter.afit(_to_wire(given.input), **details)
        sent = ModelInputData(input=_rebuild(fitted, given.input), instructions=given.instructions)
        _latest.set(_Request(self, given.input, details, fitted, sent))
        return sent

    async def on_llm_end(self, context: RunContextWrapper[Any], agent: Agent[Any], response: ModelResponse) -> None:
        """Learn from the usage of a response."""
        del context, agent
        latest, usage = _latest.get(), response.usage
        if latest is not None and latest.filter is self and usage.input_tokens:
            reported = Usage(
                prompt=usage.input_tokens,
                cached=usage.input_tokens_details.cached_tokens,
                completion=usage.output_tokens,
                reasoning=usage.output_tokens_details.reasoning_tokens,
            )
            await self._fitter.aobserve(latest.fitted, usage=reported)

    async def retry_overflow(self, context: RetryPolicyContext) -> bool:
        """Make a request smaller that was refused as too long; a policy for `ModelRetrySettings`."""
        latest = _latest.get()
        if latest is None or latest.filter is not self:
            return False
        smaller = await self._fitter.arefit(_to_wire(latest.given), latest.fitted, context.error, **latest.details)
        if smaller is None:
            return False
        latest.fitted = smaller
        latest.sent.input = _rebuild(smaller, latest.given)  # which the SDK sends in the next attempt
        return True

    async def _recall(self, context: object, arguments: str) -> str:
        """Answer a call of the recall tool, for the latest request of the run."""
        del context
        latest = _latest.get()
        return NOTHING_LEFT_OUT if latest is None else recall_tool(latest.fitted.context)(arguments)

    def _find_conversation(self, data: CallModelData[Any]) -> str:
        own = self._conversation
        found = own(data) if callable(own) else own or _session_id.get() or getattr(get_current_trace(), "group_id", "")
        return found or ""


def _to_wire(items: Sequence[TResponseInputItem]) -> list[list[Item]]:
    return [[item] for item in cast("Sequence[Item]", items)]


def _rebuild(fitted: Fitted, items: list[Any]) -> list[Any]:
    return fitted.rebuild(items, shorten=lambda _, wire: wire[0], add=lambda text: {"role": "user", "content": text})


def _find_model(agent: Agent[Any]) -> str:
    name = getattr(agent.model, "model", "") if isinstance(agent.model, Model) else agent.model
    return name if isinstance(name, str) and name else get_default_model()


async def _list_tools(agent: Agent[Any], context: object) -> list[Any]:
    """Return the definitions that are sent with a request: of tools, handoffs, and the type of the output."""
    tools = await agent.get_all_tools(RunContextWrapper(context))
    handoffs = [each if isinstance(each, Handoff) else handoff(each) for each in agent.handoffs]
    made = Converter.convert_tools(tools, handoffs, allow_opaque_tool_search_surface=True, model=_find_model(agent))
    return [*made.tools, *_output_schema(agent.output_type)]


def _output_schema(output: Any) -> Iterator[Item]:
    """Yield the schema of the output, which is counted like a tool."""
    if output is not None:
        schema = output if isinstance(output, AgentOutputSchemaBase) else AgentOutputSchema(output)
        if not schema.is_plain_text():
            yield {"type": "function", "name": schema.name(), "parameters": schema.json_schema()}


# -- sessions ----------------------------------------------------------------------------------------------------------

_ITEM: Final = "responses_item"
"""The key of the item in the metadata of a message: as JSON, without the text that is the message's content."""
_TEXT_PATH: Final = "responses_text"
"""The key of the path of that text in the item."""
_TEXT_FIELDS: Final = {
    "message": "content",
    "function_call": "arguments",
    "custom_tool_call": "input",
    "function_call_output": "output",
    "custom_tool_call_output": "output",
}
_ROLES: Final[dict[str, Role]] = {"assistant": "assistant", "system": "system", "developer": "system"}
_ALL: Final = sys.maxsize


class BrimfulSession:
    """A session whose items are the messages of a room, so that `Engine.search` finds them.

    Items are returned exactly as they were added. Sessions with the same id share their items, in any process.
    """

    def __init__(
        self, session_id: str, engine: Engine | SyncEngine, *, session_settings: SessionSettings | None = None
    ) -> None:
        if not isinstance(session_id, str) or not session_id:
            raise InvalidValue("session_id", "must be a string that is not empty")
        self.session_id = session_id
        self.session_settings = session_settings
        self._engine = require_engine(engine)

    async def get_items(self, limit: int | None = None) -> list[Any]:
        """Return the latest items, at most `limit`, in order.

        An answer that the limit would divide is left out: a call without its output, or an output without its call.
        """
        _session_id.set(self.session_id)
        if limit is None and self.session_settings is not None:
            limit = self.session_settings.limit
        if limit is None:
            return await self._read_items(_ALL)
        size = 2 * max(limit, 0)
        while size:
            items = await self._read_items(size)
            if len(items) < size or _has_all_calls(items):
                return _without_divided(items, len(items) - limit)
            size *= 2
        return []

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Add items, all of them or none."""
        if items:
            now = time.time()
            messages = [_to_message(item, self.session_id, now, f"items[{i}]") for i, item in enumerate(items)]
            await arun(self._engine, lambda engine: engine.post_many(messages))

    async def pop_item(self) -> Any:
        """Remove and return the latest item, or None if there is none."""
        while newest := await self._read_newest(1):
            with suppress(UnknownRecord):  # removed by somebody else in the meantime
                await arun(self._engine, methodcaller("delete", newest[0].id))
                if (item := _to_item(newest[0])) is not None:
                    return item
        return None

    async def clear_session(self) -> None:
        """Remove all items, and everything else that is stored for the session, such as the records of its requests."""
        await arun(self._engine, lambda engine: engine.store.remove(Room, self.session_id))

    async def _read_items(self, limit: int) -> list[Item]:
        messages = await self._read_newest(limit)
        return [item for message in reversed(messages) if (item := _to_item(message)) is not None]

    async def _read_newest(self, limit: int) -> list[Message]:
        return await arun(self._engine, lambda engine: read_newest(engine, self.session_id, limit))


def _has_all_calls(items: Sequence[Item]) -> bool:
    """Whether the call of every output is among the items."""
    calls = {item.get("call_id") for item in items if not _is_output(item)}
    return all(item.get("call_id") in calls for item in items if _is_output(item))


def _is_output(item: Item) -> bool:
    return str(item.get("type")).endswith("_output")


def _without_divided(items: list[Item], start: int) -> list[Item]:
    """Return the items from an index on, without those that belong to one before it."""
    left, size = set(range(start)), -1
    ties = find_ties(items) if left else ()
    while len(left) != size:
        size = len(left)
        left.update(i for tie in ties if not left.isdisjoint(tie) for i in tie)
    return [item for i, item in enumerate(items) if i not in left]


# -- items as messages -------------------------------------------------------------------------------------------------


def _to_message(item: object, room: str, at: float, field: str) -> Message:
    """Return the message that an item is stored as. Its text is the content, and the rest of it metadata."""
    try:
        plain = json.loads(json.dumps(item))
    except (TypeError, ValueError) as cause:
        raise InvalidValue(field, f"must be plain JSON data ({cause})") from None
    if not isinstance(plain, dict):
        raise InvalidValue(field, f"must be an item of the Responses API, not {type(item).__name__}")
    path = _find_text(plain)
    content = _read_content(plain, path)
    message = Message(
        id=f"item-{uuid.uuid4().hex}",
        room=room,
        content=content,
        role=_find_role(plain, content),
        at=at,
        hidden=not plain_text(content).strip(),
        metadata={_ITEM: "", _TEXT_PATH: path},
    )
    *way, last = path or [""]
    holder = _walk(plain, way)
    if path and _text_of(message.content) == holder[last]:  # which is not so if it cannot be encoded
        holder[last] = ""
    else:
        message.metadata[_TEXT_PATH] = []
    message.metadata[_ITEM] = json.dumps(plain)
    return message


def _to_item(message: Message) -> Item | None:
    """Return a message as the item that it was, or a message that was posted otherwise as an item."""
    stored, path = message.metadata.get(_ITEM), message.metadata.get(_TEXT_PATH)
    if not isinstance(stored, str):
        return None if message.hidden else {"role": message.role, "content": plain_text(message.content)}
    item: Item = json.loads(stored)
    if path:
        _walk(item, path[:-1])[path[-1]] = _text_of(message.content)
    return item


def _find_text(item: Item) -> list[str | int]:
    """Return the path of the only text of an item; an empty one if there is none, or more than one."""
    field = _TEXT_FIELDS.get(_kind(item), "")
    match item.get(field):
        case str(text) if text:
            return [field]
        case [{"text": str(text)}] if text:
            return [field, 0, "text"]
        case _:
            return []


def _read_content(item: Item, path: list[str | int]) -> Content:
    text = _walk(item, path) if path else "\n".join(_list_texts(item.get(_TEXT_FIELDS.get(_kind(item), ""))))
    match _kind(item), item.get("call_id"):
        case (("function_call" | "custom_tool_call"), str(id)):
            return (ToolCall(id=clean_text(id), name=clean_text(str(item.get("name"))), arguments=clean_text(text)),)
        case (("function_call_output" | "custom_tool_call_output"), str(id)):
            return (ToolResult(id=clean_text(id), content=clean_text(text)),)
        case _:
            return clean_text(text)


def _list_texts(blocks: object) -> Iterator[str]:
    for block in blocks if isinstance(blocks, list) else ():
        if isinstance(block, dict) and isinstance(block.get("text"), str):
            yield block["text"]


def _text_of(content: Content) -> str:
    match content:
        case (ToolCall(arguments=text),) | (ToolResult(content=text),):
            return text
        case _:
            return plain_text(content)


def _kind(item: Item) -> str:
    return str(item.get("type") or "message")


def _find_role(item: Item, content: Content) -> Role:
    match content:
        case (ToolResult(),):
            return "tool"
        case _ if _kind(item) == "message":
            return _ROLES.get(str(item.get("role")), "user")
        case _:
            return "assistant"


def _walk(value: Any, path: Sequence[str | int]) -> Any:
    for key in path:
        value = value[key]
    return value
