"""First-person detection."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brimful.retrieval.people import first_person_share, is_first_person


@pytest.mark.parametrize("text", ["I’m in my garden", "MINE!", "Mein Rad ist weg.", "我住在北京", "나는 서울에 살아요"])
def test_texts_only_about_the_speaker_have_a_share_of_1(text):
    assert first_person_share(text) == 1.0


@pytest.mark.parametrize("text", ["", "?!", "How are you?", "That sounds great!", "Mimi, Ikea and Iran", "他住在北京"])
def test_statements_about_others_are_not_first_person(text):
    assert first_person_share(text) == 0.0


def test_a_word_in_passing_counts_the_less_the_longer_the_text():
    shares = [first_person_share("I " + "word " * more) for more in (1, 15, 31, 63)]
    assert shares == [1.0, 0.5, 0.25, 0.125]


def test_only_the_beginning_of_a_long_text_counts():
    assert first_person_share("I sold my boat. " * 70 + "Far away. " * 9_999) == first_person_share(
        "I sold my boat. " * 70
    )
    assert first_person_share("Far away. " * 100 + "I sold my boat.") == 0.0


@given(st.text(max_size=200))
def test_the_share_is_between_0_and_1_and_0_without_first_person(text):
    assert 0.0 <= first_person_share(text) <= 1.0
    assert (first_person_share(text) > 0) == is_first_person(text)
