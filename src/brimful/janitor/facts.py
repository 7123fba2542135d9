"""Find what people say about themselves, by rules for English: names, homes, jobs, preferences, dates."""

import re
from collections.abc import Iterator
from typing import Final

import msgspec

_MAX_CHARS: Final = 20_000  # of a message
_MAX_SENTENCE: Final = 300  # characters; longer ones are stories, not statements
_MAX_WORDS: Final = 12  # of a value
_CODE: Final = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_SENTENCES: Final = re.compile(r"(?<=[.!?])\s+|\n+")
_CLAUSES: Final = re.compile(r";|,? (?:and|but) (?=(?:i|i'm|i've|my)\b)", re.IGNORECASE)
_OPENING: Final = re.compile(
    r"^(?:actually|no|nope|sorry|well|oh|ah|btw|by the way|also|and|but|so|hi|hello|hey|correction|fyi|i mean|yes|yeah|"
    r"ok|okay|please note|note|for the record|just so you know|anyway|unfortunately|luckily|now)\b(?: that\b)?"
    r"[\s,:.!–-]*",
    re.IGNORECASE,
)
_REQUEST: Final = re.compile(
    r"^(?:please )?(?:remember|don't forget|do not forget|keep in mind)(?: that|:)\s+(?P<value>.+)$", re.IGNORECASE
)
_HYPOTHETICAL: Final = re.compile(
    r"^(?:if|when|unless|suppose|imagine|pretend|let's say|what if|say)\b|\b(?:wish|would|maybe|perhaps|might)\b",
    re.IGNORECASE,
)
_QUOTED: Final = re.compile(r"""["“«][^"”»]*\b(?:i|i'm|my)\b""", re.IGNORECASE)
_TAIL: Final = re.compile(
    r",| (?:because|since|so that|although|though|which|who|when|if|while|after|before|until|but|and i|as well|"
    r"too|now|currently|these days|nowadays|any ?more|at the moment|at all|by the way|actually)\b",
    re.IGNORECASE,
)
_VAGUE: Final = re.compile(
    r"^(?:it|this|that|these|those|you|your|yours|him|her|them|he|she|they|what|how|when|where|why|who|there|the idea"
    r"|not sure|to know|so|very|too)\b",
    re.IGNORECASE,
)
_NOT_OWN: Final = re.compile(
    r"\b(?:questions?|problem|issue|point|guess|goal|idea|request|plan|concern|hope|understanding|bad|mistake|answer|"
    r"thought|feeling|apologies|only|turn|fault|pleasure|last|next|first|other|own|code|error|prompt|message|"
    r"passwords?|passphrase|pin|token|secret|api key|cvv)\b",
    re.IGNORECASE,
)
"""What people call their own for one moment ("my question is …"), and secrets."""
_NO_JOB: Final = re.compile(
    r"\b(?:fan|lover|bit|believer|member|beginner|owner|loser|newcomer|number|follower|user|customer|winner|supporter|"
    r"later|better|other|never|over|another|stranger)$",
    re.IGNORECASE,
)
_LASTING: Final = (
    "son|daughter|child|children|kid|kids|wife|husband|partner|girlfriend|boyfriend|brother|brothers|sister|sisters|"
    "twin|twins|dog|dogs|cat|cats|pet|pets|horse|horses|rabbit|rabbits|parrot|hamster|boat|car|bike|house|garden|"
    "allergy|allergies|diabetes|asthma|degree|phd|license|licence"
)
_VERBS: Final = {
    "love": "loves",
    "like": "likes",
    "enjoy": "enjoys",
    "prefer": "prefers",
    "adore": "adores",
    "hate": "hates",
    "dislike": "dislikes",
    "detest": "detests",
    "can't stand": "cannot stand",
    "cannot stand": "cannot stand",
    "don't like": "does not like",
    "do not like": "does not like",
}
_PERSONS: Final = {
    "i": "they",
    "i'm": "they're",
    "i've": "they've",
    "me": "them",
    "my": "their",
    "mine": "theirs",
    "myself": "themselves",
}
_PERSON: Final = re.compile(r"\b(?:i'm|i've|i|me|my|mine|myself)\b", re.IGNORECASE)
_AM: Final = r"^i\s*(?:'m|am) (?:now )?"
_NOT_NOW: Final = r"^i\s*(?:'m|am) (?:no longer|not) "
_HAVE: Final = r"^i(?:'ve| have)? (?:just |recently )?"
_DO: Final = r"^i (?:now |currently )?"
_DO_NOT: Final = r"^i (?:no longer|don't|do not) "
_DIETS: Final = "(?:an? )?(?P<value>vegan|vegetarian|pescatarian|flexitarian)$"
_COUNT: Final = r"(?:an? |two |three |four |five |six |\d+ )?(?:[\w-]+ ){0,2}"
_MY: Final = r"^my (?P<key>(?:[\w'-]+ ){0,3}[\w'-]+?)"
_JOBS: Final = r"\w+(?:er|or|ist|ian|yst|ant)|nurse|chef|student|pilot|architect|judge|mechanic"
_OPINIONS: Final = "|".join(sorted(_VERBS, key=len, reverse=True))
_PATTERNS: Final = (
    ("name", r"^(?:my name(?: is|'s)|i am called|i'm called|call me|i go by) (?P<value>[^\d,]+)$", "'s name is {}"),
    ("home", rf"{_DO}(?:live|reside) in (?P<value>.+)$", " lives in {}"),
    ("home", rf"{_AM}(?:living|based) in (?P<value>.+)$", " lives in {}"),
    ("home", rf"{_HAVE}moved to (?P<value>.+)$", " lives in {}"),
    ("origin", r"^i(?:'m| am| come) (?:originally )?from (?P<value>.+)$", " is from {}"),
    ("employer", rf"{_DO}work (?:at|for) (?P<value>.+)$", " works at {}"),
    ("employer", rf"{_HAVE}(?:joined|started (?:working )?(?:at|for)) (?P<value>.+)$", " works at {}"),
    ("job", rf"{_DO}work as (?P<value>an? .+)$", " works as {}"),
    ("job", rf"{_AM}(?P<value>an? (?:[\w-]+ ){{0,3}}(?:{_JOBS}))$", " is {}"),
    ("age", rf"{_AM}(?P<value>\d{{1,3}}) years? old$", " is {} years old"),
    ("diet", _AM + _DIETS, " is {}"),
    ("marital status", rf"{_AM}(?P<value>married|single|divorced|engaged|widowed)(?: to .+)?$", " is {}"),
    ("birth", r"^i was born (?P<value>(?:on|in) .+)$", " was born {}"),
    ("allergy:{}", rf"{_AM}allergic to (?P<value>.+)$", " is allergic to {}"),
    (
        "has:{key}",
        rf"^i(?:'ve got| have(?: got)?) (?P<value>{_COUNT}(?P<key>{_LASTING})(?: (?:named|called) .+)?)$",
        " has {}",
    ),
    (
        "opinion:{}",
        rf"^i (?:really |also |absolutely |still |just |always )*(?P<verb>{_OPINIONS}) (?P<value>.+)$",
        " {verb} {}",
    ),
    ("{key}", rf"{_MY}(?: is|'s) (?:now )?(?P<value>.+)$", "'s {key} is {}"),
    ("{key}", rf"{_MY} are (?:now )?(?P<value>.+)$", "'s {key} are {}"),
)
"""Attribute, pattern and sentence. `{}` is the value, `{key}` what it is about, `{verb}` the verb."""
_RULES: Final = tuple(
    (attribute, re.compile(pattern, re.IGNORECASE), sentence) for attribute, pattern, sentence in _PATTERNS
)
_ENDINGS: Final = (
    ("home", rf"{_DO_NOT}live in (?P<value>.+)$"),
    ("employer", rf"{_DO_NOT}work (?:at|for) (?P<value>.+)$"),
    ("employer", rf"{_HAVE}(?:left|quit) (?P<value>.+)$"),
    ("diet", _NOT_NOW + _DIETS),
    ("marital status", rf"{_NOT_NOW}(?P<value>married|single|engaged)$"),
    ("allergy:{}", rf"{_NOT_NOW}allergic to (?P<value>.+)$"),
    ("opinion:{}", r"^i no longer (?:love|like|enjoy|prefer|adore|hate|dislike) (?P<value>.+)$"),
    ("has:{key}", rf"{_DO_NOT}have (?P<value>(?:an? |any |my )?(?:[\w-]+ ){{0,2}}(?P<key>{_LASTING}))$"),
    ("name", r"^my name(?: is not|'s not| isn't) (?P<value>.+)$"),
    ("{key}", rf"{_MY}(?: is not| isn't| is no longer) (?P<value>.+)$"),
)
_ENDED: Final = tuple((attribute, re.compile(pattern, re.IGNORECASE)) for attribute, pattern in _ENDINGS)
_JOB: Final = "my job"


