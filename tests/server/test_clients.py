"""The official clients, unmodified, through the proxy to a real llama.cpp."""

import json
from statistics import median

import anthropic
import httpx2
import openai
import pytest

from brimful.server.app import create_app
from brimful.server.config import parse_config
from server.upstream import serving

TOOL = {
    "type": "function",
    "function": {
        "name": "look_up",
        "description": "Look up a fact.",
        "parameters": {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]},
    },
}


@pytest.fixture(scope="module")
def qwen(llama):
    return llama("qwen-2.5")


@pytest.fixture(scope="module")
def proxy(qwen, tmp_path_factory):
    """The address of a proxy that was told nothing but where the server is."""
    store = tmp_path_factory.mktemp("proxy") / "brimful.db"
    config = {"upstreams": [{"name": "llama", "url": f"{qwen.address}/v1"}], "store": f"sqlite:///{store}"}
    with serving(create_app(parse_config(config, "brimful.toml"), environ={})) as (address, _):
        yield address


@pytest.fixture(scope="module")
def gpt(proxy):
    with openai.OpenAI(base_url=f"{proxy}/v1", api_key="none", max_retries=0) as client:
        yield client


@pytest.fixture(scope="module")
def claude(proxy):
    with anthropic.Anthropic(base_url=proxy, api_key="none", max_retries=0) as client:
        yield client


def called(turn):
    function = {"name": "look_up", "arguments": json.dumps({"q": f"fact {turn}"})}
    return [
        {"role": "user", "content": f"What is fact {turn}? Please look it up and tell me in a sentence."},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": f"call_{turn}", "type": "function", "function": function}],
        },
        {"role": "tool", "tool_call_id": f"call_{turn}", "content": json.dumps({"fact": turn, "value": turn * 7})},
        {"role": "assistant", "content": f"Fact {turn} has the value {turn * 7}, as far as I can see."},
    ]


def agent(turns):
    history = [message for turn in range(turns) for message in called(turn)]
    return [{"role": "system", "content": "Be brief."}, *history, {"role": "user", "content": "Sum it all up."}]


def record_of(proxy, context):
    return httpx2.get(f"{proxy}/brimful/v1/contexts/{context}").json()


def sent_for(proxy, context):
    return httpx2.get(f"{proxy}/brimful/v1/contexts/{context}/request").json()["messages"]


def test_three_hundred_turns_with_tools_fit_through_the_proxy(qwen, proxy, gpt):
    messages = agent(300)
    request = {"model": qwen.model, "messages": messages, "tools": [TOOL], "max_tokens": 16, "temperature": 0}
    with (
        openai.OpenAI(base_url=f"{qwen.address}/v1", api_key="none", max_retries=0) as direct,
        pytest.raises(openai.BadRequestError, match="exceeds the available context size"),
    ):
        direct.chat.completions.create(**request)
    raw = gpt.chat.completions.with_raw_response.create(**request)
    answer = raw.parse()
    assert answer.choices[0].finish_reason in ("stop", "length", "tool_calls")
    record = record_of(proxy, raw.headers["x-brimful-context"])
    assert "overflowed" not in [warning["kind"] for warning in record["warnings"]]
    assert answer.usage.prompt_tokens == record["tokens"] <= record["hard_limit"]
    assert record["tokens"] > 0.8 * record["hard_limit"]  # a trim leaves room for the next steps
    included = sorted(
        each["id"] for each in record["decisions"] if each["outcome"] == "kept" and each["id"] != "ledger"
    )
    out = {each["id"]: each for each in record["decisions"] if each["outcome"] == "replaced"}
    assert len(included) + len(out) == len(messages)
    assert included[:2] == ["msg-000000", "msg-000001"]  # the task
    assert out["msg-000002"]["why"].startswith("replaced: a line in 'ledger' stands for it")
    task, ledger, *rest = sent_for(proxy, record["id"])[1:]
    assert [messages[0], task, *rest] == [messages[int(id[4:])] for id in included]
    assert "look_up" in ledger["content"]
    assert record["answers"][0]["usage"]["prompt"] == record["tokens"]


def test_streams_are_forwarded_in_chunks(qwen, proxy, gpt):
    request = {"model": qwen.model, "messages": agent(300), "tools": [TOOL], "max_tokens": 12, "temperature": 0}
    whole = gpt.chat.completions.create(**request)
    with gpt.chat.completions.with_streaming_response.create(
        **request, stream=True, stream_options={"include_usage": True}
    ) as raw:
        chunks = list(raw.parse())
        context = raw.headers["x-brimful-context"]
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == (whole.choices[0].message.content or "")
    assert len(chunks) > 5
    assert chunks[-1].usage.prompt_tokens == record_of(proxy, context)["tokens"]


def test_choices_and_probabilities_are_forwarded(qwen, gpt):
    messages = [{"role": "user", "content": "Hi"}]
    answer = gpt.chat.completions.create(
        model=qwen.model, messages=messages, n=2, logprobs=True, top_logprobs=3, max_tokens=2
    )
    assert len(answer.choices) == 2
    assert len(answer.choices[0].logprobs.content[0].top_logprobs) == 3


