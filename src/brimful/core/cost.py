"""What a package costs where it appears in the prompt: its content plus the message or label around it."""

from collections.abc import Callable, Iterable, Sequence
from typing import Final, Literal

import msgspec

from brimful.cache import content_bytes, memoize
from brimful.core.content import ContentPackage, Form, Media, Part, Role, Text, ToolCall, ToolResult
from brimful.core.decision import Region
from brimful.core.frame import part_text
from brimful.core.labels import (
    PINNED_CLOSE,
    PINNED_OPEN,
    RELATED_CLOSE,
    RELATED_OPEN,
    fold,
    make_day,
    make_heading,
    make_label,
    speaker_name,
)
from brimful.core.prompt import Message, Prompt, TokenCounter, Tool
from brimful.core.tokens import Count, sum_counts

Heading = tuple[str, int]
"""A heading that packages may share, and its cost."""

NO_HEADING: Final[Heading] = ("", 0)

_MAX_CACHED_LENGTH: Final = 4_096  # characters; longer parts are not worth caching
_KIND_ROLES: Final[dict[str, Role]] = {
    "system-prompt": "system",
    "system-note": "system",
    "tool-call": "assistant",
    "tool-result": "tool",
}
SENDER_KEY: Final = "sender_type"
"""In the metadata of a message: `persona`, `user`, `tool` or `system`."""

COVERED_KEY: Final = "covered"
"""In the metadata of a summary: the first and the last position of the messages without a cluster that it covers."""

REASONING_KEY: Final = "reasoning_parts"
"""In the metadata of a message: the indices of the parts with the model's reasoning that the provider does not need."""

OWN_KEY: Final = "fit:own"
"""In the metadata of a message: that Brimful wrote it in an earlier request, as a ledger or a summary."""

KIND_REGIONS: Final[dict[str, Region]] = {
    "system-prompt": "system",
    "message-recent": "history",
    "ledger": "history",
    "tool-call": "history",
    "tool-result": "history",
    "system-note": "note",
    "message-current": "current",
    "media-image": "current",
    "media-audio": "current",
    "media-video": "current",
    "media-document": "current",
}
"""The region of kinds that have a fixed one. Other kinds are retrieved content, unless they are pinned."""


def region_of(package: ContentPackage) -> Region:
    """Return the region of the prompt that the package belongs to."""
    region = KIND_REGIONS.get(package.kind)
    if region is not None:
        return region
    content = package.content
    if not isinstance(content, str) and any(isinstance(part, ToolCall | ToolResult) for part in content):
        return "history"
    return "pinned" if package.pinned else "related"


def is_question(package: ContentPackage) -> bool:
    """Whether the package is the message to answer, and not what another persona has answered already."""
    return package.kind == "message-current" and package.metadata.get(SENDER_KEY) != "persona"


def role_of(package: ContentPackage) -> Role:
    """Return the role of the package, or the role that its kind implies."""
    return package.role or _KIND_ROLES.get(package.kind, "user")


def is_own(package: ContentPackage) -> bool:
    """Whether Brimful wrote the message in an earlier request."""
    return OWN_KEY in package.metadata


def is_from_user(package: ContentPackage) -> bool:
    """Whether the user wrote it."""
    return role_of(package) == "user" and not is_own(package)


NameStyle = Literal["field", "text", "none"]
"""How a speaker is named: in a field of the message, at the beginning of its text, or not at all."""


def sender_of(package: ContentPackage) -> str:
    """Return the name to send. The assistant's name is left out, because the model would begin its answers with it."""
    return "" if role_of(package) == "assistant" else package.name


def name_style(packages: Iterable[ContentPackage], *, names_in_text: bool) -> NameStyle:
    """Return how speakers are named. In the text, only if there are several: small models copy the names they see."""
    if not names_in_text:
        return "field"
    named = (package for package in packages if package.name and region_of(package) in ("history", "current"))
    names = {fold(name) for name in {sender_of(package) for package in named}}
    return "text" if len(names - {""}) > 1 else "none"


def count_content(content: str | tuple[Part, ...], counter: TokenCounter) -> Count:
    """Count content: texts, media, tool calls and tool results. The basis is that of the least certain part."""
    if isinstance(content, str):
        return counter.text(content)
    short = sum(len(part_text(part)) for part in content) <= _MAX_CACHED_LENGTH
    return _count_parts_cached(content, counter) if short else _count_parts(content, counter)


def _count_parts(content: tuple[Part, ...], counter: TokenCounter) -> Count:
    calls = [part for part in content if isinstance(part, ToolCall)]
    counts = [_count_part(part, counter) for part in content if not isinstance(part, ToolCall)]
    if calls:
        counts.append(counter.tool_calls(calls))
    return sum_counts(counts, counter.tokenizer)


_count_parts_cached: Final = memoize(_count_parts, name="counts", size=lambda args, _: content_bytes(args[0]))
"""Cached, because parts are counted again every turn: models have different rules for them."""


