"""Collect the texts and the questions that `tools/train_embedders.py` learns from, out of public sources.

    python tools/training_data.py CLONES WORDNET data.json.xz

CLONES is a folder with a git clone of each repository of SOURCES, called `owner+name`; WORDNET is the folder of WordNet
3.0's database files (Debian's package wordnet-base). All of it is under Apache-2.0, CC BY or WordNet's licence; no part
of it is a data set that `benchmarks/` measures with. The file holds `texts`, `dialogs` (lists of [speaker, text]) and
`pairs` ([question, its words to embed, text that answers it, its speaker, number of its dialog or -1]).
"""

import csv
import html
import io
import json
import lzma
import random
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from brimful.retrieval.queries import parse_question

PERSONAS = "google-research-datasets+Synthetic-Persona-Chat"
TASKS = "google-research-datasets+Taskmaster"
CHANNELS = "HIT-SCIR+Molweni"
HEALTH = "abachaa+MedQuAD"
MANUAL = "kubernetes+website"
COMMANDS = "clinc+oos-eval"
BANKING = "PolyAI-LDN+task-specific-datasets"
ASSISTANT = "xliuhw+NLU-Evaluation-Data"
SENTENCES = {  # of Tatoeba: English, and a translation
    "devdio+flyai_datasets": "jpn.txt",
    "remysys+dl": "data/cmn.txt",
    "DarrenCarvalho+Language-Translation": "data/deu.txt",
}
SOURCES = {
    PERSONAS: "1f367a0f05d388ca96ebbbc9e5752ab19ac76510",  # CC BY 4.0
    TASKS: "d92cb6af3005f1dc09c39e75e7daf4a04905e00b",  # CC BY 4.0
    CHANNELS: "2eb681d7e610ee3fda4ab3b4cc364554bd17ee67",  # Apache-2.0
    HEALTH: "577bd37b96c02d1833b2c9eed2de9f96964e96cb",  # CC BY 4.0
    MANUAL: "56464fe6c846523da555b49fbb012f0e270871ae",  # CC BY 4.0
    "devdio+flyai_datasets": "683f4c2e6f79feaaac23d55040871a8b80a962cb",  # CC BY 2.0 FR
    "remysys+dl": "115f6b0a52281cabd1828d75ce70f89dd8b903dd",  # CC BY 2.0 FR
    "DarrenCarvalho+Language-Translation": "a30fc3ec31687d0ed561047a9c7d7fdb5915f89c",  # CC BY 2.0 FR
    COMMANDS: "828f8093932c8fe6ca7936c3d2e52903b1c523de",  # CC BY 3.0
    BANKING: "57ec275d8078af65b7731c2a98be812d844a6d6b",  # CC BY 4.0
    ASSISTANT: "f6071b496b17d71e6eb43f543af0707f4ff30557",  # CC BY 4.0
}
SPEAKERS = [
    "Ada",
    "Ben",
    "Carla",
    "Dmitri",
    "Elena",
    "Farid",
    "Grace",
    "Hiro",
    "Ines",
    "Jamal",
    "Kofi",
    "Lena",
    "Marco",
    "Nadia",
    "Omar",
    "Priya",
    "Quinn",
    "Rosa",
    "Sam",
    "Tara",
    "Uma",
    "Victor",
    "Wendy",
    "Yusuf",
    "Zoe",
]
MAX_CHARS = 2_500
CONCRETE = {"04", "05", "06", "10", "13", "18", "20"}  # acts, animals, artifacts, works, food, people, plants
REDUCED = 150_000  # texts that are also learned as the engine embeds them when they are a query
SHARE = 0.6  # of a sentence's words that ask for the passage around it
MAX_MEANINGS = 3  # of a word, whose first is then likely what is meant
PER_KIND = 40  # questions about one kind of thing, so that common kinds do not crowd out the others
KIND_TEMPLATES = (
    "What {kind} does {name} mention?",
    "Which {kind} did {name} talk about?",
    "What kind of {kind} does {name} have?",
    "What {kind} does {name} like?",
    "Which {kind} has {name} tried?",
)
# A question to somebody becomes a question about that person.
THIRD_PERSON = (
    (r"\bare you\b", "is {name}"),
    (r"\bwere you\b", "was {name}"),
    (r"\bdo you\b", "does {name}"),
    (r"\bhave you\b", "has {name}"),
    (r"\byou are\b|\byou're\b", "{name} is"),
    (r"\byou have\b", "{name} has"),
    (r"\byours?\b", "{name}'s"),
    (r"\byou\b", "{name}"),
)


