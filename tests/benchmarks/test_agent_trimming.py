"""What the benchmark of agents counts: values, lost calls, faults, and the runs in a file."""

import json

import pytest

import agent_trimming
from agent_runs import Session, Step, find_fault, find_lost_calls, find_runs, find_steps, join_runs, make_counter
from agent_wires import WIRES
from brimful import counter

SYSTEM = {"role": "system", "content": "Help travellers from Rome."}


def words(text):
    return len(text.split())


def tokens(text):
    return counter("gpt-4o").texts([text])[0].tokens


def call(id, name="find_flight", /, **arguments):
    return {"id": id, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}


def calling(*calls):
    return {"role": "assistant", "content": None, "tool_calls": list(calls)}


def result(id, content):
    return {"role": "tool", "tool_call_id": id, "content": content}


def user(content):
    return {"role": "user", "content": content}


RUN = [
    SYSTEM,
    user("I am Mia, user mia_li, and want to fly from Rome."),
    calling(call("a", "get_user", id="mia_li")),
    result("a", "mia_li pays with card_77 and likes the window " + "very much " * 20),
    calling(call("b", "book", card="card_77", origin="Rome", seats=2, total=480)),
    result("b", "booked for 480 as ZFA04Y"),
    calling(call("c", "mail", to="mia_li", code="ZFA04Y")),
]


def test_a_value_is_needed_if_the_run_had_it_and_the_system_prompt_does_not():
    steps = list(find_steps(Session(RUN, 1)))
    assert [dict(step.values) for step in steps] == [
        {"mia_li": "get user id"},
        {"card_77": "book card"},
        {"mia_li": "mail to", "ZFA04Y": "mail code"},
    ]
    assert steps[1].messages == RUN[:4]


def test_arguments_that_are_not_json_need_nothing():
    broken = call("a")
    broken["function"]["arguments"] = "{mia"
    (step,) = find_steps(Session([SYSTEM, user("mia"), calling(broken)], 1))
    assert step.values == {}


def test_joined_runs_have_one_system_prompt_different_ids_and_the_task_of_the_last():
    (session,) = join_runs([RUN, [SYSTEM, user("Now cancel it."), *RUN[2:]]], 2)
    assert [each["role"] for each in session.messages].count("system") == 1
    assert session.task == "Now cancel it."
    ids = [each["id"] for message in session.messages for each in message.get("tool_calls") or ()]
    assert ids == ["a-0", "b-0", "c-0", "a-1", "b-1", "c-1"]
    assert len(list(find_steps(session))) == 3


@pytest.mark.parametrize(
    ("messages", "fault"),
    [
        (RUN[:4], ""),
        ([SYSTEM, result("a", "x")], "orphan"),
        ([SYSTEM, calling(call("a"), call("b")), result("a", "x"), user("And?")], "unanswered"),
        ([SYSTEM, calling(call("a"))], "unanswered"),
        ([SYSTEM, calling(call("a")), user("And?"), result("a", "x")], "unanswered"),
        ([SYSTEM, calling(call("a")), result("a", "x"), result("a", "x")], "orphan"),
    ],
)
def test_a_request_is_at_fault_unless_each_call_has_its_result_right_after_it(messages, fault):
    assert find_fault(messages) == fault


def lost(sent, handles=()):
    found = find_lost_calls(sent, Step(RUN[:6], 1, {}), handles)
    return found.total, found.without_result, found.without_trace


def test_calls_are_lost_without_their_result_an_excerpt_of_it_or_a_line_about_it():
    whole = RUN[:6]
    assert lost(whole) == (2, 0, 0)
    assert lost([*whole[:3], result("a", "[… card_77 …]"), *whole[4:]]) == (2, 0, 0)
    assert lost([*whole[:3], result("a", "[cleared]"), *whole[4:]]) == (2, 1, 0)
    assert lost([*whole[:3], result("a", "[msg-12]"), *whole[4:]], ["msg-12"]) == (2, 0, 0)
    assert lost([SYSTEM, *whole[4:]]) == (2, 1, 1)
    assert lost([SYSTEM, user("Steps:\n1 get_user(id=mia_li) → ok, 52 tokens"), *whole[4:]]) == (2, 0, 0)
    assert lost([SYSTEM, user("msg-12 get_user(id=mia_li)"), *whole[4:]], ["msg-12"]) == (2, 0, 0)
    assert lost([SYSTEM, user("calls: get_user (id=mia_li)"), *whole[4:]]) == (2, 1, 0)
    assert lost([SYSTEM, user("Steps:\n1 get_user(id=bob) → ok, 52 tokens"), *whole[4:]]) == (2, 1, 1)


