"""LiteLLM: a callback that makes the requests of the SDK, the router and the proxy fit."""

import asyncio
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Any, Final, Unpack
from urllib.parse import urlsplit
from uuid import uuid4

import msgspec

from brimful.adapters.fitter import Fitted, Fitter, find_refusal
from brimful.assembly.arguments import resolve_model
from brimful.assembly.fit import FitOptions
from brimful.cache import LRU
from brimful.core.context import Context
from brimful.engine import Engine, SyncEngine
from brimful.engine.exchange import get_retry_window
from brimful.engine.options import ResponseOptions
from brimful.errors import BrimfulError, BudgetExceeded, ContextOverflow, InvalidValue, MissingExtra, StoreError
from brimful.models import default_registry
from brimful.wires import find_wire

try:
    import litellm
    from litellm.integrations.custom_logger import CustomLogger
except ImportError as error:
    raise MissingExtra("litellm", "the adapter for LiteLLM") from error


class _Form(msgspec.Struct, frozen=True):
    """The format of a call, and the fields that are counted or say what may be changed.

    Nothing else of a call is recorded, and no key of an API.
    """

    wire: str
    fields: tuple[str, ...]


_CHAT: Final = _Form(
    "openai",
    (
        *("messages", "tools", "functions", "tool_choice", "function_call", "parallel_tool_calls", "response_format"),
        *("max_tokens", "max_completion_tokens", "reasoning_effort", "n", "logprobs"),
    ),
)
_MESSAGES: Final = _Form(
    "anthropic", ("messages", "system", "tools", "tool_choice", "max_tokens", "thinking", "context_management")
)
_RESPONSES: Final = _Form(
    "responses", ("input", "instructions", "tools", "tool_choice", "max_output_tokens", "text", "reasoning", "include")
)
_FORMS: Final = {
    "completion": _CHAT,
    "acompletion": _CHAT,
    "anthropic_messages": _MESSAGES,
    "responses": _RESPONSES,
    "aresponses": _RESPONSES,
}
"""The calls that are fitted."""

_SESSION_FIELDS: Final = ("litellm_session_id", "session_id")
_MAX_CALLS: Final = 10_000  # that are under way
_CALL_BYTES: Final = 100_000  # memory of a call: its context, roughly


class _Call(msgspec.Struct, frozen=True, kw_only=True):
    """A call of LiteLLM, as far as it concerns its size."""

    id: str
    request: dict[str, Any]
    wire: str
    conversation: str
    route: str
    window: int | None
    is_positional: bool  # messages that are passed by position cannot be replaced


class _CallFitter(Fitter):
    """Fits whole requests: the messages of LiteLLM are wire messages, and its calls have all other fields."""

    def __init__(self, *, engine: Engine | SyncEngine | None, **options: Unpack[FitOptions]) -> None:
        super().__init__(engine=engine, **options)
        self._retries: LRU[str, int] = LRU(max_entries=_MAX_CALLS, name="litellm-retries", size=lambda _, __: 100)

    def fit_call(self, call: _Call) -> Context:
        options = self._make_options(call)
        if isinstance(self.engine, SyncEngine):
            return self.engine.fit(call.request, conversation=call.conversation, route=call.route, **options)
        if self.engine is None:
            return self._conversations.fit(call.conversation, call.request, **options)
        raise InvalidValue("engine", "is asynchronous: pass a brimful.SyncEngine where calls are synchronous")

    async def afit_call(self, call: _Call) -> Context:
        if isinstance(self.engine, Engine):
            options = self._make_options(call)
            return await self.engine.fit(call.request, conversation=call.conversation, route=call.route, **options)
        return await asyncio.to_thread(self.fit_call, call)

    def limit_retry(self, call_id: str, fitted: Fitted, error: Exception) -> ContextOverflow | None:
        """Make the next attempt of a call smaller if the provider refused it as too long; None for another error."""
        overflow = find_refusal(error, (litellm.ContextWindowExceededError,))
        if overflow is not None:
            self._retries[call_id] = get_retry_window(fitted.context, overflow)
        return overflow

    def has_limit(self, call_id: str) -> bool:
        """Whether an attempt of this call was refused as too long."""
        return call_id in self._retries

    def _make_options(self, call: _Call) -> FitOptions:
        model = call.request["model"]
        window = self._options.get("window") or call.window
        limits = [self._retries.get(call.id), self._windows.get((model, call.route))]
        if any(limits):
            known = window or resolve_model(self._options.get("model") or model).window
            window = min(known, *(limit for limit in limits if limit))
        return {**self._options, "wire": call.wire, "window": window}


