"""One exchange with a provider: send, learn from an overflow, rebuild, send again, and record the response.

The engine's `respond` and `stream` and both modes of the proxy use it. They differ in how a request is delivered (whole
or streamed, parsed or passed through as bytes), how it is rebuilt, and where the response is stored.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final, Generic, Protocol, TypeVar

import msgspec

from brimful.core.cache_misses import ADVICE
from brimful.core.context import Context
from brimful.core.notice import Notice
from brimful.counting import make_overflow_report, make_usage_report
from brimful.counting.usage import has_unknown_size
from brimful.engine.calibration import get_default_route
from brimful.engine.events import EventName, format_fields, get_response_facts
from brimful.engine.prompt_cache import CacheUse, LastRequests
from brimful.engine.writer import new_id
from brimful.errors import BudgetExceeded, ContextOverflow, ProviderError
from brimful.records import Content, Response, Usage
from brimful.records.contexts import Build
from brimful.records.reply import Reply
from brimful.records.usage import UsageReport
from brimful.threads import run_in_thread
from brimful.wires import renderer_of

_log = logging.getLogger("brimful.cache")
_overflows = logging.getLogger("brimful.overflow")
_overflows.addHandler(logging.NullHandler())
_FEW_PACKAGES: Final = 64  # compared at once; more take milliseconds, in a thread
_FEW_TOKENS: Final = 20_000  # more are compared in a thread
_DEFAULT_SHRINK: Final = 0.75  # of the request, if the provider names no limit
_NEAR_LIMIT: Final = (
    0.9  # of the limit; from here on, the server is asked to count a request that we cannot count exactly
)

P = TypeVar("P")
T = TypeVar("T")

Learn = Callable[[UsageReport], Awaitable[None]]
"""Stores a report about a request and calibrates counts and windows with it."""


class Emit(Protocol):
    """Sends an event to hooks."""

    async def __call__(self, name: EventName, room: str | None = None, **facts: Any) -> None: ...


class PreparedRequest(Generic[P]):
    """A request ready to send, and its context, which may still be built while the provider works on the request.

    `on_sent` is called once the request has been sent.
    """

    def __init__(
        self, payload: P, context: "Context | asyncio.Task[Context | None]", on_sent: Callable[[], None] = lambda: None
    ) -> None:
        self.payload = payload
        self.on_sent = on_sent
        self._context = context

    @property
    def counted(self) -> Context | None:
        """The context, if it was built before the request is sent."""
        return self._context if isinstance(self._context, Context) else None

    async def get_context(self) -> Context | None:
        """Return the context, waiting for it if necessary; None if it could not be built."""
        return self._context if isinstance(self._context, Context) else await self._context

    def cancel(self) -> None:
        """Stop building the context if nobody needs it anymore."""
        if not isinstance(self._context, Context) and not self._context.done():
            self._context.cancel()


Deliver = Callable[[PreparedRequest[P]], Awaitable[T]]
"""Sends a request and returns the answer, or the beginning of a stream. Raises `ContextOverflow`."""

Rebuild = Callable[[Context, int, Notice], Awaitable[PreparedRequest[P] | None]]
"""Builds a context again for a smaller window, with a notice that says why; returns None if it cannot get smaller."""


class Exchange(Generic[P]):
    """Sends requests for one room to one route. A request that overflows is rebuilt and sent once more."""

    def __init__(
        self,
        *,
        route: str,
        room: str,
        rebuild: Rebuild[P],
        learn: Learn,
        emit: Emit,
        clock: Callable[[], float],
        count: Callable[[P], Awaitable[int | None]],
    ) -> None:
        """Send to a route; `count` lets the server count a request, and returns None if it cannot."""
        self._count = count
        self._route = route
        self._room = room
        self._rebuild = rebuild
        self._learn = learn
        self._emit = emit
        self._clock = clock

    async def send(self, prepared: PreparedRequest[P], deliver: Deliver[P, T]) -> T:
        """Send a request. If the provider finds it too long, learn its window, rebuild the request and try again.

        If that fails too, or the request cannot get smaller, the provider's error is raised.
        """
        checked = await self._check_count(prepared)
        try:
            return await deliver(checked)
        except ContextOverflow as overflow:
            context = await checked.get_context()
            smaller = None if context is None else await self._shrink(context, overflow)
            if context is None or smaller is None:
                raise
            self._log_overflow(context, overflow)
            return await deliver(smaller)
        finally:
            checked.cancel()

    async def _check_count(self, prepared: PreparedRequest[P]) -> PreparedRequest[P]:
        """Let the server count a request near the limit that we cannot count exactly; make it smaller if it is over."""
        context = prepared.counted  # a request that is sent before it is counted is small, or has no known limit
        if context is None or context.verification.basis in ("exact", "provider"):
            return prepared
        verified = context.verification
        if verified.tokens < _NEAR_LIMIT * verified.limit:
            return prepared
        try:
            tokens = await self._count(prepared.payload)
        except ProviderError:  # sending it may still work
            return prepared
        if tokens is None or tokens <= verified.limit:
            return prepared
        counted = ContextOverflow(
            self._route, "counted by the server", window=verified.limit, prompt=tokens, input_only=True
        )
        notice = Notice(
            kind="overflowed",
            text=f"{self._route} counts {tokens:,} tokens for {context.id}, and {verified.limit:,} fit: rebuilt",
            facts={"route": self._route, "context": context.id, "window": context.budget.window, "prompt": tokens},
        )
        try:
            return await self._rebuild(context, get_retry_window(context, counted), notice) or prepared
        except BudgetExceeded:
            return prepared

    def _log_overflow(self, context: Context, overflow: ContextOverflow) -> None:
        """Log an error of the provider that the caller does not see."""
        fields = {
            "model": context.inputs.model.id,
            "route": self._route,
            "room": self._room,
            "context": context.id,
            "tokens": overflow.prompt,
            "limit": overflow.window,
            "rejected_by": "upstream",
            "rebuilt": True,
        }
        _overflows.warning(format_fields("context_length_exceeded", fields), extra=fields)

    async def _shrink(self, context: Context, overflow: ContextOverflow) -> PreparedRequest[P] | None:
        report = await run_in_thread(
            make_overflow_report,
            context,
            overflow,
            id=new_id("obs"),
            route=self._route,
            room=self._room,
            at=self._clock(),
        )
        await self._learn(report)
        await self._emit(
            "overflowed",
            self._room,
            context=context.id,
            model=context.inputs.model.id,
            route=self._route,
            window=overflow.window,
        )
        try:
            return await self._rebuild(
                context, get_retry_window(context, overflow), describe_overflow(context, overflow)
            )
        except BudgetExceeded:
            return None


def get_retry_window(context: Context, overflow: ContextOverflow) -> int:
    """Return the window for which to rebuild a context that was too long. It serves this one retry only.

    It is the window that the provider named, if any, reduced in proportion if the provider counts more tokens than us:
    or by the difference, if that is due to content that cannot be counted.
    """
    budget = context.budget
    limit = overflow.window or int(min(budget.window, context.tokens + budget.completion) * _DEFAULT_SHRINK)
    if overflow.window and overflow.input_only:
        limit += budget.completion
    if overflow.prompt and overflow.prompt > context.tokens:
        excess = overflow.prompt - context.tokens
        limit = limit - excess if has_unknown_size(context) else int(limit * context.tokens / overflow.prompt)
    return max(1, min(limit, budget.window - 1))


def describe_overflow(context: Context, refused: ContextOverflow) -> Notice:
    """Return a notice of an overflow for the record of the rebuilt context."""
    window = f"its window is {refused.window:,}" if refused.window else "it did not report its window"
    prompt = f" of {refused.prompt:,} tokens" if refused.prompt else ""
    return Notice(
        kind="overflowed",
        text=f"{refused.route} refused {context.id}{prompt} as too long ({window}): rebuilt for a smaller window",
        facts={"route": refused.route, "context": context.id, "window": refused.window, "prompt": refused.prompt},
    )


class ResponseDetails(msgspec.Struct, frozen=True, kw_only=True):
    """What is known about a response. An empty `route` means the model's own provider."""

    content: Content | None = None
    sender: str = ""
    model: str = ""
    route: str = ""
    usage: Usage | None = None
    seconds: float | None = None
    finish: str = ""
    notices: tuple[Notice, ...] = ()
    metadata: dict[str, Any] = {}


