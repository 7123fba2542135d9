"""Text analysis: split a text into the terms that the full-text index stores and searches."""

import re
import unicodedata
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import lru_cache, partial
from itertools import chain
from typing import Final

from brimful.core.decision import SECONDS_PER_DAY
from brimful.core.language import ENGLISH, OWN_STOPWORDS, detect_language
from brimful.embedding.multilingual import split_compound

_ENGLISH: Final = """
a about above after again against all also am an and any are aren't as at be because been before being below between
both but by can can't cannot could couldn't did didn't do does doesn't doing don't down during each few for from
further had hadn't has hasn't have haven't having he he'd he'll he's her here here's hers herself him himself his how
how's i i'd i'll i'm i've if in into is isn't it it'd it'll it's its itself just let's me more most my myself no nor
not now of off on once only or other our ours ourselves out over own same shan't she she'd she'll she's should
shouldn't so some such than that that'll that's the their theirs them themselves then there there's these they they'd
they'll they're they've this those through to too under until up us very was wasn't we we'd we'll we're we've were
weren't what what's when when's where where's which while who who's whom whose why why's will with won't would
wouldn't you you'd you'll you're you've your yours yourself yourselves
"""

_GERMAN: Final = """
aber auf aus bei bist da damit dass dein deine dem denn der des dich dir doch du durch ein eine einem einen einer
eines er es euch für habe haben hast hatte hatten ich ihm ihn ihr ihre im ist ja kann kein keine können mein meine
mich mir nach nicht noch nur ob oder ohne schon sehr sein seine sich sie sind soll über um und uns unser unter vom von
vor wann waren warum was weil welche welcher welches wem wen wenn wer werden wie wieder wir wird wo würde wurde zu zum
zur
"""

_FRENCH: Final = """
au aux avec avons avez avoir c'est ce ces cette dans de des du elle elles en est et été être eux il ils je j'ai la le
les leur leurs lui ma mais mes moi mon ne notre nous ont ou où pourquoi qu'est qu'il qu'elle quand que quel quelle
quelles quels qui quoi sa se ses sont ta te tes toi tu un une vos votre vous était
"""

_SPANISH_AND_PORTUGUESE: Final = """
al ao aos aquel aquela aquele aquello aqui aquí cómo con cuando cuándo cual cuál da de del dela dele desde dónde
durante e é ela elas ele eles ella ellas ellos em en entre es esa ese eso essa esse esta está están estão este esto
estoy eu foi fue fueron ha había hasta isso isto la las le les lo los mais más mas meu minha mis mucho muito na não
nas no nosotros nossa nosso o onde os para pela pelo pero por porque qual quando que qué quem quién se sem ser seu si
sí sobre sou soy sua su sus também también te tem tiene tu tus um uma un una unas unos você vocês y ya yo
"""

_ITALIAN_AND_DUTCH: Final = """
agli al alla alle allo anche che ci con cosa cui da dai dal dalla degli del della delle di e è erano essere gli ha
hanno ho i il in io la le lei lo loro lui ma mio ne nel nella noi non o perché più quale quando quello questa questo
se si sia siamo sono sua sugli sul sulla suo ti tra tu tua tuo un una uno aan bij dat de deze een en er geen had heb
hebben heeft het hij hoe ik je jij jullie maar meer met mijn naar niet nog om ook op te uit voor waar waarom wanneer
was wat we wie wij wordt zal ze zich zij zijn zo
"""

STOPWORDS: Final = frozenset(f"{_ENGLISH} {_GERMAN} {_FRENCH} {_SPANISH_AND_PORTUGUESE} {_ITALIAN_AND_DUTCH}".split())


MONTHS: Final = (
    "january", "february", "march", "april", "may", "june",
    "july", "august", "september", "october", "november", "december",
)  # fmt: skip

