"""Which language a text is in: by its script and, for Latin and Cyrillic letters, by its function words."""

import re
from collections import Counter
from collections.abc import Collection
from functools import lru_cache
from itertools import chain
from typing import Final

_SAMPLE_CHARS: Final = 400  # of a text; its language shows early
_SHORT_WORDS: Final = 6  # in a text of at most so many words, one function word is enough
_MIN_HITS: Final = 2  # function words, in a longer text
_WORD: Final = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)*")
_ASCII_LETTERS: Final = "".join(chr(code) if chr(code).isalpha() or chr(code) == "'" else " " for code in range(128))
"""For `str.translate`: the ASCII characters that are parts of words, and a space for each other one."""

_PROFILES: Final = {
    "en": """
        bye day get go going good got great hello hey hi know let let's like look make new nice oh ok okay one
        really said say see still sure take thank thanks think time want way well yeah yes
        a about after all also am an and any are as at be because been before but by can can't could did didn't do
        does doesn't don't for from had has have he her here him his how i i'd i'll i'm i've if in into is isn't
        it it's its just me more my no not now of off on or our out over she so some than that that's the their
        them then there these they this those to too up us very was wasn't we we're were what when where which
        while who whose why will with would you your
    """,
    "de": """
        die war aber am an auf aus bei beim bin bis bist da das dass dein deine dem den denn der des dich dir doch
        dort du durch ein eine einem einen einer eines er es etwas euch für gegen gestern habe haben habt hast hat
        hatte hatten heute hier ich ihm ihn ihnen ihr ihre ihrem ihren im immer ins ist ja jede jeden jetzt kann
        kein keine keinen können man mehr mein meine meinem meinen meiner mich mir mit morgen muss nach nicht
        nichts niemand noch nur ob oder ohne schon sehr sein seine sich sie sind soll um und uns unser unsere
        unter viele vom von vor wann warum was weg wegen weil welche welchem welchen welcher welches wem wen
        wenn wer werden wie wieder will wir wird wo wurde wurden würde zu zum zur zwei zwischen über
    """,
    "es": """
        ya ha a al algo antes aquel aquí ayer año años bien cada como con cuando cuál cuándo cuánto cómo de del desde
        después donde dos dónde el ella ellos en era ese eso esta estaba este esto estoy está están fue había
        hace han hasta hay he hemos hoy la las le les lo los mañana me mi mientras mis mucho muchísimo muy más
        nada no nos nosotros nuestra nuestro nuestros nunca para pero por porque puede puedo que quiero quisiera
        quién qué se según ser sido siempre sin sobre son su sus sí también tan te tengo tiene toda todo todos tu
        un una unas unos y yo él
""",
    "fr": """
        a au aux avec avez avons bien c'est ce ces cette comme comment dans de des dit du elle elles en est et
        fait hier il ils j'ai je la le les leur leurs lui ma mais mes moi mon n'est ne nous on ont où pas plus
        pour pourquoi qu'est qu'il quand que quel quelle qui quoi sa se ses son sont sur ta tes toi ton tout très
        tu un une vos votre vous était été être
    """,
    "pt": """
        a ao aos aquele aqui com como da das de dela dele do dos ela elas ele eles era essa esse estava este
        está estão eu foi hoje há isso isto já mais mas meu meus minha muito na nas no nos nossa nosso não nós o
        onde ontem os para pela pelo por porque qual quando que quem se sem sempre ser seu seus sou sua são também
        tem tenho um uma você vocês é
""",
    "it": """
        a agli ai al alla alle anche che chi ci con cosa così cui dai dal dalla degli dei del della delle di
        dove era erano essere gli hanno i ieri il io la le lei lo loro ma mi mia mio molto nel nella noi non
        oggi per perché più quale quando quanto quello questa questo se sempre si sia siamo sono sua sul sulla suo
        ti tra tua tuo un una uno è
""",
    "nl": """
        aan al als bij dat de deze die dit een en er geen haar heb hebben heeft hem het hij hoe hun ik is je jij
        jullie kan maar meer met mij mijn naar niet nog nu of om onze ook op over te toch uit van veel voor waar
        waarom wanneer wat we welke wie wij wordt zal ze zich zij zijn zo
    """,
    "sv": """
        att av de den det detta du en ett från för han har hon hur i inte jag kan med men mig min mitt mycket nu
        när och om på sig sin ska som till under upp vad var varför vem vi vill är
    """,
    "da": """
        af at de den der det du en er et for fra han har hun hvad hvem hvor hvorfor hvornår i ikke jeg kan med men
        mig min mit nu når og om på sig sin skal som til ud var vi vil
    """,
    "fi": """
        ei en että he hän ja joka kuin kuka kun me miksi milloin minun minä missä mitä mutta myös niin nyt ole
        olen oli on ovat se sinä te vain
    """,
    "pl": """
        ale był była co czy dla dlaczego do gdzie i jak jego jej jest jestem już kiedy kto ma mam moja mój na nie
        od po przez się są tak to tylko w z za że
    """,
    "cs": """
        a ale byl byla co do jak je jeho její jen jsem jsou kde kdo kdy který moje má mám můj na není od po pro
        proč s se tak už v z za že
    """,
    "tr": """
        ama ben benim bir bu da daha de değil gibi ile için kadar kim mi mu mı nasıl ne neden nerede o olan sen
        var ve yok çok
    """,
    "hu": """
        a az azt csak de egy ez ha hogy hol is ki lesz meg mi mikor mint miért már nekem nem vagy van volt és
    """,
    "ro": """
        am are ce cine cu când că dar de din este la mai nu o pe pentru sunt să un unde în și
    """,
}
_FIRST_LETTER: Final = re.compile(r"^\W*(?!(?:Las?|Les?|Los|El|Il) [A-Z])\w")  # except in names such as "Los Angeles"
_LETTERS: Final = {
    "de": "äöüß", "es": "ñ¿¡", "pt": "ãõ", "sv": "å", "da": "æø", "pl": "ąęłśźż", "cs": "ěřů", "tr": "ğış", "hu": "őű",
    "ro": "șț",
}  # fmt: skip
"""Letters and signs that count as a function word of a language."""
_ANY_LETTER: Final = re.compile(f"[{''.join(_LETTERS.values())}]")
_FUNCTION_WORDS: Final = {language: frozenset(words.split()) for language, words in _PROFILES.items()}
_LANGUAGES: Final = {
    word: tuple(language for language, words in _FUNCTION_WORDS.items() if word in words)
    for word in frozenset().union(*_FUNCTION_WORDS.values())
}
_RUSSIAN: Final = """
а без бы был была было были быть в вам вас весь во вот все всех вы где да для до его ее если есть еще же за и из или им
их к как какая какие каким какого какой какую когда кто ли мне меня мной мои мой моя мы на нам нас наш наша не него нее
нет ни них но ну нужно надо о об он она они от по под при с со так то того тоже только ты у уже что чтобы это этот я
"""
_GERMAN_ONLY: Final = """
am an bekommt bekam bekommen darf das den des die dürfen etwas geht gibt hat hätte ins jemand könnte machen macht mag
man mit möchte möchten muss müssen niemand soll sollen sollte sollten viel war wäre will wollen wollte wollten wurden
"""
_SPANISH_ONLY: Final = """
algo alguien debe debo estamos estoy ha hace hacemos hacen hacer han hay he hemos hizo me mi nada nadie nos puede pueden
puedo son tenemos tengo tienen
"""
_CYRILLIC_PROFILES: Final = {
    "ru": _RUSSIAN,
    "uk": """
        а або але без був була було були в вам вас ви від він вона вони все всі де для до дуже є же з за зі й його її їх
        і із коли кого мене мені ми мій моя мої на над нам нас наш не ні нема о по про та так там те теж ти то тому
        тільки у хто це цей ця чи чого чому що щоб я як яка який які якого якої якому якій
    """,
    "be": """
        а ад але аб без бо бы быў была было былі вам вас вельмі вы гэта гэтая гэты да дзе для до ён з за і каб калі ці
        мае мая мне мой мы на нас наш не няма па пра так там то ты ў у хто чаму што я як якая які якія яна яны яго яе іх
    """,
    "bg": """
        а ако аз без бе беше бях в вас ви все всички във го да дали до е за защо и из или им има имам й как каква какво
        като кога когато кого коя която които кой който къде ли ме ми много може мога моя му на над най нас не него ни
        ние но няма о от още по под при с са само се си сме със съм така там те ти то това този той трябва тук тя у че
        ще я
    """,
    "sr": """
        а али ако без би био била биле били било вам вас већ ви где да до за зашто и из или има имам ја је јер јој кад
        када како као ко кога која које који коју ли ме мене ми мој моја моје на над нам нас наш не него није нисам но о
        од ова ово овај он она они по при са сам само сваки све се си смо су та тај те ти то у увек шта што ће ћу
    """,
    "mk": """
        а ако али без беше би во вас веќе ви го да дали до е за зошто и из или им има имам јас каде како кога кого кое
        кои која кој ли ме ми мојата мојот многу може на над нас не него нема ние но од ова оваа овој па по при со сум
        сме само се си сите таа така таму тие ти тоа тој треба уште што ќе ја
    """,
}
_CYRILLIC_WORDS: Final = {language: frozenset(words.split()) for language, words in _CYRILLIC_PROFILES.items()}
_CYRILLIC_LETTERS: Final = {
    "ru": "ёыэ", "uk": "ґєії", "be": "ёіўыэ", "sr": "ђјљњћџ", "mk": "ѓјќљњѕџ", "mn": "өүёыэ", "kk": "әғқңөұүһіыэ",
}  # fmt: skip
"""Letters that not every language has. Each of them counts as a function word."""
_BULGARIAN_VOWEL: Final = re.compile(r"ъ(?![еёюя])")  # elsewhere a sign before these letters, in Bulgarian a vowel
# Stopwords only in texts of their language: elsewhere, they may be words such as "die" and "war".
OWN_STOPWORDS: Final = {
    "de": frozenset(_GERMAN_ONLY.split()),
    "es": frozenset(_SPANISH_ONLY.split()),
    **_CYRILLIC_WORDS,
}
CYRILLIC: Final = frozenset({*_CYRILLIC_WORDS, *_CYRILLIC_LETTERS})
"""The languages with Cyrillic letters that are told apart."""


