"""The adapter for Pydantic AI, against the real one with its function model."""

import asyncio
import json
import threading
from itertools import groupby

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import brimful
from adapter_properties import Case, chats, check
from brimful.errors import InvalidValue

pytest.importorskip("pydantic_ai")

from pydantic import BaseModel
from pydantic_ai import Agent, NativeOutput, RunContext
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import (
    AudioUrl,
    BinaryContent,
    CachePoint,
    CompactionPart,
    DocumentUrl,
    FilePart,
    ImageUrl,
    ModelRequest,
    ModelResponse,
    NativeToolCallPart,
    NativeToolReturnPart,
    SystemPromptPart,
    TextContent,
    TextPart,
    ThinkingPart,
    ToolAvailabilityDeltaPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
    VideoUrl,
)
from pydantic_ai.models import ModelRequestContext, ModelRequestParameters
from pydantic_ai.models.function import DeltaToolCall, FunctionModel
from pydantic_ai.usage import RequestUsage, RunUsage, UsageLimits

from brimful.adapters.pydantic_ai import BrimfulCapability

TASK = "Check all of my orders. I am mia_li_3668."
NO_LIMITS = UsageLimits(request_limit=None)


def get_order(order: int) -> str:
    """Return an order."""
    return json.dumps({"order": order, "state": "fine", "paid_with": f"card_{order}", "notes": "At the door. " * 40})


def usage(messages):
    """Return a plausible usage: a token for every four characters."""
    return RequestUsage(
        input_tokens=len(str(messages)) // 4, cache_read_tokens=5, output_tokens=20, details={"reasoning_tokens": 3}
    )


def script(count, seen, *, fail_at=None, error=None):
    """Return a model that makes pairs of parallel calls, then answers."""

    def answer(messages, _):
        seen.append(messages)
        if len(seen) - 1 == fail_at:
            raise error
        at = len(seen)
        calls = [ToolCallPart("get_order", {"order": n}, tool_call_id=f"call-{n}") for n in (2 * at, 2 * at + 1)]
        parts = calls if at <= count else [TextPart("All are fine.")]
        return ModelResponse(parts=parts, usage=usage(messages))

    async def stream(messages, info):
        response = answer(messages, info)
        for at, part in enumerate(response.parts):
            if isinstance(part, TextPart):
                yield part.content
            else:
                yield {at: DeltaToolCall(part.tool_name, json.dumps(part.args), tool_call_id=part.tool_call_id)}

    return FunctionModel(answer, stream_function=stream)


def assert_pairs_whole(messages):
    calls, results = [], []
    for message in messages:
        calls += [part.tool_call_id for part in message.parts if isinstance(part, ToolCallPart)]
        results += [part.tool_call_id for part in message.parts if isinstance(part, ToolReturnPart)]
    assert sorted(calls) == sorted(results)


# -- runs --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("count", "streamed"), [(200, False), (20, True)])
def test_an_agent_runs_far_past_its_window(count, streamed):
    seen = []

    async def run():
        async with brimful.Engine("sqlite://") as engine:
            brim = BrimfulCapability(engine=engine, model="gpt-4o", window=4_000, completion=500)
            agent = Agent(script(count, seen), instructions="You help.", tools=[get_order], capabilities=[brim])
            options = {"usage_limits": NO_LIMITS, "conversation_id": "mia"}
            if streamed:
                async with agent.run_stream(TASK, **options) as result:
                    output = await result.get_output()
            else:
                result = await agent.run(TASK, **options)
                output = result.output
            builds = await engine.store.builds(room="mia", limit=1_000)
            return output, result.all_messages(), builds, await engine.store.usage_reports(limit=1_000)

    output, messages, builds, reports = asyncio.run(run())
    assert output == "All are fine."
    assert len(messages) == 2 * count + 2
    assert len(seen) == len(builds) == len(reports) == count + 1
    for sent in seen:
        assert sent[0].parts[0].content == TASK
        assert_pairs_whole(sent)
    assert all(build.tokens <= build.available <= 3_500 for build in builds)
    assert len(seen[-1]) < 40
    assert any("<history" in str(part.content) for message in seen[-1][:2] for part in message.parts)
    if not streamed:
        assert {(report.cached, report.completion, report.reasoning) for report in reports} == {(5, 20, 3)}


OVERFLOW = {"error": {"message": "This model's maximum context length is 1500 tokens. You sent 2100 tokens."}}


