"""Who a text is about: its speaker, or other people."""

import re
from typing import Final

_I_AND_MY: Final = """
i me my mine myself ich mich mir mein meine meinen meinem meiner je j moi mon ma mes yo mi mis mío mía io mio mia miei
mie eu meu minha meus minhas ik mij mijn я меня мне мой моя моё мои
"""
FIRST_PERSON_WORDS: Final = frozenset(_I_AND_MY.split())
FIRST_PERSON_MARKERS: Final = (
    "我",
    "私",
    "僕",
    "나는",
    "내가",
    "저는",
    "제가",
)  # scripts without spaces, or with attached particles
_OTHERS: Final = """
he him his she her hers they them their theirs we us our ours er ihn ihm sein seine seinen seinem seiner sie ihr ihre
ihren ihrem ihrer ihnen wir uns unser unsere unseren unserem il lui son sa ses elle ils elles leur nous notre nos él
ella su sus ellos ellas nosotros nosotras nuestro nuestra nuestros nuestras lei suo sua suoi loro noi nostro nostra ele
ela seu deles nós nosso nossa hij hem zijn zij haar hun wij ons onze он она его её ее ему ей им их они мы нас нам наш
наша наше наши
"""
_PERSONAL_WORDS: Final = (FIRST_PERSON_WORDS | set(_OTHERS.split())) - {"me", "mir"}  # not for "tell me"
_PERSONAL_MARKERS: Final = (
    *FIRST_PERSON_MARKERS,
    "他",
    "她",
    "咱",
    "彼",
    "うち",
    "わたし",
    "自分",
    "그는",
    "그녀",
    "우리",
)
_ASKING: Final = re.compile(
    r"[?？¿]|吗|呢|^\s*(?:what|who|whom|whose|when|where|which|why|how|do|does|did|is|are|was|were|am|can|could|will|would"
    r"|should|has|have|wer|wen|wem|wann|wo|wohin|welche[rsmn]?|warum|wieso|wie|hat|hatte|qué|quién|cuándo|dónde|cuál"
    r"|cómo|что|кто|кого|когда|где|куда|какой|какая|какие|почему|зачем|как|сколько)\b",
    re.IGNORECASE,
)
_WORDS: Final = re.compile(r"\w+").findall
_WORDS_PER_MENTION: Final = 8  # one pronoun in eight words: the text is entirely about its speaker
_CHARS_READ: Final = 500  # the beginning of a text shows who it is about


def is_first_person(text: str) -> bool:
    """Return whether a text is in the first person."""
    # A regular expression of all these words takes ten times as long.
    return not FIRST_PERSON_WORDS.isdisjoint(_words(text)) or any(word in text for word in FIRST_PERSON_MARKERS)


def asks_about_people(text: str) -> bool:
    """Return whether a text is a question about people, other than the one who is asked.

    >>> [asks_about_people(text) for text in ("where does her sister live", "How do you say hello?", "Give me a name.")]
    [True, False, False]
    """
    head = text[:_CHARS_READ]
    is_personal = not _PERSONAL_WORDS.isdisjoint(_words(head)) or any(word in head for word in _PERSONAL_MARKERS)
    return is_personal and _ASKING.search(head) is not None


def first_person_share(text: str) -> float:
    """Return how much of a text is about its speaker, from 0 to 1.

    >>> first_person_share("I sold my boat."), first_person_share("How nice of them!")
    (1.0, 0.0)
    >>> first_person_share("The ship, as I was told, is the very largest that was ever built in Spain.")
    0.5
    """
    head = text[:_CHARS_READ]
    words = _words(head)
    mentions = sum(map(FIRST_PERSON_WORDS.__contains__, words))
    if not head.isascii():
        mentions += sum(map(head.count, FIRST_PERSON_MARKERS))
    return min(1.0, _WORDS_PER_MENTION * mentions / max(1, len(words)))


def _words(text: str) -> list[str]:
    return _WORDS(text.lower())
