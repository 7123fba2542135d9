"""Fit a calibration to usage reports: ridge regression around a prior, with an error margin.

Every weight has a prior mean and a width, which is how much public tokenizers and chat templates differ in it. A single
report changes little but the factor; many reports determine the result. Errors are relative to the prompt's length plus
`FLOOR` tokens, so that tiny prompts do not outweigh all others.
"""

from collections.abc import Mapping, Sequence
from math import inf
from typing import TYPE_CHECKING, Any, Final

import msgspec

from brimful.counting.features import CHARACTER_CLASSES, FEATURES, REQUEST_FEATURES

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Array = npt.NDArray[np.float64]

FLOOR: Final = 100.0  # tokens added to each prompt before a relative error is computed
PRIOR_WIDTHS: Final[Mapping[str, float]] = {  # tokens each; measured on public tokenizers and templates, rounded
    "digits": 0.25,
    "punctuation": 0.1,
    "newlines": 0.4,
    "capitals": 0.1,
    "accents": 0.5,
    "letters": 0.15,
    "indic": 0.3,
    "symbols": 0.5,
    "kana": 0.2,
    "han": 0.25,
    "hangul": 0.35,
    "emoji": 1.0,
    "indents": 0.4,
    "messages": 2.0,
    "calls": 20.0,
    "tools": 50.0,
    "toolset": 40.0,
    "media": 0.2,
    "request": 20.0,
}
FACTOR_WIDTH: Final = 0.3  # of the base tokenizer's count
MIN_FACTOR: Final = 0.6  # of the base tokenizer's count; no known tokenizer needs fewer tokens
_LOWEST_FACTOR: Final = 0.1  # so that a fit to arbitrary numbers is a calibration, which is then not plausible
COVERAGE: Final = 0.99  # share of prompts that the margin covers
_SIGMAS: Final = 2.0  # standard deviations of the errors that the margin covers at least
_UNSEEN_SIGMAS: Final = 2.0  # standard deviations of features that were not observed yet
_PRIOR_SAMPLES: Final = 3.0  # weight of the assumed error, in samples
_OUTLIER: Final = 3.0  # robust deviations beyond which a sample gets less weight
_REWEIGHTING_ROUNDS: Final = 3  # fits with reweighted outliers
_MIN_FOR_OUTLIERS: Final = 5  # samples needed to call one of them an outlier
_MAX_WIDTHS: Final = 15.0  # by which the weight of a request feature may differ from the prior
_MAX_CHARACTER_WIDTHS: Final = 60.0  # for a character class: they are correlated and compensate for each other
_MAX_FACTOR_RATIO: Final = 3.0  # for the factor
_UNBOUNDED: Final = ("tools", "toolset", "request")  # servers may add any number of tokens to these
_MAX_LEVERAGE: Final = 0.99  # of a sample on its own fit; beyond it no residual is left


class ErrorPrior(msgspec.Struct, frozen=True, kw_only=True):
    """Assumed relative errors: of a single count (`noise`), and of a fit to few samples (`assumed`)."""

    noise: float
    assumed: float


CALIBRATED: Final = ErrorPrior(noise=0.005, assumed=0.02)
EXACT: Final = ErrorPrior(noise=0.0005, assumed=0.0)


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """One usage report: its features, its fixed tokens, and the reported tokens."""

    features: Mapping[str, float]
    fixed: float
    reported: float


class Fit(msgspec.Struct, frozen=True, kw_only=True):
    """The result: `factor` of the base count, `weights` of the features, the `margin` as a share and its `spread`.

    `interval` is the mean total margin of the samples, as a share. `residuals` are the relative leave-one-out errors,
    positive if more was reported than counted.
    """

    factor: float
    weights: dict[str, float]
    margin: float
    spread: dict[str, float]
    interval: float
    residuals: tuple[float, ...]


