"""Sample data for the inspector, written by the real engine."""

import asyncio
import sys
import time

import brimful
from brimful.core.notice import Notice
from brimful.counting import counter_for
from brimful.models import default_registry
from brimful.policies import load_policy
from brimful.records import Lorebook, LoreEntry, Message, Persona, Response, Room, Snapshot, Usage
from brimful.records.contexts import Feedback
from brimful.testing import ScriptedProvider
from brimful.wires import find_wire

MODEL = "gpt-4o"
WINDOW = 1400  # tokens: too few for all that is known
COMPLETION = 200
LOST = "mem-refund"
"""The memory that does not get in."""
MISSED = "mem-parrot"
"""The memory that search does not find."""
WHOLE = load_policy(
    "default",
    overrides={
        "forms.kinds": [],
        "price": "full",
        "pools.recent.need": None,
        "pools.related.limit": {"share": 0.4, "of": "prompt"},
        "pools.related.borrow": True,
    },
)
"""Drops what does not fit into fixed shares, instead of shortening it, and takes everything that fits."""
REFUND = (
    "Ada was promised a refund of 40 euros for the broken lid on the second of November, by telephone. "
    "Accounting wanted the receipt, the number of the order, a photograph, and the name of whoever packed it. "
) * 12

_FACTS = (
    "Ada likes her coffee from a moka pot, and asks about beans that are not too bitter.",
    "Ada lives on the third floor, and parcels must not be left at the door.",
    "Orders before noon leave the warehouse on the same day.",
    "Ada's last order was a grinder with a steel burr, and she is content with it.",
    "The shop is closed on the first Monday of the month.",
    "Ada prefers short answers without pleasantries.",
)


def _counted(request):
    model = default_registry().resolve(MODEL)
    return counter_for(model).prompt(find_wire("openai").parse(request)).tokens


def _talk(room, count, now):
    for at in range(count):
        text = f"Turn {at}: the parcel is on its way, the grinder runs well, the beans of lot {at * 7} taste of plum."
        sender, role = ("Ada", "user") if at % 2 == 0 else ("Nova", "assistant")
        yield Message(id=f"{room}-{at:04d}", room=room, sender=sender, role=role, content=text, at=now - 9000 + at)


async def _knowledge(engine, now):
    prompt = "You are Nova of the coffee shop. Be kind, be brief, and never promise what is not sure."
    await engine.put(Persona(id="nova", name="Nova", prompt=prompt, lorebooks=("shop",)))
    await engine.put(Room(id="support", name="Support", user="ada", goal="Solve her problem"))
    await engine.put(Lorebook(id="shop", name="The shop"))
    for name, told in (("moka", "A moka pot wants dark beans."), ("lid", "Lids are replaced for free.")):
        entry = LoreEntry(id=f"lore-{name}", lorebook="shop", name=name.title(), keys=(name,), content=told)
        await engine.write_lore([entry])
    for at, fact in enumerate(_FACTS):
        await engine.remember(fact, user="ada", id=f"mem-{at}", importance=0.84, at=now - 5000 + at)
    await engine.remember("Ada is allergic to hazelnut.", user="ada", id="mem-nut", pinned=True, at=now - 6000)
    await engine.remember("Bob wants his beans ground.", user="bob", id="mem-bob", at=now - 5000)
    await engine.remember(REFUND, user="ada", id=LOST, importance=0.6, at=now - 4000)
    await engine.remember("Her parrot is named Pixel.", user="ada", id=MISSED, at=now - 4000)
    await engine.put(Room(id="attic", user="ada"))
    await engine.post(room="attic", sender="Ada", text="The parrot bit the cat.", id="attic-1", at=now - 4000)


async def support(url, *, tenant="default", turns=3):
    """Fill a store with a support case, and return the ids of its contexts, oldest first."""
    now = time.time()
    provider = ScriptedProvider([f"Answer {turn}: a new lid is on its way." for turn in range(turns)], tokens=_counted)
    options = {"model": MODEL, "policy": WHOLE, "provider": provider, "embedder": "none"}
    async with brimful.Engine(url, tenant=tenant, **options) as engine:
        await _knowledge(engine, now)
        await engine.post_many(list(_talk("support", 60, now)))
        await engine.wait_indexed()
        questions = [
            await engine.respond(
                "support",
                f"Question {turn}: what of the refund for the broken lid, and which beans for the moka pot?",
                persona="nova",
                user="ada",
                sender="Ada",
                window=WINDOW,
                completion=COMPLETION,
            )
            for turn in range(turns)
        ]
        return [answer.response.context for answer in questions]


async def say(url, text, *, answer="Yes.", room="support", tenant="default"):
    """Say one thing more, as another process would."""
    provider = ScriptedProvider([answer], tokens=_counted)
    options = {"model": MODEL, "policy": WHOLE, "provider": provider, "embedder": "none"}
    async with brimful.Engine(url, tenant=tenant, **options) as engine:
        answered = await engine.respond(room, text, window=WINDOW, completion=COMPLETION)
        return answered.response.context


