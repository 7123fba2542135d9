"""The task of a context: the message that the model works on, and whether it has begun."""

from brimful.core.content import Text, ToolCall, ToolResult
from brimful.core.task import Task, find_task
from brimful.packagers import memory, message
from brimful.testing import WordCounter

COUNTER = WordCounter()


def talk(*turns):
    """Package turns in order: `user`, `assistant` and `system` say their own name, `call` and `result` are of tools."""
    packages = []
    for at, turn in enumerate(turns):
        role = {"call": "assistant", "result": "tool"}.get(turn, turn)
        content = {
            "call": (Text(text="Let me see."), ToolCall(id=f"c{at}", name="look")),
            "result": (ToolResult(id=f"c{at - 1}", content="a teapot"),),
        }.get(turn, f"{turn} {at}")
        packages.append(message(content, counter=COUNTER, id=f"t{at}", role=role, timestamp=at))
    return packages


def test_first_request_states_the_task():
    assert find_task(talk("system", "user")) == Task(question=1, opening=1, goes_on=False)


def test_next_message_after_an_answer_is_another_task():
    assert find_task(talk("user", "assistant", "user")) == Task(question=2, opening=0, goes_on=False)


def test_task_goes_on_while_the_model_calls_tools():
    found = find_task(talk("user", "assistant", "user", "call", "result", "call", "result"))
    assert found == Task(question=2, opening=0, goes_on=True, calls=(5,))


def test_calls_of_one_answer_come_together():
    assert find_task(talk("user", "call", "call", "result", "result")).calls == (1, 2)


def test_user_messages_while_tools_run_belong_to_the_task():
    found = find_task(talk("user", "call", "result", "user"))
    assert found == Task(question=0, opening=0, goes_on=True, calls=(1,))


def test_last_of_several_messages_is_the_task():
    assert find_task(talk("user", "user")) == Task(question=1, opening=0, goes_on=False)


def test_reminders_that_a_program_adds_state_no_task():
    reminder = "<system-reminder>The date has changed.</system-reminder>"
    for content in (reminder, (Text(text=reminder), Text(text="\n"))):
        late = message(content, counter=COUNTER, id="date", timestamp=9)
        assert find_task([*talk("user"), late]) == Task(question=0, opening=0)
        assert find_task([late]) == Task()
    named = message((Text(text=f"{reminder} And now?"),), counter=COUNTER, id="now", timestamp=9)
    assert find_task([*talk("user"), named]) == Task(question=1, opening=0)


def test_instructions_within_the_conversation_are_no_turns():
    assert find_task(talk("user", "call", "result", "system")).calls == (1,)


def test_an_answer_that_goes_on_made_no_calls():
    assert find_task(talk("user", "call", "result", "assistant")) == Task(question=0, opening=0, goes_on=True)


def test_task_that_is_not_among_the_packages():
    assert find_task(talk("call", "result")) == Task(goes_on=True, calls=(0,))


def test_packages_may_come_in_any_order():
    assert find_task(talk("user", "call", "result")[::-1]) == Task(question=2, opening=2, goes_on=True, calls=(1,))


def test_current_message_is_the_last_one_whatever_its_time():
    early = message("And now?", counter=COUNTER, id="now", current=True, timestamp=-5)
    assert find_task([early, *talk("user", "assistant")]) == Task(question=0, opening=1)


def test_only_turns_count():
    assert find_task([memory("Ada drinks tea.", counter=COUNTER, id="tea")]) == Task()
