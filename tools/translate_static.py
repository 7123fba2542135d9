"""Make the table of other languages in src/brimful/embedding/data, in the space of the English static table.

    pip install numpy==2.4.6 scipy==1.17.1 pystemmer==3.1.0 jieba==0.42.1 janome==0.5.0
    python tools/translate_static.py SOURCES

Run it whenever the English table changes; it takes about ten minutes. SOURCES is a folder with a git clone of each
repository of SENTENCES, called `owner+name`, and with the archives EMOJI and MAPS, as `npm pack` saves them.
`translate_static.sha256` beside this script lists every file that is read, and its SHA-256. All of them are under CC BY
2.0 FR, Unicode-3.0 or ISC.

The vector of a sentence is a sum over its words, so the rows of a language are a ridge regression: the sum for each
sentence shall equal the sum of the English table for its translation.
"""

import gzip
import hashlib
import json
import math
import re
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.linalg
import scipy.sparse

from brimful.embedding.multilingual import LANGUAGES, LEVELS, STEMMERS, Words, make_words
from brimful.embedding.static import vocabulary
from brimful.embedding.wordpiece import WordPiece

Floats = npt.NDArray[np.float32]
Pair = tuple[str, str, float]
"""An English text, its translation, and its weight."""
Inputs = Mapping[tuple[str, str], bytes]
"""The content of each file, by its source and path."""
Translations = Mapping[tuple[str, str], set[tuple[str, str]]]
"""Sentences and their translations, for each pair of languages in both directions."""

CHALLENGE = "Helsinki-NLP+Tatoeba-Challenge"
SENTENCES = {  # of Tatoeba, CC BY 2.0 FR
    CHALLENGE: "d34a89ac102fd236503a1911dd1050564bf4e682",  # test and development sets only: the rest is not CC BY
    "DarrenCarvalho+Language-Translation": "a30fc3ec31687d0ed561047a9c7d7fdb5915f89c",
    "devdio+flyai_datasets": "683f4c2e6f79feaaac23d55040871a8b80a962cb",
    "13luoyu+Transformer-machine-translation": "aa43963320ccfacebd1d3542deae559bbca58d03",
    "remysys+dl": "115f6b0a52281cabd1828d75ce70f89dd8b903dd",
}
"""The commit of each repository. Those other than the first hold pairs of manythings.org, which come from Tatoeba."""
EMOJI = {
    "annotations": "cldr-annotations-full-48.2.0.tgz",
    "annotationsDerived": "cldr-annotations-derived-full-48.2.0.tgz",
}  # Unicode-3.0
MAPS = "openstreetmap-id-tagging-schema-6.19.2.tgz"  # ISC
HASHES = Path(__file__).with_suffix(".sha256")
CODES = {"de": "deu", "es": "spa", "ru": "rus", "zh": "zho", "ja": "jpn"}  # of Tatoeba
ENGLISH = "eng"
BRIDGED = ("es", "ru")  # with the fewest sentences: they also get those that only a third language links to English
BRIDGES = (*CODES.values(), "epo", "fra", "heb", "hun", "ita", "nld", "pol", "por", "tur", "ukr")
TARGET = Path(__file__).parent.parent / "src" / "brimful" / "embedding" / "data"
MAX_WORDS = 10_000  # of a language
MIN_TEXTS = 2  # that have a word
MAX_LENGTH = 24  # characters of a word; of scripts without spaces a third of that
RIDGE = 0.5
OF_FIELDS = 0.7  # weight of the labels of map data, which are less everyday than its places


