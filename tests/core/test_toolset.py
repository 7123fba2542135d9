"""The choice of tool definitions holds its limit, is deterministic, and stays the same while nothing new is needed."""

from hypothesis import given
from hypothesis import strategies as st

from brimful.core.content import ToolCall, ToolResult
from brimful.core.policy import Policy, Pool, ToolRules
from brimful.core.prompt import Tool
from brimful.core.toolset import TOOL_SEARCH, Toolset, limit_tools, search_tools
from brimful.packagers import message, package
from brimful.testing import WordCounter

COUNTER = WordCounter()
WORDS = ("weather", "mail", "flight", "hotel", "money", "music", "invoice", "text", "file", "query")
DEFINITIONS = st.lists(
    st.tuples(st.sampled_from(WORDS), st.integers(0, 40), st.integers(0, 40)),
    min_size=1,
    max_size=8,
    unique_by=lambda row: row[0],
)


def make_tools(rows):
    return tuple(
        Tool(
            name=f"use_{word}",
            description=f"Use the {word}. {'more ' * long}".strip(),
            parameters={"properties": {"x": {"type": "string", "description": f"One. {'and ' * longer}"}}},
        )
        for word, long, longer in rows
    )


def make_toolset(tools, texts, *, fixed=(), can_search=False, steps=()):
    packages = [message(text, counter=COUNTER, id=f"m{at}", position=at) for at, text in enumerate(texts)]
    for at, name in enumerate(steps, start=len(texts)):
        call, result = ToolCall(id=f"c{at}", name=name, arguments="{}"), ToolResult(id=f"c{at}", content="done")
        for part, role, kind in ((call, "assistant", "tool-call"), (result, "tool", "tool-result")):
            options = {"role": role, "id": f"{kind}{at}", "position": at}
            packages.append(package(kind, (part,), counter=COUNTER, **options))
    return Toolset(
        tools,
        packages,
        fixed=frozenset(fixed),
        can_search=can_search,
        model="m",
        counter=COUNTER,
        similarity=None,
    )


def cheapest(toolset):
    return toolset.count(toolset.choose(0).tools)


@given(DEFINITIONS, st.sampled_from(WORDS), st.integers(0, 600), st.booleans())
def test_tools_take_no_more_than_their_limit_unless_the_fewest_do(rows, word, limit, can_search):
    tools = make_tools(rows)
    toolset = make_toolset(tools, [f"Please use the {word} for me"], can_search=can_search)
    choice = toolset.choose(limit)
    assert toolset.count(choice.tools) <= max(limit, cheapest(toolset))
    names = [tool.name for tool in choice.tools if tool.name != TOOL_SEARCH.name]
    assert names == [tool.name for tool in tools if tool.name in names]
    assert names
    if choice.decisions:
        inside = {each.id for each in choice.decisions if each.included and each.form != "stub"}
        assert inside == {f"tool:{name}" for name in names}
        assert len(choice.decisions) == len(tools)


@given(DEFINITIONS, st.sampled_from(WORDS), st.integers(0, 600))
def test_the_choice_does_not_depend_on_the_order_of_tools(rows, word, limit):
    one = make_toolset(make_tools(rows), [f"Use the {word}"]).choose(limit)
    other = make_toolset(make_tools(rows[::-1]), [f"Use the {word}"]).choose(limit)
    assert one.tools == other.tools[::-1]


@given(DEFINITIONS, st.integers(0, 600), st.data())
def test_calls_of_tools_that_are_there_change_nothing(rows, limit, data):
    tools, texts = make_tools(rows), [f"Use the {rows[0][0]}"]
    before = make_toolset(tools, texts).choose(limit)
    steps = data.draw(st.lists(st.sampled_from([tool.name for tool in before.tools]), max_size=3))
    assert make_toolset(tools, texts, steps=steps).choose(limit).tools == before.tools


@given(DEFINITIONS, st.integers(0, 600), st.data())
def test_a_tool_that_was_called_is_whole_and_fixed_ones_stay(rows, limit, data):
    tools = make_tools(rows)
    fixed, used = (data.draw(st.sampled_from(tools)) for _ in range(2))
    sent = make_toolset(tools, ["Go on"], fixed=[fixed.name], steps=[used.name]).choose(limit).tools
    assert fixed in sent
    assert used.name in {tool.name for tool in sent}


@given(st.integers(1, 10_000), st.integers(0, 20_000), st.integers(0, 10_000), st.floats(0, 1))
def test_more_room_never_means_less_room_for_tools(room, contents, required, share):
    policy = Policy(name="p", pools=(Pool(name="all", kinds=("*",)),), tools=ToolRules(max_share=share))
    required = min(required, contents)
    limit = limit_tools(room, contents, required, policy)
    assert room // 4 <= limit <= room
    assert limit_tools(room, contents + 100, required, policy) <= limit


def test_a_search_shortens_what_is_too_large():
    tools = make_tools([("music", 40, 40), ("mail", 0, 0)])
    whole = search_tools(tools, "music", 500, COUNTER, None)
    assert whole[0] == tools[0]
    short = search_tools(tools, "music", 12, COUNTER, None)
    assert short[0].name == "use_music"
    assert short[0] != tools[0]
    assert search_tools(tools, "zebra", 500, COUNTER, None) == []


def test_tools_that_only_a_reminder_names_are_not_asked_for():
    tools = make_tools([("weather", 9, 9), ("mail", 9, 9), ("flight", 9, 9)])
    reminder = "<system-reminder>Call use_mail to send a mail.</system-reminder>"
    toolset = make_toolset(tools, [reminder, "Which flight is the cheapest?"])
    choice = toolset.choose(cheapest(toolset) + COUNTER.text(tools[2].description).tokens + 20)
    shown = {tool.name: tool for tool in choice.tools}
    assert shown["use_flight"] == tools[2]
    assert shown.get("use_mail") != tools[1]
