"""Recall in six languages: the same facts among the same everyday notes, asked for in other words.

`language_notes.tsv` has a line for each note, with a column for each language. A fact is followed by its question. The
facts with an odd number are the test half: look at their recall only to report it, never to choose between ways.
"""

import argparse
import asyncio
import csv
from dataclasses import dataclass
from pathlib import Path

from brimful.engine import Engine
from brimful.records import Memory
from tables import Section, percent, table

FILE = Path(__file__).with_name("language_notes.tsv")
LANGUAGES = {"en": "English", "de": "German", "es": "Spanish", "ru": "Russian", "zh": "Chinese", "ja": "Japanese"}
FIRST = 10  # hits in which a fact must be
BEFORE = "15 % in German, 35 % in Spanish, 50 % in Russian, 45 % in Chinese and 60 % in Japanese"


@dataclass(frozen=True, slots=True)
class Notes:
    """The notes in one language, by id, and for each fact the question that asks for it."""

    texts: dict[str, str]
    questions: dict[str, str]


def read(language: str) -> Notes:
    """Return the notes in one language."""
    texts: dict[str, str] = {}
    questions: dict[str, str] = {}
    with FILE.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
            if row["kind"] == "question":
                questions[list(texts)[-1]] = row[language]
            else:
                texts[f"{row['kind']}-{len(texts)}"] = row[language]
    return Notes(texts, questions)


def ranks(language: str, embedder: str | None) -> dict[str, int]:
    """Return the rank of each fact when its question is asked. A fact that is not found comes after all others."""
    return asyncio.run(_ranks(read(language), embedder))


async def _ranks(notes: Notes, embedder: str | None) -> dict[str, int]:
    async with Engine("sqlite://", embedder=embedder) as engine:
        await engine.remember_many([Memory(id=id, content=text) for id, text in notes.texts.items()])
        await engine.wait_indexed()
        found: dict[str, int] = {}
        for fact, question in notes.questions.items():
            hits = [hit.record.id for hit in await engine.search(question, limit=len(notes.texts))]
            found[fact] = hits.index(fact) + 1 if fact in hits else len(notes.texts)
        return found


def is_test(fact: str) -> bool:
    """Return whether a fact belongs to the test half."""
    return int(fact.rpartition("-")[2]) % 2 == 1


def recall(ranked: dict[str, int], *, test: bool) -> float:
    """Return the share of one half of the facts among the first hits."""
    half = [rank for fact, rank in ranked.items() if is_test(fact) == test]
    return sum(rank <= FIRST for rank in half) / len(half)


def report(*, quick: bool) -> Section:
    """Measure each language with words alone, and with the built-in embedder."""
    embedders = ("static",) if quick else (None, "static")
    rows = []
    for code, name in LANGUAGES.items():
        ranked = [ranks(code, embedder) for embedder in embedders]
        rows.append([name, *(percent(recall(each, test=half)) for each in ranked for half in (False, True))])
    head = [f"{embedder or 'words alone'}, {half}" for embedder in embedders for half in ("development", "test")]
    notes = read("en")
    return Section(
        title="Languages",
        about=f"{len(notes.questions)} facts among {len(notes.texts)} everyday notes, the same in six languages, each "
        f"asked for in other words: the share of facts that are among the first {FIRST} hits. Only the development "
        "half was used to choose between ways. Before, when the table knew English alone and all words "
        f"were stemmed as English, the static table found {percent(0.9)} of the development half in English, {BEFORE}. "
        "`python benchmarks/multilingual.py`",
        tables=(table(["language", *head], rows),),
    )


def main() -> None:
    """Print the figures, or the ranks of the development half."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--misses", action="store_true", help="list the facts of the development half that are missed")
    parser.add_argument("--embedder", default="static", help="the embedder of --misses; empty for words alone")
    options = parser.parse_args()
    if not options.misses:
        print(report(quick=False).markdown())
        return
    for code in LANGUAGES:
        notes, ranked = read(code), ranks(code, options.embedder or None)
        print(code, percent(recall(ranked, test=False)))
        for fact, rank in ranked.items():
            if rank > FIRST and not is_test(fact):
                print(f"  {rank:3}  {notes.questions[fact]}  {notes.texts[fact]}")


if __name__ == "__main__":
    main()
