"""Calls of models that Brimful makes by itself: they are counted, and a daily limit is passed by one call at most."""

import asyncio
import itertools
import json
import logging
import sys

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import brimful
from brimful.assembly.compact import StepSummarizer
from brimful.core.content import Text
from brimful.core.model import ModelInfo
from brimful.embedding import embedder_for
from brimful.embedding.openai import OpenAIEmbedder
from brimful.engine import Engine
from brimful.engine.events import Emitter
from brimful.engine.own_calls import BUSY_SECONDS, OwnCalls
from brimful.engine.worker import Worker, WorkSettings
from brimful.errors import InvalidValue, ProviderError, ProviderTimeout, SpendingLimitReached, StoreUnavailable
from brimful.records import Message, SpendingLimit, Usage
from brimful.records.own_calls import SECONDS_PER_DAY, OwnSpending
from brimful.records.reply import Reply
from brimful.stores import connect
from brimful.stores.tables.own_calls import Charge
from brimful.testing import ScriptedProvider

MINI = "gpt-4o-mini"
UNKNOWN = ModelInfo(id="home-made", provider="unknown", window=9_000, max_output=700, wire="openai", known=False)
DAY = 1_794_009_600.0  # the beginning of a UTC day
NOTHING = json.dumps({"facts": []})


def make_context(text="Summarize this.", model=MINI):
    return brimful.assemble([brimful.package("message-current", text, model=model)], model=model, now=DAY)


def billed(prompt, completion=0, text="Done."):
    return Reply(parts=(Text(text=text),), usage=Usage(prompt=prompt, completion=completion))


def make_caller(store, clock, hooks=(), **limit):
    events = Emitter(hooks, tenant=store.tenant, clock=clock)
    return OwnCalls(store, SpendingLimit(**limit), clock=clock, events=events)


@pytest.fixture
def url(request):
    return request.getfixturevalue(f"{getattr(request, 'param', 'sqlite')}_url")


both_stores = pytest.mark.parametrize("url", ["sqlite", "postgres"], indirect=True)


@pytest.fixture
def with_store(url, run):
    """Run a story with the store of a tenant."""

    def start(story):
        async def tell():
            async with connect(url) as database:
                return await story(database.tenant("acme"))

        return run(tell())

    return start


# -- the law ---------------------------------------------------------------------------------------------------------

NUMBERS = itertools.count()
STEPS = st.lists(st.tuples(st.sampled_from(["begin", "end"]), st.integers(0, 5), st.integers(0, 900)), max_size=40)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    steps=STEPS,
    limit=st.integers(0, 2_000),
    most=st.integers(0, 2_000),
    unit=st.sampled_from(["tokens_per_day", "dollars_per_day"]),
)
def test_whatever_the_order_of_calls_the_limit_is_passed_by_one_call_at_most(sqlite_url, steps, limit, most, unit):
    in_dollars = unit == "dollars_per_day"
    given_limit = SpendingLimit(**{unit: limit / 1e9 if in_dollars else limit})

    def charge(amount):
        return Charge(nanodollars=amount) if in_dollars else Charge(prompt=amount)

    async def story():
        spent = largest = 0
        under_way = []
        async with connect(sqlite_url) as database:
            store = database.tenant(f"acme-{next(NUMBERS)}")  # examples share a store
            for step, which, amount in steps:
                if step == "begin":
                    reservation = await store.reserve_own_call("learn", charge(most), given_limit, now=DAY)
                    assert reservation.admitted == (spent + most * len(under_way) < limit)
                    under_way += [reservation.day] * reservation.admitted
                elif under_way:
                    day, cost = under_way.pop(which % len(under_way)), min(amount, most)
                    await store.settle_own_call("learn", day, charge(most), charge(cost))
                    spent, largest = spent + cost, max(largest, cost)
                assert spent <= limit + largest
            found = await store.own_spending(now=DAY)
            assert (round(found.dollars_today * 1e9) if in_dollars else found.tokens_today) == spent

    asyncio.run(story())