@dataclass
class Collection:
    """What is collected, and the source of chance."""

    clones: Path
    chance: random.Random = field(default_factory=lambda: random.Random(7))  # noqa: S311 - no secret
    texts: set[str] = field(default_factory=set)
    dialogs: list[list[tuple[str, str]]] = field(default_factory=list)
    pairs: list[tuple[str, str, str, str, int]] = field(default_factory=list)

    def add(self, *texts: str, words: int = 3) -> None:
        """Add texts of at least so many words."""
        self.texts.update(text for text in texts if len(text.split()) >= words and len(text) < MAX_CHARS)

    def ask(self, question: str, answer: str, speaker: str = "", dialog: int = -1) -> None:
        """Add a question with the text that answers it."""
        words = parse_question(question, speakers=[speaker] if speaker else []).meaning
        self.pairs.append((question, words, answer, speaker, dialog))
        self.texts.update((question, words))

    def show(self, repository: str, *paths: str) -> list[str]:
        """Return files of a repository at its commit."""
        names = "".join(f"{SOURCES[repository]}:{path}\n" for path in paths)
        output = self._git(repository, "cat-file", "--batch", stdin=names)
        files, start = [], 0
        while start < len(output):
            end = output.index(b"\n", start)
            size = int(output[start:end].split()[2])
            files.append(output[end + 1 : end + 1 + size].decode("utf-8", "replace"))
            start = end + size + 2
        return files

    def paths(self, repository: str, folder: str, ending: str) -> list[str]:
        """Return the paths of a folder's files."""
        listing = self._git(repository, "ls-tree", "-r", "--name-only", SOURCES[repository], folder)
        return [path for path in listing.decode().splitlines() if path.endswith(ending)]

    def _git(self, repository: str, *arguments: str, stdin: str = "") -> bytes:
        command = ["git", "-C", str(self.clones / repository), *arguments]
        return subprocess.run(command, input=stdin.encode(), capture_output=True, check=True).stdout  # noqa: S603 - git


def personas(data: Collection) -> None:
    """Read chats of two made-up people: a question is answered by the next turn."""
    for part in ("valid", "test"):
        [table] = data.show(PERSONAS, f"data/Synthetic-Persona-Chat_{part}.csv")
        for first, second, chat, *_ in csv.reader(io.StringIO(table)):
            names = data.chance.sample(SPEAKERS, 2)
            turns = []
            for number, text in re.findall(r"^User (\d): (.*)$", chat, re.MULTILINE):
                named = text.replace("[User 1's name]", names[0]).replace("[User 2's name]", names[1])
                turns.append((names[int(number) - 1], named.strip()))
            if len(turns) < 6:  # noqa: PLR2004 - the heading, and chats that broke off
                continue
            data.add(*first.splitlines(), *second.splitlines(), *(text for _, text in turns))
            data.dialogs.append(turns)
            for (asker, text), (speaker, answer) in pairwise(turns):
                asked = [each for each in sentences(text) if re.search(r"\byou.*\?$", each, re.IGNORECASE)]
                if asked and asker != speaker and len(answer.split()) > 4:  # noqa: PLR2004 - more than "Yes, I do."
                    data.ask(about(asked[-1], speaker), answer, speaker, len(data.dialogs) - 1)


def about(question: str, name: str) -> str:
    """Turn a question to somebody into a question about that person.

    >>> about("Do you like your job?", "Ada")
    "Does Ada like Ada's job?"
    """
    for pattern, replacement in THIRD_PERSON:
        question = re.sub(pattern, replacement.format(name=name), question, flags=re.IGNORECASE)
    return question[0].upper() + question[1:]


def tasks(data: Collection) -> None:
    """Read what people say to assistants that book and order things."""
    for path in data.paths(TASKS, "TM-4-2024/data", ".json"):
        [file] = data.show(TASKS, path)
        data.add(*(turn["text"].strip() for dialog in json.loads(file) for turn in dialog["utterances"]), words=4)


