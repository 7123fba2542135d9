"""Our own output among the messages of a request: ledgers, summaries, and the marks of shortened texts.

A program may keep a fitted request as its history, add steps to it, and fit it again. What an earlier round wrote is
then read back, so that there is one ledger after any number of rounds, and a handle never means two things:

    round 1: … r8 r9                  →  ledger (… r7), r8, r9
    round 2: ledger (… r7), r8, r9, + →  ledger (… r9), r10, r11

The user could write the same text. It is history then, and nothing else: no line of it can leave the ledger.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from math import inf
from typing import Final

import msgspec

from brimful.core.chat_rules import OPENING
from brimful.core.content import ContentPackage, Text, ToolResult, with_metadata
from brimful.core.cost import OWN_KEY, is_own
from brimful.core.frame import is_message_id, part_text
from brimful.core.handles import HANDLE_KEY, MARK_KEY
from brimful.core.labels import HISTORY_CLOSE, HISTORY_OPEN
from brimful.core.prompt import Message

_MAX_LINES: Final = 5_000  # of a ledger; ours have far fewer
_MAX_MARK: Final = 400  # characters
_REACH: Final = "handles: up to r"
_LINE: Final = re.compile(r"(r\d{1,9}(?:/[\w-]{1,16})*)(?![\w/]).*")
_CALL: Final = re.compile(r"^\S++ ([^(\s]++)\((.*)")
_ARROW: Final = " → "
_NUMBER: Final = re.compile(r"r(\d{1,9})(?:/.*)?")
_CLAIM: Final = re.compile(r"r\d{1,9}(?:/\d{1,3})?")
_MARK: Final = re.compile(
    r'\[(?:… |[^\n\[]{0,400} · )recall "(?P<line>[^"\s]{1,32})"\]$'
    r'|"(?:…":"(?:[\d,]+ more keys, )?|… )recall (?P<note>[^"\s]{1,32})"[}\]]$'
)
_EXCERPT: Final = re.compile(
    r'\n\[… recall "[^"\s]+"\]$|(?<= more keys), recall [^"\s]+(?="\}$)|,?"(?:…":"|… )recall [^"\s]+"(?=[}\]]$)'
)
_LEFT_OUT: Final = ", left out: "  # in a stub, before the beginning of the text
_RECALL: Final = ' · recall "'  # … after it


class Line(msgspec.Struct, frozen=True, gc=False):
    """A line of a ledger: its handle, its beginning with the handle, and its values as they are written there."""

    handle: str
    head: str
    values: str = ""

    @property
    def text(self) -> str:
        """The whole line."""
        return f"{self.head}{_ARROW}{self.values}" if self.values else self.head

    @property
    def call(self) -> tuple[str, str] | None:
        """The name of the tool and the arguments; None if it is about a message."""
        match = _CALL.fullmatch(self.head)
        return match and (match[1], match[2].removesuffix(")"))


class History(msgspec.Struct, frozen=True):
    """What a ledger or a summary says: its lines, its other text, and the highest number of a handle, or -1."""

    lines: tuple[Line, ...]
    summary: str
    last: int


# -- ledgers and summaries -------------------------------------------------------------------------------------------


def is_own_message(message: Message) -> bool:
    """Whether a message is a ledger or a summary of ours, or the words that fill a gap.

    >>> is_own_message(Message(role="user", parts=(Text(text=f"{HISTORY_OPEN}calls: get_order{HISTORY_CLOSE}"),)))
    True
    """
    if message.role != "user" or len(message.parts) != 1:
        return False
    part = message.parts[0]
    return isinstance(part, Text) and (
        part.text == OPENING or (part.text.startswith(HISTORY_OPEN) and part.text.endswith(HISTORY_CLOSE))
    )


def has_lines(message: Message) -> bool:
    """Whether a message is a ledger of an agent's steps."""
    return is_own_message(message) and any(_read_lines(message.parts[0].text))  # type: ignore[union-attr]


def read_line(text: str) -> Line | None:
    """Return a line of a ledger; None for any other line.

    >>> read_line("r13 get_order(id=W-17) → cust_88, total 80")
    Line(handle='r13', head='r13 get_order(id=W-17)', values='cust_88, total 80')
    """
    match = _LINE.fullmatch(text)
    head, _, values = text.partition(_ARROW)
    return match and Line(match[1], head, values)


def read_history(text: str) -> History:
    r"""Read a ledger or a summary back.

    >>> history = read_history(f"{HISTORY_OPEN}r3 f(a=1) → b2\nhandles: up to r7\ncalls: f ×9\n{HISTORY_CLOSE}")
    >>> [line.values for line in history.lines], history.summary, history.last
    (['b2'], 'calls: f ×9\n', 7)
    """
    lines, others, last = list[Line](), list[str](), -1
    for row in _body(text):
        if (line := read_line(row)) is not None:
            lines.append(line)
            last = max(last, handle_number(line.handle))
        elif (reached := reached_number(row)) is not None:
            last = max(last, reached)
        else:
            others.append(f"{row}\n")
    return History(tuple(lines[-_MAX_LINES:]), "".join(others), last)


def _body(text: str) -> list[str]:
    own = text.removeprefix(HISTORY_OPEN).removesuffix(HISTORY_CLOSE)
    return [] if text == OPENING else [row for row in own.splitlines() if row.strip()]


def _read_lines(text: str) -> Iterator[Line]:
    return filter(None, map(read_line, _body(text)))


