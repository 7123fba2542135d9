"""The proxy answers the model's calls of the recall tool itself, and the official clients see one answer."""

import asyncio
import itertools
import json
import re

import anthropic
import openai
import pytest
from typer.testing import CliRunner

import brimful
from brimful.cli.app import app
from brimful.core.content import Text, ToolCall
from brimful.records import Usage
from brimful.records.reply import Reply
from brimful.server.proxy.recall_rounds import NOT_RUN
from brimful.testing import FakeResponses, ScriptedServer, find_violations
from server.upstream import serving

OPENAI_TOOL = {"type": "function", "function": {"name": "refund", "parameters": {"type": "object", "properties": {}}}}
ANTHROPIC_TOOL = {"name": "refund", "input_schema": {"type": "object", "properties": {}}}
FIRST = "code-0"


def call(name="recall", id="call_r", **arguments):
    return ToolCall(id=id, name=name, arguments=json.dumps(arguments))


def reply(*parts, prompt=100, completion=10):
    texts = (Text(text=part) if isinstance(part, str) else part for part in parts)
    return Reply(parts=tuple(texts), usage=Usage(prompt=prompt, completion=completion))


RECALL = reply("Let me look.", call(handle="msg-000000"))
DONE = reply("It was code-0.", prompt=200, completion=20)


def turns(count=40):
    messages = []
    for turn in range(count):
        messages += [
            {"role": "user", "content": f"code-{turn * 7919} " + "word " * 60},
            {"role": "assistant", "content": "Noted. " * 20},
        ]
    return [*messages, {"role": "user", "content": "What was the first code?"}]


class Proxy:
    """A proxy before a scripted model, and the official clients of it."""

    def __init__(self, model, http):
        self.model = model
        self.http = http
        url = str(http.base_url).rstrip("/")
        self.openai = openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)
        self.anthropic = anthropic.Anthropic(base_url=url, api_key="none", max_retries=0)

    def chat(self, *, messages=None, **more):
        fields = {"model": "gpt-4o", "max_tokens": 50, "messages": messages or turns()}
        return self.openai.chat.completions.create(**fields | more)

    def message(self, *, messages=None, **more):
        fields = {"model": "gpt-4o", "max_tokens": 50, "messages": messages or turns()}
        return self.anthropic.messages.create(**fields | more)

    def stream_chat(self, **more):
        """Stream a chat completion; return its chunks, and the message that they add up to."""
        chunks = list(self.chat(stream=True, stream_options={"include_usage": True}, **more))
        deltas = [choice.delta for chunk in chunks for choice in chunk.choices]
        calls = {}
        for each in (part for delta in deltas for part in delta.tool_calls or ()):
            name, arguments = calls.get(each.index, ("", ""))
            calls[each.index] = (name or each.function.name, arguments + (each.function.arguments or ""))
        return chunks, "".join(delta.content or "" for delta in deltas), [calls[at] for at in sorted(calls)]

    def stream_message(self, **more):
        """Stream a message; return the events, and the message that the client makes of them."""
        fields = {"model": "gpt-4o", "max_tokens": 50, "messages": turns()} | more
        with self.anthropic.messages.stream(**fields) as stream:
            events = list(stream)
            return events, stream.get_final_message()


@pytest.fixture
def serve(start):
    """Return a function that starts a scripted model and a proxy before it."""
    running = []

    def begin(*script, upstream=None, fit=None, **config):
        model = ScriptedServer(script)
        entered = serving(model, lifespan="off")
        address, _ = entered.__enter__()
        local = {"url": f"{address}/v1", "window": 2000, "limits": {"max_attempts": 1}} | (upstream or {})
        proxy = Proxy(model, start(upstream=local, fit={"recall": "tool"} | (fit or {}), **config))
        running.extend([entered, proxy.openai, proxy.anthropic])
        return proxy

    yield begin
    for each in reversed(running):
        each.__exit__(None, None, None)


def offered(request):
    return [tool.get("function", tool)["name"] for tool in request.get("tools", ())]


def records(proxy):
    """Return the stored contexts of a proxy, oldest first, with their responses."""
    listed = proxy.http.get("/brimful/v1/contexts").json()["contexts"]
    return [proxy.http.get(f"/brimful/v1/contexts/{each['id']}").json() for each in reversed(listed)]


# -- one round -------------------------------------------------------------------------------------------------------


def test_openais_client_sees_only_the_final_answer(serve):
    proxy = serve(RECALL, DONE)
    answer = proxy.chat()
    assert answer.choices[0].message.content == "Let me look.\n\nIt was code-0."
    assert answer.choices[0].message.tool_calls is None
    assert answer.choices[0].finish_reason == "stop"
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens, answer.usage.total_tokens) == (300, 30, 330)
    first, second = proxy.model.requests
    assert offered(first) == offered(second) == ["recall"]
    assert FIRST not in json.dumps(first["messages"])
    question, called, result = second["messages"][-3:]
    assert question == first["messages"][-1]
    assert called["tool_calls"][0]["function"]["name"] == "recall"
    assert result["tool_call_id"] == "call_r"
    assert f"{FIRST} " in result["content"]