@pytest.mark.parametrize(
    "text",
    [
        json.dumps([{"traj": RUN}, {"traj": RUN}]),
        json.dumps([{"messages": RUN}, RUN]),
        "\n".join(json.dumps({"messages": RUN}) for _ in range(2)),
        "\n".join(json.dumps(RUN) for _ in range(2)),
    ],
)
def test_runs_are_read_from_every_form(tmp_path, text):
    (tmp_path / "runs.json").write_text(text)
    (tmp_path / "notes.json").write_text('{"a": [1]}')
    assert find_runs(tmp_path) == {"runs.json": [RUN, RUN]}
    assert find_runs(tmp_path / "runs.json") == {"runs.json": [RUN, RUN]}


@pytest.mark.parametrize("text", [json.dumps(RUN), "\n".join(map(json.dumps, RUN))])
def test_a_list_of_messages_is_one_run(tmp_path, text):
    (tmp_path / "run.jsonl").write_text(text)
    assert find_runs(tmp_path) == {"run.jsonl": [RUN]}


class Fixed(agent_trimming.Plain):
    """Sends the system prompt and the newest messages, whatever the limit."""

    def __init__(self, newest):
        self._newest = newest

    def trim(self, messages, limit):
        if limit < 0:
            raise ValueError(limit)
        return [messages[0], *messages[1:][-self._newest :]]


def test_figures_are_those_of_the_requests_that_do_not_fit():
    figures = agent_trimming.measure(lambda: Fixed(2), [Session(RUN, 1)], 90, words)
    assert figures.values == [0.5]  # at the last call: the code is there, the user's id is not
    assert (len(figures.seconds), figures.task, figures.repeat, figures.calls) == (1, 0, 1, 2)
    assert (figures.over, figures.invalid, figures.refused) == (0, 0, 0)
    everything = agent_trimming.measure(agent_trimming.Untrimmed, [Session(RUN, 1)], 90, words)
    assert (everything.values, everything.over, everything.task, everything.repeat) == ([1.0], 1, 1, 0)
    assert figures.input < everything.input
    assert agent_trimming.measure(agent_trimming.Untrimmed, [Session(RUN, 1)], 10_000, words).seconds == []


def test_an_error_is_a_request_that_was_refused():
    assert agent_trimming.measure(lambda: Fixed(2), [Session(RUN, 1)], -1_000, words).refused == 3


def test_values_come_back_by_recall():
    long = [*RUN[:3], result("a", "card_77 " + "and so on and on " * 100), *RUN[4:]]
    figures = agent_trimming.measure(agent_trimming.Brimful, [Session(long, 1)], 130, tokens)
    assert figures.over == figures.invalid == figures.refused == 0
    assert figures.found[-1] == 1.0


def test_calls_are_counted_as_json():
    count = make_counter(words)
    assert count([SYSTEM]) == 3 + 3 + 1 + 4
    assert count([calling(call("a", "look"))]) == 3 + 3 + 1 + 4


@pytest.mark.parametrize("wire", WIRES)
def test_a_run_can_be_written_in_another_form_and_read_back(wire):
    both = calling(call("d", "mail", to="Ada"), call("e", "mail", to="Bo"))
    run = [*RUN, result("c", "sent"), both, result("d", "sent"), result("e", "sent"), user("Thanks!")]
    back = WIRES[wire].read(WIRES[wire].write(run))
    assert [{**each, "content": each["content"] or None} for each in back] == run
