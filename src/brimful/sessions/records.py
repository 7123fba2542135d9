"""Sessions as rooms with messages, without secrets."""

from collections import Counter
from collections.abc import Iterator
from typing import Final

import msgspec

from brimful.core.content import Role, ToolCall, ToolResult
from brimful.formats.ids import join_id
from brimful.formats.lenient import parse_object
from brimful.records import Content, Message, Room
from brimful.secrets import mask
from brimful.sessions.events import Category, Piece, Unknown
from brimful.sessions.files import SessionFile

POSITION: Final = "position"
"""Key in the metadata of a room: up to where the session was read."""
_SKIPPED: Final[frozenset[Category]] = frozenset({"system", "tools", "thinking", "summary"})
BATCH: Final = 200  # messages that are stored in one transaction: a hook has a few seconds for all of them
_BATCH_LENGTH: Final = 4_000_000  # characters of these messages


class SessionRecords:
    """The messages that are stored of a session, with calls of tools and their results. Secrets are masked.

    With `texts_only`, calls and results are left out.
    """

    def __init__(
        self, session: SessionFile, *, user: str | None = None, texts_only: bool = False, batch: int = BATCH
    ) -> None:
        self.room = join_id(session.program, session.id)
        self.masked: Counter[str] = Counter()
        self.unknown: Counter[str] = Counter()
        self._session = session
        self._user = user
        self._texts_only = texts_only
        self._batch = batch

    def make_room(self, position: int = 0) -> Room:
        """Return the room of the session, with the position up to which it was read."""
        session = self._session
        metadata = {"program": session.program, "folder": session.folder, POSITION: position}
        title, _ = mask(session.title)
        return Room(id=self.room, name=title, user=self._user, created=session.modified, metadata=metadata)

    def read(self, start: int = 0) -> Iterator[tuple[list[Message], int]]:
        """Yield the messages from a position on, in batches, each with the position after it.

        Each message has the same id whenever it is read. A position that is after the end of the file is of another
        file: then all is read. The last batch may be empty.
        """
        numbers: Counter[str] = Counter()
        batch: list[Message] = []
        length, end = 0, start if start <= self._session.size else 0

        def advance(place: int) -> None:
            nonlocal end
            end = place

        for event in self._session.events(end, advance):
            if isinstance(event, Unknown):
                self.unknown[event.reason] += 1
            elif isinstance(event, Piece):
                own = event.id or str(event.place)
                numbers[own] += 1
                if not self._is_stored(event):
                    continue
                if len(batch) >= self._batch or length >= _BATCH_LENGTH:
                    yield batch, event.place
                    batch, length = [], 0
                batch.append(self._message(event, own if numbers[own] == 1 else f"{own}.{numbers[own]}"))
                length += len(event.text)
        yield batch, end

    def _message(self, piece: Piece, own: str) -> Message:
        text, found = mask(piece.text)
        self.masked.update(found)
        role: Role = "user"
        content: Content = text
        if piece.is_call:
            role = "assistant"
            content = (ToolCall(id=piece.call or own, name=piece.tool, arguments=_arguments(text)),)
        elif piece.is_result:
            role, content = "tool", (ToolResult(id=piece.call or own, content=text),)
        elif piece.category == "assistant":
            role = "assistant"
        return Message(id=join_id(self.room, own), room=self.room, role=role, content=content, at=piece.at)

    def _is_stored(self, piece: Piece) -> bool:
        is_left_out = piece.repeated or (self._texts_only and (piece.is_call or piece.is_result))
        return bool(piece.text.strip()) and piece.category not in _SKIPPED and not is_left_out


def _arguments(text: str) -> str:
    """Return arguments as JSON: some tools take a text."""
    return (
        text if parse_object(text.encode()) or text.strip() == "{}" else msgspec.json.encode({"input": text}).decode()
    )
