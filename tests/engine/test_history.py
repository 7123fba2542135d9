"""Cached histories are never mixed up, and save reads."""

import subprocess
import sys
import threading

import pytest

from brimful import budget
from brimful.engine import Engine
from brimful.engine.history import (
    FIRST_PAGE,
    MAX_PAGE,
    HistoryReach,
    PackageCache,
    RecentHistory,
    get_history_reach,
    load_history,
)
from brimful.policies import load_policy
from brimful.records import Memory, Message, Room
from brimful.testing import WordCounter

NOW = 1_794_000_000.0


def test_the_same_text_by_another_sender_is_packaged_again(run, new_engine):
    """A room is removed, and made again: all is as it was, but who said it."""

    async def story():
        named = []
        async with new_engine(model="gpt-4o", embedder="none") as engine:
            for sender in ("Ada", "Bo"):
                await engine.post(room="r", id="m1", sender=sender, text="Good morning.", at=NOW)
                context = await engine.assemble(room="r", message="Who said that?", now=NOW + 1)
                named += [package.name for package in context.inputs.packages if package.id == "m1"]
                await engine.store.remove(Room, "r")
        return named

    assert run(story()) == ["Ada", "Bo"]


class Placed(WordCounter):
    """A counter that notes on which threads it counts."""

    def __init__(self):
        self.threads = set()

    def text(self, text):
        self.threads.add(threading.current_thread())
        return super().text(text)


@pytest.mark.parametrize(("words", "aside"), [(10, False), (100_000, True)])
def test_a_long_message_is_packaged_in_a_thread(run, words, aside):
    counter, message = Placed(), Message(id="m1", room="r", content="tea " * words)
    package, cost = run(PackageCache().package(message, counter, None))
    assert (package.tokens.tokens, cost) == (words, words + 2)
    assert (threading.current_thread() not in counter.threads) == aside


class Paged:
    """A store that notes how many messages it is asked for."""

    def __init__(self, store):
        self._store = store
        self.limits = []

    async def history(self, room, **options):
        self.limits.append(options["limit"])
        return await self._store.history(room, **options)

    async def room_contents(self, room, **options):
        self.limits.append(options["limit"])
        return await self._store.room_contents(room, **options)

    def __getattr__(self, name):
        return getattr(self._store, name)


class PagedDatabase:
    """A database whose tenants all use one store."""

    def __init__(self, database, store):
        self._database = database
        self._store = store

    def tenant(self, name):
        del name
        return self._store

    def __getattr__(self, name):
        return getattr(self._database, name)


def test_the_next_build_reads_as_many_messages_as_the_last_one_needed(run, new_engine):
    async def story():
        async with new_engine(model="gpt-4o", embedder="none") as engine:
            messages = [Message(id=f"m{n}", room="r", content=f"Message {n}", at=NOW + n) for n in range(400)]
            await engine.post_many(messages)
            paged = Paged(engine.store)
            build = {"room": "r", "message": "Hi?", "window": 1500, "completion": 300, "now": NOW + 999, "save": False}
            async with Engine(PagedDatabase(engine.database, paged), model="gpt-4o", embedder="none") as watched:
                return paged.limits, [await watched.assemble(**build) for _ in range(3)]

    limits, contexts = run(story())
    assert limits[:2] == [FIRST_PAGE, 2 * FIRST_PAGE]
    assert FIRST_PAGE < limits[2] < 3 * FIRST_PAGE
    assert len(limits) == 4
    assert contexts[0] == contexts[1] == contexts[2]


def test_a_page_is_never_too_short_or_too_long():
    packaged, reach = PackageCache(max_entries=2), HistoryReach(tokens=100, sure=50)
    assert packaged.first_page("r", reach) == FIRST_PAGE
    for took, wanted in ((0, FIRST_PAGE), (3, FIRST_PAGE), (160, 174), (10**6, MAX_PAGE)):
        packaged.note_needed("r", reach, took)
        assert packaged.first_page("r", reach) == wanted
    for room in ("s", "t"):
        packaged.note_needed(room, reach, 160)
    assert packaged.first_page("r", reach) == FIRST_PAGE


def test_messages_before_the_start_of_history_are_searched():
    """History stays where it began: turns before that are in no window, though their place would be sure."""
    newest_first = tuple(Message(id=f"m{seq}", room="r", content="Hi", seq=seq) for seq in (9, 8, 7, 6, 5))
    recent = RecentHistory(messages=newest_first, sure=6)
    assert recent.search_end("m8") == 8
    assert recent.search_end("m5") == 6  # it began before what is sure: that is in
    assert recent.search_end("gone") == recent.search_end("") == 6
    assert RecentHistory(messages=newest_first).search_end("m8") is None


