"""What BERT's tokenizer takes a character for, frozen as of Unicode 8.

Python's own tables grow with every release, and with them the words that a text is split into; vectors that are kept
for years must not change with the interpreter. So the classes stand in a file, as ranges.
"""

import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Final

import msgspec

_FILE: Final = Path(__file__).with_name("data") / "characters.toml"


class Characters(msgspec.Struct, frozen=True, kw_only=True):
    """Characters by class, each as the ranges within the brackets of a regular expression.

    `controls` cannot be seen, `marks` are accents once they stand alone; both are removed. `punctuation` and
    `ideographs` are words of their own.
    """

    controls: str
    marks: str
    punctuation: str
    ideographs: str


@cache
def characters() -> Characters:
    """Return the classes of characters, read on first use."""
    table = tomllib.loads(_FILE.read_text(encoding="utf-8"))
    return msgspec.convert({name: _brackets(ranges) for name, ranges in table.items()}, Characters)


def _brackets(text: str) -> str:
    r"""Write ranges of code points as a regular expression does.

    >>> _brackets("21-2f 7e")
    '!-/\\~'
    """
    return "".join("-".join(re.escape(chr(int(end, 16))) for end in item.split("-")) for item in text.split())
