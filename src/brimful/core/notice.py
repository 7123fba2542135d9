"""Notices: warnings and degradations of a context, each with a kind that programs can count, facts, and a text."""

from typing import Any, Final, Literal, get_args

import msgspec

Degradation = Literal[
    "overflowed",  # the provider refused the previous request as too long
    "text-search-failed",  # full-text search failed
    "vector-search-failed",  # vector search failed or timed out
    "vector-search-off",  # the circuit breaker was open, so vector search was skipped
    "vector-search-behind",  # many documents have no vector yet
    "unknown-language",  # the embedder does not know the language of the question
    "breaker-opened",  # the first context since the circuit breaker opened
    "reranker-failed",  # the reranker failed, timed out, or failed before and was skipped
    "recent-memories",  # search failed and found too few memories, so the most recent ones were offered
    "left-out",  # the caller wanted no memories, lore or media
    "summarizer-failed",  # a summary made for this context quotes messages
    "too-many-pins",  # more memories are pinned than are offered
    "lore-dropped",  # an always-on lorebook entry did not fit into its lorebook's budget
    "lore-timeout",  # searching for lorebook patterns took too long
    "lore-refused",  # a lorebook's regular expression exceeds a limit
    "unknown-room",  # the room is not in the store
    "unknown-persona",  # the persona is not in the store
    "unknown-window",  # nobody told the model's window, so the client's request was not trimmed
    "upstream-failed",  # an upstream of the model did not answer, so the request went to another one
    "smaller-reserve",  # the request allows a longer answer than the window has room for
    "reasoning-reserve",  # part of the window is reserved for the model's reasoning between tool calls
    "recalled",  # the model recalled something in an earlier round, and this request continues it
    "calibration",  # reported usage changed how tokens are counted
    "learned-window",  # the provider named a smaller window when it refused an earlier request
    "other",  # reported by the caller
]
"""What a context had to do without, or was built differently for."""

NoticeKind = (
    Degradation
    | Literal[
        "unknown-model",  # the window and the tokenizer are assumptions
        "unknown-size",  # the tokens of documents, audio or video are an assumption
        "unknown-image-rule",  # nobody knows how the model counts pictures, so they have a large margin
        "margin-used",  # part of the safety margin is in use
        "required-shrunk",  # required, pinned or always-on content had to be shortened to fit
        "pins-dropped",  # pinned or always-on content did not get in
        "nothing-relevant",  # nothing that was found is worth its tokens
        "special-tokens",  # content spells out tokens of chat templates, which were broken up
        "prompt-truncated",  # the provider read only a part of the prompt
        "cache-missed",  # the provider read again what it could have had in its prompt cache
        "nearly-full",  # more than 80 % of the budget is used
        "no-memories",  # memories were asked for, and there is none
    ]
)
DEGRADATIONS: Final[tuple[Degradation, ...]] = get_args(Degradation)
NOTICE_KINDS: Final[tuple[NoticeKind, ...]] = (
    *DEGRADATIONS,
    *(
        "unknown-model",
        "unknown-size",
        "unknown-image-rule",
        "margin-used",
        "required-shrunk",
        "pins-dropped",
        "nothing-relevant",
        "special-tokens",
        "prompt-truncated",
        "cache-missed",
        "nearly-full",
        "no-memories",
    ),
)


NEARLY_FULL: Final = 0.8  # of the budget


class Notice(msgspec.Struct, frozen=True, kw_only=True):
    """Something worth knowing about a context: what kind of thing, the facts, and a text for people.

    >>> print(Notice(kind="margin-used", text="12 tokens of the safety margin are in use", facts={"tokens": 12}))
    12 tokens of the safety margin are in use
    """

    kind: NoticeKind
    text: str
    facts: dict[str, Any] = {}

    def __str__(self) -> str:
        """Return the text."""
        return self.text


def find_nearly_full(tokens: int, available: int) -> Notice | None:
    """Return a notice if more than 80 % of the budget is used, but not more than all of it.

    >>> print(find_nearly_full(900, 1000), find_nearly_full(800, 1000), find_nearly_full(1001, 1000))
    90.0 % of the budget is used (900 of 1,000 tokens) None None
    """
    if not available * NEARLY_FULL < tokens <= available:
        return None
    text = f"{100 * tokens / available:.1f} % of the budget is used ({tokens:,} of {available:,} tokens)"
    return Notice(kind="nearly-full", text=text, facts={"tokens": tokens, "available": available})