async def shortened(url):
    """Build a context with a message that is shortened, and return its id."""
    now = time.time()
    trace = "\n".join(f"File app.py, line {n}, in step_{n}" for n in range(800))
    async with brimful.Engine(url, model=MODEL, embedder="none") as engine:
        await engine.post(room="logs", sender="Ada", text=trace, id="trace", at=now - 50)
        await engine.post_many(list(_talk("logs", 20, now)))
        context = await engine.assemble(room="logs", message="What broke?", window=2_500, completion=200, now=now)
        return context.id


async def unreserved(url):
    """Build a context whose policy decides how much is reserved for the answer, and return its id."""
    async with brimful.Engine(url, model=MODEL, embedder="none") as engine:
        return (await engine.assemble(room="hall", message="Hello?", window=2_000)).id


async def recalled(url):
    """Build the same context, with an answer for which the model recalled the message. Return its id and the handle."""
    context = await shortened(url)
    async with brimful.Engine(url, model=MODEL, embedder="none") as engine:
        snapshot = await engine.store.snapshot(context)
        handle = snapshot.context.handle("trace")
        facts = {"handle": handle, "query": "which step failed", "tokens": 300, "round": 1}
        notice = Notice(kind="recalled", text=f'round 1: recalled "{handle}", 300 tokens', facts=facts)
        await engine.store.save_response(Response(id="res-recalled", context=context, room="logs", notices=(notice,)))
    return context, handle


async def cached(url, context, *, tokens, expected):
    """Record an answer for which the provider took so many tokens from its cache."""
    usage = Usage(prompt=expected + 100, cached=tokens, completion=9)
    answer = Response(
        id="res-cached",
        context=context,
        room="support",
        model=MODEL,
        at=time.time(),
        seconds=1.5,
        usage=usage,
        expected_cached=expected,
    )
    async with brimful.Engine(url, embedder="none") as engine:
        await engine.store.save_response(answer)


async def days(url):
    """Build a context with forty messages of each of two days, and return its id."""
    now = 1_795_089_600.0  # noon in UTC
    sent = [
        Message(
            id=f"{day}-{at}", room="days", sender="Ada", content=f"Turn {at} of day {day}.", at=now - 86_400 * day + at
        )
        for day in (2, 1)
        for at in range(40)
    ]
    async with brimful.Engine(url, model=MODEL, embedder="none") as engine:
        await engine.post_many(sent)
        return (await engine.assemble(room="days", message="And now?", now=now)).id


async def agent(
    url, steps, *, room="workshop", task="Find out why the kettle leaks, and mend it.", memory=None, begin=None
):
    """Record the run of an agent with so many steps, each with its answer, and return the ids of its contexts.

    If the agent has a `memory`, its requests have only so many of the newest steps, and are built faster.
    """
    now = begin or time.time() - 10 * steps
    messages = [{"role": "user", "content": task}]
    async with brimful.Engine(url, embedder="none") as engine:
        for number in range(steps):
            context = brimful.fit({"model": MODEL, "max_tokens": 200, "messages": messages}, window=6_000)
            id, at, ends = f"ctx-{room}-{number}", now + 10 * number, number == steps - 1
            build = Snapshot(id=id, room=room, at=at, context=context, build_seconds=0.25)
            usage = Usage(prompt=context.tokens, cached=context.tokens // 2, completion=20)
            finish = "stop" if ends else "tool-calls"
            answer = Response(
                id=f"res-{id}", context=id, room=room, model=MODEL, at=at + 4, seconds=4.0, usage=usage, finish=finish
            )
            await engine.store.save_context(build, answer)
            function = {"name": "Bash", "arguments": f'{{"command": "look {number}"}}'}
            call = {"id": f"c{number}", "type": "function", "function": function}
            result = {"role": "tool", "tool_call_id": f"c{number}", "content": f"Part {number} is dry. " * 60}
            messages += [{"role": "assistant", "content": None, "tool_calls": [call]}, result]
            if memory is not None:
                messages[1 : -2 * memory] = []
    return [f"ctx-{room}-{number}" for number in range(steps)]


async def recall_and_rate(url, context):
    """Record another answer to a step of an agent, in which the model recalled two things, and say that it was bad."""
    facts = {"tokens": 120, "round": 1, "handle": "msg-000000", "query": ""}
    notices = (
        Notice(kind="recalled", text="round 1: recalled", facts=facts | {"seconds": 0.25}),
        Notice(kind="recalled", text="round 1: searched", facts=facts | {"handle": "", "query": "the lid"}),
    )
    feedback = Feedback(rating="bad", note="It looked at the wrong part.")
    async with brimful.Engine(url, embedder="none") as engine:
        answer = {"context": context, "room": "workshop", "at": time.time(), "finish": "tool-calls"}
        await engine.store.save_response(Response(id="res-late", **answer, notices=notices, feedback=feedback))


async def crowd(url, count):
    """Build a context with so many candidates; half of them are in."""
    now = time.time()
    async with brimful.Engine(url, model=MODEL, embedder="none") as engine:
        await engine.post_many(list(_talk("crowd", count, now)))
        await engine.assemble(room="crowd", message="What of lot 700?", now=now)
        [build] = await engine.store.builds(room="crowd", limit=1)
        return build.id


if __name__ == "__main__":
    print(asyncio.run(say(sys.argv[1], sys.argv[2])))  # noqa: T201 - the test reads it
