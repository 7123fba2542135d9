"""What a caller sends: read up to a limit, and taken for JSON."""

import asyncio
from typing import Any, Final

from starlette.requests import ClientDisconnect, Request

from brimful.core.lenient import decode_json
from brimful.server.errors import Refusal

PATIENCE: Final = 60.0  # seconds for a body to come
LARGE: Final = 262_144  # bytes; what is larger is read on another thread


async def read_body(request: Request, limit: int) -> bytes:
    """Return the body; refuse one that is larger than it may be, as soon as that is known, and one that is packed."""
    packed = request.headers.get("content-encoding", "identity")
    if packed.strip().lower() not in ("", "identity"):
        raise Refusal("invalid", f"Content-Encoding: {packed[:40]!r} is not read here: send the body as it is")
    told = request.headers.get("content-length", "")
    if told.isdigit() and int(told) > limit:
        raise _too_large(limit)
    chunks, size = [], 0
    try:
        async with asyncio.timeout(PATIENCE):
            async for chunk in request.stream():
                size += len(chunk)
                if size > limit:
                    raise _too_large(limit)
                chunks.append(chunk)
    except TimeoutError:
        raise Refusal("invalid", f"the body did not come within {PATIENCE:.0f} seconds", status=408) from None
    return b"".join(chunks)


async def read_object(raw: bytes) -> dict[str, Any]:
    """Return a body as the JSON object that it must be."""
    try:
        said = decode_json(raw) if len(raw) < LARGE else await asyncio.to_thread(decode_json, raw)
    except ValueError as error:
        raise Refusal("invalid", f"the body {error}") from None
    if not isinstance(said, dict):
        raise Refusal("invalid", "the body must be a JSON object")
    return said


def _too_large(limit: int) -> Refusal:
    return Refusal("large", f"the body is larger than {limit:,} bytes, which is the most that this server takes")


__all__ = ["LARGE", "ClientDisconnect", "read_body", "read_object"]
