"""Requests in Anthropic's format as agents write them: results in blocks, thinking, tools of the server."""

import json
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import brimful
from brimful.assembly.fit import fit
from brimful.core.context import Context
from brimful.errors import BudgetExceeded
from brimful.testing import find_violations
from strategies import examples

NOW = 1_700_000_000
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
LONG = " ".join(f"Line {at} says what was found there." for at in range(400))
THINKING = {"type": "thinking", "thinking": "I should look it up. " * 30, "signature": "c2lnbmF0dXJl" * 20}


def text(content, **more):
    return {"type": "text", "text": content, **more}


def user(*blocks):
    return {"role": "user", "content": list(blocks)}


def assistant(*blocks):
    return {"role": "assistant", "content": list(blocks)}


def use(id, **arguments):
    return {"type": "tool_use", "id": id, "name": "look_up", "input": arguments}


def result(id, content, **more):
    return {"type": "tool_result", "tool_use_id": id, "content": content, **more}


def body(*messages, **more):
    return {"model": "claude-sonnet-4-5", "max_tokens": 64, "system": "Be brief.", "messages": list(messages), **more}


def fitted(request, tokens=None, **options):
    context = fit(request, wire="anthropic", max_prompt_tokens=tokens, now=NOW, **options)
    assert find_violations(context.request, "anthropic") == []
    assert brimful.replay(Context.from_json(context.to_json())).request == context.request
    return context


@pytest.mark.parametrize(
    "content",
    [
        LONG,
        [text(LONG)],
        [text(LONG[:5000]), text(LONG[5000:], cache_control={"type": "ephemeral"})],
        [text("Found:"), IMAGE, text(LONG)],
        [{"type": "search_result", "source": "a.txt", "title": "A", "content": [text(LONG)]}, text("Done.")],
        [{"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": LONG}, "title": "A"}],
        [{"type": "document", "source": {"type": "content", "content": [text(LONG), text("End.")]}}],
    ],
)
def test_a_large_last_result_is_shortened_whatever_its_blocks(content):
    request = body(user(text("What is there?")), assistant(use("t1", q="tea")), user(result("t1", content)))
    context = fitted(request, 600)
    assert context.shortened == (2,)
    answer = context.request["messages"][2]["content"][0]
    assert answer["tool_use_id"] == "t1"
    assert "Line" in json.dumps(answer["content"])
    assert fitted(request).request == request


def test_each_of_parallel_results_is_shortened():
    uses = [use(f"t{at}", q=at) for at in range(12)]
    results = [result(f"t{at}", [text(f"Result {at}. {LONG}")], is_error=at == 3) for at in range(12)]
    context = fitted(body(user(text("Look.")), assistant(*uses), user(*results, text("Go on."))), 1_500)
    blocks = context.request["messages"][2]["content"]
    assert [block.get("tool_use_id") for block in blocks] == [*(f"t{at}" for at in range(12)), None]
    assert [block["tool_use_id"] for block in blocks if block.get("is_error")] == ["t3"]
    assert all(f"Result {at}." in json.dumps(block) for at, block in enumerate(blocks[:-1]))
    assert blocks[-1] == text("Go on.")


def test_thinking_stays_with_its_call_and_is_never_shortened():
    turns = [user(text("Find everything."))]
    for at in range(8):
        redacted = {"type": "redacted_thinking", "data": "cmVkYWN0ZWQ" * 20}
        turns += [
            assistant(*([redacted] if at % 3 == 0 else []), THINKING, use(f"t{at}", q=at)),
            user(result(f"t{at}", [text(LONG[:1000]), text(LONG[1000:2000])])),
        ]
    request = body(*turns, thinking={"type": "enabled", "budget_tokens": 1024})
    for tokens in (1_200, 2_000, 3_000):
        messages = fitted(request, tokens).request["messages"]
        assert all(message in turns for message in messages if message["role"] == "assistant")
    alone = body(user(text("Hi.")), assistant({**THINKING, "thinking": LONG}), user(text("And?")))
    assert LONG[:-1] not in json.dumps(fitted(alone, 600).request["messages"][:-1])


def test_an_assistant_text_beside_a_call_can_be_shortened():
    turns = [user(text("Go.")), assistant(text(LONG), use("t1")), user(result("t1", "Done."))]
    context = fitted(body(*turns), 500)
    said, call = context.request["messages"][1]["content"]
    assert len(said["text"]) < len(LONG)
    assert call == use("t1")


SERVER = [
    {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "tea"}},
    {
        "type": "web_search_tool_result",
        "tool_use_id": "s1",
        "content": [
            {
                "type": "web_search_result",
                "url": "https://example.org/tea",
                "title": "Tea",
                "encrypted_content": "RW5jcnlwdGVk" * 40,
                "page_age": "May 2026",
            }
        ],
    },
]
CODE = [
    {"type": "server_tool_use", "id": "s2", "name": "code_execution", "input": {"code": "print(1)"}},
    {
        "type": "code_execution_tool_result",
        "tool_use_id": "s2",
        "content": {"type": "code_execution_result", "stdout": LONG, "stderr": "", "return_code": 0, "content": []},
    },
]
MCP = [
    {"type": "mcp_tool_use", "id": "m1", "name": "echo", "server_name": "local", "input": {"q": 1}},
    {"type": "mcp_tool_result", "tool_use_id": "m1", "is_error": False, "content": [text("One."), text("Two.")]},
]


