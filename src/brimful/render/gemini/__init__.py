"""Gemini's generateContent."""

from typing import Final

from brimful.core.model import Wire
from brimful.core.prompt import Prompt, Request
from brimful.render.gemini.read import read_request
from brimful.render.gemini.rules import find_violations
from brimful.render.gemini.write import write_request
from brimful.render.rules import require_valid


class Gemini:
    """The `gemini` wire: a system instruction apart, `user` and `model` in turns, media of every kind."""

    wire: Final[Wire] = "gemini"
    names_in_text: Final = True

    def render(self, prompt: Prompt, *, window: int) -> Request:  # noqa: ARG002 - the window is the model's own
        """Write the request."""
        return write_request(prompt)

    def parse(self, request: Request) -> Prompt:
        """Read a finished request back."""
        return read_request(require_valid(self.wire, request, self.check(request)))

    def check(self, request: Request) -> list[str]:
        """List what the provider would refuse."""
        return find_violations(request)