class Fact(msgspec.Struct, frozen=True, kw_only=True):
    """What somebody said about himself or herself: an attribute and its value, as a sentence in the third person.

    With `ended`, the value holds no longer, and there is no text. An empty value stands for any.
    """

    attribute: str
    value: str
    quote: str
    text: str = ""
    ended: bool = False


def find_facts(text: str, subject: str = "The user") -> list[Fact]:
    """Return what the sender of a message says about himself or herself.

    >>> for fact in find_facts("Hi, my name is Ada and I live in Paris! Do I like tea? I love green tea.", "Ada"):
    ...     print(fact.attribute, "|", fact.text)
    name | Ada's name is Ada.
    home | Ada lives in Paris.
    opinion:green tea | Ada loves green tea.
    >>> [(fact.attribute, fact.value, fact.ended) for fact in find_facts("I no longer live in Paris.")]
    [('home', 'Paris', True)]
    """
    return [fact for quote, clause in _find_clauses(text) if (fact := _read_clause(clause, quote, subject)) is not None]


def normalize_value(text: str) -> str:
    """Return a text for comparison: in lower case, without articles and punctuation.

    >>> normalize_value("The  Eiffel-Tower!")
    'eiffel tower'
    """
    words = re.findall(r"\w+", text.casefold())
    return " ".join(words[1:] if len(words) > 1 and words[0] in ("a", "an", "the", "my") else words)


