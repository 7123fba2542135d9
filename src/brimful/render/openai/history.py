"""Messages as a client kept them → messages of ours, more tolerant than the provider: the fill mends what is broken."""

from collections.abc import Mapping
from typing import Any

import msgspec

from brimful.core.prompt import Message
from brimful.errors import InvalidRequest
from brimful.render.openai.read import read_request
from brimful.render.openai.rules import find_malformed


def read_history(messages: object) -> tuple[Message, ...]:
    """Read a list of messages in OpenAI's form. Any name is a name, a missing content is an empty one.

    >>> read_history([{"role": "user", "name": "Ada Lovelace", "content": "Hi"}])[0].name
    'Ada Lovelace'
    >>> read_history([])
    ()
    """
    if messages == []:
        return ()
    plain = [_mended(message) for message in messages] if isinstance(messages, list) else messages
    malformed = find_malformed(plain)
    if malformed:
        raise InvalidRequest("openai", malformed)
    read = read_request({"model": "", "messages": plain}).messages
    names = [_name(message) for message in messages] if isinstance(messages, list) else []
    return tuple(msgspec.structs.replace(message, name=name) for message, name in zip(read, names, strict=True))


def _mended(message: Any) -> Any:
    if not isinstance(message, Mapping):
        return message
    plain = {key: value for key, value in message.items() if key != "name"}
    if plain.get("content") is None and not plain.get("tool_calls"):
        plain["content"] = ""
    if plain.get("tool_calls") == []:
        del plain["tool_calls"]
    return plain


def _name(message: Any) -> str:
    name = message.get("name")
    return name if isinstance(name, str) and message.get("role") != "tool" else ""
