"""The search queries of a build: several per context, so that more is found than the last message alone would match."""

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property, lru_cache
from itertools import chain
from typing import Final, Literal

import msgspec

from brimful.core.content import ROLES
from brimful.core.language import ENGLISH, detect_language, remove_mentions
from brimful.core.validation import require_text
from brimful.errors import InvalidValue
from brimful.packagers.records import plain_text
from brimful.records import Message
from brimful.retrieval.analyzer import analyze_query
from brimful.retrieval.names import is_misspelt
from brimful.retrieval.people import asks_about_people, is_first_person
from brimful.retrieval.small_talk import is_small_talk
from brimful.retrieval.synonyms import Synonyms, find_synonyms
from brimful.retrieval.time_expressions import is_time_question

_WORD: Final = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
# The numbers of a calculation name nothing: "What is 2 + 2?" is not about message 2. A minus needs spaces around it,
# since "5-3" may be a date or a range.
_NUMBER: Final = r"\d++(?:[.,]\d++)*+"
_OPERATOR: Final = r"(?:\s*+[+*×÷^=]\s*+|\s++(?:[-−/:]|plus|minus|times|(?:divided|multiplied) by)\s++)"
_CALCULATION: Final = re.compile(rf"(?<![\d.,]){_NUMBER}(?:{_OPERATOR}{_NUMBER})++", re.IGNORECASE)
_MAY: Final = re.compile(r"(?:^|(?<!\w)(\w++)(\W++))may\b(?!\W+\d)")
_BEFORE_MONTHS: Final = (
    "after", "before", "by", "during", "early", "from", "in", "last", "late", "mid", "next", "of", "since", "this",
    "till", "to", "until",
)  # fmt: skip
_CACHED_WORDS: Final = 16_384  # words, and as many names
HUMAN_MESSAGES: Final = 3  # recent user messages that form the "human" query
MAX_QUERY_CHARS: Final = 2_000  # a longer text is searched by its end, which usually states the request
MAX_QUERY_TERMS: Final = 48  # terms of a main query
SIDE_TERMS: Final = 12  # terms of any other query
MAX_EMBEDDED_WORDS: Final = 64  # of a question that is embedded as it is
MAX_NAMES: Final = 4  # words that may be names of people; in some languages, every noun is capitalized
MAX_SYNONYMS: Final = 64  # synonyms of a main query


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """A parsed search text.

    `terms` and `related` (synonyms) are for full-text search, `meaning` is the text to embed. `names` are terms that
    may name people, other than known speakers, each with its word, and `addressees` the speakers who are called so.
    `about_asker` is true for questions in the first person, and `about_people` for questions about anybody.
    """

    terms: tuple[str, ...]
    meaning: str
    related: Synonyms = ()
    names: tuple[tuple[str, str], ...] = ()
    addressees: frozenset[str] = frozenset()
    asker: str = ""
    about_asker: bool = False
    about_people: bool = False
    asks_when: bool = False

    def is_about(self, speaker: str) -> bool:
        """Return whether the question names this speaker, or is a first-person question of this speaker."""
        if speaker in self.addressees or (self.about_asker and speaker == self.asker):
            return True
        return _is_named(speaker, self.terms)


def parse_question(text: str, *, asker: str = "", speakers: Iterable[str] = (), with_synonyms: bool = True) -> Question:
    """Parse a question that `asker` asks about a conversation of these `speakers`.

    Speakers' names are matched as terms and left out of the text to embed, where they would attract similar names.

    >>> question = parse_question("What did Ann tell me about the lake?", asker="Bo", speakers=["Ann", "Bo"])
    >>> question.terms, question.meaning
    (('ann', 'tell', 'lake'), 'What did tell me about the lake?')
    >>> question.is_about("Ann"), question.is_about("Bo"), question.is_about("Cy")
    (True, True, False)
    >>> parse_question("What does Debroah like?", speakers=["Deborah"]).is_about("Deborah")
    True
    >>> parse_question("What is 2 + 2, Ann?").terms
    ('ann',)
    >>> parse_question("May she eat nuts, or what may she eat in may?").terms
    ('may', 'eat', 'nut')
    """
    speakers = tuple(speakers)
    is_idle = is_small_talk(text, {word for speaker in speakers for word in speaker.lower().split()})
    names = frozenset(term for speaker in speakers for term in _name_terms(speaker))
    language = detect_language(text)
    text = _CALCULATION.sub(" ", text)
    text = _MAY.sub(_without_modal, text) if "may" in text else text
    words = [(word, _word_terms(word, language)) for word in _WORD.findall(text)]
    unknown = {term: word for word, terms in words if word[0].isupper() for term in terms if term not in names}
    misspelt = [name for name in sorted(names) if any(is_misspelt(term, name) for term in unknown)]
    meaning = _text_to_embed(text, words, names)
    # For ASCII, analyzing word by word gives the same terms, and the words are cached.
    all_terms = chain.from_iterable(terms for _, terms in words) if text.isascii() else analyze_query(text, language)
    terms = () if is_idle else tuple(dict.fromkeys([*all_terms, *misspelt]))
    return Question(
        terms=terms,
        meaning=meaning,
        related=find_synonyms(terms, names) if with_synonyms else (),
        names=tuple((term, re.split("['’]", word)[0].casefold()) for term, word in unknown.items())[:MAX_NAMES],
        asker=asker,
        about_asker=bool(asker) and is_first_person(text),
        about_people=not names.isdisjoint(terms) or asks_about_people(text),
        asks_when=is_time_question(text),
    )


