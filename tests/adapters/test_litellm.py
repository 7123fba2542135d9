"""The callback for LiteLLM: SDK, router and proxy, against local servers."""

import asyncio
import json
import os
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import httpx
import litellm
import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import brimful
from brimful.adapters.litellm import BrimfulCallback
from brimful.errors import InvalidValue, ProviderError
from brimful.records.reply import Reply
from brimful.records.usage import Usage
from brimful.testing import FakeResponses, ScriptedServer, find_violations
from server.upstream import serving

SYSTEM = {"role": "system", "content": "Be brief."}
LAST = {"role": "user", "content": "What is still open?"}
DAYS = [
    message
    for day in range(200)
    for message in (
        {"role": "user", "content": f"What happened on day {day}? " * 3},
        {"role": "assistant", "content": "A refund was promised within five days. " * 3},
    )
]
LONG = [SYSTEM, *DAYS, LAST]
CALLBACK_LISTS = [name for name in dir(litellm) if name == "callbacks" or name.endswith(("s_callback", "e_callback"))]
RULES = "Rule number seven. " * 3_000


def run_of_steps(count):
    """The messages of an agent after so many steps, two calls each."""
    messages = [{"role": "user", "content": "Cancel my oldest order. I am ada_4711."}]
    for n in range(count):
        calls = [
            {
                "id": f"c{n}{side}",
                "type": "function",
                "function": {"name": "get_order", "arguments": f'{{"id": "W-{n}"}}'},
            }
            for side in "ab"
        ]
        messages.append({"role": "assistant", "content": None, "tool_calls": calls})
        messages += [
            {
                "role": "tool",
                "tool_call_id": call["id"],
                "content": json.dumps({"id": f"W-{n}", "note": "Fragile. " * 20}),
            }
            for call in calls
        ]
    return messages


@contextmanager
def upstream(script=None):
    """Serve a scripted model; yield it, and the arguments of calls to it."""
    server = ScriptedServer(["Nothing."] * 1_000 if script is None else script)
    with serving(server) as (address, _):
        yield server, {"api_base": f"{address}/v1", "api_key": "secret-key"}


@contextmanager
def installed(**options):
    """Install a callback."""
    callback = BrimfulCallback(**options)
    litellm.callbacks = [callback]
    try:
        yield callback
    finally:
        for name in CALLBACK_LISTS:
            setattr(litellm, name, [])


async def logged(engine, count):
    """Return the responses in a store, once there are so many of them: LiteLLM calls back in the background."""
    for _ in range(600):
        found = await engine.store.responses(limit=500)
        if len(found) >= count:
            return found
        await asyncio.sleep(0.05)
    raise AssertionError(f"{len(found)} of {count} responses")


# -- the SDK ---------------------------------------------------------------------------------------------------------


def test_an_asynchronous_call_is_fitted_and_history_is_not_changed():
    given_messages = json.loads(json.dumps(LONG))
    with upstream() as (server, to), installed(window=4_000):
        asyncio.run(litellm.acompletion(model="openai/gpt-4o", messages=given_messages, **to))
    [sent] = server.requests
    assert given_messages == LONG
    assert sent["messages"][0] == SYSTEM
    assert sent["messages"][1:] == LONG[-len(sent["messages"]) + 1 :]
    assert 10 < len(sent["messages"]) < 200


def test_a_call_that_fits_is_sent_as_it_is():
    class Answer(pydantic.BaseModel):
        open: list[str]

    with upstream() as (server, to), installed():
        call = {"model": "openai/gpt-4o", "messages": LONG[-5:], "temperature": 0.2, "response_format": Answer, "n": 1}
        asyncio.run(litellm.acompletion(**call, **to))
        litellm.callbacks = []
        asyncio.run(litellm.acompletion(**call, **to))
    assert server.requests[0] == server.requests[1]