def function_words(language: str) -> frozenset[str]:
    """Return the words of a language that say little alone."""
    return _FUNCTION_WORDS.get(language, frozenset()) | OWN_STOPWORDS.get(language, frozenset())


ENGLISH: Final = "en"
_LATIN: Final = "Latin"
_CYRILLIC: Final = "Cyrillic"
_SCRIPTS: Final = (
    (r"[a-z\u00c0-\u024f\u1e00-\u1eff]", _LATIN, 1.0),
    (r"[\u3040-\u30ff]", "ja", 2.0),
    (r"[\u3400-\u9fff\uf900-\ufaff]", "zh", 2.0),  # with kana beside them, Japanese
    (r"[\uac00-\ud7af]", "ko", 2.0),
    (r"[\u0400-\u052f]", _CYRILLIC, 1.0),
    (r"[\u0370-\u03ff]", "el", 1.0),
    (r"[\u0530-\u058f]", "hy", 1.0),
    (r"[\u0590-\u05ff]", "he", 1.0),
    (r"[\u0600-\u06ff]", "ar", 1.0),
    (r"[\u0900-\u097f]", "hi", 1.0),
    (r"[\u0980-\u09ff]", "bn", 1.0),
    (r"[\u0a00-\u0a7f]", "pa", 1.0),
    (r"[\u0a80-\u0aff]", "gu", 1.0),
    (r"[\u0b00-\u0b7f]", "or", 1.0),
    (r"[\u0b80-\u0bff]", "ta", 1.0),
    (r"[\u0c00-\u0c7f]", "te", 1.0),
    (r"[\u0c80-\u0cff]", "kn", 1.0),
    (r"[\u0d00-\u0d7f]", "ml", 1.0),
    (r"[\u0d80-\u0dff]", "si", 1.0),
    (r"[\u0e00-\u0e7f]", "th", 1.0),
    (r"[\u0e80-\u0eff]", "lo", 1.0),
    (r"[\u0f00-\u0fff]", "bo", 1.0),
    (r"[\u1000-\u109f]", "my", 1.0),
    (r"[\u10a0-\u10ff]", "ka", 1.0),
    (r"[\u1200-\u137f]", "am", 1.0),
    (r"[\u1780-\u17ff]", "km", 1.0),
)  # fmt: skip
"""The letters of each script, the language of a text that is mostly in it, and how much a letter counts."""
_OTHER_SCRIPT: Final = re.compile("|".join(pattern for pattern, name, _ in _SCRIPTS if name != _LATIN))
# Thai, kana, Chinese characters and Hangul may follow a name without a space.
_NAME: Final = r"(?:(?![\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff])\w)++"
_CACHED_PATTERNS: Final = 256
_CACHED_LETTERS: Final = 8_192
_CACHED_CHUNKS: Final = 16_384
_MAX_CACHED_LENGTH: Final = 32  # characters of a chunk in the cache