@pytest.mark.parametrize("text", ["", "\n\n"])
def test_an_empty_text_before_a_recall_is_not_sent_back(serve, text):
    proxy = serve(reply(text, call(handle="msg-000000")), DONE)
    assert proxy.message().content[-1].text.strip() == "It was code-0."
    assert find_violations(proxy.model.requests[1], "anthropic") == []


def test_anthropics_client_sees_only_the_final_answer(serve):
    proxy = serve(RECALL, DONE)
    answer = proxy.message()
    assert [block.text for block in answer.content] == ["Let me look.", "It was code-0."]
    assert answer.stop_reason == "end_turn"
    assert (answer.usage.input_tokens, answer.usage.output_tokens) == (300, 30)
    second = proxy.model.requests[1]
    assert second["messages"][-2]["content"][-1]["name"] == "recall"
    [result] = second["messages"][-1]["content"]
    assert result["type"] == "tool_result"
    assert f"{FIRST} " in result["content"]


def test_a_streamed_chat_completion_continues_after_a_recall(serve):
    proxy = serve(RECALL, msgspec_with_id(DONE, "chatcmpl-2"))
    chunks, text, calls = proxy.stream_chat()
    assert text == "Let me look.\n\nIt was code-0."
    assert calls == []
    assert len({chunk.id for chunk in chunks}) == 1
    roles = [choice.delta.role for chunk in chunks for choice in chunk.choices if choice.delta.role]
    assert roles == ["assistant"]
    finishes = [choice.finish_reason for chunk in chunks for choice in chunk.choices if choice.finish_reason]
    assert finishes == ["stop"]
    usages = [chunk.usage for chunk in chunks if chunk.usage]
    assert [(usage.prompt_tokens, usage.completion_tokens, usage.total_tokens) for usage in usages] == [(300, 30, 330)]


def test_a_streamed_message_continues_after_a_recall(serve):
    proxy = serve(RECALL, msgspec_with_id(DONE, "msg_2"))
    events, message = proxy.stream_message()
    assert [block.text for block in message.content] == ["Let me look.", "It was code-0."]
    assert (message.id, message.stop_reason) == ("msg_1", "end_turn")
    assert (message.usage.input_tokens, message.usage.output_tokens) == (300, 30)
    kinds = [event.type for event in events]
    assert kinds.count("message_start") == kinds.count("message_delta") == kinds.count("message_stop") == 1
    assert [event.index for event in events if event.type == "content_block_start"] == [0, 1]


def msgspec_with_id(answer, id):
    return Reply(parts=answer.parts, usage=answer.usage, id=id)


def test_a_stream_hides_usage_that_only_the_server_wanted(serve):
    proxy = serve(RECALL, DONE, upstream={"request_usage": True})
    chunks = list(proxy.chat(stream=True))
    assert not any(chunk.usage for chunk in chunks)
    assert all(chunk.choices for chunk in chunks)


def test_without_a_recall_answers_pass_byte_for_byte(serve):
    lines = [reply("Hi.", call("refund", id="call_1", order="W1"))] * 4
    proxy = serve(*lines)
    for path in ("/v1/messages", "/v1/chat/completions"):
        for stream in (False, True):
            request = {"model": "gpt-4o", "max_tokens": 50, "messages": turns(), "stream": stream}
            got = proxy.http.post(path, json=request).content
            direct = ScriptedServer([lines[0]])
            assert got == asyncio.run(post(direct, path, request))


async def post(app, path, body):
    """Return the body of an ASGI app's answer."""
    sent = []

    async def receive():
        return {"body": json.dumps(body).encode()}

    async def send(message):
        sent.append(message.get("body", b""))

    await app({"type": "http", "method": "POST", "path": path}, receive, send)
    return b"".join(sent)


# -- with the client's own tools -------------------------------------------------------------------------------------


REFUND = call("refund", id="call_own", order="W1")


@pytest.mark.parametrize("order", [(call(query="first code"), REFUND), (REFUND, call(query="first code"))])
def test_calls_of_the_client_that_come_with_a_recall_are_repeated_by_the_model(serve, order):
    proxy = serve(reply("Wait.", *order), reply(REFUND))
    answer = proxy.chat(tools=[OPENAI_TOOL])
    [own] = answer.choices[0].message.tool_calls
    assert (own.id, own.function.name, json.loads(own.function.arguments)) == ("call_own", "refund", {"order": "W1"})
    assert answer.choices[0].finish_reason == "tool_calls"
    assert answer.choices[0].message.content == "Wait."
    results = {each["tool_call_id"]: each["content"] for each in proxy.model.requests[1]["messages"][-2:]}
    assert results["call_own"] == NOT_RUN
    assert results["call_r"].startswith("[message")


