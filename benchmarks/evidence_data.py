"""Long conversations with questions, and the turns in which annotators found the answers: LoCoMo, REALTALK, BEAM.

None of them comes along. A data folder holds them as their repositories do: `locomo/data/locomo10.json`,
`realtalk/data/Chat_*.json` and `beam/chats/100K/*/`.
"""

import argparse
import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ADVERSARIAL = 5  # LoCoMo's category of questions that the conversation does not answer

_SESSION = re.compile(r"session_(\d+)")
_TURN_ID = re.compile(r"D:?(\d+):(\d+)")
_BEAM_MARK = re.compile(r"\s*->->\s*[\d,\s]+$")  # left over from how the texts were written


@dataclass(frozen=True, slots=True)
class Turn:
    """Something said."""

    id: str
    speaker: str
    text: str
    at: float | None

    def line(self) -> str:
        """Return the turn as a model sees it, under the heading of its day."""
        return f"{self.speaker}: {self.text}\n"

    def heading(self) -> str:
        """Return the heading of its day, if that is known."""
        return f"[{datetime.fromtimestamp(self.at, UTC):%Y-%m-%d}]\n" if self.at is not None else ""


@dataclass(frozen=True, slots=True)
class Asked:
    """A question, the turns that hold its answer, the answer, and LoCoMo's or REALTALK's category of question."""

    text: str
    evidence: frozenset[str]
    answer: str = ""
    category: int = 0


@dataclass(frozen=True, slots=True)
class Talk:
    """A conversation in order. `asker` is the speaker who also asks the questions, if one of them does."""

    name: str
    turns: list[Turn]
    questions: list[Asked]
    asker: str = ""


def talks(data: Path) -> dict[str, list[Talk]]:
    """Return the conversations of a folder by the name of their collection, those that are there."""
    found = {
        "LoCoMo": list(_locomo(data / "locomo/data/locomo10.json")),
        "REALTALK": [_realtalk(file) for file in sorted((data / "realtalk/data").glob("Chat_*.json"))],
        "BEAM": [_beam(file.parent) for file in sorted((data / "beam/chats/100K").glob("*/chat.json"))],
    }
    return {name: conversations for name, conversations in found.items() if conversations}


def parse_options(description: str | None) -> argparse.Namespace:
    """Read the options of a script that asks these questions: the folder, and whether to ask only some of them."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="some questions to one conversation of each collection")
    parser.add_argument("--data", type=Path, default=os.environ.get("BENCH_DATA") or None, help="folder of JSON files")
    return parser.parse_args()


def spread(questions: Sequence[Asked], most: int) -> list[Asked]:
    """Return at most so many questions, evenly spread: those of a kind stand together."""
    count = min(most, len(questions))
    return [questions[(2 * n + 1) * len(questions) // (2 * count)] for n in range(count)]


def _locomo(file: Path) -> Iterator[Talk]:
    for sample in _read(file) if file.exists() else ():
        conversation = sample["conversation"]
        turns = []
        for session in _sessions(conversation):
            at = _time(conversation[f"{session}_date_time"], "%I:%M %p on %d %B, %Y")
            turns += [_make_turn(turn, turn["text"], at) for turn in conversation[session]]
        answerable = [each for each in sample["qa"] if each["category"] != ADVERSARIAL]
        yield Talk(sample["sample_id"], turns, list(_read_questions(answerable, turns)))


def _realtalk(file: Path) -> Talk:
    data = _read(file)
    turns = [
        _make_turn(turn, turn["clean_text"], _time(turn["date_time"], "%d.%m.%Y, %H:%M:%S"))
        for session in _sessions(data)
        for turn in data[session]
    ]
    once = list({turn.id: turn for turn in reversed(turns)}.values())[::-1]  # some ids come twice: the first counts
    return Talk(file.stem, once, list(_read_questions(data["qa"], once)))


def _beam(folder: Path) -> Talk:
    turns: list[Turn] = []
    at = None
    for message in (said for batch in _read(folder / "chat.json") for group in batch["turns"] for said in group):
        at = _time(message["time_anchor"], "%B-%d-%Y") if message.get("time_anchor") else at
        turns.append(Turn(str(message["id"]), message["role"], _BEAM_MARK.sub("", message["content"]), at))
    ids = {turn.id for turn in turns}
    probes = (probe for kind in _read(folder / "probing_questions/probing_questions.json").values() for probe in kind)
    questions = [Asked(probe["question"], frozenset(_numbers(probe.get("source_chat_ids"))) & ids) for probe in probes]
    return Talk(f"BEAM {folder.name}", turns, [asked for asked in questions if asked.evidence], asker="user")


def _read(file: Path) -> Any:
    return json.loads(file.read_text(encoding="utf-8"))


def _sessions(told: dict[str, Any]) -> list[str]:
    numbers = sorted(int(match[1]) for key in told if (match := _SESSION.fullmatch(key)))
    return [f"session_{number}" for number in numbers]


def _time(text: str, form: str) -> float:
    return datetime.strptime(text, form).replace(tzinfo=UTC).timestamp()


def _make_turn(turn: dict[str, Any], text: str, at: float) -> Turn:
    """Return a turn; what a picture shows is part of what was said."""
    caption = turn.get("blip_caption") or ""
    shown = " ".join(caption) if isinstance(caption, list) else caption
    return Turn(turn["dia_id"], turn["speaker"], f"{text} [shares a photo: {shown}]" if shown else text, at)


def _read_questions(questions: Iterable[dict[str, Any]], turns: list[Turn]) -> Iterator[Asked]:
    """Yield the questions whose evidence names turns that there are: ids are written in many ways."""
    ids = {turn.id for turn in turns}
    for question in questions:
        named = _TURN_ID.findall(" ".join(map(str, question.get("evidence") or ())))
        evidence = frozenset(f"D{int(session)}:{int(turn)}" for session, turn in named) & ids
        if evidence:
            yield Asked(question["question"], evidence, str(question.get("answer", "")), question.get("category", 0))


def _numbers(nested: Any) -> Iterator[str]:
    match nested:
        case int():
            yield str(nested)
        case dict():
            yield from _numbers(list(nested.values()))
        case list():
            for each in nested:
                yield from _numbers(each)