def remove_mentions(text: str, *, names: Collection[str] = (), keep: Collection[str] = ()) -> str:
    """Return a text without mentions such as `@helper-ai`, `@"Ada Lovelace"`, or `@` and one of these `names`.

    Of names in `keep`, in lower case, only the `@` is removed.

    >>> remove_mentions("@helper-ai @ada lovelace How is me@ada.com? Ask @Bo.", names=["Ada Lovelace"], keep=["bo"])
    'How is me@ada.com? Ask Bo.'
    """
    if "@" not in text:
        return text
    spaced = tuple(sorted({name.strip() for name in names if " " in name.strip()}, key=len, reverse=True))
    return _mentions(spaced).sub(lambda mention: mention[0][1:] if mention["name"].casefold() in keep else "", text)


@lru_cache(maxsize=_CACHED_PATTERNS)
def _mentions(names: tuple[str, ...]) -> re.Pattern[str]:
    """Return the pattern of mentions, of these names with spaces too. There is none in `ada@example.com`."""
    known = (rf"(?i:{'[ _-]'.join(map(re.escape, name.split()))})(?!\w)" for name in names)
    name = "|".join([*known, rf"{_NAME}(?:[-.]{_NAME})*+"])
    return re.compile(
        rf"""(?<![A-Za-z0-9@./+%-])@(?P<quote>["“])?(?P<name>(?(quote)[^"”\n]+|(?:{name})))(?(quote)["”]) ?"""
    )