def test_the_tokenizer_is_loaded_while_history_is_read():
    code = """
import asyncio
from brimful.counting import is_preloaded
from brimful.engine import Engine

async def story():
    async with Engine("sqlite://", model="gpt-4o", embedder="none") as engine:
        await engine.assemble(room="r", message="Tea?", now=0.0)

assert not is_preloaded("o200k_base")
asyncio.run(story())
assert is_preloaded("o200k_base")
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_messages_that_will_be_in_the_window_are_no_candidates_a_second_time(run, new_engine):
    """A long message among them is shortened, so it is searched, but those around it need not be."""

    async def story():
        async with new_engine(model="gpt-4o") as engine:
            for number in range(22):
                short = f"Message {number} is about the ladder in the garden."
                text = "The ladder is in the shed. " * 1_200 if number == 18 else short
                await engine.post(room="r", text=text, id=f"m{number}")
            return await engine.assemble(room="r", message="Where is the ladder?", window=8_192)

    context = run(story())
    recalled = [each.id for each in context.decisions if each.id.endswith("/recalled")]
    assert recalled == ["m18/recalled"]
    assert all(context.decision(f"m{number}").included for number in range(22))


def test_a_message_of_the_history_is_not_sent_again_as_a_search_hit(run, new_engine):
    """In an auction, short messages get in where longer ones do not fit, and search finds them as well."""

    async def story():
        async with new_engine(model="gpt-4o", policy="auction") as engine:
            for number in range(60):
                text = f"Message {number} is about the ladder in the garden, and step {number} of it. "
                text += "And so on. " * (30 if number % 4 else 0)
                await engine.post(room="r", text=text, id=f"m{number}", at=NOW - 1_000 + number)
            options = {"window": 6_000, "completion": 500, "now": NOW}
            return await engine.assemble(room="r", message="Message 16?", **options)

    context = run(story())
    [hit] = [each for each in context.decisions if each.id.endswith("/recalled")]
    turn = context.decision(hit.id.removesuffix("/recalled"))
    assert turn.included
    assert (hit.outcome, hit.by) == ("duplicate", turn.id)


def test_a_posted_question_does_not_compete_with_what_answers_it(run, new_engine):
    async def story():
        async with new_engine(model="gpt-4o") as engine:
            await engine.post(
                room="r", text="My order is W-4711, and the parcel goes to Lisbon.", id="order", at=NOW - 99
            )
            for number in range(60):
                text = f"The weather stays mild, and nothing else is new here today, number {number}."
                await engine.post(room="r", text=text, id=f"m{number}", at=NOW - 90 + number)
            question = "Which order was it that I asked you about in the beginning?"
            await engine.wait_indexed()
            options = {"window": 1_024, "completion": 128, "now": NOW}
            before = await engine.assemble(room="r", message=question, save=False, **options)
            await engine.post(room="r", text=question, id="question", at=NOW)
            await engine.wait_indexed()
            return before, await engine.assemble(room="r", **options)

    before, after = run(story())
    assert before.decision("order").included
    assert after.decision("order").included


def test_every_hit_knows_the_best_and_the_total_of_what_its_query_found(run, new_engine):
    async def story():
        async with new_engine(model="gpt-4o") as engine:
            kettles = [Memory(id=f"m{n}", content=f"Kettle {n} came from the harbour.") for n in range(60)]
            await engine.remember_many(kettles)
            await engine.wait_indexed()
            return [await engine.search("Which kettle is green?", limit=limit) for limit in (60, 5)]

    many, few = run(story())
    assert len(many) == 60
    assert {hit.best for hit in many} == {many[0].best}
    assert {hit.total for hit in (*many, *few)} == {many[0].total}
    assert many[0].best < many[0].total <= 50 * many[0].best


def test_the_best_three_stand_out_for_a_question_about_people(run, new_engine):
    async def story():
        async with new_engine(model="gpt-4o") as engine:
            for number in range(40):
                await engine.post(room="r", text=f"Parcel {number} is on its way to the harbour.", at=NOW + number)
            await engine.wait_indexed()
            questions = ("Where does her sister live?", "How far is the moon?", "Tell me a joke about ships.")
            return [await engine.search(question, room="r") for question in questions]

    about_people, *others = run(story())
    assert sum(hit.stands_out for hit in about_people) == 3
    assert all(hit.stands_out for hit in about_people[:3])
    assert not any(hit.stands_out for found in others for hit in found)


def test_a_ledger_begins_at_the_same_message_for_a_while(run, new_engine):
    reach = get_history_reach(load_policy("agent"), budget(model="gpt-4o", policy="agent", window=3_000))

    async def story():
        async with new_engine(model="gpt-4o", embedder="none") as engine:
            starts = []
            for end in range(64, 4 * reach.span + 1, 64):
                await engine.post_many(
                    [
                        Message(id=f"m{at}", room="r", content=f"Message {at}.", at=NOW + at)
                        for at in range(end - 64, end)
                    ]
                )
                read = await load_history(
                    engine.store,
                    "r",
                    counter=WordCounter(),
                    vocabulary=None,
                    reach=reach,
                    cache=PackageCache(),
                    newest=None,
                )
                starts.append((end - len(read.messages), read.messages[-1].seq))
            return starts

    starts = run(story())
    assert all(skipped == max(0, oldest - 1) for skipped, oldest in starts)
    assert len({oldest for _, oldest in starts}) <= 1 + 3 * 4 + 1
    assert all(64 * (at + 1) - oldest <= 1.25 * reach.span + 1 for at, (_, oldest) in enumerate(starts))
    assert all(64 * (at + 1) - oldest >= min(64 * (at + 1) - 1, reach.span) for at, (_, oldest) in enumerate(starts))


def test_an_empty_room_has_no_oldest_message():
    assert HistoryReach(tokens=10, sure=0, span=8).find_oldest([]) == 0
