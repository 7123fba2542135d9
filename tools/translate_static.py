"""Make the table of other languages in src/brimful/embedding/data, in the space of the English static table.

    python tools/translate_static.py FOLDER                    fit the rows of the known words again: run it whenever
                                                               the English table changes
    python tools/translate_static.py FOLDER --new-vocabulary   choose the words as well; needs jieba and janome

The vector of a sentence is a sum over its words, so the rows of a language are a ridge regression: the sum for each
sentence shall equal the sum of the English table for its translation. Needs numpy and scipy, and some minutes.

FOLDER has what docs/embeddings.md names:

    tatoeba.de.tsv and so on    English sentences and their translations, separated by tabs (Tatoeba, CC BY 2.0 FR)
    cldr-annotations-full, cldr-annotations-derived-full    unpacked npm packages, version 48.2.0 (Unicode licence)
    id-tagging-schema           the unpacked npm package @openstreetmap/id-tagging-schema, version 6.19.2 (ISC)
"""

import argparse
import json
import math
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.linalg
import scipy.sparse

from brimful.embedding.multilingual import LANGUAGES, LEVELS, STEMMERS, Words, load_words, make_words
from brimful.embedding.static import vocabulary
from brimful.embedding.wordpiece import WordPiece

Floats = npt.NDArray[np.float32]
Pair = tuple[str, str, float]
"""An English text, its translation, and its weight."""

TARGET = Path(__file__).parent.parent / "src" / "brimful" / "embedding" / "data"
MAX_WORDS = 10_000  # of a language
MIN_TEXTS = 2  # that have a word
MAX_LENGTH = 24  # characters of a word; of scripts without spaces a third of that
RIDGE = 0.5
OF_FIELDS = 0.7  # weight of the labels of map data, which are less everyday than its places


def main() -> None:
    """Fit every language, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--new-vocabulary", action="store_true")
    options = parser.parse_args()
    english = English()
    lines, tables = [], []
    for language in LANGUAGES:
        pairs = [*sentences(options.folder, language), *lexicon(options.folder, language)]
        known = choose_words(language, pairs) if options.new_vocabulary else list(load_words()[language].rows)
        words = make_words(language, known, 0)
        tables.append(fit(words, pairs, english))
        lines.append(" ".join([language, *known]))
        print(language, len(pairs), "pairs,", len(known), "words", flush=True)  # noqa: T201 - a script
    packed, scales = quantize(np.concatenate(tables))
    (TARGET / "languages.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    np.save(TARGET / "languages.npy", packed)
    np.save(TARGET / "languages-scales.npy", scales)


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


def sentences(folder: Path, language: str) -> Iterator[Pair]:
    """Return the translated sentences. One with several translations counts less each time."""
    lines = (folder / f"tatoeba.{language}.tsv").read_text(encoding="utf-8").split("\n")
    rows = [(text, translation) for text, tab, translation in (line.partition("\t") for line in lines) if tab]
    repeats = Counter(translation for _, translation in rows)
    return ((text, translation, 1 / math.sqrt(repeats[translation])) for text, translation in rows)


def lexicon(folder: Path, language: str) -> Iterator[Pair]:
    """Return names and keywords of emoji, and of places and their properties on maps."""
    for package, key in (
        ("cldr-annotations-full", "annotations"),
        ("cldr-annotations-derived-full", "annotationsDerived"),
    ):
        ours, theirs = (
            json.loads((folder / package / key / each / "annotations.json").read_bytes())[key]["annotations"]
            for each in ("en", language)
        )
        for emoji in [emoji for emoji in ours if emoji in theirs]:
            for part in ("tts",) if key == "annotationsDerived" else ("tts", "default"):
                yield from _pair(" ".join(ours[emoji].get(part, [])), " ".join(theirs[emoji].get(part, [])))
    name = {"zh": "zh-CN"}.get(language, language)
    translations = folder / "id-tagging-schema" / "dist" / "translations"
    ours, theirs = (json.loads((translations / f"{each}.json").read_bytes())[each]["presets"] for each in ("en", name))
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
            texts.update({unit} if cut is None else set(cut(unit)))
            characters.update(set(unit) if cut else ())
    longest = MAX_LENGTH if cut is None else MAX_LENGTH // 3
    words = [word for word, count in texts.most_common() if count >= MIN_TEXTS and len(word) <= longest]
    return list(dict.fromkeys([*words[:MAX_WORDS], *(each for each, n in characters.most_common() if n >= MIN_TEXTS)]))[
        :MAX_WORDS
    ]


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
