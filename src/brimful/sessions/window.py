"""What filled the window of each request, by category."""

from collections import Counter
from collections.abc import Iterable, Iterator
from functools import lru_cache

import msgspec

from brimful.core.model import ModelInfo
from brimful.core.prompt import TokenCounter
from brimful.counting import counter_for
from brimful.models import default_registry
from brimful.sessions.events import CATEGORIES, Call, Category, Compaction, Event, Piece, Unknown


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """A request: its usage, and the tokens of what the file has of its prompt, by category.

    `unseen` are the tokens of what the file does not have, such as definitions of tools. Counts are scaled down where
    they are more than what the provider counted. `compacted` says that the window was compacted before it.
    """

    number: int
    call: Call
    tokens: dict[Category, int]
    unseen: int
    compacted: bool


class Window:
    """The window while a session is read."""

    def __init__(self) -> None:
        self.unknown: Counter[str] = Counter()
        self.window = 0
        self.model = ""
        self._tokens: dict[str, tuple[Category, int]] = {}
        self._number = 0
        self._compacted = False

    def read(self, events: Iterable[Event]) -> Iterator[Turn]:
        """Yield a turn for each request."""
        waiting: list[Piece] = []
        for event in events:
            match event:
                case Piece():
                    waiting.append(event)
                case Compaction():
                    self._add(waiting)
                    self._compact(event)
                case Call():
                    self.model = event.model or self.model
                    self.window = event.window or self.window
                    self._add(waiting)
                    yield self._turn(event)
                case Unknown():
                    self.unknown[event.reason] += 1

    def _add(self, waiting: list[Piece]) -> None:
        counter = find_counter(self.model)
        for piece in waiting:
            key = piece.id if piece.lasting else f"{len(self._tokens)} {piece.id}"
            self._tokens[key] = (piece.category, counter.text(f"{piece.tool} {piece.text}").tokens)
        waiting.clear()

    def _compact(self, compaction: Compaction) -> None:
        self._compacted = True
        self._tokens = {
            key: known
            for key, known in self._tokens.items()
            if " " not in key or key.partition(" ")[2] in compaction.keep
        }

    def _turn(self, call: Call) -> Turn:
        tokens = dict.fromkeys(CATEGORIES, 0)
        for category, count in self._tokens.values():
            tokens[category] += count
        counted = sum(tokens.values())
        if counted > call.prompt > 0:
            tokens = {category: round(count * call.prompt / counted) for category, count in tokens.items()}
        self._number += 1
        compacted, self._compacted = self._compacted, False
        unseen = max(0, call.prompt - counted)
        return Turn(number=self._number, call=call, tokens=tokens, unseen=unseen, compacted=compacted)


def read_windows(events: Iterable[Event]) -> Iterator[Turn]:
    """Yield what filled the window of each request of a session."""
    return Window().read(events)


@lru_cache(maxsize=64)
def find_model(name: str) -> ModelInfo:
    """Return what is known about a model."""
    return default_registry().resolve(name or "gpt-4o")


@lru_cache(maxsize=64)
def find_counter(name: str) -> TokenCounter:
    """Return the counter for a model."""
    return counter_for(find_model(name))
