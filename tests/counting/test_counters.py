import pytest

from brimful.core.model import ModelInfo, Prior
from brimful.counting import Calibration, counter_for
from brimful.errors import CountingError, InvalidModel, TokenizerUnavailable

TEXT = "Fill the context window to the brim."


def model(**fields):
    return ModelInfo(**{"id": "m", "provider": "p", "window": 8192, "max_output": 1024, "wire": "openai"} | fields)


OPEN = model(tokenizer="o200k_base")
CLOSED = model(prior=Prior(tokenizer="o200k_base", factor=1.5, margin=0.25, source="test"), overhead="anthropic")
UNKNOWN = model(id="nobody", known=False)


@pytest.mark.parametrize(
    ("info", "method", "basis", "upper"),
    [
        (OPEN, "hybrid", "exact", 8),
        (OPEN, "exact", "exact", 8),
        (OPEN, "calibrated", "calibrated", 8),
        (OPEN, "approximate", "approximate", 9),
        (CLOSED, "hybrid", "calibrated", 15),
        (CLOSED, "calibrated", "calibrated", 15),
        (UNKNOWN, "hybrid", "calibrated", 11),
        (UNKNOWN, "approximate", "approximate", 9),
    ],
)
def test_the_basis_says_which_it_was(info, method, basis, upper):
    count = counter_for(info, method).text(TEXT)
    assert (count.basis, count.upper) == (basis, upper)


@pytest.mark.parametrize(
    ("info", "reason"),
    [(CLOSED, "its vocabulary is not public"), (UNKNOWN, "the model is not in the registry")],
)
def test_exact_is_refused_where_it_is_not_possible(info, reason):
    with pytest.raises(TokenizerUnavailable, match=reason):
        counter_for(info, "exact")


def test_usage_replaces_the_prior():
    learned = Calibration(tokenizer="o200k_base", factor=1.25, margin=0)
    assert counter_for(CLOSED, calibration=learned).text(TEXT).upper == 10


def test_names_of_counts_tell_tokenizers_and_factors_apart():
    assert counter_for(OPEN).tokenizer == "o200k_base"
    assert counter_for(CLOSED).tokenizer == "o200k_base*1.5+25%"


def test_an_unproven_vocabulary_is_not_called_exact():
    count = counter_for(model(tokenizer="glm4")).text(TEXT)
    assert (count.basis, count.margin) == ("calibrated", 1)


@pytest.mark.parametrize(
    ("fields", "key"),
    [
        ({"overhead": "nonsense"}, "overhead"),
        ({"overhead": "template"}, "chat_template"),
        ({"overhead": "template", "chat_template": "no-such-template"}, "chat_template"),
        ({"image_rule": "no-such-rule"}, "image_rule"),
    ],
)
def test_a_model_that_names_what_is_not_there(fields, key):
    with pytest.raises(InvalidModel, match=key):
        counter_for(model(tokenizer="o200k_base", **fields))


def test_a_tokenizer_that_is_not_there():
    with pytest.raises(CountingError, match="no tokenizer 'gpt9'"):
        counter_for(model(tokenizer="gpt9"))