@pytest.mark.parametrize("kind", ["chat", "anthropic"])
def test_streams_and_formats_are_fitted(kind):
    async def call(to):
        if kind == "chat":
            stream = await litellm.acompletion(model="openai/gpt-4o", messages=LONG, stream=True, **to)
        else:
            to = {**to, "api_base": to["api_base"].removesuffix("/v1")}
            stream = await litellm.anthropic_messages(
                model="anthropic/claude-sonnet-4-5",
                messages=LONG[1:],
                system="Be brief.",
                max_tokens=100,
                stream=True,
                **to,
            )
        return [chunk async for chunk in stream]

    with upstream() as (server, to), installed(window=4_000):
        assert "Nothing." in str(asyncio.run(call(to)))
    [sent] = server.requests
    assert 10 < len(sent["messages"]) < 200
    assert find_violations(sent, "openai" if kind == "chat" else "anthropic") == []


def test_items_of_the_responses_api_are_fitted_unless_the_provider_holds_the_rest():
    server = FakeResponses(["Nothing."] * 4)

    async def call(to):
        answer = await litellm.aresponses(model="openai/gpt-5", input=LONG, **to)
        await litellm.aresponses(model="openai/gpt-5", input=LONG, previous_response_id=answer.id, **to)

    with serving(server) as (address, _), installed(window=4_000):
        to = {"api_base": f"{address}/v1", "api_key": "k"}
        asyncio.run(call(to))
        litellm.responses(model="openai/gpt-5", input=LONG, **to)
    first, later, synchronous = (request["input"] for request in server.requests)
    assert 10 < len(first) < 200
    assert later == LONG
    assert synchronous == first


def test_a_run_of_an_agent_keeps_its_task_and_whole_pairs():
    with upstream() as (server, to), installed(window=3_000):
        asyncio.run(litellm.acompletion(model="openai/gpt-4o", messages=run_of_steps(60), max_tokens=200, **to))
    [sent] = server.requests
    assert sent["messages"][0] == run_of_steps(0)[0]
    assert "W-0" in sent["messages"][1]["content"]  # the ledger
    assert find_violations(sent, "openai") == []


def test_own_message_objects_are_accepted():
    async def call(to):
        answer = (await litellm.acompletion(model="openai/gpt-4o", messages=[LAST], **to)).choices[0].message
        await litellm.acompletion(model="openai/gpt-4o", messages=[*LONG, answer, LAST], **to)

    with upstream() as (server, to), installed(window=4_000):
        asyncio.run(call(to))
    assert server.requests[-1]["messages"][-2]["content"] == "Nothing."


def test_messages_by_position_are_refused_only_if_they_do_not_fit():
    with upstream() as (server, to), installed(window=4_000):
        asyncio.run(litellm.acompletion("openai/gpt-4o", [LAST], **to))
        with pytest.raises(litellm.BadRequestError, match=r"pass model=… and messages=… by name"):
            asyncio.run(litellm.acompletion("openai/gpt-4o", LONG, **to))
    assert len(server.requests) == 1


def test_requests_that_cannot_fit_raise_an_error_of_litellm_with_the_numbers():
    with upstream() as (server, to), installed(window=4_000):
        call = {"model": "openai/gpt-4o", "messages": [{"role": "system", "content": RULES}, LAST], **to}
        with pytest.raises(litellm.ContextWindowExceededError, match=r"required parts need 12,\d+ tokens, limit 3,000"):
            asyncio.run(litellm.acompletion(**call))
        with pytest.raises(litellm.BadRequestError, match=r"messages\[0\]"):
            asyncio.run(litellm.acompletion(model="openai/gpt-4o", messages=[7], **to))
    assert server.requests == []


def test_other_calls_are_left_alone():
    callback = BrimfulCallback(window=100)
    hook = callback.async_pre_call_deployment_hook
    assert asyncio.run(hook({"model": "m", "input": ["x" * 9_999]}, litellm.types.utils.CallTypes.aembedding)) is None
    assert asyncio.run(hook({"model": "m", "messages": []}, litellm.types.utils.CallTypes.acompletion)) is None
    assert asyncio.run(hook({"model": "m", "messages": [LAST]}, None)) is None


