"""What all adapters share: own objects come back, and what is shortened or added goes through the adapter."""

import asyncio
import json

import pytest
from hypothesis import given, settings

import brimful
from adapter_properties import Case, chats, check
from brimful.adapters.fitter import Fitter, arun, count_request, describe_hit, find_refusal, read_newest, run
from brimful.core.labels import HISTORY_OPEN
from brimful.errors import ContextOverflow, InvalidValue


class Note(dict):
    """A message of a framework: it has an identity."""


def send_with(options):
    fitter = Fitter(**options)

    def send(messages, conversation):
        fitted = fitter.fit([[dict(each)] for each in messages], conversation=conversation)
        return fitted.rebuild(
            messages, shorten=lambda _, wire: Note(wire[0]), add=lambda text: Note(role="user", content=text)
        )

    return send


CASE = Case(make=lambda messages: [Note(each) for each in messages], sender=send_with, wire=lambda note: [dict(note)])


@given(chats(), chats())
@settings(max_examples=40)
def test_the_properties_of_adapters_hold(messages, other):
    check(CASE, messages, other)


def steps(count):
    yield [{"role": "user", "content": "I am mia_li_3668. Which of my orders are broken?"}]
    for n in range(count):
        function = {"name": "get_order", "arguments": json.dumps({"order": n})}
        yield [
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": f"c{n}", "type": "function", "function": function}],
            }
        ]
        yield [{"role": "tool", "tool_call_id": f"c{n}", "content": json.dumps({"order": n, "note": "fine " * 100})}]


def rebuilt(fitted, originals):
    return fitted.rebuild(originals, shorten=lambda old, wire: ("short", old, wire), add=lambda text: ("added", text))


def test_a_request_that_fits_is_the_very_same_list():
    given_ = list(steps(2))
    assert rebuilt(Fitter(model="gpt-4o").fit(given_), given_) is given_


def test_a_ledger_is_added_and_the_system_prompt_is_counted_but_not_among_the_messages():
    given_ = list(steps(40))
    fitter = Fitter(model="gpt-4o", window=2_000, completion=200)
    tools = [{"type": "function", "function": {"name": "get_order", "parameters": {"type": "object"}}}]
    plain, more = fitter.fit(given_), fitter.fit(given_, system="You are the shop's assistant. " * 30, tools=tools)
    sent = rebuilt(more, given_)
    assert sent[0] is given_[0]
    assert sent[1][1].startswith("<history")
    assert sent[-1] is given_[-1]
    assert len(sent) < len(rebuilt(plain, given_))
    assert more.context.tokens <= 1_800


def test_a_framework_that_keeps_what_was_sent_has_one_ledger():
    fitter, messages = Fitter(model="gpt-4o", window=2_000, completion=200), []
    for each in steps(60):
        messages = fitter.fit([[dict(note)] for note in [*messages, *each]]).rebuild(
            [*messages, *map(Note, each)],
            shorten=lambda _, wire: Note(wire[0]),
            add=lambda text: Note(role="user", content=text),
        )
    assert [str(note["content"])[:8] for note in messages if note["role"] == "user"] == ["I am mia", "<history"]


def test_the_wire_messages_of_one_message_stay_together():
    pairs = [[call[0], result[0]] for call, result in zip(list(steps(40))[1::2], list(steps(40))[2::2], strict=True)]
    given_ = [[{"role": "user", "content": "Go."}], *pairs]
    fitted = Fitter(model="gpt-4o", window=2_000, completion=200, policy="fit").fit(given_)
    whole = [piece for piece in fitted.pieces if piece.index not in (0, None)]
    assert 2 <= len(whole) < 40
    assert len(fitted.context.positions) == 2 * len(whole) + 1


def test_a_users_own_history_tag_does_not_shift_the_messages():
    hostile = [{"role": "user", "content": HISTORY_OPEN}]
    given_ = [*steps(20), hostile, *list(steps(40))[41:], hostile]
    sent = rebuilt(Fitter(model="gpt-4o", window=2_000, completion=200).fit(given_), given_)
    assert sent[-1] is given_[-1]
    assert [each[0] for each in sent].count("added") == 1


def test_pins_and_ties_are_indices_of_the_frameworks_messages():
    given_ = list(steps(40))
    fitted = Fitter(model="gpt-4o", window=2_000, completion=200).fit(given_, system="Hi.", pin=[5, 6])
    assert {5, 6} <= {piece.index for piece in fitted.pieces}


@pytest.mark.parametrize("wrong", [{"engine": 7}, {"limit": 3}, {"windows": 3}])
def test_wrong_options_are_refused(wrong):
    with pytest.raises(InvalidValue):
        Fitter(**wrong)


def test_the_window_of_the_framework_counts_if_nobody_else_knows():
    given_ = list(steps(40))
    assert Fitter().fit(given_, model="our-own-model", window=3_000).context.budget.window == 3_000
    assert Fitter(window=4_000).fit(given_, model="our-own-model", window=3_000).context.budget.window == 4_000
    assert Fitter().fit(given_, model="gpt-4o", window=3_000).context.budget.window == 128_000


