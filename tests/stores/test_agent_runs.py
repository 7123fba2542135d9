"""The contexts of an agent's task are one run: found by what the task is, summed up, and listed as one."""

import pytest

from brimful import fit
from brimful.core.content import ToolCall, ToolResult
from brimful.packagers import memory, message
from brimful.records import Message, Response, Room, Snapshot, Usage
from brimful.stores import connect
from brimful.stores.encryption.cipher import is_keyed_address
from stores.encrypted import kek, sql
from stores.samples import words
from strategies import COUNTER
from support import build

TASK = "Fix the leaking kettle."


def conversation(steps, task=TASK, *, before=(), tool="bash"):
    """The messages of an agent after some steps."""
    messages = [*before, {"role": "user", "content": task}]
    for step in range(steps):
        call = {"id": f"c{step}", "type": "function", "function": {"name": tool, "arguments": f'{{"step": {step}}}'}}
        messages += [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"c{step}", "content": f"drop {step}"},
        ]
    return messages


def step(number, *, id=None, at=None, room="proxy", model="gpt-4o", messages=None, **more):
    request = {"model": model, "messages": conversation(number) if messages is None else messages}
    return Snapshot(
        id=id or f"s{number}", room=room, at=float(number) if at is None else at, context=fit(request), **more
    )


def answer(number, *, context=None, **usage):
    context = context or f"s{number}"
    usage = Usage(prompt=100, cached=80, completion=10) if not usage else Usage(**usage)
    return Response(
        id=f"r-{context}", context=context, room="proxy", model="gpt-4o", at=number + 0.5, seconds=0.5, usage=usage
    )


async def save(store, *records):
    await store.save_records(records)


def runs_of(run, store, **filters):
    return {each.id: each.run for each in run(store.builds(**filters))}


@pytest.fixture
def agent(store, run):
    """Save a run of four contexts, each with its answer, together or one by one."""
    run(save(store, step(0), answer(0), step(1), answer(1)))
    for number in (2, 3):
        run(save(store, step(number)))
        run(save(store, answer(number)))
    return store


def test_rounds_of_a_task_are_one_run(agent, run):
    assert runs_of(run, agent) == dict.fromkeys(("s0", "s1", "s2", "s3"), "s0")
    assert run(agent.run_contexts("s0")) == ["s0", "s1", "s2", "s3"]
    assert [each.id for each in run(agent.builds(run="s0", limit=2))] == ["s3", "s2"]
    assert run(agent.run_contexts("s1")) == []


def test_run_has_sums_and_times(agent, run):
    found = run(agent.agent_runs(["s0", "s0", "nobody"]))
    assert set(found) == {"s0"}
    task = found["s0"]
    assert (task.begin, task.end) == (0.0, 3.5)
    answers = task.statistics.answers
    assert (task.statistics.contexts, answers.total) == (4, 4)
    assert (answers.prompt, answers.cached, answers.completion) == (400, 320, 40)
    assert [each.model for each in task.statistics.models] == ["gpt-4o"]


def test_list_by_run_has_the_newest_context_of_each(agent, run):
    run(save(agent, step(0, id="other", at=9.0, messages=conversation(0, "What is tea?"))))
    listed = run(agent.builds(by_run=True))
    assert [each.id for each in listed] == ["other", "s3"]
    assert [each.id for each in run(agent.builds(by_run=True, limit=1))] == ["other"]
    assert [each.id for each in run(agent.builds(by_run=True, before=listed[0].number))] == ["s3"]
    run(save(agent, step(4)))
    assert [each.id for each in run(agent.builds(by_run=True, room="proxy"))] == ["s4", "other"]
    assert run(agent.builds(by_run=True, room="elsewhere")) == []


def test_filter_by_model_finds_a_run_that_went_on_with_another(agent, run):
    run(save(agent, step(4, model="gpt-4o-mini")))
    assert [each.id for each in run(agent.builds(by_run=True, model="gpt-4o"))] == ["s3"]
    assert [each.id for each in run(agent.builds(by_run=True, model="gpt-4o-mini"))] == ["s4"]
    models = run(agent.agent_runs(["s0"]))["s0"].statistics.models
    assert [(each.model, each.contexts) for each in models] == [("gpt-4o", 4), ("gpt-4o-mini", 1)]


def test_same_task_again_is_another_run(agent, run):
    run(save(agent, step(0, id="again", at=50.0), step(1, id="again-1", at=51.0)))
    assert runs_of(run, agent, limit=2) == {"again": "again", "again-1": "again"}


def test_next_message_is_another_run(agent, run):
    messages = conversation(
        1, "And now the teapot.", before=[*conversation(3), {"role": "assistant", "content": "Done."}]
    )
    run(
        save(
            agent, step(0, id="next", at=60.0, messages=messages[:-2]), step(1, id="next-1", at=61.0, messages=messages)
        )
    )
    assert runs_of(run, agent, limit=2) == {"next": "next", "next-1": "next"}


