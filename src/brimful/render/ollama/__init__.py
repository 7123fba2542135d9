"""Ollama's /api/chat: the wire where the window is a part of the request."""

from typing import Final

from brimful.render.ollama.read import read_request
from brimful.render.ollama.rules import find_violations
from brimful.render.ollama.write import carries, write_request
from brimful.render.renderer import Renderer

RENDERER: Final = Renderer(
    wire="ollama",
    names_in_text=True,
    write=write_request,
    read=read_request,
    find_violations=find_violations,
    carries=carries,
)
