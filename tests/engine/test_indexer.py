"""If the embedding service is slow, wrong or down, no build fails, and each reports what it lacked."""

import asyncio

import pytest

from brimful.engine import Engine, Retrieval
from brimful.errors import InvalidValue
from brimful.records import Memory, Message
from brimful.retrieval.documents import make_document
from brimful.testing import HashEmbedder

NOW = 1_794_000_000.0


def spoiled(context) -> list[str]:
    return [notice.text for notice in context.warnings if notice.kind.startswith("vector-search")]


def test_the_embedding_service_dies_in_the_middle_of_a_conversation(run, new_engine, clock):
    embedder = HashEmbedder()

    async def story():
        contexts = []
        async with new_engine(model="gpt-4o", embedder=embedder) as engine:
            await engine.remember("The demo is on Thursday.", id="demo", at=NOW)
            await engine.wait_indexed()

            async def turn(number):
                clock.now = NOW + number
                text = f"Turn {number}: when is the demo?"
                contexts.append(await engine.assemble(room="r", message=text))
                await engine.post(room="r", text=text, at=clock.now)

            await turn(1)
            await engine.wait_indexed()
            embedder.fail_with = ConnectionError("connection refused")
            for number in range(2, 8):
                await turn(number)
            states = [engine.breaker.state(clock.now)]
            embedder.fail_with = None
            await turn(200)
            clock.now = NOW + 400
            await engine.wait_indexed()  # whoever comes first is the probe: here it is what waits to be embedded
            await turn(401)
            states.append(engine.breaker.state(clock.now))
            uptime = engine.breaker.uptime(clock.now)
            return contexts, states, uptime, await engine.wait_indexed()

    contexts, states, uptime, progress = run(story())
    assert all("demo" in context.kept for context in contexts)  # full text finds what vectors would have found
    assert [bool(spoiled(context)) for context in contexts] == [False] + [True] * 7 + [False]
    assert "ConnectionError: connection refused" in spoiled(contexts[1])[0]
    assert "next attempt in" in spoiled(contexts[7])[0]
    assert states == ["open", "closed"]
    assert 0.0 < uptime < 1.0
    assert progress.waiting == 0  # what was written meanwhile has its vector now


class HeldEmbedder(HashEmbedder):
    """One that answers questions, and embeds no passage until it is let go; or the other way round."""

    def __init__(self, dims, purpose="passage"):
        super().__init__(dims)
        self.purpose = purpose
        self.free = asyncio.Event()
        self.asked = asyncio.Event()

    async def embed(self, texts, purpose):
        if purpose == self.purpose:
            self.asked.set()
            await self.free.wait()
        return await super().embed(texts, purpose)


@pytest.mark.parametrize(("messages", "behind"), [(255, False), (256, True)])
def test_contexts_warn_while_a_new_embedder_is_behind(run, new_engine, messages, behind):
    async def story():
        async with new_engine(model="gpt-4o", embedder=HashEmbedder()) as engine:
            await engine.post_many(
                [Message(id=f"m{at}", room="r", content=f"The demo of day {at}", at=NOW) for at in range(messages)]
            )
            await engine.remember("Tea at four", at=NOW)
            await engine.wait_indexed()
        embedder = HeldEmbedder(dims=64)
        async with new_engine(model="gpt-4o", embedder=embedder) as engine:
            first = await engine.assemble(room="r", message="When is the demo?", now=NOW + 1)
            embedder.free.set()
            await engine.wait_indexed()
            return first, await engine.assemble(room="r", message="When is the demo?", now=NOW + 2)

    during, after = run(story())
    assert [warning.partition(":")[0] for warning in spoiled(during)] == (
        ["vector search is behind (more than 256 documents have no vector by 'hash-64@1' yet)"] if behind else []
    )
    assert ("vector-search-behind" in {notice.kind for notice in during.warnings}) is behind
    assert "recent-memories" not in {notice.kind for notice in during.warnings}  # both sides answered
    assert spoiled(after) == []


