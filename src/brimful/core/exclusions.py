"""Candidates that never compete: excluded by the caller, or media that the model or wire format does not support."""

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from brimful.core.content import ContentPackage, Media, Part, Text
from brimful.core.cost import role_of
from brimful.core.decision import Decision
from brimful.core.model import ModelInfo
from brimful.core.verify import Renderer

HELD: Final = "brimful.held"
WHY: Final = "brimful.why"
CONSTANT: Final = "brimful.constant"
"""In the metadata of a package: why it was held back, what brought it in, and that it is always to be told.

They bear our name, for metadata are the user's, and nobody's own note may keep a message out.
"""


def split_excluded(packages: Sequence[ContentPackage]) -> tuple[list[ContentPackage], list[Decision]]:
    """Part the packages that compete from those that somebody held back, and decide on these."""
    held = [package for package in packages if package.metadata and HELD in package.metadata]
    if not held:
        return list(packages), []
    ids = {id(package) for package in held}
    return [package for package in packages if id(package) not in ids], [_make_exclusion(package) for package in held]


def _make_exclusion(package: ContentPackage) -> Decision:
    return Decision(
        id=package.id, kind=package.kind, outcome="dropped", reason="held-back", tokens=package.tokens.tokens
    )


def replace_unsupported_media(
    packages: Sequence[ContentPackage], model: ModelInfo, renderer: Renderer
) -> tuple[list[ContentPackage], list[Decision]]:
    """Put a short text in the place of each medium that will not be sent, so that it is charged as what it is.

    A package that is such a medium and nothing else is dropped, if it may be.
    """
    if not any(map(_has_media, [package.content for package in packages if not isinstance(package.content, str)])):
        return list(packages), []
    seen: list[ContentPackage] = []
    decisions: list[Decision] = []
    for package in packages:
        if isinstance(package.content, str) or not _has_media(package.content):
            seen.append(package)
            continue
        parts = tuple(map(_make_replacer(package, model, renderer), package.content))
        if package.kind.startswith("media-") and package.flex.can_drop and parts != package.content:
            decisions.append(_make_unsupported(package))
        elif parts != package.content:
            seen.append(msgspec.structs.replace(package, content=parts, hash="", normalized_hash=""))
        else:
            seen.append(package)
    return seen, decisions


def _has_media(parts: Sequence[Part]) -> bool:
    return any(isinstance(part, Media) for part in parts)


def _make_replacer(package: ContentPackage, model: ModelInfo, renderer: Renderer) -> Callable[[Part], Part]:
    # What a tool showed is shown by the user, behind its result: few providers take pictures from tools.
    role = "user" if role_of(package) == "tool" else role_of(package)

    def shown(part: Part) -> Part:
        if not isinstance(part, Media):
            return part
        # Of a model that nobody has heard of, nobody knows that it is blind.
        blind = model.known and part.modality not in model.modalities
        stand_in = renderer.stand_in(part, "assistant" if blind else role)
        return part if stand_in is None else Text(text=stand_in.text)

    return shown


def _make_unsupported(package: ContentPackage) -> Decision:
    return Decision(
        id=package.id, kind=package.kind, outcome="dropped", reason="no-modality", tokens=package.tokens.tokens
    )
