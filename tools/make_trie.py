"""Make src/brimful/counting/data/o200k_base.trie: all tokens of the vocabulary, for `brimful.counting.small_texts`.

    python tools/make_trie.py

A test compares the file with the vocabulary.
"""

from array import array
from itertools import groupby

from splintr import Tokenizer

from brimful.counting.small_texts import NO_TOKEN, trie_path

NAME = "o200k_base"
SIZE = 199_998  # tokens; all later ones are special


def main() -> None:
    """Write the file."""
    vocabulary = Tokenizer.from_pretrained(NAME)
    tokens = {vocabulary.decode_token_bytes(id): id for id in range(SIZE)}
    trie_path(NAME).write_bytes(make_trie(tokens))


def make_trie(tokens: dict[bytes, int]) -> bytes:
    """Return the trie of tokens."""
    labels, first, ends = bytearray(1), array("I"), array("I")
    nodes = [(0, sorted(tokens))]  # the length of a prefix, and all tokens that begin with it
    for depth, longer in nodes:
        own = longer and len(longer[0]) == depth
        ends.append(tokens[longer[0]] if own else NO_TOKEN)
        first.append(len(nodes))
        for label, group in groupby(longer[1:] if own else longer, key=lambda token: token[depth]):
            labels.append(label)
            nodes.append((depth + 1, list(group)))
    first.append(len(nodes))
    return first.tobytes() + ends.tobytes() + bytes(labels)


if __name__ == "__main__":
    main()