@pytest.mark.parametrize("model", ["claude-sonnet-4-5", "gemini-2.5-pro"])
def test_the_user_speaks_first_where_the_provider_wants_that(model):
    chat = [[{"role": "user" if n % 2 == 0 else "assistant", "content": f"{n}. {'word ' * 60}"}] for n in range(41)]
    for window in range(1_000, 2_000, 90):
        fitted = Fitter(model=model, window=window, completion=100).fit(chat, system="You are a friend.")
        assert 2 < len(fitted.pieces) < 41
        assert fitted.pieces[0].index % 2 == 0


def test_a_refused_request_is_fitted_again_and_the_window_is_remembered():
    given_ = list(steps(60))
    fitter = Fitter(model="gpt-4o", completion=200)
    fitted = fitter.fit(given_)
    error = RuntimeError("This model's maximum context length is 4000 tokens. However, you requested 9000 tokens.")
    smaller = fitter.refit(given_, fitted, error)
    assert smaller.context.tokens < 4_000 < fitted.context.tokens
    assert fitter.fit(given_).context.budget.window <= 4_000
    assert fitter.refit(given_, fitted, RuntimeError("a bad key")) is None
    assert find_refusal(ContextOverflow("x", "too long", window=7)).window == 7


class TooLong(Exception):
    """An error of a framework whose text says nothing."""


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("text", ["maximum context length is 4000 tokens", "no"])
def test_a_call_that_is_refused_as_too_long_is_made_once_more(text, is_async):
    sent = []

    def send(fitted):
        sent.append(fitted.context.tokens)
        if len(sent) == 1:
            raise TooLong(text)
        return "Yes."

    async def asend(fitted):
        return send(fitted)

    def call(fitter):
        sent.clear()
        if is_async:
            return asyncio.run(fitter.acall(list(steps(60)), asend, lambda _: {}))
        return fitter.call(list(steps(60)), send, lambda _: {})

    assert call(Fitter(model="gpt-4o", completion=200, refusals=(TooLong,))) == "Yes."
    assert sent[1] < sent[0]
    if text == "no":
        with pytest.raises(TooLong):
            call(Fitter(model="gpt-4o"))


def test_the_recall_tool_is_offered_if_something_is_left_out():
    fitter = Fitter(model="gpt-4o", window=2_000, completion=200, recall=True, overrides={"forms.kinds": []})
    assert not fitter.fit(list(steps(2))).offers_recall
    assert fitter.fit(list(steps(60))).offers_recall
    assert not Fitter(model="gpt-4o", window=2_000, completion=200).fit(list(steps(60))).offers_recall


def test_an_engine_of_either_kind_is_used():
    async def story(engine):
        for at in range(600):
            await engine.post(room="tea", content=f"Message {at}.")
        hit = (await engine.search("Message 7.", room="tea")).hits[0]
        return len(await read_newest(engine, "tea")), len(await read_newest(engine, "tea", 3)), describe_hit(hit)

    async def with_engine():
        async with brimful.Engine("sqlite://", indexing=False) as engine:
            with pytest.raises(InvalidValue, match="engine: is asynchronous"):
                run(engine, story)
            return await arun(engine, story)

    with brimful.SyncEngine("sqlite://", indexing=False) as engine:
        found, few, known = run(engine, story)
    assert (found, few, known["kind"], known["room"]) == (600, 3, "message", "tea")
    assert asyncio.run(with_engine())[:2] == (600, 3)


def test_usage_is_observed_in_an_engine(tmp_path):
    given_ = list(steps(10))
    with brimful.SyncEngine(f"sqlite:///{tmp_path}/chat.db", embedder="none") as engine:
        fitter = Fitter(model="gpt-4o", engine=engine)
        fitter.observe(fitter.fit(given_, conversation="thread-1"), usage={"prompt_tokens": 900})
        fitted = asyncio.run(fitter.afit(given_, conversation="thread-2"))
        asyncio.run(fitter.aobserve(fitted, usage={"prompt_tokens": 900}))
        builds = engine.run(engine.store.builds())
        answers = [engine.run(engine.store.responses(context=build.id)) for build in builds]
    assert sorted(build.room for build in builds) == ["thread-1", "thread-2"]
    assert [answer.usage.prompt for (answer,) in answers] == [900, 900]


def test_an_asynchronous_engine_says_where_it_works(tmp_path):
    async def story():
        async with brimful.Engine(f"sqlite:///{tmp_path}/chat.db", embedder="none") as engine:
            fitter = Fitter(model="gpt-4o", engine=engine)
            with pytest.raises(InvalidValue, match=r"engine: is asynchronous: pass a brimful\.SyncEngine"):
                fitter.fit(list(steps(1)))
            fitted = await fitter.afit(list(steps(1)), conversation="a")
            await fitter.aobserve(fitted, usage={"prompt_tokens": 90})
            return await engine.store.builds(room="a")

    assert len(asyncio.run(story())) == 1


def test_a_request_is_counted_as_it_is_fitted():
    given_ = list(steps(5))
    flat = [message for group in given_ for message in group]
    fitted = Fitter(model="gpt-4o").fit(given_, system="Hi.")
    assert count_request(flat, model="gpt-4o", system="Hi.") == fitted.context.tokens
