"""The task of an agent whose observations are messages of the user stays when older turns are dropped."""

from itertools import pairwise

import pytest

import brimful

TASK = "Fix the bug in the parser of lists. " + "It drops the last comma of a list that is nested in another. " * 6


def observe(number):
    return "OBSERVATION\n" + "\n".join(f"{at}: return values[{number * at}]" for at in range(4 + number * 7 % 23))


def act(number):
    return f"I look at module {number}.\n```bash\ncat src/module_{number}.py\n```"


def run(steps, *, task=TASK, act=act, observe=observe):
    messages = [{"role": "system", "content": "You are a coding agent."}, {"role": "user", "content": task}]
    for number in range(steps):
        messages.append({"role": "assistant", "content": act(number)})
        messages.append({"role": "user", "content": observe(number)})
    return messages


def fitted(messages, window=1_000, **options):
    return brimful.fit({"model": "gpt-4o", "max_tokens": 16, "messages": messages}, window=window, now=0, **options)


@pytest.mark.parametrize("window", [1_000, 2_000, 4_000])
@pytest.mark.parametrize("act", [act, "I look at module {}, and then at what it returns.".format])
def test_the_task_stays_word_for_word(window, act):
    context, trimmed = None, 0
    for steps in range(1, 40):
        messages = run(steps, act=act)
        context = fitted(messages, window, previous=context)
        assert context.request["messages"][:2] == messages[:2]
        assert context.tokens <= window - 16
        trimmed += context.is_reduced
    assert trimmed > 5


def test_requests_begin_as_the_one_before_until_they_are_trimmed():
    requests, previous = [], None
    for steps in range(5, 60):
        previous = fitted(run(steps), 3_000, previous=previous)
        requests.append(previous.request["messages"])
    grown = [after[: len(before)] == before for before, after in pairwise(requests)]
    assert len(grown) - 20 < sum(grown) < len(grown)


def test_other_conversations_begin_where_there_is_room():
    answer = "It {} does all of that, and it returns what you asked for. ".format
    context = fitted(run(30, act=answer, observe="And {}?".format), 500)
    assert context.is_reduced
    assert 1 not in context.positions


def test_the_task_takes_a_share_of_the_window():
    task = " ".join(f"Sentence {number} of the task." for number in range(400))
    first = fitted(run(8, task=task), 2_000)
    assert first.shortened == (1,)
    assert 900 < first.decision("msg-000001").cost <= 1_200
    assert "required-shrunk" not in [notice.kind for notice in first.warnings]
    second = fitted(run(9, task=task), 2_000, previous=first)
    assert second.request["messages"][1] == first.request["messages"][1]
    whole = fitted(run(8, task=task), 2_000, overrides={"forms.kinds": ["tool-*"]})
    assert 1 not in whole.positions


def test_all_that_the_user_said_before_the_first_answer_is_the_task():
    messages = run(30)
    messages[2:2] = [{"role": "user", "content": "Do not change the tests."}]
    assert fitted(messages).positions[:3] == (0, 1, 2)
    assert fitted(messages, pin=[1]).positions[:3] == (0, 1, 2)


def test_the_task_has_a_reason_and_other_messages_have_theirs():
    context = fitted(run(30))
    assert (context.decision("msg-000001").outcome, context.decision("msg-000001").reason) == ("kept", "fits")
    assert context.decision("msg-000002").reason in ("older", "low-water")


def test_an_answer_separates_the_task_from_an_observation_if_roles_must_alternate():
    messages = run(30)
    model = brimful.models.resolve("mistral-7b-instruct")
    assert model.alternate
    for window in range(800, 1_400, 50):
        sent = brimful.fit({"messages": messages}, model=model, window=window, completion=16, now=0).request["messages"]
        roles = [message["role"] for message in sent[1:]]
        assert sent[1] == messages[1]
        assert all(before != after for before, after in pairwise(roles))
