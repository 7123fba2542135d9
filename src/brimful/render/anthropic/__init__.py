"""Anthropic's messages: a system prompt apart, two speakers in turns, and marks where the cache may cut."""

from typing import Final

from brimful.render.anthropic.read import read_request
from brimful.render.anthropic.rules import find_violations
from brimful.render.anthropic.write import carries, write_request
from brimful.render.renderer import Renderer

RENDERER: Final = Renderer(
    wire="anthropic",
    names_in_text=True,
    write=write_request,
    read=read_request,
    find_violations=find_violations,
    carries=carries,
)
