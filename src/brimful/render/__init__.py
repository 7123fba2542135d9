"""Prompt → request, for every provider, and back.

Each wire writes a request, reads it back into a neutral prompt, and checks it against the provider's rules. Writing and
reading share no code on purpose: what will be billed is counted from what was read.
"""

from typing import Final

from brimful.core.model import Wire
from brimful.render.anthropic import Anthropic
from brimful.render.canonical import request_bytes
from brimful.render.functions import read_tool
from brimful.render.gemini import Gemini
from brimful.render.ollama import Ollama
from brimful.render.openai import OpenAI
from brimful.render.openai.history import read_history
from brimful.render.renderer import Renderer
from brimful.render.text import PlainText

__all__ = ["Renderer", "read_history", "read_tool", "renderer_for", "request_bytes"]

_RENDERERS: Final[dict[Wire, Renderer]] = {
    "openai": OpenAI(),
    "anthropic": Anthropic(),
    "gemini": Gemini(),
    "ollama": Ollama(),
    "text": PlainText(),
}


def renderer_for(wire: Wire) -> Renderer:
    """Return the renderer of a wire.

    >>> renderer_for("anthropic").names_in_text
    True
    """
    return _RENDERERS[wire]