@pytest.mark.parametrize("order", [(call(query="first code"), REFUND), (REFUND, call(query="first code"))])
def test_the_same_holds_for_anthropics_streams(serve, order):
    proxy = serve(reply("Wait.", *order), reply(REFUND))
    events, message = proxy.stream_message(tools=[ANTHROPIC_TOOL])
    text, own = message.content
    assert (text.text, own.name, own.input) == ("Wait.", "refund", {"order": "W1"})
    assert message.stop_reason == "tool_use"
    assert [event.index for event in events if event.type == "content_block_start"] == [0, 1]
    answered = {block["tool_use_id"] for block in proxy.model.requests[1]["messages"][-1]["content"]}
    assert answered == {"call_own", "call_r"}


def test_the_same_holds_for_streamed_chat_completions(serve):
    proxy = serve(reply("Wait.", call(query="first code"), REFUND), reply(REFUND))
    _, text, calls = proxy.stream_chat(tools=[OPENAI_TOOL])
    assert text == "Wait."
    assert calls == [("refund", '{"order": "W1"}')]


def test_the_next_turn_does_not_know_of_the_recall(serve):
    proxy = serve("Hi.", RECALL, reply(REFUND), "Refunded.", fit={"policy": "fit"})
    proxy.chat(tools=[OPENAI_TOOL], messages=turns()[:-2])
    message = proxy.chat(tools=[OPENAI_TOOL]).choices[0].message
    history = [*turns(), message, {"role": "tool", "tool_call_id": "call_own", "content": "ok"}]
    assert proxy.chat(messages=history, tools=[OPENAI_TOOL]).choices[0].message.content == "Refunded."
    _, first, second, third = proxy.model.requests
    for later in (second, third):
        assert later["tools"] == first["tools"]
        assert later["messages"][: len(first["messages"])] == first["messages"]
    assert "call_r" not in json.dumps(third)


class Agent:
    """A scripted model that looks up many things, and then needs an early one again, which it knows only by recall."""

    def __init__(self, steps=28):
        self._steps = steps
        self._step = 0

    def __call__(self, request):
        self._step += 1
        found = json.dumps(request["messages"][-1]["content"])
        if self._step <= self._steps:
            return reply(call("look_up", id=f"call_{self._step}", item=f"item_{self._step}"))
        if self._step == self._steps + 1:
            return reply(call(query="item_3", max_tokens=200))
        return reply(f"It costs {re.search(r'price_3_[0-9]+', found)[0]}.")


def look_up(item):
    number = item.removeprefix("item_")
    return f"{item} costs price_{number}_{int(number) * 7919}. " + f"Shelf {number} has more of it. " * 15


def test_an_agent_recalls_what_it_saw_far_before_its_window_in_openais_form(serve):
    agent = Agent()
    proxy = serve(*[agent] * 60)
    tool = {"type": "function", "function": {"name": "look_up", "parameters": {"type": "object"}}}
    messages = [{"role": "user", "content": "Look up 28 items, and tell me the price of item_3."}]
    while (message := proxy.chat(messages=messages, tools=[tool]).choices[0].message).tool_calls:
        messages.append(message)
        for each in message.tool_calls:
            assert each.function.name == "look_up"
            text = look_up(**json.loads(each.function.arguments))
            messages.append({"role": "tool", "tool_call_id": each.id, "content": text})
    assert message.content == f"It costs price_3_{3 * 7919}."
    assert len(proxy.model.requests) == 30
    assert "Shelf 3 has" not in json.dumps(proxy.model.requests[-2])  # whose answer is the recall


def test_an_agent_recalls_what_it_saw_far_before_its_window_in_anthropics_form(serve):
    agent = Agent()
    proxy = serve(*[agent] * 60)
    tool = {"name": "look_up", "input_schema": {"type": "object"}}
    messages = [{"role": "user", "content": "Look up 28 items, and tell me the price of item_3."}]
    while (answer := proxy.stream_message(messages=messages, tools=[tool])[1]).stop_reason == "tool_use":
        results = [
            {"type": "tool_result", "tool_use_id": block.id, "content": look_up(**block.input)}
            for block in answer.content
        ]
        messages += [{"role": "assistant", "content": answer.content}, {"role": "user", "content": results}]
    assert answer.content[-1].text == f"It costs price_3_{3 * 7919}."
    assert "Shelf 3 has" not in json.dumps(proxy.model.requests[-2])


# -- responses -------------------------------------------------------------------------------------------------------


RECALL_ITEM = {"type": "function_call", "call_id": "call_r", "name": "recall", "arguments": '{"handle": "r0"}'}
OWN_ITEM = {"type": "function_call", "call_id": "call_own", "name": "refund", "arguments": '{"order": "W1"}'}
WAIT_ITEM = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Wait."}]}


