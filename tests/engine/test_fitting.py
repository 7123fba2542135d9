"""Requests of an application of its own: fitted, recorded, and learned from."""

import asyncio

import pytest

import brimful
from brimful.engine import Engine
from brimful.errors import ContextOverflow, InvalidValue

NOW = 1_700_000_000


def run(tmp_path, story, **options):
    async def main():
        async with Engine(f"sqlite:///{tmp_path}/chat.db", embedder="none", clock=lambda: NOW, **options) as engine:
            return await story(engine)

    return asyncio.run(main())


def chat(turns, model="gpt-4o"):
    messages = [{"role": "user", "content": f"{n}. {'word ' * 50}"} for n in range(turns)]
    return {"model": model, "max_tokens": 100, "messages": messages}


def test_a_fitted_request_stands_in_the_store_with_its_usage(tmp_path):
    async def story(engine):
        ctx = await engine.fit(chat(40), conversation="thread-1", window=1_000)
        response = await engine.observe(ctx, conversation="thread-1", usage={"prompt_tokens": 900}, finish="stop")
        (build,) = await engine.store.builds(room="thread-1")
        return ctx, response, build, await engine.store.responses(context=ctx.id)

    ctx, response, build, saved = run(tmp_path, story)
    assert build.id == ctx.id
    assert ctx.tokens <= 900
    assert [each.usage.prompt for each in saved] == [response.usage.prompt] == [900]


def test_without_save_no_record_is_written(tmp_path):
    async def story(engine):
        await engine.fit(chat(40), conversation="thread-1", window=1_000, save=False)
        return await engine.store.builds(room="thread-1")

    assert run(tmp_path, story) == []


def test_a_context_without_an_engine_is_stored_when_it_is_observed(tmp_path):
    ctx = brimful.fit(chat(40), window=1_000, now=NOW)

    async def story(engine):
        await engine.observe(ctx, usage={"prompt_tokens": ctx.tokens})
        await engine.observe(ctx, usage={"prompt_tokens": ctx.tokens})  # the record of the context is saved once
        return await engine.store.builds(room="fit"), await engine.store.snapshot(ctx.id)

    builds, snapshot = run(tmp_path, story)
    assert [build.id for build in builds] == [ctx.id]
    assert snapshot.context.request == ctx.request


def test_usage_calibrates_later_requests(tmp_path):
    async def story(engine):
        counts = []
        for n in range(12):
            ctx = await engine.fit(chat(4 + n, model="our-own-model"), route="http://gpu:8000", window=8_000)
            counts.append(ctx.tokens)
            await engine.observe(ctx, route="http://gpu:8000", usage={"prompt_tokens": 2 * ctx.tokens})
        elsewhere = await engine.fit(chat(4, model="our-own-model"), route="http://other:8000", window=8_000)
        return counts, await engine.fit(chat(4, model="our-own-model"), route="http://gpu:8000"), elsewhere

    counts, learned, elsewhere = run(tmp_path, story)
    assert learned.tokens > 1.3 * counts[0], "the server counts twice as many"
    assert elsewhere.tokens == counts[0], "another server is another tokenizer"


def test_a_refused_request_teaches_the_window(tmp_path):
    async def story(engine):
        ctx = await engine.fit(chat(100, model="our-own-model"), window=8_000)
        await engine.observe_overflow(ctx, ContextOverflow("our-own-model", "too long", window=2_000))
        return ctx, await engine.fit(chat(100, model="our-own-model"), window=8_000)

    before, after = run(tmp_path, story)
    assert (before.budget.window, after.budget.window) == (8_000, 2_000)
    assert after.tokens < 2_000 < before.tokens


def test_requests_that_were_not_fitted_are_refused(tmp_path):
    async def story(engine):
        await engine.post(room="lounge", text="Hi")
        ctx = await engine.assemble(room="lounge", model="gpt-4o")
        with pytest.raises(InvalidValue, match="context: must be a context of `fit`, not one of `assemble`"):
            await engine.observe(ctx)
        with pytest.raises(InvalidValue, match="error: must be a ContextOverflow, not 'too long'"):
            await engine.observe_overflow(brimful.fit(chat(1), now=NOW), "too long")
        with pytest.raises(InvalidValue, match="conversation: must be a string, not 7"):
            await engine.fit(chat(1), conversation=7)
        with pytest.raises(InvalidValue, match="limit: is not an option; the options are betas, compaction"):
            await engine.fit(chat(1), limit=7)

    run(tmp_path, story)


def test_a_forgotten_await_is_explained(tmp_path):
    async def story(engine):
        for use in (lambda found: found.hits, list, len, lambda found: found[0]):
            pending = engine.search("tea")
            with pytest.raises((AttributeError, brimful.errors.BrimfulError), match=r"write `await engine\.search"):
                use(pending)
            await pending  # it is still a coroutine like any other
        return await asyncio.gather(asyncio.create_task(engine.search("tea")), asyncio.wait_for(engine.search("a"), 9))

    assert len(run(tmp_path, story)) == 2