def main() -> None:
    """Fit every language, and write the table."""
    if len(sys.argv) != 2:  # noqa: PLR2004 - the script and the folder
        sys.exit(__doc__)
    inputs = read_inputs(Path(sys.argv[1]))
    translations = read_translations(inputs)
    english = English()
    lines, tables = [], []
    for language in LANGUAGES:
        pairs = [*sentences(translations, language), *lexicon(inputs, language)]
        known = choose_words(language, pairs)
        tables.append(fit(make_words(language, known, 0), pairs, english))
        lines.append(" ".join([language, *known]))
        print(language, len(pairs), "pairs,", len(known), "words", flush=True)  # noqa: T201 - a script
    packed, scales = quantize(np.concatenate(tables))
    (TARGET / "languages.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    np.save(TARGET / "languages.npy", packed)
    np.save(TARGET / "languages-scales.npy", scales)


def read_inputs(folder: Path) -> Inputs:
    """Return every file, after checking its hash."""
    inputs = {}
    for line in HASHES.read_text(encoding="utf-8").splitlines():
        expected, source, path = line.split(" ", 2)
        content = _read(folder / source, path, SENTENCES.get(source))
        found = hashlib.sha256(content).hexdigest()
        if found != expected:
            sys.exit(f"{source}: {path} has the SHA-256 {found}, not {expected}")
        inputs[source, path] = content
    return inputs


def _read(source: Path, path: str, commit: str | None) -> bytes:
    """Return one file of a repository at a commit, or of an archive."""
    command = ["git", "-C", str(source), "show", f"{commit}:{path}"] if commit else ["tar", "-xzOf", str(source), path]
    return subprocess.run(command, capture_output=True, check=True).stdout  # noqa: S603 - git and tar


class English:
    """The sums of the English table, not normalized."""

    def __init__(self) -> None:
        rows = np.load(TARGET / "static-minilm-256.npy").astype(np.float32)
        self._rows: Floats = rows * np.load(TARGET / "static-minilm-256-scales.npy")[:, None]
        self._pieces = WordPiece(vocabulary())

    def sums(self, texts: list[str]) -> Floats:
        """Return a row for each text."""
        sums = np.zeros((len(texts), self._rows.shape[1]), np.float32)
        for at, text in enumerate(texts):
            counts = Counter(self._pieces.ids(text))
            sums[at] = np.sqrt(np.fromiter(counts.values(), np.float32)) @ self._rows[list(counts)]
        return sums


def read_translations(inputs: Inputs) -> Translations:
    """Return all sentences of Tatoeba."""
    translations = defaultdict(set)
    for (source, path), content in inputs.items():
        if source in SENTENCES:
            ours, theirs, columns = _layout(source, path)
            text = gzip.decompress(content) if path.endswith(".gz") else content
            for line in text.decode("utf-8-sig").split("\n"):
                one, other = [*(cell.strip() for cell in line.split("\t")[columns]), "", ""][:2]
                if one and other:
                    translations[ours, theirs].add((one, other))
                    translations[theirs, ours].add((other, one))
    return translations


def _layout(source: str, path: str) -> tuple[str, str, slice]:
    """Return the languages of a file, and the columns that have their sentences."""
    if source != CHALLENGE:
        return ENGLISH, {"deu": "deu", "jpn": "jpn", "cmn": "zho"}[Path(path).stem], slice(0, 2)
    ours, theirs = re.findall(r"\b([a-z]{3})-([a-z]{3})(?=[_./])", path)[-1]
    return ours, theirs, slice(2, 4)


def sentences(translations: Translations, language: str) -> Iterator[Pair]:
    """Return the sentences of a language. One with several translations counts less each time."""
    rows = set(translations[ENGLISH, CODES[language]])
    if language in BRIDGED:
        rows |= set(_bridged(translations, CODES[language]))
    repeats = Counter(translation for _, translation in rows)
    return ((text, translation, 1 / math.sqrt(repeats[translation])) for text, translation in sorted(rows))


def _bridged(translations: Translations, code: str) -> Iterator[tuple[str, str]]:
    """Return sentences without an English translation, with that of their translation into a third language."""
    known = {sentence for sentence, _ in translations[code, ENGLISH]}
    for bridge in BRIDGES:
        english = dict(sorted(translations[bridge, ENGLISH]))  # one of several translations
        for sentence, other in translations[code, bridge]:
            if sentence not in known and other in english:
                yield english[other], sentence


def lexicon(inputs: Inputs, language: str) -> Iterator[Pair]:
    """Return names and keywords of emoji, and of places and their properties on maps."""
    for key, package in EMOJI.items():
        ours, theirs = (
            json.loads(inputs[package, f"package/{key}/{each}/annotations.json"])[key]["annotations"]
            for each in ("en", language)
        )
        for emoji in [emoji for emoji in ours if emoji in theirs]:
            for part in ("tts",) if key == "annotationsDerived" else ("tts", "default"):
                yield from _pair(" ".join(ours[emoji].get(part, [])), " ".join(theirs[emoji].get(part, [])))
    ours, theirs = (
        json.loads(inputs[MAPS, f"package/dist/translations/{each}.json"])[each]["presets"]
        for each in ("en", {"zh": "zh-CN"}.get(language, language))
    )
    for id, place in ours["presets"].items():
        other = theirs["presets"].get(id, {})
        yield from _pair(place.get("name"), other.get("name"))
        if place.get("terms") and other.get("terms"):
            yield from _pair(f"{place['name']} {place['terms']}", f"{other.get('name', '')} {other['terms']}")
    for id, field in ours["fields"].items():
        other = theirs["fields"].get(id, {})
        yield from _pair(field.get("label"), other.get("label"), OF_FIELDS)
        for option, label in _options(field).items():
            yield from _pair(_title(label), _title(_options(other).get(option)), OF_FIELDS)


def _options(field: dict[str, Any]) -> dict[str, Any]:
    options = field.get("options")
    return options if isinstance(options, dict) else {}


def _title(label: Any) -> str | None:
    title = label.get("title") if isinstance(label, dict) else label
    return title if isinstance(title, str) else None


def _pair(text: str | None, translation: str | None, weight: float = 1.0) -> Iterator[Pair]:
    if text and translation:
        yield text, translation, weight


def choose_words(language: str, pairs: list[Pair]) -> list[str]:
    """Return the most common words of a language, and the characters of scripts without spaces."""
    texts: Counter[str] = Counter()
    characters: Counter[str] = Counter()
    empty = Words(language, {}, 1)
    cut = None if language in STEMMERS else _segmenter(language)
    for _, translation, _ in pairs:
        for unit in empty.units(translation, functional=True):
            texts.update([unit] if cut is None else list(dict.fromkeys(cut(unit))))
            characters.update(list(dict.fromkeys(unit)) if cut else ())
    longest = MAX_LENGTH if cut is None else MAX_LENGTH // 3
    words = [word for word in _common(texts) if len(word) <= longest]
    return list(dict.fromkeys([*words[:MAX_WORDS], *_common(characters)]))[:MAX_WORDS]


def _common(counts: Counter[str]) -> list[str]:
    """Return what occurs often enough, most common first; of equally common ones, what comes first in the texts."""
    return [each for each, count in counts.most_common() if count >= MIN_TEXTS]


def _segmenter(language: str) -> Callable[[str], list[str]]:
    if language == "zh":
        import jieba  # noqa: PLC0415 - for one language only

        return lambda run: list(jieba.cut(run))
    from janome.tokenizer import Tokenizer  # noqa: PLC0415 - for one language only

    tokenizer = Tokenizer()
    return lambda run: list(tokenizer.tokenize(run, wakati=True))


def fit(words: Words, pairs: list[Pair], english: English) -> Floats:
    """Return the rows of the words, by ridge regression. Long texts count less than by their length."""
    starts, columns, values, weights = [0], list[int](), list[float](), list[float]()
    for _, translation, weight in pairs:
        counts = Counter(row for unit in words.units(translation, functional=True) for row in words.find(unit))
        columns += counts
        values += [math.sqrt(count) for count in counts.values()]
        starts.append(len(columns))
        weights.append(math.sqrt(weight / math.sqrt(max(1, counts.total()))))
    scale = np.array(weights, np.float32)
    texts = scipy.sparse.csr_matrix((np.array(values, np.float32), columns, starts), (len(pairs), len(words.rows)))
    texts = scipy.sparse.diags(scale) @ texts
    targets = english.sums([text for text, _, _ in pairs]) * scale[:, None]
    normal = (texts.T @ texts).toarray().astype(np.float32)
    normal[np.diag_indices_from(normal)] += RIDGE
    factor = scipy.linalg.cho_factor(normal, lower=True, overwrite_a=True, check_finite=False)
    rows: Floats = scipy.linalg.cho_solve(factor, (texts.T @ targets).astype(np.float32), check_finite=False)
    return rows


def quantize(table: Floats) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.float16]]:
    """Return two bits for each number, four numbers in a byte, and the scale of each row."""
    deviations = np.sqrt((table**2).mean(1, keepdims=True))
    levels = np.array(LEVELS, np.float32)
    bounds = (levels[1:] + levels[:-1]) / 2
    codes = np.searchsorted(bounds, table / np.maximum(deviations, 1e-9)).astype(np.uint8)
    chosen = levels[codes]
    scales = (chosen * table).sum(1) / (chosen**2).sum(1)
    quads = codes.reshape(len(table), -1, 4)
    packed = (quads << np.array([0, 2, 4, 6], np.uint8)).sum(2).astype(np.uint8)
    return packed, scales.astype(np.float16)


if __name__ == "__main__":
    main()
