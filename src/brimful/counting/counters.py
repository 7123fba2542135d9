"""The counter for a model: exact where its tokenizer is public, calibrated where not; approximate where wanted."""

from functools import lru_cache
from typing import Final, Literal, assert_never

from brimful.core.model import ModelInfo
from brimful.core.policy import Method
from brimful.core.prompt import Prompt
from brimful.core.tokens import TokenCounter
from brimful.counting.adjusted import AdjustedCounter, Measuring
from brimful.counting.approximate import ApproximateCounter
from brimful.counting.calibration import Calibration, prior_of
from brimful.counting.constants import ConstantsCounter
from brimful.counting.features import Features
from brimful.counting.media import MediaCounter
from brimful.counting.overheads import overheads_of
from brimful.counting.templated import TemplateCounter
from brimful.counting.templates import ChatTemplate
from brimful.counting.texts import CalibratedTexts, ExactTexts, TextCounter
from brimful.counting.vocabularies import served_by, vocabulary_of
from brimful.errors import InvalidModel, TokenizerUnavailable

_COUNTERS_KEPT: Final = 256


def counter_for(
    model: ModelInfo,
    method: Method = "hybrid",
    *,
    calibration: Calibration | None = None,
) -> TokenCounter:
    """Return a counter for the model. A `calibration` learned from usage takes the place of the registry's prior.

    >>> model = ModelInfo(id="gpt-4o", provider="openai", window=128_000, max_output=16_384, wire="openai",
    ...                   tokenizer="o200k_base")
    >>> counter_for(model).text("Fill the context window to the brim.")
    Count(tokens=8, basis='exact', tokenizer='o200k_base', margin=0)
    """
    return _counter(model, method, calibration)


def vocabulary_for(model: ModelInfo, method: Method = "hybrid") -> str | None:
    """Return the vocabulary that counts the model's texts, or that of its calibration; None where nothing is tokenized.

    >>> vocabulary_for(ModelInfo(id="gpt-4o", provider="openai", window=8192, max_output=1, wire="openai",
    ...                          tokenizer="o200k_base"))
    'o200k_base'
    """
    return None if method == "approximate" else _texts(model, method, None).base


def features_of(model: ModelInfo, method: Method, prompt: Prompt) -> Features:
    """Return what the count of a prompt for a model is made of: what better counts are learned from."""
    counter = _counter(model, method, None)
    return {} if isinstance(counter, ApproximateCounter) else counter.measure(prompt)


@lru_cache(_COUNTERS_KEPT)
def _counter(model: ModelInfo, method: Method, calibration: Calibration | None) -> Measuring | ApproximateCounter:
    # A counter is a pure function of these, and one for a template has probed it: it is worth keeping.
    media = MediaCounter.of(model)
    if method == "approximate":
        return ApproximateCounter(media)
    texts = _texts(model, method, calibration)
    counter: Measuring
    if model.overhead == "template":
        counter = TemplateCounter(texts, _template(model, texts.base), media)
    else:
        counter = ConstantsCounter(texts, overheads_of(model.overhead), media, model.tool_system_tokens)
    learned = _learned(model, method, calibration)
    return AdjustedCounter(counter, learned) if learned else counter


def _learned(model: ModelInfo, method: Method, calibration: Calibration | None) -> Calibration | None:
    """Return what usage taught of the model beyond a factor and a margin; who wants exact counts gets no less."""
    chosen = calibration or prior_of(model)
    return chosen if chosen.learned and method != "exact" else None


def _template(model: ModelInfo, tokenizer: str) -> ChatTemplate:
    if not model.chat_template:
        raise InvalidModel(model.id, "chat_template", "must be named where overhead is 'template'")
    vocabulary = vocabulary_of(tokenizer)
    return ChatTemplate.named(
        model.chat_template,
        bos=vocabulary.bos,
        eos=vocabulary.eos,
        runtime=model.runtime,
        thinking=model.thinking,
    )


def _texts(
    model: ModelInfo,
    method: Literal["exact", "calibrated", "hybrid"],
    calibration: Calibration | None,
) -> TextCounter:
    match method:
        case "exact":
            return _exact(model)
        case "calibrated":
            return CalibratedTexts(calibration or prior_of(model))
        case "hybrid":
            if model.tokenizer is None:
                return CalibratedTexts(calibration or prior_of(model))
            return _exact(model, _learned(model, method, calibration))
        case _:
            assert_never(method)


def _exact(model: ModelInfo, learned: Calibration | None = None) -> ExactTexts:
    if model.tokenizer is None:
        reason = "its vocabulary is not public" if model.known else "the model is not in the registry"
        raise TokenizerUnavailable(model.id, reason)
    return ExactTexts(served_by(model.runtime, model.tokenizer), learned)