def detect_language(text: str) -> str:
    """Return the ISO 639-1 code of the language of a text. A text that shows no other language counts as English.

    Mentions are ignored: the "ai" of "@helper-ai" is not Italian.
    Among languages of one script other than Latin and Cyrillic, it returns the most common one.

    >>> [detect_language(text) for text in ("Wo ist der Bahnhof?", "¿Dónde está?", "駅はどこですか", "Berlin", "")]
    ['de', 'es', 'ja', 'en', 'en']
    >>> [detect_language(text) for text in ("Где вокзал?", "Де вокзал?", "Къде е гарата?")]
    ['ru', 'uk', 'bg']
    """
    sample = remove_mentions(text[:_SAMPLE_CHARS])
    if first := _FIRST_LETTER.match(sample):
        sample = first.group().lower() + sample[first.end() :]
    lower = sample.lower()
    if sample.isascii() or not _OTHER_SCRIPT.search(lower):
        return _latin_language(sample)
    letters = {name: 0.0 for _, name, _ in _SCRIPTS}
    for char, count in Counter(lower).items():
        name, weight = _find_script(char)
        letters[name] += weight * count
    if letters["ja"]:
        letters["ja"] += letters.pop("zh")
    script = max(letters, key=letters.__getitem__)
    if script == _CYRILLIC:
        return _cyrillic_language(lower)
    return _latin_language(sample) if script == _LATIN else script


@lru_cache(maxsize=_CACHED_LETTERS)
def _find_script(char: str) -> tuple[str, float]:
    """Return the script of a character, and how much it counts: nothing if it is no letter."""
    return next(((name, weight) for pattern, name, weight in _SCRIPTS if re.match(pattern, char)), (_LATIN, 0.0))


def _cyrillic_language(text: str) -> str:
    words = _WORD.findall(text)
    hits = Counter(language for language, known in _CYRILLIC_WORDS.items() for word in words if word in known)
    for language, letters in _CYRILLIC_LETTERS.items():
        hits[language] += len(set(letters).intersection(text))
    hits["bg"] += bool(_BULGARIAN_VOWEL.search(text))
    return max(hits, key=lambda language: (hits[language], language == "ru"))


def _latin_language(text: str) -> str:
    # Capitalized words may be parts of names, as in "Los Angeles".
    plain = text.replace("’", "'")
    chunks = (plain.translate(_ASCII_LETTERS) if plain.isascii() else plain).split()
    found = list(chain.from_iterable(map(_CHUNK_LANGUAGES.__getitem__, chunks)))
    if found.count(ENGLISH) > len(found) / 2:  # no other language can have more, even with a letter of its own
        return ENGLISH
    hits = Counter(found)
    if not text.isascii() and _ANY_LETTER.search(text):
        chars = set(text)
        hits.update(language for language, letters in _LETTERS.items() if not chars.isdisjoint(letters))
    best = max(hits, key=hits.__getitem__, default=ENGLISH)
    is_shown = hits[best] >= _MIN_HITS or len(_WORD.findall(plain)) <= _SHORT_WORDS
    return best if hits[best] > hits[ENGLISH] and is_shown else ENGLISH


class ChunkLanguages(dict[str, tuple[str, ...]]):
    """The languages of the function words in chunks between spaces. Most texts need no regular expression then."""

    def __init__(self, max_chunks: int = _CACHED_CHUNKS) -> None:
        """Start empty, and again when there are this many chunks."""
        super().__init__()
        self._max_chunks = max_chunks

    def __missing__(self, chunk: str) -> tuple[str, ...]:
        """Find the languages of a chunk."""
        words = [chunk] if chunk.isalpha() else _WORD.findall(chunk)
        languages = tuple(chain.from_iterable(_LANGUAGES.get(word, ()) for word in words))
        if len(chunk) <= _MAX_CACHED_LENGTH:
            if len(self) >= self._max_chunks:
                self.clear()
            self[chunk] = languages
        return languages


_CHUNK_LANGUAGES: Final = ChunkLanguages()
