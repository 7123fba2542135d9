"""Usage reports: the tokens counted before a request was sent, and those the provider reported."""

from typing import Final, Literal, get_args

import msgspec

from brimful.core import validation
from brimful.core.tokens import BASES, Basis
from brimful.errors import InvalidValue
from brimful.records import Record
from brimful.records.base import check_integer, normalize_fields

UsageKind = Literal["usage", "overflow", "cut"]
"""What was observed.

- `usage`: the provider reported how many tokens the prompt had.
- `overflow`: it refused the prompt as too long; `window` is the limit that it named, if it named one.
- `cut`: it answered, and reported so few tokens that it must have cut the prompt silently.
"""
USAGE_KINDS: Final[tuple[str, ...]] = get_args(UsageKind)


class UsageReport(Record, frozen=True, kw_only=True, tag="usage-report"):
    """One request beside what its provider said of it. It is written once and never changed: `id` makes it one.

    `model` is the canonical id of the model, or its id as sent; `route` names the server. `counted` are our tokens for
    the whole prompt, and `margin` what was kept on top. `features` are the sums that counts are learned from, over the
    whole prompt; their `tokens` were counted by `tokenizer`. `expected_cached` is the prefix that the provider should
    have had in its cache. There is no content in it.
    """

    model: str
    route: str
    at: float = 0.0
    kind: UsageKind = "usage"
    context: str | None = None
    room: str | None = None
    counted: int = 0
    margin: int = 0
    basis: Basis = "exact"
    tokenizer: str = ""
    features: dict[str, float] = {}
    reported: int = 0
    cached: int = 0
    expected_cached: int = 0
    completion: int = 0
    reasoning: int = 0
    window: int | None = None

    @property
    def error(self) -> float:
        """How far the count was off, as a share of what was reported; below zero if it was too low.

        >>> UsageReport(id="o1", model="m", route="r", counted=1030, reported=1000).error
        0.03
        """
        return (self.counted - self.reported) / self.reported if self.reported else 0.0

    def __post_init__(self) -> None:
        """Refuse what no store could give back."""
        normalize_fields(
            self, texts=("tokenizer",), refs=("model", "route"), optional=("context", "room"), times=("at",)
        )
        for field in ("counted", "margin", "reported", "cached", "expected_cached", "completion", "reasoning"):
            check_integer(field, getattr(self, field))
        if self.window is not None:
            check_integer("window", self.window, low=1)
        if self.kind not in USAGE_KINDS:
            raise InvalidValue("kind", f"must be one of {', '.join(USAGE_KINDS)}, not {validation.preview(self.kind)}")
        if self.basis not in BASES:
            raise InvalidValue("basis", f"must be one of {', '.join(BASES)}, not {validation.preview(self.basis)}")
        msgspec.structs.force_setattr(self, "features", _validate_features(self.features))


def _validate_features(features: object) -> dict[str, float]:
    """Return the features with plain names and finite numbers."""
    if not isinstance(features, dict):
        raise InvalidValue("features", f"must be a dict, not {validation.preview(features)}")
    plain = {}
    for name, value in features.items():
        number = validation.to_finite_float(value)
        if number is None:
            raise InvalidValue(f"features.{name}", f"must be a finite number, not {validation.preview(value)}")
        plain[validation.require_unicode("features", name, InvalidValue)] = number
    return plain
