"""Ollama's /api/chat."""

from typing import Final

from brimful.core.model import Wire
from brimful.core.prompt import Prompt, Request
from brimful.render.ollama.read import read_request
from brimful.render.ollama.rules import find_violations
from brimful.render.ollama.write import write_request
from brimful.render.rules import require_valid


class Ollama:
    """The `ollama` wire: the one where the window is a part of the request."""

    wire: Final[Wire] = "ollama"
    names_in_text: Final = True

    def render(self, prompt: Prompt, *, window: int) -> Request:
        """Write the request."""
        return write_request(prompt, window)

    def parse(self, request: Request) -> Prompt:
        """Read a finished request back."""
        return read_request(require_valid(self.wire, request, self.check(request)))

    def check(self, request: Request) -> list[str]:
        """List what the provider would refuse."""
        return find_violations(request)
