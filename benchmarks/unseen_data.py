"""Other kinds of stores with questions: tau2-bench's banking documents, PrefEval and MemDaily.

None of them comes along. A data folder holds them as their repositories do: sierra-research/tau2-bench (MIT) as
`tau2_bench`, amazon-science/PrefEval (CC BY-NC 4.0) as `prefeval` and nuster1128/MemSim (no licence) as `memdaily`.
A question without evidence is one that the store cannot answer.

Relevance is fitted to one half of each: half of the customers, topics and people. The other half is to measure with.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from random import Random
from typing import Any, Literal, TypeVar

from evidence_data import Asked, Talk, Turn, spread
from paraphrases import unanswerable

Kind = Literal["memories", "room"]
Split = Literal["dev", "held"]
T = TypeVar("T")

BANKING = "tau2_bench/data/tau2/domains/banking_knowledge"
PREFERENCES = "prefeval/benchmark_dataset/explicit_preference"
CHATS = "prefeval/benchmark_dataset/filtered_inter_turns.json"
STEPS = "memdaily/data_generation/final_dataset/messages_and_QAs"
ROOMS = 10  # of PrefEval, each with one preference of each topic
MEMORIES = 30  # preferences of each topic that a user has
ASKED_OF_USER = 200  # questions about them
UNRELATED = 2  # questions about each topic that go to the bank
PEOPLE = 50  # of MemDaily; each file has the same number of trajectories for each, in this order
ASKED = 6  # questions of a person of MemDaily
PLANS = ("01_simple_events", "03_comparative_events")  # of MemDaily: each question names an event


@dataclass(frozen=True, slots=True)
class Collection:
    """Stores of one kind with questions, in one language."""

    name: str
    kind: Kind
    language: str
    stores: list[Talk]


def collections(data: Path, split: Split) -> list[Collection]:
    """Return one half of the collections that are in the folder."""
    found = [
        Collection("tau2-bench, 698 documents as memories", "memories", "en", list(_banking(data, split))),
        Collection("PrefEval, 300 preferences as memories", "memories", "en", list(_preferences(data, split))),
        Collection("PrefEval, 10 preferences in a chat", "room", "en", list(_chats(data, split))),
        Collection("MemDaily, a person's messages", "room", "zh", list(_steps(data, split))),
    ]
    return [each for each in found if each.stores]


def _banking(data: Path, split: Split) -> Iterator[Talk]:
    """Yield a bank's documents, with the whole of what a customer wants as a message."""
    files = [
        [_read(file) for file in sorted((data / BANKING / name).glob("*.json"))] for name in ("documents", "tasks")
    ]
    documents, tasks = files
    turns = [Turn(each["id"], "", f"{each['title']}\n{each['content']}", None) for each in documents]
    asked = [Asked(each["user_scenario"]["instructions"], frozenset(each["required_documents"])) for each in tasks]
    others = [Asked(each["question"], frozenset()) for topic in _topics(data, split) for each in topic[:UNRELATED]]
    if turns:
        yield Talk("bank", turns, [*_half(asked, split), *others])


def _preferences(data: Path, split: Split) -> Iterator[Talk]:
    """Yield a user with many preferences of each topic."""
    chosen = [each for topic in _topics(data, split) for each in topic[:MEMORIES]]
    others = [Asked(text, frozenset()) for text in unanswerable("en", split)]
    if chosen:
        yield Talk("user", _make_turns(chosen), [*spread(_asked(chosen), ASKED_OF_USER), *others])


def _chats(data: Path, split: Split) -> Iterator[Talk]:
    """Yield rooms in which somebody mentions preferences between talks about other things, and one without any."""
    topics = _topics(data, split)
    messages = [message for chat in (_read(data / CHATS) if topics else ()) for message in chat["conversation"]]
    turns = [Turn(f"m{at}", message["role"], message["content"], None) for at, message in enumerate(messages)]
    random, everything = Random(5), list[Asked]()
    for room in range(ROOMS if topics else 0):
        preferences = [topic[room] for topic in topics]
        mixed = turns.copy()
        for turn in _make_turns(preferences):
            mixed.insert(random.randrange(len(mixed)), turn)
        yield Talk(f"room {room}", mixed, _asked(preferences), asker="user")
        everything += _asked(preferences)
    if topics:
        yield Talk("no preferences", turns, [Asked(each.text, frozenset()) for each in everything], asker="user")


def _steps(data: Path, split: Split) -> Iterator[Talk]:
    """Yield all messages of each person, equal ones once, and questions, the last about another person's plans."""
    files = {file.stem: _read(file) for file in sorted((data / STEPS).glob("*.json"))}
    people = [_person(files, person) for person in range(PEOPLE if files else 0)]
    plans = [_person({name: files[name] for name in PLANS}, person)[1] for person in range(len(people))]
    chosen = range(len(people) // 2) if split == "dev" else range(len(people) // 2, len(people))
    for person in chosen:
        turns, asked = people[person]
        others = [Asked(each.text, frozenset()) for each in plans[(person + 1) % PEOPLE]]
        yield Talk(f"person {person}", turns, [*spread(asked, ASKED), *others], asker="user")


def _person(files: dict[str, list[Any]], person: int) -> tuple[list[Turn], list[Asked]]:
    turns, asked = dict[str, Turn](), []
    for trajectories in files.values():
        count = len(trajectories) // PEOPLE
        for each in trajectories[person * count : (person + 1) * count]:
            texts = {message["mid"]: message["message"] for message in each["message_list"]}
            for message in each["message_list"]:
                turns.setdefault(
                    message["message"], Turn(message["message"], "user", message["message"], _time(message))
                )
            asked += [
                Asked(question["question"], frozenset(texts[step] for step in question["target_step_id"]))
                for question in each["question_list"]
            ]
    return sorted(turns.values(), key=lambda turn: turn.at or 0.0), asked


def _time(message: dict[str, str]) -> float:
    day, _, hour = message["time"].split()  # the second is the day of the week
    return datetime.strptime(f"{day} {hour} +0000", "%Y年%m月%d日 %H:%M %z").timestamp()


def _topics(data: Path, split: Split) -> list[list[dict[str, str]]]:
    return [_read(file) for file in _half(sorted((data / PREFERENCES).glob("*.json")), split)]


def _half(everything: Sequence[T], split: Split) -> Sequence[T]:
    return everything[split == "held" :: 2]


def _make_turns(preferences: Sequence[dict[str, str]]) -> list[Turn]:
    return [Turn(f"p{at}", "user", each["preference"], None) for at, each in enumerate(preferences)]


def _asked(preferences: Sequence[dict[str, str]]) -> list[Asked]:
    return [Asked(each["question"], frozenset({f"p{at}"})) for at, each in enumerate(preferences)]


def _read(file: Path) -> Any:
    return json.loads(file.read_text(encoding="utf-8"))
