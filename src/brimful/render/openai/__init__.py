"""OpenAI's chat completions, and the many servers that speak them.

A name that fits the `name` field stands there, another one at the head of the text.
"""

from typing import Final

from brimful.render.openai.read import read_request
from brimful.render.openai.rules import find_violations
from brimful.render.openai.write import carries, write_request
from brimful.render.renderer import Renderer

RENDERER: Final = Renderer(
    wire="openai",
    names_in_text=False,
    write=lambda prompt, _: write_request(prompt),
    read=read_request,
    find_violations=find_violations,
    carries=carries,
)
