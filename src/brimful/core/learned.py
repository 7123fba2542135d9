"""Types that msgspec knows before threads meet.

msgspec looks into a type when it first decodes one, and the process crashes if two threads begin to at the same time
(msgspec 0.22). So types are learned where they are defined, by the one thread that imports their module.
"""

from typing import Any

import msgspec


def learn(*kinds: Any) -> None:
    """Let msgspec look into types now."""
    for kind in kinds:
        msgspec.json.Decoder(kind)
