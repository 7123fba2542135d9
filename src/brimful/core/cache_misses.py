"""Why a provider read again what it could have had in its prompt cache, and what would have avoided it."""

from typing import Final, Literal

CacheMiss = Literal[
    "model_changed",
    "compaction",
    "tools_changed",
    "tools_reordered",
    "system_prompt_changed",
    "messages_rewritten",
    "trimmed",
    "ttl_expired_5m",
    "ttl_expired_1h",
    "likely_server_side",
    "unknown",
]
"""A cause. Those that Claude Code knows have its names."""

ADVICE: Final[dict[CacheMiss, str]] = {
    "model_changed": "Each model has a cache of its own: change it at the start of a session, or after a compaction.",
    "compaction": "A compaction rewrites the history. Trimming with Brimful keeps its beginning.",
    "tools_changed": "Definitions of tools come first in a prompt: connect all servers before the first message.",
    "tools_reordered": "The same tools came in another order: send them in the same one, such as by name.",
    "system_prompt_changed": "The system prompt comes first: keep times, branches and other changing facts out of it.",
    "messages_rewritten": "An earlier message changed: add what is new at the end.",
    "trimmed": "The oldest messages were left out, in a large step so that it happens rarely. Nothing to do.",
    "ttl_expired_5m": "The cache keeps a prompt for 5 minutes: answer sooner, or ask for one hour.",
    "ttl_expired_1h": "The cache keeps a prompt for an hour: compact before a long break, and not after it.",
    "likely_server_side": "The same prompt was sent in time: the provider dropped it. Nothing to do.",
    "unknown": "Nobody knows what changed.",
}
"""What would have avoided a miss, by its cause."""

MIN_TOKENS: Final = 1_024  # the least that providers cache
MIN_SHARE: Final = 0.1  # of the prompt before; less is lost to the granularity of caches
FIVE_MINUTES: Final = 300.0
HOUR: Final = 3600.0


def count_missed(before: int, cached: int) -> int:
    """Return the tokens of the prompt before that did not come from the cache; 0 for a few.

    >>> count_missed(10_000, 9_600), count_missed(10_000, 0)
    (0, 10000)
    """
    missed = before - cached
    return missed if missed >= max(MIN_TOKENS, MIN_SHARE * before) else 0