def test_completion_reserve_is_sent():
    with upstream() as (server, to), installed(completion=300):
        asyncio.run(litellm.acompletion(model="openai/gpt-4o", messages=[LAST], **to))
    assert server.requests[0]["max_completion_tokens"] == 300


@pytest.mark.parametrize(
    ("model", "kwargs", "window"),
    [
        ("azure/gpt-4o", {}, 128_000),
        ("bedrock/us.anthropic.claude-sonnet-4-5-20250929-v1:0", {}, 200_000),
        ("databricks/databricks-claude-sonnet-4", {}, 200_000),  # only LiteLLM knows it
        ("azure/my-deployment", {"base_model": "azure/gpt-4o"}, 128_000),
        ("azure/my-deployment", {"metadata": {"model_info": {"base_model": "azure/gpt-4o"}}}, 128_000),
        ("openai/gpt-4o", {"litellm_metadata": {"model_info": {"max_input_tokens": 5_000}}}, 5_000),
        ("hosted_vllm/our-own", {}, 8_192),
    ],
)
def test_the_window_of_a_model(tmp_path, model, kwargs, window):
    with brimful.SyncEngine(f"sqlite:///{tmp_path}/x.db") as engine:
        call = {"model": model, "messages": [LAST], "litellm_call_id": "c1", **kwargs}
        hook = BrimfulCallback(engine=engine).async_pre_call_deployment_hook
        asyncio.run(hook(call, litellm.types.utils.CallTypes.acompletion))
        [build] = engine.run(engine.store.builds(limit=1))
        context = engine.run(engine.store.snapshot(build.id)).context
    assert context.budget.window == window


# -- synchronous calls -----------------------------------------------------------------------------------------------


def test_synchronous_calls_of_the_callback_are_fitted_and_recorded(tmp_path):
    with (
        upstream() as (server, to),
        brimful.SyncEngine(f"sqlite:///{tmp_path}/x.db") as engine,
        installed(window=4_000, engine=engine) as callback,
    ):
        answer = callback.completion(model="openai/gpt-4o", messages=LONG, user="ada", **to)
        chunks = list(callback.completion(model="openai/gpt-4o", messages=LONG, user="ada", stream=True, **to))
        responses = engine.run(logged(engine, 2))
    assert answer.choices[0].message.content == "Nothing."
    assert len(chunks) > 1
    assert [len(sent["messages"]) < 200 for sent in server.requests] == [True, True]
    assert {response.room for response in responses} == {"ada"}


def test_a_synchronous_call_needs_a_synchronous_engine():
    callback = BrimfulCallback(engine=brimful.Engine("sqlite:///:memory:"))
    with pytest.raises(litellm.BadRequestError, match=r"SyncEngine"):
        callback.completion(model="openai/gpt-4o", messages=[LAST])


# -- usage, records, overflow ----------------------------------------------------------------------------------------


def test_usage_is_recorded_with_the_context_and_no_key_is(tmp_path):
    async def call(engine, to):
        with installed(window=4_000, engine=engine):
            metadata = {"session_id": "thread-7"}
            await litellm.acompletion(model="openai/gpt-4o", messages=LONG, metadata=metadata, **to)
            for usage in (None, {"include_usage": True}):
                stream = await litellm.acompletion(
                    model="openai/gpt-4o", messages=LONG, metadata=metadata, stream=True, stream_options=usage, **to
                )
                async for _ in stream:
                    pass
            return await logged(engine, 3)

    async def run(to):
        async with brimful.Engine(f"sqlite:///{tmp_path}/x.db") as engine:
            responses = await call(engine, to)
            return await engine.store.builds(room="thread-7", limit=10), responses

    script = [Reply(parts=(brimful.Text(text="Hi."),), usage=Usage(prompt=2_950, completion=2))] * 3
    with upstream(script) as (_, to):
        builds, responses = asyncio.run(run(to))
    assert len(builds) == 3
    assert [each.usage.prompt for each in responses if each.usage is not None] == [2_950, 2_950]
    assert {each.context for each in responses} == {build.id for build in builds}
    assert b"secret-key" not in (tmp_path / "x.db").read_bytes()


