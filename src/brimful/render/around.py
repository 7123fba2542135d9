"""A caller's own fields around messages of ours: temperature, tools, and whatever nobody here has heard of."""

from typing import Any, Final

import msgspec

from brimful.core.frame import Frame
from brimful.core.prompt import Media, Message, Prompt, Request, Role, Text
from brimful.render.anthropic.write import MOST_BREAKPOINTS
from brimful.render.given.reading import completion_of, tools_of
from brimful.render.renderer import Renderer

_OURS: Final = ("system", "messages")


class AroundRenderer(msgspec.Struct, frozen=True):
    """Writes the messages of a prompt as its wire does, and every other field as the caller did.

    What a caller's tools are is for the provider to judge: they are counted, whatever their form.
    """

    wire: Renderer
    frame: Frame

    @property
    def names_in_text(self) -> bool:
        """Names stand where the wire has them."""
        return self.wire.names_in_text

    def stand_in(self, media: Media, role: Role) -> Text | None:
        """Return what the wire puts in the place of a medium."""
        return self.wire.stand_in(media, role)

    def render(self, prompt: Prompt, *, window: int) -> Request:
        """Write the request."""
        written = self.wire.render(_sparing(prompt, MOST_BREAKPOINTS - _breakpoints(self.frame.fields)), window=window)
        theirs = {key: value for key, value in self.frame.fields.items() if key not in _OURS}
        return theirs | {key: written[key] for key in _OURS if key in written}

    def parse(self, request: Request) -> Prompt:
        """Read it back: our messages by the rules of the wire, the tools as they come."""
        ours = {key: value for key, value in request.items() if key in _OURS}
        prompt = self.wire.parse({"model": "(any)", "max_tokens": 1} | ours)
        model = request.get("model")
        return msgspec.structs.replace(
            prompt,
            model=model if isinstance(model, str) else "",
            tools=tools_of(request, self.frame.wire),
            max_output=completion_of(request),
        )


def _breakpoints(fields: dict[str, Any]) -> int:
    """Count the breakpoints that a caller set: on tools, or once for the whole request."""
    tools = fields.get("tools")
    marked = [fields, *(tools if isinstance(tools, list) else ())]
    return sum(isinstance(each, dict) and each.get("cache_control") is not None for each in marked)


def _sparing(prompt: Prompt, left: int) -> Prompt:
    """Return a prompt with so many breakpoints at the most: the first, the most stable one, and the latest."""
    marked = [at for at, message in enumerate(prompt.messages) if message.cache]
    if len(marked) <= left:
        return prompt
    kept = {*marked[: min(1, max(0, left))], *marked[len(marked) - max(0, left - 1) :]}
    messages = tuple(_marked(message, at in kept) for at, message in enumerate(prompt.messages))
    return msgspec.structs.replace(prompt, messages=messages)


def _marked(message: Message, cache: bool) -> Message:  # noqa: FBT001 - whether it is
    return message if message.cache == cache else msgspec.structs.replace(message, cache=cache)