class ResponseTarget(msgspec.Struct, frozen=True, kw_only=True):
    """Where a response belongs: its id and time, the room, the stored context, and the message posted for it.

    Requests of one `conversation` share a prompt prefix, which the provider may have cached.
    """

    id: str
    at: float
    room: str
    context: str
    message: str | None = None
    conversation: tuple[str, ...]


class ResponseRecorder:
    """Records responses: the usage beside our count, what it teaches about counting, and an event."""

    def __init__(self, *, learn: Learn, requests: LastRequests, emit: Emit) -> None:
        self._learn = learn
        self._requests = requests
        self._emit = emit

    async def record(
        self,
        context: Context | Build,
        details: ResponseDetails,
        target: ResponseTarget,
        save: Callable[[Response], Awaitable[Response]],
    ) -> Response:
        """Save the response to a context and learn from its usage; return it as saved.

        If all that is left of the context is its summary, there is nothing to compare the usage with.
        """
        report, use = (
            (None, CacheUse()) if isinstance(context, Build) else await self._make_report(context, details, target)
        )
        asked = context.model if isinstance(context, Build) else context.inputs.model.id
        response = Response(
            id=target.id,
            context=target.context,
            room=target.room,
            message=target.message,
            model=details.model or asked,
            route=details.route,
            at=target.at,
            seconds=details.seconds,
            usage=details.usage,
            finish=details.finish,
            expected_cached=report.expected_cached if report else 0,
            notices=(*details.notices, *get_response_notices(report, use)),
            metadata=details.metadata,
        )
        saved = await save(response)
        if use.missed:
            _log.info("cache missed context=%s cause=%s tokens=%d", target.context, use.cause, use.missed)
        if report is not None:
            await self._learn(report)
        await self._emit("responded", target.room, **get_response_facts(saved, context))
        return saved

    async def _make_report(
        self, context: Context, details: ResponseDetails, target: ResponseTarget
    ) -> tuple[UsageReport | None, CacheUse]:
        """Compare the reported usage with our count, and with what was cached; without any, there is no report."""
        if details.usage is None or not details.usage.prompt:
            return None, CacheUse()
        if len(context.inputs.packages) <= _FEW_PACKAGES and context.tokens <= _FEW_TOKENS:
            return self._compare_usage(context, details, details.usage, target)
        return await run_in_thread(self._compare_usage, context, details, details.usage, target)

    def _compare_usage(
        self, context: Context, details: ResponseDetails, usage: Usage, target: ResponseTarget
    ) -> tuple[UsageReport, CacheUse]:
        prompt = renderer_of(context.inputs).parse(context.request)
        use = self._requests.compare(context, prompt, usage, target.at, *target.conversation)
        report = make_usage_report(
            context,
            usage,
            prompt=prompt,
            id=f"{target.id}/usage",
            route=details.route or get_default_route(context.inputs.model),
            room=target.room,
            at=target.at,
            snapshot=target.context,
            expected_cached=use.expected,
        )
        return report, use


def get_response_notices(report: UsageReport | None, use: CacheUse) -> tuple[Notice, ...]:
    """Return notices for the record of a response: a prompt that was silently truncated, or read again."""
    notices = []
    if report is not None and report.kind == "cut":
        tokens = f"{report.reported:,} of {report.counted:,} tokens"
        text = f"{report.route} reports {tokens} for the prompt: it silently truncated it; check its configured window"
        facts = {"route": report.route, "reported": report.reported, "counted": report.counted}
        notices.append(Notice(kind="prompt-truncated", text=text, facts=facts))
    if use.missed:
        text = f"{use.missed:,} tokens were read again instead of from the cache ({use.cause}): {ADVICE[use.cause]}"
        notices.append(Notice(kind="cache-missed", text=text, facts={"cause": use.cause, "tokens": use.missed}))
    return tuple(notices)


def get_reply_content(reply: Reply) -> Content | None:
    """Return a reply as message content: a string unless there are tool calls, None if it is empty."""
    return reply.parts if reply.calls else reply.text or None
