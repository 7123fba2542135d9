"""Why a provider read again what it could have had in its prompt cache."""

import asyncio
import logging

import pytest

import brimful
from brimful.records.statistics import Statistics

NOW = 1_794_000_000.0
TEXT = "The lighthouse of Porto was built in 1882 by the keeper Mia Reis. "
TOOLS = [
    {"type": "function", "function": {"name": name, "description": TEXT, "parameters": {"type": "object"}}}
    for name in ("read", "write", "search")
]
LIST = {"type": "function", "function": {"name": "list", "parameters": {"type": "object"}}}
FIRST = [{"role": "system", "content": TEXT * 100}, {"role": "user", "content": TEXT * 60}]
SECOND = [*FIRST, {"role": "assistant", "content": "Porto."}, {"role": "user", "content": "And who built it?"}]
REQUEST = {"model": "gpt-4o", "tools": TOOLS, "max_tokens": 100}


async def ask(engine, messages, *, at=NOW, cached=0, max_prompt_tokens=None, **changes):
    request = {**REQUEST, **changes, "messages": messages}
    context = await engine.fit(
        request, conversation="c1", now=at, max_prompt_tokens=max_prompt_tokens, overrides={"tools.trim": False}
    )
    usage = {"prompt": context.tokens, "cached": min(cached, context.tokens), "completion": 5}
    return await engine.observe(context, conversation="c1", usage=usage, at=at)


def misses(response):
    return [notice.facts for notice in response.notices if notice.kind == "cache-missed"]


THIRD = [*SECOND, {"role": "assistant", "content": "Mia Reis."}, {"role": "user", "content": "When?"}]
LONGER = [*THIRD, *({"role": role, "content": TEXT * 20} for role in ("assistant", "user") * 6)]
OTHER_SYSTEM = [{"role": "system", "content": "It is noon. " + TEXT * 100}, *THIRD[1:]]
REWRITTEN = [FIRST[0], {"role": "user", "content": "Edited. " + TEXT * 60}, *THIRD[2:]]
TIMES = {"at": NOW + 9}


@pytest.mark.parametrize(
    ("messages", "options", "cause"),
    [
        (THIRD, {**TIMES, "tools": [*TOOLS, LIST]}, "tools_changed"),
        (THIRD, {**TIMES, "tools": TOOLS[::-1]}, "tools_reordered"),
        (THIRD, {**TIMES, "model": "gpt-4o-mini"}, "model_changed"),
        (THIRD, {"at": NOW + 301}, "ttl_expired_5m"),
        (LONGER, {**TIMES, "max_prompt_tokens": 3_000}, "trimmed"),
        (OTHER_SYSTEM, TIMES, "system_prompt_changed"),
        (REWRITTEN, TIMES, "messages_rewritten"),
        (THIRD, TIMES, "likely_server_side"),
    ],
)  # fmt: skip
def test_each_cause_of_a_miss_is_named(messages, options, cause, caplog):
    async def story():
        async with brimful.Engine("sqlite:///:memory:") as engine:
            await ask(engine, FIRST)
            await ask(engine, SECOND, cached=10**6)
            with caplog.at_level(logging.INFO, logger="brimful.cache"):
                response = await ask(engine, messages, **options)
            return response, await engine.store.statistics()

    response, [statistics] = asyncio.run(story())
    [facts] = misses(response)
    assert facts["cause"] == cause
    assert facts["tokens"] > 1_024
    [line] = [record.getMessage() for record in caplog.records if record.name == "brimful.cache"]
    assert f"cause={cause} " in line
    assert isinstance(statistics, Statistics)
    assert statistics.answers.cache_misses == {cause: 1}
    assert statistics.answers.missed_tokens == {cause: facts["tokens"]}


@pytest.mark.parametrize("cached", [10**6, 2_560])
def test_cached_tokens_are_no_miss(cached):
    async def story():
        async with brimful.Engine("sqlite:///:memory:") as engine:
            first = await ask(engine, FIRST)
            assert first.usage.prompt < 3_000
            return [first, await ask(engine, SECOND, cached=cached, at=NOW + 9)]

    assert [misses(response) for response in asyncio.run(story())] == [[], []]


def test_conversations_do_not_miss_each_other():
    async def story():
        async with brimful.Engine("sqlite:///:memory:") as engine:
            context = await engine.fit({**REQUEST, "messages": FIRST}, conversation="c2", now=NOW)
            await engine.observe(context, conversation="c2", usage={"prompt": context.tokens}, at=NOW)
            return await ask(engine, SECOND)

    assert misses(asyncio.run(story())) == []


def test_results_of_the_question_before_are_no_miss():
    """It stands before its question, and is not in the next prompt."""

    async def story():
        async with brimful.Engine("sqlite:///:memory:", model="gpt-4o") as engine:
            for n in range(80):
                await engine.remember(
                    f"The lighthouse of Porto, {1800 + n}: {chr(65 + n % 26) * 4} built it. {'Rain. ' * 20}"
                )
            await engine.wait_indexed()
            responses = []
            for n, question in enumerate(("Who built the lighthouse of Porto?", "And when was that?")):
                at = NOW + 9 * n
                context = await engine.assemble(room="r", message=question, overrides={"price": "full"}, now=at)
                usage = {"prompt": context.tokens, "cached": 0 if n == 0 else 64}
                responses.append(await engine.record_response(context, "Mia Reis.", usage=usage, at=at))
            assert responses[0].usage.prompt > 2_000
            return responses

    assert [misses(response) for response in asyncio.run(story())] == [[], []]
