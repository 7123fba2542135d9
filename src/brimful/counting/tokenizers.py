"""Count tokens by vocabulary name: linear in the input, with special tokens in a text counted as plain text.

Of splintr's methods only `encode_ordinary` ignores special tokens; all others match them, along with tokens that
splintr adds and no model has. So the faster flat methods are used only for texts that cannot contain a special token.
"""

import re
import struct
import threading
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from itertools import compress, groupby, pairwise
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from brimful.core.validation import clean_text
from brimful.counting.small_texts import SmallTextCounter
from brimful.counting.vocabularies import VOCABULARIES, Vocabulary, add_vocabulary, get_vocabulary
from brimful.errors import CountingError

if TYPE_CHECKING:
    from splintr import AnyTokenizer

_NO_TOKENIZERS: Final = (
    "the built-in tokenizers are not installed: install splintr-rs, set `tokenizer` to a tokenizer.json or GGUF file, "
    'or count with the method "approximate"; see docs/dependencies.md'
)
_BYTES_PER_ID: Final = 4  # the flat methods return 32-bit ids
_UNUSUAL_WORD: Final = "qxzjvkwq"  # more than one token in every vocabulary
_BYTES_PER_OFFSET: Final = 8
_LONG_TEXT: Final = 65_536  # characters; from here on, releasing the GIL is worth the overhead


def trie_pattern(words: Iterable[str]) -> str:
    r"""Return a pattern that matches the longest of the words.

    Words with a common prefix share it, as in a trie: a text full of `<|<|<|` is scanned once, not once per word.

    >>> trie_pattern(["<s>", "<sep>", "</s>"])
    '<(?:/s>|s(?:>|ep>))'
    >>> trie_pattern(["a", "ab"])
    'a(?:b)?'
    """
    return _branches(sorted(set(words)))


def _branches(words: list[str]) -> str:
    by_first = {
        first: [word[1:] for word in group] for first, group in groupby(filter(None, words), key=_first_character)
    }
    branches = [re.escape(first) + _branches(rests) for first, rests in by_first.items()]
    if len(branches) == 1 and "" not in words:
        return branches[0]
    optional = "?" if "" in words else ""
    return f"(?:{'|'.join(branches)}){optional}" if branches else ""


def _first_character(word: str) -> str:
    return word[0]


_Result = TypeVar("_Result")


class TextTokenizer(Protocol):
    """Counts texts with one vocabulary."""

    def preload(self) -> None:
        """Load everything, without blocking other threads."""

    def count(self, texts: Sequence[str]) -> list[int]:
        """Count plain texts."""

    def count_special(self, text: str) -> int:
        """Count a text in which special tokens are single tokens."""


_loading = threading.Lock()
_loaded: dict[str, TextTokenizer] = {}
_preloaded: set[str] = set()
_small = {"o200k_base": SmallTextCounter("o200k_base")}


def tokenizer_names() -> tuple[str, ...]:
    return tuple(VOCABULARIES)


def count_text(tokenizer: str, text: str) -> int:
    """Count a text. Special tokens spelled out in it are counted as plain text.

    >>> count_text("o200k_base", "Fill the context window to the brim.")
    8
    >>> count_text("o200k_base", "<|endoftext|>")
    7
    """
    return count_texts(tokenizer, (text,))[0]


def count_texts(tokenizer: str, texts: Sequence[str]) -> list[int]:
    """Count many texts at once.

    >>> count_texts("cl100k_base", ["one", "", "one two"])
    [1, 0, 2]
    """
    if tokenizer not in _loaded and (small := _small.get(tokenizer)):
        counts = map_errors(lambda: small.count([clean_text(text) for text in texts]))
        if counts is not None:
            return counts
    return load_tokenizer(tokenizer).count(texts)


def count_with_special_tokens(tokenizer: str, text: str) -> int:
    """Count a rendered chat template, in which the model's special tokens are single tokens.

    >>> count_with_special_tokens("llama3", "<|eot_id|>"), count_with_special_tokens("llama3", "<|think|>")
    (1, 5)
    """
    return load_tokenizer(tokenizer).count_special(text)


def is_preloaded(tokenizer: str) -> bool:
    """Whether a vocabulary is fully loaded."""
    return tokenizer in _preloaded


def preload(tokenizer: str) -> None:
    """Load a vocabulary completely, without blocking other threads.

    The table for words of several tokens is built when the first such word is counted, which takes longer than loading
    the vocabulary and would block all threads.
    """
    load_tokenizer(tokenizer).preload()
    _preloaded.add(tokenizer)


