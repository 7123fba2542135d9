"""What an audit of memories finds, and what it leaves alone."""

import asyncio
import random

import pytest

import brimful
from brimful.errors import InvalidValue
from brimful.janitor.audit import CLEANED, audit_memories
from brimful.records import Memory
from brimful.retrieval.small_talk import is_small_talk

NOW = 1_794_000_000.0
DAY = 86_400.0
NAMES = ("Ada", "Bo", "Cleo", "Dana", "Emil", "Fatima", "Goran", "Hana", "Ivo", "Jun")
PLACES = ("Porto", "Lyon", "Oslo", "Graz", "Kyoto", "Lima", "Cork", "Gdansk", "Tartu", "Bilbao")
THINGS = ("bicycle", "violin", "greenhouse", "sailing boat", "camera", "sourdough", "telescope", "motorbike")
FACTS = (
    "{a}'s {thing} number {n} stands in {place}.",
    "{a} does not lend the {thing} {n} to {b}.",
    "{a} lends the {thing} {n} to {b}.",
    "{b} lends the {thing} {n} to {a}.",
    "In {place}, {a} paid {n} euros for a {thing}; {b} thought that was too much.",
    "Order W-{n} of {a} ({thing}) was delivered to {place} with an error in the invoice.",
    "{a} is allergic to what grows in {place} in week {n}, says {b}.",
    "To reset {a}'s {thing} in {place}, run `reset --id {n}` and wait.",
    "{a} hat am {n}. Mai in {place} ein {thing} gekauft, nicht in Wien.",
    "{a}: phone {n}-{n}, {place}.",
)


def genuine(count, chosen):
    texts = {}
    while len(texts) < count:
        a, b = chosen.sample(NAMES, 2)
        fact = chosen.choice(FACTS)
        texts[
            fact.format(a=a, b=b, place=chosen.choice(PLACES), thing=chosen.choice(THINGS), n=chosen.randrange(9_999))
        ] = 1
    return list(texts)


def repeat(text, chosen):
    """The same again, as people and models write it."""
    ways = (
        lambda: text,
        lambda: text.upper() if "`" not in text else f" {text} ",
        lambda: text.replace(" ", "  ", 3),
        lambda: text.rstrip(".") + "!",
        lambda: "Also, " + text,
        lambda: text.rstrip(".") + ", too.",
    )
    return chosen.choice(ways)()


JUNK = (
    "2026-11-0{d} 10:2{d}:31,114 ERROR [main] com.example.Pool - connection {n} refused",
    "2026-11-0{d}T10:2{d}:31Z INFO request {n} took 12 ms",
    "WARNING: urllib3.connectionpool: Retrying (Retry(total={d})) after connection broken {n}",
    'Traceback (most recent call last):\n  File "a.py", line {n}, in <module>\nValueError: {d}',
    "<html><body><div class='x{n}'>Accept all cookies</div><p>Sign in</p></body></html>",
    "Dear {{{{first_name}}}}, your order {n} is on its way to {{{{city}}}}.",
    "Hello [your name], thank you for contacting us about ticket {n}.",
    "As an AI language model, I cannot browse to page {n}.",
    "I'm sorry, but I can't help with request {n}.",
    "{blob}",
    "{n} --- {d} *** !!",
    "ok thanks",
    "Good morning!",
    "diff --git a/x{n}.py b/x{n}.py\n@@ -1,2 +1,{d} @@\n-a\n+b",
)  # fmt: skip


def junk(chosen):
    blob = "".join(chosen.choices("abcdefghijklmnopqrstuvwxyzABCDEF0123456789+/", k=120))
    return chosen.choice(JUNK).format(n=chosen.randrange(99_999), d=chosen.randrange(1, 9), blob=blob)


