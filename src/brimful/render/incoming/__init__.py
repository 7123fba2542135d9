"""Requests that a client wrote: read as they are, and written again with some of their messages.

These readers are more tolerant than the others. The request is the client's, and the provider decides whether it is
valid; here it only has to be counted, and what belongs together has to stay together.
"""

from brimful.render.incoming.request import (
    INCOMING_WIRES,
    IncomingRenderer,
    IncomingRequest,
    IncomingWire,
    make_frame,
    read_incoming,
)

__all__ = ["INCOMING_WIRES", "IncomingRenderer", "IncomingRequest", "IncomingWire", "make_frame", "read_incoming"]
