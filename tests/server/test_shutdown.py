"""Shutdown: running answers finish, and nothing acknowledged is lost."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import httpx2

from brimful.stores import connect
from server.upstream import chat_answer, chat_events

CHAT = "/v1/chat/completions"
HI = {"model": "gpt-4o", "max_tokens": 50, "messages": [{"role": "user", "content": "Hi"}]}
TALK = {"x-brimful-mode": "remember", "x-brimful-conversation": "tea"}


@contextmanager
def running(folder, upstream, *, grace=20.0, settings="", limits="", store=None):
    """Run `brimful serve` as a process of its own; yield a client and the process."""
    config = folder / "brimful.toml"
    config.write_text(
        f"""
        listen = "127.0.0.1:0"
        store = "{store or f"sqlite:///{folder}/brimful.db"}"
        {settings}
        [[upstreams]]
        name = "local"
        url = "{upstream.address}/v1"
        window = 8192
        [limits]
        grace = {grace}
        {limits}
        [remember]
        embedder = "none"
        """
    )
    command = [sys.executable, "-m", "brimful", "serve", "--config", str(config)]
    environ = os.environ | {"PYTHONUNBUFFERED": "1"}
    with (
        (folder / "errors").open("w+") as errors,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, env=environ) as process,
    ):
        try:
            output = process.stdout.readline()
            address = re.search(r"http://[\d.:]+", output)
            assert address, output + (folder / "errors").read_text()
            with httpx2.Client(base_url=address[0], timeout=120) as client:
                yield client, process
        finally:
            process.kill()


def stop(process):
    process.send_signal(signal.SIGTERM)


def said_in(folder):
    async def read():
        async with connect(f"sqlite:///{folder}/brimful.db") as database:
            store = database.tenant("default")
            history = await store.history("tea", limit=100)
            answers = await store.responses(room="tea")
            return [entry.message.content for entry in reversed(history)], [answer.finish for answer in answers]

    return asyncio.run(read())


def test_a_running_stream_finishes_and_is_stored(tmp_path, upstream):
    pieces = [f"{number} " for number in range(40)]
    upstream.answers, upstream.pause = [list(chat_events(*pieces))], 0.03
    with running(tmp_path, upstream) as (client, process):
        with client.stream("POST", CHAT, json=HI | {"stream": True}, headers=TALK) as answer:
            chunks = answer.iter_bytes()
            first = next(chunks)
            stop(process)
            text = (first + b"".join(chunks)).decode()
        assert process.wait(120) == -signal.SIGTERM
    assert text == "".join(chat_events(*pieces))
    assert said_in(tmp_path) == (["Hi", "".join(pieces)], ["stop"])
    assert (tmp_path / "errors").read_text() == ""


def test_a_stream_beyond_the_grace_period_ends_with_an_error_and_is_stored(tmp_path, upstream):
    upstream.answers, upstream.pause = [list(chat_events(*["word "] * 400))], 0.05
    with running(tmp_path, upstream, grace=0.5) as (client, process):
        with client.stream("POST", CHAT, json=HI | {"stream": True}, headers=TALK) as answer:
            chunks = answer.iter_bytes()
            first = next(chunks)
            stop(process)
            text = (first + b"".join(chunks)).decode()
        assert process.wait(120) == -signal.SIGTERM
    last = json.loads(text.strip().rpartition("data: ")[2])
    assert last["error"]["code"] == "shutting_down"
    contents, finishes = said_in(tmp_path)
    assert contents[1].startswith("word word ")
    assert contents[1].strip() == " ".join(["word"] * text.count("word "))
    assert finishes == ["broken-off"]


def test_a_request_beyond_the_grace_period_is_rejected_and_its_question_stored(tmp_path, upstream):
    upstream.silent = True
    with running(tmp_path, upstream, grace=0.5) as (client, process), ThreadPoolExecutor() as threads:
        asked = threads.submit(client.post, CHAT, json=HI, headers=TALK)
        while not upstream.requests:
            time.sleep(0.02)
        stop(process)
        answer = asked.result(120)
        assert process.wait(120) == -signal.SIGTERM
    assert answer.status_code == 503
    assert answer.headers["retry-after"]
    assert said_in(tmp_path) == (["Hi"], [])


def test_answers_survive_the_end_of_the_process(tmp_path, upstream):
    upstream.answers = [chat_answer("Thursday.")]
    with running(tmp_path, upstream) as (client, process):
        assert client.post(CHAT, json=HI, headers=TALK).status_code == 200
        process.kill()  # without any grace
        process.wait(120)
    assert said_in(tmp_path) == (["Hi", "Thursday."], ["stop"])


def test_health_and_readiness(start):
    client = start()
    assert client.get("/health").json() == {"status": "ok"}
    assert client.get("/ready").json()["status"] == "ready"


def test_each_request_logs_one_line_and_its_context_without_contents_or_keys(tmp_path, upstream):
    sentence = "a very private sentence"
    with running(tmp_path, upstream, settings="telemetry.logs = true") as (client, process):
        messages = HI | {"messages": [{"role": "user", "content": sentence}]}
        answer = client.post(CHAT, json=messages, headers=TALK | {"authorization": "Bearer sk-private"})
        client.post("/v1/nothing", json=messages)
        stop(process)
        lines = process.stdout.read()
    line, _ = map(json.loads, lines.splitlines())
    context = answer.headers["x-brimful-context"]
    assert line["path"] == CHAT
    assert line["status"] == 200
    assert line["context"] == context
    assert {"at", "method", "seconds", "tenant", "key", "mode", "upstream", "model", "stream"} <= set(line)
    errors = (tmp_path / "errors").read_text()
    assert "private" not in lines + errors
    [logged] = errors.splitlines()
    assert logged.startswith(
        f"INFO build context={context} tenant=default room=tea model=gpt-4o policy=default window=8192"
    )
