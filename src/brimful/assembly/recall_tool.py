"""Tools of ours: with them, a model gets back what its context shortened or left out, messages or other tools."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from brimful.core.context import Context, Inputs
from brimful.core.recall import RECALL, Recalled
from brimful.core.toolset import TOOL_SEARCH, search_tools, write_tools
from brimful.core.validation import is_whole_number, preview
from brimful.counting import counter_for
from brimful.embedding.static import compare_meanings
from brimful.errors import BrimfulError, InvalidValue, UnknownRecord
from brimful.wires import Wire
from brimful.wires.registry import find_incoming_wire
from brimful.wires.tools import arguments_object

DEFAULT_TOKENS: Final = 1_000  # of a result, if the model does not say how many
_NOTE_TOKENS: Final = 32  # at most, of the line after a part of an item
_TOOLS: Final = "tools"


class RecallCall(msgspec.Struct, frozen=True, kw_only=True):
    """What a model wants to recall."""

    handle: str = ""
    query: str = ""
    max_tokens: int = DEFAULT_TOKENS


class RecallTool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool for one context: its `schema` for the request, and a function that answers the model's calls.

    Call it with the arguments as the provider sends them, as a JSON string or a dict. It returns the text of the
    result, which has at most `max_tokens`. If something is wrong with a call, the text tells the model what to do.
    """

    context: Context
    schema: dict[str, Any]
    max_tokens: int
    name: str = RECALL.name
    earlier: tuple[Context, ...] = ()

    def __call__(self, arguments: str | Mapping[str, Any] = "", /, **fields: Any) -> str:
        """Answer a call of the model."""
        try:
            given = arguments_object(arguments) if isinstance(arguments, str) else dict(arguments)
            call = read_call(given | fields, self.max_tokens)
            recalled = self.context.recall(
                call.handle, query=call.query, max_tokens=room_for_text(call), earlier=self.earlier
            )
        except BrimfulError as error:
            return describe_error(error)
        return describe_result(recalled, call)


class ToolSearch(msgspec.Struct, frozen=True, kw_only=True):
    """A tool for one context: its `schema` for the request, and a function that answers the model's calls.

    Call it with the arguments as the provider sends them. It returns the definitions of matching tools as JSON, one a
    line, in at most `max_tokens`. Append that as the result of the call: `fit` then keeps these tools whole.
    """

    context: Context
    schema: dict[str, Any]
    max_tokens: int
    name: str = TOOL_SEARCH.name

    def __call__(self, arguments: str | Mapping[str, Any] = "", /, **fields: Any) -> str:
        """Answer a call of the model."""
        given = (arguments_object(arguments) if isinstance(arguments, str) else dict(arguments)) | fields
        query = given.get("query")
        if not isinstance(query, str) or not query.strip():
            return "Error: pass a query with words about what the tool should do."
        counter = counter_for(self.context.inputs.model, self.context.inputs.method)
        found = search_tools(self.context.hidden_tools, query, self.max_tokens, counter, compare_meanings)
        return write_tools(found) or "No other tool matches this query. Try other words, or go on without one."


def tool_search(context: Context, *, wire: str | None = None, max_tokens: int = 4_000) -> ToolSearch:
    """Return the tool with which a model finds tools whose definitions a context shortened or left out.

    `wire` is the form of its schema, by default that of the context's request. No result has more than `max_tokens`.
    """
    form = _resolve_form(context, wire, max_tokens)
    return ToolSearch(context=context, schema=form.write_tool(TOOL_SEARCH), max_tokens=max_tokens)


def recall_tool(
    context: Context, *, wire: str | None = None, max_tokens: int = 4_000, earlier: Sequence[Context] = ()
) -> RecallTool:
    """Return the tool with which a model recalls what a context shortened or left out.

    `wire` is the form of its schema, by default that of the context's request. No result has more than `max_tokens`.
    `earlier` are the contexts of earlier rounds, oldest first, if you keep fitted messages as your history.
    """
    form = _resolve_form(context, wire, max_tokens)
    rounds = require_contexts("earlier", earlier)
    return RecallTool(context=context, schema=form.write_tool(RECALL), max_tokens=max_tokens, earlier=rounds)


