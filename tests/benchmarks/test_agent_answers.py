"""The benchmark of what an agent's final answer needs."""

import random

import pytest

import agent_answers
import agent_trimming


@pytest.mark.parametrize("tasks", ["dev", "held"])
@pytest.mark.parametrize("kind", ["lists", "sums", "files", "logs"])
def test_an_untrimmed_run_has_everything_that_its_answer_needs(tasks, kind):
    task = agent_answers.TASKS[tasks][kind]
    assert any(step.facts for step in task.make(random.Random(0)))
    assert agent_answers.measure_task(agent_trimming.Untrimmed, task, 1_000) == 1.0


def test_a_run_without_its_results_has_nothing():
    class Question(agent_trimming.Plain):
        def trim(self, messages, limit):  # noqa: ARG002
            return messages[:2]

    assert agent_answers.measure_task(Question, agent_answers.TASKS["dev"]["sums"], 1_000) == 0.0


def test_a_helper_of_an_untrimmed_run_has_everything_and_a_brief_has_rows():
    task = agent_answers.TASKS["dev"]["files"]
    assert agent_answers.measure_helper(agent_trimming.Untrimmed, task, 1_000) == 1.0
    assert agent_answers.measure_helper(agent_answers.Briefing, task, 1_000) > 0.5
    assert agent_answers.measure_helper(agent_trimming.Clearing, task, 1_000) < 0.5


def test_a_value_counts_only_near_to_what_it_belongs_to():
    far = "W1 " + "and so on " * 40 + "broken"
    assert agent_answers.says(("", "W1 is broken"), "W1", "broken")
    assert not agent_answers.says(("", far), "W1", "broken")
    assert not agent_answers.says(("", "W12 is broken"), "W1", "broken")
    assert agent_answers.says(('{"order": "W1"}', far), "W1", "broken")


def test_an_answer_needs_values_of_results_that_nobody_else_said():
    run = [
        {"role": "user", "content": "Where is W-1001?"},
        {"role": "tool", "tool_call_id": "1", "content": "W-1001 is in box 4711 since 2024-05-01"},
        {"role": "assistant", "content": "W-1001 is in box 4711, and has 9999 friends."},
        {"role": "user", "content": "Thanks"},
    ]
    assert agent_answers.find_needed(run) == ({"4711"}, 2)
    assert agent_answers.find_needed(run[:1]) == (set(), 0)
