"""The requests of an agent's task are one run: one row of the list, with its steps."""

import asyncio
import json

import pytest

from brimful.core.notice import Notice
from brimful.engine import Engine
from brimful.records import Response, Usage
from server.inspector.conftest import ROOT, store_of
from server.inspector.test_events import listening
from server.upstream import message_answer

REMINDER = {"type": "text", "text": "<system-reminder>\nThe todo list is empty.\n</system-reminder>"}
TASK = "Find out why the kettle leaks.\nThen mend it."
MODES = ["fit", "remember"]


def used(number):
    return {"type": "tool_use", "id": f"c{number}", "name": "Bash", "input": {"command": f"look {number}"}}


def step(number):
    """A call of a tool as Claude Code sends it, with a reminder beside the result."""
    result = {"type": "tool_result", "tool_use_id": f"c{number}", "content": f"drop {number}"}
    return [{"role": "assistant", "content": [used(number)]}, {"role": "user", "content": [result, REMINDER]}]


def answers(steps):
    """Answer so many times with a call, and then with a text."""
    calls = [message_answer() | {"content": [used(number)], "stop_reason": "tool_use"} for number in range(steps)]
    return [*calls, message_answer("The lid was loose.", prompt=40)]


def work(client, upstream, steps, mode, *, task=TASK, headers=None):
    """Let an agent work on a task, and return the ids of its contexts."""
    upstream.answers[:] = answers(steps)
    headers = {"x-brimful-mode": mode, "x-brimful-conversation": "kitchen"} | (headers or {})
    messages, contexts = [{"role": "user", "content": [REMINDER, {"type": "text", "text": task}]}], []
    for number in range(steps + 1):
        request = {"model": "claude-sonnet-4-5", "max_tokens": 300, "messages": messages}
        answer = client.post("/v1/messages", json=request, headers=headers)
        assert answer.status_code == 200, answer.text
        contexts.append(answer.headers["x-brimful-context"])
        messages += step(number)
    client.get(f"{ROOT}/contexts/{contexts[-1]}").raise_for_status()  # waits until the records are written
    return contexts


def listed(client, **query):
    answer = client.get(f"{ROOT}/contexts", params={"runs": "true"} | query)
    assert answer.status_code == 200, answer.text
    return answer.json()["contexts"]