def planted_store(size, seed):
    """Memories, and the ids of those that were planted: three of ten, half of them junk, half of them repetitions."""
    chosen = random.Random(seed)
    texts = genuine(size * 7 // 10, chosen)
    own = [Memory(id=f"own{n}", content=text, user="ada", at=NOW - n, accesses=1) for n, text in enumerate(texts)]
    planted = [
        Memory(
            id=f"planted{n}",
            content=junk(chosen) if n % 2 else repeat(chosen.choice(texts), chosen),
            user="ada",
            at=NOW - 10**6 - n,
        )
        for n in range(size - len(own))
    ]
    memories = own + planted
    chosen.shuffle(memories)
    return memories, {each.id for each in planted}


@pytest.mark.parametrize("seed", [1, 2])
def test_junk_is_found_among_ten_thousand_memories_and_nothing_else(seed):
    memories, planted = planted_store(10_000, seed)
    found = audit_memories(memories, is_small_talk=is_small_talk, unused_before=0.0)
    cleaned = {each.id for each in found if each.kind in CLEANED}
    assert len(cleaned & planted) >= 0.95 * len(planted)
    assert cleaned - planted == set()


def audit(*texts, **options):
    memories = [
        text if isinstance(text, Memory) else Memory(id=str(n), content=text, at=NOW + n, accesses=1)
        for n, text in enumerate(texts)
    ]
    found = audit_memories(memories, is_small_talk=is_small_talk, unused_before=0.0, **options)
    return [(each.kind, each.id) for each in found]


@pytest.mark.parametrize(
    "texts",
    [
        ("Ada lends Bo the violin.", "Bo lends Ada the violin."),
        ("Ada eats shellfish on Sundays.", "Ada never eats shellfish on Sundays."),
        ("The invoice of Ada has 12 items.", "The invoice of Ada has 21 items."),
        ("Likes tea.", "Likes coffee."),
        ("Her brother lives in Porto with Mia.", "Her brother's wife lives in Porto with Mia."),
        ("In mails, write `{{name}}` for the name.", "Write '{{city}}' for the city."),
        ("See [your settings](settings.md) first.", "Run `render mail.txt`, where Dear {{name}} comes first."),
        ("Ada's error rate in chess is 4 %.", "When the build shows an error, run make clean."),
    ],
)
def test_similar_facts_stay(texts):
    assert [each for each in audit(*texts) if each[0] in CLEANED] == []


EXPLANATION = "To mend the form, put the token into it, and look at the log if it still fails. " * 8


@pytest.mark.parametrize(
    "quoted",
    [
        "<input value='{{ csrf_token }}'>",
        "Traceback (most recent call last):\n  File 'a.py', line 7",
        "2026-11-01 10:21:31 ERROR main - refused",
        "diff --git a/x.py b/x.py",
        "<div>Sign in</div>",
        "The bot answered: as an AI language model, I cannot do that.",
    ],
)
def test_a_text_that_quotes_junk_is_none(quoted):
    assert audit(f"{EXPLANATION}\n```\n{quoted}\n```\n{EXPLANATION}") == []


def test_steps_that_repeat_their_words_are_no_log():
    assert audit("\n".join(f"- Step {n}: check the side a{n} of the triangle." for n in range(9))) == []


def test_the_best_of_equal_memories_stays():
    pinned = Memory(id="pinned", content="Ada plays the violin in Porto.", at=NOW - 9, pinned=True)
    used = Memory(id="used", content="Ada plays the violin in Porto.", at=NOW - 8, accesses=7)
    new = Memory(id="new", content="ada plays the  violin in porto", at=NOW)
    assert audit(pinned, used, new) == [("duplicate", "used"), ("near-duplicate", "new")]
    assert [id for _, id in audit(used, new)] == ["new"]


def test_pinned_memories_are_never_found():
    twice = [Memory(id=str(n), content="As an AI language model, hello.", pinned=True, at=NOW) for n in range(2)]
    assert audit(*twice) == []


def test_a_fact_that_a_newer_one_contradicts_is_only_reported():
    assert audit("Ada lives with her sister in Porto.", "Ada lives with her sister in Lyon.") == [("contradicted", "0")]


def run(use):
    async def story():
        async with brimful.Engine("sqlite:///:memory:", clock=lambda: NOW) as engine:
            await engine.remember("Ada plays the violin in Porto.", user="ada", id="one", at=NOW - 400 * DAY)
            await engine.remember("Ada plays the violin in Porto!", user="ada", id="two", at=NOW - 300 * DAY)
            await engine.remember("As an AI language model, I cannot play.", user="bo", id="three", at=NOW)
            return await use(engine)

    return asyncio.run(story())


def test_a_cleanup_is_undone_in_one_step():
    async def use(engine):
        before = await engine.audit_memories()
        after = await engine.audit_memories(apply=True)
        left = {memory.id for memory in await engine.store.memories()}
        again = await engine.audit_memories(apply=True)
        await engine.undo_janitor()
        return before, after, left, again, {memory.id for memory in await engine.store.memories()}

    before, after, left, again, restored = run(use)
    kinds = {each.id: each.kind for each in before.findings}
    assert (before.memories, before.run) == (3, None)
    assert kinds == {"one": "near-duplicate", "two": "unused", "three": "junk"}
    assert after.findings == before.findings
    assert after.run is not None
    assert left == {"two"}
    assert (again.run, [each.kind for each in again.findings]) == (None, ["unused"])
    assert restored == {"one", "two", "three"}


def test_memories_of_one_user_can_be_audited():
    found = run(lambda engine: engine.audit_memories("bo"))
    assert (found.memories, [each.id for each in found.findings]) == (1, ["three"])


def test_memories_of_others_are_no_duplicates():
    async def use(engine):
        await engine.remember("Ada plays the violin in Porto.", user="bo", id="four", at=NOW)
        return await engine.audit_memories("bo")

    assert "four" not in {each.id for each in run(use).findings}


@pytest.mark.parametrize("wrong", ["soon", -1, None])
def test_an_age_must_be_one(wrong):
    with pytest.raises(InvalidValue):
        run(lambda engine: engine.audit_memories(unused_for=wrong))
