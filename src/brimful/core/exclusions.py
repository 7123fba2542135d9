"""Candidates that never compete: excluded by the caller, or media that the model or wire format does not support."""

from collections.abc import Callable, Sequence

import msgspec

from brimful.core.content import ContentPackage, Media, Part, Text
from brimful.core.cost import role_of
from brimful.core.decision import Decision
from brimful.core.model import ModelInfo
from brimful.core.verify import Renderer


def split_excluded(packages: Sequence[ContentPackage]) -> tuple[list[ContentPackage], list[Decision]]:
    """Return the packages that compete, and decisions on those that were excluded."""
    excluded = [package for package in packages if package.excluded]
    if not excluded:
        return list(packages), []
    return [package for package in packages if not package.excluded], [_make_exclusion(each) for each in excluded]


def _make_exclusion(package: ContentPackage) -> Decision:
    return Decision(
        id=package.id, kind=package.kind, outcome="dropped", reason="excluded", tokens=package.tokens.tokens
    )


def replace_unsupported_media(
    packages: Sequence[ContentPackage], model: ModelInfo, renderer: Renderer
) -> tuple[list[ContentPackage], list[Decision]]:
    """Replace each media item that cannot be sent with a short text, so that the text is what is counted.

    A package that consists of such an item alone is dropped if it may be.
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
    # Media from a tool are sent by the user after its result, because few providers accept images from tools.
    role = "user" if role_of(package) == "tool" else role_of(package)

    def shown(part: Part) -> Part:
        if not isinstance(part, Media):
            return part
        # An unknown model is not known to lack a modality.
        unsupported = model.known and part.modality not in model.modalities
        media_placeholder = renderer.media_placeholder(part, "assistant" if unsupported else role)
        return part if media_placeholder is None else Text(text=media_placeholder.text)

    return shown


def _make_unsupported(package: ContentPackage) -> Decision:
    return Decision(
        id=package.id, kind=package.kind, outcome="dropped", reason="no-modality", tokens=package.tokens.tokens
    )
