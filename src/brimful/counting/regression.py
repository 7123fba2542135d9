"""A calibration fitted to what was observed: ridge regression around what was known before, and how far it may miss.

Every weight has an expectation, which is the prior's, and a width: how much public tokenizers and chat templates differ
in it. With one observation little moves but the factor; with many, the data speak. Errors are taken as shares of the
prompt, with `FLOOR` tokens added to it, so that tiny prompts do not outweigh all others.
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

FLOOR: Final = 100.0  # tokens added to each prompt before an error is taken as a share of it
PRIOR_WIDTHS: Final[
    Mapping[str, float]
] = {  # tokens for one of each; measured on public tokenizers and templates, rounded
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
_MIN_FACTOR: Final = 0.1  # no tokenizer needs ten times fewer tokens than another
COVERAGE: Final = 0.99  # the share of prompts that the margin is to cover
_SIGMAS: Final = 2.0  # of the errors seen, that the margin covers at least
_UNSEEN_SIGMAS: Final = 2.0  # of what is not known of a feature yet
_PRIOR_OBSERVATIONS: Final = 3.0  # observations that the assumed error counts for, beside those that were made
_OUTLIER: Final = 3.0  # robust deviations from where on an observation counts for less
_REWEIGHTING_ROUNDS: Final = 3  # of fitting with outliers weighed down
_MIN_FOR_OUTLIERS: Final = 5  # observations, before one of them can be called odd
_MAX_WIDTHS: Final = 15.0  # by which a thing may be cheaper or dearer than expected
_MAX_CHARACTER_WIDTHS: Final = 60.0  # … and a sign: they come together, so that one makes up for another
_MAX_FACTOR_RATIO: Final = 3.0  # … and a word
_UNBOUNDED: Final = ("tools", "toolset", "request")  # to which a server may add whatever it likes
_MAX_LEVERAGE: Final = 0.99  # of an observation on its own fit: beyond it nothing is left to be wrong


class ErrorPrior(msgspec.Struct, frozen=True, kw_only=True):
    """What is assumed of errors before they are seen: of a single count (`noise`), and of a fit to few of them."""

    noise: float
    assumed: float


CALIBRATED: Final = ErrorPrior(noise=0.005, assumed=0.02)
EXACT: Final = ErrorPrior(noise=0.0005, assumed=0.0)


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """One observation: its features, what is fixed in it, and what was reported."""

    features: Mapping[str, float]
    fixed: float
    reported: float


class Fit(msgspec.Struct, frozen=True, kw_only=True):
    """What was fitted: `factor` of the base count, `weights` of the features, the margin's share and its `spread`.

    `interval` is the whole margin as a share of the prompts that were seen. `residuals` are what each of them would
    have missed if it had not been among them, as shares; above zero where more was reported than counted.
    """

    factor: float
    weights: dict[str, float]
    margin: float
    spread: dict[str, float]
    interval: float
    residuals: tuple[float, ...]


def fit(seen: Sequence[Sample], *, factor: float, widest: float, doubt: ErrorPrior) -> Fit:
    """Fit a calibration around `factor` to what was seen.

    `widest` is the margin before anything was learned: the new one is not wider, unless the errors seen are.
    """
    import numpy as np  # noqa: PLC0415 - whoever learns nothing does not load it

    columns = np.array([[each.features.get(name, 0.0) for name in ("tokens", *FEATURES)] for each in seen])
    fixed = np.array([each.fixed for each in seen])
    reported = np.array([each.reported for each in seen])
    widths = np.array([FACTOR_WIDTH, *(PRIOR_WIDTHS[name] for name in FEATURES)])
    units = (reported + FLOOR) * doubt.noise
    rows = columns / units[:, None]
    missed = (reported - fixed - factor * columns[:, 0]) / units
    weights, misses, known = _solve(rows, missed, widths)
    residuals = misses * doubt.noise
    share = _margin_share(residuals, doubt.assumed)
    unseen = _UNSEEN_SIGMAS / np.sqrt(known)
    counted = np.maximum(1.0, fixed + columns @ weights + factor * columns[:, 0])
    unseen *= _scale_down(float(np.mean(columns @ unseen / counted)), max(widest, share) - share)
    margins = share * (counted + FLOOR) + columns @ unseen
    fitted = max(_MIN_FACTOR, factor + float(weights[0]))
    return Fit(
        factor=fitted,
        weights=dict(zip(FEATURES, map(float, weights[1:]), strict=True)),
        margin=share + float(unseen[0]) / fitted,
        spread=_add_floor_margin(dict(zip(FEATURES, map(float, unseen[1:]), strict=True)), share),
        interval=float(np.mean(margins / counted)),
        residuals=tuple(map(float, residuals)),
    )


def is_plausible(fitted: Fit, factor: float) -> bool:
    """Say whether a tokenizer and a template could count like that, where `factor` was expected.

    Numbers that hang on nothing that was sent can be fitted, too: by messages that give tokens back, or by words that
    cost ten times as much. Only what a server may add to each request, or to its tools, has no bounds.
    """
    if fitted.margin > _MAX_FACTOR_RATIO or not 1 / _MAX_FACTOR_RATIO < fitted.factor / factor < _MAX_FACTOR_RATIO:
        return False
    shares = {name: weight / PRIOR_WIDTHS[name] for name, weight in fitted.weights.items()}
    signs = all(abs(shares[sign]) < _MAX_CHARACTER_WIDTHS for sign in CHARACTER_CLASSES)
    return signs and all(-_MAX_WIDTHS < shares[t] < (inf if t in _UNBOUNDED else _MAX_WIDTHS) for t in REQUEST_FEATURES)


def _solve(rows: "Array", missed: "Array", widths: "Array") -> "tuple[Array, Array, Array]":
    """Return the weights, what each row misses when it is left out, and how much is known of each weight by itself."""
    import numpy as np  # noqa: PLC0415 - see above

    rows = rows * widths  # in units of what is not known, so that all weights are alike before anything is seen
    trust = np.ones(len(rows))
    for _ in range(_REWEIGHTING_ROUNDS if len(rows) >= _MIN_FOR_OUTLIERS else 1):
        scaled = rows * np.sqrt(trust)[:, None]
        inverse = _inverse(scaled.T @ scaled)
        weights = inverse @ (scaled.T @ (missed * np.sqrt(trust)))
        leverage = np.einsum("ij,jk,ik->i", scaled, inverse, scaled)
        misses = (missed - rows @ weights) / (1.0 - np.minimum(leverage, _MAX_LEVERAGE))
        odd = _OUTLIER * max(1.0, 1.4826 * float(np.median(np.abs(misses))))
        trust = np.minimum(1.0, odd / np.maximum(np.abs(misses), 1e-9))
    return weights * widths, misses, (1.0 + (scaled**2).sum(axis=0)) / widths**2


def _inverse(gram: "Array") -> "Array":
    """Return the inverse of a Gram matrix and the unit matrix together, whatever numbers are in it."""
    import numpy as np  # noqa: PLC0415 - see above

    values, vectors = np.linalg.eigh(gram)
    inverse: Array = (vectors / (1.0 + np.maximum(values, 0.0))) @ vectors.T
    return inverse


def _margin_share(residuals: "Array", assumed: float) -> float:
    """Return the share that covers what was missed: the errors at the wanted rank, and some deviations at least."""
    import numpy as np  # noqa: PLC0415 - see above

    count = len(residuals)
    rank = min(count, int(np.ceil(COVERAGE * (count + 1))))
    usual = np.minimum(np.abs(residuals), 5 * float(np.median(np.abs(residuals))) + 1e-9)
    errors: Any = usual if count >= _MIN_FOR_OUTLIERS else residuals
    deviation = np.sqrt((_PRIOR_OBSERVATIONS * assumed**2 + float((errors**2).sum())) / (_PRIOR_OBSERVATIONS + count))
    return max(0.0, float(np.sort(residuals)[rank - 1]), _SIGMAS * float(deviation))


def _scale_down(share: float, most: float) -> float:
    """Return what brings a share down to the most that it may be."""
    return 1.0 if share <= most else most / share


def _add_floor_margin(spread: dict[str, float], share: float) -> dict[str, float]:
    """Add the margin of the tokens that every prompt was taken to be larger."""
    return spread | {"request": spread["request"] + share * FLOOR}