@both_stores
def test_concurrent_callers_of_two_servers_share_one_limit(url, run, clock):
    limit, price = 20_000, 3_000

    async def story():
        async with connect(url) as one, connect(url) as two:
            callers = [make_caller(each.tenant("acme"), clock, tokens_per_day=limit) for each in (one, two)]
            provider = ScriptedProvider(itertools.repeat(billed(price)))
            context = make_context()
            calls = [callers[n % 2].send("summary", provider, context) for n in range(12)]
            first = await asyncio.gather(*calls, return_exceptions=True)
            later = []
            while not later or isinstance(later[-1], Reply):
                later += await asyncio.gather(
                    callers[len(later) % 2].send("learn", provider, context), return_exceptions=True
                )
            return first, later, await one.tenant("acme").own_spending(now=clock())

    first, later, spent = run(story())
    assert {type(each) for each in first} <= {Reply, SpendingLimitReached}
    made = sum(isinstance(each, Reply) for each in (*first, *later))
    assert (spent.tokens_today, spent.calls, spent.reserved_tokens) == (made * price, made, 0)
    assert limit <= spent.tokens_today <= limit + price
    assert later[-1].spent == spent.tokens_today


CALLER = """
import asyncio, itertools, sys
from brimful import assemble, package
from brimful.core.content import Text
from brimful.engine.events import Emitter
from brimful.engine.own_calls import OwnCalls
from brimful.errors import SpendingLimitReached
from brimful.records import SpendingLimit, Usage
from brimful.records.reply import Reply
from brimful.stores import connect
from brimful.testing import ScriptedProvider

async def call_until_the_limit():
    clock = lambda: float(sys.argv[2])
    provider = ScriptedProvider(itertools.repeat(Reply(parts=(Text(text="Done."),), usage=Usage(prompt=1_000))))
    context = assemble([package("message-current", "Hi", model="gpt-4o")], model="gpt-4o", now=1.0)
    async with connect(sys.argv[1]) as database:
        store = database.tenant("acme")
        events = Emitter((), tenant="acme", clock=clock)
        caller = OwnCalls(store, SpendingLimit(tokens_per_day=30_000), clock=clock, events=events)
        print("ready", flush=True)
        sys.stdin.readline()
        calls = 0
        try:
            while True:
                try:
                    await caller.send("summary", provider, context)
                    calls += 1
                except SpendingLimitReached as limit:
                    if limit.spent >= limit.limit:
                        raise
        except SpendingLimitReached:
            print(calls, flush=True)

asyncio.run(call_until_the_limit())
"""


@both_stores
def test_two_processes_share_one_limit(url, run, clock):
    async def story():
        async with connect(url) as database:
            pipes = {"stdin": asyncio.subprocess.PIPE, "stdout": asyncio.subprocess.PIPE}
            command = (sys.executable, "-c", CALLER, url, str(clock()))
            processes = [await asyncio.create_subprocess_exec(*command, **pipes) for _ in range(2)]
            for process in processes:
                assert await process.stdout.readline() == b"ready\n"
            for process in processes:
                process.stdin.write(b"go\n")
            made = [int(await process.stdout.readline()) for process in processes]
            for process in processes:
                assert await process.wait() == 0
            return made, await database.tenant("acme").own_spending(now=clock())

    made, spent = run(story())
    assert sum(made) == spent.calls
    assert 30_000 <= spent.tokens_today <= 31_000


# -- what is billed --------------------------------------------------------------------------------------------------


@both_stores
def test_reported_usage_is_counted_by_kind_with_its_price(with_store, clock):
    async def story(store):
        caller = make_caller(store, clock)
        provider = ScriptedProvider([billed(10_000, 500), billed(100), billed(7)])
        for kind in ("learn", "summary", "learn"):
            await caller.send(kind, provider, make_context())
        return await store.own_spending(now=clock())

    spent = with_store(story)
    summary, learn = spent.kinds
    assert (summary.kind, summary.calls, summary.tokens) == ("summary", 1, 100)
    assert (learn.calls, learn.prompt, learn.completion, learn.unpriced) == (2, 10_007, 500, 0)
    assert learn.dollars == pytest.approx(10_007 * 0.15e-6 + 500 * 0.6e-6)
    assert spent.tokens_today == spent.tokens == 10_607
    assert (spent.tokens_per_day, spent.dollars_per_day, spent.reserved_tokens) == (None, None, 0)