def shown(client, id, **query):
    answer = client.get(f"{ROOT}/runs/{id}", params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.mark.parametrize("mode", MODES)
def test_run_is_one_row_with_its_task_and_sums(start, upstream, mode):
    client = start(remember={"embedder": "none"})
    contexts = work(client, upstream, 5, mode)
    [row] = listed(client)
    run = row["run"]
    assert (row["id"], run["id"], run["steps"]) == (contexts[-1], contexts[0], 6)
    assert (run["prompt"], run["completion"], run["cached"]) == (5 * 12 + 40, 18, 0)
    assert run["models"] == ["claude-sonnet-4-5"]
    assert run["begin"] <= row["at"] <= run["end"]
    assert row["question"] == "Find out why the kettle leaks. Then mend it."
    flat = client.get(f"{ROOT}/contexts").json()["contexts"]
    assert [each["id"] for each in flat] == contexts[::-1]
    assert {each["question"] for each in flat} == {row["question"]}


@pytest.mark.parametrize("mode", MODES)
def test_steps_say_what_the_model_did_and_where_the_time_went(start, upstream, mode):
    client = start(remember={"embedder": "none"})
    contexts = work(client, upstream, 3, mode)
    run = shown(client, contexts[0])
    assert (run["room"], run["first"], run["question"]) == (
        "kitchen",
        1,
        TASK,
    )
    assert [each["id"] for each in run["steps"]] == contexts
    *calling, last = run["steps"]
    arguments = [json.loads(call["arguments"]) for each in calling for call in each["calls"]]
    assert {call["name"] for each in calling for call in each["calls"]} == {"Bash"}
    assert arguments == [{"command": f"look {number}"} for number in range(3)]
    assert (last["calls"], last["answer"], last["finish"], last["prompt"]) == (
        [],
        "The lid was loose." if mode == "remember" else "",
        "stop",
        40,
    )
    assert all(each["seconds"]["tools"] >= 0 for each in calling)
    assert last["seconds"]["tools"] is None
    for each in run["steps"]:
        assert each["seconds"]["build"] >= 0
        assert each["seconds"]["model"] >= 0
        assert (each["seconds"]["retrieval"] is None) == (mode == "fit")


def test_pages_count_runs(start, upstream):
    client = start()
    first, second = (work(client, upstream, 3, "fit", task=f"Task {number}") for number in range(2))
    page = client.get(f"{ROOT}/contexts", params={"runs": "true", "limit": 1}).json()
    assert [row["id"] for row in page["contexts"]] == [second[-1]]
    [row] = listed(client, limit=1, before=page["next"])
    assert (row["id"], row["run"]["steps"]) == (first[-1], 4)
    assert listed(client, user="nobody") == []


def test_context_knows_its_place(start, upstream):
    client = start()
    contexts = work(client, upstream, 2, "fit")
    places = [client.get(f"{ROOT}/contexts/{id}").json()["run"] for id in contexts]
    assert places == [
        {"id": contexts[0], "step": 1, "steps": 3, "previous": None, "next": contexts[1]},
        {"id": contexts[0], "step": 2, "steps": 3, "previous": contexts[0], "next": contexts[2]},
        {"id": contexts[0], "step": 3, "steps": 3, "previous": contexts[1], "next": None},
    ]


def test_events_update_the_run(start, upstream):
    client = start()
    with listening(client) as stream:
        next(stream)
        contexts = work(client, upstream, 1, "fit")
        rows, said = [], []
        while len(said) < 2 or len(rows) < 2:
            event = next(stream)
            {"context": rows, "answer": said}[event["event"]].append(json.loads(event["data"]))
    assert [row["id"] for row in rows] == contexts
    assert {row["run"]["id"] for row in [*rows, *said]} == {contexts[0]}
    assert said[-1]["run"]["steps"] == 2
    assert said[-1]["run"]["prompt"] == 52


def test_chat_has_runs_of_one_step(reader, kept_story):
    rows = listed(reader)
    assert [(row["run"]["id"], row["run"]["steps"]) for row in rows] == [(id, 1) for id in kept_story]
    assert [row["question"] for row in rows] == ["And when?", "Which sencha?"]


@pytest.fixture
def kept_story(told):
    return told[1].second, told[1].first


def test_recalls_feedback_and_warnings_are_shown(start, tmp_path, upstream):
    client = start()
    contexts = work(client, upstream, 1, "fit")
    facts = {"handle": "r1", "query": "", "tokens": 3, "round": 1}
    notices = [
        Notice(kind="recalled", text="round 1", facts=facts | {"seconds": 0.25}),
        Notice(kind="recalled", text="round 1", facts=facts),
    ]

    async def answer(number, *notices):
        async with Engine(store_of(tmp_path), embedder="none") as engine:
            usage = Usage(prompt=9, completion=1)
            answer = {"context": contexts[1], "room": "kitchen", "at": 9e9 + number, "usage": usage}
            await engine.store.save_response(Response(id=f"r{number}", **answer, notices=notices))

    for number in (1, 2):
        asyncio.run(answer(number, *notices[:number]))
        first, second = shown(client, contexts[0])["steps"]
        assert (first["recalls"], first["seconds"]["recall"]) == ([], None)
        assert [each["seconds"] for each in second["recalls"]] == [0.25, None][:number]
        assert second["seconds"]["recall"] == (0.25 if number == 1 else None)  # null: one of them was not measured
    assert second["recalls"][0] == {"text": "round 1", "handle": "r1", "query": "", "tokens": 3, "seconds": 0.25}
    assert second["feedback"] is None
    assert client.post(f"{ROOT}/answers/r1/feedback", json={"rating": "bad"}).is_success
    run = shown(client, contexts[0])
    assert run["steps"][1]["feedback"]["rating"] == "bad"
    assert run["run"]["warnings"] == sum(len(each["warnings"]) for each in run["steps"])


def test_a_run_is_paged_and_continued(start, upstream):
    client = start()
    contexts = work(client, upstream, 4, "fit")
    whole = shown(client, contexts[0])["steps"]

    def part(**query):
        page = shown(client, contexts[0], **query)
        assert page["run"]["steps"] == 5
        assert page["question"] == TASK
        assert page["steps"] == whole[page["first"] - 1 :][: len(page["steps"])]
        return page["first"], len(page["steps"])

    assert part(limit=2) == (4, 2)
    assert part(limit=2, before=whole[3]["number"]) == (2, 2)
    assert part(limit=2, before=whole[1]["number"]) == (1, 1)
    assert part(since=whole[3]["at"]) == (4, 2)
    assert part(since=9e9) == (6, 0)


def test_the_page_of_a_run_has_the_whole_task(start, upstream):
    client = start()
    task = "Find out why the kettle leaks.\n" * 100
    [id, _] = work(client, upstream, 1, "fit", task=task)
    assert shown(client, id)["question"] == task.strip()
    [id, _] = work(client, upstream, 1, "fit", task=task * 3)
    assert shown(client, id)["question"] == (task * 3)[:7_999] + "…"


def test_unknown_run(reader):
    answer = reader.get(f"{ROOT}/runs/nothing")
    assert (answer.status_code, answer.json()["error"]["message"]) == (404, "no run 'nothing'")
