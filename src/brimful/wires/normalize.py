"""Bring a prompt's messages into a regular form that every provider accepts.

1. Blank texts are removed: some providers refuse them. A message left empty is removed too, and its cache mark moves to
   the previous one.
2. Neighboring texts of a message are joined with an empty line.
3. Media stay in user messages if the provider accepts them; otherwise a short placeholder text replaces them.
4. In an assistant message, tool calls come last.
5. A run of tool messages becomes one with all results, in the order of the calls. Anything else in it (an image that a
   tool returned) follows as a user message.
6. Ids and names of past calls are made acceptable to every provider; speakers' names are put on one line.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, groupby, takewhile
from math import inf
from typing import Final, Literal

import msgspec

from brimful.core.chat_rules import CLOSING, OPENING, UniqueIds
from brimful.core.content import Media, Part, Text, ToolCall, ToolResult
from brimful.core.labels import speaker_name
from brimful.core.prompt import Message
from brimful.core.validation import clean_text
from brimful.errors import InvalidValue

_OPENAI_NAME: Final = re.compile(r"[^\s<|\\/>]{1,64}")  # from OpenAI's error message
_TOOL_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")  # the strictest of all providers
_NOT_IN_TOOL_NAME: Final = re.compile(r"[^a-zA-Z0-9_-]")
_CALL_ID: Final = re.compile(r"[a-zA-Z0-9_-]{1,40}")  # Anthropic's characters, OpenAI's length
_DATA_URL: Final = re.compile(r"data:([^;,]*)(?:;[^;,]*)*;base64,", re.IGNORECASE)
_MAX_URL_CHARACTERS: Final = 120  # of a URL in a placeholder: enough to recognize it, about 40 tokens
_SIGNATURES: Final = {
    "image": (("iVBORw0KGgo", "image/png"), ("/9j/", "image/jpeg"), ("R0lGOD", "image/gif"), ("UklGR", "image/webp")),
    "audio": (("UklGR", "audio/wav"), ("SUQz", "audio/mpeg"), ("//", "audio/mpeg"), ("T2dnUw", "audio/ogg")),
    "video": (("GkXfo", "video/webm"),),
    "document": (),
}
"""How the base64 data of each format starts."""
IMAGE_STARTS: Final = tuple(start for start, _ in _SIGNATURES["image"])
_SUFFIXES: Final = {
    "image": {"png": "image/png", "gif": "image/gif", "webp": "image/webp"},
    "audio": {"wav": "audio/wav", "ogg": "audio/ogg", "flac": "audio/flac"},
    "video": {"webm": "video/webm", "mov": "video/quicktime"},
    "document": {"txt": "text/plain", "md": "text/markdown", "csv": "text/csv"},
}
_DEFAULT_TYPES: Final = {
    "image": "image/jpeg",
    "audio": "audio/mpeg",
    "video": "video/mp4",
    "document": "application/pdf",
}
_ALIASES: Final = {"image/jpg": "image/jpeg", "audio/mp3": "audio/mpeg", "audio/x-wav": "audio/wav"}


def single_line(name: str) -> str:
    r"""Return a name on one line, so that it cannot look like two messages in the text.

    >>> single_line(" Ada\n Lovelace ")
    'Ada Lovelace'
    """
    return " ".join(clean_text(name).split())


def fits_name_field(name: str) -> bool:
    """Whether OpenAI accepts this as the `name` of a message.

    >>> fits_name_field("Zoë"), fits_name_field("Ada Lovelace"), fits_name_field("")
    (True, False, False)
    """
    return _OPENAI_NAME.fullmatch(name) is not None


def is_tool_name(name: object) -> bool:
    """Whether every provider accepts this as the name of a tool.

    >>> is_tool_name("web_search"), is_tool_name("web.search")
    (True, False)
    """
    return isinstance(name, str) and _TOOL_NAME.fullmatch(name) is not None


def safe_tool_name(name: str) -> str:
    """Return a name for a past call that every provider accepts.

    Only past calls are renamed. The tools of the request keep their names, so that the program recognizes the calls.

    >>> safe_tool_name("web_search"), safe_tool_name("web.search"), safe_tool_name("")
    ('web_search', 'web_search', 'tool')
    """
    return _NOT_IN_TOOL_NAME.sub("_", name)[:64] or "tool"


def with_name_in_text(message: Message) -> Message:
    """Move the name to the start of the text. A message that starts with media gets a separate text for it.

    A message with only tool calls loses its name: there is no text to put it before.

    >>> with_name_in_text(Message(role="user", name="Ada", parts=(Text(text="Hi"),))).parts
    (Text(text='Ada: Hi'),)
    """
    if not message.name:
        return message
    parts, name = message.parts, speaker_name(message.name)
    match parts[0] if parts else None:
        case Text(text=text):
            parts = (Text(text=f"{name}: {text}"), *parts[1:])
        case Media():
            parts = (Text(text=f"{name}:"), *parts)
    return msgspec.structs.replace(message, name="", parts=parts)


def is_call_id(id: object) -> bool:
    """Whether every provider accepts this as the id of a call.

    >>> is_call_id("call_1"), is_call_id("call 1"), is_call_id("")
    (True, False, False)
    """
    return isinstance(id, str) and _CALL_ID.fullmatch(id) is not None


def pair_calls(messages: Iterable[Message]) -> list[Message]:
    """Give each call a unique id that every provider accepts, and match its result in id, name and position.

    Valid new ids are unchanged. Others become a hash of the id and its number of occurrences, so that they are the
    same in the next request of the conversation.

    >>> call = Message(role="assistant", parts=(ToolCall(id="#1", name="look.up"),))
    >>> result = Message(role="tool", parts=(ToolResult(id="#1", content="tea"),))
    >>> [(message.parts[0].id, message.parts[0].name) for message in pair_calls([call, result])]
    [('call_613ca892e9b25f5b', 'look_up'), ('call_613ca892e9b25f5b', 'look_up')]
    """
    unique = UniqueIds(is_call_id, _hashed_id)
    waiting: dict[str, list[tuple[int, ToolCall]]] = {}
    paired: list[Message] = []
    for message in messages:
        parts = message.parts
        if message.role == "tool":
            parts = _match_results(parts, waiting)
        else:
            waiting = {}
            for index, call in enumerate(parts):
                if isinstance(call, ToolCall):
                    safe = msgspec.structs.replace(call, id=unique.add(call.id), name=safe_tool_name(call.name))
                    waiting.setdefault(call.id, []).append((index, safe))
            if waiting:
                calls = dict(chain.from_iterable(waiting.values()))
                parts = tuple(calls.get(i, part) for i, part in enumerate(parts))
        paired.append(message if parts is message.parts else msgspec.structs.replace(message, parts=parts))
    return paired


def _match_results(parts: tuple[Part, ...], waiting: dict[str, list[tuple[int, ToolCall]]]) -> tuple[Part, ...]:
    """Give each result the id and name of its call, and sort by call. Results without a call come last, for `check`."""
    placed: list[tuple[float, Part]] = []
    taken = Counter[str]()
    for part in parts:
        if not isinstance(part, ToolResult):
            continue
        calls = waiting.get(part.id, ())
        if taken[part.id] < len(calls):
            position, call = calls[taken[part.id]]
            taken[part.id] += 1
            placed.append((position, msgspec.structs.replace(part, id=call.id, name=call.name)))
        else:
            id = part.id if is_call_id(part.id) else _hashed_id(part.id, 0)
            placed.append((inf, msgspec.structs.replace(part, id=id, name=safe_tool_name(part.name))))
    return tuple(part for _, part in sorted(placed, key=lambda entry: entry[0]))


def _hashed_id(id: str, seen: int) -> str:
    return "call_" + hashlib.blake2b(f"{seen}:{id}".encode(), digest_size=8).hexdigest()


def decode_data_url(media: Media) -> Media:
    """Convert media with a `data:` URL to base64 data with a type.

    >>> decode_data_url(Media(modality="image", url="data:image/png;base64,iVBO")).data
    'iVBO'
    """
    found = _DATA_URL.match(media.url)
    if found is None or found.end() == len(media.url):
        return media
    data, declared = media.url[found.end() :], found.group(1).lower()
    return msgspec.structs.replace(media, url="", data=data, media_type=declared or media.media_type)


def mime_type(media: Media) -> str:
    """Return the MIME type: as declared, or guessed from the data or the URL, or the most common one.

    >>> mime_type(Media(modality="image", data="iVBORw0KGgoAAAA"))
    'image/png'
    >>> mime_type(Media(modality="audio", url="https://a.example/b.wav?x=1"))
    'audio/wav'
    """
    if media.media_type:
        declared = media.media_type.lower()
        return _ALIASES.get(declared, declared)
    for start, found in _SIGNATURES[media.modality]:
        if media.data.startswith(start):
            return found
    suffix = _url_path(media.url).rpartition(".")[2].lower()
    return _SUFFIXES[media.modality].get(suffix, _DEFAULT_TYPES[media.modality])


def data_url(media: Media) -> str:
    """Return the URL of media, or a `data:` URL with its data.

    >>> data_url(Media(modality="image", data="/9j/4AA"))
    'data:image/jpeg;base64,/9j/4AA'
    """
    return media.url or f"data:{mime_type(media)};base64,{media.data}"


def placeholder(media: Media) -> Text:
    """Return the text that replaces unsupported media. The query of a URL is removed, since it may contain secrets.

    >>> placeholder(Media(modality="image", url="https://a.example/cat.png?key=1")).text
    '[image: https://a.example/cat.png]'
    >>> placeholder(Media(modality="video", data="AAAA")).text
    '[video]'
    """
    if media.data:
        return Text(text=f"[{media.modality}]")
    path = _url_path(media.url)
    short = path if len(path) <= _MAX_URL_CHARACTERS else path[: _MAX_URL_CHARACTERS - 1] + "…"
    return Text(text=f"[{media.modality}: {short}]")


def _url_path(url: str) -> str:
    return url.partition("#")[0].partition("?")[0]


AcceptsMedia = Callable[[Media], bool]
"""Whether a wire format supports these media in a user message."""


def normalize_messages(messages: Iterable[Message], accepts_media: AcceptsMedia) -> list[Message]:
    r"""Return the messages in a regular form.

    >>> message = Message(role="user", parts=(Text(text="Hi"), Text(text=" "), Text(text="there")))
    >>> normalize_messages([message], lambda media: False)[0].parts
    (Text(text='Hi\n\nthere'),)
    """
    placed = list(messages)
    if all(map(_is_plain_message, placed)):  # most conversations have no tools or media
        return [_with_single_line_name(message) if message.name else message for message in placed]
    _check_part_roles(placed)
    supported = [_replace_media(message, accepts_media) for message in _split_tool_runs(placed)]
    regular = [_normalize_parts(message) for message in pair_calls(supported)]
    return _drop_empty(regular)


def _check_part_roles(messages: list[Message]) -> None:
    for index, message in enumerate(messages):
        for part in message.parts:
            if isinstance(part, ToolCall) and message.role != "assistant":
                reason = f"tool call {part.id!r} belongs in an assistant message, not in one of role {message.role!r}"
                raise InvalidValue(f"messages[{index}]", reason)
            if isinstance(part, ToolResult) and message.role != "tool":
                reason = f"tool result {part.id!r} belongs in a tool message, not in one of role {message.role!r}"
                raise InvalidValue(f"messages[{index}]", reason)


def _split_tool_runs(messages: list[Message]) -> Iterator[Message]:
    run: list[Message] = []
    for message in messages:
        if message.role == "tool":
            run.append(message)
            continue
        if run:
            yield from _split_tool_run(run)
            run = []
        yield message
    if run:
        yield from _split_tool_run(run)


def _split_tool_run(run: list[Message]) -> Iterator[Message]:
    parts = [part for message in run for part in message.parts]
    results = tuple(part for part in parts if isinstance(part, ToolResult))
    rest = tuple(part for part in parts if not isinstance(part, ToolResult))
    sources = tuple(source for message in run for source in message.sources)
    cache = any(message.cache for message in run)
    yield Message(role="tool", parts=results, sources=sources, cache=cache and not rest)
    if rest:
        yield Message(role="user", parts=rest, sources=sources, cache=cache)


def _replace_media(message: Message, accepts_media: AcceptsMedia) -> Message:
    if _is_single_text(message.parts):
        return message

    def replaced(media: Media) -> Part:
        whole = decode_data_url(media)
        return whole if message.role == "user" and accepts_media(whole) else placeholder(whole)

    parts = tuple(replaced(part) if isinstance(part, Media) else part for part in message.parts)
    return msgspec.structs.replace(message, parts=parts)


def _normalize_parts(message: Message) -> Message:
    if _is_single_text(message.parts):
        return _with_single_line_name(message) if message.name else message
    full = [part for part in message.parts if not (isinstance(part, Text) and not part.text.strip())]
    calls_last = sorted(full, key=lambda part: isinstance(part, ToolCall))
    return msgspec.structs.replace(message, parts=tuple(join_texts(calls_last)), name=single_line(message.name))


def _with_single_line_name(message: Message) -> Message:
    name = single_line(message.name)
    return message if name == message.name else msgspec.structs.replace(message, name=name)


def _is_plain_message(message: Message) -> bool:
    """Whether a message is a single text, and so regular except for its name."""
    return message.role != "tool" and _is_single_text(message.parts)


def _is_single_text(parts: tuple[Part, ...]) -> bool:
    """Whether parts are a single text that is not blank."""
    if len(parts) != 1:
        return False
    (part,) = parts
    return isinstance(part, Text) and part.text != "" and not part.text.isspace()


def join_texts(parts: Iterable[Part]) -> Iterator[Part]:
    """Join neighboring texts with an empty line."""
    for is_text, run in groupby(parts, key=lambda part: isinstance(part, Text)):
        if is_text:
            yield Text(text="\n\n".join(part.text for part in run if isinstance(part, Text)))
        else:
            yield from run


def _drop_empty(messages: list[Message]) -> list[Message]:
    result: list[Message] = []
    for message in messages:
        if message.parts:
            result.append(message)
        elif message.cache and result:
            result[-1] = msgspec.structs.replace(result[-1], cache=True)
    return result


Speaker = Literal["user", "assistant", "system"]


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """Consecutive messages by one speaker. Tool results and most later system messages count as the user's."""

    speaker: Speaker
    messages: tuple[Message, ...]

    @property
    def parts(self) -> tuple[Part, ...]:
        """All parts of the turn, in order."""
        return tuple(part for message in self.messages for part in message.parts)