def write_reach(number: int) -> str:
    r"""Return the line that says which handles were used, where no other line has the highest of them.

    >>> write_reach(45), write_reach(-1)
    ('handles: up to r45\n', '')
    """
    return f"{_REACH}{number}\n" if number >= 0 else ""


def reached_number(line: str) -> int | None:
    """Return the number in such a line; None for any other line."""
    rest = line.removeprefix(_REACH)
    return int(rest) if rest != line and rest.isdecimal() and len(rest) < len("1000000000") else None


def find_carried(packages: Iterable[ContentPackage]) -> str:
    """Return a digest of the messages of a request that Brimful wrote, or an empty string if there are none."""
    own = [package.hash for package in packages if is_own(package)]
    return blake2b("".join(own).encode(), digest_size=8).hexdigest() if own else ""


# -- marks -----------------------------------------------------------------------------------------------------------


def find_mark(text: str) -> str:
    r"""Return the handle that the mark at the end of a shortened text names; empty if it has none.

    >>> find_mark('One. […]\n[… recall "r12"]'), find_mark('{"id":7,"…":"2 more keys, recall r3/2"}'), find_mark("One.")
    ('r12', 'r3/2', '')
    """
    if text[-2:] not in ('"]', '"}'):
        return ""
    found = _MARK.search(text[-_MAX_MARK:])
    return found["line"] or found["note"] if found else ""


def without_mark(text: str) -> str:
    r"""Return a shortened text without its mark.

    >>> without_mark('One. […]\n[… recall "r12"]'), without_mark('{"id":7,"…":"recall r3"}')
    ('One. […]', '{"id":7}')
    >>> without_mark('[tool result, 900 tokens, left out: {"id": 7, … · recall "r12"]')
    '{"id": 7, …'
    """
    is_line = text.startswith("[") and "\n" not in text
    title, is_stub, _ = text.partition(_LEFT_OUT)[2].rpartition(_RECALL)
    return title if is_line and is_stub else _EXCERPT.sub("", text)


def message_mark(message: Message) -> str:
    """Return the handle that a mark in a message names; empty if it has none."""
    texts = (part_text(part) for part in message.parts if isinstance(part, Text | ToolResult))
    return next(filter(None, map(find_mark, texts)), "")


# -- handles ---------------------------------------------------------------------------------------------------------


def handle_number(handle: str) -> int:
    """Return the number of a message's handle, or -1.

    >>> handle_number("r12/2"), handle_number("hythy3be")
    (12, -1)
    """
    match = _NUMBER.fullmatch(handle)
    return int(match[1]) if match else -1


def with_handles(packages: Sequence[ContentPackage]) -> tuple[ContentPackage, ...]:
    """Return the messages of a request, each with its handle, if marks or ledgers of earlier rounds name some.

    Messages are numbered in order, and after a ledger from the highest number in it. A shortened message has the handle
    that its mark names, and nothing else gets that number.
    """
    if not any(OWN_KEY in each.metadata or MARK_KEY in each.metadata for each in packages if each.metadata):
        return tuple(packages)
    histories = {each.position: read_history(each.text) for each in packages if is_own(each)}
    claims = _Claims(packages, histories)
    numbers: dict[int, int] = {}
    number = -1
    for position in sorted({each.position for each in packages if is_message_id(each.id)}):
        if position in histories:
            number = max(number, histories[position].last)
        else:
            number = numbers[position] = claims.next_number(position, number)
    if not histories and not claims.owners:
        return tuple(packages)
    names = {id: handle for handle, id in claims.owners.items()}
    return tuple([_with_handle(each, names.get(each.id, ""), numbers) for each in packages])


class _Claims:
    """The handles that marks of messages name, each with the id of its message.

    A model may repeat a mark that it has read, and anybody can write one. Before the first ledger, a mark therefore
    counts only if no message so far has its number; after it, if neither a line nor an earlier message has it.
    """

    def __init__(self, packages: Iterable[ContentPackage], histories: Mapping[int, History]) -> None:
        listed = {line.handle for history in histories.values() for line in history.lines}
        self.owners: dict[str, str] = {}
        self._taken = dict.fromkeys(map(handle_number, listed), -1)
        self._marks: dict[int, list[tuple[str, str]]] = {}
        first = min(histories, default=inf)
        for each in packages:
            mark = each.metadata.get(MARK_KEY, "")
            if mark in listed or not _CLAIM.fullmatch(mark):
                continue
            if each.position > first:
                self._add(mark, each.id, each.position)
            else:
                self._marks.setdefault(each.position, []).append((mark, each.id))

    def _add(self, mark: str, id: str, position: int) -> None:
        self.owners.setdefault(mark, id)
        self._taken.setdefault(handle_number(mark), position)

    def next_number(self, position: int, last: int) -> int:
        """Return the number of the message at a position; `last` is that of the message before it."""
        for mark, id in self._marks.get(position, ()):
            if handle_number(mark) > last:
                self._add(mark, id, position)
        number = last + 1
        while self._taken.get(number, position) != position:
            number += 1
        return number


def _with_handle(package: ContentPackage, claim: str, numbers: Mapping[int, int]) -> ContentPackage:
    if not is_message_id(package.id) or package.position not in numbers:
        return package
    _, slash, part = package.id.partition("/")
    handle = claim or f"r{numbers[package.position]}{slash}{part}"
    return with_metadata(package, {HANDLE_KEY: handle})


def is_cut(package: ContentPackage) -> bool:
    """Whether a message came shortened, so that an earlier round has more of it."""
    return MARK_KEY in package.metadata and package.metadata[MARK_KEY] == package.metadata.get(HANDLE_KEY)