@pytest.mark.parametrize("streamed", [False, True])
def test_a_request_that_was_too_long_is_sent_again_smaller(streamed):
    seen = []
    model = script(8, seen, fail_at=8, error=ModelHTTPError(400, "gpt-4o", OVERFLOW))
    brim = BrimfulCapability(model="gpt-4o", completion=100)
    agent = Agent(model, tools=[get_order], capabilities=[brim])

    async def run():
        if not streamed:
            return (await agent.run(TASK, usage_limits=NO_LIMITS)).output
        async with agent.run_stream(TASK, usage_limits=NO_LIMITS) as result:
            return await result.get_output()

    assert asyncio.run(run()) == "All are fine."
    refused, again = seen[8], seen[9]
    assert len(again) < len(refused)
    assert_pairs_whole(again)


@pytest.mark.parametrize(
    ("status", "text"),
    [(401, "Bad key."), (400, "This model's maximum context length is 5 tokens. You sent 9 tokens.")],
)
def test_other_errors_and_requests_that_cannot_be_smaller_fail(status, text):
    seen = []
    error = ModelHTTPError(status, "gpt-4o", {"error": {"message": text}})
    model = script(0, seen, fail_at=0, error=error)
    with pytest.raises(ModelHTTPError):
        Agent(model, capabilities=[BrimfulCapability()]).run_sync("Hi")
    assert len(seen) == 1