def test_an_answer_from_the_cache_of_litellm_is_no_usage(tmp_path):
    async def run(to):
        async with brimful.Engine(f"sqlite:///{tmp_path}/x.db") as engine:
            with installed(engine=engine):
                for _ in range(2):
                    await litellm.acompletion(model="openai/gpt-4o", messages=[LAST], caching=True, **to)
                    await logged(engine, 1)
                await litellm.acompletion(model="openai/gpt-4o", messages=[SYSTEM, LAST], **to)
                return await logged(engine, 2)

    litellm.cache = litellm.Cache()
    try:
        with upstream() as (server, to):
            responses = asyncio.run(run(to))
    finally:
        litellm.cache = None
    assert (len(server.requests), len(responses)) == (2, 2)


class Small:
    """A server that refuses a first request, and all later ones that have more than this share of its words."""

    def __init__(self, share, message):
        self.share, self.message, self.sizes = share, message, []

    async def __call__(self, scope, receive, send):
        if scope["type"] != "http":
            return
        body = b""
        while True:
            event = await receive()
            body += event.get("body", b"")
            if not event.get("more_body"):
                break
        self.sizes.append(len(body.split()))
        if self.sizes[-1] > self.share * self.sizes[0]:
            status, answer = 400, {"error": {"message": self.message, "type": "invalid_request_error"}}
        else:
            choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Hi."}}
            usage = {"prompt_tokens": 1_000, "completion_tokens": 1, "total_tokens": 1_001}
            answer = {
                "id": "1",
                "object": "chat.completion",
                "created": 1,
                "model": "m",
                "choices": [choice],
                "usage": usage,
            }
            status = 200
        headers = [(b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": json.dumps(answer).encode()})


NAMED = "This model's maximum context length is 2048 tokens. However, your messages resulted in 7000 tokens."
UNNAMED = "Your input exceeds the context window of this model. context_length_exceeded"


@pytest.mark.parametrize("message", [NAMED, UNNAMED])
@pytest.mark.parametrize("is_async", [False, True])
def test_a_refused_call_is_retried_with_fewer_messages(message, is_async):
    server = Small(0.9 if message == UNNAMED else 0.3, message)
    with serving(server) as (address, _), installed(window=8_192) as callback:
        call = {"model": "openai/gpt-4o", "messages": LONG, "api_base": f"{address}/v1", "api_key": "k"}
        if is_async:
            asyncio.run(callback.acompletion(**call))
        else:
            callback.completion(**call)
        assert len(server.sizes) == 2
        if message == NAMED:  # known from now on
            asyncio.run(litellm.acompletion(**call))


def test_a_call_that_can_never_fit_is_not_retried():
    with upstream() as (server, to), installed(window=4_000) as callback:
        call = {"model": "openai/gpt-4o", "messages": [{"role": "system", "content": RULES}, LAST], **to}
        with pytest.raises(litellm.ContextWindowExceededError):
            callback.completion(**call)
        with pytest.raises(litellm.ContextWindowExceededError):
            asyncio.run(callback.acompletion(**call))
    assert server.requests == []


def test_another_error_is_not_retried():
    with (
        upstream([ProviderError("scripted", "out of order")] * 9) as (server, to),
        installed() as callback,
        pytest.raises(litellm.InternalServerError),
    ):
        callback.completion(model="openai/gpt-4o", messages=[LAST], max_retries=0, **to)
    assert len(server.requests) == 1


# -- the router ------------------------------------------------------------------------------------------------------


def test_a_router_fits_each_deployment_to_its_own_window():
    async def call(router):
        await router.acompletion(model="small", messages=LONG)
        await router.acompletion(model="large", messages=LONG)
        await router.acompletion(model="small", messages=[{"role": "system", "content": RULES}, LAST])

    with upstream() as (server, to), installed():
        names = {"small": 4_000, "large": 100_000}
        deployments = [
            {
                "model_name": name,
                "litellm_params": {"model": "openai/gpt-4o", **to},
                "model_info": {"max_input_tokens": window},
            }
            for name, window in names.items()
        ]
        router = litellm.Router(model_list=deployments, context_window_fallbacks=[{"small": ["large"]}])
        asyncio.run(call(router))
    small, large, fallback = server.requests
    assert 10 < len(small["messages"]) < 200
    assert large["messages"] == LONG
    assert fallback["messages"][0]["content"] == RULES


# -- conversations ---------------------------------------------------------------------------------------------------


def steps(name, count):
    """The requests of a conversation that grows past its window."""
    messages = [SYSTEM]
    for n in range(count):
        messages = [*messages, {"role": "user", "content": f"{name} asks number {n}. " * 12}]
        yield list(messages)
        messages = [*messages, {"role": "assistant", "content": f"{name} is told {n}. " * 12}]


def hooked(callback, messages, session, **more):
    call = {"model": "gpt-4o", "messages": messages, "litellm_call_id": session, "litellm_session_id": session, **more}
    return asyncio.run(callback.async_pre_call_deployment_hook(call, litellm.types.utils.CallTypes.acompletion))[
        "messages"
    ]


def test_two_conversations_at_once_are_as_each_alone():
    alone = {name: BrimfulCallback(window=2_000) for name in ("ada", "bob")}
    both = BrimfulCallback(window=2_000)
    for mine, other in zip(steps("ada", 30), steps("bob", 30), strict=True):
        for name, messages in (("ada", mine), ("bob", other)):
            assert hooked(both, messages, name) == hooked(alone[name], messages, name)


def test_a_conversation_keeps_its_prefix():
    callback = BrimfulCallback(window=2_000)
    sent = [hooked(callback, messages, "s-1") for messages in steps("ada", 40)]
    same = sum(later[: len(earlier)] == earlier for earlier, later in pairwise(sent))
    assert len(sent[-1]) < 40
    assert same >= 25


def test_calls_from_several_threads():
    callback, results = BrimfulCallback(window=2_000), {}

    def work(name):
        results[name] = [hooked(callback, messages, name) for messages in steps(name, 20)]

    threads = [threading.Thread(target=work, args=(f"user {n}",)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for name, sent in results.items():
        alone = BrimfulCallback(window=2_000)
        assert sent == [hooked(alone, messages, name) for messages in steps(name, 20)]


# -- what holds for all requests -------------------------------------------------------------------------------------

TEXTS = st.sampled_from(["Hello.", "Where is the order?", "It was shipped. " * 40, "Grüße 🙂", " "])
IMAGE = [{"type": "text", "text": "See:"}, {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}]


@st.composite
def conversations(draw):
    messages = [SYSTEM] if draw(st.booleans()) else []
    for n in range(draw(st.integers(1, 25))):
        user = {"role": "user", "content": draw(st.one_of(TEXTS, st.just(IMAGE)))}
        calls = [
            {"id": f"c{n}-{at}", "type": "function", "function": {"name": "find", "arguments": "{}"}}
            for at in range(draw(st.integers(0, 3)))
        ]
        results = [{"role": "tool", "tool_call_id": call["id"], "content": draw(TEXTS)} for call in calls]
        thought = {"reasoning_content": "Hm."} if draw(st.booleans()) else {}
        called = [{"role": "assistant", "content": None, "tool_calls": calls, **thought}] if calls else []
        messages += [user, *called, *results, {"role": "assistant", "content": draw(TEXTS), **thought}]
    return [*messages, {"role": "user", "content": "And now?"}]


@settings(max_examples=60, deadline=None, derandomize=True)
@given(messages=conversations(), policy=st.sampled_from(["fit", None]), window=st.integers(900, 6_000))
def test_requests_are_within_the_limit_whole_and_in_order(messages, policy, window):
    before = json.dumps(messages)
    callback = BrimfulCallback(window=window, policy=policy, completion=200)
    try:
        sent = hooked(callback, messages, "s-1")
    except litellm.ContextWindowExceededError:
        return
    assert json.dumps(messages) == before
    assert find_violations({"model": "gpt-4o", "messages": sent}, "openai") == []
    assert (
        brimful.fit({"model": "gpt-4o", "messages": sent}, window=window, completion=200, now=0).request["messages"]
        == sent
    )
    own = [message for message in sent if message in messages]
    at = -1
    for message in own:
        at = messages.index(message, at + 1)
    if policy == "fit":
        assert len(sent) <= len(messages)
    if brimful.fit({"model": "gpt-4o", "messages": messages}, window=window, completion=200, now=0).is_reduced is False:
        assert sent is messages


# -- the proxy -------------------------------------------------------------------------------------------------------

KEY = "sk-9f8e7d6c5b4a39281706f5e4d3c2b1a0"


@pytest.fixture(scope="module")
def proxy(tmp_path_factory):
    """Start LiteLLM's proxy with our callback in front of scripted models; yield a client and the models."""
    folder = tmp_path_factory.mktemp("proxy")
    chat, responses = ScriptedServer(["Nothing."] * 100), FakeResponses(["Nothing."] * 100)
    with serving(chat) as (address, _), serving(responses) as (other, _), socket.socket() as free:
        models = {
            "chat": {"model": "openai/gpt-4o", "api_base": f"{address}/v1"},
            "claude": {"model": "anthropic/claude-sonnet-4-5", "api_base": address},
            "gpt-5": {"model": "openai/gpt-5", "api_base": f"{other}/v1"},
        }
        deployments = [
            {"model_name": name, "litellm_params": {**to, "api_key": "k"}, "model_info": {"max_input_tokens": 4_000}}
            for name, to in models.items()
        ]
        config = {"model_list": deployments, "litellm_settings": {"callbacks": "brimful.adapters.litellm.callback"}}
        (folder / "config.yaml").write_text(json.dumps(config))  # JSON is YAML
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
        free.close()
        command = [
            Path(sys.executable).parent / "litellm",
            "--config",
            "config.yaml",
            "--host",
            "127.0.0.1",
            "--port",
            port,
        ]
        database = f"sqlite:///{folder}/proxy.db"
        environ = {
            **os.environ,
            "LITELLM_MASTER_KEY": KEY,
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
            "BRIMFUL_DB": database,
        }
        with (folder / "log").open("w") as log:
            process = subprocess.Popen(command, cwd=folder, env=environ, stdout=log, stderr=subprocess.STDOUT)
        headers = {"Authorization": f"Bearer {KEY}"}
        try:
            with httpx.Client(base_url=f"http://127.0.0.1:{port}", headers=headers, timeout=120) as client:
                wait_until_ready(client, process, folder / "log")
                yield client, chat, responses, database
        finally:
            process.terminate()
            process.wait(60)


def wait_until_ready(client, process, log):
    while True:
        assert process.poll() is None, log.read_text()[-3_000:]
        try:
            if client.get("/health/liveliness").status_code == 200:
                return
        except httpx.TransportError:
            time.sleep(0.2)


@pytest.mark.parametrize("stream", [False, True])
def test_the_proxy_fits_all_three_apis(proxy, stream):
    client, chat, responses, _ = proxy
    bodies = {
        "/v1/chat/completions": {"model": "chat", "messages": LONG},
        "/v1/messages": {"model": "claude", "messages": LONG[1:], "system": "Be brief.", "max_tokens": 100},
        "/v1/responses": {"model": "gpt-5", "input": LONG},
    }
    for path, body in bodies.items():
        answer = client.post(path, json={**body, "stream": stream})
        assert answer.status_code == 200, answer.text
        assert "Nothing." in answer.text
    sent = [
        len(chat.requests[-2]["messages"]),
        len(chat.requests[-1]["messages"]),
        len(responses.requests[-1]["input"]),
    ]
    assert all(10 < count < 200 for count in sent), sent


def test_errors_of_ours_reach_the_client_of_the_proxy(proxy):
    client, chat, _, _ = proxy
    before = len(chat.requests)
    bodies = {
        "/v1/chat/completions": {"model": "chat", "messages": [{"role": "system", "content": RULES}, LAST]},
        "/v1/messages": {"model": "claude", "messages": [LAST], "system": RULES, "max_tokens": 100},
        "/v1/responses": {"model": "gpt-5", "input": "Hi", "instructions": RULES},
    }
    for path, body in bodies.items():
        answer = client.post(path, json=body)
        assert answer.status_code == 400
        assert "required parts need 1" in answer.json()["error"]["message"]
    assert len(chat.requests) == before


def test_the_proxy_records_requests_by_session_with_their_usage(proxy):
    client, _, _, database = proxy
    body = {"model": "chat", "messages": LONG}
    client.post("/v1/chat/completions", json={**body, "metadata": {"session_id": "by-metadata"}})
    client.post("/v1/chat/completions", json=body, headers={"x-litellm-session-id": "by-header"})
    client.post("/v1/chat/completions", json={**body, "user": "by-user"})
    with brimful.SyncEngine(database) as engine:
        for room in ("by-metadata", "by-header", "by-user"):
            for _ in range(600):
                found = [each for each in engine.run(engine.store.responses(limit=100)) if each.room == room]
                if found:
                    break
                time.sleep(0.05)
            assert [each.usage.prompt for each in found] == [10]


# -- arguments -------------------------------------------------------------------------------------------------------


def test_wrong_arguments_are_named():
    with pytest.raises(InvalidValue, match=r"engine: must be"):
        BrimfulCallback(engine="chat.db")
    with pytest.raises(InvalidValue, match=r"windows: is not an option"):
        BrimfulCallback(windows=4_000)


def test_an_agent_goes_200_steps_past_its_window(tmp_path):
    """Usage is learned, and every request is in the store."""
    window, task = 6_000, run_of_steps(0)[0]

    def next_call(request):
        tokens = brimful.fit({**request, "model": "gpt-4o"}, window=10**6, now=0).tokens
        assert tokens <= window - 500
        assert request["messages"][0] == task
        assert find_violations(request, "openai") == []
        n = sum(message["role"] == "tool" for message in request["messages"])
        call = brimful.ToolCall(id=f"c{tokens}-{n}", name="get_order", arguments='{"id": "W-1"}')
        return Reply(parts=(call,), usage=Usage(prompt=tokens, completion=9))

    async def run(to):
        messages = [task]
        async with brimful.Engine(f"sqlite:///{tmp_path}/x.db") as engine:
            with installed(window=window, completion=500, engine=engine):
                for n in range(200):
                    answer = await litellm.acompletion(
                        model="openai/gpt-4o", messages=messages, litellm_session_id="run", **to
                    )
                    message = answer.choices[0].message.model_dump(exclude_none=True)
                    [call] = message["tool_calls"]
                    call["id"] = f"call-{n}"
                    content = json.dumps({"id": f"W-{n}", "note": "Fragile. " * 20})
                    messages += [message, {"role": "tool", "tool_call_id": call["id"], "content": content}]
                responses = await logged(engine, 200)
            builds = await engine.store.builds(room="run", limit=500)
            return len(messages), len(builds), responses

    with upstream([next_call] * 200) as (server, to):
        total, recorded, responses = asyncio.run(run(to))
    assert (total, len(server.requests), recorded, len(responses)) == (401, 200, 200, 200)
    assert all(each.usage is not None for each in responses)
