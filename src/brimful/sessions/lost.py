"""What compactions dropped that was needed again: calls that were made again, and values that were used again."""

from collections.abc import Iterable, Iterator
from heapq import nlargest
from typing import Final

import msgspec

from brimful.core.content import ContentPackage
from brimful.core.prompt import TokenCounter
from brimful.core.recall import Item, Recalled, rank_items, recall_best, recall_item
from brimful.errors import UnknownRecord
from brimful.sessions.events import Call, Compaction, Event, Piece
from brimful.shorten import word_set
from brimful.shorten.values import find_values

_MAX_VALUES: Final = 60  # of a piece
_MIN_LENGTH: Final = 5  # characters: a shorter value comes back by chance
_CANDIDATES: Final = 200  # pieces that share most words with a query


class Again(msgspec.Struct, frozen=True, kw_only=True):
    """Something that was dropped and used again: what it is, the piece with it, and the turn that used it."""

    text: str
    place: int
    turn: int
    is_call: bool


class Loss(msgspec.Struct, frozen=True, kw_only=True):
    """A compaction: how many pieces it dropped, and what of them was used again."""

    turn: int
    at: float
    dropped: int
    again: tuple[Again, ...]


class _Dropped:
    """What one compaction dropped, until the next one."""

    def __init__(self, turn: int, at: float, pieces: dict[int, "_Held"]) -> None:
        self.turn, self.at, self.count = turn, at, len(pieces)
        self.again: list[Again] = []
        self._calls = {held.call: place for place, held in pieces.items() if held.call}
        self._values = {value: place for place, held in pieces.items() for value in held.values}

    def see(self, piece: Piece, turn: int) -> None:
        """Note what a call uses again; what somebody else says is known again."""
        if piece.is_call and not piece.repeated:
            place = self._calls.pop(_call(piece), None)
            if place is not None:
                self.again.append(Again(text=_call(piece), place=place, turn=turn, is_call=True))
                self._forget(piece)
                return
            used = [value for value in self._values if value in piece.text]
            self.again += [Again(text=each, place=self._values[each], turn=turn, is_call=False) for each in used]
        self._forget(piece)

    def _forget(self, piece: Piece) -> None:
        for value in [value for value in self._values if value in piece.text]:
            del self._values[value]

    def loss(self) -> Loss:
        return Loss(turn=self.turn, at=self.at, dropped=self.count, again=tuple(self.again))


class _Held(msgspec.Struct, frozen=True):
    """A piece in the window: its id, its call, and its values."""

    id: str
    call: str
    values: frozenset[str]


def find_losses(events: Iterable[Event]) -> Iterator[Loss]:
    """Yield what each compaction of a session lost."""
    window: dict[int, _Held] = {}
    dropped: _Dropped | None = None
    turn = number = 0
    for event in events:
        if isinstance(event, Call):
            turn += 1
        elif isinstance(event, Compaction):
            if dropped is not None:
                yield dropped.loss()
            gone = {place: held for place, held in window.items() if held.id not in event.keep}
            dropped = _Dropped(turn, event.at, gone)
            window = {place: held for place, held in window.items() if place not in gone}
        elif isinstance(event, Piece):
            number += 1
            if dropped is not None:
                dropped.see(event, turn)
            if not event.lasting and event.category != "system":
                window[number] = _Held(event.id, _call(event) if event.is_call else "", _values(event))
    if dropped is not None:
        yield dropped.loss()


def _call(piece: Piece) -> str:
    return f"{piece.tool} {piece.text}"


def _values(piece: Piece) -> frozenset[str]:
    found = (value.text for value in find_values(piece.text) if value.is_likely and len(value.text) >= _MIN_LENGTH)
    return frozenset(list(found)[:_MAX_VALUES])


# -- recall ----------------------------------------------------------------------------------------------------------


def recall(events: Iterable[Event], handle: str, query: str, max_tokens: int, counter: TokenCounter) -> Recalled:
    """Return pieces of a session: the one with a handle (`p12` is the twelfth), or those that match a query best."""
    if handle:
        found = [item for item in _items(events, counter, frozenset()) if item.handle == handle]
        if not found:
            raise UnknownRecord("piece", handle)
        return recall_item(found[0], query, max_tokens, counter)
    words = word_set(query)
    best = nlargest(_CANDIDATES, _items(events, counter, words), key=lambda item: item.relevance)
    ranked = rank_items([msgspec.structs.replace(item, relevance=0.0) for item in best], query)
    return recall_best(ranked, query, max_tokens, counter)


def _items(events: Iterable[Event], counter: TokenCounter, words: frozenset[str] | set[str]) -> Iterator[Item]:
    number = 0
    for event in events:
        if not isinstance(event, Piece):
            continue
        number += 1
        shared = len(words & word_set(event.text)) if words else 0
        if event.text.strip() and (shared or not words):
            package = ContentPackage(
                id=f"p{number}",
                kind="message-older",
                content=event.text,
                tokens=counter.text(event.text),
                name=event.tool,
                timestamp=event.at,
            )
            yield Item(handle=f"p{number}", package=package, relevance=float(shared))