def test_an_embedder_that_hangs_costs_only_the_timeout(run, new_engine):
    embedder = HashEmbedder()

    async def story():
        async with new_engine(model="gpt-4o", embedder=embedder, retrieval=Retrieval(timeout=0.05)) as engine:
            await engine.remember("The demo is on Thursday.", id="demo", at=NOW)
            await engine.wait_indexed()
            embedder.hang = True
            async with asyncio.timeout(120):
                return await engine.assemble(room="r", message="When is the demo?", now=NOW)

    context = run(story())
    assert "demo" in context.kept
    assert "took more than 0.05 s" in spoiled(context)[0]


def test_a_build_cancelled_during_a_probe_lets_the_next_one_probe(run, new_engine, clock):
    embedder = HeldEmbedder(dims=32, purpose="none")

    async def story():
        async with new_engine(model="gpt-4o", embedder=embedder) as engine:
            await engine.remember("The demo is on Thursday.", at=NOW)
            await engine.wait_indexed()
            for _ in range(3):
                engine.breaker.failed(clock.now)
            clock.now += 301
            embedder.purpose = "query"
            probe = asyncio.create_task(engine.assemble(room="r", message="When is the demo?"))
            await embedder.asked.wait()
            probe.cancel()
            await asyncio.gather(probe, return_exceptions=True)
            embedder.free.set()
            return await engine.assemble(room="r", message="When is the demo?"), engine.breaker.state(clock.now)

    context, state = run(story())
    assert (spoiled(context), state) == ([], "closed")


