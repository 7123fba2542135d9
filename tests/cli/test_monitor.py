"""`brimful monitor`: builds and answers as they happen, from any process."""

import asyncio
import json
import re
import signal
import subprocess
import sys
from contextlib import asynccontextmanager

import msgspec

from answered import DB, QUESTION, answer_questions, engine, reply, shape
from brimful.cli.monitor import (
    MAX_RETRY_WAIT,
    POLL_INTERVAL,
    EventFilter,
    EventFormatter,
    EventReader,
    changes,
    follow_events,
)
from brimful.core.context import Component
from brimful.core.notice import Notice
from brimful.errors import StoreUnavailable
from brimful.records import Response
from brimful.records.contexts import Build

SEED = """\
[11:30:15] BUILD: Helper AI in general (ctx-0)
  ├─ System Prompt: 1,234 tokens
  ├─ Memories: 3,890 tokens (5 items)
  ├─ Recent Messages: 8,120 tokens (20 msgs)
  ├─ Media: 0 tokens
  └─ Total: 15,804 tokens (12.3%)
"""


def test_every_line_of_the_founding_document(run):
    [answer] = answer_questions()
    text = run("monitor").stdout.replace(answer.context.id, "ctx-0")
    said = {shape(line) for line in text.splitlines()}
    expected = {shape(line) for line in SEED.splitlines()}
    assert expected <= said, expected - said
    assert re.search(r"^\[\d\d:\d\d:\d\d\] RESPONSE: 487 tokens generated in [\d.]+ s by gpt-4o", text, re.MULTILINE)


def a_build(number=1, **changed):
    sizes = {"system": (1234, 1), "memories": (3890, 5), "recent": (8120, 20), "media": (2560, 2), "current": (50, 1)}
    sizes |= changed.pop("sizes", {})
    components = tuple(Component(name=name, tokens=tokens, items=items) for name, (tokens, items) in sizes.items())
    usual = Build(
        number=number,
        id=f"ctx-{number}",
        room="general",
        persona="helper-ai",
        at=1_737_718_215.0,
        model="gpt-4o",
        policy="default",
        tokens=sum(each.tokens for each in components),
        window=128_000,
        completion=4096,
        available=123_000,
        components=components,
        candidates=40,
        left_out=12,
        naive=20_000,
    )
    return msgspec.structs.replace(usual, **changed)


def test_changes_are_marked_unless_they_happen_every_turn():
    teller = EventFormatter()
    first = teller.text(a_build(), "Helper AI")
    assert "Changed!" not in first
    second = teller.text(
        a_build(2, sizes={"memories": (4120, 6), "recent": (8365, 21), "media": (0, 0)}, model="gpt-4"), "Helper AI"
    )
    assert [line for line in second.splitlines() if "Changed!" in line] == [
        "  ├─ Model: gpt-4o → gpt-4 ← Changed!",
        "  ├─ Memories: 4,120 tokens (6 items) ← Changed!",
    ]
    assert "  ├─ Media: 0 tokens" in second.splitlines()


def test_other_rooms_and_personas_are_compared_with_their_own():
    teller = EventFormatter()
    teller.text(a_build(), "")
    elsewhere = a_build(2, room="den", sizes={"memories": (1, 1)})
    assert "Changed!" not in teller.text(elsewhere, "")
    assert "Changed!" not in teller.text(a_build(3), "")
    assert changes(a_build(), elsewhere) == ["memories"]


def test_fallbacks_caches_and_the_bar(run):
    answer_questions(questions=2, script=iter([reply(), reply(cached=True)]))
    text = run("monitor").stdout
    assert re.search(r"^  ├─ Cache hit: \d+ of \d+ prompt tokens \(50%\)$", text, re.MULTILINE)
    [bar, *_] = re.findall(r"^  ├─ ([SΣRTOMLICfx·=-]{60})$", text, re.MULTILINE)
    assert {"S", "R", "M", "C", "·", "="} <= set(bar)
    assert "S System Prompt" in text
    failed = Notice(kind="vector-search-failed", text="vector search failed (gone)")
    text = EventFormatter().text(a_build(warnings=(failed,), degraded=(failed,)), "")
    assert [line for line in text.splitlines() if "⚠️" in line] == ["  ├─ ⚠️  vector search failed (gone)"]


def test_json_is_one_event_a_line(run):
    answer_questions(questions=2)
    events = [json.loads(line) for line in run("monitor", "--json").stdout.splitlines()]
    assert [event["event"] for event in events] == ["build", "answer"] * 2
    assert events[0]["changed"] == []
    assert events[3]["usage"]["completion"] == 487