@pytest.mark.parametrize("usage", [None, Usage()])
def test_a_reply_without_usage_is_counted_here(with_store, clock, usage):
    text = "A summary of nine words that nobody has billed."

    async def story(store):
        context = make_context("word " * 500)
        provider = ScriptedProvider([Reply(parts=(Text(text=text),), usage=usage)])
        await make_caller(store, clock).send("summary", provider, context)
        return context, await store.own_spending(now=clock())

    context, spent = with_store(story)
    (found,) = spent.kinds
    assert found.prompt == context.tokens > 500
    assert found.completion == brimful.count(text, model=MINI).upper


def make_broken():
    error = ProviderTimeout("openai", "no answer within 600 seconds")
    error.may_be_billed = True
    return error


@pytest.mark.parametrize(("error", "calls"), [(ProviderError("openai", "refused", status=500), 0), (make_broken(), 1)])
def test_a_refused_call_costs_nothing_and_one_without_an_answer_the_most_that_it_may(with_store, clock, error, calls):
    async def story(store):
        caller, context = make_caller(store, clock, tokens_per_day=10_000_000), make_context()
        with pytest.raises(ProviderError):
            await caller.send("summary", ScriptedProvider([error]), context)
        return context, await store.own_spending(now=clock())

    context, spent = with_store(story)
    most = context.tokens + context.request["max_completion_tokens"]
    assert (spent.calls, spent.tokens, spent.reserved_tokens) == (calls, calls * most, 0)


def test_a_cancelled_call_costs_the_most_that_it_may(with_store, clock):
    async def story(store):
        provider = ScriptedProvider([billed(5)])
        provider.hold()
        call = asyncio.create_task(make_caller(store, clock).send("compact", provider, make_context()))
        while not provider.waiting:  # noqa: ASYNC110 - it has no event
            await asyncio.sleep(0)
        under_way = await store.own_spending(now=clock())
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        return under_way, await store.own_spending(now=clock())

    under_way, after = with_store(story)
    assert (under_way.calls, under_way.tokens_today) == (0, 0)
    assert under_way.reserved_tokens > 4_000
    assert (after.calls, after.tokens_today, after.reserved_tokens) == (1, under_way.reserved_tokens, 0)


def test_a_call_of_a_model_without_a_price_is_counted_as_such(with_store, clock):
    async def story(store):
        await make_caller(store, clock).send("summary", ScriptedProvider([billed(70)]), make_context(model=UNKNOWN))
        return await store.own_spending(now=clock())

    (found,) = with_store(story).kinds
    assert (found.tokens, found.dollars, found.unpriced) == (70, 0.0, 1)


# -- days, restarts, killed processes --------------------------------------------------------------------------------


@both_stores
def test_the_limit_outlives_a_restart_and_ends_with_the_day(url, run, clock):
    clock.now = DAY + 23 * 3_600
    provider = ScriptedProvider(itertools.repeat(billed(1_000)))

    async def call(**limit):
        async with connect(url) as database:
            caller = make_caller(database.tenant("acme"), clock, **limit)
            await caller.send("summary", provider, make_context())

    run(call(tokens_per_day=900))
    with pytest.raises(SpendingLimitReached) as caught:
        run(call(tokens_per_day=900))
    error = caught.value
    assert (error.unit, error.limit, error.spent, error.until) == ("tokens", 900, 1_000, DAY + SECONDS_PER_DAY)
    assert str(error) == (
        "the daily limit of own calls is reached: 1,000 of 900 tokens spent today; they go on at 2026-11-08 00:00 UTC, "
        "or with a higher own_calls.tokens_per_day"
    )
    run(call(tokens_per_day=1_001))
    clock.now = DAY + SECONDS_PER_DAY
    run(call(tokens_per_day=900))
    assert len(provider.requests) == 3


