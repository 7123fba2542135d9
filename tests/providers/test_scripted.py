"""The fake provider and the fake server that answer from a script."""

import asyncio
from itertools import repeat

import httpx2
import msgspec
import pytest

from brimful import Text
from brimful.core.content import ToolCall
from brimful.errors import ContextOverflow, ProviderError, ProviderUnavailable
from brimful.protocols import Provider
from brimful.providers import Overflow, find_overflow, make_dialect
from brimful.records import Usage
from brimful.records.reply import Reply
from brimful.testing import ScriptedProvider, ScriptedServer
from brimful.wires import find_wire
from providers.serving import in_loop

REQUEST = {"model": "m", "messages": [{"content": "one two three"}]}


def words(request):
    return sum(len(message["content"].split()) for message in request["messages"])


@in_loop
async def test_the_script_is_followed_in_order():
    error = ProviderUnavailable("scripted", "busy")
    reply = Reply(parts=(), finish="filtered")
    provider: Provider = ScriptedProvider(["Tea.", error, reply])
    assert (await provider.send(REQUEST)).parts == (Text(text="Tea."),)
    with pytest.raises(ProviderUnavailable) as caught:
        await provider.send(REQUEST)
    assert caught.value is error
    assert await provider.send(REQUEST) is reply
    assert provider.requests == [REQUEST] * 3
    with pytest.raises(ProviderError, match="script has no more lines"):
        await provider.send(REQUEST)


@in_loop
async def test_a_scripted_stream_yields_words():
    provider = ScriptedProvider(repeat("Tea  at four."))
    pieces = [piece async for piece in provider.stream(REQUEST)]
    assert [piece.text for piece in pieces] == ["Tea ", " ", "at ", "four.", ""]
    assert pieces[-1].reply == await provider.send(REQUEST)
    assert provider.aborted == 0
    assert "".join(piece.text for piece in pieces) == pieces[-1].reply.text


@in_loop
async def test_an_overflow_consumes_no_line_of_the_script():
    provider = ScriptedProvider(["Tea."], tokens=words, window=2)
    for asking in (provider.send(REQUEST), anext(provider.stream(REQUEST))):
        with pytest.raises(ContextOverflow) as caught:
            await asking
        assert (caught.value.window, caught.value.prompt, caught.value.status) == (2, 3, 400)
    provider.window = 3
    assert (await provider.send(REQUEST)).usage == Usage(prompt=3, completion=1)
    assert await provider.count(REQUEST) == 3


@in_loop
async def test_a_line_may_be_a_function_of_the_request():
    reply = Reply(parts=(Text(text="Milk or lemon?"),))
    script = [lambda request: request["messages"][0]["content"].upper(), lambda _: reply]
    provider = ScriptedProvider(script, tokens=words)
    assert (await provider.send(REQUEST)).text == "ONE TWO THREE"
    assert (await provider.send(REQUEST)).usage == Usage(prompt=3, completion=3)


@in_loop
async def test_a_scripted_server_refuses_what_is_too_long_as_openai_does():
    server = ScriptedServer(["Tea."], tokens=words, window=2)
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(server), base_url="http://model") as client:
        refused = await client.post("/v1/chat/completions", json=REQUEST)
        short = {**REQUEST, "messages": [{"content": "one two"}]}
        answered = await client.post("/v1/chat/completions", json=short)
    quote = "maximum context length is 2"
    assert find_overflow(refused.status_code, refused.content) == Overflow(window=2, prompt=3, quote=quote)
    assert refused.json()["error"]["code"] == "context_length_exceeded"
    assert answered.json()["usage"] == {
        "prompt_tokens": 2,
        "completion_tokens": 1,
        "total_tokens": 3,
        "prompt_tokens_details": {"cached_tokens": 0},
    }
    assert server.requests == [REQUEST, short]


@pytest.mark.parametrize("wire", ["openai", "anthropic", "responses"])
def test_replies_of_a_scripted_server_are_read_back_unchanged(wire):
    call = ToolCall(id="c1", name="read", arguments='{"page":7}')
    usage = Usage(prompt=9, completion=3)
    reply = Reply(parts=(Text(text="Two pages."), call), usage=usage, finish="tool-calls", model="m", id="r1")
    whole, events = find_wire(wire).write_reply(reply)
    dialect = make_dialect(wire, "http://model")
    reader = dialect.reader("route")
    for event in events:
        reader.feed(event)
    assert reader.end() == dialect.read(msgspec.json.encode(whole), "route") == reply


@in_loop
async def test_without_a_count_there_is_no_usage():
    assert (await ScriptedProvider(["Tea."]).send(REQUEST)).usage is None
    assert await ScriptedProvider().count(REQUEST) is None


@in_loop
async def test_held_requests_wait_until_released():
    provider = ScriptedProvider(repeat("Tea."))
    provider.hold()
    tasks = [asyncio.create_task(provider.send(REQUEST)) for _ in range(2)]
    await asyncio.wait(tasks, timeout=0.01)
    assert not any(task.done() for task in tasks)
    assert provider.waiting == 2
    provider.release()
    assert [reply.text for reply in await asyncio.gather(*tasks)] == ["Tea."] * 2
    assert provider.waiting == 0
    provider.release()


@in_loop
async def test_a_stream_can_be_held_in_the_middle_and_left():
    provider = ScriptedProvider(["Tea at four."])
    stream = provider.stream(REQUEST)
    assert (await anext(stream)).text == "Tea "
    provider.hold()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(anext(stream), 0.01)
    assert (provider.waiting, provider.aborted) == (0, 1)
    left = ScriptedProvider(["Tea at four."])
    stream = left.stream(REQUEST)
    await anext(stream)
    await stream.aclose()
    assert left.aborted == 1


@in_loop
async def test_a_scripted_provider_remembers_that_it_was_closed():
    provider = ScriptedProvider()
    await provider.close()
    assert provider.closed
