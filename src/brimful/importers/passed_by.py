"""Files of an export that tell nothing by themselves, and are no loss: they are passed by, and not reported."""

from typing import Final

from brimful.importers.png import SIGNATURE
from brimful.importers.source import Source

_NOTHING: Final = (b"[]", b"{}")
_PICTURES: Final = (SIGNATURE, b"\xff\xd8\xff", b"GIF8", b"RIFF")
_TOLD_BY: Final = ("conversations.json", "../conversations.json")
_NAMES: Final = ("file-", "file_")
_PAINTED: Final = "dalle-generations"


def says_nothing(source: Source) -> bool:
    """Say whether it is an empty list among other files, as Slack writes many, or a picture that belongs to a chat."""
    return source.is_within and (source.head.strip() in _NOTHING or is_attached(source))


def is_attached(source: Source) -> bool:
    """Say whether it is a picture of ChatGPT's export: the message that shows it has brought it."""
    named = source.path.name.startswith(_NAMES) or source.path.parent.name == _PAINTED
    return named and source.head.startswith(_PICTURES) and any(map(source.has_beside, _TOLD_BY))