def test_filters_and_limit(run):
    answer_questions(questions=2)

    async def another():
        async with engine() as opened:
            await opened.respond("den", "Hello?", id="d")

    asyncio.run(another())
    one = [json.loads(line) for line in run("monitor", "--room", "den", "--json").stdout.splitlines()]
    assert {event["room"] for event in one} == {"den"}
    persona = [json.loads(line) for line in run("monitor", "--persona", "helper-ai", "--json").stdout.splitlines()]
    assert [event["event"] for event in persona] == ["build", "answer"] * 2
    assert len(run("monitor", "--limit", 1, "--json").stdout.splitlines()) == 1


def test_nothing_yet_and_no_store(run, fails):
    assert "there is no such store" in fails("monitor", "--follow")
    run("room", "add", "den")
    assert "no events yet" in run("monitor").stdout


# -- following -------------------------------------------------------------------------------------------------------


class World:
    """A store that a test may take away, and time that passes only when somebody waits."""

    def __init__(self, steps):
        self.steps = list(steps)
        self.away = False
        self.waits = []
        self.notices = []
        self.seen = []

    async def pause(self, seconds):
        self.waits.append(seconds)
        if self.steps:
            await self.steps.pop(0)(self)

    def present(self):
        if self.away:
            raise StoreUnavailable(DB, "its file is gone", retriable=True)

    @asynccontextmanager
    async def opening(self):
        self.present()
        async with engine() as opened:

            async def look():
                self.present()
                return opened.store

            yield look

    async def watch(self, **wanted):
        events = follow_events(
            self.opening,
            EventReader(EventFilter(**wanted)),
            limit=5,
            pause=self.pause,
            keep_going=lambda: bool(self.steps),
            notice=self.notices.append,
        )
        async for event, name in events:
            self.seen.append((type(event).__name__, event.id if isinstance(event, Build) else event.context, name))


async def answered(world):
    """Somebody else, with a connection of their own, asks and is answered."""
    async with engine() as opened:
        await opened.respond("general", f"{QUESTION} {len(world.seen)}", persona="helper-ai")


async def nothing(world):
    """Let time pass."""
    del world


async def leave(world):
    world.away = True


async def back(world):
    world.away = False


def test_contexts_of_another_process_are_shown_once_and_in_order():
    [first] = answer_questions()
    world = World([answered, answered, nothing, nothing])
    asyncio.run(world.watch())
    assert [kind for kind, *_ in world.seen] == ["Build", "Response"] * 3
    assert world.seen[0] == ("Build", first.context.id, "Helper AI in general")
    assert len({(kind, id) for kind, id, _ in world.seen}) == 6
    assert set(world.waits) == {POLL_INTERVAL}
    assert world.notices == []


def test_a_store_that_is_away_is_waited_for_and_nothing_is_lost():
    answer_questions()

    async def answered_unseen(world):
        await answered(world)

    world = World(
        [answered, leave, answered_unseen, nothing, nothing, nothing, nothing, back, nothing, answered, nothing]
    )
    asyncio.run(world.watch())
    assert [kind for kind, *_ in world.seen] == ["Build", "Response"] * 4
    assert len(set(world.seen)) == 8
    assert len(world.notices) == 2
    assert world.notices[0].startswith("the store is unavailable (")
    assert world.notices[1] == "the store is available again"
    away = [seconds for seconds in world.waits if seconds > POLL_INTERVAL]
    assert away == sorted(away)
    assert max(away) <= MAX_RETRY_WAIT


def test_only_one_persona_is_followed():
    answer_questions()

    async def other(world):
        del world
        async with engine() as opened:
            await opened.respond("general", "And you?")

    world = World([other, answered, nothing])
    asyncio.run(world.watch(persona="helper-ai"))
    assert [kind for kind, *_ in world.seen] == ["Build", "Response"] * 2


def test_rooms_are_called_by_their_names(run):
    answer_questions()
    run("room", "edit", "general", "--name", "The common room")
    assert re.search(r"BUILD: Helper AI in The common room \(ctx-", run("monitor").stdout)


def test_a_process_follows_and_ends_with_ctrl_c():
    answer_questions()
    command = [sys.executable, "-m", "brimful", "monitor", "--follow", "--json", "--limit", "2"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        first = [json.loads(process.stdout.readline()) for _ in range(2)]
        asyncio.run(answered(World([])))
        then = [json.loads(process.stdout.readline()) for _ in range(2)]
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=120)
    assert [event["event"] for event in first + then] == ["build", "answer"] * 2
    assert (process.returncode, errors) == (130, "")


def test_a_monitor_ends_when_its_output_is_closed():
    answer_questions()
    command = [sys.executable, "-m", "brimful", "monitor", "--follow", "--db", DB]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as monitor:
        assert monitor.stdout.readline()
        monitor.stdout.close()
        monitor.wait(120)
    assert monitor.returncode in (0, 141)


def test_an_answer_without_usage():
    answer = Response(id="r", context="ctx-1", room="general", at=1.0, model="gpt-4o", seconds=0.04)
    text = "RESPONSE: an answer in 0.0 s by gpt-4o (usage not reported), Nova in general"
    assert text in EventFormatter().text(answer, "Nova in general")
