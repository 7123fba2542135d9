"""A question: its terms, what it means beside names, whom it is about, and whether it asks for a time."""

import re
from collections.abc import Iterable
from functools import lru_cache
from itertools import chain
from typing import Final

import msgspec

from brimful.core.content import ROLES
from brimful.retrieval.analyze import analyze
from brimful.retrieval.own import speaks_of_self
from brimful.retrieval.related import Related, related
from brimful.retrieval.times import asks_when

_WORD: Final = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
_REMEMBERED: Final = 16_384  # words, and names


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """A text to look for.

    `terms` are for the lexical side, each once, and those `related` to them; `meaning` is the text for the vector side.
    `about_asker` says that it speaks in the first person.
    """

    terms: tuple[str, ...]
    meaning: str
    related: Related = ()
    asker: str = ""
    about_asker: bool = False
    asks_when: bool = False

    def is_about(self, speaker: str) -> bool:
        """Say whether the question names this speaker, or is the speaker's own and about himself."""
        if self.about_asker and speaker == self.asker:
            return True
        return not _name(speaker).isdisjoint(self.terms)


def ask(text: str, *, asker: str = "", speakers: Iterable[str] = ()) -> Question:
    """Read a question that `asker` puts to a conversation of these `speakers`.

    A name is found by who speaks; in a vector it would only draw near whatever sounds like that name.

    >>> question = ask("What did Ann tell me about the lake?", asker="Bo", speakers=["Ann", "Bo"])
    >>> question.terms, question.meaning
    (('ann', 'tell', 'lake'), 'tell lake')
    >>> question.is_about("Ann"), question.is_about("Bo"), question.is_about("Cy")
    (True, True, False)
    """
    names = {term for speaker in speakers for term in _name(speaker)}
    words = [(word, _read(word)) for word in _WORD.findall(text)]
    meaning = " ".join(word for word, terms in words if terms and names.isdisjoint(terms))
    # Word by word is the same where no sign of one word depends on those of another, which is quick to tell of ASCII.
    whole = chain.from_iterable(terms for _, terms in words) if text.isascii() else analyze(text)
    terms = tuple(dict.fromkeys(whole))
    return Question(
        terms=terms,
        meaning=meaning or text,
        related=related(terms, names),
        asker=asker,
        about_asker=bool(asker) and speaks_of_self(text),
        asks_when=asks_when(text),
    )


@lru_cache(maxsize=_REMEMBERED)
def _read(word: str) -> tuple[str, ...]:
    return tuple(analyze(word))


@lru_cache(maxsize=_REMEMBERED)
def _name(speaker: str) -> frozenset[str]:
    """Return the terms of a speaker's name; a role is none."""
    return frozenset() if speaker.casefold() in ROLES else frozenset(analyze(speaker))