def test_without_any_match_the_most_recent_memories_are_used(run, new_engine):
    embedder = HashEmbedder()
    embedder.fail_with = ConnectionError("gone")

    async def story():
        async with new_engine(model="gpt-4o", embedder=embedder) as engine:
            for number in range(60):
                name = chr(ord("a") + number % 26) * (1 + number // 26)
                await engine.remember(f"Fact {name}.", id=f"fact-{number}", at=NOW - 100 + number)
            return await engine.assemble(room="r", message="xyzzy?", now=NOW)

    context = run(story())
    memories = [package for package in context.inputs.packages if package.kind == "memory-semantic"]
    assert sorted(package.id for package in memories) == sorted(f"fact-{number}" for number in range(50, 60))
    assert {package.relevance for package in memories} == {0.5}
    assert "recent-memories" in {notice.kind for notice in context.warnings}


def test_vectors_of_another_length_do_not_fail_the_build(run, new_engine):
    embedder = HashEmbedder(dims=32)

    async def story():
        async with new_engine(model="gpt-4o", embedder=embedder) as engine:
            await engine.remember("The demo is on Thursday.", id="demo", at=NOW)
            await engine.wait_indexed()
            embedder.dims = 16
            return await engine.assemble(room="r", message="When is the demo?", now=NOW)

    context = run(story())
    assert "demo" in context.kept
    assert spoiled(context)


def test_another_model_under_the_same_name_after_a_restart_blocks_nobody(run, new_engine):
    embedder, other = HashEmbedder(dims=32), HashEmbedder(dims=16)
    other.id = embedder.id

    async def story():
        async with new_engine(embedder=embedder) as engine:
            await engine.remember("The demo is on Thursday.", id="demo", at=NOW)
            await engine.wait_indexed()
        async with new_engine(model="gpt-4o", embedder=other) as engine, asyncio.timeout(120):
            await engine.remember("Tea at four.", at=NOW)
            during = await engine.wait_indexed()
            context = await engine.assemble(room="r", message="When is the demo?", now=NOW)
            with pytest.raises(InvalidValue, match=r"have 16 dimensions.* have 32.* index --drop hash-32@1"):
                await engine.index()
        async with new_engine(embedder=embedder) as engine:
            return during, context, await engine.wait_indexed()

    during, context, after = run(story())
    assert (during.done, during.waiting) == (1, 1)
    assert "demo" in context.kept
    assert spoiled(context)
    assert (after.done, after.waiting) == (2, 0)


def test_wait_indexed_returns_when_the_engine_is_closed(run, new_engine):
    embedder = HeldEmbedder(dims=32)

    async def story():
        async with new_engine(embedder=embedder) as engine:
            await engine.remember("Tea at four.", at=NOW)
            waiting = asyncio.create_task(engine.wait_indexed())
            await asyncio.sleep(0)
            await embedder.asked.wait()
            await engine.close()
            done, _ = await asyncio.wait([waiting], timeout=120)
            return done == {waiting}

    assert run(story())


def test_the_backlog_survives_a_restart(run, new_engine):
    embedder = HashEmbedder()
    embedder.fail_with = ConnectionError("gone")

    async def story():
        async with new_engine(embedder=embedder) as engine:
            for number in range(70):
                await engine.post(room="r", text=f"Message {number}", at=NOW)
            before = await engine.wait_indexed()
        embedder.fail_with = None
        async with new_engine(embedder=embedder) as engine:
            return before, await engine.wait_indexed()

    before, after = run(story())
    assert (before.done, before.waiting) == (0, 70)
    assert (after.done, after.waiting) == (70, 0)


class Squeamish(HashEmbedder):
    """An embedder that refuses one text, and with it every batch that holds it."""

    word = "poison"

    async def embed(self, texts, purpose):
        if any(self.word in text for text in texts):
            raise ValueError("refused")
        return await super().embed(texts, purpose)


def test_a_text_that_the_embedder_rejects_does_not_block_others(run, new_engine):
    async def story():
        async with new_engine(embedder=Squeamish()) as engine:
            await engine.post_many(
                [
                    Message(id=f"m{n}", room="r", content="poison" if n == 20 else f"Message {n}", at=NOW)
                    for n in range(100)
                ]
            )
            return await engine.wait_indexed(), engine.breaker.openings

    progress, openings = run(story())
    assert (progress.done, progress.waiting, openings) == (99, 1, 0)


def test_index_skips_rejected_texts_and_retries_them_the_next_time(run, new_engine, caplog):
    embedder = Squeamish()

    async def story():
        async with new_engine(embedder="none") as engine:
            texts = ["poison" if n == 2 else f"Message {n}" for n in range(20)]
            await engine.post_many(
                [Message(id=f"m{n}", room="r", content=text, at=NOW) for n, text in enumerate(texts)]
            )
        async with new_engine(embedder=embedder, indexing=False) as engine:
            first = await engine.index()
            embedder.word = "nothing"
            return first, await engine.index()

    first, second = run(story())
    assert (first.done, first.waiting) == (19, 1)
    assert "message 'm2' cannot be embedded: ValueError: refused" in caplog.text
    assert (second.done, second.waiting) == (20, 0)


def test_indexing_twice_at_once_leaves_one_background_task(run, new_engine):
    async def story():
        async with new_engine(embedder=HashEmbedder()) as engine:
            await engine.post(room="r", text="Hi", at=NOW)
            await asyncio.gather(engine.index(), engine.index())
        return [task.get_name() for task in asyncio.all_tasks()]

    assert "brimful-indexer" not in run(story())


def test_another_embedder_takes_over_while_full_text_search_works(run, new_engine):
    first, second = HashEmbedder(dims=32), HashEmbedder(dims=64)
    assert first.id != second.id

    async def story():
        async with new_engine(model="gpt-4o", embedder=first) as engine:
            await engine.remember("The demo is on Thursday.", id="demo", at=NOW)
            await engine.wait_indexed()
        async with new_engine(model="gpt-4o", embedder=second) as engine:
            at_once = await engine.assemble(room="r", message="When is the demo?", now=NOW)
            progress = await engine.wait_indexed()
            later = await engine.assemble(room="r", message="When is the demo?", now=NOW + 1)
            return at_once, progress, later, await engine.store.embedders()

    at_once, progress, later, embedders = run(story())
    assert "demo" in at_once.kept
    assert "demo" in later.kept
    assert (progress.done, progress.waiting) == (1, 0)
    assert embedders[0] == second.id


def test_index_embeds_the_backlog_and_reports_progress(run, new_engine):
    embedder = HashEmbedder()
    reports = []

    async def story():
        async with new_engine(embedder="none") as engine:
            texts = [f"Message {number % 500}" for number in range(600)]
            await engine.post_many([Message(id=f"m{at}", room="r", content=text) for at, text in enumerate(texts)])
            with pytest.raises(InvalidValue, match="none"):
                await engine.index()
        async with new_engine(embedder=embedder) as engine:
            return await engine.index(reports.append)

    progress = run(story())
    assert (progress.done, progress.waiting) == (600, 0)
    assert [(step.done, step.waiting) for step in reports] == [(356, 244), (600, 0)]  # a hundred passages came twice


def test_a_failed_index_leaves_the_background_task_running(run, new_engine):
    embedder = HashEmbedder()

    async def story():
        async with new_engine(embedder=embedder) as engine:
            await engine.wait_indexed()
            embedder.fail_with = ConnectionError("gone")
            await engine.post(room="r", text="Hi", at=NOW)
            with pytest.raises(ConnectionError):
                await engine.index()
            embedder.fail_with = None
            await engine.post(room="r", text="Hello", at=NOW)
            return await engine.wait_indexed()

    assert run(story()).waiting == 0


def test_results_are_cached_until_something_is_written(run, new_engine):
    facts = []

    def note(event):
        if event.name == "assembled":
            facts.append(event.facts["cached"])

    async def story():
        async with new_engine(model="gpt-4o", hooks=[note]) as engine:
            await engine.remember("The demo is on Thursday.", at=NOW)
            await engine.wait_indexed()
            for _ in range(2):
                await engine.assemble(room="r", message="When is the demo?", now=NOW, save=False)
            await engine.remember("The demo is on Friday.", id="late", at=NOW)
            return await engine.assemble(room="r", message="When is the demo?", now=NOW, save=False)

    context = run(story())
    assert facts == [False, True, False]
    assert "late" in context.kept


class Broken(HashEmbedder):
    """An embedder that gives what no store should keep."""

    async def embed(self, texts, purpose):
        return await super().embed(texts, purpose) * float("nan")


def test_vectors_with_nan_are_not_stored(run, new_engine):
    async def story():
        async with new_engine(model="gpt-4o", embedder=Broken()) as engine:
            await engine.remember("The demo is on Thursday.", id="demo", at=NOW)
            progress = await engine.wait_indexed()
            return progress, await engine.assemble(room="r", message="When is the demo?", now=NOW)

    progress, context = run(story())
    assert (progress.done, progress.waiting) == (0, 1)
    assert "demo" in context.kept
    assert spoiled(context)


def test_wait_indexed_embeds_what_another_engine_wrote(run, new_engine):
    async def story():
        async with new_engine(embedder=HashEmbedder()) as one, new_engine(embedder="none") as other:
            await one.wait_indexed()
            await other.remember("A dog barks.", at=NOW)
            return await one.wait_indexed()

    assert run(story()).waiting == 0


@pytest.fixture(params=["sqlite", "postgres"])
def url(request):
    return request.getfixturevalue(f"{request.param}_url")


def make_long(word):
    return " ".join(f"Sentence {number} is about {word}." for number in range(200))


async def write_unindexed(url):
    messages = [Message(id=f"m{number}", room="r", content=make_long(f"tea{number}")) for number in range(60)]
    async with Engine(url, embedder=None, indexing=False) as engine:
        await engine.store.load_records(messages, make_document, defer=True)


@pytest.mark.parametrize("embedder", [HashEmbedder(), None])
def test_imported_messages_are_indexed_while_the_store_is_in_use(run, url, embedder):
    async def story():
        await write_unindexed(url)
        async with Engine(url, embedder=embedder) as engine:
            await engine.post(room="r", text="short")
            progress = await engine.wait_indexed()
            hit, *_ = await engine.search("tea7 150", room="r")
            return progress, await engine.store.count_undivided(), hit, await engine.database.check()

    progress, undivided, hit, problems = run(story())
    assert (undivided, problems) == (0, [])
    assert (progress.done > 61, progress.waiting) == (embedder is not None, 0)
    assert "Sentence 150 is about tea7." in hit.record.content[hit.passage.start : hit.passage.stop]


def test_the_backlog_has_the_imported_messages(run, sqlite_url):
    reports = []

    async def story():
        await write_unindexed(sqlite_url)
        async with Engine(sqlite_url, embedder=HashEmbedder(), indexing=False) as engine:
            return await engine.index(reports.append), await engine.store.count_undivided()

    progress, undivided = run(story())
    assert (progress.waiting, undivided) == (0, 0)
    assert [report.waiting for report in reports] == sorted((report.waiting for report in reports), reverse=True)
    assert len(reports) > 1


def make_very_long(word):
    return " ".join(f"Sentence {number} is about {word}." for number in range(10_000))


@pytest.mark.parametrize("kind", [Message, Memory])
def test_a_very_long_text_is_indexed_in_pieces(run, url, kind):
    """Each piece is a transaction of its own, so that other writers do not wait for all of them."""

    async def story():
        async with Engine(url, embedder=None, indexing=False) as engine:
            if kind is Message:
                await engine.post(room="r", text=make_very_long("tea"), id="x")
            else:
                await engine.remember(make_very_long("tea"), id="x")
            hits = [await engine.search(f"tea sentence {number}", room="r") for number in (7, 5_000, 9_999)]
            assert [hit.record.id for (hit,) in hits] == ["x"] * 3
            passages = [hit.record.content[hit.passage.start : hit.passage.stop] for (hit,) in hits]
            assert all(f"Sentence {n} is" in text for n, text in zip((7, 5_000, 9_999), passages, strict=True))
            assert await engine.database.check() == []
            await (engine.delete("x") if kind is Message else engine.forget("x"))
            return (await engine.search("tea sentence 9999", room="r")).hits, await engine.database.check()

    assert run(story()) == ((), [])


@pytest.mark.parametrize("embedder", [HashEmbedder(), None])
def test_a_very_long_text_whose_writer_was_killed_is_indexed_by_the_next_engine(run, url, embedder):
    async def story():
        record = Memory(id="x", content=make_very_long("tea"))
        async with Engine(url, embedder=embedder, indexing=False) as engine:
            await engine.store.save_memories([(record, make_document(record))])  # and no more
            found = [len(await engine.search(f"sentence {number}")) for number in (7, 9_999)]
            pending = await engine.store.count_undivided(), await engine.database.check()
        async with Engine(url, embedder=embedder) as engine:
            await engine.wait_indexed()
            (hit,) = await engine.search("tea sentence 9999")
            assert "Sentence 9999 is" in record.content[hit.passage.start : hit.passage.stop]
            return found, pending, await engine.store.count_undivided(), await engine.database.check()

    found, pending, left, problems = run(story())
    assert found[0] == 1
    assert (pending, left, problems) == ((1, []), 0, [])


def test_an_engine_that_is_closed_leaves_the_rest_to_the_next(run, sqlite_url):
    async def story():
        await write_unindexed(sqlite_url)
        async with Engine(sqlite_url, embedder=None):
            pass
        async with Engine(sqlite_url, embedder=None) as engine:
            await engine.wait_indexed()
            return await engine.store.count_undivided(), await engine.database.check()

    assert run(story()) == (0, [])
