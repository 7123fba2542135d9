"""Whether a server read less than it was sent, and did not say so.

Ollama cuts a prompt that is longer than its window, down to half of it in some versions, and answers as if nothing had
happened; so do some others. The only sign is its count of the prompt, which is then smaller than ours. How much smaller
must it be? Our count may be wrong, too: a server's template differs a little from the one that we count with, and where
a tokenizer is not public, the count is an estimate.
"""

from typing import Final, assert_never

import msgspec

from brimful.core.tokens import Count
from brimful.records import Usage

_SLACK_SHARE: Final = 0.03  # of a count: templates of servers differ from the makers' own by a few tokens a message
_SLACK_TOKENS: Final = 32  # … and by a system prompt that a template adds or leaves out


class Cut(msgspec.Struct, frozen=True, kw_only=True):
    """A prompt that was cut: what was sent by our count, what was read by the server's, what is missing at least."""

    sent: int
    read: int
    missing: int


def find_cut(count: Count, usage: Usage | None, *, shared: int = 0, unsure: int = 0) -> Cut | None:
    """Say whether the reported usage of a prompt means that the server cut it; None if it does not, or cannot tell.

    `count` is ours of the whole prompt. `shared` are the tokens at its start that the server may have kept from the
    request before: old servers report what they read anew, and such a report is no cut. `unsure` are tokens that a
    server may count otherwise: those of images.

    >>> exact = Count(tokens=12_000, basis="exact")
    >>> find_cut(exact, Usage(prompt=2_050))
    Cut(sent=12000, read=2050, missing=9558)
    >>> find_cut(exact, Usage(prompt=11_960)), find_cut(exact, Usage(prompt=400), shared=11_600), find_cut(exact, None)
    (None, None, None)
    """
    if usage is None or usage.prompt == 0:
        return None  # nothing was said: some servers leave it out where all was cached
    missing = _least(count) - unsure - _slack(count) - usage.prompt
    if missing <= 0 or tells_the_rest(count, usage, shared=shared):
        return None
    return Cut(sent=count.tokens, read=usage.prompt, missing=missing)


def tells_the_rest(count: Count, usage: Usage, *, shared: int) -> bool:
    """Say whether what was reported are only the tokens after those that the server kept from the request before.

    >>> tells_the_rest(Count(tokens=12_000, basis="exact"), Usage(prompt=400), shared=11_600)
    True
    """
    return _slack(count) < shared and abs(count.tokens - shared - usage.prompt) <= _slack(count)


def _slack(count: Count) -> int:
    return int(count.tokens * _SLACK_SHARE) + _SLACK_TOKENS


def _least(count: Count) -> int:
    """Return what the true count is at least."""
    match count.basis:
        case "exact" | "provider":
            return count.tokens
        case "calibrated":
            return max(0, count.tokens - 2 * count.margin)  # the margin covers misses upwards; be wider downwards
        case "approximate":
            return count.tokens // 2
        case "bound":
            return 0  # at most so many: nothing follows for the least
        case _:
            assert_never(count.basis)
