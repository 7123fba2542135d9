"""A real llama.cpp server, in both of its dialects."""

import pytest

from brimful.errors import ContextOverflow
from brimful.providers import make_provider
from providers.serving import in_loop

REQUESTS = {
    "openai": {
        "model": "smollm2",
        "max_completion_tokens": 6,
        "temperature": 0,
        "seed": 1,
        "messages": [{"role": "user", "content": "Say hello."}],
    },
    "anthropic": {
        "model": "smollm2",
        "max_tokens": 6,
        "temperature": 0,
        "messages": [{"role": "user", "content": "Say hello."}],
    },
}


@pytest.mark.parametrize("wire", REQUESTS)
@in_loop
async def test_whole_and_streamed_answers_and_counts_agree(llama, wire):
    provider = make_provider(f"{wire}:{llama('smollm2').address}/v1")
    try:
        counted = await provider.count(REQUESTS[wire])
        whole = await provider.send(REQUESTS[wire])
        *pieces, last = [piece async for piece in provider.stream(REQUESTS[wire])]
    finally:
        await provider.close()
    assert whole.text
    assert "".join(piece.text for piece in pieces) == last.reply.text
    assert (whole.finish, last.reply.finish) == ("length", "length")
    assert whole.usage.prompt == last.reply.usage.prompt == counted
    assert whole.usage.completion == last.reply.usage.completion == 6
    assert last.reply.usage.cached > 0  # it has just read the same prompt


@pytest.mark.parametrize("wire", REQUESTS)
@in_loop
async def test_an_overflow_tells_the_window_and_the_server_s_own_count(llama, wire):
    smol = llama("smollm2")
    provider = make_provider(f"{wire}:{smol.address}/v1")
    long = REQUESTS[wire] | {"messages": [{"role": "user", "content": "tea " * smol.window}]}
    try:
        counted = await provider.count(long)
        for asking in (provider.send(long), anext(provider.stream(long))):
            with pytest.raises(ContextOverflow) as caught:
                await asking
            assert (caught.value.window, caught.value.prompt) == (smol.window, counted)
    finally:
        await provider.close()
