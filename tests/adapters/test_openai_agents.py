"""The adapter for the OpenAI Agents SDK, against the real one with its scripted model."""

import asyncio
import json
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import brimful
from adapter_properties import Case, chats, check
from brimful.errors import InvalidValue

pytest.importorskip("agents.testing")

from agents import (
    Agent,
    ModelResponse,
    ModelRetrySettings,
    ModelSettings,
    RunConfig,
    RunContextWrapper,
    Runner,
    Session,
    SessionSettings,
    SQLiteSession,
    Usage,
    function_tool,
    handoff,
    set_tracing_disabled,
    trace,
)
from agents.mcp import MCPServer
from agents.run import CallModelData, ModelInputData
from agents.testing import ModelStep, ScriptedModel, assistant_message, function_call
from mcp.types import Tool
from openai.types.responses.response_usage import InputTokensDetails, OutputTokensDetails
from pydantic import BaseModel

from brimful.adapters.openai_agents import BrimfulFilter, BrimfulSession

TASK = "Check all of my orders. I am mia_li_3668."


@pytest.fixture(autouse=True)
def no_tracing():
    set_tracing_disabled(True)


@function_tool
def get_order(order: int) -> str:
    """Return an order."""
    return json.dumps({"order": order, "state": "fine", "paid_with": f"card_{order}", "notes": "At the door. " * 40})


def usage(prompt=1_000):
    return Usage(
        requests=1,
        input_tokens=prompt,
        input_tokens_details=InputTokensDetails(cached_tokens=5, cache_write_tokens=0),
        output_tokens=20,
        output_tokens_details=OutputTokensDetails(reasoning_tokens=3),
        total_tokens=prompt + 20,
    )


def steps(count, start=0):
    calls = [function_call("get_order", {"order": at}, call_id=f"call-{at}") for at in range(start, start + count)]
    return [ModelStep.respond(lambda sent, call=call: answer(sent, call)) for call in calls]


