"""Our count equals the server's, and no request is too long."""

import json
import unicodedata
from datetime import UTC, datetime
from itertools import count, islice
from statistics import mean

import httpx2
import msgspec
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from brimful import assemble, conversation, fit
from brimful.core.prompt import Tool, clean_data
from brimful.counting import count_text, count_with_special_tokens, counter_for, template_names
from brimful.counting.chat_template import DEFAULT_DATE, ChatTemplate
from brimful.errors import BudgetExceeded
from brimful.wires import request_bytes
from families import BY_FILE, EXACT, FAMILIES, SAYING_OK
from wild import wild, wild_request

NOW = 1_800_000_000.0
COMPLETION = 16
MAIN = ("qwen-2.5", "llama-3.1", "gemma-4")
SEEDS = st.integers(0, 2**32)


@pytest.fixture(scope="module")
def http():
    with httpx2.Client(timeout=120) as client:
        yield client


def built(family, server, seed, **options):
    values = wild(seed, FAMILIES[family].special, **options)
    packages = conversation(values.messages, model=server.info, min_tokens=24)
    try:
        return assemble(packages, model=server.info, completion=COMPLETION, tools=values.tools, now=NOW)
    except BudgetExceeded:  # a question, a system prompt and tools that are too much for any window of this size
        return reject()


def billed(http, server, request):
    """Return the server's count of a request."""
    body = request_bytes({**request, **SAYING_OK})
    answer = http.post(f"{server.address}/v1/chat/completions", content=body)
    assert answer.status_code == 200, answer.text
    assert answer.json()["choices"][0]["message"]["content"].endswith("ok")
    return answer.json()["usage"]["prompt_tokens"]


@pytest.mark.parametrize("family", MAIN)
@settings(max_examples=20)
@given(seed=SEEDS)
def test_the_count_is_the_servers(llama, http, family, seed):
    server = llama(family)
    context = built(family, server, seed)
    assert (context.tokens, context.verification.basis) == (billed(http, server, context.request), "exact")


@pytest.mark.parametrize("family", sorted(set(EXACT) - set(MAIN)))
@settings(max_examples=4)
@given(seed=SEEDS)
def test_counts_match_the_servers_for_sister_models(llama, http, family, seed):
    server = llama(family)
    context = built(family, server, seed)
    assert context.tokens == billed(http, server, context.request)


@pytest.mark.parametrize("family", [*EXACT, *BY_FILE])
@settings(max_examples=8)
@given(seed=SEEDS)
def test_counts_match_the_servers_for_generated_client_requests(llama, http, family, seed):
    server = llama(family)
    request = msgspec.json.decode(msgspec.json.encode(clean_data(wild_request(seed, FAMILIES[family].special))))
    try:
        context = fit(request | {"max_tokens": COMPLETION}, model=server.info)
    except BudgetExceeded:
        reject()
    answer = http.post(f"{server.address}/apply-template", content=request_bytes(context.request))
    if answer.status_code != 200:  # two calls in a message, broken arguments: the template or the server refuses them
        assert "exceed_context_size" not in answer.text
        reject()
    rendered = {"content": answer.json()["prompt"], "add_special": True, "parse_special": True}
    tokens = http.post(f"{server.address}/tokenize", content=json.dumps(rendered).encode()).json()["tokens"]
    if context.verification.basis == "bound":  # only our template engine refuses these messages
        assert family in BY_FILE
        assert context.tokens >= len(tokens)
    else:
        assert (context.tokens, context.verification.basis) == (len(tokens), "exact")


QUESTION = [{"role": "user", "content": "hi"}]
CALLED = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a": ["\ue000\u0378", 1e-7, null]}'}}
PARTS = [{"type": "text", "text": "Look:"}, {"type": "text", "text": ""}, {"type": "text", "text": " at this"}]
CLIENT_REQUESTS = {
    "parts": {"messages": [{"role": "system", "content": PARTS}, {"role": "user", "content": PARTS}]},
    "one part": {"messages": [{"role": "user", "content": PARTS[:1]}]},
    "reasoning": {
        "messages": [
            *QUESTION,
            {"role": "assistant", "content": None, "reasoning_content": "Let me think.", "tool_calls": [CALLED]},
            {"role": "tool", "tool_call_id": "c1", "content": "4"},
        ]
    },
    "no thinking": {"messages": QUESTION, "chat_template_kwargs": {"enable_thinking": False}},
    "no effort": {"messages": QUESTION, "reasoning_effort": "none"},
    "developer": {"messages": [{"role": "developer", "content": "Be brief."}, *QUESTION]},
}


