"""Messages in OpenAI's form: a list, a request, JSON lines of messages or of conversations, as for fine-tuning."""

from collections.abc import Iterator
from typing import Final

from brimful.importers.conversation import read_conversations
from brimful.importers.importer import Imported, Importer
from brimful.importers.source import Skipped, Source


def recognises(source: Source) -> bool:
    """Say whether there is talk of roles or messages. Prompts of SillyTavern's settings are not said."""
    return not source.keys.isdisjoint(("role", "messages")) and not source.keys >= _SETTINGS


def read(source: Source) -> Iterator[Imported | Skipped]:
    """Yield messages, and rooms where a request says more than them."""
    return read_conversations(source, lambda message: message)


_SETTINGS: Final = {"prompts", "prompt_order"}


IMPORTER: Final = Importer(
    name="openai",
    description="messages in OpenAI's form: a list, a request, JSON lines of messages or of conversations",
    recognises=recognises,
    read=read,
)
