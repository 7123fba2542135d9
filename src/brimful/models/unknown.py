"""The row that stands for a model nobody has heard of."""

from typing import Final

from brimful.core.model import UNKNOWN_PRIOR, ModelInfo
from brimful.models.names import read

FALLBACK_WINDOW: Final = 8_192  # tokens; the smallest window that a chat model in use still has
FALLBACK_OUTPUT: Final = 4_096  # tokens; half of the window


def unknown_model(name: str) -> ModelInfo:
    """Assume little: a small window and dear tokens.

    >>> unknown_model("nobody-knows-me").window, unknown_model("nobody:7b").wire
    (8192, 'ollama')
    """
    parsed = read(name)
    return ModelInfo(
        id=name,
        provider="unknown",
        window=FALLBACK_WINDOW,
        max_output=FALLBACK_OUTPUT,
        wire=parsed.wire or ("ollama" if parsed.tagged else "openai"),
        prior=UNKNOWN_PRIOR,
        source="fallback",
        known=False,
    )


def unknown_model_warning(info: ModelInfo) -> str:
    """Say what was assumed, and how to do better.

    >>> print(unknown_model_warning(unknown_model("acme-1")))
    unknown model 'acme-1': assuming a window of 8,192 tokens and counting with o200k_base × 1.3 + 25 %; \
describe it in a models.toml file (BRIMFUL_MODELS)
    """
    prior = info.prior or UNKNOWN_PRIOR
    return (
        f"unknown model {info.id!r}: assuming a window of {info.window:,} tokens and counting with "
        f"{prior.tokenizer} × {prior.factor:g} + {prior.margin:.0%}".replace("%", " %")
        + "; describe it in a models.toml file (BRIMFUL_MODELS)"
    )
