"""`brimful bench`."""

import asyncio
import itertools
import json

import pytest

from brimful.assembly.arguments import resolve_model
from brimful.engine import Engine
from brimful.engine.bench import Recording, measure
from brimful.errors import ProviderError
from brimful.records import Message
from brimful.testing import ScriptedProvider

ROLES = ("user", "assistant")
FILLER = "The weather stays mild, and nothing else is new here today, as far as old Bruno can tell from the window."


def chat(turns=60):
    """An order that comes up in the beginning, and again in the last answer.

    A parcel is no name, nobody mentions Rosa before, and everybody Bruno: none of these is a fact.
    """
    yield "user", "My order is W-4711, and the parcel goes to Lisbon."
    yield "assistant", "Thank you."
    for turn in range(turns):
        yield "user", f"{FILLER} ({turn})"
        yield "assistant", FILLER
    yield "user", "Which order was it that I asked you about in the beginning?"
    yield "assistant", "It was W-4711, a parcel to Lisbon, as Rosa and Bruno know."


def lines(turns=60):
    return "".join(json.dumps({"role": role, "content": text}) + "\n" for role, text in chat(turns))


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "hall.jsonl"
    path.write_text(lines(), encoding="utf-8")
    return path


def test_memory_shows_what_the_newest_messages_lost(run, file):
    (report,) = json.loads(
        run("bench", str(file), "--window=1024", "--completion=128", "--requests=4", "--json").stdout
    )
    ways = report["ways"]
    assert (report["conversations"], report["messages"], report["answers"]) == (1, 124, 62)
    assert report["requests"] == 4 < report["over"]
    assert ways["newest"]["facts"] == ways["memory"]["facts"] == 2
    assert ways["newest"]["shown"] == 0
    assert ways["memory"]["shown"] == 2
    assert report["examples"] == [{"room": "hall", "answer": 123, "word": "w-4711", "distance": 123, "way": "memory"}]
    assert ways["fit"]["cached"] == 0  # below the 1,024 tokens that OpenAI caches
    assert all(way["input"] <= 4 * 896 for way in ways.values())


def test_text_names_the_examples(run, file):
    found = run("bench", str(file), "--window=1024", "--completion=128", "--requests=2").stdout
    assert "brimful memory   100.0% of 2" in found
    assert "'w-4711' in answer 123 of hall, last mentioned 123 messages before; shown by brimful memory" in found


def test_a_store_is_measured_as_its_files_are(run, file, tmp_path):
    db = f"sqlite:///{tmp_path / 'mine.db'}"
    run("import", str(file), "--db", db)
    options = ("--window=1024", "--completion=128", "--requests=2", "--json")
    stored = json.loads(run("bench", "--db", db, *options).stdout)
    assert stored == json.loads(run("bench", "--db", db, "--room=hall", *options).stdout)
    assert stored == json.loads(run("bench", str(file), *options).stdout)


def test_conversations_that_fit_are_not_replayed(run, file):
    shown = run("bench", str(file), "--window=128000").stdout
    assert shown.endswith("Nothing has to be trimmed. Try a smaller --window.\n\n")


def test_a_system_prompt_larger_than_the_window_is_counted(run, tmp_path):
    messages = [{"role": "system", "content": FILLER * 60}, *({"role": role, "content": "Hi"} for role in ROLES)]
    file = tmp_path / "large.json"
    file.write_text(json.dumps(messages), encoding="utf-8")
    (report,) = json.loads(run("bench", str(file), "--window=1024", "--completion=128", "--json").stdout)
    assert {way: figures["refused"] for way, figures in report["ways"].items()} == {"newest": 1, "fit": 1, "memory": 0}


def test_conversations_that_cannot_be_measured_are_refused(run, tmp_path):
    silent = tmp_path / "silent.jsonl"
    silent.write_text('{"role": "user", "content": "Hello?"}\n', encoding="utf-8")
    assert "no conversation with answers" in run("bench", str(silent), code=1).stderr
    assert "pass files, or --db" in run("bench", code=2).stderr
    assert "leaves no room" in run("bench", str(silent), "--window=512", "--completion=512", code=2).stderr


def test_results_without_their_call_are_counted(run, tmp_path):
    call = {"id": "c1", "type": "function", "function": {"name": "find", "arguments": '{"order": "W-4711"}'}}
    messages = [
        {"role": "user", "content": "Where is it?"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": " ".join(f"line {n}" for n in range(296))},
        {"role": "assistant", "content": "Done."},
    ]
    file = tmp_path / "agent.json"
    file.write_text(json.dumps(messages), encoding="utf-8")
    (report,) = json.loads(run("bench", str(file), "--window=1024", "--completion=128", "--json").stdout)
    assert {way: figures["broken"] for way, figures in report["ways"].items()} == {"newest": 1, "fit": 0, "memory": 0}
    assert {way: figures["tasks"] for way, figures in report["ways"].items()} == {"newest": 0, "fit": 1, "memory": 1}


async def ask(provider, tmp_path):
    recording = Recording.of(
        "hall",
        [
            Message(id=f"m{at}", room="hall", role=role, content=text, at=float(at + 1))
            for at, (role, text) in enumerate(chat())
        ],
    )
    async with Engine(f"sqlite:///{tmp_path / 'bench'}-{provider.route}.db", embedder="none") as engine:
        [report] = await measure(
            [recording],
            engine,
            model=resolve_model("gpt-4o"),
            windows=[1_024],
            completion=128,
            requests=4,
            provider=provider,
        )
    return report


def repeat_order(request):
    """Answer as a model that says what it sees."""
    return "It was W-4711." if "W-4711" in json.dumps(request["messages"]) else "I do not know."


def test_a_model_answers_again_with_each_context(tmp_path):
    provider = ScriptedProvider(itertools.repeat(repeat_order), tokens=len)
    ways = asyncio.run(ask(provider, tmp_path)).ways
    assert len(provider.requests) == 3  # of four replayed answers, one has facts
    assert {way: (each.answered, each.facts, each.failed) for way, each in ways.items()} == {
        "newest": (0, 2, 0),
        "fit": (0, 2, 0),
        "memory": (1, 2, 0),
    }
    assert ways["memory"].answered_share == (0.5, 0.5)
    assert ways["memory"].output > 0
    assert all(request["max_completion_tokens"] == 128 for request in provider.requests)


def test_answers_that_fail_are_counted_unless_all_do(tmp_path):
    lost = ProviderError("scripted", "gone", status=500)
    ways = asyncio.run(ask(ScriptedProvider([lost, "No.", "It was W-4711 to Lisbon."]), tmp_path)).ways
    assert [(each.answered, each.failed) for each in ways.values()] == [(0, 1), (0, 0), (2, 0)]
    with pytest.raises(ProviderError, match="gone"):
        asyncio.run(ask(ScriptedProvider(itertools.repeat(lost), route="dead"), tmp_path))


def test_only_chat_completions_can_be_answered(fails, file):
    complaint = fails("bench", str(file), "--window=1024", "--completion=128", "--answers=ollama:http://127.0.0.1:9")
    assert "must be a server for OpenAI's chat completions" in complaint
