"""Terms as an index keeps them. A token begins with the number of its scope, so that its postings are of one scope."""

import hashlib
import re
from collections.abc import Iterable
from functools import lru_cache

_WHOLE = re.compile(r"[a-z0-9_\u0080-\ud7ff\ue000-\U0010ffff]{1,40}")
"""What every index keeps as it is: nothing that a tokenizer folds or parts, and nothing that is long."""


def tokens_of(scope: int, terms: Iterable[str]) -> list[str]:
    """Return the tokens of terms in a scope.

    >>> tokens_of(63, ["tea", "größe"])
    ['3f:tea', '3f:größe']
    """
    begin = f"{scope:x}:"
    return [begin + spelled(term) for term in terms]


@lru_cache(maxsize=65_536)
def spelled(term: str) -> str:
    """Return a term as it is, or a hash of what no index would keep whole. No two terms are spelled alike.

    >>> spelled("tea"), spelled("Tea")
    ('tea', '=2b6e2daef3eb5fd975ee1d541f7725c1')
    """
    if _WHOLE.fullmatch(term):
        return term
    return "=" + hashlib.blake2b(term.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