def split_system(messages: Sequence[Message]) -> tuple[list[Message], list[Message]]:
    """Return the system messages at the start, and the rest."""
    system = list(takewhile(lambda message: message.role == "system", messages))
    return system, list(messages[len(system) :])


def alternating_turns(messages: Sequence[Message], *, system_turns: bool = False) -> list[Turn]:
    """Merge consecutive messages of one speaker into alternating turns, with the user first and last.

    With `system_turns`, a system message between the user and the assistant, or after the user at the end, has a turn
    of its own. Anywhere else it would be rejected, so it becomes a user message.

    >>> hello = Message(role="assistant", parts=(Text(text="Hello!"),))
    >>> [(turn.speaker, turn.parts[0].text) for turn in alternating_turns([hello])]
    [('user', '(conversation continues)'), ('assistant', 'Hello!'), ('user', '(continue)')]
    """
    runs = [(speaker, tuple(run)) for speaker, run in groupby(messages, key=_message_speaker)]
    lines = [
        (_system_speaker(runs, i) if system_turns else _as_user(speaker), run) for i, (speaker, run) in enumerate(runs)
    ]
    turns = [
        Turn(speaker=speaker, messages=tuple(message for _, run in group for message in run))
        for speaker, group in groupby(lines, key=lambda row: row[0])
    ]
    if not turns or turns[0].speaker == "assistant":
        turns.insert(0, _user_turn(OPENING))
    if turns[-1].speaker == "assistant":
        turns.append(_user_turn(CLOSING))
    return turns


def _message_speaker(message: Message) -> Speaker:
    return "user" if message.role == "tool" else message.role


def _as_user(speaker: Speaker) -> Speaker:
    return "user" if speaker == "system" else speaker


def _system_speaker(runs: Sequence[tuple[Speaker, tuple[Message, ...]]], index: int) -> Speaker:
    """Return the speaker of a run. The system can only speak between the user and the assistant."""
    before = runs[index - 1][0] if index else ""
    after = runs[index + 1][0] if index + 1 < len(runs) else "assistant"
    return runs[index][0] if (before, after) == ("user", "assistant") else _as_user(runs[index][0])


def _user_turn(text: str) -> Turn:
    return Turn(speaker="user", messages=(Message(role="user", parts=(Text(text=text),)),))
