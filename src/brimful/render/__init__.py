"""Prompt → request, for every provider, and back.

Each wire writes a request, reads it back into a neutral prompt, and checks it against the provider's rules. Writing and
reading share no code on purpose: what will be billed is counted from what was read.
"""

from functools import cache
from importlib import import_module

from brimful.core.model import Wire
from brimful.render.canonical import request_bytes
from brimful.render.functions import read_tool
from brimful.render.openai.history import read_history
from brimful.render.renderer import Renderer

__all__ = ["Renderer", "read_history", "read_tool", "renderer_for", "request_bytes"]


@cache
def renderer_for(wire: Wire) -> Renderer:
    """Return the renderer of a wire.

    >>> renderer_for("anthropic").names_in_text
    True
    """
    # Most programs speak one wire, and load no other.
    renderer: Renderer = import_module(f"brimful.render.{wire}").RENDERER
    return renderer
