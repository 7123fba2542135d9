"""Write src/brimful/embedding/data/characters.toml: how `tokenizers` classes every character there is.

    python tools/freeze_characters.py

Needs the `tokenizers` package, which is asked about each code point in turn. Its tables stand at Unicode 8.
"""

import unicodedata
from collections.abc import Iterable
from pathlib import Path
from textwrap import wrap

from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer

TARGET = Path(__file__).parent.parent / "src" / "brimful" / "embedding" / "data" / "characters.toml"
SURROGATES = range(0xD800, 0xE000)
EVERY = [chr(point) for point in range(0x110000) if point not in SURROGATES]
HEAD = "# Made by tools/freeze_characters.py: code points in hexadecimal, first-last.\n"


def main() -> None:
    """Ask about every character, and write what was said."""
    normalizer, splitter = BertNormalizer(), BertPreTokenizer()
    removed = [character for character in EVERY if not normalizer.normalize_str(character)]
    controls = [character for character in removed if unicodedata.category(character).startswith("C")]
    classes = {
        "controls": controls,
        "marks": sorted(set(removed) - set(controls)),
        "punctuation": [c for c in EVERY if len(splitter.pre_tokenize_str(f"a{c}b")) == len("a.b")],
        "ideographs": [
            c
            for c in EVERY
            if len(normalizer.normalize_str(c).strip(" ")) != len(normalizer.normalize_str(c))
            and normalizer.normalize_str(c).strip(" ")
        ],
    }
    TARGET.write_text(HEAD + "".join(map(_lines, classes, classes.values())), encoding="utf-8")


def _lines(name: str, characters: Iterable[str]) -> str:
    rows = "\n".join(wrap(" ".join(_ranges(map(ord, characters))), 116, break_on_hyphens=False))
    return f'\n{name} = """\n{rows}\n"""\n'


def _ranges(points: Iterable[int]) -> Iterable[str]:
    first = last = -2
    for point in (*points, -2):
        if point == last + 1:
            last = point
            continue
        if first >= 0:
            yield f"{first:x}" if first == last else f"{first:x}-{last:x}"
        first = last = point


if __name__ == "__main__":
    main()