@pytest.mark.parametrize("family", EXACT)
@pytest.mark.parametrize("name", CLIENT_REQUESTS)
@pytest.mark.parametrize("by_file", [False, True])
def test_counts_match_the_servers_for_client_requests(llama, http, family, name, by_file):
    server = llama(family)
    model = server.info.with_tokenizer(str(FAMILIES[family].file())) if by_file else server.info
    context = fit(CLIENT_REQUESTS[name] | {"max_tokens": COMPLETION}, model=model)
    billed_tokens = billed(http, server, {**context.request, "max_tokens": 1})
    assert (context.tokens, context.verification.basis) == (billed_tokens, "exact")


@pytest.mark.parametrize("family", MAIN)
def test_a_full_window_is_filled_to_the_brim_and_never_refused(llama, http, family):
    server = llama(family)
    contexts = (built(family, server, seed, turns=90, length=200) for seed in count())
    full = list(islice((one for one in contexts if any(decision.reason == "older" for decision in one.decisions)), 4))
    for context in full:
        assert billed(http, server, context.request) == context.tokens <= server.window - COMPLETION
    assert mean(context.tokens / context.budget.available for context in full) >= 0.97


@pytest.mark.parametrize("family", MAIN)
@pytest.mark.parametrize("tool", [{"name": "now", "description": "Tells the time."}, {"name": "now", "strict": True}])
def test_counts_match_the_servers_for_a_tool_without_parameters(llama, http, family, tool):
    server = llama(family)
    request = {"messages": [{"role": "user", "content": "hi"}], "tools": [{"type": "function", "function": tool}]}
    fitted = fit(request | {"max_tokens": COMPLETION}, model=server.info)
    assert fitted.tokens == billed(http, server, {**fitted.request, "max_tokens": 1})


def test_the_server_refuses_a_request_that_was_not_fitted(llama, http):
    server = llama("qwen-2.5")
    request = {"messages": [{"role": "user", "content": "word " * server.window}]}
    answer = http.post(f"{server.address}/v1/chat/completions", json=request)
    assert (answer.status_code, answer.json()["error"]["type"]) == (400, "exceed_context_size_error")


@pytest.mark.parametrize("family", EXACT)
def test_the_servers_template_is_ours(llama, http, family):
    server = llama(family)
    theirs = http.get(f"{server.address}/props").json()["chat_template"]
    name = server.info.chat_template
    assert name in template_names()
    ours = ChatTemplate.named(name, runtime="llama.cpp").render([{"role": "user", "content": "hi"}])
    assert ChatTemplate(theirs, runtime="llama.cpp").render([{"role": "user", "content": "hi"}]) == ours


@pytest.mark.parametrize("family", ["llama-3.1", "llama-3.2"])
def test_a_day_costs_as_much_as_any_other(llama, http, family):
    server = llama(family)
    messages = [{"role": "user", "content": "hi"}]
    rendered = http.post(f"{server.address}/apply-template", json={"messages": messages}).json()["prompt"]
    assert f"{datetime.now(UTC):%d %b %Y}" in rendered or f"{DEFAULT_DATE:%d %b %Y}" in rendered
    today = billed(http, server, {"messages": messages})
    days = (DEFAULT_DATE.replace(month=month, day=day) for month in range(1, 13) for day in (1, 9, 10, 28))
    bos = "<|begin_of_text|>"
    templates = (ChatTemplate.named(server.info.chat_template, bos=bos, today=day) for day in days)
    assert {count_with_special_tokens("llama3", template.render(messages)) for template in templates} == {today}


@settings(max_examples=60)
@given(text=st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from("e\u0301 a\u030a\n\u00a0"), max_size=40))
@pytest.mark.parametrize("family", MAIN)
def test_any_text(llama, http, family, text):
    server = llama(family)
    counter = counter_for(server.info)
    spelled = {"content": text, "add_special": False, "parse_special": False}
    tokens = http.post(f"{server.address}/tokenize", content=json.dumps(spelled).encode()).json()["tokens"]
    assert counter.text(text).tokens == len(tokens)


