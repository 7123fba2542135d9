"""Speakers' names: in a field where the provider has one, else at the head of the text."""

import re
from typing import Final

import msgspec

from brimful.core.content import clean_text
from brimful.core.prompt import Media, Message, Text

_OPENAI_NAME: Final = re.compile(r"[^\s<|\\/>]{1,64}")  # from OpenAI's own error message
_TOOL_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")  # the narrowest of all providers
_NOT_IN_TOOL_NAME: Final = re.compile(r"[^a-zA-Z0-9_-]")


def one_line(name: str) -> str:
    r"""Return a name on one line, so that it cannot pass for two messages where it is written into the text.

    >>> one_line(" Ada\n Lovelace ")
    'Ada Lovelace'
    """
    return " ".join(clean_text(name).split())


def fits_name_field(name: str) -> bool:
    """Whether OpenAI takes this as the `name` of a message.

    >>> fits_name_field("Zoë"), fits_name_field("Ada Lovelace"), fits_name_field("")
    (True, False, False)
    """
    return _OPENAI_NAME.fullmatch(name) is not None


def is_tool_name(name: object) -> bool:
    """Whether every provider takes this as the name of a tool.

    >>> is_tool_name("web_search"), is_tool_name("web.search")
    (True, False)
    """
    return isinstance(name, str) and _TOOL_NAME.fullmatch(name) is not None


def tool_name(name: str) -> str:
    """Return the name of a past call as every provider takes it.

    Only the past is renamed. A tool on offer keeps its name, or the program that offers it would not know the call.

    >>> tool_name("web_search"), tool_name("web.search"), tool_name("")
    ('web_search', 'web_search', 'tool')
    """
    return _NOT_IN_TOOL_NAME.sub("_", name)[:64] or "tool"


def name_in_text(message: Message) -> Message:
    """Move the name to the head of the text; a message that starts with a medium gets a text of its own for it.

    The name of a message with nothing but tool calls is left out: there is nothing to put it before.

    >>> name_in_text(Message(role="user", name="Ada", parts=(Text(text="Hi"),))).parts
    (Text(text='Ada: Hi'),)
    """
    if not message.name:
        return message
    parts = message.parts
    match parts[0] if parts else None:
        case Text(text=text):
            parts = (Text(text=f"{message.name}: {text}"), *parts[1:])
        case Media():
            parts = (Text(text=f"{message.name}:"), *parts)
    return msgspec.structs.replace(message, name="", parts=parts)
