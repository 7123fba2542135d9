"""Sessions as rooms with messages, without secrets."""

from collections import Counter
from collections.abc import Iterator

import msgspec

from brimful.core.content import Role, ToolCall, ToolResult
from brimful.formats.ids import join_id
from brimful.formats.lenient import parse_object
from brimful.records import Content, Message, Room
from brimful.secrets import mask
from brimful.sessions.events import Category, Piece, Unknown
from brimful.sessions.files import SessionFile
from brimful.sessions.lines import Progress

POSITION = "position"
_SKIPPED: frozenset[Category] = frozenset({"system", "tools", "thinking", "summary"})


class SessionRecords:
    """What is stored of a session: what was said, and calls of tools with their results. Secrets are masked."""

    def __init__(self, session: SessionFile, *, user: str | None = None) -> None:
        self.room = join_id(session.program, session.id)
        self.masked: Counter[str] = Counter()
        self.unknown: Counter[str] = Counter()
        self._session = session
        self._user = user

    def make_room(self) -> Room:
        """Return the room of the session, with the position up to which it was read."""
        session = self._session
        metadata = {"program": session.program, "folder": session.folder, POSITION: session.size}
        title, _ = mask(session.title)
        return Room(id=self.room, name=title, user=self._user, created=session.modified, metadata=metadata)

    def read(self, start: int = 0, progress: Progress = lambda _: None) -> Iterator[Message]:
        """Yield what was said from a position on. Each message has the same id whenever it is read."""
        numbers: Counter[str] = Counter()
        for event in self._session.events(start, progress):
            if isinstance(event, Unknown):
                self.unknown[event.reason] += 1
            elif isinstance(event, Piece):
                own = event.id or str(event.place)
                numbers[own] += 1
                if _is_stored(event):
                    yield self._message(event, own if numbers[own] == 1 else f"{own}.{numbers[own]}")

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


def _is_stored(piece: Piece) -> bool:
    return bool(piece.text.strip()) and piece.category not in _SKIPPED


def _arguments(text: str) -> str:
    """Return arguments as JSON: some tools take a text."""
    return (
        text if parse_object(text.encode()) or text.strip() == "{}" else msgspec.json.encode({"input": text}).decode()
    )