class BrimfulCallback(CustomLogger):
    """Makes requests fit: `litellm.callbacks = [BrimfulCallback()]`.

    The options are the same as for `brimful.fit`. With an `engine`, every request is recorded in its store, and counts
    are calibrated by the usage that providers report. It works for all asynchronous calls, for routers and for the
    proxy. LiteLLM has no such hook for synchronous calls: use `completion` of the callback in place of
    `litellm.completion`.
    """

    def __init__(self, *, engine: Engine | SyncEngine | None = None, **options: Unpack[FitOptions]) -> None:
        super().__init__()
        self._fitter = _CallFitter(engine=engine, **options)
        self._calls: LRU[str, Fitted] = LRU(
            max_entries=_MAX_CALLS, name="litellm-calls", size=lambda _, __: _CALL_BYTES
        )

    async def async_pre_call_deployment_hook(self, kwargs: dict[str, Any], call_type: Any) -> dict[str, Any] | None:
        """Fit a request. LiteLLM calls this before each attempt, after it has chosen a deployment."""
        call = _read_call(kwargs, str(getattr(call_type, "value", call_type)))
        if call is None:
            return None
        with _translated_errors(call):
            return self._apply(kwargs, call, await self._fitter.afit_call(call))

    async def async_post_call_failure_deployment_hook(
        self, request_data: Mapping[str, Any], exception: Exception, call_type: Any, fallback_depth: int | None = None
    ) -> None:
        """Learn from a provider that refused a request as too long. The next attempt fits what it named."""
        del call_type, fallback_depth  # LiteLLM passes them by name
        call_id = str(request_data.get("litellm_call_id"))
        fitted = self._calls.pop(call_id)
        overflow = None if fitted is None else self._fitter.limit_retry(call_id, fitted, exception)
        if fitted is not None and overflow is not None:
            await self._fitter.aobserve_overflow(fitted, overflow)

    async def async_log_success_event(
        self, kwargs: dict[str, Any], response_obj: Any, start_time: datetime, end_time: datetime
    ) -> None:
        """Record what the provider reported."""
        fitted = self._calls.pop(str(kwargs.get("litellm_call_id")))
        if fitted is not None and self._fitter.engine is not None and not kwargs.get("cache_hit"):
            await self._fitter.aobserve(fitted, **_make_response(kwargs, response_obj, start_time, end_time))

    def log_success_event(
        self, kwargs: dict[str, Any], response_obj: Any, start_time: datetime, end_time: datetime
    ) -> None:
        """Record what the provider reported about a synchronous call."""
        fitted = self._calls.pop(str(kwargs.get("litellm_call_id")))
        if fitted is not None and self._fitter.engine is not None and not kwargs.get("cache_hit"):
            self._fitter.observe(fitted, **_make_response(kwargs, response_obj, start_time, end_time))

    def completion(self, *, model: str, messages: list[Any], **kwargs: Any) -> Any:
        """Call `litellm.completion` with messages that fit; once more with fewer, if the provider refuses them."""
        kwargs = {"litellm_call_id": str(uuid4()), **kwargs, "model": model, "messages": messages}
        try:
            return litellm.completion(**self._prepare(kwargs))
        except litellm.BadRequestError as error:
            fitted = self._calls.pop(kwargs["litellm_call_id"])
            if fitted is None:  # it is our own error
                raise
            overflow = self._fitter.limit_retry(kwargs["litellm_call_id"], fitted, error)
            if overflow is None:
                raise
            self._fitter.observe_overflow(fitted, overflow)
            return litellm.completion(**self._prepare(kwargs))

    async def acompletion(self, *, model: str, messages: list[Any], **kwargs: Any) -> Any:
        """Call `litellm.acompletion`; once more with fewer messages, if the provider refuses them as too long."""
        kwargs = {"litellm_call_id": str(uuid4()), **kwargs, "model": model, "messages": messages}
        try:
            return await litellm.acompletion(**kwargs)
        except litellm.BadRequestError:
            if not self._fitter.has_limit(kwargs["litellm_call_id"]):
                raise
            return await litellm.acompletion(**kwargs)

    def _prepare(self, kwargs: dict[str, Any]) -> dict[str, Any]:
        call = _read_call(kwargs, "completion")
        if call is None:
            return kwargs
        with _translated_errors(call):
            return self._apply(kwargs, call, self._fitter.fit_call(call))

    def _apply(self, kwargs: dict[str, Any], call: _Call, context: Context) -> dict[str, Any]:
        """Return the arguments of a call with what was changed to make it fit."""
        if context.is_reduced and call.is_positional:
            reason = "the messages do not fit, and are passed by position: pass model=… and messages=… by name"
            raise InvalidValue("messages", reason)
        self._calls[call.id] = Fitted(
            context=context,
            conversation=call.conversation,
            model=call.request["model"],
            route=call.route,
            pieces=(),
            count=0,
        )
        skipped = ("model",) if context.is_reduced else ("model", find_wire(call.wire).message_field)
        fitted = ((field, value) for field, value in context.request.items() if field not in skipped)
        return kwargs | {field: value for field, value in fitted if value != call.request.get(field)}


