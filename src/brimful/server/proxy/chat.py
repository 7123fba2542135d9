"""The endpoints of chat completions, Anthropic's messages, OpenAI's responses, Gemini's contents and Ollama's chat."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from brimful.core.notice import Notice
from brimful.errors import BudgetExceeded, ProviderError
from brimful.server.access import Client, choose_policy, list_fallbacks, require_model
from brimful.server.background import BackgroundTasks
from brimful.server.config import ModeName
from brimful.server.endpoint import Handler, read_json_object
from brimful.server.errors import ApiError
from brimful.server.limits import UNKNOWN_PRICE, Limiter
from brimful.server.logs import log_overflow
from brimful.server.proxy.conversation import limited_user
from brimful.server.proxy.exchange import CONTEXT_HEADER, Mode, Relay
from brimful.server.proxy.request import POLICY_HEADER, ProxyRequest, decode_header
from brimful.server.proxy.stream import with_usage_requested
from brimful.server.proxy.upstreams import Upstream, Upstreams, describe_outage, get_paths, is_outage, log_next_attempt
from brimful.wires import Wire

MODE_HEADER: Final = "x-brimful-mode"
NOTICE_HEADER: Final = "x-brimful-notice"


class ChatEndpoints:
    """Parses requests and passes each to its mode."""

    def __init__(
        self,
        modes: Mapping[ModeName, Mode],
        default: ModeName,
        *,
        upstreams: Upstreams,
        relay: Relay,
        limiter: Limiter,
        forward: Handler,
        tasks: BackgroundTasks,
        clock: Callable[[], float],
    ) -> None:
        self._modes = modes
        self._default: ModeName = default
        self._upstreams = upstreams
        self._relay = relay
        self._limiter = limiter
        self._forward = forward
        self._tasks = tasks
        self._clock = clock

    def endpoint(self, wire: Wire) -> Handler:
        """Return the handler for a wire format."""

        async def serve(request: Request, client: Client, raw: bytes) -> Response:
            await self._tasks.wait_for_capacity()
            name, mode = self._mode(request)
            body = await read_json_object(raw)
            if field := wire.find_state(body):
                return await self._pass_on(request, client, raw, field)
            model, streams = wire.read_call(request.scope["path"], request.path_params, body)
            if "\0" in model:
                raise ApiError("invalid", "model: contains a null character", param="model")
            for each in (model, *list_fallbacks(body)):
                require_model(client, each)
            choose_policy(client, request.headers.get(POLICY_HEADER), param=POLICY_HEADER)
            upstreams = self._upstreams.find_all(wire, model)
            query = upstreams[0].query(request.url.query)
            headers = {name: decode_header(value) for name, value in request.headers.items()}
            incoming = ProxyRequest(
                wire=wire,
                path=get_paths(wire).at_upstream(request.scope["raw_path"].decode("latin-1")),
                model=model,
                streams=streams,
                in_array=wire.streams_arrays and streams and "alt=sse" not in query.split("&"),
                raw=raw,
                body=body,
                headers=headers,
                forwarded=upstreams[0].headers(request.headers),
                query=query,
                client=client,
                upstream=upstreams[0],
                at=self._clock(),
            )
            log_fields = request.scope["brimful"]
            log_fields |= {"mode": name, "model": model, "stream": streams}
            async with self._limiter.admit(client, limited_user(client, headers, body)) as admission:
                admission.require_one_price(body)
                incoming = msgspec.structs.replace(incoming, admission=admission)
                response = await self._answer(incoming, name, mode, upstreams, log_fields)
            response.headers.update(admission.headers())
            log_fields |= {"context": response.headers.get(CONTEXT_HEADER, "")}
            return response

        return serve

    async def _answer(
        self,
        request: ProxyRequest,
        name: ModeName,
        mode: Mode,
        upstreams: Sequence[Upstream],
        log_fields: dict[str, Any],
    ) -> Response:
        """Return the answer of the first upstream that does not fail."""
        failed: list[tuple[Upstream, ProviderError]] = []
        for upstream in upstreams:
            attempt = msgspec.structs.replace(
                _at_upstream(request, upstream),
                is_last_attempt=upstream is upstreams[-1],
                notices=tuple(_describe_failure(*each, upstream) for each in failed),
            )
            log_fields["upstream"] = upstream.config.name
            try:
                return await self._relay.answer(with_usage_requested(_with_window(attempt), name), mode)
            except ProviderError as error:
                if attempt.is_last_attempt or not is_outage(error):
                    raise
                failed.append((upstream, error))
                log_next_attempt(upstream, error)
            except BudgetExceeded as error:
                if not failed:
                    raise
                log_overflow(error, log_fields)
            except ApiError as error:
                if not failed or error.code != UNKNOWN_PRICE:
                    raise
        raise failed[-1][1]

    async def _pass_on(self, request: Request, client: Client, raw: bytes, field: str) -> Response:
        """Forward a request that cannot be counted, because its provider adds to it what only the provider has."""
        response = await self._forward(request, client, raw)
        response.headers[NOTICE_HEADER] = f"sent as it is, because of {field}"
        return response

    def _mode(self, request: Request) -> tuple[ModeName, Mode]:
        requested = request.headers.get(MODE_HEADER, self._default)
        for name, mode in self._modes.items():
            if name == requested:
                return name, mode
        known = ", ".join(self._modes)
        raise ApiError("invalid", f"{MODE_HEADER}: must be one of {known}, not {requested[:40]!r}", param=MODE_HEADER)


def _at_upstream(request: ProxyRequest, upstream: Upstream) -> ProxyRequest:
    """Return a request as another upstream gets it, which may have another name for the model."""
    if upstream is not request.upstream:
        headers = upstream.headers(request.headers)
        request = msgspec.structs.replace(request, upstream=upstream, forwarded=headers)
    path, body, raw = upstream.rename(request.path, request.body, request.raw, request.model)
    model = upstream.config.rename.get(request.model, request.model)
    return msgspec.structs.replace(request, model=model, path=path, body=body, raw=raw)


def _describe_failure(failed: Upstream, error: ProviderError, upstream: Upstream) -> Notice:
    """Return the notice that a request goes to another upstream."""
    name = failed.config.name
    text = f"the upstream {name!r} {describe_outage(error)}, so the request was sent to {upstream.config.name!r}"
    return Notice(kind="upstream-failed", text=text, facts={"upstream": name, "status": error.status})


def _with_window(request: ProxyRequest) -> ProxyRequest:
    """Return a request that asks for the configured window, if its server would use a smaller one otherwise."""
    window = request.upstream.config.window
    body = request.body if window is None else request.wire.write_window(request.body, window)
    return (
        request if body is request.body else msgspec.structs.replace(request, body=body, raw=msgspec.json.encode(body))
    )
