"""What a build says of everything counts the whole room, not what was loaded, and costs no more in a long one."""

import re

import pytest

import brimful
from brimful.counting import count_text, counter_for
from brimful.engine import Engine
from brimful.models import resolve
from brimful.records import Message
from brimful.stores import connect
from stores.encrypted import kek

NOW = 1_794_000_000.0
POLICIES = brimful.policy_names()


def note(n, length=50):
    return f"note {n} 天気予報 " + "word " * length


def messages(count, start=0, room="r", **fields):
    return [
        Message(id=f"m{n:05d}", room=room, content=note(n), sender="ada", at=NOW + n, **fields)
        for n in range(start, start + count)
    ]


def tokens_of(contents, tokenizer="cl100k_base"):
    return sum(count_text(tokenizer, content) for content in contents)


def build(engine, **options):
    return engine.assemble(**{"room": "r", "message": "Where is it?", "window": 5_000, "now": NOW + 9_999} | options)


@pytest.mark.parametrize("question", ["Where is it?", "Which note has a word?"])  # search finds nothing, and everything
@pytest.mark.parametrize("policy", POLICIES)
def test_everything_is_the_whole_room_under_every_policy(run, sqlite_url, policy, question):
    async def story():
        async with Engine(sqlite_url, model="gpt-4", embedder=None) as engine:
            await engine.post_many(messages(200))
            context = await build(engine, message=question, policy=policy, overrides={"forms.kinds": []})
            return context, (await engine.store.builds())[0], (await engine.store.statistics())[0]

    context, line, statistics = run(story())
    recent = [id for id in context.kept if re.fullmatch(r"m\d+", id) and context.decision(id).kind == "message-recent"]
    kept = {id.removesuffix("/recalled") for id in context.kept if id.startswith("m0")}
    assert 10 < len(kept) < 100
    out = [note(n) for n in range(200) if f"m{n:05d}" not in kept]
    assert context.offered == 201
    assert context.left_out == len(out)
    assert context.naive == context.tokens + tokens_of(out)
    assert (line.candidates, line.left_out, line.naive) == (201, context.left_out, context.naive)
    assert (statistics.candidates, statistics.left_out, statistics.naive) == (201, context.left_out, context.naive)
    assert context.stopped_at == min(recent)
    assert brimful.replay(context) == context


@pytest.mark.parametrize("policy", POLICIES)
def test_a_room_that_fits_has_nothing_unread_and_did_not_stop(run, sqlite_url, policy):
    async def story():
        async with Engine(sqlite_url, model="gpt-4o", embedder=None) as engine:
            await engine.post_many(messages(20))
            return await build(engine, policy=policy, window=100_000)

    context = run(story())
    assert (context.offered, context.left_out, context.naive) == (21, 0, context.tokens)
    assert context.stopped_at is None


@pytest.fixture(params=["plain", "encrypted"])
def keys(request):
    return kek() if request.param == "encrypted" else None


@pytest.fixture(params=["sqlite", "postgres"])
def url(request):
    return request.getfixturevalue(f"{request.param}_url")


def test_sums_follow_every_change_of_the_room(run, url, keys):
    """Deleted, erased and hidden messages no longer count; edited ones count as they are; archived ones still count."""

    async def story():
        contents = {f"m{n:05d}": note(n) for n in range(300)}
        seen = []

        async def check(engine):
            context = await build(engine)
            out = [content for id, content in contents.items() if id not in context.kept]
            seen.append((context.left_out, context.naive - context.tokens, len(out), tokens_of(out)))

        async with connect(url, keys=keys) as database, Engine(database, model="gpt-4", embedder=None) as engine:
            await engine.post_many(messages(300))
            await check(engine)
            await engine.delete("m00010")
            await engine.delete("m00011", erase=True)
            await engine.supersede(["m00012", "m00200"])
            for id in ("m00010", "m00011", "m00012", "m00200"):
                del contents[id]
            await check(engine)
            await engine.edit("m00020", note(20, 500))
            contents["m00020"] = note(20, 500)
            await check(engine)
            more = messages(80, start=300)
            await engine.post_many(more)
            contents |= {each.id: each.content for each in more}
            await check(engine)
            await engine.post(room="r", content=[{"type": "text", "text": note(900)}], id="m00900", at=NOW + 900)
            contents["m00900"] = note(900)
            await check(engine)
        async with connect(url, keys=keys) as database, Engine(database, model="gpt-4", embedder=None) as engine:
            await check(engine)
        return seen

    for left_out, tokens, out, expected in run(story()):
        assert (left_out, tokens) == (out, expected)