SPELLED = (
    "<think>",
    "</tool_call>",
    "<|tool_call>",
    '<|"|>',
    "<|channel>",
    "<tool_response|>",
    "<|fim_prefix|>",
    "</s>",
)


@pytest.mark.parametrize(
    "text", [*SPELLED, "<|reserved_special_token_250|>", "<|step_id|>", *("x" + " " * 33, "\n" * 32)]
)
@pytest.mark.parametrize("family", EXACT)
@pytest.mark.parametrize("special", [True, False])
def test_texts_that_spell_tokens(llama, http, family, text, special):
    server = llama(family)
    vocabulary = counter_for(server.info).tokenizer
    spelled = {"content": f"a {text}b", "add_special": False, "parse_special": special}
    tokens = http.post(f"{server.address}/tokenize", content=json.dumps(spelled).encode()).json()["tokens"]
    ours = count_with_special_tokens if special else count_text
    assert ours(vocabulary, f"a {text}b") == len(tokens)


def test_the_other_runtime_normalizes(llama, http):
    server = llama("qwen-2.5")
    text = "e\u0301"
    spelled = {"content": text, "add_special": False}
    tokens = http.post(f"{server.address}/tokenize", json=spelled).json()["tokens"]
    elsewhere = counter_for(msgspec.structs.replace(server.info, runtime="transformers"))
    assert elsewhere.text(text) == elsewhere.text(unicodedata.normalize("NFC", text))
    assert elsewhere.text(text).tokens < len(tokens)


@settings(max_examples=15)
@given(seed=SEEDS)
@pytest.mark.parametrize("family", MAIN)
def test_a_message_that_the_server_goes_on_with_is_bounded(llama, http, family, seed):
    server = llama(family)
    history = [*wild(seed, turns=3).messages[:1], {"role": "user", "content": "hi"}]
    messages = [message for message in history if message["role"] != "assistant"]
    packages = conversation(
        [*messages, {"role": "assistant", "content": wild(seed).messages[-1]["content"] or "Well"}], model=server.info
    )
    context = assemble(packages, model=server.info, completion=COMPLETION, now=NOW)
    assert billed(http, server, context.request) <= context.tokens


SMALL_TALK = [
    {"role": "system", "content": "You are Smol, a small companion. Answer in one sentence."},
    {
        "role": "user",
        "name": "Ada",
        "content": "My bicycle is a red Gazelle, order #W7382910, and cost $1,299.00 on 2026-11-15.",
    },
    {"role": "assistant", "content": "What a fine bicycle! Do you ride it often?"},
    {
        "role": "user",
        "name": "Ada",
        "content": "def ride(km: int) -> str:\n    return f'{km} km'\n\nWhat does that do?",
    },
]


WEATHER = {
    "name": "weather",
    "description": "Return the weather in a city for some days, with wind and rain.",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string", "description": "The name of the city"}, "days": {"type": "integer"}},
    },
}
LOOKED_UP = [
    {
        "role": "assistant",
        "content": "",
        "tool_calls": [
            {
                "id": "c1",
                "type": "function",
                "function": {"name": "weather", "arguments": '{"city": "Oslo", "days": 3}'},
            }
        ],
    },
    {"role": "tool", "tool_call_id": "c1", "content": "It rains on all three days."},
]


@pytest.mark.parametrize("tools", [0, 1, 5])
def test_smollm2_is_counted_by_another_vocabulary_and_covered(llama, http, tools):
    server = llama("smollm2")
    offered = [Tool(**WEATHER | {"name": f"weather_{number}"}) for number in range(tools)]
    messages = [*SMALL_TALK, *LOOKED_UP] if tools else SMALL_TALK
    packages = conversation(messages, model=server.info)
    context = assemble(packages, model=server.info, tools=offered, completion=COMPLETION, now=NOW)
    body = request_bytes({**context.request, "max_completion_tokens": 1})
    usage = http.post(f"{server.address}/v1/chat/completions", content=body).json()["usage"]
    assert context.verification.basis == "calibrated"
    assert usage["prompt_tokens"] <= context.tokens <= 1.35 * usage["prompt_tokens"]
