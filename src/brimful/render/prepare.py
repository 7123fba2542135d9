"""What all wires have in common, done once: a prompt's messages in a regular form.

1. Blank texts are left out: some providers refuse them, and none has a use for them. A message that is left with
   nothing goes as well, and hands its cache mark to the one before it.
2. Neighbouring texts of a message become one, with an empty line between.
3. Media stay in user messages if the wire carries them; anywhere else a short text stands for them.
4. In an assistant message, tool calls come last.
5. A run of tool messages becomes one with all results, in the order of the calls. What else stood in it (a picture
   that a tool returned) follows as a user message.
6. Ids and names of past calls are made acceptable to every provider; names of speakers stand on one line.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import groupby

import msgspec

from brimful.core.prompt import Media, Message, Part, Text, ToolCall, ToolResult
from brimful.errors import InvalidValue
from brimful.render.calls import pair_calls
from brimful.render.media import inline, placeholder
from brimful.render.names import one_line

Carries = Callable[[Media], bool]
"""Whether a wire carries this medium in a user message."""


def prepare(messages: Iterable[Message], carries: Carries) -> list[Message]:
    r"""Return the messages in regular form.

    >>> said = Message(role="user", parts=(Text(text="Hi"), Text(text=" "), Text(text="there")))
    >>> prepare([said], lambda media: False)[0].parts
    (Text(text='Hi\n\nthere'),)
    """
    placed = list(messages)
    if all(map(_is_said, placed)):  # a conversation without tools and media, as most are
        return [_named(message) if message.name else message for message in placed]
    _check_places(placed)
    shown = [_show_media(message, carries) for message in _split_tool_runs(placed)]
    regular = [_regular(message) for message in pair_calls(shown)]
    return _without_empty(regular)


def _check_places(messages: list[Message]) -> None:
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


def _show_media(message: Message, carries: Carries) -> Message:
    if _is_text(message.parts):
        return message

    def shown(media: Media) -> Part:
        whole = inline(media)
        return whole if message.role == "user" and carries(whole) else placeholder(whole)

    parts = tuple(shown(part) if isinstance(part, Media) else part for part in message.parts)
    return msgspec.structs.replace(message, parts=parts)


def _regular(message: Message) -> Message:
    if _is_text(message.parts):
        return _named(message) if message.name else message
    full = [part for part in message.parts if not (isinstance(part, Text) and not part.text.strip())]
    calls_last = sorted(full, key=lambda part: isinstance(part, ToolCall))
    return msgspec.structs.replace(message, parts=tuple(join_texts(calls_last)), name=one_line(message.name))


def _named(message: Message) -> Message:
    name = one_line(message.name)
    return message if name == message.name else msgspec.structs.replace(message, name=name)


def _is_said(message: Message) -> bool:
    """Say whether a message is a text of somebody, and so regular but for a name."""
    return message.role != "tool" and _is_text(message.parts)


def _is_text(parts: tuple[Part, ...]) -> bool:
    """Say whether parts are one text that says something."""
    if len(parts) != 1:
        return False
    (part,) = parts
    return isinstance(part, Text) and part.text != "" and not part.text.isspace()


def join_texts(parts: Iterable[Part]) -> Iterator[Part]:
    """Join neighbouring texts with an empty line between."""
    for is_text, run in groupby(parts, key=lambda part: isinstance(part, Text)):
        if is_text:
            yield Text(text="\n\n".join(part.text for part in run if isinstance(part, Text)))
        else:
            yield from run


def _without_empty(messages: list[Message]) -> list[Message]:
    kept: list[Message] = []
    for message in messages:
        if message.parts:
            kept.append(message)
        elif message.cache and kept:
            kept[-1] = msgspec.structs.replace(kept[-1], cache=True)
    return kept