@pytest.fixture
def respond(start):
    """Return a function that sends a request to a proxy before a strict fake of the Responses API."""
    running = []

    def begin(*script, stream=False, fit=None, **more):
        fake = FakeResponses(script)
        entered = serving(fake, lifespan="off")
        address, _ = entered.__enter__()
        http = start(upstream={"url": f"{address}/v1", "window": 2000}, fit={"recall": "tool"} | (fit or {}))
        client = openai.OpenAI(base_url=str(http.base_url).rstrip("/") + "/v1", api_key="none", max_retries=0)
        running.extend([entered, client])
        fields = {"model": "gpt-4o", "max_output_tokens": 50, "input": turns()} | more
        if not stream:
            return client.responses.create(**fields), [], fake, client
        with client.responses.stream(**{"store": False} | fields) as events:
            seen = list(events)
            return events.get_final_response(), seen, fake, client

    yield begin
    for each in reversed(running):
        each.__exit__(None, None, None)


@pytest.mark.parametrize("stream", [False, True])
def test_a_response_hides_the_recall_and_its_reasoning(respond, stream):
    answer, events, fake, client = respond([WAIT_ITEM, RECALL_ITEM], "It was code-0.", "Fine.", stream=stream)
    assert answer.output_text == "Wait.It was code-0."
    assert "function_call" not in {item.type for item in answer.output}
    assert answer.usage.input_tokens == 24
    first, second = fake.requests
    assert [tool["name"] for tool in first["tools"]] == ["recall"]
    assert FIRST in second["input"][-1]["output"]
    assert second["input"][-1]["call_id"] == "call_r"
    numbers = [event.sequence_number for event in events if hasattr(event, "sequence_number")]
    assert numbers == sorted(set(numbers))
    items = [item.model_dump(exclude_none=True) for item in answer.output]
    following = client.responses.create(model="gpt-4o", input=[*turns(), *items, {"role": "user", "content": "Thanks"}])
    assert following.output_text == "Fine."


@pytest.mark.parametrize("stream", [False, True])
def test_calls_in_a_response_that_come_with_a_recall_are_repeated(respond, stream):
    tool = {"type": "function", "name": "refund", "parameters": {"type": "object", "properties": {}}, "strict": False}
    answer, _, fake, _ = respond([RECALL_ITEM, OWN_ITEM], [OWN_ITEM], stream=stream, tools=[tool])
    assert [item.name for item in answer.output if item.type == "function_call"] == ["refund"]
    results = {item["call_id"]: item["output"] for item in fake.requests[1]["input"][-2:]}
    assert results["call_own"] == NOT_RUN


@pytest.mark.parametrize(
    "fields",
    [
        {"stream": True, "store": True},
        {"background": True},
        {"text": {"format": {"type": "json_object"}}},
    ],
)
def test_a_response_that_cannot_be_joined_does_not_offer_the_tool(respond, fields):
    answer, _, fake, _ = respond("Hi.", **fields)
    assert answer.output_text == "Hi."
    assert "tools" not in fake.requests[0]


def test_a_stored_response_can_be_continued_by_its_id(respond):
    answer, _, _, client = respond([RECALL_ITEM], "It was code-0.", "Fine.")
    following = client.responses.create(model="gpt-4o", input="Thanks", previous_response_id=answer.id)
    assert (answer.id, following.output_text) == ("resp_2", "Fine.")


def test_the_last_round_of_a_response_forbids_calls(respond):
    answer, _, fake, _ = respond([RECALL_ITEM], "Done.", fit={"recall_rounds": 1})
    assert answer.output_text == "Done."
    assert fake.requests[1]["tool_choice"] == "none"


# -- limits ----------------------------------------------------------------------------------------------------------


def test_the_last_round_does_not_offer_the_tool(serve):
    rounds = [reply(call(handle=f"msg-00000{n}", id=f"call_{n}")) for n in range(1, 4)]
    proxy = serve(*rounds, DONE, fit={"recall_rounds": 3})
    answer = proxy.chat(tools=[OPENAI_TOOL])
    assert answer.choices[0].message.content == "It was code-0."
    assert [offered(request) for request in proxy.model.requests] == [["refund", "recall"]] * 3 + [["refund"]]
    assert answer.usage.prompt_tokens == 500


@pytest.mark.parametrize("way", ["chat", "message"])
def test_without_tools_of_the_client_the_last_round_forbids_calls(serve, way):
    proxy = serve(RECALL, DONE, fit={"recall_rounds": 1})
    getattr(proxy, way)()
    last = proxy.model.requests[-1]
    assert offered(last) == ["recall"]
    assert last["tool_choice"] == ("none" if way == "chat" else {"type": "none"})


@pytest.mark.parametrize("own", [(), (REFUND,)])
def test_a_recall_after_the_last_round_is_removed(serve, own):
    line = reply("I give up.", call(query="x"), *own)
    proxy = serve(*[RECALL, line] * 4, fit={"recall_rounds": 1})
    whole = proxy.chat(tools=[OPENAI_TOOL]).choices[0]
    assert whole.message.content == "Let me look.\n\nI give up."
    assert [each.function.name for each in whole.message.tool_calls or ()] == [each.name for each in own]
    assert whole.finish_reason == ("tool_calls" if own else "stop")
    chunks, text, calls = proxy.stream_chat(tools=[OPENAI_TOOL])
    assert text == whole.message.content
    assert calls == [(each.name, each.arguments) for each in own]
    assert [c.finish_reason for chunk in chunks for c in chunk.choices if c.finish_reason] == [whole.finish_reason]
    message = proxy.message(tools=[ANTHROPIC_TOOL])
    _, streamed = proxy.stream_message(tools=[ANTHROPIC_TOOL])
    for each in (message, streamed):
        assert [block.type for block in each.content] == ["text", "text", *("tool_use" for _ in own)]
        assert each.stop_reason == ("tool_use" if own else "end_turn")


