"""Candidates that were held back before they could compete, and are on the record for it."""

from collections.abc import Sequence
from typing import Final

from brimful.core.content import ContentPackage
from brimful.core.decision import Decision

HELD: Final = "brimful.held"
WHY: Final = "brimful.why"
CONSTANT: Final = "brimful.constant"
"""In the metadata of a package: why it was held back, what brought it in, and that it is always to be told.

They bear our name, for metadata are the user's, and nobody's own note may keep a message out.
"""


def held_back(packages: Sequence[ContentPackage]) -> tuple[list[ContentPackage], list[Decision]]:
    """Part the packages that compete from those that somebody held back, and decide on these."""
    held = [package for package in packages if package.metadata and HELD in package.metadata]
    if not held:
        return list(packages), []
    ids = {id(package) for package in held}
    return [package for package in packages if id(package) not in ids], [_decision(package) for package in held]


def _decision(package: ContentPackage) -> Decision:
    return Decision(
        id=package.id, kind=package.kind, outcome="dropped", reason="held-back", tokens=package.tokens.tokens
    )
