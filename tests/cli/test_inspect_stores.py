"""Inspecting contexts is the same on PostgreSQL as on SQLite, encrypted or not, and stays within a tenant."""

import asyncio
import base64
import re

import pytest

from answered import QUESTION, answer_questions, engine, furnish
from brimful.cli.monitor import EventFilter, EventReader, follow_events

LOOKS = (
    ("inspect", "--persona", "helper-ai", "--room", "general", "--message", QUESTION, "--embedder", "none"),
    ("explain", "ask-1"),
    ("explain", "ask-1", "old-00"),
    ("monitor",),
    ("monitor", "--persona", "helper-ai", "--room", "general", "--limit", 2),
    ("replay", "--last", "9999w", "--window", 450, "--completion", 100),
    ("diff", "ask-0", "ask-1"),
)


def plain(text):
    """Return what was said without what is drawn by lot, and without how long it took."""
    return re.sub(r"Built in [\d.]+ s", "", re.sub(r"(res|ctx)-[0-9a-f]{24,32}", r"\1", text))


@pytest.fixture
def seen(run, monkeypatch):
    def look(url):
        answer_questions(url=url, questions=3, window=500, completion=100)
        monkeypatch.setenv("BRIMFUL_DB", url)
        return [plain(run(*command).stdout) for command in LOOKS]

    return look


def test_the_same_on_postgresql(seen, postgres_url):
    assert seen(postgres_url) == seen("sqlite:///plain.db")


def test_the_same_encrypted(seen, fails, monkeypatch):
    clear = seen("sqlite:///plain.db")
    monkeypatch.setenv("BRIMFUL_KEY", base64.b64encode(bytes(range(32))).decode())
    assert seen("sqlite:///sealed.db") == clear
    monkeypatch.delenv("BRIMFUL_KEY")
    for command in LOOKS:
        assert "encrypted" in fails(*command)


def test_a_tenant_sees_only_its_own(run, fails):
    [answer] = answer_questions()
    for command in LOOKS[1:3]:
        assert "there is no such file, and no context" in fails(*command, "--tenant", "other")
    assert "no context" in fails("explain", answer.context.id, "--tenant", "other")
    assert "no events yet" in run("monitor", "--tenant", "other").stdout
    assert "no contexts in this period" in run("replay", "--last", "9999w", "--tenant", "other").stdout


def test_another_process_is_followed_on_postgresql(postgres_url):
    async def story():
        async with engine(postgres_url) as ours, engine(postgres_url) as theirs:
            await furnish(theirs)
            steps, kinds = [1, 2, 3], []

            async def opening():
                return ours.store

            class Opened:
                async def __aenter__(self):
                    return opening

                async def __aexit__(self, *gone):
                    del gone

            async def pause(seconds):
                del seconds
                await theirs.respond("general", f"{QUESTION} {steps.pop()}", persona="helper-ai")

            watch = EventReader(EventFilter(persona="helper-ai"))
            events = follow_events(
                Opened, watch, limit=5, pause=pause, keep_going=lambda: bool(steps), notice=kinds.append
            )
            async for event, name in events:
                kinds.append((type(event).__name__, name))
            return kinds

    assert asyncio.run(story()) == [("Build", "Helper AI in general"), ("Response", "Helper AI in general")] * 2
