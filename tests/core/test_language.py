import pytest

from brimful.core.language import ChunkLanguages, detect_language, function_words, remove_mentions


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
        ("ລົດເມມາຊ້າອີກແລ້ວ", "lo"),
        ("ဘတ်စ်ကား နောက်ကျပြန်ပြီ", "my"),
        ("ឡានក្រុងមកយឺតទៀតហើយ", "km"),
        ("รถเมล์มาสายอีกแล้ว", "th"),
        ("ബസ് വീണ്ടും വൈകി", "ml"),
        ("አውቶቡሱ እንደገና ዘገየ", "am"),
    ],
)
def test_a_text_shows_its_language(text, language):
    assert detect_language(text) == language


@pytest.mark.parametrize(
    ("language", "texts"),
    [
        (
            "ru",
            [
                "Кто не ест мясо?",
                "Моя сестра работает врачом.",
                "Где ключи от дачи?",
                "Привет!",
                "Объявление",
                "Да, но не он.",
            ],
        ),
        (
            "uk",
            [
                "Хто не їсть м'ясо?",
                "Моя сестра працює лікарем.",
                "Де ключі від дачі?",
                "Я не знаю, де ти.",
                "Коли день народження Олени?",
            ],
        ),
        (
            "be",
            ["Мая сястра працуе ўрачом.", "Дзе ключы ад дачы?", "Калі дзень нараджэння Алены?"],
        ),
        (
            "bg",
            [
                "Кой не яде месо?",
                "Сестра ми работи като лекар.",
                "Къде са ключовете от вилата?",
                "Чакам те в събота.",
            ],
        ),
        (
            "sr",
            ["Ко не једе месо?", "Моја сестра ради као лекар.", "Где су кључеви од викендице?", "Када је рођендан?"],
        ),
        (
            "mk",
            [
                "Кој не јаде месо?",
                "Каде се клучевите од викендичката?",
            ],
        ),
        ("kk", ["Әпкем дәрігер болып жұмыс істейді."]),
        ("mn", ["Хэн мах иддэггүй вэ?", "Манай эгч эмчээр ажилладаг, өчигдөр ирсэн."]),
    ],
)
def test_languages_with_cyrillic_letters_are_told_apart(language, texts):
    assert [detect_language(text) for text in texts] == [language] * len(texts)


@pytest.mark.parametrize("text", ["Хто не есць мяса?", "Сестра ми работи како лекар.", "Кога е роденденот?"])
def test_a_short_text_of_a_related_language_is_not_taken_for_russian(text):
    assert detect_language(text) != "ru"


@pytest.mark.parametrize("text", ["", "Los Angeles, Las Vegas", "42 🎉", "Jean-Luc Picard", "Café?"])
def test_a_text_that_shows_no_language_counts_as_english(text):
    assert detect_language(text) == "en"


def test_the_script_of_most_letters_decides():
    assert detect_language("We ate 寿司 and ラーメン in the old town of Kyoto yesterday") == "en"
    assert detect_language("昨日はTeslaのお店に行きました") == "ja"


@pytest.mark.parametrize(("text", "language"), [("Tesla のお店", "ja"), ("Tesla 的商店", "zh"), ("Tesla 매장에", "ko")])
def test_a_character_that_stands_for_a_syllable_or_a_word_counts_twice(text, language):
    assert detect_language(text) == language


def test_english_wins_ties():
    assert detect_language("die in Rome") == "en"


@pytest.mark.parametrize("text", ["x" * 5_000_000, "\ud800" * 5_000_000, "The bus. " + "der die das " * 400_000])
def test_only_the_beginning_of_a_long_text_is_read(text):
    assert detect_language(text) == detect_language(text[:400])


def test_one_function_word_is_not_enough_in_a_longer_text():
    assert detect_language("Heidi Klum wohnt also nicht near Paul Tom Ben") == "en"


def test_function_words_belong_to_a_language():
    assert {"der", "möchte"} <= function_words("de")
    assert "не" in function_words("ru")
    assert function_words("ko") == frozenset()


@pytest.mark.parametrize(
    "text", ["Warum? 'Wo' ist_der Bahnhof", "I don't know, it's 'new'", "c'est l'été", "-- 17:45 --"]
)
def test_signs_around_words_do_not_hide_the_language(text):
    assert detect_language(text) == detect_language(text.replace("'", "’") + " →")


def test_a_full_cache_of_chunks_starts_again():
    chunks = ChunkLanguages(max_chunks=3)
    assert [chunks[chunk] for chunk in ("der", "xyz", "the", "und")] == [("de", "da"), (), ("en",), ("de",)]
    assert list(chunks) == ["und"]


def test_a_mention_shows_no_language():
    assert detect_language("@helper-ai status") == "en"
    assert detect_language("ai status") == "it"
    assert detect_language("@die-bahn Where is it?") == "en"
    assert detect_language("@helper-ai wo ist der Bahnhof?") == "de"


def test_a_name_ends_where_a_script_without_spaces_begins():
    assert remove_mentions("@helperさん、元気？ @助手你好") == "さん、元気？ @助手你好"


def test_the_longest_name_is_the_one_that_is_mentioned():
    names = ["Ada Byron", "Ada Byron King"]
    assert remove_mentions("@Ada Byron King hello", names=names) == "hello"
    assert remove_mentions("@Ada Byron hello", names=names[::-1]) == "hello"


def test_addresses_and_lonely_signs_are_no_mentions():
    text = 'me@ai.it, https://x.example/@ai, 5 @ 3, @"ai'
    assert remove_mentions(text) == text