def _find_clauses(text: str) -> Iterator[tuple[str, str]]:
    """Yield the clauses that state something, each with its words as they were written."""
    plain = _CODE.sub("\n", text[:_MAX_CHARS]).replace("’", "'")
    for sentence in _SENTENCES.split(plain):
        stated = " ".join(sentence.split()).strip("*_-• ")
        if not stated or len(stated) > _MAX_SENTENCE or stated.startswith(">"):
            continue
        if stated.endswith("?") or _QUOTED.search(stated):
            continue
        for clause in _CLAUSES.split(stated):
            bare = clause.strip().rstrip(".!…").strip()
            while (shorter := _OPENING.sub("", bare)) != bare:
                bare = shorter
            if bare:
                yield clause.strip(), bare


def _read_clause(clause: str, quote: str, subject: str) -> Fact | None:
    request = _REQUEST.match(clause)
    if request is not None:
        wanted = request["value"].strip()
        known = _read_clause(wanted, quote, subject)
        text = f"{subject} asked to remember: {wanted}."
        return known or Fact(attribute=f"note:{normalize_value(wanted)}", value=wanted, quote=quote, text=text)
    if _HYPOTHETICAL.search(clause):
        return None
    for attribute, pattern in _ENDED:
        if match := pattern.match(clause):
            return _make_ended(attribute, match, quote)
    for attribute, pattern, sentence in _RULES:
        if (match := pattern.match(clause)) and (fact := _make_fact(attribute, sentence, match, quote, subject)):
            return fact
    return None


def _make_ended(attribute: str, match: re.Match[str], quote: str) -> Fact | None:
    value = _TAIL.split(match["value"], maxsplit=1)[0].strip()
    if not value or (attribute == "{key}" and not _is_attribute(match["key"])):
        return None
    named = _fill(attribute, match, value)
    generic = value.casefold() == _JOB or attribute == "has:{key}"
    return Fact(attribute=named, value="" if generic else value, quote=quote, ended=True)


def _make_fact(attribute: str, sentence: str, match: re.Match[str], quote: str, subject: str) -> Fact | None:
    value = _TAIL.split(match["value"], maxsplit=1)[0].strip(" \"'“”")
    if not value or _VAGUE.match(value) or len(value.split()) > _MAX_WORDS:
        return None
    if attribute == "{key}" and not _is_attribute(match["key"]):
        return None
    if attribute == "job" and _NO_JOB.search(value):
        return None
    groups = match.groupdict()
    verb = _VERBS.get((groups.get("verb") or "").casefold(), "")
    stated = sentence.format(_in_third_person(value), key=groups.get("key"), verb=verb)
    return Fact(attribute=_fill(attribute, match, value), value=value, quote=quote, text=f"{subject}{stated}.")


def _fill(attribute: str, match: re.Match[str], value: str) -> str:
    key = normalize_value(match.groupdict().get("key") or "")
    return attribute.format(normalize_value(value), key=key)


def _is_attribute(key: str) -> bool:
    return _NOT_OWN.search(key) is None


def _in_third_person(value: str) -> str:
    return _PERSON.sub(lambda match: _PERSONS[match[0].casefold()], value)