# Marks within words: of Hebrew and Arabic, and the vowels of scripts from Devanagari to Khmer.
_MARKS: Final = (
    r"\u0300-\u036f\u0591-\u05bd\u05bf-\u05c7\u0610-\u061a\u064b-\u065f\u0670\u0900-\u0963\u0971-\u0de5\u0df2-\u0df3"
    r"\u0e31-\u0e3a\u0e47-\u0e4e\u0eb1-\u0ebc\u0ec8-\u0ece\u102b-\u103e\u17b4-\u17d3\u200c\u200d"
)
_WORD: Final = re.compile(rf"[^\W_][^\W_{_MARKS}]*(?:[{_MARKS}]+[^\W_]*)*(?:'[^\W_]+)*")
_ASCII_WORDS: Final = "".join(chr(code) if chr(code).isalnum() or chr(code) == "'" else " " for code in range(128))
"""For `str.translate`: the ASCII characters that are parts of words, and a space for each other one."""
_IGNORED_MARKS: Final = re.compile(r"[\u0591-\u05bd\u05bf-\u05c7\u0610-\u061a\u0640\u064b-\u065f\u0670\u200c\u200d]")
_UNDECOMPOSED: Final = str.maketrans({"ø": "o", "ł": "l", "đ": "d", "ħ": "h", "ı": "i", "æ": "ae", "œ": "oe", "ё": "е"})
# Scripts written without spaces, or with particles attached to words, are indexed as character bigrams.
_UNSPACED_SCRIPTS: Final = re.compile(
    r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff]+"
)
_SCRIPT_STEMMERS: Final = (
    ("\u0370", "english"), ("\u0400", "greek"), ("\u0530", "russian"), ("\u0590", "armenian"), ("\u0600", ""),
    ("\u0700", "arabic"), ("\u0900", ""), ("\u0980", "hindi"), ("\u0b80", ""), ("\u0c00", "tamil"),
)  # fmt: skip
"""The stemmer for the letters below each character, in languages that have none of their own below."""
_END_OF_LATIN: Final = "\u0370"
_STEMMERS: Final = {
    "de": "german", "es": "spanish", "fr": "french", "pt": "portuguese", "it": "italian", "nl": "dutch",
    "sv": "swedish", "da": "danish", "fi": "finnish", "pl": "polish", "cs": "czech", "tr": "turkish",
    "hu": "hungarian", "ro": "romanian",
}  # fmt: skip
CACHED_CHUNKS: Final = 65_536  # in all languages; they take about 20 MB
_CACHED_DAYS: Final = 4_096
_MAX_CACHED_LENGTH: Final = 32  # characters of a chunk in the cache


