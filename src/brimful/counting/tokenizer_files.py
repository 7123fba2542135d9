r"""Tokenizers in the user's own files: Hugging Face's `tokenizer.json`, or a GGUF file.

A `tokenizer.json` counts as Hugging Face's libraries do, which are used to read it. Its chat template is in the same
folder: `chat_template.jinja`, or the field `chat_template` of `tokenizer_config.json`.

A GGUF file has both in its metadata, and counts as llama.cpp does. How llama.cpp splits a text into words depends on
the field `tokenizer.ggml.pre`; the patterns come from its `src/llama-vocab.cpp`, read 2026-11.
"""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from brimful.core.model import Runtime
from brimful.core.validation import clean_text
from brimful.counting.gguf import read_metadata
from brimful.counting.tokenizers import TextTokenizer, add_tokenizer, load_tokenizer, map_errors, trie_pattern
from brimful.counting.vocabularies import Vocabulary
from brimful.errors import CountingError

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Encoder

_MAX_JSON_BYTES: Final = 256 * 2**20
_DIGEST_CHARACTERS: Final = 12
_GEMMA_4_TOKENS: Final = 262_144
_NORMAL, _UNKNOWN, _CONTROL, _ADDED = 1, 2, 3, 4  # types of tokens
_WORDS: Final = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)"
_SUFFIX: Final = r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])"
_REST: Final = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_LLAMA_3: Final = (rf"{_SUFFIX}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{{1,3}}|{_REST}",)
_QWEN_2: Final = (rf"{_SUFFIX}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}|{_REST}",)
_SPACES: Final = r"\s*[\r\n]+|\s+(?!\S)|\s+"
_QWEN_3_5: Final = (
    rf"{_SUFFIX}|[^\r\n\p{{L}}\p{{N}}]?[\p{{L}}\p{{M}}]+|\p{{N}}| ?[^\s\p{{L}}\p{{M}}\p{{N}}]+[\r\n]*|{_SPACES}",
)
_UPPER, _LOWER = r"(?:(?=\p{L})[^a-z])", r"(?:(?=\p{L})[^A-Z])"
_CASED: Final = r" ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_TEKKEN: Final = (
    rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+|[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*|\p{{N}}|{_CASED}",
)
_GPT_4O_WORD: Final = (
    rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+{_SUFFIX}?|[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*{_SUFFIX}?"
)
_GPT_4O: Final = (rf"{_GPT_4O_WORD}|\p{{N}}{{1,3}}|{_CASED}",)
_CODER: Final = (r"\p{N}", _WORDS)
_DEEPSEEK_LETTERS: Final = (
    "\\s?["
    "A-Za-z\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u01ba\u01bc-\u01bf\u01c4-\u0293\u0295-\u02af\u0370-\u0373"
    "\u0376\u0377\u037b-\u037d\u037f\u0386\u0388-\u038a\u038c\u038e-\u03a1\u03a3-\u03f5\u03f7-\u0481\u048a-"
    "\u052f\u0531-\u0556\u10a0-\u10c5\u13a0-\u13f5\u13f8-\u13fd\u1c90-\u1cba\u1cbd-\u1cbf\u1d00-\u1d2b\u1d6b-"
    "\u1d77\u1d79-\u1d9a\u1e00-\u1f15\u1f18-\u1f1d\u1f20-\u1f45\u1f48-\u1f4d\u1f50-\u1f57\u1f59\u1f5b\u1f5d"
    "\u1f5f-\u1f7d\u1f80-\u1fb4\u1fb6-\u1fbc\u1fbe\u1fc2-\u1fc4\u1fc6-\u1fcc\u1fd0-\u1fd3\u1fd6-\u1fdb\u1fe0-"
    "\u1fec\u1ff2-\u1ff4\u1ff6-\u1ffc\u2102\u2107\u210a-\u2113\u2115\u2119-\u211d\u2124\u2126\u2128\u212a-"
    "\u212d\u212f-\u2134\u2139\u213c-\u213f\u2145-\u2149\u214e\u2183\u2184\u2c00-\u2c7b\u2c7e-\u2ce4\u2ceb-"
    "\u2cee\u2cf2\u2cf3\ua640-\ua66d\ua680-\ua69b\ua722-\ua76f\ua771-\ua787\ua78b-\ua78e\uab70-\uabbf\ufb00-"
    "\ufb06\ufb13-\ufb17\uff21-\uff3a\uff41-\uff5a\U00010400-\U0001044f\U000104b0-\U000104d3\U000104d8-"
    "\U000104fb\U00010c80-\U00010cb2\U00010cc0-\U00010cf2\U000118a0-\U000118df\U0001e900-\U0001e943"
    "]+"
)
_ASCII_MARKS: Final = r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~]"
_DEEPSEEK_WORDS: Final = r"[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*"
_PATTERNS: Final[dict[str, tuple[str, ...]]] = {
    **dict.fromkeys(
        ("llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2"), _LLAMA_3
    ),
    **dict.fromkeys(("dbrx", "smaug-bpe", "chatglm-bpe", "glm4", "glm5"), _LLAMA_3),
    **dict.fromkeys(("qwen2", "deepseek-r1-qwen", "stablelm2", "hunyuan", "megrez", "grok-2", "solar-open"), _QWEN_2),
    "qwen35": _QWEN_3_5,
    "tekken": _TEKKEN,
    **dict.fromkeys(("gpt-4o", "llama4", "minimax-m2"), _GPT_4O),
    **dict.fromkeys(("starcoder", "refact", "command-r", "smollm", "codeshell", "exaone", "minerva-7b"), _CODER),
    **dict.fromkeys(("gpt-2", "phi-2", "mpt", "olmo", "jais", "exaone4", "gigachat", "trillion"), (_WORDS,)),
    "falcon": (r"[\p{P}\$\+<=>\^~\|`]+", _WORDS, "[0-9][0-9][0-9]"),
    "default": (r"[\p{P}\$\+<=>\^~\|]+", _WORDS, r"\p{N}+", "[0-9][0-9][0-9]"),
    "deepseek-llm": (
        r"[\r\n]",
        _DEEPSEEK_LETTERS,
        "\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+",
        r"\s+$",
        "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+",
        r"\p{N}+",
    ),
    "deepseek-coder": (r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+", r"\p{N}"),
    **dict.fromkeys(
        ("deepseek-v3", "hunyuan-dense", "joyai-llm"),
        (
            r"\p{N}{1,3}",
            "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
            rf"{_ASCII_MARKS}[A-Za-z]+|{_DEEPSEEK_WORDS}|{_SPACES}",
        ),
    ),
}
"""The patterns that split a text into words, one after the other, by the name of the pre-tokenizer."""
_WHOLE_WORDS: Final = (*list(_PATTERNS)[:8], "glm4", "glm5", "tekken")  # words in the vocabulary are not split further
_BOS: Final = (*list(_PATTERNS)[:8], "tekken")  # a text begins with the token for that, unless the file says otherwise
_COMPARED: Final = (
    *list(_PATTERNS)[:8],
    *("qwen2", "deepseek-r1-qwen", "qwen35", "starcoder", "command-r", "gpt-2", "falcon", "deepseek-llm"),
    "deepseek-coder",
)
"""Pre-tokenizers whose counts were compared with a real llama.cpp, by this name or another one for the same rules."""
_ENDS: Final = (  # tokens that llama.cpp takes for the end of a text, or for marks in code, whatever their type
    *("<|eot_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>", "<|endoftext|>", "<|end_of_text|>", "<EOT>", "_<EOT>"),
    *("[EOT]", "<｜end▁of▁sentence｜>", "<end_of_utterance>", "<|eom_id|>", "<|return|>", "<|call|>", "<|flush|>"),
    *("<|calls|>", "</s>", "[EOS]", "<eos>", "<turn|>", "<|tool_response>", "[e~["),
    *("<|fim_prefix|>", "<fim-prefix>", "<fim_prefix>", "<｜fim▁begin｜>", "<PRE>", "▁<PRE>", "<|code_prefix|>"),
    *("<|fim_suffix|>", "<fim-suffix>", "<fim_suffix>", "<｜fim▁hole｜>", "<SUF>", "▁<SUF>", "<|code_suffix|>"),
    *("<|fim_middle|>", "<fim-middle>", "<fim_middle>", "<｜fim▁end｜>", "<MID>", "▁<MID>", "<|code_middle|>"),
    *("<|prefix|>", "<|suffix|>", "<|middle|>", "<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]"),
    *("<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>", "<|file_sep|>"),
)


class TokenizerFile(msgspec.Struct, frozen=True, kw_only=True):
    """A tokenizer that was read from a file. Its name changes with its contents.

    `runtime` is the software that counts like this.
    """

    name: str
    tokenizer: TextTokenizer
    runtime: Runtime
    vocabulary: Vocabulary


def add_tokenizer_file(path: str, runtime: Runtime) -> str:
    """Read a file, and return the name under which its tokenizer counts from now on.

    Its counts are not exact for another runtime than the file's.
    """
    file = read_tokenizer_file(path)
    if file.runtime == runtime:
        add_tokenizer(file.name, file.tokenizer, file.vocabulary)
        return file.name
    name = f"{file.name}/{runtime}"
    add_tokenizer(name, file.tokenizer, msgspec.structs.replace(file.vocabulary, reference=""))
    return name


def read_tokenizer_file(path: str) -> TokenizerFile:
    """Read a `tokenizer.json` or a GGUF file, unless it was read before and has not changed."""
    file = Path(path).expanduser().absolute()
    try:
        state = file.stat()
    except (OSError, ValueError) as error:
        raise CountingError(f"cannot read the tokenizer {path}: {error}") from error
    return _read(file, state.st_mtime_ns, state.st_size)


@lru_cache(16)
def _read(file: Path, changed: int, size: int) -> TokenizerFile:
    del changed
    if file.suffix.lower() == ".gguf":
        return _read_gguf(file)
    if size > _MAX_JSON_BYTES:
        raise CountingError(f"{file} is too large for a tokenizer: {size:,} bytes")
    return _read_json(file)


def _name(file: Path, digest: bytes) -> str:
    return f"{file.name}@{digest.hex()[:_DIGEST_CHARACTERS]}"


# -- Hugging Face ------------------------------------------------------------------------------------------------------


def _read_json(file: Path) -> TokenizerFile:
    text = _read_text(file)
    settings = _read_settings(file.with_name("tokenizer_config.json"))
    template, for_tools = _read_templates(file.with_name("chat_template.jinja"), settings.get("chat_template"))
    plain, rendered = (map_errors(lambda: _load_json(text, file)) for _ in range(2))
    plain.encode_special_tokens = True  # as text
    return TokenizerFile(
        name=_name(file, hashlib.sha256(text.encode()).digest()),
        tokenizer=_JsonTokenizer(plain, rendered),
        runtime="transformers",
        vocabulary=Vocabulary(
            loads=file.name,
            reference="Hugging Face tokenizers",
            bos=_token_text(settings.get("bos_token")),
            eos=_token_text(settings.get("eos_token")),
            template=template,
            tool_template=for_tools,
        ),
    )


def _load_json(text: str, file: Path) -> "Encoder":
    library = _import_tokenizers(file)
    encoder: Encoder = library.Tokenizer.from_str(text)
    encoder.no_truncation()
    encoder.no_padding()
    return encoder


def _import_tokenizers(file: Path) -> Any:
    try:
        import tokenizers  # noqa: PLC0415 - an extra, and slow to import
    except ModuleNotFoundError:
        raise CountingError(
            f"{file} cannot be read without a library. Run: pip install 'brimful[tokenizers]'"
        ) from None
    return tokenizers


def _read_text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CountingError(f"cannot read {file}: {error}") from error


def _read_settings(file: Path) -> Mapping[str, Any]:
    if not file.exists():
        return {}
    try:
        settings = json.loads(_read_text(file))
    except (ValueError, RecursionError) as error:
        raise CountingError(f"{file} is not valid JSON: {error}") from error
    return settings if isinstance(settings, dict) else {}


def _read_templates(file: Path, in_settings: object) -> tuple[str, str]:
    """Return the default template, and the one for requests with tools, if it is another one."""
    if file.exists():
        return _read_text(file), ""
    if isinstance(in_settings, str):
        return in_settings, ""
    listed = in_settings if isinstance(in_settings, list) else []
    named = {each.get("name"): str(each.get("template", "")) for each in listed if isinstance(each, dict)}
    return named.get("default", ""), named.get("tool_use", "")


def _token_text(token: object) -> str:
    """Return a token of the settings, which is a string or an object."""
    text = token.get("content") if isinstance(token, dict) else token
    return text if isinstance(text, str) else ""


class _JsonTokenizer:
    """Counts with Hugging Face's library. `plain` reads special tokens as text."""

    def __init__(self, plain: "Encoder", rendered: "Encoder") -> None:
        self._plain, self._rendered = plain, rendered

    def preload(self) -> None:
        self.count(["a"])

    def count(self, texts: Sequence[str]) -> list[int]:
        return _lengths(self._plain, texts)

    def count_special(self, text: str) -> int:
        return _lengths(self._rendered, (text,))[0]


def _lengths(encoder: "Encoder", texts: Sequence[str]) -> list[int]:
    cleaned = [clean_text(text) for text in texts]
    return [len(one) for one in map_errors(lambda: encoder.encode_batch_fast(cleaned, add_special_tokens=False))]


# -- llama.cpp ---------------------------------------------------------------------------------------------------------


def _read_gguf(file: Path) -> TokenizerFile:
    metadata, digest = read_metadata(file)
    fields = {key.removeprefix("tokenizer.ggml."): value for key, value in metadata.items()}
    tokens: list[str] = fields.get("tokens") or []
    if not tokens:
        raise CountingError(f"{file} has no vocabulary")

    def token(kind: str, default: int) -> str:
        id = fields.get(f"{kind}_token_id", default)
        return tokens[id] if 0 <= id < len(tokens) else ""

    bos, eos = token("bos", 1), token("eos", 2)
    return TokenizerFile(
        name=_name(file, digest),
        tokenizer=_GgufTokenizer.read(fields, bos, file),
        runtime="llama.cpp",
        vocabulary=Vocabulary(
            loads=file.name,
            reference="llama.cpp" if fields.get("model") != "gpt2" or fields.get("pre") in _COMPARED else "",
            bos=bos,
            eos=eos,
            template=metadata.get("tokenizer.chat_template") or "",
            tool_template=metadata.get("tokenizer.chat_template.tool_use") or "",
        ),
    )


class _GgufTokenizer:
    """Counts as llama.cpp does: it splits a text at special tokens, and tokenizes the texts between them."""

    def __init__(
        self, encoder: "TextTokenizer", fields: Mapping[str, Any], *, bos: str, starts: bool, space: bool, strips: bool
    ) -> None:
        """Count with `encoder`; `starts` says that a text begins with `bos`, `space` that it begins with a space.

        `strips` says that special tokens swallow the white space after them.
        """
        self._encoder = encoder
        self._bos, self._starts, self._ends = bos, starts, bool(fields.get("add_eos_token"))
        self._space = space
        kinds = dict(_kinds(fields))
        marks = [token for token, kind in kinds.items() if kind in (_UNKNOWN, _CONTROL, _ADDED)]
        added = [token for token, kind in kinds.items() if kind == _ADDED]
        self._special = _compile(marks, strips=strips)
        self._always = _compile(added, strips=strips)

    @classmethod
    def read(cls, fields: Mapping[str, Any], bos: str, file: Path) -> "_GgufTokenizer":
        """Build the tokenizer that the fields of a file describe."""
        model, pre = fields.get("model"), fields.get("pre") or "default"
        strips = bool(re.search("phi-?3", str(fields.get("general.name", "")).lower()))
        starts = fields.get("add_bos_token")
        if model == "gemma4" and len(fields["tokens"]) == _GEMMA_4_TOKENS:
            return cls(load_tokenizer("gemma4_gguf"), fields, bos=bos, starts=True, space=False, strips=False)
        library = _import_tokenizers(file)
        if model == "llama":
            encoder = map_errors(lambda: _make_spm(fields, library))
            space = fields.get("add_space_prefix", True)
            return cls(encoder, fields, bos=bos, starts=starts is not False, space=space, strips=strips)
        if model != "gpt2" or pre not in _PATTERNS:
            what = f"tokenizer {model!r}" if model != "gpt2" else f"pre-tokenizer {pre!r}"
            raise CountingError(
                f"{file} has a {what}, which is not supported: use its tokenizer.json, or ask the server"
            )
        encoder = map_errors(lambda: _make_bpe(fields, pre, library))
        return cls(
            encoder, fields, bos=bos, starts=pre in _BOS if starts is None else starts, space=False, strips=strips
        )

    def preload(self) -> None:
        self._encoder.preload()

    def count(self, texts: Sequence[str]) -> list[int]:
        return [self._count(self._always, text) for text in texts]

    def count_special(self, text: str) -> int:
        around = self._starts + self._ends
        return around + self._count(self._special, text.removeprefix(self._bos) if self._starts else text)

    def _count(self, marks: re.Pattern[str] | None, text: str) -> int:
        pieces = marks.split(text) if marks else [text]
        filled = [f" {piece}" if self._space else piece for piece in pieces if piece]
        return len(pieces) - 1 + sum(self._encoder.count(filled))


def _compile(tokens: Sequence[str], *, strips: bool) -> re.Pattern[str] | None:
    if not tokens:
        return None
    if not strips:
        return re.compile(trie_pattern(tokens))
    kept = [token for token in tokens if token in ("<unk>", "<s>", "<|endoftext|>")]
    patterns = [trie_pattern(set(tokens) - set(kept)) + "[ \t\n\v\f\r]*", *([trie_pattern(kept)] if kept else [])]
    return re.compile("|".join(patterns))


def _kinds(fields: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    kinds = fields.get("token_type") or [_NORMAL] * len(fields["tokens"])
    ends = set(_ENDS) - ({"</s>"} if fields["model"] == "gemma4" else set())  # where it is a word like any other
    for token, kind in zip(fields["tokens"], kinds, strict=False):
        if token:
            yield token, _CONTROL if token in ends else kind


def _make_bpe(fields: Mapping[str, Any], pre: str, library: Any) -> "TextTokenizer":
    vocabulary = {token: id for id, token in enumerate(fields["tokens"])}
    pairs = (_split_merge(merge) for merge in fields.get("merges") or ())
    merges = [pair for pair in pairs if all(text in vocabulary for text in (*pair, "".join(pair)))]
    encoder = library.Tokenizer(library.models.BPE(vocabulary, merges, ignore_merges=pre in _WHOLE_WORDS))
    words = [library.pre_tokenizers.Split(library.Regex(pattern), "isolated") for pattern in _PATTERNS[pre]]
    letters = library.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    encoder.pre_tokenizer = library.pre_tokenizers.Sequence([*words, letters])
    return _JsonTokenizer(encoder, encoder)


def _split_merge(merge: str) -> tuple[str, str]:
    index = merge.find(" ", 1)
    return merge[:index], merge[index + 1 :]


def _make_spm(fields: Mapping[str, Any], library: Any) -> "TextTokenizer":
    """Return a SentencePiece vocabulary as byte pairs, merged in the order of the scores."""
    tokens, scores = fields["tokens"], fields["scores"]
    vocabulary = {token: id for id, token in enumerate(tokens)}
    merges = []
    for id in sorted(vocabulary.values(), key=scores.__getitem__, reverse=True):
        token = tokens[id]
        splits = ((token[:i], token[i:]) for i in range(1, len(token)))
        merges += sorted(
            (pair for pair in splits if pair[0] in vocabulary and pair[1] in vocabulary),
            key=lambda pair: (vocabulary[pair[0]], vocabulary[pair[1]]),
        )
    model = library.models.BPE(vocabulary, merges, byte_fallback=True, fuse_unk=False)
    encoder = library.Tokenizer(model)
    encoder.normalizer = library.normalizers.Replace(" ", "▁")
    return _JsonTokenizer(encoder, encoder)
