"""Count the tokens of texts, media, messages and whole prompts, for a given model."""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from brimful.counting.approximate import approximate_message, approximate_text
from brimful.counting.calibration import Calibration, default_calibration
from brimful.counting.counters import counter_for, vocabulary_for
from brimful.counting.media import MediaCounter
from brimful.counting.media_rules import MEDIA_RULES
from brimful.counting.text_counters import count_raw, find_uncounted, remember_counts, texts_in
from brimful.counting.tokenizers import (
    count_text,
    count_texts,
    count_with_special_tokens,
    is_preloaded,
    preload,
    tokenizer_names,
)
from brimful.counting.vocabularies import is_verified

if TYPE_CHECKING:
    from brimful.counting.chat_template import template_names
    from brimful.counting.learning import MAX_REPORTS, LearnedCalibration, calibrate, learn_calibration, learned_window
    from brimful.counting.usage import canonical_model_id, make_overflow_report, make_usage_report

__all__ = [
    "MAX_REPORTS",
    "MEDIA_RULES",
    "Calibration",
    "LearnedCalibration",
    "MediaCounter",
    "approximate_message",
    "approximate_text",
    "calibrate",
    "canonical_model_id",
    "count_raw",
    "count_text",
    "count_texts",
    "count_with_special_tokens",
    "counter_for",
    "default_calibration",
    "find_uncounted",
    "is_preloaded",
    "is_verified",
    "learn_calibration",
    "learned_window",
    "make_overflow_report",
    "make_usage_report",
    "preload",
    "remember_counts",
    "template_names",
    "texts_in",
    "tokenizer_names",
    "vocabulary_for",
]

_LAZY: Final = {
    "LearnedCalibration": "brimful.counting.learning",
    "MAX_REPORTS": "brimful.counting.learning",
    "calibrate": "brimful.counting.learning",
    "learn_calibration": "brimful.counting.learning",
    "learned_window": "brimful.counting.learning",
    "make_usage_report": "brimful.counting.usage",
    "make_overflow_report": "brimful.counting.usage",
    "canonical_model_id": "brimful.counting.usage",
    "template_names": "brimful.counting.chat_template",
}
"""Names that need records, rendering or templates. They are imported on first use: counting plain text needs none."""


def __getattr__(name: str) -> Any:
    """Import a lazy name when it is first used."""
    if name not in _LAZY:
        raise AttributeError(f"module 'brimful.counting' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_LAZY[name]), name)
    return value