def analyze(text: str, speaker: str = "", at: float | None = None) -> list[str]:
    """Return the terms of a text in order, including repeats, followed by terms for its speaker and date.

    In the Latin script, a word of another language than English also gets its English stem if that differs, so that
    questions that are too short to show their language match as well.

    >>> analyze("We're hiking to the lakes!", "Ann", 1_689_552_000.0)
    ['hike', 'lake', 'ann', '2023', 'juli', '17']
    >>> analyze("Wir wandern zu den Seen.")
    ['wand', 'wandern', 'seen']
    """
    language = detect_language(text)
    date = () if at is None else _date_terms(at // SECONDS_PER_DAY)
    return [*_terms(text, language, indexed=True), *_terms(speaker, ENGLISH), *date]


def analyze_query(text: str, language: str = "") -> list[str]:
    """Return the terms to search for, in the language of the text unless another one is given.

    Queries have no speaker or date. "What did Ann say in July?" still matches Ann's messages from July.

    >>> analyze_query("Wo wandern wir?")
    ['wand']
    """
    return list(_terms(text, language or detect_language(text)))


@lru_cache(maxsize=_CACHED_DAYS)
def _date_terms(day: float) -> tuple[str, ...]:
    date = datetime.fromtimestamp(day * SECONDS_PER_DAY, UTC)
    return (str(date.year), *_terms(MONTHS[date.month - 1], ENGLISH), str(date.day))


def _terms(text: str, language: str, *, indexed: bool = False) -> Iterable[str]:
    """Return the terms of all matches of `_WORD` in the normalized text."""
    chunks = (text.casefold().translate(_ASCII_WORDS) if text.isascii() else text).split()
    terms = CHUNK_TERMS.get((language, indexed)) or _ChunkTerms(language, indexed=indexed)
    return chain.from_iterable(map(terms.__getitem__, chunks))


class _ChunkTerms(dict[str, tuple[str, ...]]):
    """The terms of chunks between spaces, in one language. A hit takes a third of the time of one in an LRU cache."""

    def __init__(self, language: str, *, indexed: bool) -> None:
        super().__init__()
        self._language = language
        self._indexed = indexed
        CHUNK_TERMS[language, indexed] = self

    def __missing__(self, chunk: str) -> tuple[str, ...]:
        plain = _normalize(chunk)
        words = [plain] if plain.isalnum() else _WORD.findall(plain)
        find = partial(_find_word_terms, language=self._language, indexed=self._indexed)
        if words == [chunk]:
            terms = find(chunk)
        else:  # nearly every word is a chunk of its own, and may be cached
            terms = tuple(term for word in words for term in (self[word] if _normalize(word) == word else find(word)))
        if len(chunk) <= _MAX_CACHED_LENGTH:
            if sum(map(len, list(CHUNK_TERMS.values()))) >= CACHED_CHUNKS:
                for each in list(CHUNK_TERMS.values()):
                    each.clear()
            self[chunk] = terms
        return terms


CHUNK_TERMS: Final[dict[tuple[str, bool], _ChunkTerms]] = {}
"""By language, and whether the text is indexed."""


def _normalize(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold().replace("’", "'")


def _find_word_terms(word: str, language: str, *, indexed: bool = False) -> tuple[str, ...]:
    """Return the terms of one word: nothing for a stopword, otherwise its stem or its characters and their bigrams."""
    if word in STOPWORDS or word in OWN_STOPWORDS.get(language, ()):
        return ()
    if paired := _UNSPACED_SCRIPTS.search(word):
        before, run, after = word[: paired.start()], paired.group(), word[paired.end() :]
        return (*_find_word_terms(before, ENGLISH), *_bigrams(run), *_find_word_terms(after, ENGLISH))
    whole = _IGNORED_MARKS.sub("", word.removesuffix("'s").replace("'", ""))
    bare = _strip_accents(whole)
    if not bare or bare in STOPWORDS:
        return ()
    stem = _stem(bare)
    if bare[0] >= _END_OF_LATIN or language not in _STEMMERS:
        return (stem,)
    own = _strip_accents(_stem_in(_STEMMERS[language], whole))
    parts = split_compound(own) if language == "de" else ()
    return (own, stem, *parts) if indexed and own != stem else (own, *parts)


def _bigrams(run: str) -> tuple[str, ...]:
    """Return the bigrams of a run, and its ideographs, each of which may be a word.

    >>> _bigrams("北京に"), _bigrams("の")
    (('北', '北京', '京', '京に'), ('の',))
    """
    if len(run) == 1:
        return (run,)
    terms = []
    for char, following in zip(run, [*run[1:], ""], strict=True):
        terms += [char] if "\u3400" <= char <= "\u9fff" or "\uf900" <= char <= "\ufaff" else []
        terms += [char + following] if following else []
    return tuple(terms)


def _strip_accents(word: str) -> str:
    """Remove accents from Latin letters only. In other scripts a combining mark makes a different letter."""
    if word.isascii():
        return word
    plain = word.translate(_UNDECOMPOSED)
    bare = "".join(char for char in unicodedata.normalize("NFKD", plain) if not unicodedata.combining(char))
    return bare if bare.isascii() else plain


def _stem(word: str) -> str:
    """Return the stem by the script of a word: that of English for Latin letters."""
    stemmer = next((name for end, name in _SCRIPT_STEMMERS if word[0] < end), "")
    return _stem_in(stemmer, word) if stemmer else word


def _stem_in(stemmer: str, word: str) -> str:
    import Stemmer  # noqa: PLC0415 - many commands stem nothing

    # Stemmers are not thread-safe, and creating one without a cache takes only two microseconds.
    return str(Stemmer.Stemmer(stemmer, 0).stemWord(word))
