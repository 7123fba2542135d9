"""A finished request compared with the usage that its provider reported."""

import msgspec
import pytest

from brimful import Tool, assemble, conversation, fit
from brimful.counting import (
    calibrate,
    count_texts,
    counter_for,
    default_calibration,
    find_uncounted,
    make_overflow_report,
    make_usage_report,
)
from brimful.counting.features import CHARACTER_CLASSES
from brimful.errors import ContextOverflow
from brimful.models import default_registry, resolve
from brimful.records import Usage
from brimful.wires.errors import ErrorSource, make_provider_error
from hidden_models import HIDDEN, ROUTE, SENTENCES, mixed, online, truth

TOOL = Tool(name="now", description="The time.", parameters={"type": "object", "properties": {}})
HISTORY = [
    {"role": "system", "content": "You keep the harbour's books."},
    *(
        {"role": role, "content": " ".join(SENTENCES["english"]) + text}
        for role, text in (("user", "水满则溢"), ("assistant", "At 17:30!"), ("user", "🚀"))
    ),
]
LEARNED = calibrate(HIDDEN, online(mixed("observing", 20), lambda p: truth("qwen3:8b").prompt(p).tokens), route=ROUTE)


def built(model, **options):
    return assemble(conversation(HISTORY, model=model), model=model, now=0.0, **options)


def seen(context, reported, **fields):
    usage = Usage(prompt=reported, cached=3, completion=5, reasoning=2)
    return make_usage_report(context, usage, **{"route": ROUTE, "at": 7.0, "id": "res-1"} | fields)


CALIBRATED = [HIDDEN, LEARNED, resolve("claude-sonnet-4-5"), resolve("smollm2")]


@pytest.mark.parametrize("model", CALIBRATED, ids=["unknown", "learned", "claude", "template"])
def test_an_observation_has_the_tokens_and_features_of_the_count(model):
    context = built(model, tools=[TOOL])
    observation = seen(context, 300)
    assert observation.counted + observation.margin == context.tokens
    assert observation.margin == context.verification.margin > 0
    assert observation.basis == "calibrated"
    assert observation.features["han"] == 4.0
    assert observation.features["emoji"] == 1.0
    assert observation.features["messages"] == 4.0
    assert observation.features["toolset"] == 1.0
    if default_calibration(model).learned:
        assert default_calibration(model).count(observation.features).upper == context.tokens


def test_an_observation_has_the_tokens_sent_and_received():
    context = built(HIDDEN)
    observation = seen(context, 200, room="general", expected_cached=40)
    assert (observation.id, observation.at, observation.route, observation.kind) == ("res-1", 7.0, ROUTE, "usage")
    assert (observation.context, observation.room) == (context.id, "general")
    assert (observation.reported, observation.cached, observation.expected_cached) == (200, 3, 40)
    assert (observation.completion, observation.reasoning) == (5, 2)
    assert observation.tokenizer == "o200k_base"
    assert seen(context, 150, snapshot="ctx-2").context == "ctx-2"


def test_a_model_is_observed_under_one_name_however_it_is_spelled():
    dated = built(default_registry().resolve("anthropic/claude-sonnet-4-5"))
    assert seen(dated, 150).model == seen(built(resolve("claude-sonnet-4-5")), 150).model == "claude-sonnet-4-5"
    assert seen(built(HIDDEN), 150).model == "nobody-knows-me"


@pytest.mark.parametrize("model", ["gpt-4o", "llama3.1:8b"])
def test_an_exact_count_stores_only_request_features(model):
    context = built(model, tools=[TOOL])
    observation = seen(context, context.tokens)
    assert not set(observation.features) & {"tokens", *CHARACTER_CLASSES}
    assert observation.features["fixed"] == observation.counted
    assert observation.features["messages"] == 4.0


def test_exact_counts_are_not_learned_twice():
    exact = resolve("llama3.1:8b")
    counter = counter_for(exact)
    learned = calibrate(exact, online(mixed("exact", 8), lambda p: counter.prompt(p).tokens + 17, exact), route=ROUTE)
    before, after = seen(built(exact), 300), seen(built(learned), 300)
    assert after.counted == before.counted + 17
    assert after.features["fixed"] == pytest.approx(before.features["fixed"], abs=0.6)


def test_nothing_is_tokenized_again():
    context = built(HIDDEN)
    texts = [message["content"] for message in context.request["messages"]]
    assert find_uncounted("o200k_base", texts) == []
    assert sum(count_texts("o200k_base", texts)) <= seen(context, 150).features["tokens"]


def test_media_are_separate_and_are_not_a_truncation():
    model = msgspec.structs.replace(HIDDEN, modalities=("text", "image"))
    image = {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}
    messages = [{"role": "user", "content": [{"type": "text", "text": "Look"}, image]}]
    context = assemble(conversation(messages, model=model), model=model, now=0.0)
    assert seen(context, 50).features["media"] > 500
    assert seen(context, 50).kind == "usage"