def test_results_of_the_servers_tools_are_unchanged():
    turns = [user(text("Look.")), assistant(*SERVER, *MCP, text("Tea is green.")), user(text("And now?"))]
    assert fitted(body(*turns)).request["messages"] == turns
    assert fitted(body(*turns, *[user(text("Go on.")), assistant(text("word " * 200))] * 5, user(text("?"))), 700)
    long = [user(text("Run it.")), assistant(*CODE, text("Done.")), user(text("And now?"))]
    messages = fitted(body(*long), 800).request["messages"]
    assert all(message in long for message in messages if message["role"] == "assistant")


def test_a_call_of_the_server_and_its_result_in_the_next_turn_stay_together():
    paused = [assistant(text("I search. " * 40), SERVER[0]), assistant(SERVER[1], text("Tea is green."))]
    turns = [user(text("Look.")), *paused, user(text("Go on.")), assistant(text("word " * 100)), user(text("And now?"))]
    for tokens in range(150, 800, 50):
        stay = set(fitted(body(*turns), tokens).positions)
        assert stay.issuperset((1, 2)) or stay.isdisjoint((1, 2))


def test_a_compaction_block_stands_for_what_was_before_it_and_stays():
    compaction = assistant({"type": "compaction", "content": "The user wants tea. " * 10})
    later = [turn for at in range(20) for turn in (user(text(f"Question {at}.")), assistant(text("word " * 40)))]
    request = body(user(text("Hi.")), compaction, *later, user(text("And now?")), context_management={"edits": []})
    context = fitted(request, 800)
    assert compaction in context.request["messages"]
    assert context.request["context_management"] == {"edits": []}
    failed = assistant({"type": "compaction", "content": None}, text("Yes."))
    assert 1 not in fitted(body(user(text("Hi.")), failed, *later, user(text("And now?"))), 800).positions


def test_a_user_message_stands_for_turns_left_out_between_two_answers():
    turns = [turn for at in range(10) for turn in (user(text(f"Question {at}.")), assistant(text("word " * 60)))]
    messages = fitted(body(*turns, user(text("And now?"))), 500, pin=[1]).request["messages"]
    assert all(one["role"] != other["role"] for one, other in pairwise(messages))


@st.composite
def runs(draw):
    """A run of an agent: tasks, parallel calls, results in blocks, thinking, server tools."""
    messages, count = [], 0
    for task in range(draw(st.integers(1, 3))):
        messages.append(user(text(f"Task {task}. " + "word " * draw(st.integers(1, 80)))))
        for _ in range(draw(st.integers(0, 4))):
            ids = [f"t{count + at}" for at in range(draw(st.integers(1, 3)))]
            count += len(ids)
            before = [THINKING, *draw(st.sampled_from([[], SERVER, MCP, [text("I look.")]]))]
            contents = st.sampled_from([LONG[:100], LONG, [text(LONG)], [text(LONG[:900]), IMAGE, text(LONG[900:])]])
            messages.append(assistant(*before, *(use(id, q=id) for id in ids)))
            reminder = draw(st.sampled_from([[], [text("Remember the task.")]]))
            messages.append(user(*(result(id, draw(contents)) for id in ids), *reminder))
        messages.append(assistant(THINKING, text("Done. " * draw(st.integers(1, 40)))))
    messages.append(user(text("And now?")))
    return messages[: draw(st.integers(1, len(messages)))]


@given(runs(), st.integers(900, 3_000))
@settings(max_examples=examples(40), deadline=None)
def test_runs_of_agents_stay_valid_and_fit(messages, tokens):
    if messages[-1]["role"] == "assistant":
        messages = messages[:-1]
    request = body(*messages, thinking={"type": "enabled", "budget_tokens": 1024})
    try:
        context = fitted(request, tokens)
    except BudgetExceeded:  # what was thought in the last step cannot get smaller
        return
    assert context.tokens <= tokens
    kept = [messages[at] for at in context.positions]
    whole = [message for at, message in zip(context.positions, kept, strict=True) if at not in context.shortened]
    assert all(message in context.request["messages"] for message in whole)


def test_each_of_parallel_results_has_a_handle():
    results = user(*(result(f"t{at}", [text(f"Result {at}. {LONG}")]) for at in range(3)))
    context = fitted(body(user(text("Look.")), assistant(*(use(f"t{at}") for at in range(3))), results), 900)
    assert [context.handle(id) for id in ("msg-000002", "msg-000002/3")] == ["r2", "r2/3"]
    assert context.recall("r2/3", max_tokens=5_000).text == f"Result 2. {LONG}"
