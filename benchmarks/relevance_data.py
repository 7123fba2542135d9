"""Stores with questions whose answers are known, small and large, of messages and of memories, with and without answer.

Each question of the conversations of `evidence_data` is asked of

- its own conversation, and another one, which cannot answer it: as a room, and with the same texts as memories;
- the turns around its answer, and as many elsewhere: as a room;
- 5, 20, 100 and 500 turns of all conversations at random, with the answer and without it: as memories;
- all conversations of its collection joined: as a room, and as memories.

Each question of `paraphrases` in other words is asked of

- all facts and notes of its language, 5 and 20 of them, with the answer and without it: as memories;
- the turns of all conversations, with the facts of its language among them: as a room.

Each question of `unseen_data` is asked of its store, and as memories of 20 and 100 of these texts, with the answer and
without it.

And messages that nothing in a store can help with are sent to all of these. People, and questions in other words, are
divided into two halves: what is chosen by one half is measured with the other.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from random import Random

import numpy as np
import numpy.typing as npt

import paraphrases
from brimful.protocols import Embedder
from brimful.records import Memory, Message
from brimful.records.search import Postings, VectorHit
from brimful.retrieval.calibration import Kind, Outlook, describe, stretch
from brimful.retrieval.documents import make_document
from brimful.retrieval.queries import Question, parse_question
from brimful.retrieval.rank import MAX_NEIGHBOURS, add_speaker, rank
from brimful.retrieval.synonyms import expand_postings
from evidence_data import Talk, Turn
from unseen_data import Collection

SMALL = (5, 20, 100, 500)  # turns of a small store
AROUND = 40  # turns of a short room
RANKED = 100  # matches of a question
ASKED = 40  # questions of a conversation, at most
BATCH = 256  # texts to embed at once

Values = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Doc:
    """A passage of a turn as the index has it."""

    turn: Turn
    terms: tuple[str, ...]
    text: str
    vector: npt.NDArray[np.float32] | None
    embedder: str | None


@dataclass(frozen=True, slots=True)
class Sample:
    """What one question found in one store: the inputs of the calibration, and which matches hold the answer.

    `missed` is how much of the answer is not among the matches.
    """

    collection: str
    store: str
    half: int
    inputs: Values
    observed: npt.NDArray[np.bool_]
    missed: int = 0


class Shelf:
    """Turns that are searched together, as messages of one room or as memories."""

    def __init__(self, turns: Sequence[Sequence[Doc]], kind: Kind) -> None:
        """Index the passages of these turns in this order."""
        self.kind: Kind = kind
        self.turns = [docs[0].turn for docs in turns]
        self.docs = [doc for docs in turns for doc in docs]
        self.first = np.cumsum([0, *map(len, turns)]) + 1  # the number of each turn's first passage
        self.turn_of = np.repeat(np.arange(len(turns)), [len(docs) for docs in turns])
        several = np.repeat([len(docs) > 1 for docs in turns], [len(docs) for docs in turns])
        single = np.zeros(len(self.docs), np.int64)
        self.seqs = self.turn_of + 1 if kind == "room" else np.where(several, self.first[self.turn_of], single)

    @cached_property
    def _places(self) -> dict[str, list[tuple[int, int]]]:
        places: dict[str, list[tuple[int, int]]] = defaultdict(list)
        for place, doc in enumerate(self.docs):
            for word, often in Counter(doc.terms).items():
                places[word].append((place, often))
        return places

    @cached_property
    def _words(self) -> int:
        return sum(len(doc.terms) for doc in self.docs)

    @cached_property
    def _vectors(self) -> npt.NDArray[np.float32] | None:
        vectors = [doc.vector for doc in self.docs if doc.vector is not None]
        return np.stack(vectors) if vectors else None

    def find(self, question: Question, meaning: npt.NDArray[np.float32] | None) -> tuple[list[Turn], Values]:
        """Return the best matches of a question, and the inputs of their calibration."""
        related = [other for other, _ in question.related]
        postings = expand_postings(
            self._postings(question.terms), self._postings(related), [term for _, term in question.related]
        )
        ranking = rank(postings, self._near(meaning), conversation=self.kind == "room").before(None, 2 * RANKED)
        turns, matches = [], []
        for match in ranking.matches():
            at = match.position - 1 if self.kind == "room" else self.turn_of[match.position - 1]
            if at >= len(self.turns):
                continue
            turn = self.turns[at]
            text = self.docs[match.doc - 1].text if match.doc else turn.text
            speaker = turn.speaker if self.kind == "room" else ""
            turns.append(turn)
            matches.append(add_speaker(match, question, speaker=speaker, text=text))
        if not turns:
            return [], np.empty((0, 0))
        shares = np.array([match.log_share for match in matches])
        outlook = Outlook.of(ranking, question, self.kind)
        best = np.argsort(-shares, kind="stable")[:RANKED]
        return [turns[at] for at in best], describe(shares, outlook)[best]

    def _postings(self, terms: Sequence[str]) -> Postings:
        rows = [(place, term, often) for term, word in enumerate(terms) for place, often in self._places.get(word, ())]
        return Postings(
            terms=tuple(terms),
            document_frequency=tuple(len(self._places.get(word, ())) for word in terms),
            documents=len(self.docs),
            words=self._words,
            doc=[place + 1 for place, _, _ in rows],
            seq=[int(self.seqs[place]) for place, _, _ in rows],
            length=[len(self.docs[place].terms) for place, _, _ in rows],
            term=[term for _, term, _ in rows],
            frequency=[often for _, _, often in rows],
        )

    def _near(self, meaning: npt.NDArray[np.float32] | None) -> Sequence[VectorHit]:
        if meaning is None or self._vectors is None:
            return []
        similar = self._vectors @ meaning
        nearest = np.argsort(-similar, kind="stable")[:MAX_NEIGHBOURS]
        hits = [VectorHit(doc=int(at) + 1, seq=int(self.seqs[at]), similarity=float(similar[at])) for at in nearest]
        return stretch(hits, self.docs[0].embedder)


def samples(
    collections: dict[str, list[Talk]], others: Sequence[Collection], embedder: Embedder | None, *, seed: int = 0
) -> Iterator[Sample]:
    """Ask every question of every store."""
    prepared = {name: [_docs(talk, embedder) for talk in talks] for name, talks in collections.items()}
    yield from _asked_of_conversations(collections, prepared, embedder, seed)
    yield from _asked_in_other_words(prepared, embedder, seed)
    for other in others:
        if _knows(embedder, other.language):
            yield from _asked_of_others(other, embedder, seed)


def _asked_of_conversations(
    collections: dict[str, list[Talk]],
    prepared: dict[str, list[list[list[Doc]]]],
    embedder: Embedder | None,
    seed: int,
) -> Iterator[Sample]:
    everywhere = [turn for talks in prepared.values() for talk in talks for turn in talk]
    everything = [(name, number) for name, talks in collections.items() for number in range(len(talks))]
    for name, talks in collections.items():
        joined = [turn for talk in prepared[name] for turn in talk]
        large = {"rooms joined": Shelf(joined, "room"), "memories joined": Shelf(joined, "memory")}
        for number, talk in enumerate(talks):
            random = Random(f"{seed} {name} {number}")
            own = prepared[name][number]
            others = [prepared[other][at] for other, at in everything if (other, at) != (name, number)]
            fixed = {
                "room": Shelf(own, "room"),
                "memories": Shelf(own, "memory"),
                **large,
            }
            elsewhere = {(kind, at): Shelf(docs, kind) for at, docs in enumerate(others) for kind in ("room", "memory")}
            speakers = sorted({turn.speaker for turn in talk.turns})
            chosen = random.sample(talk.questions, min(ASKED, len(talk.questions)))
            questions = [parse_question(each.text, asker=talk.asker, speakers=speakers) for each in chosen]
            meanings = _embed(embedder, [question.meaning for question in questions])
            for asked, question, meaning in zip(chosen, questions, meanings, strict=True):
                evidence = {id(docs[0].turn) for docs in own if docs[0].turn.id in asked.evidence}
                shelves = {
                    **fixed,
                    "another room": elsewhere["room", random.randrange(len(others))],
                    "other memories": elsewhere["memory", random.randrange(len(others))],
                    **_small_stores(own, evidence, everywhere, random),
                }
                for store, shelf in shelves.items():
                    yield from _ask(shelf, question, meaning, evidence, (name, store, number % 2))
            for n, (question, meaning) in enumerate(_unanswerable("en", embedder)):
                if n % len(talks) == number:
                    yield from _ask(fixed["room"], question, meaning, set(), (name, "unrelated, room", n % 2))


def _asked_in_other_words(
    prepared: dict[str, list[list[list[Doc]]]], embedder: Embedder | None, seed: int
) -> Iterator[Sample]:
    room = [turn for talks in prepared.values() for talk in talks for turn in talk]
    for language in paraphrases.LANGUAGES:
        if not _knows(embedder, language):
            continue
        random = Random(f"{seed} {language}")
        facts = [each for each in paraphrases.facts(language) if each.split == "dev"]
        turns = [Turn(f"fact {at}", "Sam", each.text, None) for at, each in enumerate(facts)]
        notes = [Turn(f"note {at}", "Sam", text, None) for at, text in enumerate(paraphrases.notes(language))]
        memories = _memory_docs([*turns, *notes], embedder)
        messages = _docs(Talk(language, turns, []), embedder)
        places = sorted(random.sample(range(len(room)), len(messages)))
        mixed = [
            docs
            for at, place in enumerate([*places, len(room)])
            for docs in (*room[places[at - 1] if at else 0 : place], *messages[at : at + 1])
        ]
        stores = {"other words": Shelf(memories, "memory"), "other words, room": Shelf(mixed, "room")}
        questions = [parse_question(each.question, speakers=["Sam"]) for each in facts]
        meanings = _embed(embedder, [question.meaning for question in questions])
        for at, (question, meaning) in enumerate(zip(questions, meanings, strict=True)):
            others = memories[:at] + memories[at + 1 :]
            shelves = {**stores, "other words, without answer": Shelf(others, "memory")}
            for size in SMALL[:2]:
                drawn = random.sample(others, size)
                shelves[f"other words, {size}"] = Shelf([*drawn[1:], memories[at]], "memory")
                shelves[f"other words, {size} without answer"] = Shelf(drawn, "memory")
            answer = {id(turns[at])}
            for store, shelf in shelves.items():
                found = answer if "without" not in store else set[int]()
                yield from _ask(shelf, question, meaning, found, ("paraphrases", store, at % 2))
        for at, (question, meaning) in enumerate(_unanswerable(language, embedder)):
            small = {f"unrelated, {size}": Shelf(random.sample(memories, size), "memory") for size in SMALL[:2]}
            for store, shelf in {"unrelated": stores["other words"], **small}.items():
                yield from _ask(shelf, question, meaning, set(), ("paraphrases", store, at % 2))


def _asked_of_others(collection: Collection, embedder: Embedder | None, seed: int) -> Iterator[Sample]:
    random = Random(f"{seed} {collection.name}")
    for number, talk in enumerate(collection.stores):
        is_room = collection.kind == "room"
        docs = _docs(talk, embedder) if is_room else _memory_docs(talk.turns, embedder)
        whole = Shelf(docs, "room" if is_room else "memory")
        speakers = sorted({turn.speaker for turn in talk.turns} - {""})
        questions = [parse_question(each.text, asker=talk.asker, speakers=speakers) for each in talk.questions]
        meanings = _embed(embedder, [question.meaning for question in questions])
        for at, (asked, question, meaning) in enumerate(zip(talk.questions, questions, meanings, strict=True)):
            answers = [each for each in docs if each[0].turn.id in asked.evidence]
            evidence = {id(each[0].turn) for each in answers}
            shelves = {"whole" if evidence else "whole, without answer": whole}
            rest = [each for each in docs if id(each[0].turn) not in evidence]
            for size in SMALL[1:3] if evidence and not is_room else ():
                drawn = random.sample(rest, size)
                shelves[f"{size}"] = Shelf([*drawn[1:], random.choice(answers)], "memory")
                shelves[f"{size}, without answer"] = Shelf(drawn, "memory")
            for store, shelf in shelves.items():
                yield from _ask(shelf, question, meaning, evidence, (collection.name, store, (number + at) % 2))


def _knows(embedder: Embedder | None, language: str) -> bool:
    known = getattr(embedder, "languages", None)
    return known is None or language in known


def _ask(
    shelf: Shelf,
    question: Question,
    meaning: npt.NDArray[np.float32] | None,
    answer: set[int],
    names: tuple[str, str, int],
) -> Iterator[Sample]:
    turns, inputs = shelf.find(question, meaning)
    if turns:
        observed = np.array([id(turn) in answer for turn in turns])
        yield Sample(*names, inputs, observed, len(answer) - int(observed.sum()))


def _unanswerable(
    language: str, embedder: Embedder | None
) -> Iterator[tuple[Question, npt.NDArray[np.float32] | None]]:
    questions = [parse_question(each) for each in paraphrases.unanswerable(language, "dev")]
    return zip(questions, _embed(embedder, [question.meaning for question in questions]), strict=True)


def _small_stores(
    own: list[list[Doc]], evidence: set[int], others: list[list[Doc]], random: Random
) -> dict[str, Shelf]:
    answers = [docs for docs in own if id(docs[0].turn) in evidence]
    rest = [docs for docs in own if id(docs[0].turn) not in evidence]
    shelves = {}
    for size in SMALL:
        drawn = [docs for docs in random.sample(others, size) if id(docs[0].turn) not in evidence]
        shelves[f"{size} memories"] = Shelf([*drawn[1:], random.choice(answers)], "memory")
        shelves[f"{size} other memories"] = Shelf(drawn, "memory")
    start = max(0, own.index(random.choice(answers)) - random.randrange(AROUND))
    shelves["short room"] = Shelf(own[start : start + AROUND], "room")
    start = random.randrange(max(1, len(rest) - AROUND))
    shelves["another short room"] = Shelf(rest[start : start + AROUND], "room")
    return shelves


def _docs(talk: Talk, embedder: Embedder | None) -> list[list[Doc]]:
    messages = (
        Message(id=turn.id, room="r", sender=turn.speaker, content=turn.text, at=turn.at or 0.0) for turn in talk.turns
    )
    return _index(talk.turns, messages, embedder)


def _memory_docs(turns: Sequence[Turn], embedder: Embedder | None) -> list[list[Doc]]:
    return _index(turns, (Memory(id=turn.id, content=turn.text) for turn in turns), embedder)


def _index(turns: Sequence[Turn], records: Iterable[Message | Memory], embedder: Embedder | None) -> list[list[Doc]]:
    entries = [make_document(record) for record in records]
    passages = [[entry, *entry.further] for entry in entries]
    vectors = iter(_embed(embedder, [each.passage for parts in passages for each in parts]))
    id = None if embedder is None else embedder.id
    return [
        [Doc(turn, each.terms, each.passage, next(vectors), id) for each in parts]
        for turn, parts in zip(turns, passages, strict=True)
    ]


def _embed(embedder: Embedder | None, texts: Sequence[str]) -> list[npt.NDArray[np.float32] | None]:
    if embedder is None:
        return [None] * len(texts)
    batches = [asyncio.run(embedder.embed(texts[at : at + BATCH], "passage")) for at in range(0, len(texts), BATCH)]
    return [row for batch in batches for row in batch]
