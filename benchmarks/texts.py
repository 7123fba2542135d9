"""Texts to measure on: those of a folder of real data, or the manual and the sources that ship with Python.

Nothing is invented for a tokenizer: the seed only chooses which sentences stand together.
"""

import argparse
import inspect
import json
import random
import re
import typing
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from pydoc_data.topics import topics

MOST_CHARACTERS = 8_000_000  # of a data folder: more would only take time to read
SHORTEST_SENTENCE = 20  # characters: leaves out ids, dates and single words

_OTHER_SCRIPTS = (
    "今天的会议改到下午三点，请大家提前准备好材料。",
    "这个函数在输入为空的时候会抛出异常，需要先检查。",
    "我昨天把报告发给你了，你有时间看一下吗？",
    "请把所有超过一千字的段落拆成更短的句子。",
    "明日の天気は晴れのち曇りで、気温は二十度くらいです。",
    "このエラーは設定ファイルの読み込みに失敗したときに出ます。",
    "来週の水曜日までに見積もりを送っていただけますか。",
    "회의 시간은 오후 세 시로 변경되었습니다.",
    "이 함수는 입력이 비어 있으면 예외를 발생시킵니다.",
    "Встреча перенесена на три часа, подготовьте материалы заранее.",
    "यह फ़ंक्शन खाली इनपुट पर अपवाद देता है।",
    "تم تغيير موعد الاجتماع إلى الساعة الثالثة بعد الظهر.",
    "Ship it 🚀🚀 and tell the team 🎉 — 👩‍👩‍👧‍👦 and 🇯🇵 too!",
)


class Texts:
    """A seeded source of texts; equal seeds over equal data give equal texts."""

    def __init__(self, seed: int, data: Path | None = None) -> None:
        """Choose by `seed` from the texts in the folder `data`, or from Python's own."""
        self._random = random.Random(seed)
        self._sentences = _sentences(data)

    def number(self, low: int, high: int) -> int:
        """Return a number between the two."""
        return self._random.randint(low, high)

    def prose(self, characters: int) -> str:
        """Return sentences of about that many characters together."""
        return " ".join(self._some(self._sentences, characters))

    def other_scripts(self, characters: int) -> str:
        """Return sentences in other scripts than Latin, and emoji."""
        return "".join(self._some(_OTHER_SCRIPTS, characters))

    def code(self, characters: int) -> str:
        """Return lines of Python from some place of its standard library."""
        source = _source()
        start = self._random.randrange(max(1, len(source) - characters))
        return source[start : start + characters]

    def record(self) -> str:
        """Return what a tool might answer: a small JSON object."""
        row = {
            "id": f"#W{self.number(1_000_000, 9_999_999)}",
            "status": self._random.choice(["pending", "delivered", "cancelled"]),
            "amount": self.number(100, 99_999) / 100,
            "note": self.prose(120),
        }
        return json.dumps(row, ensure_ascii=False)

    def any(self, characters: int) -> str:
        """Return prose, more seldom code, a record or another script."""
        kind = self._random.random()
        if kind < 0.6:
            return self.prose(characters)
        if kind < 0.8:
            return self.code(characters)
        if kind < 0.9:
            return self.other_scripts(characters // 2)
        return self.record()

    def mixed(self, characters: int) -> str:
        """Return one long text of all sorts."""
        parts: list[str] = []
        length = 0
        while length < characters:
            parts.append(self.any(self.number(200, 2_000)))
            length += len(parts[-1])
        return "\n\n".join(parts)[:characters]

    def unicode(self, characters: int) -> str:
        """Return characters from the whole of Unicode, surrogates left out."""
        points = (self._random.randrange(0x20, 0x2FFFF) for _ in range(characters))
        return "".join(chr(point) if not 0xD800 <= point < 0xE000 else "?" for point in points)

    def bytes(self, characters: int) -> str:
        """Return random bytes, read as Latin-1."""
        return self._random.randbytes(characters).decode("latin-1")

    def _some(self, choices: typing.Sequence[str], characters: int) -> Iterator[str]:
        length = 0
        while length < characters:
            sentence = self._random.choice(choices)
            length += len(sentence) + 1
            yield sentence


@cache
def _sentences(data: Path | None) -> list[str]:
    texts = topics.values() if data is None else _strings_in(data)
    sentences = (sentence for text in texts for sentence in re.split(r"(?<=[.!?])\s+", text))
    return [sentence for sentence in sentences if len(sentence) >= SHORTEST_SENTENCE]


def _strings_in(folder: Path) -> Iterator[str]:
    """Yield all strings of the folder's JSON files, in the order of their paths."""
    length = 0
    for path in sorted(folder.rglob("*.json*")):
        for text in _strings(path):
            yield text
            length += len(text)
            if length > MOST_CHARACTERS:
                return


def _strings(path: Path) -> Iterator[str]:
    content = path.read_text(encoding="utf-8")
    documents = content.splitlines() if path.suffix == ".jsonl" else [content]
    for document in documents:
        yield from _leaves(json.loads(document))


def _leaves(value: object) -> Iterator[str]:
    match value:
        case str():
            yield value
        case dict():
            for child in value.values():
                yield from _leaves(child)
        case list():
            for child in value:
                yield from _leaves(child)


@cache
def _source() -> str:
    return "\n".join(inspect.getsource(module) for module in (argparse, inspect, json, random, typing))
