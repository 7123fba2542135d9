"""What the model can see and hear: media that it cannot, or that the wire does not carry, are not sent to it."""

from collections.abc import Callable, Sequence

import msgspec

from brimful.core.content import ContentPackage, Media, Part, Text
from brimful.core.cost import role_of
from brimful.core.decision import Decision
from brimful.core.model import ModelInfo
from brimful.core.verify import Renderer


def perceivable(
    packages: Sequence[ContentPackage], model: ModelInfo, renderer: Renderer
) -> tuple[list[ContentPackage], list[Decision]]:
    """Put a short text in the place of each medium that will not be sent, so that it is charged as what it is.

    A package that is such a medium and nothing else is dropped, if it may be.
    """
    if not any(map(_shows, [package.content for package in packages if not isinstance(package.content, str)])):
        return list(packages), []
    seen: list[ContentPackage] = []
    decisions: list[Decision] = []
    for package in packages:
        if isinstance(package.content, str) or not _shows(package.content):
            seen.append(package)
            continue
        parts = tuple(map(_shown(package, model, renderer), package.content))
        if package.kind.startswith("media-") and package.flex.can_drop and parts != package.content:
            decisions.append(_unseen(package))
        elif parts != package.content:
            seen.append(msgspec.structs.replace(package, content=parts, hash="", normalized_hash=""))
        else:
            seen.append(package)
    return seen, decisions


def _shows(parts: Sequence[Part]) -> bool:
    return any(isinstance(part, Media) for part in parts)


def _shown(package: ContentPackage, model: ModelInfo, renderer: Renderer) -> Callable[[Part], Part]:
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


def _unseen(package: ContentPackage) -> Decision:
    return Decision(
        id=package.id, kind=package.kind, outcome="dropped", reason="no-modality", tokens=package.tokens.tokens
    )