def answer(sent, *output):
    """Answer with a plausible usage: a token for every four characters."""
    return ModelStep(output=output, usage=usage(len(json.dumps(sent.input)) // 4))


def scripted(*script):
    return ScriptedModel([*script, ModelStep.respond(lambda sent: answer(sent, assistant_message("All are fine.")))])


def user(text):
    return {"role": "user", "content": text}


def call_items(call_id, output="Done. " * 60, **fields):
    return [
        {"type": "function_call", "call_id": call_id, "name": "get_order", "arguments": "{}", **fields},
        {"type": "function_call_output", "call_id": call_id, "output": output},
    ]


def apply(brim, items, *, agent=None, instructions=None, context=None):
    data = ModelInputData(input=items, instructions=instructions)
    agent = agent or Agent(name="Clerk", model="gpt-4o")
    return asyncio.run(brim(CallModelData(model_data=data, agent=agent, context=context)))


def assert_pairs_whole(items):
    calls = {item["call_id"] for item in items if item.get("type") == "function_call"}
    outputs = {item["call_id"] for item in items if item.get("type") == "function_call_output"}
    assert calls == outputs


# -- the filter --------------------------------------------------------------------------------------------------------


def run_long(count, *, streamed):
    async def run():
        async with brimful.Engine("sqlite://") as engine:
            brim = BrimfulFilter(engine=engine, model="gpt-4o", window=4_000, completion=500)
            session = BrimfulSession("mia", engine)
            model = scripted(*steps(count))
            agent = Agent(name="Clerk", instructions="You help customers.", model=model, tools=[get_order])
            options = {"session": session, "hooks": brim, "max_turns": 300}
            config = RunConfig(call_model_input_filter=brim)
            if streamed:
                result = Runner.run_streamed(agent, TASK, run_config=config, **options)
                async for _ in result.stream_events():
                    pass
            else:
                result = await Runner.run(agent, TASK, run_config=config, **options)
            model.assert_complete()
            builds = await engine.store.builds(room="mia", limit=1_000)
            reports = await engine.store.usage_reports(limit=1_000)
            return result, model.calls, await session.get_items(), builds, reports

    return asyncio.run(run())


@pytest.mark.parametrize(("count", "streamed"), [(200, False), (40, True)])
def test_an_agent_runs_far_past_its_window(count, streamed):
    result, calls, stored, builds, reports = run_long(count, streamed=streamed)
    assert result.final_output == "All are fine."
    assert len(calls) == len(builds) == len(reports) == count + 1
    for call in calls:
        assert call.input[0] == user(TASK)
        assert_pairs_whole(call.input)
    assert all(build.tokens <= build.available <= 3_500 for build in builds)
    assert calls[-1].input[1]["content"].startswith("<history")
    assert calls[-1].input[-1]["call_id"] == f"call-{count - 1}"
    assert len(calls[-1].input) < 60
    assert len(stored) == len(result.to_input_list()) == 2 * count + 2
    assert sorted(report.reported for report in reports) == sorted(len(json.dumps(call.input)) // 4 for call in calls)
    assert {(report.cached, report.completion, report.reasoning) for report in reports} == {(5, 20, 3)}


def test_a_model_recalls_what_was_left_out():
    brim = BrimfulFilter(model="gpt-4o", window=2_000, completion=200)
    model = scripted(*steps(40), [function_call("recall", {"query": "card_0"}, call_id="r")])
    agent = Agent(name="Clerk", model=model, tools=[get_order, brim.recall_tool])
    config = RunConfig(call_model_input_filter=brim)
    Runner.run_sync(agent, TASK, run_config=config, max_turns=50)
    assert '"card_0"' not in str(model.calls[-2].input)
    assert '"paid_with": "card_0"' in model.calls[-1].input[-1]["output"]
    assert "left out" in asyncio.run(brim.recall_tool.on_invoke_tool(None, "{}"))  # outside of a run


IMAGE = {"type": "input_image", "image_url": "https://example.org/cat.png", "detail": "low"}
ITEMS = st.lists(
    st.one_of(
        st.text("word ", min_size=1, max_size=400).map(lambda text: [user(text)]),
        st.text("word ", min_size=1, max_size=400).map(
            lambda text: [{"role": "assistant", "content": [{"type": "output_text", "text": text}]}]
        ),
        st.just([{"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": "AAAA" * 50}]),
        st.integers(1, 3).map(lambda count: [None] * count),
        st.just([{"role": "user", "content": [IMAGE]}]),
        st.just([{"type": "web_search_call", "id": "ws", "status": "completed", "action": {"query": "tea"}}]),
    ),
    max_size=40,
)


def number_calls(groups):
    """Return items, with parallel calls where a group is of Nones; each reasoning item is followed by a call."""
    items, count = [], 0
    for group in groups:
        if group[0] is not None and group[0].get("type") != "reasoning":
            items += map(dict, group)  # each one an object of its own
            continue
        pairs = [call_items(f"call-{count + at}") for at in range(len(group))]
        count += len(pairs)
        items += [*(map(dict, group) if group[0] else []), *(pair[0] for pair in pairs), *(pair[1] for pair in pairs)]
    return [*items, user("And now?")]


def assert_reasoning_is_followed(items, sent):
    after = {id(item): items[at + 1] for at, item in enumerate(items) if item.get("type") == "reasoning"}
    for at, item in enumerate(sent):
        if item.get("type") == "reasoning":
            assert sent[at + 1] is after[id(item)]


@settings(max_examples=60, deadline=None)
@given(ITEMS)
def test_a_subsequence_is_sent_that_fits(groups):
    items = number_calls(groups)
    before = json.dumps(items)
    sent = apply(BrimfulFilter(model="gpt-4o", policy="fit", max_prompt_tokens=900), items).input
    positions = [at for each in sent for at, item in enumerate(items) if item is each]
    assert positions == sorted(positions)
    # An image may be replaced by a line of text; everything else is the same object.
    changed = [each for each in sent if not any(item is each for item in items)]
    assert all(each["content"][0]["text"].startswith("[image: cat.png") for each in changed)
    assert json.dumps(items) == before
    assert_pairs_whole(sent)
    assert_reasoning_is_followed(items, sent)
    request = {"model": "gpt-4o", "input": sent}
    assert brimful.fit(request, wire="responses", max_prompt_tokens=900, policy="fit").request["input"] == sent


def test_items_that_fit_are_not_changed():
    items = [user("Hi"), *call_items("c1"), user("Thanks")]
    assert apply(BrimfulFilter(), items).input is items


def from_openai(messages):
    """Return messages as items; each of several parallel calls is one."""
    items = []
    for message in messages:
        match message:
            case {"role": "tool", "tool_call_id": id, "content": text}:
                items.append({"type": "function_call_output", "call_id": id, "output": text})
            case {"tool_calls": calls}:
                items += [{"type": "function_call", "call_id": call["id"], **call["function"]} for call in calls]
            case _:
                items.append(dict(message))
    return items


def to_openai(item):
    match item:
        case {"type": "function_call_output", "call_id": id, "output": text}:
            return [{"role": "tool", "tool_call_id": id, "content": text}]
        case {"type": "function_call", "call_id": id, "name": name, "arguments": arguments}:
            function = {"name": name, "arguments": arguments}
            calls = [{"id": id, "type": "function", "function": function}]
            return [{"role": "assistant", "content": None, "tool_calls": calls}]
        case _:
            return [dict(item)]


def sender(options):
    brim = BrimfulFilter(**options, conversation=lambda data: data.context)
    return lambda items, name: apply(brim, items, context=name).input


@settings(max_examples=30, deadline=None)
@given(chats(), chats())
def test_the_properties_of_adapters_hold(messages, other):
    check(Case(make=from_openai, sender=sender, wire=to_openai), messages, other)


def test_a_compaction_item_and_a_shortened_output():
    compaction = {"type": "compaction", "id": "cmp", "encrypted_content": "AAAA" * 20}
    items = [compaction, user("Look at it."), *call_items("c1", output="A long line of a log.\n" * 500)]
    sent = apply(BrimfulFilter(model="gpt-4o", max_prompt_tokens=900), items).input
    assert sent[0] is compaction
    assert sent[2] is items[2]
    assert sent[3]["call_id"] == "c1"
    assert len(sent[3]["output"]) < len(items[3]["output"])


def counted(agent, instructions=None):
    """Return how many tokens a request of an agent has."""

    async def run():
        async with brimful.Engine("sqlite://") as engine:
            data = ModelInputData(input=[user("Hi")], instructions=instructions)
            await BrimfulFilter(engine=engine)(CallModelData(model_data=data, agent=agent, context=None))
            [build] = await engine.store.builds()
            assert build.model == "gpt-4o"
            return build.tokens

    return asyncio.run(run())


class Tools(MCPServer):
    """An MCP server with one tool."""

    name = "tools"

    async def connect(self):
        """Do nothing."""

    async def cleanup(self):
        """Do nothing."""

    async def list_tools(self, *_):
        return [Tool(name="weather", description="The weather of a place.", inputSchema={"type": "object"})]

    async def call_tool(self, *args, **kwargs):
        """Do nothing."""

    async def list_prompts(self):
        """Do nothing."""

    async def get_prompt(self, name, arguments=None):
        """Do nothing."""


class Answer(BaseModel):
    """An output type."""

    city: str
    degrees: float


def test_everything_that_is_sent_is_counted():
    plain = counted(Agent(name="Clerk", model="gpt-4o"))
    other = Agent(name="Boss", handoff_description="Decides about refunds of more than a hundred euros.")
    for agent in (
        Agent(name="Clerk", model="gpt-4o", tools=[get_order]),
        Agent(name="Clerk", model="gpt-4o", handoffs=[other]),
        Agent(name="Clerk", model="gpt-4o", handoffs=[handoff(other)]),
        Agent(name="Clerk", model="gpt-4o", output_type=Answer),
        Agent(name="Clerk", model="gpt-4o", mcp_servers=[Tools()]),
    ):
        assert counted(agent) > plain + 10
    assert counted(Agent(name="Clerk", model="gpt-4o", output_type=str)) == plain
    assert counted(Agent(name="Clerk", model="gpt-4o"), "You help customers.") > plain


def test_the_name_of_the_model_is_found(monkeypatch):
    monkeypatch.setenv("OPENAI_DEFAULT_MODEL", "gpt-4o")
    counted(Agent(name="Clerk"))
    model = ScriptedModel()
    model.model = "gpt-4o"
    counted(Agent(name="Clerk", model=model))


def find_rooms(*, conversation="", session_id="", group=""):
    """Return the rooms of the records of a run."""

    async def run():
        async with brimful.Engine("sqlite://") as engine:
            brim = BrimfulFilter(engine=engine, conversation=conversation)
            config = RunConfig(call_model_input_filter=brim)
            session = BrimfulSession(session_id, engine) if session_id else None
            agent = Agent(name="Clerk", model=scripted())
            set_tracing_disabled(not group)
            with trace("Shop", group_id=group or None, disabled=not group):
                await Runner.run(agent, "Hi", run_config=config, session=session, context="ctx")
            return {build.room for build in await engine.store.builds()}

    return asyncio.run(run())


def test_the_conversation_is_that_of_the_option_the_session_or_the_group():
    assert find_rooms(conversation="own", session_id="s1") == {"own"}
    assert find_rooms(conversation=lambda data: data.context, session_id="s1") == {"ctx"}
    assert find_rooms(session_id="s1", group="g1") == {"s1"}
    assert find_rooms(group="g1") == {"g1"}
    assert find_rooms() == {"fit"}


def test_usage_belongs_to_its_request_in_nested_runs():
    async def run():
        async with brimful.Engine("sqlite://") as engine:
            brim = BrimfulFilter(engine=engine)
            config = RunConfig(call_model_input_filter=brim)
            inner = Agent(name="Inner", model=ScriptedModel([ModelStep([assistant_message("42")], usage=usage(7))]))

            @function_tool
            async def ask() -> str:
                result = await Runner.run(inner, "What is it?", run_config=config, hooks=brim)
                return result.final_output

            first = ModelStep([function_call("ask", {}, call_id="c1")], usage=usage(100))
            last = ModelStep([assistant_message("It is 42.")], usage=usage(200))
            outer = Agent(name="Outer", model=ScriptedModel([first, last]), tools=[ask])
            await Runner.run(outer, "Ask somebody.", run_config=config, hooks=brim)
            contexts = {build.id: build for build in await engine.store.builds()}
            reports = await engine.store.usage_reports()
            return {report.reported: contexts[report.context].candidates for report in reports}

    found = asyncio.run(run())
    assert found.keys() == {7, 100, 200}
    assert found[7] == found[100] < found[200]


OVERFLOW = "This model's maximum context length is 1500 tokens. However, your messages resulted in 2100 tokens."


@pytest.mark.parametrize("streamed", [False, True])
def test_a_request_that_was_too_long_is_sent_again_smaller(streamed):
    async def run():
        async with brimful.Engine("sqlite://") as engine:
            brim = BrimfulFilter(engine=engine, model="gpt-4o", completion=100)
            retry = ModelRetrySettings(max_retries=1, policy=brim.retry_overflow)
            script = [*steps(12), ModelStep.raise_error(ValueError(OVERFLOW)), *steps(1, 12)]
            model = scripted(*script)
            settings = ModelSettings(retry=retry)
            agent = Agent(name="Clerk", model=model, model_settings=settings, tools=[get_order])
            config = RunConfig(call_model_input_filter=brim)
            if streamed:
                result = Runner.run_streamed(agent, TASK, run_config=config, hooks=brim, max_turns=30)
                async for _ in result.stream_events():
                    pass
            else:
                result = await Runner.run(agent, TASK, run_config=config, hooks=brim, max_turns=30)
            return result, model.calls, await engine.store.usage_reports()

    result, calls, reports = asyncio.run(run())
    assert result.final_output == "All are fine."
    refused, again, after = calls[12], calls[13], calls[14]
    assert len(again.input) < len(refused.input)
    assert_pairs_whole(again.input)
    assert len(after.input) < len(refused.input)  # the window is known now
    assert [report.kind for report in reports].count("overflow") == 1
    assert len(reports) == 15


def test_other_errors_are_not_retried():
    brim = BrimfulFilter()
    settings = ModelSettings(retry=ModelRetrySettings(max_retries=1, policy=brim.retry_overflow))
    agent = Agent(name="Clerk", model=ScriptedModel([ValueError("No.")]), model_settings=settings)
    with pytest.raises(ValueError, match=r"No\."):
        asyncio.run(Runner.run(agent, "Hi", run_config=RunConfig(call_model_input_filter=brim)))


def test_several_threads_share_a_synchronous_engine():
    answers = []
    with brimful.SyncEngine("sqlite://") as engine:
        brim = BrimfulFilter(engine=engine, model="gpt-4o", window=2_000, completion=200)

        def run(name):
            agent = Agent(name="Clerk", model=scripted(*steps(12)), tools=[get_order])
            session = BrimfulSession(name, engine)
            config = RunConfig(call_model_input_filter=brim)
            result = Runner.run_sync(agent, TASK, run_config=config, session=session, hooks=brim, max_turns=30)
            answers.append(result.final_output)

        threads = [threading.Thread(target=run, args=(f"thread-{at}",)) for at in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert answers == ["All are fine."] * 2
        for at in range(2):
            assert len(engine.run(engine.store.builds(room=f"thread-{at}"))) == 13
            assert len(asyncio.run(BrimfulSession(f"thread-{at}", engine).get_items())) == 26


def test_wrong_options_are_refused():
    with pytest.raises(InvalidValue, match="engine: must be a brimful"):
        BrimfulFilter(engine="chat.db")
    with pytest.raises(InvalidValue, match="budget: is not an option"):
        BrimfulFilter(budget=3)
    with pytest.raises(InvalidValue, match="session_id"):
        BrimfulSession("", brimful.Engine("sqlite://"))
    with pytest.raises(InvalidValue, match="engine: must be a brimful"):
        BrimfulSession("s1", "chat.db")


# -- sessions ----------------------------------------------------------------------------------------------------------

VARIOUS = [
    user("Tea at five?"),
    {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "Be brief."}]},
    {
        "role": "user",
        "content": [
            {"type": "input_text", "text": "What is it?"},
            {"type": "input_image", "image_url": "data:image/png;base64,AAAA", "detail": "low"},
            {"type": "input_text", "text": "And this?"},
        ],
    },
    {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "AAAA", "status": None},
    {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": "A cat.", "annotations": [], "logprobs": []}],
    },
    *call_items("c1", output='{"temperature": 21.50}', id="fc_1", status="completed"),
    *call_items("c2", output=[{"type": "input_text", "text": "Fog."}, {"type": "input_image", "file_id": "f"}]),
    {"type": "custom_tool_call", "call_id": "c3", "name": "shell", "input": "ls"},
    {"type": "custom_tool_call_output", "call_id": "c3", "output": "notes.txt"},
    {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "tea"}},
    {"type": "compaction", "id": "cmp_1", "encrypted_content": "AAAA"},
    {"type": "item_reference", "id": "msg_7"},
    {"type": "something_new", "big": 2**70, "deep": [[{"x": None}]]},
    user(""),
    user("half \ud83d a pair"),
    {"role": "assistant", "content": "naïve café 🍵\x00"},
    {"role": "assistant", "content": None},
]


def in_session(use, *, url="sqlite://", id="s1", **options):
    async def run():
        async with brimful.Engine(url) as engine:
            session = BrimfulSession(id, engine, **options)
            return await use(session, engine)

    return asyncio.run(run())


def test_items_come_back_as_they_were():
    async def use(session, _):
        assert isinstance(session, Session)
        await session.add_items(VARIOUS)
        await session.add_items([])
        return await session.get_items()

    items = in_session(use)
    assert items == VARIOUS
    assert [list(item) for item in items] == [list(item) for item in VARIOUS]


def test_a_text_is_stored_once():
    async def use(session, engine):
        await session.add_items(VARIOUS)
        return await engine.store.history("s1")

    messages = {message.seq: message for message in (each.message for each in in_session(use))}
    for at, text in ((1, "Tea at five?"), (2, "Be brief."), (5, "A cat."), (7, "21.50"), (11, "notes.txt")):
        assert text in str(messages[at].content)
        assert text not in str(messages[at].metadata)


def test_sessions_are_kept_apart_and_survive_a_restart(tmp_path):
    url = f"sqlite:///{tmp_path}/chat.db"

    async def write(session, engine):
        await session.add_items(VARIOUS)
        await BrimfulSession("s2", engine).add_items([user("Other")])

    async def read(session, engine):
        assert await BrimfulSession("s2", engine).get_items() == [user("Other")]
        assert await session.get_items() == VARIOUS
        await session.clear_session()
        await session.clear_session()
        return await session.get_items(), await session.pop_item(), await BrimfulSession("s2", engine).get_items()

    in_session(write, url=url)
    assert in_session(read, url=url) == ([], None, [user("Other")])


def test_search_finds_items():
    async def use(session, engine):
        await session.add_items([*VARIOUS, *call_items("c9", output="The parcel is in Lisbon.")])
        found = await engine.search("Where is the parcel?", room="s1")
        return [hit.record.role for hit in found.hits if "Lisbon" in str(hit.record.content)]

    assert in_session(use) == ["tool"]


def test_messages_that_were_posted_are_items():
    async def use(session, engine):
        await engine.post(room="s1", text="Good morning.", role="assistant")
        await engine.post(room="s1", text="Not for you.", hidden=True)
        await session.add_items([user("Hello")])
        assert await session.get_items(2) == [{"role": "assistant", "content": "Good morning."}, user("Hello")]
        return [await session.pop_item() for _ in range(3)]

    assert in_session(use) == [user("Hello"), {"role": "assistant", "content": "Good morning."}, None]


@settings(max_examples=25, deadline=None)
@given(ITEMS, st.integers(-1, 12))
def test_a_limit_divides_no_answer(groups, limit):
    items = number_calls(groups)

    async def use(session, _):
        await session.add_items(items)
        return await session.get_items(limit)

    found = in_session(use)
    assert len(found) <= max(limit, 0)
    assert found == (items[len(items) - len(found) :])
    assert_pairs_whole(found)
    assert not found or found[0].get("type") != "function_call_output"
    if limit > 0:
        assert found


def test_the_call_of_an_output_may_be_far_back():
    async def use(session, _):
        late = call_items("late")
        items = [late[0], *(user(f"Message {at}") for at in range(40)), late[1], user("Now?")]
        await session.add_items(items)
        orphan = {"type": "function_call_output", "call_id": "gone", "output": "?"}
        await BrimfulSession("s2", session_engine(session)).add_items([user("Hi")])
        await session.add_items([orphan])
        return await session.get_items(3), await session.get_items()

    def session_engine(_):
        return engines[-1]

    engines = []

    async def run():
        async with brimful.Engine("sqlite://") as engine:
            engines.append(engine)
            return await use(BrimfulSession("s1", engine), engine)

    few, everything = asyncio.run(run())
    assert all(item.get("call_id") != "late" for item in few)
    assert len(everything) == 44


def test_the_limit_of_the_settings_is_used():
    async def use(session, _):
        await session.add_items([user("One"), user("Two"), user("Three")])
        return await session.get_items(), await session.get_items(1)

    assert in_session(use, session_settings=SessionSettings(limit=2)) == ([user("Two"), user("Three")], [user("Three")])


def test_writers_at_the_same_time_do_not_mix():
    async def use(session, engine):
        batches = [[user(f"{batch}-{at}") for at in range(5)] for batch in range(8)]
        await asyncio.gather(*(BrimfulSession("s1", engine).add_items(batch) for batch in batches))
        items = await session.get_items()
        assert sorted((items[at : at + 5] for at in range(0, 40, 5)), key=str) == sorted(batches, key=str)
        popped = await asyncio.gather(*(BrimfulSession("s1", engine).pop_item() for _ in range(40)))
        return sorted(map(str, popped)) == sorted(map(str, items)), await session.pop_item()

    assert in_session(use) == (True, None)


OPERATIONS = st.lists(
    st.one_of(st.lists(st.sampled_from(VARIOUS), max_size=4), st.just("pop"), st.just("get"), st.just("clear")),
    max_size=12,
)


@settings(max_examples=25, deadline=None)
@given(OPERATIONS)
def test_a_session_behaves_like_the_one_of_the_sdk(operations):
    async def apply_all(session):
        seen = []
        for operation in operations:
            match operation:
                case "pop":
                    seen.append(await session.pop_item())
                case "get":
                    seen.append(await session.get_items())
                case "clear":
                    seen.append(await session.clear_session())
                case items:
                    seen.append(await session.add_items(items))
        return [*seen, await session.get_items()]

    async def use(session, _):
        return await apply_all(session), await apply_all(SQLiteSession("s1"))

    ours, theirs = in_session(use)
    assert ours == theirs


def test_long_sessions_are_read_in_pages():
    async def use(session, _):
        await session.add_items([user(str(at)) for at in range(1_234)])
        return await session.get_items(), await session.get_items(700)

    everything, some = in_session(use)
    assert everything == [user(str(at)) for at in range(1_234)]
    assert some == everything[-700:]


@pytest.mark.parametrize("item", ["Hi", 3, {"role": "user", "content": object()}, [user("Hi")]])
def test_invalid_items_are_refused(item):
    async def use(session, _):
        with pytest.raises(InvalidValue, match=r"items\[1\]: must be"):
            await session.add_items([user("Hi"), item])
        return await session.get_items()

    assert in_session(use) == []


def test_a_filter_can_be_called_by_other_hooks():
    agent = Agent(name="Clerk", model="gpt-4o")
    response = ModelResponse(output=[], usage=usage(), response_id=None)
    asyncio.run(BrimfulFilter().on_llm_end(RunContextWrapper(None), agent, response))
