"""Notes are at their depth on every wire, and never use the reserve."""

from itertools import pairwise

import msgspec
import pytest

import brimful
from brimful.core.content import ToolCall, ToolResult
from brimful.packagers import lorebook_entry, memory, message, note, package, tool_turn
from brimful.policies import policy_names
from brimful.views.sections import sections
from brimful.wires import find_wire
from strategies import COUNTER, NOW
from support import build, prompt_order, words


def turns(count):
    """A conversation that ends with the question."""
    messages = [
        message(f"said {n}", counter=COUNTER, id=f"m{n}", timestamp=NOW + n, role="assistant" if n % 2 else "user")
        for n in range(count - 1)
    ]
    return [*messages, message("so?", counter=COUNTER, id="now", current=True, timestamp=NOW + count)]


def at(depth, text=None, **more):
    return note(text or f"note {depth}", counter=COUNTER, id=f"n{depth}", depth=depth, **more)


def read(context):
    return [entry["content"] for entry in context.request["messages"]]


def test_a_note_is_at_its_depth():
    texts = read(build([*turns(5), at(0), at(1), at(4), at(99)]))
    assert texts == ["note 99", "said 0", "note 4", "said 1", "said 2", "said 3", "note 1", "so?", "note 0"]


def test_notes_of_one_depth_stand_by_their_positions():
    first, second = at(2, "first", position=1), note("second", counter=COUNTER, id="a", depth=2, position=2)
    assert read(build([*turns(3), second, first])) == ["said 0", "first", "second", "said 1", "so?"]


def test_retrieved_blocks_are_no_messages_and_no_note_comes_before_the_head():
    head = [
        package("system-prompt", "Be kind.", counter=COUNTER, id="sys"),
        lorebook_entry("Elves live long.", counter=COUNTER, id="lore", constant=True),
        memory("Ada likes tea.", counter=COUNTER, id="tea", relevance=0.9),
    ]
    for layout, expected in (
        ("end", ["sys", "lore", "n9", "m0", "n2", "m1", "tea", "n1", "now"]),
        ("system", ["sys", "lore", "tea", "n9", "m0", "n2", "m1", "n1", "now"]),
    ):
        overrides = {"layout.related": "system"} if layout == "system" else None
        context = build([*turns(3), *head, at(9), at(2), at(1)], overrides=overrides)
        assert prompt_order(context) == expected
        joined = "\n".join(read(context))
        marks = ["Be kind.", "note 9", "said 0", "note 2", "said 1", "note 1", "so?"]
        assert [joined.index(mark) for mark in marks] == sorted(joined.index(mark) for mark in marks)


def test_a_note_never_parts_results_from_their_call():
    calls = [ToolCall(id="a", name="f"), ToolCall(id="b", name="f")]
    results = [ToolResult(id="a", content="1"), ToolResult(id="b", content="2")]
    turn = tool_turn(calls, results, counter=COUNTER, id="t", timestamp=NOW + 2.5)
    for depth in range(6):
        context = build([*turns(5), *turn, at(depth)])
        roles = [entry["role"] for entry in context.request["messages"]]
        place = roles.index("system")
        assert roles[place - 1 : place] != ["tool"] or roles[place + 1 : place + 2] != ["tool"]
        behind = [role for role in roles[place + 1 :] if role != "tool"]
        assert len(behind) == min(depth, 6)


@pytest.mark.parametrize("wire", ["openai", "anthropic", "gemini", "ollama", "text"])
@pytest.mark.parametrize("role", ["system", "user", "assistant"])
@pytest.mark.parametrize("alternate", [False, True])
def test_every_wire_takes_a_note_of_every_role_and_it_is_counted(wire, role, alternate):
    pile = [*turns(6), *(at(depth, role=role) for depth in (0, 1, 3, 9))]
    plain, noted = (build(each, wire=wire, alternate=alternate) for each in (pile[:6], pile))
    assert find_wire(wire).check(noted.request) == []
    written = msgspec.json.encode(noted.request).decode()
    assert all(f"note {depth}" in written for depth in (0, 1, 3, 9))
    assert noted.tokens - plain.tokens >= 8  # two words each, and the messages around them
    assert noted.tokens <= noted.budget.hard_limit


@pytest.mark.parametrize("policy", policy_names())
def test_a_note_is_required_whatever_the_policy(policy):
    context = build([*turns(9), at(4), at(0)], policy)
    assert {"n4", "n0"} <= set(context.kept)
    with pytest.raises(brimful.errors.BudgetExceeded, match="n0"):
        build([*turns(2), at(0, words(900))], policy)


def test_a_note_is_a_component_of_its_own():
    context = build([*turns(3), at(1)])
    (component,) = (each for each in context.components if each.name == "notes")
    assert (component.items, component.tokens) == (1, context.decision("n1").cost)
    assert "Notes:" in context.report()
    assert brimful.replay(context).request == context.request


@pytest.mark.parametrize(
    ("depths", "headings"),
    [
        ([0], ["RECENT MESSAGES", "USER MESSAGE", "NOTES"]),
        ([9, 0], ["RECENT MESSAGES", "USER MESSAGE", "NOTES"]),
        ([1], ["RECENT MESSAGES", "NOTES", "USER MESSAGE"]),
        ([3, 2], ["RECENT MESSAGES", "NOTES", "USER MESSAGE"]),
        ([9], ["NOTES", "RECENT MESSAGES", "USER MESSAGE"]),
    ],
)
def test_the_part_of_the_notes_stands_where_the_last_of_them_stands(depths, headings):
    context = build([*turns(3), *map(at, depths)])
    assert [section.heading for section in sections(context)] == headings


def marked(context):
    """The blocks up to the last one after which a provider keeps the prompt ready."""
    turns = [("system", context.request["system"])]
    turns += [(turn["role"], turn["content"]) for turn in context.request["messages"]]
    blocks = [(role, block["text"], "cache_control" in block) for role, turn in turns for block in turn]
    last = max(at for at, (_, _, ready) in enumerate(blocks) if ready)
    return [(role, text) for role, text, _ in blocks[: last + 1]]


def test_the_cached_prefix_ends_before_the_first_note_and_grows_every_turn():
    messages = [
        message(f"turn {n}", counter=COUNTER, id=f"m{n:02d}", timestamp=NOW + n, role="assistant" if n % 2 else "user")
        for n in range(20)
    ]
    pile = [at(4), at(0), package("system-prompt", "Be kind.", counter=COUNTER, id="sys")]
    contexts = []
    for last in range(6, 18, 2):
        now = message(f"turn {last}", counter=COUNTER, id=f"m{last:02d}", current=True, timestamp=NOW + last)
        contexts.append(build([*pile, *messages[:last], now], wire="anthropic", window=4000))
    for before, after in pairwise(contexts):
        ready, whole = marked(before), marked(after)
        assert ready == whole[: len(ready)]
        assert len(whole) == len(ready) + 2


@pytest.mark.parametrize("depth", [-1, 1.5, True, "2"])
def test_a_depth_is_a_number_of_messages(depth):
    with pytest.raises(brimful.errors.InvalidPackage, match="depth: must be a number of messages"):
        note("x", counter=COUNTER, depth=depth)


def test_a_note_that_names_no_depth_says_that_it_stands_last():
    bare = package("system-note", "Be brief.", counter=COUNTER, id="bare")
    assert bare.metadata == {}
    assert build([*turns(2), bare]).explain("bare").endswith("; candidate because it is a note at depth 0")
