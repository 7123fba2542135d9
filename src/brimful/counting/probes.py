"""What a chat template puts around messages, found by rendering probes and taking the difference."""

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Final, assert_never

from brimful.core.content import Role, Text, ToolCall, ToolResult
from brimful.core.prompt import Message, Part
from brimful.counting.templates import TemplateRefused

_PROBES: Final = ("hi", "", "1", "\nhi", " hi", "hi\n", "hi ", "ing", "漢", "…", "<b>\r\n")
"""Texts that meet what stands before and after them in different ways: the largest difference counts."""

CountRendered = Callable[[Sequence[Message], bool], int]
CountText = Callable[[str], int]


class Probes:
    """Overheads of one template with one tokenizer, each the most that any probe shows."""

    def __init__(self, rendered: CountRendered, text: CountText) -> None:
        """Probe by `rendered`, which counts messages with or without the beginning of an answer, and `text`."""
        self._rendered = rendered
        self._text = text

    @cached_property
    def request(self) -> int:
        """What a request costs beside its messages."""
        return max(0, self._most(lambda probe: self._whole([_user(probe)])) - self._user)

    @cached_property
    def most(self) -> int:
        """The most that stands around any message."""
        return max(self._user, self._assistant)

    def message(self, role: Role) -> int:
        """Return what stands around a message of that role."""
        match role:
            case "user":
                return self._user
            case "assistant":
                return self._assistant
            case "system":
                return self._system
            case "tool":
                return self._tool
            case _:
                assert_never(role)

    @cached_property
    def _user(self) -> int:
        return max(0, self._most(self._one_more))

    @cached_property
    def _assistant(self) -> int:
        # The least for the user's turn, so that what it was given too much is not missing here.
        user = self._one_more("hi")

        def answered(probe: str) -> int:
            return self._whole([_user("hi"), _assistant(probe), _user("hi")]) - self._whole([_user("hi")]) - user

        return max(0, self._most(answered))

    def _one_more(self, probe: str) -> int:
        """Return what one more message of the user costs, its text included."""
        try:
            return self._whole([_user("hi"), _user(probe)]) - self._whole([_user("hi")])
        except TemplateRefused:  # turns must alternate: an answer comes with it, and is taken off again
            pair = self._whole([_user("hi"), _assistant("hi"), _user(probe)]) - self._whole([_user("hi")])
            return pair - (self._before([_user("hi"), _assistant("hi")]) - self._before([_user("hi")]))

    @cached_property
    def _system(self) -> int:
        def first(probe: str) -> int:
            return self._before([_system(probe), _user("hi")]) - self._before([_user("hi")])

        def later(probe: str) -> int:
            told = [_user("hi"), _assistant("hi"), _system(probe), _user("hi")]
            return self._before(told) - self._before([_user("hi"), _assistant("hi"), _user("hi")])

        return self._or_most(first, later)

    @cached_property
    def _tool(self) -> int:
        asked = [_user("hi"), _assistant(ToolCall(id="call00001", name="f"))]

        def answered(probe: str) -> int:
            result = Message(role="tool", parts=(ToolResult(id="call00001", content=probe, name="f"),))
            return self._before([*asked, result]) - self._before(asked)

        return self._or_most(answered)

    def _or_most(self, *differences: Callable[[str], int]) -> int:
        """Return the most of those differences that the template allows; if it allows none, the most of all roles."""
        found = []
        for difference in differences:
            try:
                found.append(self._most(difference))
            except TemplateRefused:
                continue
        return max(0, *found) if found else self.most

    def _most(self, difference: Callable[[str], int]) -> int:
        return max(difference(probe) - self._text(probe) for probe in _PROBES)

    def _before(self, messages: Sequence[Message]) -> int:
        return self._rendered(messages, False)  # noqa: FBT003 - a callable has no keywords

    def _whole(self, messages: Sequence[Message]) -> int:
        return self._rendered(messages, True)  # noqa: FBT003 - a callable has no keywords


def _user(text: str) -> Message:
    return Message(role="user", parts=(Text(text=text),))


def _system(text: str) -> Message:
    return Message(role="system", parts=(Text(text=text),))


def _assistant(content: str | ToolCall) -> Message:
    part: Part = Text(text=content) if isinstance(content, str) else content
    return Message(role="assistant", parts=(part,))