def test_a_lower_limit_is_shown_even_if_it_allows_no_call(with_store, clock):
    async def story(store):
        await make_caller(store, clock, tokens_per_day=900).send(
            "learn", ScriptedProvider([billed(70)]), make_context()
        )
        with pytest.raises(SpendingLimitReached):
            await make_caller(store, clock, tokens_per_day=50).send("learn", ScriptedProvider(), make_context())
        return await store.own_spending(now=clock())

    assert with_store(story).tokens_per_day == 50


def test_a_killed_process_only_makes_its_day_stricter(with_store, clock):
    clock.now = DAY + 60
    limit = SpendingLimit(tokens_per_day=10_000)

    async def story(store):
        await store.reserve_own_call("learn", Charge(prompt=16_000), limit, now=clock())  # and never settled
        caller = make_caller(store, clock, tokens_per_day=10_000)
        with pytest.raises(SpendingLimitReached) as caught:
            await caller.send("learn", ScriptedProvider([billed(1)]), make_context())
        clock.now += SECONDS_PER_DAY
        await caller.send("learn", ScriptedProvider([billed(1)]), make_context())
        return caught.value, await store.own_spending(now=clock())

    error, spent = with_store(story)
    assert (error.spent, error.reserved, error.until) == (0, 16_000, DAY + 60 + BUSY_SECONDS)
    assert "0 of 10,000 tokens spent today and 16,000 reserved by calls under way" in str(error)
    assert (spent.tokens_today, spent.reserved_tokens) == (1, 0)


def test_tenants_have_limits_of_their_own(url, run, clock):
    async def story():
        async with connect(url) as database:
            provider = ScriptedProvider(itertools.repeat(billed(1_000)))
            for tenant in ("acme", "other"):
                await make_caller(database.tenant(tenant), clock, tokens_per_day=1).send(
                    "summary", provider, make_context()
                )
            return await database.tenant("none").own_spending(now=clock())

    assert run(story()) == OwnSpending()


class FailingOnSettle:
    """A store that cannot write what a call cost."""

    def __init__(self, store):
        self._store = store
        self.tenant = store.tenant

    async def reserve_own_call(self, *args, **options):
        return await self._store.reserve_own_call(*args, **options)

    async def settle_own_call(self, *_):
        raise StoreUnavailable(self.tenant, "down", retriable=True)


def test_a_reply_is_not_lost_if_the_store_fails_after_the_call(with_store, clock, caplog):
    async def story(store):
        reply = await make_caller(FailingOnSettle(store), clock).send(
            "learn", ScriptedProvider([billed(1)]), make_context()
        )
        return reply.text, await store.own_spending(now=clock())

    text, spent = with_store(story)
    assert text == "Done."
    assert spent.reserved_tokens > 4_000
    assert "was not saved" in caplog.text


# -- dollars ---------------------------------------------------------------------------------------------------------


def test_dollars_are_limited_by_the_price_of_the_model(with_store, clock):
    async def story(store):
        caller = make_caller(store, clock, dollars_per_day=0.1, tokens_per_day=10_000_000)
        provider = ScriptedProvider(itertools.repeat(billed(400_000)))  # 6 cents each
        for _ in range(2):
            await caller.send("summary", provider, make_context())
        with pytest.raises(SpendingLimitReached) as caught:
            await caller.send("summary", provider, make_context())
        return caught.value

    error = with_store(story)
    assert (error.unit, error.limit) == ("dollars", 0.1)
    assert error.spent == pytest.approx(0.12)
    assert "$0.1200 of $0.1000 spent today" in str(error)
    assert str(error).endswith("own_calls.dollars_per_day")


