"""The table of other languages: texts are near their translations, and words are found by stems and parts."""

import numpy as np
import pytest

from brimful.embedding import StaticEmbedder, embed_static
from brimful.embedding.multilingual import LANGUAGES, MultilingualTable, load_table, load_words, split_compound

ENGLISH = ["The dentist is closed on Monday.", "Our cat sleeps on the bed.", "The train to the city is late."]
TRANSLATIONS = {
    "de": ["Der Zahnarzt hat am Montag geschlossen.", "Unsere Katze schläft auf dem Bett.", "Der Zug ist zu spät."],
    "es": ["El dentista cierra el lunes.", "Nuestro gato duerme en la cama.", "El tren a la ciudad llega tarde."],
    "ru": ["Стоматолог в понедельник закрыт.", "Наша кошка спит на кровати.", "Поезд в город опаздывает."],
    "zh": ["牙医星期一不上班。", "我们的猫睡在床上。", "去城里的火车晚点了。"],
    "ja": ["歯医者は月曜日が休みです。", "うちの猫はベッドで寝ています。", "町へ行く電車が遅れています。"],
}


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_text_is_nearest_to_its_translation(language):
    similarity = embed_static(TRANSLATIONS[language]) @ embed_static(ENGLISH).T
    assert similarity.argmax(1).tolist() == [0, 1, 2]


def test_rows_are_of_length_one_and_the_same_in_any_batch():
    texts = [text for group in TRANSLATIONS.values() for text in group]
    rows = embed_static(texts)
    assert np.allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-5)
    assert np.array_equal(rows[3], embed_static([texts[3]])[0])


def test_a_text_without_known_words_is_read_as_english_pieces():
    assert "de" in StaticEmbedder.languages
    assert embed_static(["qxzv ist"]).any()


def test_a_word_that_is_too_long_is_left_out():
    assert load_words()["de"].units(f"Katze {'ä' * 101} {'ä' * 100}") == ["katz", "a" * 100]


def test_function_words_are_left_out_unless_they_are_wanted():
    words = load_words()["de"]
    assert words.units("Die Katze und der Hund") == ["katz", "hund"]
    assert words.units("die Katze", functional=True) == ["die", "katz"]


def test_unknown_words_are_found_by_their_parts():
    words = load_words()["de"]
    number = words.rows
    assert words.find("katz") == (number["katz"],)
    assert words.find("katzbett") == (number["katz"], number["bett"])
    assert words.find("qxzvwqxzv") == words.find("katzqxzv") == ()
    assert words.find("katzqxz") == (number["katz"],)
    assert load_words()["zh"].find("猫§") == (load_words()["zh"].rows["猫"],)


@pytest.mark.parametrize(
    ("word", "parts"),
    [
        ("arbeitszimm", ("arbeit", "zimm")),
        ("lebensmittelgeschaft", ("lebensmittel", "geschaft")),
        ("arzt", ()),
        ("qxzvwqxzv", ()),
        ("arbeitqzimm", ()),  # "q" links no parts
        ("arbeitstag", ()),  # parts have at least four letters
        ("insarbeit", ()),
    ],
)
def test_german_compounds_are_split_into_known_parts(word, parts):
    assert split_compound(word) == parts


def test_rows_are_unpacked_by_two_bits():
    table = MultilingualTable(np.array([[0b11100100], [0]], np.uint8), np.array([1.0, 2.0], np.float16))
    assert table.rows(np.array([0, 1])) == pytest.approx(
        np.array([[-1.51, -0.4528, 0.4528, 1.51], [-3.02] * 4], np.float32), abs=1e-3
    )
    assert load_table().rows(np.array([0])).shape == (1, 256)
