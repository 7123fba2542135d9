"""What a package costs where it will stand: its content, and the message or the label around it."""

from collections.abc import Callable, Sequence
from typing import Final, Literal

from brimful.core.content import ContentPackage, Media, Part, Role, Text, ToolCall, ToolResult
from brimful.core.label import PINNED_CLOSE, PINNED_OPEN, RELATED_CLOSE, RELATED_OPEN, label
from brimful.core.prompt import Message, Prompt, Tool
from brimful.core.tokens import Basis, Count, TokenCounter

Place = Literal["system", "pinned", "history", "related", "current"]

_CERTAINTY: Final[tuple[Basis, ...]] = ("exact", "provider", "bound", "calibrated", "approximate")
_ROLES: Final[dict[str, Role]] = {"system-prompt": "system", "tool-call": "assistant", "tool-result": "tool"}
_HISTORY: Final = ("message-recent", "tool-call", "tool-result")


def place_of(package: ContentPackage) -> Place:
    """Return where in the prompt the package belongs."""
    if package.kind == "system-prompt":
        return "system"
    if package.kind == "message-current" or package.kind.startswith("media-"):
        return "current"
    if package.kind in _HISTORY:
        return "history"
    return "pinned" if package.metadata.get("pinned") else "related"


def role_of(package: ContentPackage) -> Role:
    """Return who speaks: as the package says, or as its kind implies."""
    return package.role or _ROLES.get(package.kind, "user")


def count_content(content: str | tuple[Part, ...], counter: TokenCounter) -> Count:
    """Count a content once: its texts, media, tool calls and tool results. The least certain part names the basis."""
    if isinstance(content, str):
        return counter.text(content)
    counts = [_count_part(part, counter) for part in content]
    return Count(
        tokens=sum(count.tokens for count in counts),
        margin=sum(count.margin for count in counts),
        basis=max((count.basis for count in counts), key=_CERTAINTY.index, default="exact"),
        tokenizer=counter.tokenizer,
    )


def recounted(packages: Sequence[ContentPackage], counter: TokenCounter) -> list[Count]:
    """Return each package's count for this counter: the one it bears, or a new one if another tokenizer made that.

    A count that names no tokenizer is the caller's word, and stands.
    """
    counts = [package.tokens for package in packages]
    foreign = [at for at, count in enumerate(counts) if count.tokenizer not in ("", counter.tokenizer)]
    plain = [at for at in foreign if isinstance(packages[at].content, str)]
    for at, count in zip(plain, counter.texts([str(packages[at].content) for at in plain]), strict=True):
        counts[at] = count
    for at in set(foreign).difference(plain):
        counts[at] = count_content(packages[at].content, counter)
    return counts


def surcharge(counter: TokenCounter, *, names_in_text: bool) -> Callable[[ContentPackage], int]:
    """Return a function that tells what stands around a package costs. Equal surroundings are counted once."""
    known: dict[tuple[str, str, str], int] = {}

    def message(package: ContentPackage) -> int:
        role, name = role_of(package), package.name
        if name and names_in_text:
            return counter.message_overhead(role) + counter.text(f"{name}: ").upper
        return counter.message_overhead(role, name)

    def around(package: ContentPackage) -> int:
        place = place_of(package)
        if place in ("related", "pinned"):
            opening, closing = label(package)
            key = (opening, closing, "")
            if key not in known:
                known[key] = counter.text(opening).upper + counter.text(closing).upper
            return known[key]
        if package.kind.startswith("media-"):
            return 0
        key = (role_of(package), package.name, "message")
        if key not in known:
            known[key] = message(package)
        return known[key]

    return around


def base_cost(packages: Sequence[ContentPackage], tools: tuple[Tool, ...], model: str, counter: TokenCounter) -> int:
    """Return what the request costs before any package is in it: priming, tools, and the frames of the blocks."""
    places = {place_of(package) for package in packages}
    cost = counter.request_overhead()
    if tools:
        probe = Prompt(model=model, messages=(Message(role="user", parts=(Text(text="x"),)),))
        with_tools = Prompt(model=model, messages=probe.messages, tools=tools)
        cost += max(0, counter.prompt(with_tools).upper - counter.prompt(probe).upper)
    if "related" in places:
        cost += counter.text(RELATED_OPEN).upper + counter.text(RELATED_CLOSE).upper + counter.message_overhead("user")
    if "pinned" in places:
        cost += counter.text(PINNED_OPEN).upper + counter.text(PINNED_CLOSE).upper + counter.message_overhead("system")
    return cost


def _count_part(part: Part, counter: TokenCounter) -> Count:
    match part:
        case Text():
            return counter.text(part.text)
        case Media():
            return counter.media(part)
        case ToolCall():
            return counter.tool_call(part.name, part.arguments)
        case ToolResult():
            return counter.text(part.content)
