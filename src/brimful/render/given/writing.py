"""A given request, written again: the messages that are kept as they were, the others gone."""

from collections.abc import Collection, Sequence
from typing import Any, Final

import msgspec

from brimful.core.alternate import OPENING
from brimful.core.frame import SYSTEM, Frame, filled, place_of_id, punched, text_of
from brimful.core.prompt import Media, Message, Part, Prompt, Request, Role, Text
from brimful.render.given.reading import Given, GivenWire, plain_json, read_given

_APART: Final = ("system", "developer")  # roles that are not of the conversation


def frame_of(request: Request, given: Given, wire: GivenWire, *, user_first: bool) -> Frame:
    """Return the request without what was read from it."""
    system = [text_of(part) for message in given.system for part in message.parts]
    said = {key: None if key == "messages" else value for key, value in request.items()}
    fields = msgspec.json.decode(plain_json(said, wire, "request"))
    if system:
        fields[SYSTEM] = punched(fields[SYSTEM], system)
    return Frame(wire=wire, fields=fields, messages=tuple([turn.frame for turn in given.turns]), user_first=user_first)


class GivenRenderer(msgspec.Struct, frozen=True):
    """Writes a given request with the messages of a prompt, and reads it back as tolerantly as it was read before.

    `raw` are the messages of the request as JSON, where they are at hand and none of them can have been cut.
    """

    frame: Frame
    raw: Sequence[bytes] = ()

    @property
    def names_in_text(self) -> bool:
        """Names stay where the caller put them."""
        return False

    def stand_in(self, media: Media, role: Role) -> Text | None:
        """Return nothing: whether a medium can be seen is for the provider to say."""
        del media, role
        return None

    def render(self, prompt: Prompt, *, window: int) -> Request:
        """Write the request with the messages that the prompt holds, in their order, and all else as it was."""
        del window
        said = _by_place(prompt.messages)
        system = [text_of(part) for _, part in said.pop(-1, ())]
        messages = [self._message(place, said[place]) for place in sorted(said)]
        if self._wants_opening(messages, said):
            at = next(at for at, message in enumerate(messages) if message["role"] not in _APART)
            messages.insert(at, {"role": "user", "content": OPENING})
        fields = self.frame.fields
        return {
            key: messages if key == "messages" else filled(value, system) if key == SYSTEM else value
            for key, value in fields.items()
        }

    def parse(self, request: Request) -> Prompt:
        """Read it back for counting."""
        return read_given(request, self.frame.wire).prompt

    def _message(self, place: int, said: Sequence[tuple[Role, Part]]) -> dict[str, Any]:
        if self.raw:
            as_it_was: dict[str, Any] = msgspec.json.decode(self.raw[place])
            return as_it_was
        frame = self.frame.messages[place]
        if frame is None:
            role, part = said[0]
            return {"role": role, "content": text_of(part)}
        message: dict[str, Any] = filled(frame, [text_of(part) for _, part in said])
        return message

    def _wants_opening(self, messages: Sequence[dict[str, Any]], kept: Collection[int]) -> bool:
        """Say whether the conversation would begin with somebody else than the user, where it did not before."""
        if not self.frame.user_first or len(kept) == len(self.frame.messages):
            return False
        first = next((message["role"] for message in messages if message["role"] not in _APART), "user")
        return first != "user"


def _by_place(messages: Sequence[Message]) -> dict[int, list[tuple[Role, Part]]]:
    said: dict[int, list[tuple[Role, Part]]] = {}
    for message in messages:
        for source in message.sources:
            said.setdefault(place_of_id(source), []).extend((message.role, part) for part in message.parts)
    return said
