"""Endpoints that only pass on what they are asked: lists of models, embeddings, counts."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from brimful.core.lenient import decode_json
from brimful.counting import counter_for
from brimful.errors import ProviderError
from brimful.models.registry import Registry
from brimful.providers import Answered
from brimful.render.given import GivenWire, read_given
from brimful.server.asked import Caller
from brimful.server.bodies import read_object
from brimful.server.endpoint import JSON
from brimful.server.errors import Refusal
from brimful.server.upstreams import Line, Upstreams, hiding_our_key

_MODELS: Final[dict[GivenWire, str]] = {"openai": "/models", "anthropic": "/v1/models"}
_NO_SUCH_QUESTION: Final = (404, 405, 501)


class Passing:
    """Hands on requests and answers as they are."""

    def __init__(self, upstreams: Upstreams, registry: Registry) -> None:
        """Take whom to ask, and the models that can be counted for who cannot."""
        self._upstreams = upstreams
        self._registry = registry

    async def models(self, request: Request, caller: Caller, raw: bytes) -> Response:
        """List the models of all upstreams of a wire: Anthropic's clients say which version of its API they speak."""
        del caller, raw
        wire: GivenWire = "anthropic" if "anthropic-version" in request.headers else "openai"
        lines = self._upstreams.of(wire)
        if not lines:
            raise Refusal("unknown", f"no upstream speaks the wire {wire!r}")
        path = _MODELS[wire] + (f"?{request.url.query}" if request.url.query else "")
        answers = await asyncio.gather(*(_got(line, path, request.headers) for line in lines), return_exceptions=True)
        told = [answer for answer in answers if isinstance(answer, Answered)]
        if not told:
            raise next(error for error in answers if isinstance(error, BaseException))
        return _as_it_came(told[0]) if len(lines) == 1 else _listed(told)

    async def model(self, request: Request, caller: Caller, raw: bytes) -> Response:
        """Tell of one model."""
        del caller, raw
        wire: GivenWire = "anthropic" if "anthropic-version" in request.headers else "openai"
        name = request.path_params["model"]
        if any(part in ("", ".", "..") for part in name.replace("\\", "/").split("/")):
            raise Refusal("unknown", f"no model {name[:80]!r}")  # nor any other place of the upstream, with our key
        line = self._upstreams.find(wire, name)
        return _as_it_came(await _got(line, f"{_MODELS[wire]}/{quote(name, safe='/:@')}", request.headers))

    async def embeddings(self, request: Request, caller: Caller, raw: bytes) -> Response:
        """Turn texts into vectors."""
        del caller
        body = await read_object(raw)
        line = self._upstreams.find("openai", _named(body))
        return _as_it_came(await _posted(line, "/embeddings", raw, request.headers))

    async def count_tokens(self, request: Request, caller: Caller, raw: bytes) -> Response:
        """Count a prompt; where the upstream cannot, we do."""
        del caller
        body = await read_object(raw)
        line = self._upstreams.find("anthropic", _named(body))
        query = f"?{request.url.query}" if request.url.query else ""
        try:
            return _as_it_came(await _posted(line, f"/v1/messages/count_tokens{query}", raw, request.headers))
        except ProviderError as error:
            if error.status not in _NO_SUCH_QUESTION:
                raise
        tokens = await asyncio.to_thread(self._counted, line, body)
        return Response(msgspec.json.encode({"input_tokens": tokens}), media_type=JSON)

    def _counted(self, line: Line, body: dict[str, Any]) -> int:
        info = self._registry.resolve(line.upstream.like or _named(body))
        return counter_for(info).prompt(read_given(body, "anthropic").prompt).tokens


async def _got(line: Line, path: str, headers: Mapping[str, str]) -> Answered:
    with hiding_our_key(line):
        return await line.connection.get(path, headers=line.headers(headers))


async def _posted(line: Line, path: str, raw: bytes, headers: Mapping[str, str]) -> Answered:
    with hiding_our_key(line):
        return await line.connection.post(path, raw, headers=line.headers(headers))


def _named(body: Mapping[str, Any]) -> str:
    name = body.get("model")
    return name if isinstance(name, str) else ""


def _as_it_came(answer: Answered) -> Response:
    return Response(answer.body, status_code=answer.status, media_type=answer.headers.get("content-type", JSON))


def _listed(answers: Sequence[Answered]) -> Response:
    """Return one list of several, each model once."""
    rows: dict[str, Any] = {}
    for answer in answers:
        try:
            said = decode_json(answer.body)
        except ValueError:
            continue
        data = said.get("data") if isinstance(said, dict) else None
        for row in data if isinstance(data, list) else ():
            if isinstance(row, dict):
                rows.setdefault(str(row.get("id")), row)
    return Response(msgspec.json.encode({"object": "list", "data": list(rows.values())}), media_type=JSON)
