"""A prompt that is too long, as each server says it.

Most say it in a sentence and with a 400, some with a 413 or 500, some within a stream that began with a 200. The
sentence is what there is to go by: few have a code for it, and the numbers stand nowhere else. A form is a sentence
with holes for the numbers. What is no overflow must not look like one: a rate limit (`tokens per min`) goes away by
itself, and a completion that is too large for the model (`max_tokens is too large`) is the caller's own setting.
"""

import re
from typing import Final

import msgspec

from brimful.providers.said import Said, read_error

_NUMBER: Final = r"\d{1,3}(?:[,.'_\u00a0\u2009\u202f]\d{3})+|\d+"
_TOGETHER: Final = {"«W»": "window", "«P»": "prompt", "«C»": "completion"}


def _form(sentence: str) -> re.Pattern[str]:
    for hole, name in _TOGETHER.items():
        sentence = sentence.replace(hole, f"(?P<{name}>{_NUMBER})")
    return re.compile(sentence, re.IGNORECASE)


_WHOLE: Final = tuple(
    _form(sentence)
    for sentence in (
        r"maximum (?:context|model) length\D{1,8}«W»",  # OpenAI, vLLM, DeepSeek, OpenRouter, SGLang, Fireworks
        r"too long: «P» tokens > «W» maximum",  # Anthropic
        r"exceed context limit: «P» \+ «C» > «W»",  # Anthropic
        r"(?:request \(«P» tokens\) )?exceeds the available context size(?: \(«W» tokens\))?",  # llama.cpp
        r"requested tokens \(«P»\) exceed context window of «W»",  # llama-cpp-python
        r"contains «P» tokens.{0,40} too large for model with «W» maximum",  # Mistral
        r"\(«P» tokens\) is longer than the model'?s context length \(«W»",  # SGLang, Together
        r"must be <= «W»\. Given: «P» `inputs` tokens and «C» `max_new_tokens`",  # TGI
        r"n_keep: «P» ?>= ?n_ctx: «W»",  # LM Studio
        r"loaded with context length of only «W»",  # LM Studio
        r"has «P» tokens, but the configured context size is «W»",  # ds4
        r"exceeded model token limit(?:: «W»)?(?: \(requested: «P»\))?",  # Moonshot
        r"tokens in the request cannot exceed «W» - received «P»",  # Cohere
    )
)
"""Sentences whose limit is one of prompt and completion together, or that do not say of what it is."""

_INPUT: Final = tuple(
    _form(sentence)
    for sentence in (
        r"input token count \(«P»\) exceeds the maximum number of tokens allowed \(?«W»",  # Gemini
        r"input token count exceeds the maximum number of tokens allowed \(?«W»",  # Gemini, older
        r"maximum prompt length is «W» but the request contains «P»",  # xAI
        r"`inputs` must have less than «W» tokens\. Given: «P»",  # TGI
        r"range of input length should be \[\d+, ?«W»\]",  # Alibaba
        r"prompt token count of «P» exceeds the limit of «W»",  # GitHub Copilot
        r"request body too large for .{1,80} model\. max size: «W» tokens",  # GitHub Models
        r"maximum allowed input length of «W» tokens",
    )
)
"""Sentences whose limit is one of the prompt alone."""

_UNTOLD: Final = re.compile(
    r"exceeds? (?:the )?(?:model'?s )?(?:context window|maximum context length|(?:maximum )?context length)"
    r"|longer than the context length currently available"  # Ollama
    r"|prompt too long; exceeded (?:max )?context length"  # Ollama's cloud
    r"|prompt is too long"
    r"|context[_ ](?:length|window|size)[_ ]exceeded"
    r"|context size has been exceeded"  # llama.cpp, in the middle of an answer
    r"|context window exceeds limit"  # MiniMax
    r"|input is too long for requested model"  # Bedrock
    r"|prompt exceeds max length"  # Z.ai
    r"|greater than the context length"  # LM Studio
    r"|reduce the length of the messages or completion"  # Groq
    r"|requires [\d,]+ patches after processing, exceeding the limit",  # OpenAI's images: patches are no tokens
    re.IGNORECASE,
)
"""Sentences without a limit in tokens."""

_DETAILS: Final = tuple(
    _form(sentence)
    for sentence in (
        r"messages resulted in «P» tokens",
        r"\(«P» (?:in the messages|in your prompt|of text input)\b",
        r"(?:prompt contains|request has) (?:at least )?«P» input tokens",
        r"«P» tokens from the input messages and «C» tokens for the completion",  # SGLang
        r"prompt \(length «P»\) is longer",  # vLLM
        r"prompt is too long: «P»\b",  # Fireworks
        r"«C» (?:in the completion|for the completion|in the output)\b",
        r"requested «C» output tokens",
        r"is too large: «C»\.",  # vLLM
    )
)
"""Numbers beside the limit, wherever they stand in a message of the first form."""

_KINDS: Final = frozenset(
    {
        "context_length_exceeded",
        "exceed_context_size_error",
        "model_context_window_exceeded",
        "model_max_prompt_tokens_exceeded",
        "tokens_limit_reached",
    }
)
_RATE: Final = re.compile(r"tokens? per (?:min|day|hour|second)|\bTPM\b|\brate.?limit", re.IGNORECASE)
_NOT_ABOUT_LENGTH: Final = frozenset({401, 402, 403, 404, 408, 429, 502, 503, 504, 529})


class Overflow(msgspec.Struct, frozen=True, kw_only=True):
    """The numbers that a server told, if any; `input_only` says that the window is one of the prompt alone."""

    window: int | None = None
    prompt: int | None = None
    completion: int | None = None
    input_only: bool = False


def find_overflow(status: int | None, body: bytes) -> Overflow | None:
    """Return what a refusal says of a prompt that is too long; None if it is about something else.

    `status` is that of HTTP, or None for an error within a stream.

    >>> find_overflow(400, b'{"error": {"message": "prompt is too long: 209,003 tokens > 200,000 maximum"}}')
    Overflow(window=200000, prompt=209003, completion=None, input_only=False)
    >>> find_overflow(400, b'{"error": {"message": "max_tokens is too large: 99999."}}') is None
    True
    """
    return overflow_in(read_error(body), status)


def overflow_in(said: Said, status: int | None = None) -> Overflow | None:
    """Return what an error says of a prompt that is too long, once it was read."""
    if status in _NOT_ABOUT_LENGTH or _RATE.search(said.message):
        return None
    found = _told(said)
    if found is None:
        known = said.kinds & _KINDS or _UNTOLD.search(said.message)
        return Overflow() if known else None
    return found


def _told(said: Said) -> Overflow | None:
    window, prompt = _whole(said.facts.get("n_ctx")), _whole(said.facts.get("n_prompt_tokens"))
    if window is not None and said.kinds & _KINDS:  # llama.cpp tells them beside the sentence
        return Overflow(window=window, prompt=prompt)
    for forms, input_only in ((_INPUT, True), (_WHOLE, False)):
        for form in forms:
            found = form.search(said.message)
            if found:
                numbers = _details(said.message) | _numbers(found)
                return Overflow(**numbers, input_only=input_only)
    return None


def _details(message: str) -> dict[str, int]:
    numbers: dict[str, int] = {}
    for form in _DETAILS:
        found = form.search(message)
        if found:
            numbers = _numbers(found) | numbers
    return numbers


def _numbers(found: re.Match[str]) -> dict[str, int]:
    return {name: int(re.sub(r"\D", "", text)) for name, text in found.groupdict().items() if text}


def _whole(value: object) -> int | None:
    return value if type(value) is int and value > 0 else None
