"""Models: their windows, tokenizers and rules."""

from collections.abc import Iterable
from typing import Final, Literal, Self

import msgspec

WrittenWire = Literal["openai", "anthropic", "responses", "gemini", "ollama", "text"]
"""The formats in which we write requests."""

Runtime = Literal["transformers", "llama.cpp"]
"""What renders the chat template and tokenizes: Hugging Face's libraries (vLLM, SGLang, TGI …) or llama.cpp."""


class Prior(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How to count for a model whose tokenizer is not public: another tokenizer's count times `factor`.

    `margin` is the share added on top, so that the true count is below the sum. A prior learned from usage also has
    `weights`, the extra tokens per character of a class (`digits`, `han` …) and per item of a request (`messages`,
    `tools` …), and `spread`, how much each of them adds to the margin.
    """

    tokenizer: str
    factor: float
    margin: float
    source: str
    weights: tuple[tuple[str, float], ...] = ()
    spread: tuple[tuple[str, float], ...] = ()


UNKNOWN_PRIOR: Final = Prior(
    tokenizer="o200k_base",
    factor=1.1,
    margin=0.15,
    source="public tokenizers: most take 1.0 to 1.1 times the tokens of o200k_base for English and code, all up to 1.4",
)
"""For unknown models, until usage has been learned. Other languages vary more: 0.76 to 1.83."""


_TOKENIZER_SUFFIXES: Final = (".json", ".gguf")


class CacheRule(msgspec.Struct, frozen=True, kw_only=True):
    """When a provider caches a prompt prefix. `breakpoints` is 0 if caching is automatic.

    `read` and `write` are the prices of tokens that are read from the cache, and that are read for the first time and
    stored, as shares of the input price. A `read` of 1 means that no discount is known.
    """

    minimum_tokens: int
    read: float = 1.0
    write: float = 1.0
    breakpoints: int = 0
    lookback_blocks: int = 0
    source: str = ""


class ModelInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A model in the registry. `known` is false for the fallback that is used for unknown models.

    `assumed_window` means that its window is not known; `relative` is the known model whose window is assumed, if there
    is one of its family. `beta_windows` are larger windows by the beta feature that a
    request must name to get them.

    `id` is the name the user gave and what goes on the wire; `canonical` is the id of the row it was found under.

    `wire` is the name of the format of its requests. `max_input` is a limit of the prompt alone, if the provider has
    one below its window. `overhead` names the family of per-message costs (`openai`, `anthropic`, `gemini`, or
    `template`); with `template`, `chat_template` names the chat template that is rendered. `tool_system_tokens` is the
    cost of a provider's hidden system prompt for requests with tools. `alternate` means that the chat template rejects
    two turns of one speaker in a row, `system_role` that it accepts a system message, `one_call` that it rejects two
    calls in one message, `short_ids` that it accepts only call ids of nine letters and digits, `system_turns` that the
    model accepts system messages between other turns although its wire format has a separate system prompt. `runtime`
    is what serves an open model, and `thinking` whether its template enables thinking: None leaves that to the runtime.
    `tokenizer` is the name of a vocabulary, or the path of a `tokenizer.json` or GGUF file, which also has the chat
    template.
    """

    id: str
    provider: str
    window: int
    beta_windows: tuple[tuple[str, int], ...] = ()
    max_output: int
    max_input: int | None = None
    wire: str
    tokenizer: str | None = None
    prior: Prior | None = None
    overhead: str = "openai"
    chat_template: str | None = None
    modalities: tuple[str, ...] = ("text",)
    image_rule: str | None = None
    audio_rule: str | None = None
    video_rule: str | None = None
    tool_system_tokens: int = 0
    alternate: bool = False
    system_role: bool = True
    one_call: bool = False
    short_ids: bool = False
    system_turns: bool = False
    runtime: Runtime = "transformers"
    thinking: bool | None = None
    cache: CacheRule | None = None
    source: str = ""
    as_of: str = ""
    known: bool = True
    assumed_window: bool = False
    relative: str = ""
    canonical: str = ""

    @property
    def uses_beta(self) -> bool:
        """Whether the window is that of a beta feature."""
        return any(window == self.window for _, window in self.beta_windows)

    def with_betas(self, names: Iterable[str]) -> Self:
        """Return the model as it is with these beta features; unknown ones change nothing.

        >>> wide = (("wide", 1000),)
        >>> model = ModelInfo(id="m", provider="p", window=200, beta_windows=wide, max_output=9, wire="openai")
        >>> model.with_betas(["wide", "other"]).window
        1000
        """
        windows = dict(self.beta_windows)
        widest = max([self.window, *(windows[name] for name in names if name in windows)])
        return self if widest == self.window else msgspec.structs.replace(self, window=widest)

    @property
    def names_in_text(self) -> bool:
        """Whether a speaker's name must be in the text, because chat templates have no names."""
        return self.overhead == "template"

    @property
    def has_tokenizer_file(self) -> bool:
        """Whether the tokenizer is a file."""
        return self.tokenizer is not None and self.tokenizer.lower().endswith(_TOKENIZER_SUFFIXES)

    def with_tokenizer(self, tokenizer: str) -> "ModelInfo":
        """Return the model with another tokenizer; the chat template of a file replaces the model's own.

        >>> info = ModelInfo(id="m", provider="p", window=8192, max_output=1, wire="openai", prior=UNKNOWN_PRIOR)
        >>> info.with_tokenizer("models/m.gguf").runtime
        'llama.cpp'
        >>> info.with_tokenizer("o200k_base").overhead == info.overhead
        True
        """
        changed = msgspec.structs.replace(self, tokenizer=tokenizer, prior=None)
        if not changed.has_tokenizer_file:
            return changed
        runtime = "llama.cpp" if tokenizer.lower().endswith(".gguf") else self.runtime
        return msgspec.structs.replace(changed, overhead="template", chat_template=None, runtime=runtime)
