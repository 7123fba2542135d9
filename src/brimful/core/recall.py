"""Recall items of a context: whole if they fit, otherwise the parts that match a query."""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from math import log
from typing import Final

import msgspec

from brimful.core.content import ContentPackage, Media, Part, ToolCall, content_hash
from brimful.core.cost import is_own
from brimful.core.decision import Decision, FormName, Outcome
from brimful.core.forms import describe_source
from brimful.core.frame import part_text
from brimful.core.prompt import TokenCounter, Tool
from brimful.shorten import shorten, word_set

RECALL: Final = Tool(
    name="recall",
    description=(
        'Return parts of this conversation that were shortened or left out: by handle, as in [… recall "r12"], or by a'
        " query with words to search for."
    ),
    parameters={
        "type": "object",
        "properties": {
            "handle": {"type": "string"},
            "query": {"type": "string"},
            "max_tokens": {"type": "integer", "description": "1000 by default"},
        },
    },
)
"""The tool with which a model gets back what its context shortened or left out."""
_MAX_PASSAGES: Final = 8  # of a search
_MIN_MATCH: Final = 0.4  # of the best match; a worse one shares only common words with the query
_LAST_SHARE: Final = 0.95  # of the tokens left: joined texts may have a few tokens more than their parts
_EMPTY_PARTS: Final = ("", "{}", "about:blank")  # the remains of erased parts


class Item(msgspec.Struct, frozen=True, kw_only=True):
    """Something that can be recalled: a package, its handle, and the decision on it if it was a candidate.

    `relevance` is that of a search hit.
    """

    handle: str
    package: ContentPackage
    decision: Decision | None = None
    relevance: float = 0.0

    @property
    def is_shown(self) -> bool:
        """Whether the model sees all of it, or the same text elsewhere."""
        decision = self.decision
        return decision is not None and (decision.outcome == "kept" or decision.reason == "same-content")


class Recalled(msgspec.Struct, frozen=True, kw_only=True):
    """What was recalled: `text`, in at most as many `tokens` as requested.

    `whole` says whether that is all of the item, which has `size` tokens. `form` and `outcome` say what the model saw
    of it: None if it was not a candidate, or nothing of it is in the prompt. The results of a search are in `passages`,
    best first, and `text` is all of them, each with its handle.
    """

    text: str
    tokens: int
    whole: bool
    size: int
    handle: str = ""
    id: str = ""
    kind: str = ""
    form: FormName | None = None
    outcome: Outcome | None = None
    passages: tuple["Recalled", ...] = ()


def recall_item(item: Item, query: str, max_tokens: int, counter: TokenCounter) -> Recalled:
    """Return the item, or the parts of it that match the query best."""
    decision, text = item.decision, item_text(item.package)
    size = counter.text(text).upper
    if size > max_tokens:
        shorter = shorten(text, max_tokens, lambda part: counter.text(part).upper, query)
        text = "" if shorter is None else shorter.text
    return Recalled(
        text=text,
        tokens=counter.text(text).upper if text else 0,
        whole=size <= max_tokens,
        size=size,
        handle=item.handle,
        id=item.package.id,
        kind=item.package.kind,
        form=decision.form if decision is not None and decision.included else None,
        outcome=None if decision is None else decision.outcome,
    )


def recall_best(items: Sequence[Item], query: str, max_tokens: int, counter: TokenCounter) -> Recalled:
    """Return passages from ranked items that match the query, each under a line with its source and handle."""
    best = items[:_MAX_PASSAGES]
    text, passages = "", list[Recalled]()
    for index, item in enumerate(best):
        heading = f'[{describe_source(item.package)} · recall "{item.handle}"]\n'
        start = f"{text}\n\n{heading}" if text else heading
        left = max_tokens - counter.text(start).upper
        room = int(left * _LAST_SHARE) if index == len(best) - 1 else left // 2
        passage = recall_item(item, query, room, counter)
        if not passage.text or counter.text(start + passage.text).upper > max_tokens:
            break
        text = start + passage.text
        passages.append(passage)
    return Recalled(
        text=text,
        tokens=counter.text(text).upper if text else 0,
        whole=all(passage.whole for passage in passages),
        size=sum(passage.size for passage in passages),
        passages=tuple(passages),
    )


def rank_items(items: Sequence[Item], query: str) -> list[Item]:
    """Return the items that share rare words with the query, best first, then other search hits, each text once."""
    wanted = word_set(query)
    found = [wanted & word_set(item_text(item.package)) for item in items]
    frequency = Counter(word for words in found for word in words)
    weights = {word: log(1 + len(items) / times) for word, times in frequency.items()}
    # Sorted, because a sum of floats depends on its order, and the order of a set differs between processes.
    scores = [sum(weights[word] for word in sorted(words)) for words in found]
    limit = _MIN_MATCH * max(scores, default=0.0)
    min_relevance = _MIN_MATCH * max((item.relevance for item in items), default=0.0)

    def order(index: int) -> tuple[float, float, float, str]:
        score = scores[index] if scores[index] >= limit else 0.0
        return (-score, -items[index].relevance, -items[index].package.timestamp, items[index].handle)

    ranked = sorted(range(len(items)), key=order)
    matching = [items[i] for i in ranked if scores[i] >= limit > 0 or items[i].relevance >= min_relevance > 0]
    first = {item.package.normalized_hash: item.handle for item in reversed(matching)}
    return [item for item in matching if first[item.package.normalized_hash] == item.handle]


def hidden_items(items: Collection[Item]) -> list[Item]:
    """Return the items that the model does not see in full, neither themselves nor a copy of them.

    What an earlier round wrote is no item of its own: it goes on in the ledger.
    """
    shown = {item.package.normalized_hash for item in items if item.is_shown}
    hidden = [item for item in items if item.package.normalized_hash not in shown and not is_erased(item.package)]
    return [item for item in hidden if not is_own(item.package)]


def item_text(package: ContentPackage) -> str:
    r"""Return everything that a package says. Media are described.

    >>> from brimful.core.content import Text
    >>> from brimful.core.tokens import Count
    >>> parts = (Text(text="Look:"), Media(modality="image", url="https://x.example/cat.png", width=640, height=480))
    >>> item_text(ContentPackage(id="m", kind="message-recent", content=parts, tokens=Count(tokens=9, basis="exact")))
    'Look:\n[image, 640×480, https://x.example/cat.png]'
    """
    return "\n".join(map(_part_text, package.parts))


def _part_text(part: Part) -> str:
    match part:
        case Media():
            return f"[{', '.join(_describe_media(part))}]"
        case ToolCall():
            return f"[called {part.name}: {part.arguments}]"
        case _:
            return part_text(part)


def _describe_media(part: Media) -> Iterable[str]:
    yield part.modality
    if part.media_type:
        yield part.media_type
    if part.width and part.height:
        yield f"{part.width}×{part.height}"
    if part.seconds is not None:
        yield f"{part.seconds:g} seconds"
    if part.url and not part.url.startswith("data:"):
        yield part.url


def is_erased(package: ContentPackage) -> bool:
    """Whether the package's content was erased from the record."""
    empty = all(part_text(part) in _EMPTY_PARTS for part in package.parts)
    return empty and content_hash(package.content) != package.hash