@pytest.mark.parametrize(
    "other",
    [
        {"room": "elsewhere"},
        {"user": "ada"},
        {"messages": conversation(4, "Another task.")},
        {
            "messages": conversation(
                4, before=[{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hi"}]
            )
        },
    ],
    ids=["room", "user", "task", "conversation"],
)
def test_runs_at_the_same_time_are_told_apart(agent, run, other):
    run(save(agent, step(4, id="x", **other)))
    assert run(agent.build("x")).run == "x"


def test_request_that_was_built_again_belongs_to_the_same_run(store, run):
    run(save(store, step(0), step(0, id="smaller", at=0.0)))
    assert runs_of(run, store) == {"s0": "s0", "smaller": "s0"}


def test_room_has_one_task_at_a_time(store, run):
    call = message((ToolCall(id="c", name="look"),), counter=COUNTER, id="call", role="assistant", timestamp=2.0)
    result = message((ToolResult(id="c", content="a pot"),), counter=COUNTER, id="result", role="tool", timestamp=3.0)
    asked = message("What is it?", counter=COUNTER, id="m1", timestamp=1.0)
    room = {"room": "den", "context": build([asked, call, result])}
    run(save(store, Snapshot(id="a", room="den", at=1.0, message="m1", context=build([asked]))))
    run(save(store, Snapshot(id="b", at=3.0, **room), Snapshot(id="c", at=4.0, persona="nova", **room)))
    late = build([call, result])  # the question is out of reach
    run(save(store, Snapshot(id="d", at=5.0, room="den", context=late)))
    assert runs_of(run, store) == {"a": "a", "b": "a", "c": "c", "d": "a"}


def test_context_without_a_conversation_is_a_run_of_its_own(store, run):
    context = build([memory("Ada drinks tea.", counter=COUNTER, id="k1")])
    run(save(store, *(Snapshot(id=id, room="general", at=1.0, context=context) for id in "ab")))
    assert runs_of(run, store) == {"a": "a", "b": "b"}


def test_task_and_calls_are_read_from_the_candidates(agent, run):
    build = run(agent.build("s3"))
    found = run(agent.candidate_contents({"s3": [build.question, *build.calls], "nobody": [0]}))
    assert set(found) == {"s3"}
    task, (call,) = found["s3"]
    assert (task, call.name, call.arguments) == (TASK, "bash", '{"step": 2}')


def test_erased_task_is_empty(store, run):
    run(store.put(Room(id="general")))
    run(store.post([(Message(id="m1", room="general", content=TASK), words(TASK))]))
    run(save(store, step(0)))
    run(store.delete("m1", erase=True))
    assert run(store.candidate_contents({"s0": [0]})) == {"s0": [""]}


def test_context_that_was_not_recorded_belongs_to_its_run(store, run):
    run(store.save_records([step(0), step(1)], share=0.0))
    assert runs_of(run, store) == {"s0": "s0", "s1": "s0"}
    assert run(store.candidate_contents({"s1": [0]})) == {}


def test_times_of_the_build_come_back(store, run):
    kept = step(0, build_seconds=0.25, search_seconds=0.125)
    run(save(store, kept))
    assert run(store.snapshot("s0")) == kept
    assert (run(store.build("s0")).build_seconds, run(store.build("s0")).search_seconds) == (0.25, 0.125)


def test_removed_contexts_leave_the_run(agent, run):
    run(agent.remove_context("s3"))
    assert run(agent.run_contexts("s0")) == ["s0", "s1", "s2"]
    assert [each.id for each in run(agent.builds(by_run=True))] == ["s2"]
    assert run(agent.agent_runs(["s0"]))["s0"].statistics.contexts == 3
    run(agent.put(Room(id="proxy")))
    run(agent.remove(Room, "proxy"))
    assert run(agent.agent_runs(["s0"])) == {}


def test_run_outlives_its_first_contexts(agent, run):
    run(save(agent, step(4, at=7_300.0)))
    run(agent.prune(before=7_200.0))
    assert run(agent.run_contexts("s0")) == ["s4"]
    run(save(agent, step(5, at=7_301.0)))
    assert runs_of(run, agent) == {"s4": "s0", "s5": "s0"}


def test_run_goes_on_after_the_store_was_encrypted(sqlite_url, run):
    async def begin():
        async with connect(sqlite_url) as database:
            await save(database.tenant("acme"), step(0))

    async def go_on():
        async with connect(sqlite_url, keys=kek()) as database:
            await database.encryption("acme").encrypt()
            await save(database.tenant("acme"), step(1))
            return await database.tenant("acme").builds()

    run(begin())
    assert {each.run for each in run(go_on())} == {"s0"}
    assert all(is_keyed_address(task) for (task,) in sql(sqlite_url, "SELECT task FROM snapshots"))
