import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brimful.retrieval.analyzer import analyze_query
from brimful.retrieval.people import FIRST_PERSON_MARKERS, FIRST_PERSON_WORDS
from brimful.retrieval.queries import parse_question


def test_terms_are_read_once():
    assert parse_question("tea or coffee, coffee or tea?").terms == ("tea", "coffe")


def test_names_of_speakers_are_left_out_of_the_meaning():
    question = parse_question("When did Ann's sister visit Bob?", speakers=["ann", "Bob Lee"])
    assert question.meaning == "When did sister visit ?"
    assert "ann" in question.terms


@pytest.mark.parametrize("text", ["Where is the key of the office?", "Wo liegt denn der Schlüssel von dem Büro?"])
def test_small_words_belong_to_the_meaning(text):
    assert parse_question(text).meaning == text


def test_a_long_text_means_its_content_words():
    long = "Then we went to the lake with a boat. " * 10
    assert parse_question(long).meaning == " ".join(["went lake boat"] * 10)


def test_words_with_vowel_signs_are_read_as_a_whole():
    assert parse_question("क्या तुम").terms == tuple(analyze_query("क्या तुम"))


def test_a_question_of_nothing_but_names_and_small_words_means_what_it_says():
    assert parse_question("Who is Ann?", speakers=["Ann"]).meaning == "Who is Ann?"


@pytest.mark.parametrize("text", ["What did ann say?", "ANN’s plan", "Annes und Ann"])
def test_a_named_speaker_is_found_in_the_question(text):
    assert parse_question(text).is_about("Ann")


def test_a_part_of_a_name_is_enough():
    assert parse_question("Where does Ann live?").is_about("Ann Lee")


@pytest.mark.parametrize("text", ["Where does Deborah live", "Where does Debroah live", "Where does her sister live?"])
def test_a_question_that_names_a_speaker_or_asks_about_her_is_about_people(text):
    assert parse_question(text, speakers=["Deborah"]).about_people
    assert not parse_question("Where is the key?", speakers=["Deborah"]).about_people


def test_a_role_is_no_name():
    question = parse_question("Which user logged in?", speakers=["user", "assistant"])
    assert not question.is_about("user")
    assert not question.is_about("User")
    assert question.meaning == "Which user logged in?"


@pytest.mark.parametrize(
    "text", ["What is my budget?", "I’ve lost it", "Wo ist mein Rad?", "где мой ключ", "我住在哪里"]
)
def test_the_first_person_is_the_asker(text):
    assert parse_question(text, asker="user").is_about("user")
    assert not parse_question(text, asker="user").is_about("assistant")


def test_nobody_asks_nobody():
    assert not parse_question("What is my name?").is_about("")
    assert not parse_question("Is it true?", asker="Ann").is_about("Ann")


FIRST_PERSON = re.compile(
    rf"\b(?:{'|'.join(FIRST_PERSON_WORDS)})\b|{'|'.join(FIRST_PERSON_MARKERS)}", re.IGNORECASE
)  # the slow way
SIGNS = st.text(alphabet="abimeyIM's_-. \n019?ÄßKﬁ’日", max_size=30)


@given(SIGNS)
def test_word_by_word_is_read_what_the_whole_says(text):
    assert parse_question(text).terms == tuple(dict.fromkeys(analyze_query(text)))
    assert parse_question(text, asker="x").about_asker == (FIRST_PERSON.search(text) is not None)


def test_small_talk_searches_for_nothing():
    assert parse_question("Good morning, Ann!", speakers=["Ann"]).terms == ()
    assert parse_question("Good morning, Ann!").terms != ()
    assert parse_question("Is the morning good for Ann?").terms != ()
