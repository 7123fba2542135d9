"""The search queries of a build: several per context, so that more is found than the last message alone would match."""

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import chain
from typing import Final, Literal

import msgspec

from brimful.core.content import ROLES
from brimful.core.validation import require_text as checked_text
from brimful.errors import InvalidValue
from brimful.packagers.records import plain_text
from brimful.records import Message
from brimful.retrieval.analyzer import analyze
from brimful.retrieval.first_person import is_first_person
from brimful.retrieval.synonyms import Synonyms, find_synonyms
from brimful.retrieval.time_expressions import is_time_question

_WORD: Final = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
_CACHED_QUESTIONS: Final = 16_384  # words, and names


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """A text to look for.

    `terms` are for the lexical side, each once, and those related to them; `meaning` is the text for the vector side.
    `about_asker` says that it speaks in the first person.
    """

    terms: tuple[str, ...]
    meaning: str
    related: Synonyms = ()
    asker: str = ""
    about_asker: bool = False
    asks_when: bool = False

    def is_about(self, speaker: str) -> bool:
        """Say whether the question names this speaker, or is the speaker's own and about himself."""
        if self.about_asker and speaker == self.asker:
            return True
        return not _name_terms(speaker).isdisjoint(self.terms)


def parse_question(text: str, *, asker: str = "", speakers: Iterable[str] = ()) -> Question:
    """Read a question that `asker` puts to a conversation of these `speakers`.

    A name is found by who speaks; in a vector it would only draw near whatever sounds like that name.

    >>> question = parse_question("What did Ann tell me about the lake?", asker="Bo", speakers=["Ann", "Bo"])
    >>> question.terms, question.meaning
    (('ann', 'tell', 'lake'), 'tell lake')
    >>> question.is_about("Ann"), question.is_about("Bo"), question.is_about("Cy")
    (True, True, False)
    """
    names = {term for speaker in speakers for term in _name_terms(speaker)}
    words = [(word, _parse(word)) for word in _WORD.findall(text)]
    meaning = " ".join(word for word, terms in words if terms and names.isdisjoint(terms))
    # Word by word is the same where no sign of one word depends on those of another, which is quick to tell of ASCII.
    whole = chain.from_iterable(terms for _, terms in words) if text.isascii() else analyze(text)
    terms = tuple(dict.fromkeys(whole))
    return Question(
        terms=terms,
        meaning=meaning or text,
        related=find_synonyms(terms, names),
        asker=asker,
        about_asker=bool(asker) and is_first_person(text),
        asks_when=is_time_question(text),
    )


@lru_cache(maxsize=_CACHED_QUESTIONS)
def _parse(word: str) -> tuple[str, ...]:
    return tuple(analyze(word))


@lru_cache(maxsize=_CACHED_QUESTIONS)
def _name_terms(speaker: str) -> frozenset[str]:
    """Return the terms of a speaker's name; a role is none."""
    return frozenset() if speaker.casefold() in ROLES else frozenset(analyze(speaker))


QueryName = Literal["event", "human", "action", "focus"]

HUMAN_MESSAGES: Final = 3  # the last ones are a question of their own
MAX_QUERY_CHARS: Final = 2_000  # characters of a query: its end says what is wanted
MAX_QUERY_TERMS: Final = 48  # of what is asked now
SIDE_TERMS: Final = 12  # of any other query
MAX_SYNONYMS: Final = 64  # terms that say nearly what is asked now
WEIGHTS: Final[dict[QueryName, float]] = {"event": 1.0, "human": 0.1, "action": 0.05, "focus": 0.5}
"""How much of its relevance a find keeps, by what found it. What is asked now is what counts; what led up to it matters
where the question itself finds nothing: "And then?" """


class Query(msgspec.Struct, frozen=True, kw_only=True):
    """A text to look for, and what is read from it. What it finds keeps this share of its relevance."""

    name: QueryName
    text: str
    question: Question
    weight: float = 1.0

    @property
    def main(self) -> bool:
        """Whether it is asked for its own sake: what only led up to it is looked for in full text, and not far."""
        return self.name in ("event", "focus")

    @property
    def related(self) -> Synonyms:
        """The terms that say nearly the same as its own; what only led up to it is looked for as it was said."""
        return self.question.related[-MAX_SYNONYMS:] if self.main else ()


def make_queries(
    event: str,
    *,
    asker: str = "",
    goal: str = "",
    recent: Sequence[Message] = (),
    focus: str = "",
) -> tuple[Query, ...]:
    r"""Return the questions of a build: the event with the goal, the last words of people, the last act, and a focus.

    `recent` is newest first; who spoke there are the speakers that a question may name. Texts that say the same are
    asked once, by the weightiest name.

    >>> [(query.name, query.text) for query in make_queries("When is it?", goal="Ship the demo", focus="spam")]
    [('event', 'When is it?\nShip the demo'), ('focus', 'spam')]
    """
    for field, given in (("text", event), ("focus", focus)):
        checked_text(field, given, InvalidValue)
    humans = [message for message in recent if message.role == "user"][:HUMAN_MESSAGES]
    acts = [message for message in recent if message.role in ("assistant", "tool")][:1]
    wanted: list[tuple[QueryName, str, Iterable[str]]] = [
        ("event", asker, (event, goal)),
        ("focus", "", (focus,)),
        ("human", humans[0].sender if humans else "", _recent_text(reversed(humans))),
        ("action", acts[0].sender if acts else "", _recent_text(acts)),
    ]
    speakers = sorted({message.sender for message in recent if message.sender} | {asker} - {""})
    asked: dict[str, Query] = {}
    for name, who, texts in wanted:
        text = "\n".join(part for part in (text.strip() for text in texts) if part)[-MAX_QUERY_CHARS:]
        if text and text not in asked:
            question = parse_question(text, asker=who, speakers=speakers)
            asked[text] = Query(name=name, text=text, question=question, weight=WEIGHTS[name])
    return tuple(asked.values())


def query_terms(query: Query) -> tuple[str, ...]:
    """Return the terms of a query; of a long one the last, as of its text."""
    return query.question.terms[-(MAX_QUERY_TERMS if query.main else SIDE_TERMS) :]


def _recent_text(messages: Iterable[Message]) -> list[str]:
    return [plain_text(message.content) for message in messages]