def test_all_results_together_have_at_most_so_many_tokens(serve):
    proxy = serve(reply(call(handle="msg-000000")), DONE, fit={"recall_tokens": 40})
    proxy.chat()
    result = proxy.model.requests[1]["messages"][-1]["content"]
    assert brimful.count(result, model="gpt-4o").tokens <= 40


def test_every_round_fits_its_window(serve):
    greedy = [reply(call(handle=f"msg-{2 * n:06d}", id=f"call_{n}", max_tokens=100_000)) for n in range(6)]
    proxy = serve(*greedy, DONE, fit={"recall_rounds": 6, "recall_tokens": 100_000})
    proxy.chat()
    for request in proxy.model.requests:
        fitted = brimful.fit(request | {"max_tokens": 50}, window=2000)
        assert not fitted.is_reduced


def test_unknown_handles_and_careless_arguments_are_answered_with_a_hint(serve):
    careless = Reply(parts=(ToolCall(id="call_2", name="recall", arguments='{"query": '),))
    proxy = serve(reply(call(handle="msg-9")), careless, DONE)
    assert proxy.chat().choices[0].message.content == "It was code-0."
    results = [request["messages"][-1]["content"] for request in proxy.model.requests[1:]]
    assert results[0].startswith("Error: there is no such handle.")
    assert results[1].startswith("Error: pass a handle")
    assert json.loads(proxy.model.requests[2]["messages"][-2]["tool_calls"][0]["function"]["arguments"])


# -- when it is offered ----------------------------------------------------------------------------------------------


def test_a_request_that_fits_is_sent_as_it_is(serve):
    proxy = serve("Hi.")
    messages = [{"role": "user", "content": "Hi"}]
    proxy.chat(messages=messages)
    assert proxy.model.requests[0] == {"model": "gpt-4o", "max_tokens": 50, "messages": messages}


def test_a_header_turns_it_on_and_off(serve):
    proxy = serve("Hi.", "Hi.", fit={"recall": "off"})
    proxy.chat(extra_headers={"x-brimful-recall": "tool"})
    proxy.chat()
    assert [offered(request) for request in proxy.model.requests] == [["recall"], []]
    other = serve("Hi.")
    other.chat(extra_headers={"x-brimful-recall": "off"})
    assert offered(other.model.requests[0]) == []
    with pytest.raises(openai.BadRequestError, match="x-brimful-recall: must be tool or off, not 'yes'"):
        other.chat(extra_headers={"x-brimful-recall": "yes"})


def test_structured_output_is_not_joined(serve):
    proxy = serve("{}", "{}", "{}")
    proxy.chat(response_format={"type": "json_object"})
    proxy.chat(response_format={"type": "text"})
    proxy.message(extra_body={"output_config": {"format": {"type": "json_schema", "schema": {}}}})
    assert [offered(request) for request in proxy.model.requests] == [[], ["recall"], []]


def test_a_client_that_chose_its_tools_answers_all_calls_itself(serve):
    proxy = serve(RECALL)
    tool = {"type": "function", "function": {"name": "recall", "parameters": {"type": "object"}}}
    assert proxy.chat(tools=[tool]).choices[0].message.tool_calls[0].function.name == "recall"
    assert proxy.model.requests[0]["tools"] == [tool]


# -- failures --------------------------------------------------------------------------------------------------------


FAILED = brimful.errors.ProviderError("scripted", "out of order")


def test_an_error_in_the_second_round_is_the_clients(serve):
    proxy = serve(RECALL, FAILED)
    with pytest.raises(openai.InternalServerError, match="out of order"):
        proxy.chat()


def test_an_error_in_the_second_round_ends_a_stream(serve):
    proxy = serve(RECALL, FAILED, RECALL, FAILED)
    texts = []
    with pytest.raises(openai.APIError, match="out of order"):
        texts += [chunk.choices[0].delta.content for chunk in proxy.chat(stream=True)]
    with pytest.raises(anthropic.APIStatusError, match="out of order"):
        proxy.stream_message()


def test_a_stream_that_breaks_off_in_a_call_is_an_error(serve, upstream):
    upstream.answers = [stream_events("/v1/chat/completions", RECALL)[:6]]
    proxy = serve(upstream={"url": f"{upstream.address}/v1"})
    with pytest.raises(openai.APIError, match="broke off"):
        list(proxy.chat(stream=True))
    assert len(upstream.requests) == 1


