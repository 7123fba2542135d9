"""OpenAI's chat completions, and the many servers that speak them."""

from typing import Final

from brimful.core.model import Wire
from brimful.core.prompt import Prompt, Request
from brimful.render.openai.read import read_request
from brimful.render.openai.rules import find_violations
from brimful.render.openai.write import write_request
from brimful.render.rules import require_valid


class OpenAI:
    """The `openai` wire. A name that fits the `name` field stands there, another one at the head of the text."""

    wire: Final[Wire] = "openai"
    names_in_text: Final = False

    def render(self, prompt: Prompt, *, window: int) -> Request:  # noqa: ARG002 - the window is the server's own
        """Write the request."""
        return write_request(prompt)

    def parse(self, request: Request) -> Prompt:
        """Read a finished request back."""
        return read_request(require_valid(self.wire, request, self.check(request)))

    def check(self, request: Request) -> list[str]:
        """List what the provider would refuse."""
        return find_violations(request)
