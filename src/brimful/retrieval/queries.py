"""What to look for: several questions a build, so that more is found than the last message happens to say."""

from collections.abc import Iterable, Sequence
from typing import Final, Literal

import msgspec

from brimful.packagers.stored import plain_text
from brimful.records import Message
from brimful.retrieval.analyze import analyze

QueryName = Literal["event", "human", "action", "focus"]

HUMAN_MESSAGES: Final = 3  # the last ones are a question of their own
LONGEST: Final = 2_000  # characters of a query: its end says what is wanted
MOST_TERMS: Final = 48  # of a query
WEIGHTS: Final[dict[QueryName, float]] = {"event": 1.0, "human": 0.5, "action": 0.4, "focus": 0.8}
"""How much of its relevance a find keeps, by what found it: what is asked now outranks what led up to it."""


class Query(msgspec.Struct, frozen=True, kw_only=True):
    """A text to look for. What it finds keeps this share of its relevance."""

    name: QueryName
    text: str
    weight: float = 1.0


def queries(event: str, *, goal: str = "", recent: Sequence[Message] = (), focus: str = "") -> tuple[Query, ...]:
    r"""Return the questions of a build: the event with the goal, the last words of people, the last act, and a focus.

    `recent` is newest first. Texts that say the same are asked once, by the weightiest name.

    >>> [(query.name, query.text) for query in queries("When is it?", goal="Ship the demo", focus="spam")]
    [('event', 'When is it?\nShip the demo'), ('focus', 'spam')]
    """
    humans = [plain_text(message.content) for message in recent if message.role == "user"][:HUMAN_MESSAGES]
    acts = (plain_text(message.content) for message in recent if message.role in ("assistant", "tool"))
    wanted: list[tuple[QueryName, Iterable[str]]] = [
        ("event", (event, goal)),
        ("focus", (focus,)),
        ("human", reversed(humans)),
        ("action", (next(acts, ""),)),
    ]
    asked: dict[str, Query] = {}
    for name, texts in wanted:
        text = "\n".join(part for part in (text.strip() for text in texts) if part)[-LONGEST:]
        if text:
            asked.setdefault(text, Query(name=name, text=text, weight=WEIGHTS[name]))
    return tuple(asked.values())


def terms_of(query: Query) -> tuple[str, ...]:
    """Return the terms of a query, each once; of a long one the last, as of its text."""
    return tuple(dict.fromkeys(reversed(analyze(query.text))))[:MOST_TERMS][::-1]