class _Tokenizer:
    """One loaded vocabulary."""

    def __init__(self, splintr: "AnyTokenizer", vocabulary: Vocabulary, base_size: int) -> None:
        self._splintr = splintr
        self._vocabulary = vocabulary
        self._base_size = base_size
        self._nfc = vocabulary.nfc
        self._always = re.compile(vocabulary.always) if vocabulary.always else None
        self._flat = vocabulary.flat
        self._specials = splintr.special_tokens()
        self._beginnings = tuple(sorted({token[:2] for token in self._specials}))

    # Patterns are compiled when they are first used: most texts need neither.

    @cached_property
    def _special(self) -> re.Pattern[str]:
        """Matches the special tokens of the model."""
        vocabulary = self._vocabulary
        own = {token for token, id in self._specials.items() if id < self._base_size} if vocabulary.own else set()
        return re.compile(trie_pattern((own | set(vocabulary.special)) - set(vocabulary.absent)))

    @cached_property
    def _matched(self) -> re.Pattern[str]:
        """Matches the special tokens that splintr would match."""
        return re.compile(trie_pattern(self._specials))

    def preload(self) -> None:
        """Count a word of several tokens with the method that releases the GIL."""
        map_errors(lambda: self._splintr.encode_batch_flat((_UNUSUAL_WORD,)))

    def count(self, texts: Sequence[str]) -> list[int]:
        return map_errors(lambda: self._count([clean_text(text) for text in texts]))

    def count_special(self, text: str) -> int:
        pieces = self._special.split(clean_text(text))
        return len(pieces) - 1 + sum(map_errors(lambda: self._count([piece for piece in pieces if piece])))

    def _count(self, texts: Sequence[str]) -> list[int]:
        # After the split at special tokens, as the reference does: a combining mark must not swallow a token's end.
        normal = [unicodedata.normalize("NFC", text) for text in texts] if self._nfc else texts
        if self._always is None:
            return self._plain(normal)
        return [self._between(self._always, text) for text in normal]

    def _between(self, always: re.Pattern[str], text: str) -> int:
        pieces = always.split(text)
        return len(pieces) - 1 + sum(self._plain([piece for piece in pieces if piece]))

    def _plain(self, texts: Sequence[str]) -> list[int]:
        flat = [self._flat and not self._spells_out_a_token(text) for text in texts]
        counts = iter(self._count_flat(list(compress(texts, flat))))
        return [
            next(counts) if is_flat else len(self._splintr.encode_ordinary(text))
            for text, is_flat in zip(texts, flat, strict=True)
        ]

    def _count_flat(self, texts: list[str]) -> list[int]:
        if sum(map(len, texts)) < _LONG_TEXT:
            return [len(self._splintr.encode_flat(text)) // _BYTES_PER_ID for text in texts]
        _, offsets = self._splintr.encode_batch_flat(texts)
        ends = struct.unpack(f"<{len(offsets) // _BYTES_PER_OFFSET}Q", offsets)
        return [end - start for start, end in pairwise(ends)]

    def _spells_out_a_token(self, text: str) -> bool:
        # Few texts contain even the first two characters of one, and looking for those is almost free.
        for beginning in self._beginnings:
            if beginning in text:
                return self._matched.search(text) is not None
        return False


def add_tokenizer(name: str, tokenizer: TextTokenizer, vocabulary: Vocabulary) -> None:
    """Add a tokenizer that is not built in."""
    add_vocabulary(name, vocabulary)
    with _loading:
        _loaded[name] = tokenizer


def load_tokenizer(name: str) -> TextTokenizer:
    if (found := _loaded.get(name)) is not None:
        return found
    vocabulary = get_vocabulary(name)
    with _loading:
        if name not in _loaded:
            _loaded[name] = map_errors(lambda: _load(vocabulary))
        return _loaded[name]


def _load(vocabulary: Vocabulary) -> _Tokenizer:
    # Imported on first use: the vocabularies take 38 MB.
    from splintr import Tokenizer, base_vocab_size  # noqa: PLC0415

    return _Tokenizer(Tokenizer.from_pretrained(vocabulary.loads), vocabulary, base_vocab_size(vocabulary.loads))


def map_errors(call: Callable[[], _Result]) -> _Result:
    """Run `call`, and turn everything that splintr raises, including Rust panics, into a `CountingError`.

    It can also be missing, such as on a platform for which it has no wheel.
    """
    try:
        return call()
    except ImportError as error:
        raise CountingError(f"{_NO_TOKENIZERS} ({error})") from error
    except Exception as error:
        raise CountingError(f"the tokenizer failed: {error}") from error
    except BaseException as error:
        # A Rust panic arrives as pyo3's PanicException, which cannot be imported and is not an Exception.
        if type(error).__name__ != "PanicException":
            raise
        raise CountingError(f"the tokenizer panicked: {error}") from error
