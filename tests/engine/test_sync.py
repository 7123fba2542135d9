"""The engine without an event loop: the same methods, from any thread, and closed at the end."""

import asyncio
import inspect
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

import brimful
from brimful.engine import Engine, SyncEngine
from brimful.errors import BrimfulError
from brimful.testing import ScriptedProvider


def opened(tmp_path, **options):
    return SyncEngine(f"sqlite:///{tmp_path}/chat.db", embedder="none", **options)


def test_every_method_of_the_engine_is_there():
    theirs = {name for name, each in vars(Engine).items() if callable(each) and not name.startswith("_")}
    own = {name for name, each in vars(SyncEngine).items() if callable(each) and not name.startswith("_")}
    assert theirs - own == {"make_summarizer"}
    assert own - theirs == {"run", "wait"}
    assert inspect.signature(SyncEngine.search) == inspect.signature(Engine.search)


def test_the_sync_engine_works_without_await(tmp_path):
    with opened(tmp_path, model="gpt-4o", provider=ScriptedProvider(["Tea, please.", "Some more."])) as engine:
        engine.put(brimful_persona())
        engine.remember("Mia likes green tea.")
        assert [hit.record.content for hit in engine.search("tea")] == ["Mia likes green tea."]
        assert engine.respond("lounge", "What would you like?", persona="mia").text == "Tea, please."
        with engine.stream("lounge", "More?", persona="mia") as stream:
            assert "".join(chunk.text for chunk in stream) == "Some more."
        assert stream.answer.text == "Some more."
        assert stream.speaker == "Mia"
        assert stream.context == stream.answer.context
        entries = engine.run(engine.store.history("lounge"))
    assert [entry.message.content for entry in entries][::-1] == [
        *("What would you like?", "Tea, please.", "More?", "Some more."),
    ]


def brimful_persona():
    from brimful.records import Persona  # noqa: PLC0415 - only here

    return Persona(id="mia", name="Mia")


def test_threads_and_event_loops_share_it(tmp_path):
    with opened(tmp_path) as engine, ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: engine.post(room="lounge", text=f"Order {n} is ready."), range(40)))

        async def other():
            found = await asyncio.gather(
                *(engine.wait(engine.engine.search("order", room="lounge", limit=3)) for _ in range(5))
            )
            return [len(each) for each in found]

        assert asyncio.run(other()) == [3] * 5
        assert len(engine.run(engine.store.history("lounge", limit=100))) == 40


def test_errors_come_as_they_are(tmp_path):
    with opened(tmp_path) as engine, pytest.raises(brimful.errors.UnknownRecord):
        engine.edit("nobody", "Hi")


def test_a_closed_engine_says_what_to_do_and_opens_again(tmp_path):
    engine = opened(tmp_path)
    with pytest.raises(BrimfulError, match=r"not open: use `with brimful.SyncEngine\(…\) as engine`"):
        engine.search("tea")
    with engine:
        engine.remember("Mia likes tea.")
    engine.close()
    with engine:
        assert len(engine.search("tea")) == 1
    assert not [each for each in threading.enumerate() if each.name == "brimful-engine"]


def test_a_store_that_cannot_be_opened_leaves_no_thread(tmp_path):
    engine = SyncEngine(f"sqlite:///{tmp_path}/nowhere/chat.db")
    with pytest.raises(brimful.errors.StoreUnavailable):
        engine.open()
    assert not [each for each in threading.enumerate() if each.name == "brimful-engine"]


def test_the_loop_of_a_sync_engine_cannot_wait_for_itself(tmp_path):
    with opened(tmp_path) as engine:

        async def inside():
            return engine.search("tea")

        with pytest.raises(BrimfulError, match="cannot wait on its own event loop"):
            engine.run(inside())


def test_a_sync_engine_can_be_used_while_another_loop_runs(tmp_path):
    async def use():
        with opened(tmp_path) as engine:
            return engine.remember("Mia likes tea.").content

    assert asyncio.run(use()) == "Mia likes tea."


def test_an_engine_that_is_left_open_is_closed_at_exit(tmp_path):
    script = f"""
import brimful
engine = brimful.SyncEngine("sqlite:///{tmp_path}/chat.db").open()
engine.remember("Mia likes tea.")
"""
    done = subprocess.run([sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert not (tmp_path / "chat.db-wal").exists(), "closed, so that SQLite has tidied up"