def _read_call(kwargs: Mapping[str, Any], call_type: str) -> _Call | None:
    """Return what a call is about; None if there is nothing to fit in it."""
    form = _FORMS.get(call_type)
    if form is None or find_wire(form.wire).find_state({name: value for name, value in kwargs.items() if value}):
        return None
    log, field = kwargs.get("litellm_logging_obj"), find_wire(form.wire).message_field
    is_positional = field not in kwargs
    messages = getattr(log, "messages", None) if is_positional else kwargs[field]
    named = str(kwargs.get("model") or getattr(log, "model", ""))
    if not messages or not named:
        return None
    model_info = _find(kwargs, "model_info") or {}
    model = str(model_info.get("base_model") or kwargs.get("base_model") or named)
    fields = {name: _plain(kwargs[name]) for name in form.fields if kwargs.get(name) is not None}
    return _Call(
        id=str(kwargs.get("litellm_call_id")),
        request={"model": model, **fields, field: messages},
        wire=form.wire,
        conversation=str(_find(kwargs, *_SESSION_FIELDS) or kwargs.get("user") or ""),
        route=_find_host(kwargs.get("api_base") or kwargs.get("base_url")),
        window=model_info.get("max_input_tokens") or _find_window(model),
        is_positional=is_positional,
    )


def _find(kwargs: Mapping[str, Any], *names: str) -> Any:
    """Return a value of a call, or of its metadata."""
    holders = (kwargs, kwargs.get("metadata"), kwargs.get("litellm_metadata"))
    found = (holder[name] for holder in holders if isinstance(holder, Mapping) for name in names if holder.get(name))
    return next(found, None)


def _plain(value: Any) -> Any:
    """Return a value as JSON; LiteLLM takes a pydantic class as `response_format`."""
    if isinstance(value, type) and hasattr(value, "model_json_schema"):
        schema = {"name": value.__name__, "schema": value.model_json_schema()}
        return {"type": "json_schema", "json_schema": schema}
    return value


def _find_window(model: str) -> int | None:
    """Return LiteLLM's own number for a model that we do not know."""
    if not default_registry().resolve(model).assumed_window:
        return None
    row = litellm.model_cost.get(model) or litellm.model_cost.get(model.partition("/")[2]) or {}
    limit = row.get("max_input_tokens")
    return limit if isinstance(limit, int) and limit > 0 else None


def _find_host(url: object) -> str:
    """Return the server in a URL, without credentials."""
    try:
        parts = urlsplit(str(url or ""))
        host, port = parts.hostname or "", parts.port
    except ValueError:  # LiteLLM says what is wrong with it
        return ""
    return f"{host}:{port}" if host and port else host


@contextmanager
def _translated_errors(call: _Call) -> Iterator[None]:
    """Raise our errors as LiteLLM's: the proxy answers with 400, and a router may fall back to a larger window."""
    try:
        yield
    except StoreError:
        raise
    except BrimfulError as error:
        kind = litellm.ContextWindowExceededError if isinstance(error, BudgetExceeded) else litellm.BadRequestError
        raise kind(message=str(error), model=call.request["model"], llm_provider="brimful") from error


def _make_response(kwargs: Mapping[str, Any], response: Any, start: datetime, end: datetime) -> ResponseOptions:
    usage = response.get("usage") if isinstance(response, Mapping) else getattr(response, "usage", None)
    options = kwargs.get("stream_options") or {}
    # LiteLLM estimates the usage of a stream that reports none.
    is_chat = _FORMS.get(str(kwargs.get("call_type"))) is _CHAT
    is_estimate = is_chat and bool(kwargs.get("stream")) and not options.get("include_usage")
    return {"usage": None if is_estimate else usage, "seconds": (end - start).total_seconds()}


def __getattr__(name: str) -> Any:
    """Make `callback`, for the configuration of a proxy, when it is first used."""
    if name != "callback":
        raise AttributeError(f"module 'brimful.adapters.litellm' has no attribute {name!r}")
    url = os.environ.get("BRIMFUL_DB")
    tenant = os.environ.get("BRIMFUL_TENANT", "default")
    made = globals()[name] = BrimfulCallback(engine=SyncEngine(url, tenant=tenant).open() if url else None)
    return made
