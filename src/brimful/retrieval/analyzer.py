"""Text analysis: split a text into the terms that the full-text index stores and searches."""

import re
import unicodedata
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final

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

_WORD: Final = re.compile(r"[^\W_]+(?:'[^\W_]+)*")
# Scripts written without spaces, or with particles attached to words, are indexed as character bigrams.
_UNSPACED_SCRIPTS: Final = re.compile(
    r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff]+"
)
_STEMMERS: Final = (("\u0370", "english"), ("\u0400", "greek"), ("\u0530", "russian"), ("\u0590", "armenian"))
_CACHED_WORDS: Final = 65_536  # at most; they take about 20 MB
_MAX_CACHED_LENGTH: Final = 32  # characters of a word in the cache


def analyze(text: str, speaker: str = "", at: float | None = None) -> list[str]:
    """Return the terms of a text in order, including repeats, followed by terms for its speaker and date.

    Queries are analyzed without a speaker or date. "What did Ann say in July?" still matches Ann's messages from July.

    >>> analyze("We're hiking to the lakes!", "Ann", 1_689_552_000.0)
    ['hike', 'lake', 'ann', '2023', 'juli', '17']
    """
    return [*_terms(text), *_terms(speaker), *_date_terms(at)]


def _terms(text: str) -> list[str]:
    plain = unicodedata.normalize("NFKC", text).casefold().replace("’", "'")
    return [term for word in _WORD.findall(plain) for term in _word_terms(word)]


def _date_terms(at: float | None) -> list[str]:
    if at is None:
        return []
    day = datetime.fromtimestamp(at, UTC)
    return [str(day.year), *_word_terms(MONTHS[day.month - 1]), str(day.day)]


def _word_terms(word: str) -> tuple[str, ...]:
    """Return the terms of one word: nothing for a stopword, otherwise its stem or its character bigrams."""
    return (_cached_word_terms if len(word) <= _MAX_CACHED_LENGTH else _find_word_terms)(word)


def _find_word_terms(word: str) -> tuple[str, ...]:
    if word in STOPWORDS:
        return ()
    if paired := _UNSPACED_SCRIPTS.search(word):
        before, run, after = word[: paired.start()], paired.group(), word[paired.end() :]
        return (*_word_terms(before), *_bigrams(run), *_word_terms(after))
    bare = _strip_accents(word.removesuffix("'s").replace("'", ""))
    return (_stem(bare),) if bare and bare not in STOPWORDS else ()


_cached_word_terms: Final = lru_cache(maxsize=_CACHED_WORDS)(_find_word_terms)


def _bigrams(run: str) -> tuple[str, ...]:
    return tuple(run[at : at + 2] for at in range(max(1, len(run) - 1)))


def _strip_accents(word: str) -> str:
    """Remove accents from Latin letters only. In other scripts a combining mark makes a different letter."""
    bare = "".join(char for char in unicodedata.normalize("NFKD", word) if not unicodedata.combining(char))
    return bare if bare.isascii() else word


def _stem(word: str) -> str:
    import snowballstemmer  # noqa: PLC0415 - it imports the stemmers of 37 languages, and many commands stem nothing

    # Stemmers are not thread-safe, and creating one takes only a microsecond.
    language = next((language for end, language in _STEMMERS if word[0] < end), None)
    return str(snowballstemmer.stemmer(language).stemWord(word)) if language else word