def test_models_are_listed(gpt, claude):
    assert gpt.models.list().data[0].id
    assert claude.models.list().data[0].id


def test_unsupported_requests_return_the_upstreams_error(gpt):
    with pytest.raises(openai.APIStatusError, match="does not support embeddings") as refused:
        gpt.embeddings.create(model="any", input="tea")
    assert refused.value.status_code == 501


def test_a_required_part_that_is_too_long_is_an_openai_error(qwen, gpt):
    with pytest.raises(openai.BadRequestError, match="maximum context length") as refused:
        gpt.chat.completions.create(model=qwen.model, messages=[{"role": "system", "content": "word " * 9000}])
    assert refused.value.code == "context_length_exceeded"
    assert refused.value.param == "messages"


# -- Anthropic -------------------------------------------------------------------------------------------------------


def used(turn):
    return [
        {"role": "user", "content": f"What is fact {turn}? Please look it up."},
        {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": f"toolu_{turn}", "name": "look_up", "input": {"q": f"fact {turn}"}}],
        },
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": f"toolu_{turn}", "content": f"the value is {turn * 7}"}],
        },
        {"role": "assistant", "content": f"Fact {turn} has the value {turn * 7}."},
    ]


def claude_asks(turns):
    tool = {"name": "look_up", "input_schema": TOOL["function"]["parameters"]}
    history = [message for turn in range(turns) for message in used(turn)]
    messages = [*history, {"role": "user", "content": "Sum it all up."}]
    return {"model": "qwen2.5-7b", "system": "Be brief.", "max_tokens": 12, "tools": [tool], "messages": messages}


def test_anthropics_client_gets_an_answer_instead_of_an_overflow(qwen, proxy, claude):
    request = claude_asks(300)
    with (
        anthropic.Anthropic(base_url=qwen.address, api_key="none", max_retries=0) as direct,
        pytest.raises(anthropic.BadRequestError, match="exceeds the available context size"),
    ):
        direct.messages.create(**request)
    raw = claude.messages.with_raw_response.create(**request)
    answer = raw.parse()
    assert answer.role == "assistant"
    record = record_of(proxy, raw.headers["x-brimful-context"])
    assert record["left_out"] > 500
    used_tokens = answer.usage.input_tokens + (answer.usage.cache_read_input_tokens or 0)
    assert used_tokens <= record["hard_limit"]
    assert abs(used_tokens - record["tokens"]) <= 0.02 * record["tokens"]


def test_anthropic_streams_are_forwarded(proxy, claude):
    with claude.messages.stream(**claude_asks(300)) as stream:
        pieces = list(stream.text_stream)
        answer = stream.get_final_message()
    assert "".join(pieces) == "".join(block.text for block in answer.content if block.type == "text")
    context = stream.response.headers["x-brimful-context"]
    assert record_of(proxy, context)["answers"][0]["finish"] in ("stop", "length", "tool-calls")


def test_prompts_are_counted(claude):
    request = {key: value for key, value in claude_asks(3).items() if key != "max_tokens"}
    assert 50 < claude.messages.count_tokens(**request).input_tokens < 1000


def test_a_required_part_that_is_too_long_is_an_anthropic_error(claude):
    request = claude_asks(0) | {"system": "word " * 9000}
    with pytest.raises(anthropic.BadRequestError, match=r"prompt is too long: \d+ tokens > \d+ maximum"):
        claude.messages.create(**request)


# -- prompt caches ---------------------------------------------------------------------------------------------------


def test_the_upstreams_prompt_cache_holds_for_most_of_each_request(qwen, proxy):
    messages, shares = agent(90)[:-1], []
    for turn in range(90, 110):
        messages += called(turn)[:1]
        request = {"model": qwen.model, "messages": messages, "max_tokens": 1, "temperature": 0}
        # Without the official client, which needs longer for hundreds of messages than the proxy.
        usage = httpx2.post(f"{proxy}/v1/chat/completions", json=request, timeout=120).json()["usage"]
        shares.append(usage["prompt_tokens_details"]["cached_tokens"] / usage["prompt_tokens"])
        messages += called(turn)[1:]
    assert median(shares[2:]) >= 0.9


# -- memory ----------------------------------------------------------------------------------------------------------


def test_a_client_may_send_only_new_messages(qwen, proxy, gpt):
    headers = {"X-Brimful-Mode": "remember", "X-Brimful-Conversation": "cats", "X-Brimful-User": "ada"}
    for text in ("My cat is called Miso.", "And my dog is called Udon.", "What is my cat called?"):
        raw = gpt.chat.completions.with_raw_response.create(
            model=qwen.model, messages=[{"role": "user", "content": text}], max_tokens=4, extra_headers=headers
        )
    sent = sent_for(proxy, raw.headers["x-brimful-context"])
    assert "Miso" in sent[0]["content"]
    assert sent[-1]["content"] == "What is my cat called?"
