"""Choose the counter for a model: exact if its tokenizer is public, otherwise calibrated; approximate on request."""

from functools import lru_cache
from typing import TYPE_CHECKING, Final, Literal, assert_never

from brimful.core.model import ModelInfo
from brimful.core.policy import Method
from brimful.core.prompt import Prompt, TokenCounter
from brimful.counting.approximate import ApproximateCounter
from brimful.counting.calibration import CalibratedCounter, Calibration, MeasuringCounter, default_calibration
from brimful.counting.features import Features
from brimful.counting.fixed_overhead import FixedOverheadCounter
from brimful.counting.media import MediaCounter
from brimful.counting.overheads import get_overheads
from brimful.counting.text_counters import CalibratedTextCounter, ExactTextCounter, TextCounter
from brimful.counting.vocabularies import get_vocabulary, runtime_vocabulary
from brimful.errors import InvalidModel, TokenizerUnavailable

if TYPE_CHECKING:
    from brimful.counting.chat_template import ChatTemplate, TemplateOptions

_MAX_CACHED_COUNTERS: Final = 256


def counter_for(model: ModelInfo, method: Method = "hybrid", *, calibration: Calibration | None = None) -> TokenCounter:
    """Return a counter for the model. A `calibration` replaces the registry's prior.

    >>> model = ModelInfo(id="gpt-4o", provider="openai", window=128_000, max_output=16_384, wire="openai",
    ...                   tokenizer="o200k_base")
    >>> counter_for(model).text("Fill the context window to the brim.")
    Count(tokens=8, basis='exact', tokenizer='o200k_base', margin=0)
    """
    return _make_counter(model, method, calibration)


def vocabulary_for(model: ModelInfo, method: Method = "hybrid") -> str | None:
    """Return the vocabulary for the model's texts or its calibration, or None if nothing is tokenized.

    >>> vocabulary_for(ModelInfo(id="gpt-4o", provider="openai", window=8192, max_output=1, wire="openai",
    ...                          tokenizer="o200k_base"))
    'o200k_base'
    """
    return None if method == "approximate" else _text_counter(model, method, None).base


def measure_prompt(model: ModelInfo, method: Method, prompt: Prompt) -> Features:
    """Return the features of a prompt, from which calibrations are learned."""
    counter = _make_counter(model, method, None)
    return {} if isinstance(counter, ApproximateCounter) else counter.measure(prompt)


@lru_cache(_MAX_CACHED_COUNTERS)
def _make_counter(
    model: ModelInfo, method: Method, calibration: Calibration | None
) -> MeasuringCounter | ApproximateCounter:
    # Cached: a counter depends on nothing else, and probing a template takes time.
    media = MediaCounter.of(model)
    if method == "approximate":
        return ApproximateCounter(media)
    texts = _text_counter(model, method, calibration)
    counter: MeasuringCounter
    if model.overhead == "template":
        from brimful.counting.template_counter import TemplateCounter  # noqa: PLC0415 - only open models need it

        counter = TemplateCounter(texts, _load_template(model, texts.base), media)
    else:
        counter = FixedOverheadCounter(texts, get_overheads(model.overhead), media, model.tool_system_tokens)
    learned = _learned_calibration(model, method, calibration)
    return CalibratedCounter(counter, learned) if learned else counter


def _learned_calibration(model: ModelInfo, method: Method, calibration: Calibration | None) -> Calibration | None:
    """Return the learned calibration, if there is one and exact counts were not requested."""
    chosen = calibration or default_calibration(model)
    return chosen if chosen.learned and method != "exact" else None


def _load_template(model: ModelInfo, tokenizer: str) -> "ChatTemplate":
    from brimful.counting.chat_template import ChatTemplate  # noqa: PLC0415 - only open models need it

    vocabulary = get_vocabulary(tokenizer)
    options: TemplateOptions = {
        "bos": vocabulary.bos,
        "eos": vocabulary.eos,
        "runtime": model.runtime,
        "thinking": model.thinking,
    }
    if model.chat_template:
        return ChatTemplate.named(model.chat_template, **options)
    if not vocabulary.template:
        where = f": {model.tokenizer} has none" if model.has_tokenizer_file else " if overhead is 'template'"
        raise InvalidModel(model.id, "chat_template", f"is required{where}")
    return ChatTemplate(vocabulary.template, tool_source=vocabulary.tool_template, **options)


def _text_counter(
    model: ModelInfo, method: Literal["exact", "calibrated", "hybrid"], calibration: Calibration | None
) -> TextCounter:
    match method:
        case "exact":
            return _exact_text_counter(model)
        case "calibrated":
            return CalibratedTextCounter(calibration or default_calibration(model))
        case "hybrid":
            if model.tokenizer is None:
                return CalibratedTextCounter(calibration or default_calibration(model))
            return _exact_text_counter(model, _learned_calibration(model, method, calibration))
        case _:
            assert_never(method)


def _exact_text_counter(model: ModelInfo, learned: Calibration | None = None) -> ExactTextCounter:
    if model.tokenizer is None:
        reason = "its vocabulary is not public" if model.known else "the model is not in the registry"
        raise TokenizerUnavailable(model.id, reason)
    if not model.has_tokenizer_file:
        return ExactTextCounter(runtime_vocabulary(model.runtime, model.tokenizer), learned, model.runtime)
    from brimful.counting.tokenizer_files import add_tokenizer_file  # noqa: PLC0415 - few models need it

    return ExactTextCounter(add_tokenizer_file(model.tokenizer, model.runtime), learned, model.runtime)
