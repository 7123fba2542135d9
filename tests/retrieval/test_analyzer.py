import pytest

from brimful.retrieval.analyzer import CACHED_CHUNKS, CHUNK_TERMS, analyze, analyze_query


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


def test_scripts_without_spaces_are_read_in_pairs_and_ideographs_alone_as_well():
    assert analyze("我住在") == ["我", "我住", "住", "住在", "在"]
    assert analyze("見 Python東京3") == ["見", "python", "東", "東京", "京", "3"]
    assert analyze("ペット") == ["ペッ", "ット"]
    assert analyze("แมวดำ") == ["แม", "มว", "วด", "ดำ"] or analyze("แมวดำ") == ["แม", "มว", "วด", "ดํ", "ํา"]


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("Wo sind die Häuser?", "Das Haus ist in der Stadt."),
        ("¿Cuáles son tus canciones?", "Mi canción favorita es la última."),
        ("Quelles sont les maisons?", "La maison est dans le village."),
        ("Где мои книги?", "Я купил тебе книгу."),
        ("Wann kommen die Gaeste?", "Die Gäste kommen bald."),
        ("Где ёлка?", "Елка стоит на улице."),
        ("الكتب", "كِتَابٌ الكتب"),
        ("שלום", "שָׁלוֹם לכם"),
        ("किताब", "यह किताबें अच्छी हैं"),
        ("猫", "これは猫です"),
        ("ＣＡＦÉ", "a cafe"),
        ("smørrebrød", "smorrebrod"),
    ],
)
def test_a_question_meets_texts_in_its_language(question, text):
    assert set(analyze_query(question)) & set(analyze(text))


@pytest.mark.parametrize(
    ("phrase", "text"),
    [
        ("กุญแจสำรอง", "เพื่อนบ้านเก็บกุญแจสำรองไว้ในครัว"),
        ("ກະແຈສຳຮອງ", "ເພື່ອນບ້ານເກັບກະແຈສຳຮອງໄວ້ໃນຄົວ"),
        ("សោបម្រុង", "អ្នកជិតខាងទុកសោបម្រុងនៅក្នុងផ្ទះបាយ"),
        ("အပိုသော့", "အိမ်နီးချင်းကအပိုသော့ကိုမီးဖိုချောင်မှာထားတယ်"),
    ],
    ids=["Thai", "Lao", "Khmer", "Burmese"],
)
def test_a_phrase_is_found_inside_a_text_without_spaces(phrase, text):
    terms = analyze_query(phrase)
    assert len(terms) >= 2
    assert set(terms) <= set(analyze(text))
    assert not set(terms) & set(analyze("12:30"))


def test_a_word_alone_meets_texts_of_any_language():
    assert analyze_query("hauser") == ["hauser"]
    assert analyze("Die Häuser sind alt.") == ["haus", "hauser", "alt"]
    assert analyze_query("Wie alt sind die Häuser?") == ["alt", "haus"]


def test_words_that_say_nothing_depend_on_the_language():
    assert analyze("die hard in the war") == ["die", "hard", "war"]
    assert analyze("Die Katze war mit dem Hund im Garten.") == ["katz", "hund", "gart", "garten"]
    assert analyze("Это не моя собака") == ["собак"]


def test_vowel_signs_belong_to_their_word():
    assert analyze("हिन्दी") == ["हिन्द"]


def test_a_mark_on_a_letter_that_is_not_latin_is_kept():
    assert analyze("йод") != analyze("иод")


def test_a_text_of_nothing_has_no_terms():
    assert analyze("") == analyze("… 👍 __ ' the") == []


@pytest.mark.parametrize(
    "text",
    [
        "snake_case, rock'n'roll and the dogs' 'quoted' words; o''clock",
        "https://example.org/a-b?c=1 costs 3.50 at 10:45",
        f"a word of {'more' * 12} letters than usual",
    ],
)
def test_a_sign_of_another_script_changes_no_words_around_it(text):
    assert analyze(f"{text} →") == analyze(text) != []


def test_apostrophes_belong_to_a_word_only_inside_it():
    assert analyze("This is the 'rock'n'roll' clock''work of the dogs'") == ["rocknrol", "clock", "work", "dog"]


def test_words_between_other_signs_are_analyzed_as_if_they_were_alone():
    alone = [*analyze_query("größe", "de"), *analyze_query("TEE", "de"), *analyze_query("l’été", "de")]
    assert analyze_query("“größe”—(TEE)…l’été,", "de") == alone


def test_the_cache_of_terms_is_bounded():
    for language in ("en", "de"):
        analyze_query(" ".join(map(str, range(CACHED_CHUNKS // 2 + 100))), language)
    assert 0 < sum(map(len, CHUNK_TERMS.values())) <= CACHED_CHUNKS
