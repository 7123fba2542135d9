"""Answer the model's calls of the recall tool and the search for tools, and send its request again with the results."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final, Protocol

import msgspec
from starlette.responses import Response

from brimful.assembly.assemble import counter_of
from brimful.assembly.recall_tool import RecallCall, describe_error, describe_result, read_call, tool_search
from brimful.core.content import Text, ToolCall
from brimful.core.context import Context
from brimful.core.notice import Notice
from brimful.core.policy import RecallMode
from brimful.core.recall import RECALL, Recalled
from brimful.core.toolset import TOOL_SEARCH
from brimful.engine.exchange import Emit, PreparedRequest
from brimful.errors import BrimfulError, BudgetExceeded, InvalidValue
from brimful.records.reply import Reply
from brimful.server.proxy.request import ProxyRequest
from brimful.threads import run_in_thread
from brimful.wires.replies import JsonObject
from brimful.wires.rounds import BETWEEN, JoinedAnswer
from brimful.wires.tools import arguments_object

_MAX_SHARE: Final = 0.25  # of the prompt that the results of a round may take, so that they do not displace the task
NOT_RUN: Final = "Not run, because it was called with recall or tool_search. Call it again if it is still needed."
_NO_ROOM: Final = "Error: there is no room for a result. Answer with what you have."


class Rebuilds(Protocol):
    """What a mode of the proxy does for further rounds."""

    async def rebuild(
        self, request: ProxyRequest, context: Context, window: int, notice: Notice
    ) -> PreparedRequest[bytes] | None:
        """Build a request again for a smaller window, or with recalls; return None if it would be the same."""
        ...

    async def recall(self, request: ProxyRequest, context: Context, call: RecallCall) -> Recalled:
        """Recall something that a context left out."""
        ...


def can_join(request: ProxyRequest) -> bool:
    wire = request.wire
    return wire.join_rounds is not None and not request.in_array and wire.can_join(request.body, request.streams)


def recall_overrides(
    request: ProxyRequest, default: RecallMode, configured: RecallMode | None
) -> dict[str, Any] | None:
    """Return whether the model may recall, if that differs from the policy's default."""
    wanted = request.recall or configured or default
    mode = wanted if can_join(request) else "off"
    return None if mode == default else {"recall": mode}


class RecallLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How many rounds of recalls a request may take, and how many tokens all results may have together."""

    rounds: int
    tokens: int


class NextRound(msgspec.Struct, frozen=True):
    """A request with the results of recalls, ready to send, and what was recalled."""

    request: ProxyRequest
    prepared: PreparedRequest[bytes]
    recalls: tuple[Notice, ...]


class RecallSession:
    """The rounds of one request. `context` is that of the current round, and `first` of the first one."""

    def __init__(
        self,
        request: ProxyRequest,
        context: Context,
        joined: JoinedAnswer,
        limits: RecallLimits,
        *,
        mode: Rebuilds,
        emit: Emit,
        send: "Callable[[NextRound], Awaitable[Response]]",
        clock: Callable[[], float],
    ) -> None:
        self.first = self.context = context
        self.joined = joined
        joined.answered = context.added_tools
        self._request = request
        self._limits = limits
        self._mode = mode
        self._emit = emit
        self.send = send
        self._clock = clock
        self._round = 0
        self._tokens = 0
        self._texts: list[str] = []

    def proceed(self, context: Context) -> None:
        """Go on with the context of the current round, which may offer other tools of ours."""
        self.context = context
        self.joined.answered |= context.added_tools

    def end_round(self, reply: Reply | None) -> None:
        """Remember what the client has seen of a round that is not the last."""
        self._texts += [reply.text] if reply is not None and reply.text else []

    def join(self, reply: Reply) -> Reply:
        """Return the reply of the last round as the client sees it: with the texts of all rounds, and its own calls."""
        own = tuple([part for part in reply.parts if isinstance(part, Text) or part.name not in self.joined.answered])
        if not self._texts:
            return msgspec.structs.replace(reply, parts=own)
        text = BETWEEN.join([*self._texts, *([reply.text] if reply.text else [])])
        calls = [part for part in own if isinstance(part, ToolCall)]
        return msgspec.structs.replace(reply, parts=(Text(text=text), *calls))

    async def next_round(self) -> NextRound:
        """Answer the calls of the current round, and fit the request that continues it.

        Results get smaller until they fit. If not even an error does, the request is sent without them and the tool.
        """
        self._round += 1
        left = self._limits.tokens - self._tokens
        limit = min(left, int(_MAX_SHARE * self.context.budget.available))
        for tokens in (limit, limit // 4, 0):
            results, recalls = await self._answer_calls(tokens)
            used = sum(recall.facts["tokens"] for recall in recalls)
            is_last = self._round >= self._limits.rounds or used >= left
            with suppress(BudgetExceeded):
                return await self._prepare(self.joined.step(results), recalls, is_last=is_last)
        return await self._prepare([], [], is_last=True)

    async def _prepare(self, steps: list[JsonObject], recalls: list[Notice], *, is_last: bool) -> NextRound:
        request = self._continue(steps, is_last=is_last)
        prepared = await self._fit(request, recalls)
        self.joined.advance()
        self.joined.is_last = is_last
        self._request = request
        for recall in recalls:
            tokens = recall.facts["tokens"]
            self._tokens += tokens
            route = request.upstream.route
            await self._emit("recalled", model=request.model, route=route, tokens=tokens, round=self._round)
        return NextRound(request, prepared, tuple(recalls))

    async def _fit(self, request: ProxyRequest, recalls: list[Notice]) -> PreparedRequest[bytes]:
        context = self.context
        tokens = sum(recall.facts["tokens"] for recall in recalls)
        text = f"continues {context.id} after round {self._round}, in which the model recalled {tokens:,} tokens"
        facts = {"context": context.id, "round": self._round, "tokens": tokens}
        notice = Notice(kind="recalled", text=text, facts=facts)
        prepared = await self._mode.rebuild(request, context, context.budget.window, notice)
        return prepared or PreparedRequest(msgspec.json.encode(context.request), context)

    async def _answer_calls(self, limit: int) -> tuple[dict[str, str], list[Notice]]:
        """Return a result for each call, in so many tokens together, and what the record says about the recalls."""
        results, recalls = dict[str, str](), list[Notice]()
        for call in self.joined.calls:
            results[call.id] = NOT_RUN
            if call.name in self.joined.answered:
                results[call.id], recall = await self._answer(call, limit)
                limit -= recall.facts["tokens"]
                recalls.append(recall)
        return results, recalls

    async def _answer(self, call: ToolCall, limit: int) -> tuple[str, Notice]:
        began = self._clock()
        arguments = arguments_object(call.arguments)
        is_search = call.name == TOOL_SEARCH.name
        wanted = RecallCall()
        with suppress(InvalidValue):
            wanted = read_call(arguments, max(1, limit))
        if limit <= 0:
            text = _NO_ROOM
        elif is_search:
            text = await run_in_thread(tool_search(self.context, max_tokens=limit), arguments)
        else:
            text = await self._recall_text(arguments, limit)
        tokens = (await run_in_thread(counter_of(self.context).text, text)).upper
        what = f'recalled "{wanted.handle}"' if wanted.handle else "searched what was left out"
        what = "searched for tools" if is_search else what
        facts = {"handle": wanted.handle, "query": wanted.query, "tokens": tokens, "round": self._round}
        facts["seconds"] = max(0.0, self._clock() - began)
        return text, Notice(kind="recalled", text=f"round {self._round}: {what}, {tokens:,} tokens", facts=facts)

    async def _recall_text(self, arguments: JsonObject, limit: int) -> str:
        try:
            call = read_call(arguments, limit)
            return describe_result(await self._mode.recall(self._request, self.context, call), call)
        except BrimfulError as error:
            return describe_error(error)

    def _continue(self, steps: list[JsonObject], *, is_last: bool) -> ProxyRequest:
        """Return the request with the model's calls and their results; the last one does not allow more recalls."""
        body, wire = self._request.body, self._request.wire
        if is_last and not body.get("tools"):
            # Providers want the tools of past calls to be defined.
            body = {**body, "tools": [wire.write_tool(RECALL)], **wire.no_calls}
        body = body | {wire.message_field: [*self._request.messages, *steps]}
        return msgspec.structs.replace(
            self._request,
            body=body,
            raw=msgspec.json.encode(body),
            recalled=self._request.recalled + len(steps),
            at=self._clock(),
            recall_off=is_last,
        )