def _text_to_embed(text: str, words: Sequence[tuple[str, tuple[str, ...]]], names: frozenset[str]) -> str:
    """Return a text without names; a long one, of which encoders read only the beginning, without small words as well.

    Whole sentences find more than their content words do, even with static tables, which have no sense of a sentence.
    """
    terms_of = dict(words)
    content = [word for word, terms in words if terms and names.isdisjoint(terms)]
    if not content:
        return text
    if len(words) > MAX_EMBEDDED_WORDS:
        return " ".join(content)
    return " ".join(_WORD.sub(lambda word: word[0] if names.isdisjoint(terms_of[word[0]]) else "", text).split())


def _without_modal(may: re.Match[str]) -> str:
    """Return what stands before "may", which is the month only after a word such as "in", or beside a number."""
    word, space = may[1] or "", may[2] or ""
    return may[0] if word in _BEFORE_MONTHS or word[:1].isdigit() else word + space


@lru_cache(maxsize=_CACHED_WORDS)
def _word_terms(word: str, language: str) -> tuple[str, ...]:
    return tuple(analyze_query(word, language))


@lru_cache(maxsize=_CACHED_WORDS)
def _name_terms(speaker: str) -> frozenset[str]:
    """Return the terms of a speaker's name. A role such as "user" is not a name."""
    return frozenset() if speaker.casefold() in ROLES else frozenset(analyze_query(speaker, ENGLISH))


@lru_cache(maxsize=_CACHED_WORDS)
def _is_named(speaker: str, terms: tuple[str, ...]) -> bool:
    """Whether the terms name a speaker. Cached, because hundreds of matches have the same few speakers."""
    return not _name_terms(speaker).isdisjoint(terms)


QueryName = Literal["event", "human", "action", "focus"]

WEIGHTS: Final[dict[QueryName, float]] = {"event": 1.0, "human": 0.1, "action": 0.05, "focus": 0.5}
"""Factor on the relevance of a hit, by the query that found it. The current message counts most; the messages before it
matter when it contains nothing to search for, such as "And then?" """


class Query(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """One search query: a text of `asker` in a conversation of `speakers`.

    `weight` is a factor on the relevance of its hits. `positions` lists the messages that it repeats, which would
    match it best.
    """

    name: QueryName
    text: str
    asker: str = ""
    speakers: tuple[str, ...] = ()
    weight: float = 1.0
    positions: tuple[int, ...] = ()

    @cached_property
    def question(self) -> Question:
        """The parsed text. Parsing takes longer than finding out that there is nothing to search."""
        return parse_question(self.text, asker=self.asker, speakers=self.speakers, with_synonyms=self.main)

    @property
    def main(self) -> bool:
        """Whether this is a main query. The others use full-text search only, with fewer terms."""
        return self.name in ("event", "focus")

    @property
    def related(self) -> Synonyms:
        """The synonyms to search for. Only main queries have any."""
        return self.question.related[-MAX_SYNONYMS:]


def make_queries(
    event: str,
    *,
    asker: str = "",
    position: int | None = None,
    goal: str = "",
    recent: Sequence[Message] = (),
    focus: str = "",
    persona: Sequence[str] = (),
) -> tuple[Query, ...]:
    r"""Return the queries of a build: current message with goal, focus, recent user messages, last assistant message.

    `position` is that of the current message in the room, if it is there. `recent` is newest first; its senders are the
    speakers that a query may name. Queries with the same text are merged into the one with the highest weight. A
    mention, also by one of the names of the `persona`, says who is to answer, not what to search for, unless it names
    one of the people who speak. A search for nothing but a mention is a search for that name.

    >>> [(query.name, query.text) for query in make_queries("@nova When is it?", goal="Ship the demo", focus="spam")]
    [('event', 'When is it?\nShip the demo'), ('focus', 'spam')]
    """
    for field, value in (("text", event), ("focus", focus)):
        require_text(field, value, InvalidValue)
    humans = [message for message in recent if message.role == "user"][:HUMAN_MESSAGES]
    actions = [message for message in recent if message.role in ("assistant", "tool")][:1]
    asked_at = () if position is None else (position,)
    sources: list[tuple[QueryName, str, Iterable[str], tuple[int, ...]]] = [
        ("event", asker, (event, goal), asked_at),
        ("focus", "", (focus,), asked_at),
        ("human", humans[0].sender if humans else "", _texts(reversed(humans)), (*asked_at, *_positions(humans))),
        ("action", actions[0].sender if actions else "", _texts(actions), (*asked_at, *_positions(actions))),
    ]
    speakers = tuple(sorted({asker, *(message.sender for message in recent)}))
    people = {message.sender.casefold() for message in recent if message.role == "user" and message.persona is None}
    queries: dict[str, Query] = {}
    for name, sender, texts, positions in sources:
        said = list(texts)
        spoken = [remove_mentions(text, names=(*persona, *speakers), keep=people) for text in said]
        text = "\n".join(filter(None, map(str.strip, spoken if recent or any(spoken) else said)))[-MAX_QUERY_CHARS:]
        if text and text not in queries:
            queries[text] = Query(
                name=name, text=text, asker=sender, speakers=speakers, weight=WEIGHTS[name], positions=positions
            )
    return tuple(queries.values())


def query_terms(query: Query) -> tuple[str, ...]:
    """Return the terms to search for: the last ones of a long query."""
    return query.question.terms[-(MAX_QUERY_TERMS if query.main else SIDE_TERMS) :]


def _positions(messages: Iterable[Message]) -> Iterator[int]:
    return (message.seq for message in messages)


def _texts(messages: Iterable[Message]) -> list[str]:
    return [plain_text(message.content) for message in messages]
