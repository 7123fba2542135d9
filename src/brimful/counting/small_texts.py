"""Count small texts without loading a whole vocabulary.

Loading o200k_base takes 0.3 seconds of processor time, more than everything else that a short command does. But a
byte-pair encoder only ever looks up substrings of the text, so an encoder made of the tokens that occur in a text gives
the same result. A trie of all tokens finds them.

`tools/make_trie.py` makes the trie. Its nodes are in breadth-first order, so the children of a node are adjacent. For n
nodes, the file has n + 1 numbers (where the children of each node begin), n numbers (the token that ends at each node)
and n bytes (the last byte of each node). Numbers are 32-bit, little-endian.
"""

import re
import sys
from binascii import b2a_base64
from collections.abc import Iterable, Sequence
from functools import cache
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from splintr import Tokenizer

NO_TOKEN: Final = 0xFFFF_FFFF
"""The number of a node at which no token ends."""

_BYTES_PER_NODE: Final = 9
_BUDGET: Final = 131_072  # characters; counting more of them takes as long as loading the vocabulary
_FIXED_COST: Final = 2_048  # characters that take as long as making an encoder
_BOUNDARY: Final = re.compile("(?<=[!-~])(?= )")  # no token of o200k_base has a space after a visible character


def trie_path(tokenizer: str) -> Path:
    return Path(__file__).with_name("data") / f"{tokenizer}.trie"


class Trie:
    """All tokens of a vocabulary. `tokens` has the token that ends at each node, or `NO_TOKEN`."""

    def __init__(self, data: mmap) -> None:
        nodes = len(data) // _BYTES_PER_NODE
        numbers = memoryview(data)[:-nodes].cast("I")
        self._first = numbers[: nodes + 1]
        self.tokens = numbers[nodes + 1 :]
        self._labels = data[-nodes:]

    def substrings(self, texts: Iterable[bytes]) -> dict[bytes, int]:
        """Return all tokens that are substrings of the texts."""
        first, tokens, find = self._first, self.tokens, self._labels.find
        found = {}
        for text in texts:
            for start in range(len(text)):
                node = 0
                for end in range(start, len(text)):
                    node = find(text[end], first[node], first[node + 1])
                    if node < 0:
                        break
                    if tokens[node] != NO_TOKEN:
                        found[text[start : end + 1]] = tokens[node]
        return found


@cache
def load_trie(tokenizer: str) -> Trie:
    with trie_path(tokenizer).open("rb") as file:
        return Trie(mmap(file.fileno(), 0, access=ACCESS_READ))


class SmallTextCounter:
    """Counts texts until it would have been cheaper to load the whole vocabulary: that is up to `budget` characters."""

    def __init__(self, tokenizer: str, budget: int = _BUDGET) -> None:
        self._tokenizer = tokenizer
        self._budget = budget if sys.byteorder == "little" else 0

    def count(self, texts: Sequence[str]) -> list[int] | None:
        """Count texts, or return None if it is time to load the vocabulary.

        >>> counter = SmallTextCounter("o200k_base", budget=5_000)
        >>> counter.count(["Fill the window.", ""]), counter.count(["x" * 3_000])
        ([4, 0], None)
        """
        cost = _FIXED_COST + sum(map(len, texts))
        if self._budget < cost:
            return None
        self._budget -= cost
        encoder = _make_encoder(load_trie(self._tokenizer), texts)
        return [len(encoder.encode_ordinary(text)) for text in texts]


def _make_encoder(trie: Trie, texts: Iterable[str]) -> "Tokenizer":
    """Return an encoder of all tokens that occur in the texts."""
    from splintr import O200K_BASE_PATTERN, Tokenizer  # noqa: PLC0415 - takes 38 MB

    words = {word.encode() for text in texts for word in _BOUNDARY.split(text)}
    lines = [b"%s %d\n" % (b2a_base64(token, newline=False), id) for token, id in trie.substrings(words).items()]
    return Tokenizer.from_bytes(b"".join(lines), O200K_BASE_PATTERN)
