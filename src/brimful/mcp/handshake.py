"""The answer to the first request of a client, which a process on standard input gives before it has loaded the SDK.

Loading the SDK takes longer than some clients wait for a new process: docs/benchmarks.md has both times. The answers
are the same as the SDK's.
"""

from typing import Any, Final, Literal, NamedTuple

import msgspec

import brimful

NAME: Final = "brimful"
TITLE: Final = "Brimful"
INSTRUCTIONS: Final = (
    "Memories and conversations that outlast this one. Call `recall` when a question may depend on something said or "
    "decided earlier. Results never exceed `budget` tokens."
)

_CAPABILITIES: Final = {
    "prompts": {"listChanged": False},
    "resources": {"listChanged": False, "subscribe": False},
    "tools": {"listChanged": False},
}
_META: Final = "io.modelcontextprotocol/"


class _Implementation(msgspec.Struct):
    name: str
    version: str


class _InitializeParams(msgspec.Struct, rename="camel"):
    protocol_version: Literal["2025-06-18", "2025-11-25"]
    capabilities: dict[str, Any]
    client_info: _Implementation


class _Initialize(msgspec.Struct, tag_field="method", tag="initialize"):
    jsonrpc: Literal["2.0"]
    id: int | str
    params: _InitializeParams

    @property
    def result(self) -> dict[str, Any]:
        about = {"protocolVersion": self.params.protocol_version, "serverInfo": _server_info()}
        return about | {"capabilities": _CAPABILITIES, "instructions": INSTRUCTIONS}


class _Envelope(msgspec.Struct):
    version: Literal["2026-07-28"] = msgspec.field(name=f"{_META}protocolVersion")
    client_info: _Implementation = msgspec.field(name=f"{_META}clientInfo")
    capabilities: dict[str, Any] = msgspec.field(name=f"{_META}clientCapabilities")


class _DiscoverParams(msgspec.Struct):
    meta: _Envelope = msgspec.field(name="_meta")


class _Discover(msgspec.Struct, tag_field="method", tag="server/discover"):
    jsonrpc: Literal["2.0"]
    id: int | str
    params: _DiscoverParams

    @property
    def result(self) -> dict[str, Any]:
        return {
            "supportedVersions": [self.params.meta.version],
            "capabilities": _CAPABILITIES,
            "instructions": INSTRUCTIONS,
            "resultType": "complete",
            "cacheScope": "private",
            "ttlMs": 0,
            "_meta": {f"{_META}serverInfo": _server_info()},
        }


class Answer(NamedTuple):
    """The id of a request, and the line that answers it."""

    id: int | str
    line: bytes


def answer_handshake(line: bytes) -> Answer | None:
    """Return the answer to a client's first request; None if it is not a plain handshake, which the SDK answers.

    >>> answer_handshake(b'{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}') is None
    True
    """
    try:
        request = msgspec.json.decode(line, type=_Initialize | _Discover)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    return Answer(request.id, msgspec.json.encode({"jsonrpc": "2.0", "id": request.id, "result": request.result}))


def _server_info() -> dict[str, str]:
    return {"name": NAME, "title": TITLE, "version": brimful.__version__}