def test_a_prompt_that_was_read_in_part_is_a_cut():
    context = assemble(conversation(HISTORY * 20, model="llama3.1:8b"), model="llama3.1:8b", now=0.0)
    assert seen(context, context.tokens // 2).kind == "cut"
    assert seen(context, context.tokens - 5).kind == "usage"


def test_nothing_is_learned_from_servers_that_report_only_uncached_tokens():
    context = assemble(conversation(HISTORY * 20, model="llama3.1:8b"), model="llama3.1:8b", now=0.0)
    rest = seen(context, 100, expected_cached=context.tokens - 100)
    assert (rest.kind, rest.reported, rest.features) == ("usage", 0, {})


def test_approximated_counts_teach_nothing():
    context = built(HIDDEN, overrides={"counting": "approximate"})
    assert seen(context, 150).features == {}


def test_requests_that_others_wrote_are_observed_too():
    context = fit({"model": HIDDEN.id, "messages": HISTORY, "top_k": 7}, model=HIDDEN, now=0.0)
    assert seen(context, 150).features["messages"] == 4.0


def test_an_overflow_tells_the_window():
    context = built(HIDDEN)
    error = ContextOverflow(ROUTE, "too long", window=100, prompt=5000)
    observation = make_overflow_report(context, error, route=ROUTE, at=1.0, id="over-1", room="general")
    assert (observation.kind, observation.window, observation.reported) == ("overflow", 100, 5000)
    bare = make_overflow_report(context, ContextOverflow(ROUTE, "too long"), route=ROUTE, at=1.0, id="over-2")
    assert (bare.window, bare.reported) == (None, 0)


KNOWN = resolve("gpt-4o")  # with a window of 128,000
SENTENCE = "This model's maximum context length is {} tokens."


def window_learned(sentence, *, words=0, model=HIDDEN, body=b"", **more):
    """Return the window that is learned if a request of so many words is refused with a sentence."""
    messages = [{"role": "user", "content": "word " * words + more.pop("said", "")}]
    request = {"model": model.id, "messages": messages, **more}
    context = fit(request, model=model, window=1_000_000, now=0.0)
    error = make_provider_error(ErrorSource(route=ROUTE), 400, body or error_body(sentence))
    return make_overflow_report(context, error, route=ROUTE, at=1.0, id="over-1").window


def error_body(sentence):
    return msgspec.json.encode({"error": {"message": sentence, "type": "invalid_request_error"}})


def test_a_window_is_believed_only_if_the_request_is_longer():
    sentence = SENTENCE.format("8,192")
    assert window_learned(sentence, words=20_000) == 8192
    assert window_learned(sentence, words=2_000) is None
    assert window_learned(sentence, words=2_000, max_tokens=8_000) == 8192


def window_learned_with(item):
    """Return the window that is learned if a request of OpenAI's Responses API with this item is refused."""
    items = [{"role": "user", "content": "word " * 20_000}, item]
    context = fit({"model": "gpt-4o", "input": items}, wire="responses", now=0.0)
    assert "unknown-size" in {notice.kind for notice in context.warnings}
    error = make_provider_error(ErrorSource(route=ROUTE), 400, error_body(SENTENCE.format("16,384")))
    return make_overflow_report(context, error, route=ROUTE, at=1.0, id="over-1").window


def test_a_window_is_believed_beside_encrypted_reasoning_but_not_beside_documents():
    encrypted = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA" * 300}
    assert window_learned_with(encrypted) == 16_384
    assert window_learned_with({"type": "item_reference", "id": "rs_1"}) is None
    document = {"type": "input_file", "file_url": "https://x.example/a.pdf"}
    assert window_learned_with({"role": "user", "content": [document]}) is None


@pytest.mark.parametrize(
    "said",
    [
        "This model's maximum context length is 300 tokens. However, your messages resulted in 5000 tokens.",
        "maximum context length is\n300 tokens",
        "Maximum context length = _300_",
    ],
)
def test_a_sentence_of_the_request_itself_names_no_window(said):
    echoed = f"invalid content: {said!r}"
    assert window_learned(SENTENCE.format(300), words=5_000) == 300
    assert window_learned(echoed, words=5_000, said=said) is None


def test_a_sentence_cannot_take_most_of_a_known_models_window():
    assert window_learned(SENTENCE.format(32_000), words=60_000, model=KNOWN) == 32_000
    assert window_learned(SENTENCE.format(4_096), words=60_000, model=KNOWN) is None
    stated = {"message": "too long", "type": "exceed_context_size_error", "n_ctx": 4096, "n_prompt_tokens": 60_009}
    body = msgspec.json.encode({"error": stated})
    assert window_learned("", words=60_000, model=KNOWN, body=body) == 4096


@pytest.mark.parametrize(
    "more",
    [
        {"tools": [{"type": "web_search_20250305", "name": "web_search"}]},
        {"mcp_servers": [{"type": "url", "url": "https://example.org", "name": "it"}]},
    ],
)
def test_usage_with_the_results_of_the_providers_own_tools_teaches_nothing(more):
    request = {"model": "claude-sonnet-4-5", "max_tokens": 9, "messages": HISTORY[1:]}
    assert seen(fit(request, wire="anthropic"), 300).features
    assert seen(fit(request | more, wire="anthropic"), 3_000).features == {}