def test_a_model_without_a_price_cannot_be_limited_in_dollars(with_store, clock, new_engine, run):
    async def story(store):
        with pytest.raises(InvalidValue, match=r"'home-made' is not known.* set own_calls\.tokens_per_day instead"):
            await make_caller(store, clock, dollars_per_day=5.0).send(
                "summary", ScriptedProvider([billed(1)]), make_context(model=UNKNOWN)
            )

    async def use(engine):
        async with engine:
            provider = ScriptedProvider()
            with pytest.raises(InvalidValue, match=r"own_calls\.dollars_per_day"):
                engine.make_summarizer(UNKNOWN, provider=provider)
            with pytest.raises(InvalidValue, match=r"own_calls\.dollars_per_day"):
                await engine.learn(["Hi"], user="ada", model=UNKNOWN, provider=provider)
            engine.make_summarizer(UNKNOWN, provider=ScriptedProvider(wire="ollama"))  # it costs nothing

    with_store(story)
    limit = SpendingLimit(dollars_per_day=5.0)
    run(use(new_engine(own_calls=limit)))
    with pytest.raises(InvalidValue, match=r"own_calls\.dollars_per_day"):
        new_engine(own_calls=limit, summarizer="home-made")
    with pytest.raises(InvalidValue, match=r"own_calls\.dollars_per_day"):
        new_engine(own_calls=limit, embedder=OpenAIEmbedder("home-made", base_url="https://ai.example/v1", key="k"))
    new_engine(own_calls=limit, summarizer=MINI, embedder=OpenAIEmbedder("text-embedding-3-small", key="k"))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *[("tokens_per_day", value) for value in (-1, 1.5, True, "many", 10**40)],
        *[("dollars_per_day", value) for value in (-0.01, float("nan"), float("inf"), "much", True, 1e12)],
    ],
)
def test_a_wrong_limit_is_refused(field, value):
    with pytest.raises(InvalidValue, match=field):
        SpendingLimit(**{field: value})


def test_a_limit_of_zero_allows_no_call(with_store, clock):
    async def story(store):
        for limit in ({"tokens_per_day": 0}, {"dollars_per_day": 0}):
            with pytest.raises(SpendingLimitReached):
                await make_caller(store, clock, **limit).send("learn", ScriptedProvider(), make_context())
        return await store.own_spending(now=clock())

    assert with_store(story) == OwnSpending()


# -- at the limit ----------------------------------------------------------------------------------------------------


def test_learn_says_what_was_not_read_and_when_it_can_be(new_engine, run, clock):
    clock.now = DAY
    provider = ScriptedProvider(itertools.repeat(billed(5_000, text=NOTHING)))

    async def story():
        async with new_engine(model=MINI, provider=provider, own_calls=SpendingLimit(tokens_per_day=9_000)) as engine:
            reports = [await engine.learn([f"Message {n}"], user="ada") for n in range(3)]
            clock.now += SECONDS_PER_DAY
            reports.append(await engine.learn(["Message 2"], user="ada"))
            return reports, await engine.own_spending(), await engine.own_spending(since=clock.now)

    reports, spent, today = run(story())
    assert [report.messages for report in reports] == [1, 1, 0, 1]
    assert [report.postponed_until for report in reports] == [None, None, DAY + SECONDS_PER_DAY, None]
    (note,) = reports[2].notes
    assert note.startswith("1 messages were not read: the daily limit of own calls is reached: 10,000 of 9,000 tokens")
    assert (spent.tokens, spent.tokens_today, today.tokens, spent.tokens_per_day) == (15_000, 5_000, 5_000, 9_000)


def make_days(days):
    return [
        Message(id=f"m{day}", room="den", content=f"Tea number {day}", at=DAY + day * SECONDS_PER_DAY)
        for day in range(days)
    ]