def channels(data: Collection) -> None:
    """Read chats of many people about computers, with questions whose answer is a piece of a turn."""
    [file, *parsed] = data.show(CHANNELS, "MRC(withDiscourse)/test.json", "DP/dev.json", "DP/test.json")
    for dialog in json.loads(file)["data"]["dialogues"]:
        turns = [(turn["speaker"], turn["text"]) for turn in dialog["edus"]]
        data.dialogs.append(turns)
        for entry in dialog["qas"]:
            answer = (entry.get("answers") or [{"text": ""}])[0]["text"].lower()
            found = next(((who, text) for who, text in turns if answer and answer in text.lower()), None)
            if found:
                data.ask(entry["question"], found[1], found[0], len(data.dialogs) - 1)
    data.add(*(text for turns in data.dialogs for _, text in turns), words=4)
    for file in parsed:
        data.add(*(turn["text"] for dialog in json.loads(file) for turn in dialog["edus"]), words=4)


def health(data: Collection) -> None:
    """Read questions and answers of institutes of health: the first two sentences answer."""
    for file in data.show(HEALTH, *data.paths(HEALTH, ".", ".xml")):
        for question, answer in re.findall(
            r"<Question[^>]*>(.*?)</Question>.*?<Answer>(.*?)</Answer>", file, flags=re.DOTALL
        ):
            text = re.sub(r"\s+", " ", html.unescape(answer)).strip()
            if parts := sentences(text):
                data.add(*parts[:6])
                data.add(" ".join(text.split()[: data.chance.randrange(60, 240)]), words=60)
                if data.chance.random() < 0.5:  # noqa: PLR2004 - many of them are alike
                    data.ask(html.unescape(question).strip(), " ".join(parts[:2]))


def manual(data: Collection) -> None:
    """Read paragraphs, sentences and passages of a manual. Words of a sentence ask for the passage around it."""
    for file in data.show(MANUAL, *data.paths(MANUAL, "content/en", ".md")):
        text = re.sub(r"^---.*?---", "", file, count=1, flags=re.DOTALL)
        text = re.sub(r"```.*?```|\{\{.*?\}\}|<[^>]+>", "", text, flags=re.DOTALL)
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
        for paragraph in re.split(r"\n\s*\n", text):
            line = re.sub(r"\s+", " ", paragraph).strip(" #*-")
            if not line.startswith("|") and len(line.split()) <= 90:  # noqa: PLR2004 - no tables, no lists
                data.add(line, *sentences(line)[:2], words=6)
        words = text.split()
        for start in range(0, len(words) - 60, 400):
            run = " ".join(words[start : start + data.chance.randrange(60, 240)])
            data.add(run)
            if parts := sentences(run):
                words_of_one = parse_question(data.chance.choice(parts)).meaning.split()
                some = [word for word in words_of_one if data.chance.random() < SHARE]
                if len(some) > 1 and len(run) < MAX_CHARS:
                    data.ask(" ".join(some), run)


def long_turns(data: Collection) -> None:
    """Join turns, since users also write long messages."""
    for turns in data.dialogs:
        for start in range(0, len(turns) - 6, 6):
            data.add(" ".join(text for _, text in turns[start : start + data.chance.randrange(3, 12)]))


def sentences_of_learners(data: Collection) -> None:
    """Read short everyday sentences. Those that have a translation in common mean the same."""
    for repository, path in SENTENCES.items():
        [file] = data.show(repository, path)
        meanings: dict[str, list[str]] = {}
        for english, translation, *_ in (line.split("\t") for line in file.splitlines()):
            data.add(english)
            meanings.setdefault(translation, []).append(english)
        for alike in meanings.values():
            for one, other in pairwise(dict.fromkeys(alike)):
                if not terms(one) & terms(other) and min(len(one.split()), len(other.split())) > 2:  # noqa: PLR2004
                    data.ask(one, other)


def terms(text: str) -> set[str]:
    """Return the words of a text that are not function words."""
    return set(parse_question(text, with_synonyms=False).terms)


def commands(data: Collection) -> None:
    """Read what people ask of assistants and of a bank."""
    [file] = data.show(COMMANDS, "data/data_full.json")
    data.add(*(text for part in json.loads(file).values() for text, _ in part))
    [table] = data.show(BANKING, "banking_data/train.csv")
    data.add(*(text.strip() for text, *_ in csv.reader(io.StringIO(table))))
    folder = "CrossValidation/out4RasaReal/rasa_json_2018_03_22-13_01_25_169_80Train/CrossValidation"
    for path in data.paths(ASSISTANT, folder, ".json"):
        if "/merged/" in path:
            [file] = data.show(ASSISTANT, path)
            data.add(*(each["text"] for each in json.loads(file)["rasa_nlu_data"]["common_examples"]))


