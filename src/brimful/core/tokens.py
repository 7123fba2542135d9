"""Token counts, and how certain they are."""

from collections.abc import Iterable
from typing import Final, Literal, get_args

import msgspec

from brimful.core import validation
from brimful.errors import InvalidPackage

Basis = Literal["exact", "provider", "calibrated", "approximate", "bound"]
"""How a count was made.

- `exact`: the model's own tokenizer counted it.
- `provider`: the provider reported it.
- `calibrated`: another tokenizer's count times a factor; `margin` covers what the factor may miss.
- `approximate`: estimated from the number of characters.
- `bound`: an upper bound given by the caller.
"""
BASES: Final[tuple[str, ...]] = get_args(Basis)
_BY_CERTAINTY: Final[tuple[Basis, ...]] = ("exact", "provider", "bound", "calibrated", "approximate")


class Count(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A number of tokens, with its basis and tokenizer.

    >>> Count(tokens=812, basis="exact", tokenizer="o200k_base").upper
    812
    >>> Count(tokens=800, basis="calibrated", tokenizer="claude", margin=64).upper
    864
    """

    tokens: int
    basis: Basis
    tokenizer: str = ""
    margin: int = 0

    def __post_init__(self) -> None:
        # Inlined for the usual case: every candidate has a count.
        if type(self.tokens) is not int or not 0 <= self.tokens <= validation.MAX_INTEGER:
            raise InvalidPackage("tokens", _reason(self.tokens))
        if type(self.margin) is not int or not 0 <= self.margin <= validation.MAX_INTEGER:
            raise InvalidPackage("tokens.margin", _reason(self.margin))
        if self.basis not in BASES:
            raise InvalidPackage(
                "tokens.basis", f"must be one of {', '.join(BASES)}, not {validation.preview(self.basis)}"
            )
        if type(self.tokenizer) is not str or not self.tokenizer.isascii():
            msgspec.structs.force_setattr(
                self, "tokenizer", validation.require_unicode("tokens.tokenizer", self.tokenizer)
            )

    @property
    def exact(self) -> bool:
        """Whether it was counted with the model's own tokenizer."""
        return self.basis in ("exact", "provider")

    @property
    def upper(self) -> int:
        """The upper bound, which the budget is charged: the count plus its margin."""
        return self.tokens + self.margin


def _reason(value: object) -> str:
    if type(value) is not int:
        return f"must be a whole number, not {validation.preview(value)}"
    if value < 0:
        return f"must not be negative, not {validation.preview(value)}"
    return f"must be at most {validation.MAX_INTEGER:,}"


def sum_counts(counts: Iterable[Count], tokenizer: str) -> Count:
    """Return the sum of counts, with the least certain basis among them.

    >>> sum_counts([Count(tokens=2, basis="exact"), Count(tokens=3, basis="calibrated", margin=1)], "mixed")
    Count(tokens=5, basis='calibrated', tokenizer='mixed', margin=1)
    """
    parts = list(counts)
    return Count(
        tokens=sum(part.tokens for part in parts),
        basis=max((part.basis for part in parts), key=_BY_CERTAINTY.index, default="exact"),
        tokenizer=tokenizer,
        margin=sum(part.margin for part in parts),
    )