def stream_events(path, line):
    """Return the events of an answer of a scripted model."""
    whole = asyncio.run(post(ScriptedServer([line]), path, {"stream": True})).decode()
    return [f"{event}\n\n" for event in whole.split("\n\n") if event]


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages"])
@pytest.mark.parametrize("events", [0, 1, 4])
def test_an_upstream_that_dies_in_the_second_round_ends_the_stream_with_an_error(serve, upstream, path, events):
    upstream.answers = [stream_events(path, RECALL), stream_events(path, reply("word " * 20))[:events]]
    proxy = serve(upstream={"url": f"{upstream.address}/v1"})
    with pytest.raises((openai.APIError, anthropic.APIError), match=r"broke off|ended"):
        list(proxy.chat(stream=True)) if "chat" in path else proxy.stream_message()
    assert len(upstream.requests) == 2


def test_a_client_that_leaves_while_a_call_is_held_back_ends_the_first_round(serve, upstream):
    upstream.answers = [[*stream_events("/v1/chat/completions", RECALL)[:6], *[": wait\n\n"] * 100_000]]
    upstream.pause = 0.01
    proxy = serve(upstream={"url": f"{upstream.address}/v1"})
    stream = proxy.chat(stream=True)
    while "look" not in (next(stream).choices[0].delta.content or ""):
        pass
    stream.close()
    assert upstream.left.wait(60)
    assert len(upstream.requests) == 1


def test_a_client_that_leaves_in_the_second_round_ends_it(serve, upstream):
    path = "/v1/chat/completions"
    words = stream_events(path, reply("word"))
    upstream.answers = [stream_events(path, RECALL), [*words[:-2], *[": wait\n\n"] * 100_000]]
    upstream.pause = 0.01
    proxy = serve(upstream={"url": f"{upstream.address}/v1"})
    stream = proxy.chat(stream=True)
    while "word" not in (next(stream).choices[0].delta.content or ""):
        pass
    stream.close()
    assert upstream.left.wait(60)


@pytest.mark.parametrize("stream", [False, True])
def test_a_second_round_that_takes_too_long_is_an_error(serve, upstream, stream):
    whole = asyncio.run(post(ScriptedServer([RECALL]), "/v1/chat/completions", {"stream": stream})).decode()

    def answer_once(body):
        del body
        upstream.silent = True
        return [f"{event}\n\n" for event in whole.split("\n\n") if event] if stream else json.loads(whole)

    upstream.answers = [answer_once]
    proxy = serve(upstream={"url": f"{upstream.address}/v1", "limits": {"read": 0.5, "max_attempts": 1}})
    with pytest.raises(openai.APIError, match="no answer within"):
        list(proxy.chat(stream=stream))
    assert len(upstream.requests) == 2


def test_an_overflow_in_the_second_round_is_fitted_again(serve):
    def overflow(request):
        del request
        return brimful.errors.ContextOverflow("scripted", "maximum context length is 1500 tokens", window=1500)

    proxy = serve(RECALL, overflow, DONE)
    assert proxy.chat().choices[0].message.content == "Let me look.\n\nIt was code-0."
    _, second, third = proxy.model.requests
    assert len(third["messages"]) < len(second["messages"])
    assert third["messages"][-1] == second["messages"][-1]


# -- records ---------------------------------------------------------------------------------------------------------


def test_each_round_has_its_record_and_the_first_one_says_what_was_recalled(serve):
    proxy = serve(RECALL, reply(call(query="first code")), DONE)
    raw = proxy.openai.chat.completions.with_raw_response.create(model="gpt-4o", max_tokens=50, messages=turns())
    wait_for(lambda: len(records(proxy)) == 3 and all(each["answers"] for each in records(proxy)))
    first, second, third = records(proxy)
    assert raw.headers["x-brimful-context"] == first["id"]
    [facts] = recalled(first["answers"][0]["notices"])
    assert (facts["handle"], facts["query"], facts["round"]) == ("msg-000000", "", 1)
    assert facts["tokens"] > 50
    assert [each["query"] for each in recalled(second["answers"][0]["notices"])] == ["first code"]
    assert [each["answers"][0]["usage"]["prompt"] for each in (first, second, third)] == [100, 100, 200]
    assert [each["context"] for each in recalled(third["warnings"])] == [second["id"]]


def test_the_time_of_a_recall_is_not_that_of_the_model(serve):
    times = itertools.count(1_794_000_000, 0.01)  # seconds: each look at the clock is later
    proxy = serve(RECALL, DONE, clock=lambda: next(times))
    proxy.chat()
    wait_for(lambda: len(records(proxy)) == 2 and all(each["answers"] for each in records(proxy)))
    first, second = records(proxy)
    [facts] = recalled(first["answers"][0]["notices"])
    assert facts["seconds"] > 0
    assert first["answers"][0]["seconds"] + facts["seconds"] < second["at"] - first["at"]
    step, _ = proxy.http.get(f"/brimful/v1/runs/{first['id']}").json()["steps"]
    assert (step["seconds"]["recall"], step["seconds"]["tools"]) == (facts["seconds"], None)
    assert 0 < step["seconds"]["model"] <= first["answers"][0]["seconds"]


