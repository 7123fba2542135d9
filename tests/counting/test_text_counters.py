"""Known counts are reused, and nothing is tokenized again."""

from brimful import Media, Text, ToolCall, ToolResult, count, counter
from brimful.core.cost import count_content
from brimful.counting import count_raw, remember_counts, texts_in, vocabulary_for
from brimful.models import default_registry


def test_a_text_with_a_known_count_is_not_tokenized():
    text = "a text that nobody else in this suite would ever count"
    remember_counts("o200k_base", {text: 4711})
    assert count(text, model="gpt-4o").tokens == 4711
    assert count_raw("o200k_base", [text]) == [4711]


def test_a_calibrated_model_keeps_counts_of_the_vocabulary_below_it():
    model = default_registry().resolve("claude-sonnet-4-5")
    vocabulary = vocabulary_for(model)
    text = "another text that only this test would count"
    remember_counts(vocabulary, {text: 100})
    assert counter(model).text(text).tokens > 100  # the factor is applied to what was learned


def test_nothing_is_cached_if_nothing_is_tokenized():
    assert vocabulary_for(default_registry().resolve("gpt-4o"), "approximate") is None


def test_learning_all_texts_of_a_content_leaves_nothing_to_tokenize():
    call = ToolCall(id="c1", name="weather_in_learned", arguments='{"city": "Paris-learned"}')
    content = (Text(text="Let me look, learned."), call)
    result = (ToolResult(id="c1", content="Rain, learned."),)
    for parts in (content, result):
        remember_counts("o200k_base", dict.fromkeys(texts_in(parts), 1000))
    gpt = counter("gpt-4o")
    assert count_content(content, gpt).tokens >= 3000
    assert count_content(result, gpt).tokens == 1000
    assert texts_in((Media(modality="image", url="https://example.org/a.png"),)) == []
