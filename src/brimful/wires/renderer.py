"""The renderer of a wire format: write a request, read it back, and check it."""

from collections.abc import Callable

import msgspec

from brimful.core.content import Media, Role, Text
from brimful.core.model import Wire
from brimful.core.prompt import Prompt, Request
from brimful.errors import InvalidRequest
from brimful.wires.normalize import decode_data_url, placeholder


class Renderer(msgspec.Struct, frozen=True, kw_only=True):
    """One provider's request format. Every method is a pure function of its arguments.

    `names_in_text` says that a speaker's name is written into the content, as `name: text`, because there is no field.
    `write`, `read`, `find_violations` and `accepts_media` are the wire's own; `write` also gets the window.
    """

    wire: Wire
    names_in_text: bool
    write: Callable[[Prompt, int], Request]
    read: Callable[[Request], Prompt]
    find_violations: Callable[[object], list[str]]
    accepts_media: Callable[[Media], bool]

    def render(self, prompt: Prompt, *, window: int) -> Request:
        """Write the request. The same prompt gives the same bytes, and a valid prompt gives a valid request.

        A prompt is valid if
        - tool calls are in assistant messages, tool results in tool messages, and a message with calls is directly
          followed by tool messages that answer each of them once;
        - its tools have different names of 1 to 64 ASCII letters, digits, `_` and `-`, and schemas that are JSON;
        - its texts contain no lone surrogates (no package does), and `max_output` is positive or None.

        Raise `InvalidValue` for a call or a result in a message of another role.
        """
        return self.write(prompt, window)

    def media_placeholder(self, media: Media, role: Role) -> Text | None:
        """Return the text that replaces media, or None if the media are sent."""
        return None if role == "user" and self.accepts_media(decode_data_url(media)) else placeholder(media)

    def parse(self, request: Request) -> Prompt:
        """Read a finished request back. What the provider will bill is counted from the result.

        Raise `InvalidRequest` if `check` finds anything.
        """
        violations = self.check(request)
        if violations:
            raise InvalidRequest(self.wire, violations)
        prompt = self.read(request)
        return msgspec.structs.replace(prompt, body=request) if self.wire == "openai" else prompt

    def check(self, request: Request) -> list[str]:
        """Return everything that the provider would refuse, each with its path. Never raises.

        `["messages[3]: tool result for 'c2' without its call"]`
        """
        return self.find_violations(request)