def test_brimful_explain_shows_recalls(serve, tmp_path):
    proxy = serve(RECALL, DONE)
    proxy.chat()
    wait_for(lambda: len(records(proxy)) == 2 and all(each["answers"] for each in records(proxy)))
    first, second = (each["id"] for each in records(proxy))
    store = ["--db", f"sqlite:///{tmp_path}/brimful.db"]

    def explain(id):
        return CliRunner().invoke(app, ["explain", id, *store]).output

    wait_for(lambda: 'Note: round 1: recalled "msg-000000"' in explain(first))  # the server may know more than the file
    assert f"continues {first} after round 1" in explain(second)


def recalled(notices):
    return [notice["facts"] for notice in notices if notice["kind"] == "recalled"]


def wait_for(condition):
    for _ in range(400):
        if condition():
            return
        asyncio.run(asyncio.sleep(0.01))
    raise AssertionError("it did not happen")


def test_metrics_count_recalls(serve):
    proxy = serve(RECALL, DONE, telemetry={"metrics": True})
    proxy.chat()
    lines = proxy.http.get("/metrics").text.splitlines()
    assert any(line.startswith("brimful_recalls_total{") and line.endswith(" 1.0") for line in lines)
    assert any(line.startswith("brimful_recalled_tokens_total{") for line in lines)


# -- in `remember` mode ----------------------------------------------------------------------------------------------

LOOK = reply("Let me look.", call(query="code-0", max_tokens=120))
REMEMBERED = {"x-brimful-mode": "remember", "x-brimful-conversation": "c", "x-brimful-recall": "tool"}


def stored(proxy):
    newest = proxy.http.get("/brimful/v1/rooms/c/messages?limit=200").json()["messages"]
    return sorted(newest, key=lambda message: message["seq"])


@pytest.mark.parametrize("way", ["chat", "message"])
@pytest.mark.parametrize("stream", [False, True])
def test_a_recall_is_answered_from_everything_that_is_stored(serve, way, stream):
    proxy = serve(LOOK, DONE, "You are welcome.")
    ask = getattr(proxy, f"stream_{way}" if stream else way)
    ask(extra_headers=REMEMBERED)
    first, second = proxy.model.requests
    assert offered(first) == offered(second) == ["recall"]
    assert f"{FIRST} " not in json.dumps(first["messages"])
    assert second["messages"][: len(first["messages"])] == first["messages"]
    assert len(second["messages"]) == len(first["messages"]) + 2
    assert f"{FIRST} " in json.dumps(second["messages"][-1])
    wait_for(lambda: len(stored(proxy)) == len(turns()) + 1)
    assert stored(proxy)[-1]["content"] == "Let me look.\n\nIt was code-0."
    thanks = [{"role": "user", "content": "Thanks!"}]
    getattr(proxy, way)(messages=thanks, extra_headers=REMEMBERED)
    assert "call_r" not in json.dumps(proxy.model.requests[2])


@pytest.mark.parametrize("stream", [False, True])
def test_calls_of_the_client_are_stored_after_a_recall_and_the_recall_is_not(serve, stream):
    proxy = serve(LOOK, reply(REFUND), "Refunded.")
    options = {"tools": [OPENAI_TOOL], "extra_headers": REMEMBERED}
    (proxy.stream_chat if stream else proxy.chat)(**options)
    wait_for(lambda: len(stored(proxy)) == len(turns()) + 1)
    called = {"id": "call_own", "type": "function", "function": {"name": "refund", "arguments": '{"order": "W1"}'}}
    said = {"role": "assistant", "content": "Let me look.", "tool_calls": [called]}
    history = [*turns(), said, {"role": "tool", "tool_call_id": "call_own", "content": "ok"}]
    assert proxy.chat(messages=history, **options).choices[0].message.content == "Refunded."
    wait_for(lambda: len(stored(proxy)) == len(turns()) + 3)
    assert [each["role"] for each in stored(proxy)][-4:] == ["user", "assistant", "tool", "assistant"]
    first, _, third = proxy.model.requests
    assert third["messages"][: len(first["messages"])] == first["messages"]
    assert third["messages"][-2]["content"] == "Let me look."


def test_a_recall_keeps_what_a_search_found_where_it_is(serve):
    proxy = serve(LOOK, DONE)
    for at in range(12):
        memory = {"id": f"m{at}", "content": f"The first code was written on wall {at}.", "user": "ada"}
        assert proxy.http.post("/brimful/v1/memories", json=memory).is_success
    proxy.chat(extra_headers=REMEMBERED | {"x-brimful-user": "ada"})
    first, second = (request["messages"] for request in proxy.model.requests)
    assert "wall 3" in json.dumps(first)
    assert second[: len(first)] == first