def test_the_janitor_leaves_days_pending_and_goes_on_the_next_day(new_engine, run, clock):
    clock.now = DAY + 6 * SECONDS_PER_DAY
    provider = ScriptedProvider(itertools.repeat(billed(5_000, text="They spoke of tea.")))

    async def story():
        async with new_engine(own_calls=SpendingLimit(tokens_per_day=8_000)) as engine:
            await engine.post_many(make_days(6))
            writer = engine.make_summarizer(MINI, provider=provider)
            first = await engine.run_janitor(summarizer=writer, purge=True)
            clock.now += SECONDS_PER_DAY
            second = await engine.run_janitor(summarizer=writer)
            clock.now += SECONDS_PER_DAY
            third = await engine.run_janitor(summarizer=writer)
            return first, second, third, await engine.store.summaries("den")

    first, second, third, summaries = run(story())
    assert [each.facts["summaries"] for each in (first, second, third)] == [2, 2, 1]
    assert [each.pending for each in (first, second, third)] == [3, 1, 0]
    assert first.postponed_until == DAY + 7 * SECONDS_PER_DAY
    assert third.postponed_until is None
    assert "3 days, months and years are not summarized yet: the daily limit" in first.rooms[0].notes[0]
    assert all(each.content.endswith("They spoke of tea.") for each in summaries)


def make_worker(database, clock, provider, **settings):
    limit = SpendingLimit(tokens_per_day=8_000)

    async def open_engine(tenant):
        return await Engine(
            database,
            tenant=tenant,
            embedder=None,
            provider=provider,
            own_calls=limit,
            indexing="elsewhere",
            clock=clock,
        ).open()

    reports = []
    chosen = WorkSettings(own_calls=limit, **settings)
    worker = Worker(database, chosen, open_engine=open_engine, clock=clock, on_report=reports.append)
    return worker, reports


def test_the_worker_postpones_summaries_until_the_next_day_and_logs_it_once(new_engine, run, clock, caplog):
    clock.now = DAY + 6 * SECONDS_PER_DAY
    provider = ScriptedProvider(itertools.repeat(billed(5_000, text="They spoke of tea.")))

    async def story():
        async with new_engine() as engine:
            database = engine.database
            await engine.post_many(make_days(6))
            await engine.store.add_job("summarize")
            worker, reports = make_worker(database, clock, provider, kinds=frozenset({"summarize"}), model=MINI)
            for _ in range(3):  # there is nothing to do until the next day
                await worker.run_due()
                await engine.store.add_job("summarize")
            (waiting,) = [job for job in await database.list_jobs() if job.kind == "summarize"]
            clock.now += SECONDS_PER_DAY
            await worker.run_due()
            clock.now += SECONDS_PER_DAY
            await worker.run_due()
            return reports, waiting

    with caplog.at_level(logging.WARNING, logger="brimful"):
        reports, waiting = run(story())
    assert [each.outcome for each in reports] == ["postponed", "postponed", "done"]
    assert (waiting.due, waiting.error) == (DAY + 7 * SECONDS_PER_DAY, "")
    assert len([each for each in caplog.messages if "the daily limit" in each]) == 2  # one for each day


def test_a_model_that_compacts_is_replaced_by_the_rules(with_store, clock):
    async def story(store):
        caller = make_caller(store, clock, tokens_per_day=0)
        request = {"model": MINI, "messages": [{"role": "user", "content": f"{n}. {'word ' * 50}"} for n in range(20)]}
        context = brimful.fit(request, window=800, completion=16, now=DAY)
        provider = ScriptedProvider([billed(1)])
        writer = StepSummarizer(MINI, provider, send=lambda provider, each: caller.send("compact", provider, each))
        return await brimful.compact(context, summarizer=writer), provider

    made, provider = with_store(story)
    assert (made.by, provider.requests) == ("rules", [])
    assert "the summarizer was not called: the daily limit of own calls is reached" in made.notices[0].text


def test_a_context_quotes_messages_at_the_limit(new_engine, run):
    provider = ScriptedProvider(["A summary."])

    async def story():
        own = SpendingLimit(tokens_per_day=0)
        async with new_engine(model=MINI, provider=provider, summarizer=MINI, own_calls=own) as engine:
            for n in range(40):
                await engine.post(room="den", text=f"{n}. {'word ' * 60}", at=DAY + n)
            options = {"overrides": {"ephemeral_summaries": True}, "window": 2_000, "completion": 200}
            return await engine.assemble(room="den", message="Hello?", **options)

    context = run(story())
    (notice,) = [each for each in context.inputs.degraded if each.kind == "summarizer-failed"]
    assert "because the summarizer was not asked: the daily limit of own calls is reached" in notice.text
    assert provider.requests == []


