"""Token usage: as reported by providers, and compared with our counts."""

from typing import Final, Literal, get_args

import msgspec

from brimful.core import validation
from brimful.core.tokens import BASES, Basis
from brimful.errors import InvalidValue
from brimful.records.base import Record, check_integer, normalize_fields

UsageKind = Literal["usage", "overflow", "cut", "summary"]
"""What was reported.

- `usage`: the tokens of the prompt.
- `overflow`: the provider rejected the prompt as too long; `window` is the limit it named, if any.
- `cut`: so few tokens that the provider must have truncated the prompt silently.
- `summary`: the tokens of a request for a summary of earlier steps. Nothing is learned from them.
"""
USAGE_KINDS: Final[tuple[str, ...]] = get_args(UsageKind)


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """Token usage as reported by a provider. `cached` is part of `prompt`, and `reasoning` part of `completion`."""

    prompt: int = 0
    cached: int = 0
    completion: int = 0
    reasoning: int = 0

    def __post_init__(self) -> None:
        for field in ("prompt", "cached", "completion", "reasoning"):
            value = getattr(self, field)
            if type(value) is not int or not 0 <= value <= validation.MAX_INTEGER:
                raise InvalidValue(
                    f"usage.{field}", f"must be a whole number of tokens, not {validation.preview(value)}"
                )


class RequestUsage(msgspec.Struct, frozen=True, kw_only=True):
    """The usage of a request that has no recorded context, for statistics by model, user and API key."""

    model: str
    usage: Usage
    at: float
    user: str = ""
    key: str = ""


class UsageReport(Record, frozen=True, kw_only=True, tag="usage-report"):
    """One request: the tokens we counted, and those the provider reported. It never changes and has no content.

    `model` is the canonical id of the model, or its id as sent; `route` names the server. `counted` are our tokens for
    the whole prompt, and `margin` the reserve on top. `features` are sums over the prompt that calibration learns from;
    their `tokens` were counted by `tokenizer`. `expected_cached` is the prefix that should have been in the provider's
    cache.
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
        """The error of the count as a share of the reported tokens, negative if it was too low.

        >>> UsageReport(id="o1", model="m", route="r", counted=1030, reported=1000).error
        0.03
        """
        return (self.counted - self.reported) / self.reported if self.reported else 0.0

    def __post_init__(self) -> None:
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
    """Return the features as finite numbers."""
    if not isinstance(features, dict):
        raise InvalidValue("features", f"must be a dict, not {validation.preview(features)}")
    plain = {}
    for name, value in features.items():
        number = validation.to_finite_float(value)
        if number is None:
            raise InvalidValue(f"features.{name}", f"must be a finite number, not {validation.preview(value)}")
        plain[validation.require_unicode("features", name, InvalidValue)] = number
    return plain


class Accuracy(msgspec.Struct, frozen=True, kw_only=True):
    """How accurately the prompts of a model were counted on a route.

    Errors are shares of the reported tokens, negative if the count was too low. `covered` is the share of requests
    within the count plus its margin. `overflows` and `cuts` are not part of `requests`.
    """

    model: str
    route: str
    requests: int
    mean_error: float
    mean_absolute_error: float
    worst_error: float
    covered: float
    counted: int
    reported: int
    expected_cached: int
    cached: int
    overflows: int
    cuts: int
    first: float
    last: float
