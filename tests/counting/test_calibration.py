import pytest
from hypothesis import given
from hypothesis import strategies as st

from brimful.core.model import UNKNOWN_PRIOR, ModelInfo, Prior
from brimful.counting import Calibration, count_text, default_calibration, tokenizer_names

CALIBRATIONS = st.builds(
    Calibration,
    tokenizer=st.just("o200k_base"),
    factor=st.floats(0.5, 3),
    margin=st.floats(0, 1),
)


def model(**fields):
    return ModelInfo(id="m", provider="p", window=8192, max_output=1024, wire="openai", **fields)


def test_whole_numbers_on_paper_stay_whole():
    count = Calibration(tokenizer="o200k_base", factor=1.1, margin=0.1).scale(100)
    assert (count.tokens, count.margin) == (110, 11)


@given(CALIBRATIONS, st.integers(0, 10**6), st.integers(0, 10**6))
def test_parts_scaled_alone_are_never_less_than_the_whole(calibration, one, other):
    assert calibration.scale(one + other).upper <= calibration.scale(one).upper + calibration.scale(other).upper


@given(CALIBRATIONS, CALIBRATIONS, st.integers(0, 10**6))
def test_equal_names_give_equal_numbers(one, other, base):
    if one.name == other.name and (one.factor, one.margin) == (other.factor, other.margin):
        assert one.scale(base) == other.scale(base)


def test_the_registrys_prior_comes_first():
    prior = Prior(tokenizer="cl100k_base", factor=1.2, margin=0.3, source="test")
    assert default_calibration(model(prior=prior)) == Calibration(tokenizer="cl100k_base", factor=1.2, margin=0.3)


def test_a_public_tokenizer_needs_no_factor():
    assert default_calibration(model(tokenizer="llama3")).scale(100).upper == 100


def test_an_unknown_model_gets_the_default():
    assert default_calibration(model(known=False)).tokenizer == UNKNOWN_PRIOR.tokenizer


TEXTS = {
    "prose": "The lighthouse keeper counted the waves, and every seventh one was larger than the six before it. " * 20,
    "code": "def fill(packages, limits):\n    for package in sorted(packages, key=score):\n        yield package\n"
    * 20,
    "Chinese": "水满则溢，月盈则亏。上下文窗口也是如此：装得太多，就会丢失最重要的内容。" * 20,
    "Russian": "Наполни окно контекста до краёв, но не пролей ни капли. " * 20,
    "JSON": '{"id": 12345, "name": "Ada", "tags": ["x", "y"], "score": 0.25}\n' * 20,
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
@pytest.mark.parametrize(
    "tokenizer", sorted(set(tokenizer_names()) - {"llama2", "mistral_v1", "mistral_v2", "cl100k_base", "phi4"})
)
def test_the_default_covers_every_recent_vocabulary(tokenizer, text):
    # The vocabularies of 2023 split Chinese and Russian into more tokens. Their models are in the registry by name.
    assert count_text(tokenizer, text) <= default_calibration(model()).scale(count_text("o200k_base", text)).upper
