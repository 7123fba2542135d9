import pytest

from brimful.core.language import detect_language, function_words


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("The bus was late again.", "en"),
        ("Der Bus hatte wieder Verspätung.", "de"),
        ("El autobús llegó tarde otra vez.", "es"),
        ("Le bus est encore en retard.", "fr"),
        ("De bus was weer te laat voor mij.", "nl"),
        ("Bussi oli taas myöhässä ja minä en ehtinyt.", "fi"),
        ("Автобус опять опоздал.", "ru"),
        ("公交车又晚点了。", "zh"),
        ("バスがまた遅れました。", "ja"),
        ("버스가 또 늦었어요.", "ko"),
        ("बस फिर देर से आई।", "hi"),
        ("تأخرت الحافلة مرة أخرى", "ar"),
        ("Straße", "de"),
    ],
)
def test_a_text_shows_its_language(text, language):
    assert detect_language(text) == language


@pytest.mark.parametrize("text", ["", "Los Angeles, Las Vegas", "42 🎉", "Jean-Luc Picard", "Café?"])
def test_a_text_that_shows_no_language_counts_as_english(text):
    assert detect_language(text) == "en"


def test_the_script_of_most_letters_decides():
    assert detect_language("We ate 寿司 and ラーメン in the old town of Kyoto yesterday") == "en"
    assert detect_language("昨日はTeslaのお店に行きました") == "ja"


def test_one_function_word_is_not_enough_in_a_longer_text():
    assert detect_language("Heidi Klum wohnt also nicht near Paul Tom Ben") == "en"


def test_function_words_belong_to_a_language():
    assert {"der", "möchte"} <= function_words("de")
    assert "не" in function_words("ru")
    assert function_words("ko") == frozenset()
