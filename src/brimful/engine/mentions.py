"""Who answers a message: the personas that it mentions with `@name`, or else the room's own."""

import re
from collections.abc import Iterable
from typing import Final

import msgspec

from brimful.core.content import Text
from brimful.records import Content, Message, Persona, Room
from brimful.stores import Store

_MAX_NAME: Final = 200  # characters after an @ that are compared with names
_PAGE_RECORDS: Final = 500
_LAST_MESSAGES: Final = 20  # searched for the last visible message of a room
_FENCE: Final = re.compile(
    r"^ {0,3}(?P<mark>`{3,}(?=[^`\n]*$)|~{3,})[^\n]*(?:\n(?! {0,3}(?P=mark))[^\n]*)*(?:\n[^\n]*)?", re.MULTILINE
)
_BACKTICKS: Final = re.compile("`+")
_AT: Final = re.compile(r"(?<![A-Za-z0-9@./+%-])@(?=\S)")  # not in ada@example.com or https://example.com/@ada
_QUOTED: Final = re.compile(r'"([^"\n]+)"|“([^”\n]+)”')
_SEPARATORS: Final = str.maketrans(" \t_", "---")
_CONTINUES: Final = re.compile(
    # Thai, kana, Chinese characters and Hangul may follow a name: they have no spaces, or particles after nouns.
    r"(?![\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff])[^\W_]|[-_./@]\w"
)


class Addressees(msgspec.Struct, frozen=True, kw_only=True):
    """The personas that answer a message, in order; None stands for a model without a persona.

    `message` is the message they answer: the one that was passed, or the room's last one if it mentions somebody.
    """

    personas: tuple[str | None, ...]
    message: Content | Message | None


async def find_addressees(
    store: Store, room: str, message: Content | Message | None, *, stored: Room | None = None
) -> Addressees:
    """Return who answers a message; without one, who answers the last message or tool results of a room.

    Pass the `stored` room if it was read already.
    """
    last = await _find_last(store, room) if message is None else None
    if isinstance(last, Message) and last.role == "assistant":
        return Addressees(personas=(last.persona,), message=None)
    mentioned = await find_mentioned(store, message or last)
    if mentioned:
        return Addressees(personas=mentioned, message=message or last)
    stored = stored or await store.get(Room, room)
    return Addressees(personas=(stored.persona if stored else None,), message=message)


async def find_mentioned(store: Store, message: Content | Message | None) -> tuple[str, ...]:
    """Return the ids of the stored personas that a user's message mentions."""
    if message is None or (isinstance(message, Message) and message.role != "user"):
        return ()
    content = message.content if isinstance(message, Message) else message
    text = content if isinstance(content, str) else "\n".join(part.text for part in content if isinstance(part, Text))
    if "@" not in text or not _AT.search(_hide_code(text)):
        return ()
    return find_mentions(text, await _list_personas(store))


async def find_persona(store: Store, name: str) -> Persona | None:
    """Return the persona with this id or name; case, and `-` or `_` instead of a space, do not matter."""
    exact = await store.get(Persona, name)
    if exact is not None:
        return exact
    personas = await _list_personas(store)
    id = _index_names(personas).get(_normalize(name))
    return next((each for each in personas if each.id == id), None)


def find_mentions(text: str, personas: Iterable[Persona]) -> tuple[str, ...]:
    """Return the ids of the personas that a text mentions, each once, in order. Code and addresses mention nobody.

    Of several names that match, the longest counts. A name with spaces can be quoted, or written with `-` or `_`.

    >>> gpt, mini, ada = Persona(id="gpt"), Persona(id="p2", name="GPT mini"), Persona(id="p3", name="Ada Lovelace")
    >>> find_mentions('@GPT-mini and @"ada lovelace": is `@gpt` right, me@gpt.com?', [gpt, mini, ada])
    ('p2', 'p3')
    """
    names = _index_names(personas)
    lengths: dict[str, set[int]] = {}
    for name in names:
        lengths.setdefault(name[0], set()).add(len(name))
    longest_first = {first: sorted(each, reverse=True) for first, each in lengths.items()}
    visible = _hide_code(text)
    found = (_match_name(visible, mention.end(), names, longest_first) for mention in _AT.finditer(visible))
    return tuple(dict.fromkeys(id for id in found if id is not None))


def _match_name(text: str, start: int, names: dict[str, str], lengths: dict[str, list[int]]) -> str | None:
    """Return the id of the longest name at a position. `lengths` of names are sorted by their first character."""
    quoted = _QUOTED.match(text, start, start + _MAX_NAME)
    if quoted:
        return names.get(_normalize(quoted[1] or quoted[2]))
    folded = text[start : start + _MAX_NAME].casefold()
    plain = folded.translate(_SEPARATORS)
    for length in lengths.get(plain[0], ()):
        if plain[:length] in names and not _CONTINUES.match(folded, length):
            return names[plain[:length]]
    return None


def _index_names(personas: Iterable[Persona]) -> dict[str, str]:
    """Return the ids of personas by name, sorted so that an id counts before another persona's name."""
    every = sorted(personas, key=lambda persona: persona.id)
    pairs = [*((each.id, each.id) for each in every), *((each.name, each.id) for each in every)]
    return {name: id for text, id in reversed(pairs) if (name := _normalize(text))}


def _normalize(name: str) -> str:
    return " ".join(name.split()).casefold().translate(_SEPARATORS)


def _hide_code(text: str) -> str:
    """Return a text with spaces in place of code blocks and code spans."""
    text = _FENCE.sub(lambda block: " " * len(block[0]), text)
    runs = [run.span() for run in _BACKTICKS.finditer(text)]
    ends: dict[int, int] = {}  # the last run of each length, so far, from the end
    following: list[int | None] = []
    for index in range(len(runs) - 1, -1, -1):
        length = runs[index][1] - runs[index][0]
        following.append(ends.get(length))
        ends[length] = index
    following.reverse()
    visible, shown, index = [], 0, 0
    while index < len(runs):
        end = following[index]
        if end is None:
            index += 1
            continue
        visible += [text[shown : runs[index][0]], " " * (runs[end][1] - runs[index][0])]
        shown, index = runs[end][1], end + 1
    return "".join((*visible, text[shown:]))


async def _find_last(store: Store, room: str) -> Message | None:
    """Return the last message of a room if it is from a user; after tool results, the message that called the tools."""
    newest = await store.history(room, limit=_LAST_MESSAGES)
    visible = [entry.message for entry in newest if not entry.message.hidden]
    if not visible or visible[0].role == "user":
        return visible[0] if visible else None
    before_tools = next((each for each in visible if each.role != "tool"), None)
    is_caller = before_tools is not None and before_tools is not visible[0] and before_tools.persona is not None
    return before_tools if is_caller else None


async def _list_personas(store: Store) -> list[Persona]:
    personas: list[Persona] = []
    while page := await store.list_records(Persona, after=personas[-1].id if personas else "", limit=_PAGE_RECORDS):
        personas += page
    return personas
