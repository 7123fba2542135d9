"""Connection and dialect together, with a real server in this process."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from brimful.errors import ContextOverflow, ProviderError, ProviderTimeout, ProviderUnavailable
from brimful.protocols import Provider
from brimful.providers import KNOWN_SERVERS, HttpProvider, Limits, make_provider
from brimful.providers.server_counter import RETRY_SECONDS, ServerCounter
from brimful.records import Usage
from brimful.records.reply import Reply, ReplyChunk
from brimful.wires import find_wire
from brimful.wires.dialect import Dialect
from providers.serving import answer, chunked, in_loop, serving, then_hang_up, then_wait
from providers.streams import events, lines

REQUEST = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
WHOLE = {
    "openai": {
        "choices": [{"index": 0, "message": {"content": "Tea."}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 9, "completion_tokens": 2},
    },
    "anthropic": {
        "type": "message",
        "content": [{"type": "text", "text": "Tea."}],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 9, "output_tokens": 2},
    },
    "gemini": {
        "candidates": [{"content": {"parts": [{"text": "Tea."}]}, "finishReason": "STOP"}],
        "usageMetadata": {"promptTokenCount": 9, "candidatesTokenCount": 2},
    },
    "ollama": {
        "message": {"content": "Tea."},
        "done": True,
        "done_reason": "stop",
        "prompt_eval_count": 9,
        "eval_count": 2,
    },
}
PATHS = {
    "openai": "/chat/completions",
    "anthropic": "/v1/messages",
    "gemini": "/models/m:generateContent",
    "ollama": "/api/chat",
}


def chunk(text, finish=None):
    return {"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": finish}]}


TALK = chunked(events(chunk("Te")), events(chunk("a.", "stop"), done=True))


@asynccontextmanager
async def provided(*answers, wire="openai", limits=None):
    async with serving(*answers) as server:
        provider: Provider = make_provider(f"{wire}:{server.url}", limits=limits)
        try:
            yield server, provider
        finally:
            await provider.close()


@pytest.mark.parametrize("wire", WHOLE)
@in_loop
async def test_a_whole_answer_in_each_dialect(wire):
    async with provided(answer(WHOLE[wire]), wire=wire) as (server, provider):
        reply = await provider.send(REQUEST)
    assert (reply.text, reply.finish, reply.usage) == ("Tea.", "stop", Usage(prompt=9, completion=2))
    assert server.asked[0].line == f"POST {PATHS[wire]} HTTP/1.1"
    assert server.asked[0].json["messages"] == REQUEST["messages"]


@in_loop
async def test_a_stream_ends_with_the_complete_reply():
    async with provided(TALK) as (server, provider):
        pieces = [piece async for piece in provider.stream(REQUEST)]
    assert [piece.text for piece in pieces] == ["Te", "a.", ""]
    assert [piece.reply is not None for piece in pieces] == [False, False, True]
    assert pieces[-1].reply.text == "Tea."
    assert server.asked[0].json["stream"] is True


@in_loop
async def test_ollama_streams_lines():
    said = lines({"message": {"content": "Te"}, "done": False}, WHOLE["ollama"] | {"message": {"content": "a."}})
    async with provided(chunked(said, content_type="application/x-ndjson"), wire="ollama") as (_, provider):
        pieces = [piece async for piece in provider.stream(REQUEST)]
    assert [piece.text for piece in pieces] == ["Te", "a.", ""]


@in_loop
async def test_an_unterminated_last_event_is_streamed():
    async with provided(chunked(events(chunk("Te")), events(chunk("a.", "stop")).strip())) as (_, provider):
        pieces = [piece async for piece in provider.stream(REQUEST)]
    assert [piece.text for piece in pieces] == ["Te", "a.", ""]


@in_loop
async def test_a_server_that_does_not_stream_is_read_anyway():
    async with provided(answer(WHOLE["openai"])) as (_, provider):
        pieces = [piece async for piece in provider.stream(REQUEST)]
    assert pieces[0] == ReplyChunk(text="Tea.")
    assert isinstance(pieces[-1].reply, Reply)


@in_loop
async def test_closing_the_stream_frees_its_connection():
    started = then_wait(chunked(events(chunk("Te")), ended=False))
    limits = Limits(max_connections=1, pool=0.2)
    async with provided(started, answer(WHOLE["openai"]), limits=limits) as (server, provider):
        stream = provider.stream(REQUEST)
        assert (await anext(stream)).text == "Te"
        await stream.aclose()
        await server.left.wait()
        assert (await provider.send(REQUEST)).text == "Tea."


@in_loop
async def test_cancelling_the_reader_of_a_stream_frees_its_connection():
    async def follow():
        async for _ in provider.stream(REQUEST):
            started.set()

    started = asyncio.Event()
    sent = then_wait(chunked(events(chunk("Te")), ended=False))
    limits = Limits(max_connections=1, pool=0.2)
    async with provided(sent, answer(WHOLE["openai"]), limits=limits) as (server, provider):
        task = asyncio.create_task(follow())
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await server.left.wait()
        assert (await provider.send(REQUEST)).text == "Tea."


@pytest.mark.parametrize(
    ("sent", "kind", "said"),
    [
        (then_hang_up(chunked(events(chunk("Te")), ended=False)), ProviderUnavailable, "broke off"),
        (chunked(events(chunk("Te"))), ProviderUnavailable, "broke off"),  # ended well, as far as HTTP can tell
        (chunked(events(chunk("Te"), {"error": {"message": "prompt is too long"}})), ContextOverflow, "too long"),
        (chunked(events(chunk("Te"), "{garbage")), ProviderError, "cannot be read"),
    ],
)
@in_loop
async def test_a_stream_that_fails_midway_is_not_retried(sent, kind, said):
    async with provided(sent) as (server, provider):
        stream = provider.stream(REQUEST)
        assert (await anext(stream)).text == "Te"  # what came before the error counts
        with pytest.raises(kind, match=said) as caught:
            await anext(stream)
    assert len(server.asked) == 1
    assert type(caught.value) is kind


@in_loop
async def test_an_error_before_the_stream_is_raised_at_its_first_chunk():
    refused = answer({"error": {"message": "prompt is too long: 9 tokens > 8 maximum"}}, 400)
    async with provided(refused) as (_, provider):
        with pytest.raises(ContextOverflow) as caught:
            await anext(provider.stream(REQUEST))
    assert (caught.value.window, caught.value.prompt) == (8, 9)


@pytest.mark.parametrize("body", [b"", b"<html>hi</html>", b"null"])
@in_loop
async def test_garbage_with_status_200_is_an_error(body):
    async with provided(answer(body), answer(body)) as (_, provider):
        with pytest.raises(ProviderError, match="cannot be read"):
            await provider.send(REQUEST)
        with pytest.raises(ProviderError, match="cannot be read"):
            await anext(provider.stream(REQUEST))


# -- counts ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wire", "told", "line"),
    [
        ("openai", {"input_tokens": 812}, "POST /chat/completions/input_tokens HTTP/1.1"),
        ("anthropic", {"input_tokens": 812}, "POST /v1/messages/count_tokens HTTP/1.1"),
        ("gemini", {"totalTokens": 812}, "POST /models/m:countTokens HTTP/1.1"),
    ],
)
@in_loop
async def test_servers_that_can_count_do_so(wire, told, line):
    async with provided(answer(told), wire=wire) as (server, provider):
        assert await provider.count(REQUEST | {"max_tokens": 9}) == 812
    [asked] = server.asked
    assert asked.line == line
    if wire == "anthropic":
        assert asked.json == REQUEST  # it refuses all else
    if wire == "gemini":
        assert asked.json == {"generateContentRequest": REQUEST | {"model": "models/m", "max_tokens": 9}}


@in_loop
async def test_vllm_counts_at_its_own_path():
    counts = [answer({"count": tokens, "max_model_len": 4_096, "tokens": []}) for tokens in (7, 8)]
    request = REQUEST | {"tools": [], "chat_template_kwargs": {"enable_thinking": False}}
    async with serving(answer({"detail": "Not Found"}, 404), *counts) as server:
        provider = make_provider(f"openai:{server.url}/v1")
        assert await provider.count(request | {"max_tokens": 9}) == 7
        assert await provider.count(REQUEST) == 8
        await provider.close()
    paths = [asked.line.split()[1] for asked in server.asked]
    assert paths == ["/v1/chat/completions/input_tokens", "/tokenize", "/tokenize"]  # what failed is not tried again
    assert server.asked[1].json == request


@pytest.mark.parametrize(
    "told",
    [answer({"error": "no"}, 404), answer(b"", 405), answer(b"", 422), answer({"tokens": []}), answer(b"<html>")],
)
@in_loop
async def test_servers_that_cannot_count_get_each_request_once(told):
    async with provided(told, told) as (server, provider):
        assert await provider.count(REQUEST) is None
        assert await provider.count(REQUEST) is None
    assert [asked.line.split()[1] for asked in server.asked] == ["/chat/completions/input_tokens", "/tokenize"]


@in_loop
async def test_a_server_that_counts_too_slowly_gets_a_pause():
    now = 0.0
    async with provided() as (_, provider):
        counter = ServerCounter(provider.connection, Dialect(wire=find_wire("openai")), timeout=0, clock=lambda: now)
        with pytest.raises(ProviderTimeout, match="no count within"):
            await counter.count(REQUEST)
        assert await counter.count(REQUEST) is None
        now = RETRY_SECONDS
        with pytest.raises(ProviderTimeout):
            await counter.count(REQUEST)


@in_loop
async def test_ollama_does_not_count():
    async with provided(wire="ollama") as (server, provider):
        assert await provider.count(REQUEST) is None
    assert server.asked == []


@pytest.mark.parametrize(("status", "kind"), [(401, ProviderError), (500, ProviderUnavailable)])
@in_loop
async def test_a_failed_count_is_tried_again(status, kind):
    async with provided(answer(b"", status), answer({"input_tokens": 3})) as (_, provider):
        with pytest.raises(kind):
            await provider.count(REQUEST)
        assert await provider.count(REQUEST) == 3


@in_loop
async def test_a_prefix_is_removed_from_a_copy_of_the_request():
    async with provided(answer(WHOLE["openai"]), answer(WHOLE["openai"])) as (server, provider):
        prefixed = HttpProvider(
            provider.connection, Dialect(wire=find_wire("openai")), known=KNOWN_SERVERS["openrouter"]
        )
        request = REQUEST | {"model": "openrouter/qwen/qwen3-8b"}
        await prefixed.send(request)
        await prefixed.send({"messages": []})
    assert server.asked[0].json["model"] == "qwen/qwen3-8b"
    assert request["model"] == "openrouter/qwen/qwen3-8b"
    assert server.asked[1].json == {"messages": []}
