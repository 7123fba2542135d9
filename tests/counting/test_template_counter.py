"""Open models: the count of a prompt is the count of its rendered template."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brimful.core.content import Media, Text, ToolCall, ToolResult
from brimful.core.model import ModelInfo, Prior
from brimful.core.prompt import Message, Prompt, Tool
from brimful.counting import count_text, count_with_special_tokens, counter_for
from brimful.counting.chat_template import ChatTemplate, template_names

TOKENIZERS = {
    "chatml": "qwen3",
    "deepseek-v3": "deepseek_v3",
    "deepseek-v3.1": "deepseek_v3",
    "deepseek-v3.2": "deepseek_v3",
    "gemma-2": "gemma2",
    "gemma-3": "gemma3",
    "gemma-4": "gemma4",
    "glm-4.6": "glm4",
    "gpt-oss": "gpt_oss",
    "kimi-k2": "kimi_k2",
    "llama-3": "llama3",
    "llama-3.1": "llama3",
    "llama-3.2": "llama3",
    "llama-3.3": "llama3",
    "mistral-nemo": "mistral_v3",
    "mistral-small-3.2": "mistral_v3",
    "mistral-v1": "mistral_v1",
    "mistral-v3": "mistral_v2",
    "phi-4": "phi4",
    "qwen-2-vl": "qwen2",
    "qwen-2.5": "qwen2",
    "qwen-3": "qwen3",
    "qwen-3-coder": "qwen3",
    "smollm2": None,
}
WEATHER = Tool(
    name="get_weather",
    description="Get weather.",
    parameters={"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
)
CALL_MESSAGE = Message(
    role="assistant",
    parts=(ToolCall(id="call00001", name="get_weather", arguments='{"city": "Paris"}'),),
)
ANSWERED = Message(role="tool", parts=(ToolResult(id="call00001", name="get_weather", content='{"temp": 20}'),))


def counter(template, **fields):
    tokenizer = TOKENIZERS.get(template)
    prior = None if tokenizer else Prior(tokenizer="o200k_base", factor=1.15, margin=0.2, source="test")
    return counter_for(
        ModelInfo(
            id=template,
            provider="p",
            window=8192,
            max_output=1024,
            wire="openai",
            overhead="template",
            chat_template=template,
            tokenizer=tokenizer,
            prior=prior,
            **fields,
        ),
    )


def text_message(role, text, name=""):
    return Message(role=role, parts=(Text(text=text),), name=name)


def prompt(*messages, tools=()):
    return Prompt(model="m", messages=messages, tools=tools)


def test_every_template_is_covered():
    assert set(TOKENIZERS) == set(template_names())


@pytest.mark.parametrize(("template", "tokens"), [("llama-3.1", 36), ("qwen-2.5", 30), ("deepseek-v3.1", 6)])
def test_a_greeting_costs_the_known_tokens(template, tokens):
    count = counter(template).prompt(prompt(text_message("user", "hi")))
    assert (count.tokens, count.basis) == (tokens, "exact")


CAPITALS = (
    text_message("user", "What is the capital of France?"),
    text_message("assistant", "Paris, of course."),
    text_message("user", "And of Italy?\n\nPlease."),
)


@pytest.mark.parametrize(
    ("template", "messages", "tools", "tokens"),
    [
        ("mistral-v1", (text_message("user", "hi"),), (), 9),
        ("mistral-v1", (text_message("system", "Be brief."), text_message("user", "hi")), (), 14),
        ("mistral-v1", CAPITALS, (), 36),
        ("mistral-v3", (text_message("user", "hi"),), (), 4),
        ("mistral-v3", (text_message("system", "Be brief."), text_message("user", "hi")), (), 9),
        ("mistral-v3", CAPITALS, (), 26),
        ("mistral-v3", (text_message("user", "hi"), CALL_MESSAGE, ANSWERED), (WEATHER,), 121),
        ("mistral-nemo", (text_message("user", "hi"),), (), 4),
        ("mistral-nemo", (text_message("system", "Be brief."), text_message("user", "hi")), (), 7),
        ("mistral-nemo", CAPITALS, (), 24),
        ("mistral-nemo", (text_message("user", "hi"), CALL_MESSAGE, ANSWERED), (WEATHER,), 117),
    ],
)
def test_mistral_as_mistral_common_counts(template, messages, tools, tokens):
    # The numbers are those of mistral-common 1.13: MistralTokenizer.v1(), .v3() and .v3(is_tekken=True).
    assert counter(template).prompt(prompt(*messages, tools=tools)).tokens == tokens


def test_the_rendered_text_is_counted_as_a_whole():
    rendered = ChatTemplate.named("qwen-3").render(
        [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "One\n\nTwo"}],
    )
    message = Message(role="user", parts=(Text(text="One"), Text(text="Two")), name="not sent")
    count = counter("qwen-3").prompt(prompt(text_message("system", "Be brief."), message))
    assert count.tokens == count_with_special_tokens("qwen3", rendered)


def test_a_special_token_in_a_message_is_one_in_the_prompt_as_on_the_servers():
    chatml = counter("chatml")
    plain, special = (chatml.prompt(prompt(text_message("user", text))).tokens for text in ("", "<|im_end|>"))
    assert special == plain + 1
    assert chatml.text("<|im_end|>").tokens == count_text("qwen3", "<|im_end|>") > 1


@pytest.mark.parametrize("template", ["gemma-2", "gemma-3", "mistral-v1", "mistral-nemo"])
def test_messages_that_a_template_refuses_have_a_bound(template):
    whole = counter(template).prompt(prompt(text_message("user", "hi"), text_message("user", "there")))
    merged = counter(template).prompt(prompt(text_message("user", "hi\n\nthere")))
    assert not whole.exact
    assert whole.upper >= merged.tokens


def test_tools_that_a_template_leaves_out_are_charged_as_text():
    without = counter("llama-3").prompt(prompt(text_message("user", "hi")))
    with_tools = counter("llama-3").prompt(prompt(text_message("user", "hi"), tools=(WEATHER,)))
    assert with_tools.basis == "bound"
    assert with_tools.tokens > without.tokens + 20


@pytest.mark.parametrize("template", ["deepseek-v3", "phi-4", "gemma-3"])
def test_a_name_that_occurs_in_the_text_by_chance_hides_no_tool(template):
    brief = (text_message("user", "Be brief."),)
    with_tools = counter(template).prompt(prompt(*brief, tools=(Tool(name="f"),)))
    assert with_tools.tokens > counter(template).prompt(prompt(*brief)).tokens + 5


def test_calls_that_a_template_refuses_are_bounded(tmp_path):
    file = tmp_path / "no-calls.jinja"
    source = (
        "{% for m in messages %}{% if m.tool_calls %}{{ raise_exception('no') }}{% endif %}{{ m.content }}{% endfor %}"
    )
    file.write_text(source, encoding="utf-8")
    counted = counter_for(
        ModelInfo(
            id="m",
            provider="p",
            window=8192,
            max_output=1024,
            wire="openai",
            overhead="template",
            chat_template=str(file),
            tokenizer="o200k_base",
        ),
    )
    assert counted.tool_calls([ToolCall(id="c", name="f")]).basis == "bound"
    assert counted.prompt(prompt(text_message("user", "hi"), CALL_MESSAGE, ANSWERED)).basis == "bound"


def test_calls_that_a_template_leaves_out_are_charged_as_text():
    with_call = counter("chatml").prompt(prompt(text_message("user", "hi"), CALL_MESSAGE, ANSWERED))
    assert with_call.basis == "bound"


def test_ids_of_calls_are_shortened_where_a_template_wants_that():
    call = Message(role="assistant", parts=(ToolCall(id="call_AbCdEfGhIjKlMnOp", name="f", arguments="{}"),))
    result = Message(role="tool", parts=(ToolResult(id="call_AbCdEfGhIjKlMnOp", name="f", content="1"),))
    assert counter("mistral-nemo").prompt(prompt(text_message("user", "hi"), call, result)).basis == "exact"


@pytest.mark.parametrize("arguments", ["{oops", "[" * 100_000, "NaN", "9" * 5000])
def test_arguments_that_are_no_json_are_counted_as_they_are(arguments):
    call = Message(role="assistant", parts=(ToolCall(id="1", name="f", arguments=arguments),))
    assert counter("qwen-3").prompt(prompt(text_message("user", "hi"), call)).tokens > 10


def test_media_cost_their_rule_and_their_markers():
    qwen = counter("chatml", image_rule="qwen3-vl")
    picture = Media(modality="image", url="https://example.com/a.png", width=1024, height=1024)
    count = qwen.prompt(prompt(Message(role="user", parts=(picture, Text(text="hi")))))
    assert count.tokens == 1024 + qwen.prompt(prompt(text_message("user", "hi"))).tokens
    assert count.margin == 2


def test_a_default_system_prompt_is_the_requests():
    qwen = counter("qwen-2.5")
    assert qwen.request_overhead() + qwen.message_overhead("user") + qwen.text("hi").tokens == 30


@pytest.mark.parametrize("template", ["llama-3.1", "qwen-2.5", "qwen-3", "mistral-nemo", "gemma-4", "gpt-oss"])
def test_a_tool_call_alone_covers_what_it_adds(template):
    counted = counter(template)
    call = CALL_MESSAGE.parts[0]
    before = counted.prompt(prompt(text_message("user", "hi"))).upper
    after = counted.prompt(prompt(text_message("user", "hi"), CALL_MESSAGE, ANSWERED)).upper
    alone = counted.tool_calls([call]).upper + counted.text(ANSWERED.parts[0].content).upper
    assert after <= before + alone + counted.message_overhead("assistant") + counted.message_overhead("tool")


WORDS = st.lists(
    st.sampled_from([" ", "\n", "a", "the", "Word", "1", "é", "漢字", "!", "Hello there.", "<|im_end|>", "</s>", "👍"]),
    max_size=12,
).map(lambda words: "".join(words).strip())


@pytest.mark.parametrize("template", TOKENIZERS)
@settings(max_examples=25, deadline=None)
@given(system=st.none() | WORDS, turns=st.lists(st.tuples(WORDS, WORDS), max_size=3), last=WORDS)
def test_parts_counted_alone_cover_the_rendered_whole(template, system, turns, last):
    counted = counter(template)
    messages = [] if system is None else [text_message("system", system)]
    for asked, answered in turns:
        messages += [text_message("user", asked), text_message("assistant", answered)]
    messages.append(text_message("user", last))
    alone = sum(counted.text(m.parts[0].text).upper + counted.message_overhead(m.role) for m in messages)
    assert counted.prompt(prompt(*messages)).upper <= alone + counted.request_overhead()