def test_the_last_round_of_a_remembered_request_does_not_offer_the_tool(serve):
    rounds = [reply(call(query=f"code-{n}", id=f"call_{n}", max_tokens=90)) for n in range(3)]
    proxy = serve(*rounds, DONE, fit={"recall_rounds": 2})
    answer = proxy.chat(tools=[OPENAI_TOOL], extra_headers=REMEMBERED)
    assert [offered(request) for request in proxy.model.requests] == [["refund", "recall"]] * 2 + [["refund"]]
    assert answer.choices[0].message.content is None
    before, after = (request["messages"] for request in proxy.model.requests[1:])
    assert after[: len(before)] == before


def test_remembered_rounds_have_records_and_fit_their_window(serve):
    greedy = [reply(call(query="code-0", id=f"call_{n}", max_tokens=100_000)) for n in range(3)]
    proxy = serve(*greedy, DONE, fit={"recall_tokens": 100_000})
    proxy.chat(extra_headers=REMEMBERED)
    wait_for(lambda: len(records(proxy)) == 4 and all(each["answers"] for each in records(proxy)))
    made = records(proxy)
    assert all(each["tokens"] <= each["hard_limit"] for each in made)
    assert [len(recalled(each["answers"][0]["notices"])) for each in made] == [1, 1, 1, 0]
    assert [each["context"] for each in recalled(made[1]["warnings"])] == [made[0]["id"]]


def test_an_overflow_in_a_remembered_round_is_built_again(serve):
    def overflow(request):
        del request
        return brimful.errors.ContextOverflow("scripted", "maximum context length is 1500 tokens", window=1500)

    proxy = serve(LOOK, overflow, DONE)
    assert proxy.chat(extra_headers=REMEMBERED).choices[0].message.content == "Let me look.\n\nIt was code-0."
    _, second, third = proxy.model.requests
    assert third["messages"][-2:] == second["messages"][-2:]


def test_a_conversation_that_is_seen_whole_offers_no_recall(serve):
    proxy = serve("Hi.")
    proxy.chat(messages=[{"role": "user", "content": "Hi"}], extra_headers=REMEMBERED)
    assert offered(proxy.model.requests[0]) == []


def test_the_configuration_turns_recall_on_in_remember_mode(serve):
    proxy = serve("Hi.", remember={"recall": "tool"}, fit={"recall": "off"}, mode="remember")
    proxy.chat(extra_headers={"x-brimful-conversation": "c"})
    assert offered(proxy.model.requests[0]) == ["recall"]


# -- the search for tools ----------------------------------------------------------------------------------------------

TOPICS = {
    "play_music": "Play a song",
    "send_email": "Send an email to a person",
    "get_weather": "Return the weather of a city",
    "find_flight": "Find a flight between two airports",
    "book_hotel": "Reserve a room in a hotel",
    "run_query": "Run a query on the database",
}
SEARCH = reply(call("tool_search", query="play a song"))
PLAY = reply(call("play_music", "call_p"))
ASKED = [{"role": "user", "content": "How warm is it in Oslo?"}]


def large_schema():
    return {"type": "object", "properties": {"what": {"type": "string", "enum": [f"choice-{at}" for at in range(90)]}}}


def large_tools():
    functions = [{"name": name, "description": text, "parameters": large_schema()} for name, text in TOPICS.items()]
    return [{"type": "function", "function": function} for function in functions]


def large_anthropic_tools():
    return [{"name": name, "description": text, "input_schema": large_schema()} for name, text in TOPICS.items()]


def test_the_proxy_answers_the_search_for_tools(serve):
    proxy = serve(SEARCH, PLAY)
    answer = proxy.chat(messages=ASKED, tools=large_tools())
    first, second = proxy.model.requests
    assert offered(first)[-1] == "tool_search"
    assert "play_music" not in offered(first)
    assert large_tools()[0] in second["tools"]
    assert json.loads(second["messages"][-1]["content"])["name"] == "play_music"
    assert [each.function.name for each in answer.choices[0].message.tool_calls] == ["play_music"]


def test_the_search_in_a_stream(serve):
    proxy = serve(SEARCH, PLAY)
    _, _, calls = proxy.stream_chat(messages=ASKED, tools=large_tools())
    assert [name for name, _ in calls] == ["play_music"]


def test_anthropics_client_does_not_see_the_search(serve):
    proxy = serve(SEARCH, PLAY)
    answer = proxy.message(messages=ASKED, tools=large_anthropic_tools())
    assert [block.name for block in answer.content] == ["play_music"]
    assert large_anthropic_tools()[0] in proxy.model.requests[1]["tools"]


def test_the_inspector_shows_tools_like_any_other_candidate(serve):
    proxy = serve(DONE, fit={"recall": "off"})
    proxy.chat(messages=ASKED, tools=large_tools())
    wait_for(lambda: records(proxy))
    (record,) = records(proxy)
    rows = {each["id"]: each for each in record["decisions"] if each["kind"] == "tool-definition"}
    assert rows.keys() == {f"tool:{name}" for name in TOPICS}
    assert rows["tool:get_weather"]["outcome"] == "kept"
    assert "pool 'tools'" in rows["tool:play_music"]["why"]