def fit(samples: Sequence[Sample], *, factor: float, max_margin: float, error_prior: ErrorPrior) -> Fit:
    """Fit a calibration around `factor`.

    `max_margin` is the margin of the prior. The new margin is not wider, unless the observed errors are.
    """
    import numpy as np  # noqa: PLC0415 - loaded only for learning

    columns = np.array([[each.features.get(name, 0.0) for name in ("tokens", *FEATURES)] for each in samples])
    fixed = np.array([each.fixed for each in samples])
    reported = np.array([each.reported for each in samples])
    widths = np.array([FACTOR_WIDTH, *(PRIOR_WIDTHS[name] for name in FEATURES)])
    units = (reported + FLOOR) * error_prior.noise
    rows = columns / units[:, None]
    target = (reported - fixed - factor * columns[:, 0]) / units
    weights, residuals, precision = _solve(rows, target, widths)
    residuals = residuals * error_prior.noise
    share = _margin_share(residuals, error_prior.assumed)
    unseen = _UNSEEN_SIGMAS / np.sqrt(precision)
    counted = np.maximum(1.0, fixed + columns @ weights + factor * columns[:, 0])
    unseen *= _scale_down(float(np.mean(columns @ unseen / counted)), max(max_margin, share) - share)
    margins = share * (counted + FLOOR) + columns @ unseen
    fitted = max(_LOWEST_FACTOR, factor + float(weights[0]))
    return Fit(
        factor=fitted,
        weights=dict(zip(FEATURES, map(float, weights[1:]), strict=True)),
        margin=share + float(unseen[0]) / fitted,
        spread=_add_floor_margin(dict(zip(FEATURES, map(float, unseen[1:]), strict=True)), share),
        interval=float(np.mean(margins / counted)),
        residuals=tuple(map(float, residuals)),
    )


def is_plausible(fitted: Fit, factor: float) -> bool:
    """Whether a tokenizer and a template could produce this fit, if `factor` was expected.

    Arbitrary numbers can be fitted too, with negative costs per message or ten times the tokens per word. Only what a
    server adds to each request, or to its tools, is unbounded.
    """
    if fitted.margin > _MAX_FACTOR_RATIO or not 1 / _MAX_FACTOR_RATIO < fitted.factor / factor < _MAX_FACTOR_RATIO:
        return False
    shares = {name: weight / PRIOR_WIDTHS[name] for name, weight in fitted.weights.items()}
    plausible_characters = all(abs(shares[kind]) < _MAX_CHARACTER_WIDTHS for kind in CHARACTER_CLASSES)
    return plausible_characters and all(
        -_MAX_WIDTHS < shares[t] < (inf if t in _UNBOUNDED else _MAX_WIDTHS) for t in REQUEST_FEATURES
    )


def _solve(rows: "Array", target: "Array", widths: "Array") -> "tuple[Array, Array, Array]":
    """Return the weights, the leave-one-out residuals, and the precision of each weight by itself."""
    import numpy as np  # noqa: PLC0415 - see above

    rows = rows * widths  # in units of the prior widths, so that all weights have the same prior
    trust = np.ones(len(rows))
    for _ in range(_REWEIGHTING_ROUNDS if len(rows) >= _MIN_FOR_OUTLIERS else 1):
        scaled = rows * np.sqrt(trust)[:, None]
        inverse = _inverse(scaled.T @ scaled)
        weights = inverse @ (scaled.T @ (target * np.sqrt(trust)))
        leverage = np.einsum("ij,jk,ik->i", scaled, inverse, scaled)
        residuals = (target - rows @ weights) / (1.0 - np.minimum(leverage, _MAX_LEVERAGE))
        limit = _OUTLIER * max(1.0, 1.4826 * float(np.median(np.abs(residuals))))
        trust = np.minimum(1.0, limit / np.maximum(np.abs(residuals), 1e-9))
    return weights * widths, residuals, (1.0 + (scaled**2).sum(axis=0)) / widths**2


def _inverse(gram: "Array") -> "Array":
    """Return the inverse of the Gram matrix plus the identity, even if the matrix is ill-conditioned."""
    import numpy as np  # noqa: PLC0415 - see above

    values, vectors = np.linalg.eigh(gram)
    inverse: Array = (vectors / (1.0 + np.maximum(values, 0.0))) @ vectors.T
    return inverse


def _margin_share(residuals: "Array", assumed: float) -> float:
    """Return the relative margin: the error at the covered rank, and at least some standard deviations."""
    import numpy as np  # noqa: PLC0415 - see above

    count = len(residuals)
    rank = min(count, int(np.ceil(COVERAGE * (count + 1))))
    usual = np.minimum(np.abs(residuals), 5 * float(np.median(np.abs(residuals))) + 1e-9)
    errors: Any = usual if count >= _MIN_FOR_OUTLIERS else residuals
    deviation = np.sqrt((_PRIOR_SAMPLES * assumed**2 + float((errors**2).sum())) / (_PRIOR_SAMPLES + count))
    return max(0.0, float(np.sort(residuals)[rank - 1]), _SIGMAS * float(deviation))


def _scale_down(share: float, max_share: float) -> float:
    """Return the factor that reduces a share to its maximum."""
    return 1.0 if share <= max_share else max_share / share


def _add_floor_margin(spread: dict[str, float], share: float) -> dict[str, float]:
    """Add the margin of the `FLOOR` tokens to that of each request."""
    return spread | {"request": spread["request"] + share * FLOOR}
