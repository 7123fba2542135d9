"""How to talk to a server in a wire format: headers, paths, encoded requests, and replies."""

from collections.abc import Mapping, Sequence

import msgspec

from brimful.core.prompt import Request
from brimful.records.reply import Reply
from brimful.wires.event_stream import EventDecoder, JsonLinesDecoder, ServerEventDecoder
from brimful.wires.replies import Reader, parse_reply
from brimful.wires.wire import CountRequest, ServerTraits, Wire


class Dialect(msgspec.Struct, frozen=True, kw_only=True):
    """A wire as one server speaks it."""

    wire: Wire
    traits: ServerTraits = ServerTraits()

    def headers(self, key: str) -> Mapping[str, str]:
        """Return the headers of every request, including the API key if there is one."""
        header = self.traits.key_header or self.wire.key_header
        keys = {header: f"Bearer {key}" if header == "authorization" else key} if key else {}
        return {**self.wire.headers, **keys}

    def path(self, request: Request, *, stream: bool) -> str:
        """Return the path of a request, relative to the server's URL."""
        return self.wire.get_path(request, stream)

    def body(self, request: Request, *, stream: bool) -> bytes:
        """Encode a request; all of its fields are kept."""
        return msgspec.json.encode(self.wire.prepare(request, stream, self.traits))

    def read(self, body: bytes, route: str = "") -> Reply:
        """Parse a complete answer, or the array of its pieces; raise a `ProviderError` if it is an error or invalid."""
        try:
            pieces = msgspec.json.decode(body, type=list[msgspec.Raw]) if self.wire.streams_arrays else None
        except msgspec.DecodeError:
            pieces = None
        if pieces is None:
            return parse_reply(self.wire.make_draft(), body, route)
        reader = self.reader(route)
        for piece in pieces:
            reader.feed(b"data: " + bytes(piece).replace(b"\n", b"\ndata: ") + b"\n\n")
        return reader.end()

    def reader(self, route: str = "") -> Reader:
        """Return a reader for one streamed answer."""
        decoder: EventDecoder = JsonLinesDecoder() if self.wire.is_json_lines else ServerEventDecoder()
        return Reader(self.wire.make_draft(), decoder, route)

    def count_requests(self, request: Request) -> Sequence[CountRequest]:
        """Return the requests that let a server count the tokens of a prompt, the most likely one first."""
        return self.wire.count_requests(request)
