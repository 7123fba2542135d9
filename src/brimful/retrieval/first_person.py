"""First-person detection: how much a text is about its speaker."""

import re
from typing import Final

_I_AND_MY: Final = """
i me my mine myself ich mich mir mein meine meinen meinem meiner je j moi mon ma mes yo mi mis mío mía io mio mia miei
mie eu meu minha meus minhas ik mij mijn я меня мне мой моя моё мои
"""
FIRST_PERSON_WORDS: Final = frozenset(_I_AND_MY.split())
FIRST_PERSON_SIGNS: Final = (
    "我",
    "私",
    "僕",
    "나는",
    "내가",
    "저는",
    "제가",
)  # in scripts without spaces, or with particles
_WORDS: Final = re.compile(r"\w+").findall
_WORDS_PER_MENTION: Final = 8  # of so many words one is of oneself where somebody speaks of nothing else
_CHARS_READ: Final = 500  # characters: whom a text is about is said early


def is_first_person(text: str) -> bool:
    """Tell whether a text is in the first person."""
    # A pattern of all these words takes ten times as long.
    return not FIRST_PERSON_WORDS.isdisjoint(_words(text)) or any(sign in text for sign in FIRST_PERSON_SIGNS)


def first_person_share(text: str) -> float:
    """Return how much of a text is about who says it, from 0 to 1.

    >>> first_person_share("I sold my boat."), first_person_share("How nice of them!")
    (1.0, 0.0)
    >>> first_person_share("The ship, as I was told, is the very largest that was ever built in Spain.")
    0.5
    """
    read = text[:_CHARS_READ]
    words = _words(read)
    own = sum(map(FIRST_PERSON_WORDS.__contains__, words))
    if not read.isascii():
        own += sum(map(read.count, FIRST_PERSON_SIGNS))
    return min(1.0, _WORDS_PER_MENTION * own / max(1, len(words)))


def _words(text: str) -> list[str]:
    return _WORDS(text.lower())