def recount(packages: Sequence[ContentPackage], counter: TokenCounter) -> list[ContentPackage]:
    """Return the packages with counts of this counter. Packages counted by another tokenizer are counted again.

    Media and tool calls are counted again in any case: models that share a tokenizer have different rules for them.
    A count that names no tokenizer was set by the caller and is kept.
    """
    counted = [_recount_forms(package, counter) if package.forms else package for package in packages]
    plain: list[int] = []
    structured: list[int] = []
    for index, package in enumerate(counted):
        if not isinstance(package.content, str):
            structured += [index] if package.tokens.tokenizer else []
        elif package.tokens.tokenizer not in ("", counter.tokenizer):
            plain.append(index)
    counts = list(zip(plain, counter.texts([str(counted[i].content) for i in plain]), strict=True)) if plain else []
    counts += [(i, count_content(counted[i].content, counter)) for i in structured]
    for index, count in counts:
        if count != counted[index].tokens:
            counted[index] = msgspec.structs.replace(counted[index], tokens=count)
    return counted


def _recount_forms(package: ContentPackage, counter: TokenCounter) -> ContentPackage:
    ours = counter.tokenizer
    for form in package.forms:
        if form.tokens is None or form.tokens.tokenizer not in (ours, ""):
            break
    else:
        return package
    counts = counter.texts([form.text for form in package.forms])
    forms = (Form(form.text, form.worth, tokens) for form, tokens in zip(package.forms, counts, strict=True))
    return msgspec.structs.replace(package, forms=tuple(forms))


def has_day(package: ContentPackage) -> bool:
    """Whether a message may begin with its day: a model copies what its own messages begin with."""
    return package.kind in ("message-recent", "message-current") and role_of(package) == "user"


def make_cost_function(
    counter: TokenCounter, *, names: NameStyle, days: bool = False
) -> Callable[[ContentPackage], int]:
    """Return a function that returns the cost of a package, including its message or label, and with `days` its day.

    Equal surroundings are counted once. Which day a label names makes no difference: every tokenizer gives all dates of
    one form the same number of tokens.
    """
    known: dict[tuple[object, ...], int] = {}

    def cost(package: ContentPackage) -> int:
        content, tokens = package.content, package.tokens
        in_word = isinstance(content, str) and content[-1:].isalnum()
        source = str(package.metadata.get("source", "")) if package.metadata else ""
        around = (package.kind, package.role, package.name, package.timestamp != 0, in_word, source, package.pinned)
        surcharge = known.get(around)
        if surcharge is None:
            # Many vocabularies join a line break to the character before it, so the text's last character matters.
            ending = "x" if in_word else "."
            surcharge = known[around] = _surrounding_cost(package, ending, counter, names)
            if days and has_day(package):
                surcharge = known[around] = surcharge + counter.text(make_day(package, "UTC")).upper
        return tokens.tokens + tokens.margin + surcharge

    return cost


def make_heading_function(
    counter: TokenCounter, *, days: bool = False, timezone: str = "UTC"
) -> Callable[[ContentPackage], Heading]:
    """Return a function that returns the heading a package may share with others, and its part of the cost.

    A package in another block has another heading; most packages have none. With `days`, messages of history share
    the line with their day.
    """
    costs: dict[tuple[str, bool, str], int] = {}

    def of(package: ContentPackage) -> Heading:
        region = region_of(package)
        if region in ("related", "pinned"):
            text = make_heading(package, timezone)
        else:
            text = make_day(package, timezone) if days and has_day(package) else ""
        if not text:
            return NO_HEADING
        form = (package.kind, package.timestamp != 0, text.partition(" ")[2])
        if form not in costs:
            costs[form] = counter.text(text).upper
        return f"{region} {text}", costs[form]

    return of


def _surrounding_cost(package: ContentPackage, ending: str, counter: TokenCounter, names: NameStyle) -> int:
    if region_of(package) in ("related", "pinned"):
        opening, closing = make_label(package)
        return counter.text(f"{make_heading(package)}{opening}{ending}{closing}").upper - counter.text(ending).upper
    if package.kind.startswith("media-"):
        return 0
    name = sender_of(package)
    if name and names == "text":
        return counter.message_overhead(role_of(package)) + counter.text(f"{speaker_name(name)}: ").upper
    return counter.message_overhead(role_of(package), name if names == "field" else "")


def count_tools(tools: tuple[Tool, ...], model: str, counter: TokenCounter) -> int:
    """Return what tools add to a request."""
    if not tools:
        return 0
    probe = Prompt(model=model, messages=(Message(role="user", parts=(Text(text="x"),)),))
    with_tools = Prompt(model=model, messages=probe.messages, tools=tools)
    return max(0, counter.prompt(with_tools).upper - counter.prompt(probe).upper)


def base_cost(packages: Sequence[ContentPackage], counter: TokenCounter) -> int:
    """Return what the request costs before any package or tool is in it: priming, and the tags around blocks."""
    cost = counter.request_overhead()
    regions = {region_of(package) for package in packages if package.kind not in KIND_REGIONS}
    if "related" in regions:
        cost += counter.text(RELATED_OPEN).upper + counter.text(RELATED_CLOSE).upper + counter.message_overhead("user")
    if "pinned" in regions:
        cost += counter.text(PINNED_OPEN).upper + counter.text(PINNED_CLOSE).upper + counter.message_overhead("system")
    return cost


def _count_part(part: Text | Media | ToolResult, counter: TokenCounter) -> Count:
    match part:
        case Text():
            return counter.text(part.text)
        case Media():
            return counter.media(part)
        case _:
            return counter.text(part.content)
