"""Write a prompt as a provider's request, and read it back.

Each wire format can write a request, read it back into a neutral prompt, and check it against the provider's rules.
Writing and reading share no code: what will be billed is counted from what was read.
"""

from collections.abc import Sequence
from functools import cache
from importlib import import_module

from brimful.core.context import Inputs
from brimful.core.model import Wire
from brimful.core.prompt import Renderer as AnyRenderer
from brimful.wires.incoming import ClientFieldsRenderer, IncomingRenderer
from brimful.wires.openai import read_history
from brimful.wires.renderer import Renderer
from brimful.wires.tools import read_tool, request_bytes

__all__ = ["Renderer", "read_history", "read_tool", "renderer_for", "renderer_of", "request_bytes"]


@cache
def renderer_for(wire: Wire) -> Renderer:
    """Return the renderer of a wire format.

    >>> renderer_for("anthropic").names_in_text
    True
    """
    # Most programs use one wire format, and load no other.
    renderer: Renderer = import_module(f"brimful.wires.{wire}").RENDERER
    return renderer


def renderer_of(inputs: Inputs, raw: Sequence[bytes] = ()) -> AnyRenderer:
    """Return the renderer of a context: for the model's wire format, or for the client's own request.

    `raw` are the messages of the client's request, if they are available. If only the client's other fields are kept,
    they are sent with our messages, provided that the wire format is the same.
    """
    wire, frame = inputs.model.wire, inputs.frame
    if frame is not None and frame.messages:
        return IncomingRenderer(frame, raw)
    own = renderer_for(wire)
    return own if frame is None or frame.wire != wire else ClientFieldsRenderer(own, frame)
