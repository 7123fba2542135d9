"""Gemini's generateContent: a system instruction apart, `user` and `model` in turns, media of every kind."""

from typing import Final

from brimful.render.gemini.read import read_request
from brimful.render.gemini.rules import find_violations
from brimful.render.gemini.write import carries, write_request
from brimful.render.renderer import Renderer

RENDERER: Final = Renderer(
    wire="gemini",
    names_in_text=True,
    write=lambda prompt, _: write_request(prompt),
    read=read_request,
    find_violations=find_violations,
    carries=carries,
)
