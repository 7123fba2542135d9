"""Tokens: how many a text, a medium, a message or a whole prompt is, for a given model."""

from brimful.counting.approximate import approximate_message, approximate_text
from brimful.counting.calibration import Calibration, prior_of
from brimful.counting.counters import counter_for, vocabulary_for
from brimful.counting.learned import learn, raw_counts, texts_of, unknown
from brimful.counting.learning import Learned, calibrated, learn_from, learned_window
from brimful.counting.media import MediaCounter, media_rules
from brimful.counting.observing import observation_of, observed_id, overflow_of
from brimful.counting.settling import WINDOW
from brimful.counting.templates import template_names
from brimful.counting.tokenizers import count_special, count_text, count_texts, is_ready, make_ready, tokenizer_names
from brimful.counting.vocabularies import is_proven

__all__ = [
    "WINDOW",
    "Calibration",
    "Learned",
    "MediaCounter",
    "approximate_message",
    "approximate_text",
    "calibrated",
    "count_special",
    "count_text",
    "count_texts",
    "counter_for",
    "is_proven",
    "is_ready",
    "learn",
    "learn_from",
    "learned_window",
    "make_ready",
    "media_rules",
    "observation_of",
    "observed_id",
    "overflow_of",
    "prior_of",
    "raw_counts",
    "template_names",
    "texts_of",
    "tokenizer_names",
    "unknown",
    "vocabulary_for",
]
