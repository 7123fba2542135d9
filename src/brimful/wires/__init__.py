"""The providers' formats, one file each: requests, replies, streams, errors and tools, written and read."""

from brimful.wires.incoming import renderer_of
from brimful.wires.registry import find_wire, register, unregister
from brimful.wires.tools import read_tool, request_bytes
from brimful.wires.wire import Wire

__all__ = ["Wire", "find_wire", "read_tool", "register", "renderer_of", "request_bytes", "unregister"]
