"""Endpoints that are passed through to the upstream: models, embeddings and token counts."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from brimful.core.validation import decode_json
from brimful.counting import counter_for
from brimful.errors import ProviderError
from brimful.models.registry import Registry
from brimful.providers import HttpResponse
from brimful.render.incoming import IncomingWire, read_incoming
from brimful.server.access import Client
from brimful.server.endpoint import JSON, read_json_object
from brimful.server.errors import ApiError
from brimful.server.proxy.upstreams import Upstream, Upstreams, get_response_headers, upstream_errors

_MODEL_PATHS: Final[dict[IncomingWire, str]] = {"openai": "/models", "anthropic": "/v1/models"}
_UNSUPPORTED: Final = (404, 405, 501)


class Passthrough:
    """Forwards requests and answers unchanged."""

    def __init__(self, upstreams: Upstreams, registry: Registry) -> None:
        self._upstreams = upstreams
        self._registry = registry

    async def models(self, request: Request, client: Client, raw: bytes) -> Response:
        """List the models of all upstreams of a wire format. Anthropic clients send `anthropic-version`."""
        del client, raw
        wire: IncomingWire = "anthropic" if "anthropic-version" in request.headers else "openai"
        upstreams = self._upstreams.of(wire)
        if not upstreams:
            raise ApiError("not_found", f"no upstream speaks the wire format {wire!r}")
        path = _MODEL_PATHS[wire] + _query(request)
        answers = await asyncio.gather(
            *(_get(upstream, path, request.headers) for upstream in upstreams), return_exceptions=True
        )
        received = [answer for answer in answers if isinstance(answer, HttpResponse)]
        if not received:
            raise next(error for error in answers if isinstance(error, BaseException))
        return _unchanged(received[0]) if len(upstreams) == 1 else _merge_lists(received)

    async def model(self, request: Request, client: Client, raw: bytes) -> Response:
        """Show one model."""
        del client, raw
        wire: IncomingWire = "anthropic" if "anthropic-version" in request.headers else "openai"
        name = request.path_params["model"]
        if any(part in ("", ".", "..") for part in name.replace("\\", "/").split("/")):
            raise ApiError(
                "not_found", f"model {name[:80]!r} not found"
            )  # and no other path of the upstream, called with our key
        upstream = self._upstreams.find(wire, name)
        path = f"{_MODEL_PATHS[wire]}/{quote(name, safe='/:@')}{_query(request)}"
        return _unchanged(await _get(upstream, path, request.headers))

    async def embeddings(self, request: Request, client: Client, raw: bytes) -> Response:
        """Forward a request for embeddings."""
        del client
        body = await read_json_object(raw)
        upstream = self._upstreams.find("openai", _model_name(body))
        return _unchanged(await _post(upstream, f"/embeddings{_query(request)}", raw, request.headers))

    async def count_tokens(self, request: Request, client: Client, raw: bytes) -> Response:
        """Count a prompt at the upstream, or here if it cannot."""
        del client
        body = await read_json_object(raw)
        upstream = self._upstreams.find("anthropic", _model_name(body))
        path = f"/v1/messages/count_tokens{_query(request)}"
        try:
            return _unchanged(await _post(upstream, path, raw, request.headers))
        except ProviderError as error:
            if error.status not in _UNSUPPORTED:
                raise
        tokens = await asyncio.to_thread(self._count, upstream, body)
        return Response(msgspec.json.encode({"input_tokens": tokens}), media_type=JSON)

    def _count(self, upstream: Upstream, body: dict[str, Any]) -> int:
        info = self._registry.resolve(upstream.config.like or _model_name(body))
        return counter_for(info).prompt(read_incoming(body, "anthropic").prompt).tokens


async def _get(upstream: Upstream, path: str, headers: Mapping[str, str]) -> HttpResponse:
    with upstream_errors(upstream):
        return await upstream.connection.get(path, headers=upstream.headers(headers))


async def _post(upstream: Upstream, path: str, raw: bytes, headers: Mapping[str, str]) -> HttpResponse:
    with upstream_errors(upstream):
        return await upstream.connection.post(path, raw, headers=upstream.headers(headers))


def _query(request: Request) -> str:
    return f"?{request.url.query}" if request.url.query else ""


def _model_name(body: Mapping[str, Any]) -> str:
    name = body.get("model")
    return name if isinstance(name, str) else ""


def _unchanged(answer: HttpResponse) -> Response:
    return Response(answer.body, status_code=answer.status, headers=get_response_headers(answer.headers))


def _merge_lists(answers: Sequence[HttpResponse]) -> Response:
    """Merge model lists, with each model once."""
    rows: dict[str, Any] = {}
    for answer in answers:
        try:
            data = decode_json(answer.body)
        except ValueError:
            continue
        listed = data.get("data") if isinstance(data, dict) else None
        for row in listed if isinstance(listed, list) else ():
            if isinstance(row, dict):
                rows.setdefault(str(row.get("id")), row)
    return Response(msgspec.json.encode({"object": "list", "data": list(rows.values())}), media_type=JSON)
