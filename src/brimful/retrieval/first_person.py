"""First-person detection: how much a text is about its speaker."""

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
_WORDS: Final = re.compile(r"\w+").findall
_WORDS_PER_MENTION: Final = 8  # one pronoun in eight words: the text is entirely about its speaker
_CHARS_READ: Final = 500  # the beginning of a text shows who it is about


def is_first_person(text: str) -> bool:
    """Return whether a text is in the first person."""
    # A regular expression of all these words takes ten times as long.
    return not FIRST_PERSON_WORDS.isdisjoint(_words(text)) or any(word in text for word in FIRST_PERSON_MARKERS)


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
