"""Join the answers of several rounds into one, so that a client does not see the model's calls of our own tools.

In each round the model answers or calls tools. If it calls the recall tool or the search for tools, the proxy answers
that call and sends the request again with the result. What the client sees of each round is joined: texts and thoughts
pass at once, tool calls are held back until the message is complete, since one of ours may be among them.

A round while it is streamed:

    open ──call──▶ held ──end, with a recall──▶ recalled (nothing more is shown)
                        └─end, without one────▶ passed (all is shown)
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final, Literal

from brimful.core.content import ToolCall
from brimful.core.recall import RECALL
from brimful.wires.event_stream import Event, Events, Lines
from brimful.wires.replies import JsonObject, as_object

BETWEEN: Final = "\n\n"  # the texts of two rounds

RoundState = Literal["open", "held", "recalled", "passed"]
"""A round while it is streamed: all passes, tool calls are held back, they are ours, or they are the client's."""


def add_usage(one: Any, other: Any) -> Any:
    """Add two usages of any form.

    >>> add_usage({"total_tokens": 7, "details": {"cached_tokens": 1}, "tier": "a"}, {"total_tokens": 5, "tier": "b"})
    {'total_tokens': 12, 'details': {'cached_tokens': 1}, 'tier': 'b'}
    """
    if isinstance(one, dict) and isinstance(other, dict):
        return {key: add_usage(one.get(key), other.get(key)) for key in one | other}
    if type(one) in (int, float) and type(other) in (int, float):
        return one + other
    return one if other is None else other


class JoinedAnswer(ABC):
    """One answer to the client, made of the answers of all rounds.

    `answered` are the names of the tools whose calls the proxy answers. In the last round, these calls are removed,
    because nobody answers them anymore.
    """

    splitter: ClassVar[type[Events] | type[Lines]] = Events

    def __init__(self) -> None:
        self.answered = frozenset((RECALL.name,))
        self.is_last = False
        self._round = 0
        self._usage: JsonObject = {}  # of earlier rounds
        self._start()

    def _start(self) -> None:
        """Begin a round."""
        self._state: RoundState = "open"
        self._events = self.splitter()
        self._held: list[Event] = []

    def feed(self, chunk: bytes) -> bytes:
        """Add some bytes of a streamed answer, and return what the client may see now."""
        return b"".join([self._add_event(event) for event in self._events.feed(chunk)])

    def end(self) -> bytes:
        """Return the rest at the end of a stream."""
        rest = b"".join([self._add_event(event) for event in self._events.end()])
        return rest + (self._decide() if self._state == "held" else b"")

    def advance(self) -> None:
        """Begin the next round."""
        self._remember()
        self._usage = add_usage(self._usage, self._own_usage())
        self._round += 1
        self._start()

    @property
    def wants_recall(self) -> bool:
        """Whether the model called a tool that the proxy answers, and may."""
        return not self.is_last and any(call.name in self.answered for call in self.calls)

    def _add_event(self, event: Event) -> bytes:
        if event.data is None:
            held = self._decide() if event.is_done and self._state == "held" else b""
            return b"" if event.is_done and self._state == "recalled" else held + event.raw
        if self._passes(event.data):
            return event.raw
        self._merge(event.data)
        if self._state == "open" and self._begins_call(event.data):
            self._state = "held"
        if self._state == "held":
            self._held.append(event)
            return self._decide() if self._is_end(event.data) else b""
        return b"" if self._state == "recalled" else self._write(event)

    def _decide(self) -> bytes:
        """Decide at the end of a round whether its calls are for the client."""
        held, self._held = self._held, []
        if self.wants_recall:
            self._state = "recalled"
            return b""
        self._state = "passed"
        return self._write_held(held)

    def _write_held(self, held: Sequence[Event]) -> bytes:
        return b"".join(map(self._write, held))

    def _passes(self, data: JsonObject) -> bool:
        """Whether an event is for the client as it is, whatever the state."""
        return "error" in data

    # -- what differs ------------------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def calls(self) -> list[ToolCall]:
        """The tool calls of the current round."""

    @abstractmethod
    def add(self, body: JsonObject) -> None:
        """Add the complete answer of a round."""

    @abstractmethod
    def whole(self, body: JsonObject) -> JsonObject:
        """Return the answer of the last round, joined with those before it."""

    @abstractmethod
    def step(self, results: Mapping[str, str]) -> list[JsonObject]:
        """Return the messages to add to the request: the model's calls, and a result for each."""

    @abstractmethod
    def _remember(self) -> None:
        """Remember what the client is shown of a round when it ends."""

    @abstractmethod
    def _own_usage(self) -> JsonObject: ...

    @abstractmethod
    def _merge(self, data: JsonObject) -> None:
        """Add an event to the answer of this round."""

    @abstractmethod
    def _begins_call(self, data: JsonObject) -> bool: ...

    @abstractmethod
    def _is_end(self, data: JsonObject) -> bool: ...

    @abstractmethod
    def _write(self, event: Event) -> bytes:
        """Return an event as the client sees it."""


class PieceAnswer(JoinedAnswer):
    """Joins answers whose streams consist of pieces that look like whole answers. A tool call is in one piece."""

    def __init__(self) -> None:
        self._begun_with_text = False  # an earlier round showed a text
        super().__init__()

    def _start(self) -> None:
        super()._start()
        self._pieces: list[JsonObject] = []
        self._has_text = False  # the client has seen a text of this round

    def add(self, body: JsonObject) -> None:
        self._pieces = [body]

    @property
    def calls(self) -> list[ToolCall]:
        written = [call for piece in self._pieces for call in self._calls_in(piece)]
        return [self._read_call(call, f"call_{self._round}_{i}") for i, call in enumerate(written)]

    def _remember(self) -> None:
        self._begun_with_text = self._begun_with_text or any(map(self._text, self._pieces))

    def _merge(self, data: JsonObject) -> None:
        self._pieces.append(data)

    def _begins_call(self, data: JsonObject) -> bool:
        return bool(self._calls_in(data))

    def _write(self, event: Event) -> bytes:
        """Return a piece as the client sees it."""
        piece = as_object(event.data)
        shown = self._without_recalls(piece)
        if self._round:
            shown = self._with_usage(shown)
        text = self._text(shown)
        if text and self._begun_with_text and not self._has_text:
            shown = self._after_a_gap(shown)
        self._has_text = self._has_text or bool(text)
        return event.raw if shown == piece else self._frame(shown)

    @abstractmethod
    def _calls_in(self, piece: JsonObject) -> list[JsonObject]: ...

    @abstractmethod
    def _read_call(self, call: JsonObject, default_id: str) -> ToolCall: ...

    @abstractmethod
    def _text(self, piece: JsonObject) -> str: ...

    @abstractmethod
    def _without_recalls(self, piece: JsonObject) -> JsonObject: ...

    @abstractmethod
    def _after_a_gap(self, piece: JsonObject) -> JsonObject:
        """Return a piece whose text is set off from that of the round before."""

    @abstractmethod
    def _with_usage(self, piece: JsonObject) -> JsonObject:
        """Return a piece whose usage includes that of earlier rounds."""

    @abstractmethod
    def _frame(self, piece: JsonObject) -> bytes: ...