def test_archived_messages_count_until_they_are_purged(run, new_engine):
    async def story():
        flood = [
            Message(id=f"f{n:03d}", room="r", content="Build 7 failed.", sender="ci", at=NOW + n) for n in range(90)
        ]
        async with new_engine(model="gpt-4", embedder=None) as engine:
            await engine.post_many([*flood, *messages(200)])
            totals = [(await build(engine)).offered]
            await engine.run_janitor(now=NOW + 10 * 86_400)
            archived = (await engine.store.count_messages(["r"]))["r"]
            totals.append((await build(engine, save=False)).inputs.unread.messages)
            report = await engine.run_janitor(now=NOW + 20 * 86_400, purge=True)
            return totals, archived, report.purged, (await build(engine)).inputs.unread.messages

    (before, unread), archived, purged, after = run(story())
    assert before == 291
    assert archived == 290
    assert 0 < purged < 290
    assert after == unread - purged


@pytest.mark.parametrize(("model", "counting"), [("gpt-4", "hybrid"), ("gpt-4o", "hybrid"), ("gpt-4o", "approximate")])
def test_each_way_to_count_has_sums_of_its_own(run, sqlite_url, model, counting):
    """Texts by another tokenizer, and pictures by the model's rule."""
    picture = brimful.Media(modality="image", url="https://example.org/a.png", width=1024, height=1024)

    async def story():
        async with Engine(sqlite_url, model="gpt-4", embedder=None) as engine:
            await engine.post_many(messages(99))
            await engine.post(room="r", content=(brimful.Text(text="Look: 天気予報"), picture), id="m00099", at=NOW)
            await engine.post_many(messages(100, start=100))
            for other in ("gpt-4", "gpt-4o"):
                await build(engine, model=other)
            return [await build(engine, model=model, overrides={"counting": counting}) for _ in range(2)]

    counter = counter_for(resolve(model), counting)
    for context in run(story()):
        out = [n for n in range(200) if f"m{n:05d}" not in context.kept]
        texts = ["Look: 天気予報" if n == 99 else note(n) for n in out]
        expected = sum(each.tokens for each in counter.texts(texts)) + counter.media(picture).tokens
        assert 99 in out
        assert (context.left_out, context.naive - context.tokens) == (len(out), expected)


def test_a_build_does_not_tokenize_a_room_that_it_does_not_load(run, sqlite_url):
    """Of messages that this tokenizer never counted, a build counts a few, and takes the others to be like them."""

    async def story():
        async with Engine(sqlite_url, model="gpt-4", embedder=None) as engine:
            await engine.post_many(messages(500))
        tokenized = []

        def hook(event):
            if event.name == "assembled":
                tokenized.append(event.facts["tokenized"])

        async with Engine(sqlite_url, model="llama3.1:8b", embedder=None, hooks=[hook]) as engine:
            return [await build(engine) for _ in range(6)], tokenized

    contexts, tokenized = run(story())
    assert 64 < tokenized[0] <= 64 + 128 + 100 + 1
    assert all(count <= 100 for count in tokenized[1:])
    assert sum(tokenized) <= 501
    assert tokenized[-1] == 0
    assert [each.left_out + len(each.kept) for each in contexts] == [501] * 6
    exact = contexts[-1].naive
    assert contexts[0].naive == pytest.approx(exact, rel=0.05)


def test_a_long_room_is_counted_bit_by_bit_and_then_exactly(run, sqlite_url):
    """A build reads no more than a page beyond the window, and estimates the rest; further builds complete the sums."""

    async def story():
        async with Engine(sqlite_url, model="gpt-4", embedder=None) as engine:
            await engine.post_many(messages(4_000))
            return [await build(engine) for _ in range(5)]

    contexts = run(story())
    assert [each.left_out + len(each.kept) for each in contexts] == [4_001] * 5
    out = [note(n) for n in range(4_000) if f"m{n:05d}" not in contexts[0].kept]
    exact = contexts[0].tokens + tokens_of(out)
    assert contexts[0].naive == pytest.approx(exact, rel=0.02)
    assert [each.naive for each in contexts[3:]] == [exact] * 2
