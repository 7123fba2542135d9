"""Budgets are kept exactly, whatever the texts."""

import asyncio
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import brimful
from brimful.engine import Engine
from brimful.errors import InvalidValue
from brimful.mcp.budget import MIN_BUDGET, Block, fill, fit_text
from brimful.mcp.tools import Explain, Fetch, History, Memories, Recall, Search, Toolbox
from strategies import TEXTS, examples

BUDGETS = st.integers(MIN_BUDGET, 400)
LONG_TEXTS = st.one_of(TEXTS, st.builds(lambda text, times: f'{text} \\ "tea" ' * times, TEXTS, st.integers(1, 200)))


def tokens(text):
    return brimful.count(text, model="gpt-4o").upper


def words(text):
    return len(text.split())


def with_rest(blocks):
    return lambda shown: "\n\n".join([*shown, *([f"{len(blocks) - len(shown)} more"] * (len(shown) < len(blocks)))])


@given(st.lists(st.builds(Block, st.text(max_size=20), LONG_TEXTS), max_size=12), BUDGETS, TEXTS)
@settings(max_examples=examples(60), deadline=None)
def test_blocks_never_exceed_the_budget_and_stay_whole_if_they_fit(blocks, budget, query):
    compose = with_rest(blocks)
    result = fill(blocks, compose, budget, tokens, query)
    assert tokens(result) <= budget
    whole = compose([str(block) for block in blocks])
    assert result == whole or tokens(whole) > budget


@given(LONG_TEXTS, BUDGETS, TEXTS)
@settings(max_examples=examples(60), deadline=None)
def test_a_text_in_json_never_exceeds_the_budget(text, budget, query):
    result = fit_text(text, lambda part: json.dumps({"id": "m1", "text": part}), budget, tokens, query)
    assert tokens(result) <= budget
    shown = json.loads(result)["text"]
    assert shown == text or tokens(json.dumps({"id": "m1", "text": text})) > budget


def test_a_long_text_leaves_room_for_others():
    blocks = [Block("[a]", "one two three. " * 200), *(Block(f"[{name}]", "short") for name in "bcd")]
    result = fill(blocks, with_rest(blocks), 100, words)
    assert all(f"[{name}]" in result for name in "abcd")
    assert words(result) <= 100


def test_a_block_is_left_out_only_if_it_does_not_fit():
    blocks = [Block(f"[{at}]", "one two three four five six seven") for at in range(50)]
    compose = with_rest(blocks)
    result = fill(blocks, compose, 100, words)
    shown = result.count("[")
    assert result == compose([str(block) for block in blocks[:shown]])
    assert words(compose([str(block) for block in blocks[: shown + 1]])) > 100


def test_headings_of_any_length_fit():
    blocks = [Block("[" + "very-long-id " * 500 + "]", "text")]
    assert words(fill(blocks, with_rest(blocks), 60, words)) <= 60


def test_an_item_that_cannot_fit_says_how_much_it_needs():
    with pytest.raises(InvalidValue, match="must be at least 101"):
        fit_text("text", lambda part: "id " * 100 + f"{{{part}}}", 50, words)


@given(
    texts=st.lists(LONG_TEXTS.filter(str.strip), min_size=1, max_size=6),
    budget=BUDGETS,
    query=st.sampled_from(["tea", "When was Ada at home?"]),
)
@settings(max_examples=examples(12), deadline=None)
def test_every_reading_tool_keeps_its_budget(texts, budget, query):
    async def read():
        async with Engine("sqlite://", model="gpt-4o", embedder="none") as engine:
            for at, text in enumerate(texts):
                await engine.post(room="r", text=f"tea {text}", id=f"m{at}", at=1_000.0 + at)
                await engine.remember(f"tea {text}", id=f"mem{at}", at=1_000.0 + at)
            context = await engine.assemble(room="r", message=query, window=2_000, completion=100)
            box = Toolbox(engine)
            yield await box.recall(Recall(query=query, budget=budget))
            yield await box.memories(Memories(budget=budget))
            yield await box.history(History(budget=budget))
            yield await box.history(History(room="r", budget=budget))
            yield await box.search(Search(query=query, budget=budget))
            yield await box.fetch(Fetch(id="m0", budget=max(500, budget)))
            yield await box.explain(Explain(budget=budget))
            yield await box.explain(Explain(context=context.id, budget=budget))
            yield await box.explain(Explain(context=context.id, item="m0", budget=budget))
            yield await box.show_record("mem0", budget)

    async def collect():
        return [text async for text in read()]

    results = asyncio.run(collect())
    fetched = results.pop(5)
    assert tokens(fetched) <= max(500, budget)
    assert json.loads(fetched)["id"] == "m0"
    assert all(result["id"] for result in json.loads(results[4])["results"])
    assert [text for text in results if tokens(text) > budget] == []
    assert all(results)
