"""The output limit and the prompt limit of a request."""

import pytest

import brimful
from brimful.errors import BudgetExceeded, InvalidValue

CHAT = [{"role": "user" if n % 2 == 0 else "assistant", "content": f"Message {n}. " + "word " * 40} for n in range(41)]


def fitted(model, *, wire="openai", completion=100, **fields):
    return brimful.fit({"model": model, "messages": CHAT, **fields}, wire=wire, completion=completion, now=0)


@pytest.mark.parametrize(
    ("model", "wire", "field"),
    [
        ("gpt-4o", "openai", "max_completion_tokens"),
        ("o3", "openai", "max_completion_tokens"),
        ("gpt-5", "openai", "max_completion_tokens"),
        ("qwen2.5:7b", "openai", "max_tokens"),
        ("claude-sonnet-4-5", "openai", "max_tokens"),
        ("claude-sonnet-4-5", "anthropic", "max_tokens"),
        ("nobody-knows", "openai", "max_tokens"),
    ],
)
def test_fit_writes_the_limit_that_it_reserves(model, wire, field):
    context = fitted(model, wire=wire)
    assert context.budget.completion == 100
    limits = {key: value for key, value in context.request.items() if key not in ("model", "messages")}
    assert limits == {field: 100}
    assert fitted(model, wire=wire, **{field: None}).request[field] == 100


@pytest.mark.parametrize("field", ["max_tokens", "max_completion_tokens"])
def test_the_callers_own_limit_stays(field):
    request = fitted("gpt-4o", **{field: 7}).request
    assert {key: request.get(key) for key in ("max_tokens", "max_completion_tokens") if key in request} == {field: 7}


def test_without_a_limit_none_is_written_and_the_report_says_what_is_reserved():
    context = fitted("gpt-4", completion=None)
    assert context.request.keys() == {"model", "messages"}
    assert "    Answer:                 2,048 (by default)\n" in context.report()
    assert "    Answer:                   100\n" in fitted("gpt-4").report()


PACKAGES = brimful.conversation(CHAT, model="gpt-4o")
WAYS = {
    "fit": lambda **options: brimful.fit({"model": "gpt-4o", "messages": CHAT}, now=0, **options),
    "assemble": lambda **options: brimful.assemble(PACKAGES, model="gpt-4o", now=0, **options),
    "replay": lambda **options: brimful.replay(WAYS["assemble"](), **options),
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_a_prompt_can_be_limited_in_a_large_window(way):
    assert len(way().request["messages"]) == 41
    context = way(max_prompt_tokens=1000)
    assert 800 < context.tokens <= 1000
    assert context.budget.window == 128_000
    assert "    Prompt limit:           1,000\n" in context.report()
    assert way(max_prompt_tokens=1000, overrides={"total_tokens": 500}).tokens <= 500
    with pytest.raises(BudgetExceeded):
        way(max_prompt_tokens=5)
    for wrong in (0, -1, 2.5, "many", float("nan"), True):
        with pytest.raises(InvalidValue, match=r"^max_prompt_tokens: must be a positive"):
            way(max_prompt_tokens=wrong)


def test_a_budget_takes_the_limit_and_is_refused_if_nothing_is_left():
    assert brimful.budget(model="gpt-4o", max_prompt_tokens=1000).hard_limit == 1000
    with pytest.raises(InvalidValue, match=r"^completion: 200,000 tokens for the answer .* window of 128,000"):
        brimful.budget(model="gpt-4o", completion=200_000)