def _resolve_form(context: Context, wire: str | None, max_tokens: int) -> Wire:
    """Check the arguments, and return the wire in which to write a schema."""
    if not isinstance(context, Context):
        raise InvalidValue("context", f"must be a Context, not {preview(context)}")
    if not is_whole_number(max_tokens):
        raise InvalidValue("max_tokens", f"must be a positive whole number of tokens, not {preview(max_tokens)}")
    own = context.inputs.model.wire if context.inputs.frame is None else context.inputs.frame.wire
    return find_incoming_wire(wire or own)


def require_contexts(field: str, value: object) -> tuple[Context, ...]:
    """Return contexts as a tuple, and refuse anything else."""
    if isinstance(value, list | tuple) and all(isinstance(each, Context) for each in value):
        return tuple(value)
    raise InvalidValue(field, f"must be a list of contexts, not {preview(value)}")


# -- answering calls ---------------------------------------------------------------------------------------------------


def read_call(arguments: Mapping[str, Any], limit: int) -> RecallCall:
    """Read the arguments of a call, which a model may have written carelessly.

    >>> read_call({"handle": 'recall "msg-12"', "query": None, "max_tokens": "5000"}, limit=2000)
    RecallCall(handle='msg-12', query='', max_tokens=2000)
    """
    handle, query, wanted = (arguments.get(key) for key in ("handle", "query", "max_tokens"))
    for field, value in (("handle", handle), ("query", query)):
        if value is not None and not isinstance(value, str | int):
            raise InvalidValue(field, f"must be a string, not {preview(value)}")
    return RecallCall(
        handle="" if handle is None else str(handle).strip(" []…").removeprefix("recall").strip(" \"'`"),
        query="" if query is None else str(query).strip(),
        max_tokens=min(limit, _read_tokens(wanted)),
    )


def _read_tokens(value: object) -> int:
    try:
        tokens = int(value) if isinstance(value, str | float | int) else 0
    except (ValueError, OverflowError):
        tokens = 0
    return tokens if tokens > 0 else DEFAULT_TOKENS


def room_for_text(call: RecallCall) -> int:
    """Return the tokens of a result without the line that may follow it."""
    return max(1, call.max_tokens - _NOTE_TOKENS)


def describe_result(recalled: Recalled, call: RecallCall) -> str:
    """Return the result of a call for the model."""
    if not recalled.text:
        if not call.handle:
            return "Nothing that was left out matches this query. Try other words, or go on without it."
        return f"It has {recalled.size} tokens, and nothing of it fits in {call.max_tokens}: pass a larger max_tokens."
    if recalled.whole or recalled.passages or call.max_tokens <= _NOTE_TOKENS:
        return recalled.text
    return f"{recalled.text}\n[a part of {recalled.size} tokens; pass a query or a larger max_tokens for more]"


def describe_error(error: BrimfulError) -> str:
    """Return an error as a text that tells the model what to do."""
    match error:
        case UnknownRecord(near=near):
            similar = f" Similar handles: {', '.join(near)}." if near else ""
            return f"Error: there is no such handle.{similar} Pass a handle as a mark names it, or a query."
        case InvalidValue(field="handle"):
            return "Error: pass a handle as a mark names it, or a query with words to search for."
        case _:
            return f"Error: {error}"


# -- offering the tool -------------------------------------------------------------------------------------------------


def with_recall(inputs: Inputs) -> Inputs | None:
    """Return inputs whose request also offers the tool; None if it must not.

    The tool comes last, so that everything before it, with the caller's own cache breakpoints, stays as it is.
    """
    frame = inputs.frame
    if frame is None or not frame.is_request or inputs.policy.recall != "tool":
        return None
    wire = find_incoming_wire(frame.wire)
    if wire.has_fixed_tools(frame.fields) or any(tool.name == RECALL.name for tool in inputs.tools):
        return None
    fields = frame.fields | {_TOOLS: [*(frame.fields.get(_TOOLS) or ()), wire.write_tool(RECALL)]}
    return msgspec.structs.replace(
        inputs, tools=(*inputs.tools, RECALL), frame=msgspec.structs.replace(frame, fields=fields), recall=True
    )


def without_recall(inputs: Inputs) -> Inputs:
    """Return inputs as they were before the tool was added."""
    frame = inputs.frame
    if frame is None or not inputs.recall:
        return inputs
    own = frame.fields[_TOOLS][:-1]
    fields = {key: own if key == _TOOLS else value for key, value in frame.fields.items() if key != _TOOLS or own}
    return msgspec.structs.replace(
        inputs, tools=inputs.tools[:-1], frame=msgspec.structs.replace(frame, fields=fields), recall=False
    )
