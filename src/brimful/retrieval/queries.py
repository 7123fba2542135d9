"""What to look for: several questions a build, so that more is found than the last message happens to say."""

from collections.abc import Iterable, Sequence
from typing import Final, Literal

import msgspec

from brimful.core.check import text as checked_text
from brimful.errors import InvalidValue
from brimful.packagers.stored import plain_text
from brimful.records import Message
from brimful.retrieval.question import Question, ask
from brimful.retrieval.related import Related

QueryName = Literal["event", "human", "action", "focus"]

HUMAN_MESSAGES: Final = 3  # the last ones are a question of their own
LONGEST: Final = 2_000  # characters of a query: its end says what is wanted
MOST_TERMS: Final = 48  # of what is asked now
SIDE_TERMS: Final = 12  # of any other query
MOST_RELATED: Final = 64  # terms that say nearly what is asked now
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
    def related(self) -> Related:
        """The terms that say nearly the same as its own; what only led up to it is looked for as it was said."""
        return self.question.related[-MOST_RELATED:] if self.main else ()


def queries(
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

    >>> [(query.name, query.text) for query in queries("When is it?", goal="Ship the demo", focus="spam")]
    [('event', 'When is it?\nShip the demo'), ('focus', 'spam')]
    """
    for field, given in (("text", event), ("focus", focus)):
        checked_text(field, given, InvalidValue)
    humans = [message for message in recent if message.role == "user"][:HUMAN_MESSAGES]
    acts = [message for message in recent if message.role in ("assistant", "tool")][:1]
    wanted: list[tuple[QueryName, str, Iterable[str]]] = [
        ("event", asker, (event, goal)),
        ("focus", "", (focus,)),
        ("human", humans[0].sender if humans else "", _said(reversed(humans))),
        ("action", acts[0].sender if acts else "", _said(acts)),
    ]
    speakers = sorted({message.sender for message in recent if message.sender} | {asker} - {""})
    asked: dict[str, Query] = {}
    for name, who, texts in wanted:
        text = "\n".join(part for part in (text.strip() for text in texts) if part)[-LONGEST:]
        if text and text not in asked:
            question = ask(text, asker=who, speakers=speakers)
            asked[text] = Query(name=name, text=text, question=question, weight=WEIGHTS[name])
    return tuple(asked.values())


def terms_of(query: Query) -> tuple[str, ...]:
    """Return the terms of a query; of a long one the last, as of its text."""
    return query.question.terms[-(MOST_TERMS if query.main else SIDE_TERMS) :]


def _said(messages: Iterable[Message]) -> list[str]:
    return [plain_text(message.content) for message in messages]