@dataclass(frozen=True)
class Synset:
    """Words of one meaning, what they mean, what they are a kind of, and the number of their field."""

    words: list[str]
    gloss: str
    kinds: list[str]
    field: str


def synsets(folder: Path, part: str) -> dict[str, Synset]:
    """Read a database file of WordNet (wndb(5WN)) by offset."""
    found = {}
    for line in (folder / f"data.{part}").read_text(encoding="latin-1").splitlines():
        if line.startswith("  "):  # the licence
            continue
        head, gloss = line.split("|", 1)
        fields = head.split()
        count = int(fields[3], 16)
        words = [word.split("(")[0].replace("_", " ") for word in fields[4 : 4 + 2 * count : 2]]
        pointers = fields[5 + 2 * count :]
        kinds = [pointers[at + 1] for at in range(0, len(pointers) - 3, 4) if pointers[at] == "@"]
        found[fields[0]] = Synset(words, gloss.strip(), kinds, fields[1])
    return found


def definitions(data: Collection, folder: Path) -> None:
    """Read definitions and examples of words."""
    for part in ("noun", "verb", "adj", "adv"):
        for synset in synsets(folder, part).values():
            definition, *examples = (each.strip().strip('"') for each in synset.gloss.split(";"))
            word = synset.words[0]
            data.add(*synset.words, words=1)
            data.add(definition, f"{word}: {definition}")
            data.add(*examples, words=4)
            if part == "noun" and data.chance.random() < 0.12:  # noqa: PLR2004 - as many as chats give
                data.ask(data.chance.choice((f"What is {word}?", word)), definition)


def kinds(data: Collection, folder: Path) -> None:
    """Ask for a kind where a turn names an instance: "What instrument does Ada mention?" for a turn about a cello."""
    nouns = synsets(folder, "noun")
    first = {}  # the first and most frequent meaning of each word
    for line in (folder / "index.noun").read_text(encoding="latin-1").splitlines():
        fields = line.split()
        if line.startswith("  "):  # the licence
            continue
        synset, meanings = nouns[fields[-int(fields[2])]], int(fields[2])
        if meanings <= MAX_MEANINGS and synset.field in CONCRETE:
            first[fields[0]] = synset
    asked: dict[str, int] = {}
    for number, turns in enumerate(data.dialogs):
        for speaker, text in turns:
            for kind, word in _kinds(text, first, nouns):
                if asked.get(kind, 0) < PER_KIND and kind not in text.lower() and word not in kind:
                    asked[kind] = asked.get(kind, 0) + 1
                    data.ask(data.chance.choice(KIND_TEMPLATES).format(kind=kind, name=speaker), text, speaker, number)


def _kinds(text: str, first: dict[str, Synset], nouns: dict[str, Synset]) -> Iterator[tuple[str, str]]:
    """Yield the kinds that words of a text belong to, one and two steps up."""
    for word in sorted(set(re.findall(r"\b[a-z]{4,}\b", text))):  # not names, which begin with a capital
        synset = first.get(word) or first.get(word.removesuffix("s"))
        for offset in synset.kinds[:1] if synset else ():
            yield nouns[offset].words[0].lower(), word
            for above in nouns[offset].kinds[:1]:
                yield nouns[above].words[0].lower(), word


def reduce(data: Collection) -> None:
    """Reduce some texts to what the engine embeds when they are a query."""
    short = [text for text in sorted(data.texts) if 3 < len(text.split()) < 40]  # noqa: PLR2004 - as messages are
    for text in data.chance.sample(short, REDUCED):
        data.add(parse_question(text, with_synonyms=False).meaning, words=1)


def sentences(text: str) -> list[str]:
    """Split a text into its sentences of 3 to 60 words."""
    return [each.strip() for each in re.split(r"(?<=[.!?])\s+", text) if 3 <= len(each.split()) <= 60]  # noqa: PLR2004


def main(clones: Path, wordnet: Path, target: Path) -> None:
    """Write the file."""
    data = Collection(clones)
    personas(data)
    kinds(data, wordnet)
    channels(data)
    tasks(data)
    sentences_of_learners(data)
    commands(data)
    definitions(data, wordnet)
    health(data)
    manual(data)
    long_turns(data)
    reduce(data)
    texts = sorted(data.texts)
    data.chance.shuffle(texts)
    data.chance.shuffle(data.pairs)
    with lzma.open(target, "wt", preset=2) as file:
        json.dump({"texts": texts, "dialogs": data.dialogs, "pairs": data.pairs}, file, ensure_ascii=False)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
