"""Prompt → request, for every provider, and back.

Each wire writes a request, reads it back into a neutral prompt, and checks it against the provider's rules. Writing and
reading share no code on purpose: what will be billed is counted from what was read.
"""

from collections.abc import Sequence
from functools import cache
from importlib import import_module

from brimful.core.context import Inputs
from brimful.core.model import Wire
from brimful.core.verify import Renderer as AnyRenderer
from brimful.render.incoming import ClientFieldsRenderer, IncomingRenderer
from brimful.render.openai import read_history
from brimful.render.renderer import Renderer
from brimful.render.tools import read_tool, request_bytes

__all__ = ["Renderer", "read_history", "read_tool", "renderer_for", "renderer_of", "request_bytes"]


@cache
def renderer_for(wire: Wire) -> Renderer:
    """Return the renderer of a wire.

    >>> renderer_for("anthropic").names_in_text
    True
    """
    # Most programs speak one wire, and load no other.
    renderer: Renderer = import_module(f"brimful.render.{wire}").RENDERER
    return renderer


def renderer_of(inputs: Inputs, raw: Sequence[bytes] = ()) -> AnyRenderer:
    """Return what writes and reads the request of a context: the wire of its model, or its caller's own request.

    `raw` are that request's messages, where they are at hand. A caller's fields without its messages go with ours, as
    long as the wire is theirs.
    """
    wire, frame = inputs.model.wire, inputs.frame
    if frame is not None and frame.messages:
        return IncomingRenderer(frame, raw)
    own = renderer_for(wire)
    return own if frame is None or frame.wire != wire else ClientFieldsRenderer(own, frame)