def test_several_threads_share_a_synchronous_engine():
    with brimful.SyncEngine("sqlite://") as engine:
        brim = BrimfulCapability(engine=engine, model="gpt-4o", window=2_000, completion=200)
        outputs = []

        def run(name):
            agent = Agent(script(6, []), tools=[get_order], capabilities=[brim])
            outputs.append(agent.run_sync(TASK, usage_limits=NO_LIMITS, conversation_id=name).output)

        threads = [threading.Thread(target=run, args=(f"thread-{at}",)) for at in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert outputs == ["All are fine."] * 2
        assert [len(engine.run(engine.store.builds(room=f"thread-{at}"))) for at in range(2)] == [7, 7]


class City(BaseModel):
    """An output type."""

    name: str
    inhabitants: int


def counted(**options):
    """Return how many tokens a request of an agent has, and the window it is for."""

    async def run():
        async with brimful.Engine("sqlite://") as engine:
            model = FunctionModel(
                lambda *_: ModelResponse(parts=[TextPart('{"name": "Rome", "inhabitants": 3}')]),
                profile={"context_window": 5_000, "supports_json_schema_output": True},
            )
            agent = Agent(model, capabilities=[BrimfulCapability(engine=engine)], **options)
            await agent.run("Hi")
            [build] = await engine.store.builds()
            return build.tokens, build.window

    return asyncio.run(run())


def test_everything_that_is_sent_is_counted_for_the_window_of_the_model():
    plain, window = counted()
    assert window == 5_000
    assert counted(instructions="You help customers of a shop.")[0] > plain + 4
    assert counted(system_prompt="You help customers of a shop.")[0] > plain + 4
    assert counted(tools=[get_order])[0] > plain + 10
    assert counted(output_type=NativeOutput(City))[0] > plain + 10


def test_a_model_recalls_what_was_left_out():
    seen, offered = [], []

    def answer(messages, info):
        seen.append(messages)
        offered.append("recall" in [tool.name for tool in info.function_tools])
        call = ToolCallPart("get_order", {"order": len(seen)})
        call = ToolCallPart("recall", {"query": "card_1"}) if len(seen) == 40 else call
        return ModelResponse(parts=[call if len(seen) < 41 else TextPart("With card_1.")])

    brim = BrimfulCapability(model="gpt-4o", window=2_000, completion=200, recall=True)
    agent = Agent(FunctionModel(answer), tools=[get_order], capabilities=[brim])
    assert agent.run_sync(TASK).output == "With card_1."
    assert offered == sorted(offered)  # only when something is left out
    assert (offered[0], offered[-1]) == (False, True)
    assert '"card_1"' not in str(seen[-2])
    assert '"paid_with": "card_1"' in seen[-1][-1].parts[0].content


# -- translation -------------------------------------------------------------------------------------------------------

IMAGE = BinaryContent(data=b"\x89PNG", media_type="image/png")
PROMPT = UserPromptPart(
    [
        "Look:",
        IMAGE,
        CachePoint(),
        TextContent("And these:"),
        ImageUrl(url="https://example.org/cat.png", vendor_metadata={"detail": "low"}),
        AudioUrl(url="https://example.org/cat.mp3"),
        VideoUrl(url="https://example.org/cat.mp4"),
        DocumentUrl(url="https://example.org/cat.pdf"),
        BinaryContent(data=b"RIFF", media_type="audio/wav"),
        BinaryContent(data=b"cats", media_type="application/pdf"),
    ]
)
RESPONSE = ModelResponse(
    parts=[
        ThinkingPart("I should look.", signature="c2ln", provider_name="anthropic"),
        ThinkingPart("", signature="AAAA" * 20, provider_name="openai", id="rs_1"),
        TextPart("I look."),
        NativeToolCallPart("web_search", {"query": "cats"}, tool_call_id="n1", provider_name="openai"),
        NativeToolReturnPart("web_search", {"hits": 3}, tool_call_id="n1", provider_name="openai"),
        FilePart(IMAGE),
        ToolCallPart("get_order", {"order": 1}, tool_call_id="c1"),
        ToolCallPart("get_order", '{"order": 2}', tool_call_id="c2"),
    ]
)
RESULTS = ModelRequest(
    parts=[
        ToolReturnPart("get_order", {"order": 1, "state": "fine"}, tool_call_id="c1"),
        ToolReturnPart("get_order", ["Two pictures:", IMAGE], tool_call_id="c2", outcome="failed"),
        ToolAvailabilityDeltaPart(tools_added=["refund"]),
        UserPromptPart("And now?"),
    ]
)


def send(history, *, prompt="And?", **options):
    """Return the messages that a model gets."""
    seen = []

    def answer(messages, _):
        seen.append(messages)
        return ModelResponse(parts=[TextPart("Yes.")])

    agent = Agent(FunctionModel(answer), tools=[get_order], capabilities=[BrimfulCapability(**options)])
    result = agent.run_sync(prompt, message_history=history)
    assert len(result.all_messages()) == len(history) + 2
    return seen[0]


def test_parts_of_all_kinds_are_sent_as_they_are():
    history = [ModelRequest(parts=[SystemPromptPart("Be brief."), PROMPT]), RESPONSE, RESULTS, ModelResponse([])]
    sent = send(history, model="gpt-4o")
    assert sent[0].parts[1] is PROMPT
    assert sent[1] is RESPONSE
    assert all(any(part is each for each in sent[2].parts) for part in (*RESULTS.parts[:2], RESULTS.parts[3]))


def test_a_compaction_stays():
    compaction = CompactionPart(provider_name="openai", id="cmp", provider_details={"encrypted_content": "AAAA"})
    first = ModelResponse(parts=[compaction])
    filler = [ModelRequest(parts=[UserPromptPart("word " * 300)]), ModelResponse(parts=[TextPart("word " * 300)])] * 5
    sent = send(
        [ModelRequest(parts=[UserPromptPart("Hi")]), first, *filler],
        model="gpt-4o",
        policy="fit",
        max_prompt_tokens=900,
    )
    assert any(message is first for message in sent)
    assert len(sent) <= len(filler)  # of twelve messages and a prompt


@pytest.mark.parametrize("outcome", ["success", "failed"])
def test_long_results_are_shortened_in_a_copy(outcome):
    log = "A long line of a log.\n" * 500
    result = ToolReturnPart("get_order", log, tool_call_id="c1", outcome=outcome)
    call = ModelResponse(parts=[TextPart("I look."), ToolCallPart("get_order", {"order": 1}, tool_call_id="c1")])
    history = [ModelRequest(parts=[UserPromptPart(TASK)]), call, ModelRequest(parts=[result])]
    seen = []

    def answer(messages, _):
        seen.append(messages)
        return ModelResponse(parts=[TextPart("Yes.")])

    brim = BrimfulCapability(model="gpt-4o", max_prompt_tokens=900)
    run = Agent(FunctionModel(answer), tools=[get_order], capabilities=[brim]).run_sync(message_history=history)
    (shorter,) = [part for part in seen[0][-1].parts if isinstance(part, ToolReturnPart)]
    assert len(shorter.content) < len(log)
    assert (shorter.tool_call_id, shorter.outcome) == ("c1", outcome)
    assert not shorter.content.startswith('{"error"')
    assert run.all_messages()[2].parts[0].content == log


HISTORIES = st.lists(
    st.one_of(
        st.tuples(st.just("chat"), st.text("word ", min_size=1, max_size=300)),
        st.tuples(st.just("calls"), st.integers(1, 3)),
        st.tuples(st.just("thinking"), st.just("")),
    ),
    max_size=25,
)


def make_history(steps):
    history = [ModelRequest(parts=[UserPromptPart(TASK)])]
    for at, (kind, value) in enumerate(steps):
        match kind:
            case "chat":
                history += [ModelResponse(parts=[TextPart(value)]), ModelRequest(parts=[UserPromptPart(value)])]
            case "calls":
                calls = [ToolCallPart("get_order", {"order": n}, tool_call_id=f"{at}-{n}") for n in range(value)]
                results = [ToolReturnPart("get_order", "Done. " * 60, tool_call_id=call.tool_call_id) for call in calls]
                history += [ModelResponse(parts=calls), ModelRequest(parts=results)]
            case _:
                thought = ThinkingPart("Hm. " * 20, signature="c2ln", provider_name="anthropic")
                history += [ModelResponse(parts=[thought, TextPart("So.")]), ModelRequest([UserPromptPart("Yes?")])]
    return [*history, ModelResponse(parts=[TextPart("Go on.")])]


@settings(max_examples=40, deadline=None)
@given(HISTORIES)
def test_a_subsequence_is_sent_that_fits(steps):
    history = make_history(steps)
    before = str(history)
    sent = send(history, model="gpt-4o", policy="fit", max_prompt_tokens=900)
    parts = [id(part) for message in history for part in message.parts]
    places = [parts.index(id(part)) for message in sent for part in message.parts if id(part) in parts]
    assert places == sorted(places)
    assert len(places) == sum(len(message.parts) for message in sent) - 1  # all but the prompt
    assert str(history) == before
    assert_pairs_whole(sent)


def from_openai(messages):
    """Return messages as Pydantic AI has them: the results of parallel calls are parts of one request."""
    history = []
    for is_result, group in groupby(messages, lambda message: message["role"] == "tool"):
        if is_result:
            parts = [ToolReturnPart("look", each["content"], tool_call_id=each["tool_call_id"]) for each in group]
            history.append(ModelRequest(parts=parts))
            continue
        for message in group:
            calls = [
                ToolCallPart("look", call["function"]["arguments"], tool_call_id=call["id"])
                for call in message.get("tool_calls", ())
            ]
            if message["role"] == "user":
                history.append(ModelRequest(parts=[UserPromptPart(message["content"])]))
            else:
                history.append(ModelResponse(parts=calls or [TextPart(message["content"])]))
    return history


def to_openai(message):
    calls = [
        {"id": part.tool_call_id, "type": "function", "function": {"name": "look", "arguments": part.args}}
        for part in message.parts
        if isinstance(part, ToolCallPart)
    ]
    if calls:
        return [{"role": "assistant", "content": None, "tool_calls": calls}]
    role = "assistant" if isinstance(message, ModelResponse) else "user"
    return [
        {"role": "tool", "tool_call_id": part.tool_call_id, "content": part.content}
        if isinstance(part, ToolReturnPart)
        else {"role": role, "content": part.content}
        for part in message.parts
    ]


MODEL = FunctionModel(lambda *_: ModelResponse(parts=[]))


def sender(options):
    """Return a function that fits a history: with a new prompt, it would not be the same objects that are sent."""
    brim = BrimfulCapability(**options)

    def fit(messages, conversation):
        context = ModelRequestContext(
            model=MODEL,
            messages=messages,
            model_settings=None,
            model_request_parameters=ModelRequestParameters(),
        )
        run = RunContext(deps=None, model=MODEL, usage=RunUsage(), conversation_id=conversation)
        return asyncio.run(brim.before_model_request(run, context)).messages

    return fit


@settings(max_examples=30, deadline=None)
@given(chats(), chats())
def test_the_properties_of_adapters_hold(messages, other):
    check(Case(make=from_openai, sender=sender, wire=to_openai), messages, other)


def test_wrong_options_are_refused():
    with pytest.raises(InvalidValue, match="engine: must be a brimful"):
        BrimfulCapability(engine="chat.db")
    with pytest.raises(InvalidValue, match="budget: is not an option"):
        BrimfulCapability(budget=3)


def test_the_capability_is_a_compaction_strategy_of_the_harness():
    history = make_history([("calls", 2)] * 20)
    seen = []

    class Compacting(AbstractCapability):
        async def before_model_request(self, ctx, request_context):
            strategy = BrimfulCapability(model="gpt-4o", max_prompt_tokens=900)
            request_context.messages = await strategy.compact(request_context.messages, ctx)
            seen.append(request_context.messages)
            return request_context

    model = FunctionModel(lambda *_: ModelResponse(parts=[TextPart("Yes.")]))
    Agent(model, capabilities=[Compacting()]).run_sync("And?", message_history=history)
    assert_pairs_whole(seen[0])
    assert len(seen[0]) < len(history)
