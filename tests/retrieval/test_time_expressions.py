import pytest
from hypothesis import given
from hypothesis import strategies as st

from brimful.retrieval.time_expressions import TIME_QUESTION, is_time_question, mentions_time


@pytest.mark.parametrize(
    "text",
    [
        "When did she move?",
        "Ann, when was that?",
        "What year was it?",
        "How many days passed between the two?",
        "Wann war das?",
        "¿Te acuerdas, cuándo fue?",
        "你什么时候去的?",
    ],
)
def test_a_question_asks_for_a_time(text):
    assert is_time_question(text)


@pytest.mark.parametrize("text", ["What happens when it rains?", "Where is it?", "", "whenever you like"])
def test_a_question_asks_for_no_time(text):
    assert not is_time_question(text)


@pytest.mark.parametrize(
    "text",
    [
        "two days ago",
        "on 3.11. at noon",
        "at 9 pm",
        "In 2021.",
        "since March",
        "letzte Woche",
        "我们昨天去了",
        "Вчера",
        "C’est aujourd’hui.",
        "SUNDAY!",
        "3月に",
    ],
)
def test_a_time_is_named(text):
    assert mentions_time(text)


@pytest.mark.parametrize("text", ["It may rain.", "", "Room 12345", "lastly", "at_last_", "3 pieces", "月に"])
def test_no_time_is_named(text):
    assert not mentions_time(text)


WORDS = """When when wann quand cuando quando wanneer what which how long many days weeks date day month year time did
is whenever Daytime , . ? : x"""
ASKING = st.sampled_from(WORDS.split())


@given(st.lists(ASKING, max_size=8), st.sampled_from([" ", "\n", "  "]))
def test_the_short_way_to_no_is_right(words, between):
    text = between.join(words)
    assert is_time_question(text) == (TIME_QUESTION.search(text) is not None)  # the slow way