# -- embedders -------------------------------------------------------------------------------------------------------


class BilledEmbedder(OpenAIEmbedder):
    """An embedder of OpenAI's, without the network."""

    def __init__(self):
        super().__init__("text-embedding-3-small", key="k")
        self.texts = []

    async def embed(self, texts, purpose):  # noqa: ARG002 - as the protocol has it
        self.texts += texts
        return np.eye(len(texts), 8, dtype=np.float32)


def test_texts_that_are_embedded_for_money_are_own_calls(new_engine, run, clock):
    clock.now = DAY
    embedder = BilledEmbedder()

    async def story():
        async with new_engine(embedder=embedder, own_calls=SpendingLimit(tokens_per_day=10)) as engine:
            await engine.remember("Ada lives in Paris and likes tea in the afternoon.", user="ada")
            await engine.wait_indexed()
            embedded = await engine.own_spending()
            await engine.remember("Ben lives in Rome.", user="ada")
            progress = await engine.wait_indexed()
            found = await engine.search("Where is Paris?", user="ada")
            state = engine.breaker.state(clock())
            clock.now += SECONDS_PER_DAY
            await engine.remember("Cid lives in Oslo.", user="ada")
            last = await engine.wait_indexed()
            return embedded, progress, found, state, last

    embedded, progress, found, state, last = run(story())
    (kind,) = embedded.kinds
    assert (kind.kind, kind.calls, kind.unpriced) == ("embed", 1, 0)
    assert 10 <= kind.tokens <= 20
    assert kind.dollars == pytest.approx(kind.tokens * 0.02e-6)
    assert (progress.waiting, last.waiting) == (1, 0)
    assert found[0].record.content.startswith("Ada")
    assert found.degraded[0].kind == "vector-search-failed"
    assert state == "closed"


def test_the_worker_postpones_embedding_until_the_next_day(new_engine, run, clock):
    clock.now = DAY
    embedder = BilledEmbedder()

    async def story():
        async with new_engine(embedder=embedder, indexing="elsewhere") as engine:
            await engine.store.use_embedder(embedder.id)
            for n in range(3):
                await engine.remember(" ".join(f"{n}-{word}" for word in range(1_500)), user="ada")
            worker, reports = make_worker(
                engine.database, clock, None, kinds=frozenset({"embed"}), embedder=embedder, batch=1
            )
            await worker.run_due()
            early = await engine.own_spending()
            clock.now += 2 * SECONDS_PER_DAY
            await worker.run_due()
            return reports, early

    reports, early = run(story())
    assert (reports[0].kind, reports[0].outcome) == ("embed", "postponed")
    assert 8_000 <= early.tokens_today < 20_000
    assert reports[1].outcome in ("done", "postponed")
    assert len(embedder.texts) > early.calls


@pytest.mark.parametrize(
    "embedder", ["static", "none", OpenAIEmbedder("bge", base_url="http://127.0.0.1:1/v1", key="")]
)
def test_an_embedder_that_bills_nothing_is_not_limited(with_store, clock, embedder):
    async def story(store):
        plain = embedder_for(embedder)
        assert make_caller(store, clock, tokens_per_day=0).meter(plain) is plain

    with_store(story)


# -- events ----------------------------------------------------------------------------------------------------------


def test_each_billed_call_is_an_event(with_store, clock):
    events = []

    async def story(store):
        caller = make_caller(store, clock, [events.append], tokens_per_day=50_000)
        await caller.send("learn", ScriptedProvider([billed(1_000, 10)]), make_context())
        with pytest.raises(ProviderError):
            await caller.send("learn", ScriptedProvider([ProviderError("openai", "no", status=400)]), make_context())

    with_store(story)
    (event,) = events
    assert (event.name, event.tenant) == ("called", "acme")
    assert event.facts == {
        "kind": "learn",
        "model": MINI,
        "prompt": 1_000,
        "completion": 10,
        "dollars": pytest.approx(0.000156),
        "tokens_per_day": 50_000,
        "dollars_per_day": None,
    }
