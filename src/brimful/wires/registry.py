"""All wires by name. A format is imported when it is first used: most programs use one."""

from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import Any, Final, Literal

from brimful.core.validation import preview
from brimful.errors import InvalidValue
from brimful.wires.wire import Wire, WirePaths

IncomingWire = Literal["openai", "anthropic", "responses", "gemini", "ollama"]
"""The formats in which clients write requests: `responses` is that of OpenAI's Responses API."""
DEFAULT_WIRE: Final = "openai"
_OWN_PATHS: Final = "/brimful/"
_FILES: Final = {
    "openai": "openai_chat",
    "anthropic": "anthropic",
    "responses": "openai_responses",
    "gemini": "gemini",
    "ollama": "ollama",
    "text": "text",
}
"""The file of each format."""
_wires: Final[dict[str, Wire | None]] = dict.fromkeys(_FILES)  # None until it is imported


def find_wire(name: str) -> Wire:
    """Return a wire by name.

    >>> find_wire("anthropic").names_in_text
    True
    """
    if not isinstance(name, str) or name not in _wires:
        raise InvalidValue("wire", f"must be one of {', '.join(_wires)}, not {preview(name)}")
    wire = _wires[name]
    if wire is None:
        wire = _wires[name] = import_module(f"brimful.wires.{_FILES[name]}").WIRE
    return wire


def default_wire() -> Wire:
    """Return the wire of OpenAI's chat completions, which most servers and clients speak."""
    return find_wire(DEFAULT_WIRE)


def find_incoming_wire(name: str) -> Wire:
    """Return a wire whose requests can be read."""
    return _find_suitable(name, lambda wire: wire.read_turn is not None)


def find_written_wire(name: str) -> Wire:
    """Return a wire in whose format we write requests."""
    return _find_suitable(name, lambda wire: wire.write is not None)


def _find_suitable(name: str, is_suitable: Callable[[Wire], bool]) -> Wire:
    wire = find_wire(name) if isinstance(name, str) and name in _wires else None
    if wire is None or not is_suitable(wire):
        names = ", ".join(each.name for each in all_wires() if is_suitable(each))
        raise InvalidValue("wire", f"must be one of {names}, not {preview(name)}")
    return wire


def all_wires() -> Iterator[Wire]:
    return map(find_wire, tuple(_wires))


def served_wires() -> list[tuple[Wire, WirePaths]]:
    """Return the wires that the proxy serves, and their paths."""
    return [(wire, wire.paths) for wire in all_wires() if wire.paths is not None]


def find_wire_by_path(path: str, headers: Mapping[str, str]) -> Wire:
    """Return the wire of a request: by its path, or by a header that only its clients send; the default for our own."""
    wires = served_wires()
    named = [wire for wire, paths in wires if path.startswith(paths.prefixes)]
    if not named and not path.startswith(_OWN_PATHS):
        named = [wire for wire, paths in wires if paths.header and paths.header in headers]
    return named[0] if named else default_wire()


def detect_wire(message: dict[str, Any]) -> Wire:
    """Return the wire of a message: that with a type of block that no other format has, or the default."""
    blocks = message.get("content")
    types = {block.get("type") for block in blocks if isinstance(block, dict)} if isinstance(blocks, list) else set()
    wires = all_wires() if types else ()
    return next((wire for wire in wires if not wire.own_blocks.isdisjoint(types)), None) or default_wire()


def register(wire: Wire) -> None:
    """Add a format of your own, or replace one."""
    _wires[wire.name] = wire


def unregister(name: str) -> None:
    """Remove a format that was added."""
    del _wires[name]
