"""What a stream cost: upstreams tell it only if they are asked, and most callers do not ask.

Without it, nothing is learned from streams: neither how well we count, nor what was cached. So the server may ask in
the caller's place, and keep the one event that tells it from the caller, whose code may not expect it.
"""

import re
from typing import Final

import msgspec

from brimful.core.lenient import decode_json
from brimful.server.asked import Asked
from brimful.server.config import Mode

_FIELD: Final = "stream_options"
_ASKED: Final = "include_usage"
_EVENT_END: Final = re.compile(rb"\r\n\r\n|\n\n|\r\r")
_LONGEST_END: Final = b"\r\n\r\n"
_MARK: Final = b'"usage"'
_LONGEST: Final = 8_192  # bytes of an event that is waited for; what tells usage is far shorter


def asking_usage(asked: Asked, mode: Mode) -> Asked:
    """Return a request whose stream tells its usage, if that is wanted of its upstream; `withholds` says so.

    Nothing but the question is added: all that the caller wrote stands as it was written.
    """
    wanted = asked.line.asks_usage(mode)
    if not (wanted and asked.streams and asked.wire == "openai") or _asks(asked.body.get(_FIELD)):
        return asked
    options = asked.body.get(_FIELD)
    question = (options if isinstance(options, dict) else {}) | {_ASKED: True}
    body = asked.body | {_FIELD: question}
    raw = _spliced(asked.raw, question) if _FIELD not in asked.body else msgspec.json.encode(body)
    return msgspec.structs.replace(asked, body=body, raw=raw, withholds=True)


def _asks(options: object) -> bool:
    """Say whether the caller has spoken of it, or wrote what the upstream has to judge."""
    return options is not None and (not isinstance(options, dict) or _ASKED in options)


def _spliced(raw: bytes, question: dict[str, object]) -> bytes:
    """Put one more field at the end of an object."""
    return raw[: raw.rindex(b"}")].rstrip() + b"," + msgspec.json.encode({_FIELD: question})[1:]


class Withheld:
    r"""Hands a stream on without the event that tells nothing but usage.

    >>> withheld = Withheld()
    >>> withheld.feed(b'data: {"choices":[{}],"usage":null}\n\ndata: {"choices":[],"usage":{"prompt_tokens":9}}')
    b'data: {"choices":[{}],"usage":null}\n\n'
    >>> withheld.feed(b'\n\ndata: [DONE]\n\n') + withheld.end()
    b'data: [DONE]\n\n'
    """

    def __init__(self) -> None:
        """Begin with nothing."""
        self._held = b""

    def feed(self, chunk: bytes) -> bytes:
        """Return all events that are whole now, but that one."""
        data, done, kept = self._held + chunk, 0, []
        for end in _EVENT_END.finditer(data, max(0, len(self._held) - len(_LONGEST_END))):
            event = data[done : end.end()]
            if not _tells_usage_alone(event):
                kept.append(event)
            done = end.end()
        self._held = data[done:]
        if len(self._held) > _LONGEST:
            kept.append(self._held)
            self._held = b""
        return b"".join(kept)

    def end(self) -> bytes:
        """Return what came after the last whole event."""
        held, self._held = self._held, b""
        return b"" if _tells_usage_alone(held) else held


def _tells_usage_alone(event: bytes) -> bool:
    if _MARK not in event:
        return False
    try:
        said = decode_json(event.strip().removeprefix(b"data:"))
    except ValueError:
        return False
    return isinstance(said, dict) and said.get("choices") == [] and isinstance(said.get("usage"), dict)
