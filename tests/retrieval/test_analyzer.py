import pytest

from brimful.retrieval.analyzer import analyze


def test_words_become_stems_without_what_says_nothing():
    assert analyze("What was Melanie's favourite of the paintings?") == ["melani", "favourit", "paint"]


def test_repeats_and_their_order_are_kept():
    assert analyze("tea, coffee, tea") == ["tea", "coffe", "tea"]


def test_a_question_finds_the_month_and_the_speaker():
    said = analyze("I went there.", "Ann Lee", 1_689_552_000.0)
    assert set(analyze("What did Ann do on 17 July 2023?")) <= set(said)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("café", "CAFE"),
        ("don’t panic", "don't panic"),
        ("ﬁle", "file"),
        ("Straße", "STRASSE"),
        ("городами", "городам"),
        ("hiking", "hikes"),
    ],
)
def test_forms_of_one_word_are_one_term(one, other):
    assert analyze(one) == analyze(other)


def test_scripts_without_spaces_are_read_in_pairs():
    assert analyze("我住在北京") == ["我住", "住在", "在北", "北京"]
    assert analyze("見 Python東京3") == ["見", "python", "東京", "3"]


def test_a_mark_on_a_letter_that_is_not_latin_is_kept():
    assert analyze("йод") != analyze("иод")


def test_a_text_of_nothing_has_no_terms():
    assert analyze("") == analyze("… 👍 __ ' the") == []
