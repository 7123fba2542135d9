"""Anthropic's messages."""

from typing import Final

from brimful.core.model import Wire
from brimful.core.prompt import Prompt, Request
from brimful.render.anthropic.read import read_request
from brimful.render.anthropic.rules import find_violations
from brimful.render.anthropic.write import write_request
from brimful.render.rules import require_valid


class Anthropic:
    """The `anthropic` wire: a system prompt apart, two speakers in turns, and marks where the cache may cut."""

    wire: Final[Wire] = "anthropic"
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
