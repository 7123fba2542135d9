"""Rows of the seeds about items in several sizes. The numbers are those of the seed and of its row."""

import asyncio

import pytest

from brimful import ToolCall, ToolResult
from brimful.engine import Engine
from brimful.packagers import memory, message, tool_turn
from brimful.policies import policy_names
from brimful.records import Lorebook, LoreEntry, Memory, Room
from strategies import COUNTER, NOW
from support import build, words

LOG = " ".join(f"Step {n} of the deployment went well." for n in range(900))


def build_in_room(url, texts, message, *records, **options):
    """Post messages to a room of a new engine, load other records, and build a context for the next message."""

    async def story():
        async with Engine(url, clock=lambda: NOW, model="gpt-4", embedder="none") as engine:
            await engine.load([Lorebook(id="world", name="World"), Room(id="r", lorebooks=("world",)), *records])
            for n, text in enumerate(texts):
                await engine.post(room="r", text=text, sender="Ada", id=f"m{n}", at=NOW - 100 + n)
            return await engine.assemble(room="r", message=message, now=NOW, **options)

    return asyncio.run(story())


@pytest.mark.parametrize("policy", ["default", "window", "pools", "split", "auction"])
@pytest.mark.parametrize("large", [5, 21], ids=["among them", "newest"])
def test_0_19_0_36_1_15_1_19_the_fill_goes_on_past_a_large_message(sqlite_url, policy, large):
    """The fill goes on past what does not fit; small models still get a history."""
    texts = [LOG if n == large else f"Message number {n}." for n in range(22)]
    context = build_in_room(sqlite_url, texts, "What next?", policy=policy)
    assert {f"m{n}" for n in range(22)} <= set(context.kept)
    assert context.decision(f"m{large}").form in ("digest", "excerpt")
    assert "Step 0 of the deployment" in str(context.request)


def test_0_6_stored_content_shrinks_before_it_is_dropped(sqlite_url):
    """Flexible content may shrink to its minimum tokens before it is dropped, in the order of the auction."""
    saga = " ".join(f"In year {n} the valley was quiet." for n in range(900)) + " In year 900 Smaug woke up."
    records = [
        Memory(id="memory", content=saga.replace("valley", "old valley"), at=NOW - 50),
        LoreEntry(id="lore", lorebook="world", content=saga, keys=("smaug",)),
    ]
    context = build_in_room(sqlite_url, [LOG, "Short."], "When did Smaug wake up?", *records, policy="auction")
    forms = {each.id: each.form for each in context.decisions}
    assert {"m0": "digest", "m1": "full"}.items() <= forms.items()
    assert forms["memory"] == forms["lore"] == "excerpt"
    assert str(context.request).count("In year 900 Smaug woke up.") == 2
    shrunk = [each for each in context.decisions if each.outcome == "shrunk"]
    assert min(each.tokens for each in shrunk) >= context.inputs.policy.forms.min_tokens
    assert context.tokens <= context.budget.available


def test_0_6_the_order_of_the_auction_holds_with_forms():
    """What scores higher is in full where it fits; what scores lower shrinks into the rest, or is dropped."""
    notes = [
        memory(words(200, f"fact{n}"), counter=COUNTER, id=f"n{n}", min_tokens=20, relevance=1 - n / 10, timestamp=NOW)
        for n in range(6)
    ]
    context = build(notes, "auction", window=2200, completion=500)
    assert [context.decision(f"n{n}").form for n in range(4)] == ["full", "full", "full", "excerpt"]
    assert [context.decision(f"n{n}").outcome for n in (4, 5)] == ["dropped", "dropped"]


@pytest.mark.parametrize("policy", policy_names())
def test_4_23_what_is_required_and_too_large_is_shortened(policy):
    """Truncation if the whole is over: of a tool result first, of what the user wrote only if that is not enough."""
    rows = " ".join(f"Row {n} is fine." for n in range(3000))
    call = ToolCall(id="c", name="look_up")
    turn = tool_turn([call], [ToolResult(id="c", content=rows)], counter=COUNTER, id="t", timestamp=NOW, can_drop=False)
    asked = message("What is in row 7? " + words(400), counter=COUNTER, id="now", current=True, timestamp=NOW + 1)
    context = build([*turn, asked], policy, window=3000, completion=1000)
    assert (context.decision("t/c").form, context.decision("now").form) == ("excerpt", "full")
    assert "Row 7 is fine." in str(context.request)
    assert next(each for each in context.warnings if each.kind == "required-shrunk").facts == {"ids": ["t/c"]}

    pasted = message("Look at this: " + rows, counter=COUNTER, id="now", current=True, timestamp=NOW + 1)
    context = build([*turn, pasted], policy, window=3000, completion=1000)
    assert context.decision("now").form == "excerpt"
    assert next(each for each in context.warnings if each.kind == "required-shrunk").facts == {"ids": ["now", "t/c"]}
