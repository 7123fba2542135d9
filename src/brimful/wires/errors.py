"""Error responses of model servers: parse the body, recognize a context overflow, and raise the matching error.

Most servers report an overflow as a sentence with status 400, some with 413 or 500, some inside a stream that began
with 200. Few have an error code for it, and the numbers appear only in the sentence, so sentences are matched by
patterns. Rate limits (`tokens per min`) and completions that are too large (`max_tokens is too large`) are no
overflow.
"""

import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, Final

import msgspec

from brimful.core.validation import decode_json
from brimful.errors import ContextOverflow, ProviderError, ProviderUnavailable

_MAX_MESSAGE: Final = 4_000  # characters of a message that are searched
_NUMBER_PATTERN: Final = r"\d{1,3}(?:[,.'_\u00a0\u2009\u202f]\d{3})+|\d+"
_PLACEHOLDERS: Final = {"«W»": "window", "«P»": "prompt", "«C»": "completion"}
_NO_LIMIT_PATTERN: Final = re.compile(
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
"""Messages without a limit in tokens."""
_OVERFLOW_KINDS: Final = frozenset(
    {
        "context_length_exceeded",
        "exceed_context_size_error",
        "model_context_window_exceeded",
        "model_max_prompt_tokens_exceeded",
        "tokens_limit_reached",
    }
)
_RATE_LIMIT_PATTERN: Final = re.compile(r"tokens? per (?:min|day|hour|second)|\bTPM\b|\brate.?limit", re.IGNORECASE)
_UNRELATED_STATUSES: Final = frozenset({401, 402, 403, 404, 408, 429, 502, 503, 504, 529})
_MAX_SHOWN: Final = 300  # characters of an error message
_QUOTA_KINDS: Final = frozenset({"insufficient_quota", "billing_hard_limit_reached", "billing_not_active"})
"""Kinds of an exhausted quota: a 429 that does not pass."""
_TEMPORARY_KINDS: Final = frozenset(
    {
        "api_error",
        "engine_overloaded_error",
        "internal_server_error",
        "overloaded_error",
        "rate_limit_error",
        "rate_limit_exceeded",
        "server_error",
        "timeout_error",
        "unavailable_error",
        "INTERNAL",
        "RESOURCE_EXHAUSTED",
        "UNAVAILABLE",
    }
)
"""Kinds of temporary errors, for errors in a stream, which have no status."""
_MIN_SECRET: Final = 8  # characters; servers without keys may be given any word as a key
_SECRET_HEADERS: Final = ("authorization", "x-api-key", "x-goog-api-key", "api-key")
_DELAY: Final = re.compile(r'"retryDelay":\s*"(\d+(?:\.\d+)?)s"')  # Google sends the delay in the body


class ErrorBody(msgspec.Struct, frozen=True, kw_only=True):
    """The error in a response: its message, its kinds (type, code, status), an HTTP status in it, and all fields."""

    message: str
    kinds: frozenset[str] = frozenset()
    code: int | None = None
    facts: dict[str, Any] = {}


def parse_error_body(body: bytes) -> ErrorBody:
    """Parse the body of an error response in any format.

    >>> parse_error_body(b'{"error": {"message": "No.", "type": "invalid_request_error", "code": 400}}').message
    'No.'
    >>> parse_error_body(b'{"error": "model not found"}').message, parse_error_body(b"<html>Bad Gateway").message
    ('model not found', '<html>Bad Gateway')
    """
    try:
        data = decode_json(body)
    except ValueError:
        return ErrorBody(message=_get_plain_text(body))
    if isinstance(data, list) and data:  # Gemini, if not streamed as events
        data = data[0]
    if not isinstance(data, dict):
        return ErrorBody(message=_get_plain_text(body))
    error = data.get("error")
    inner = error if isinstance(error, dict) else data
    message = _find_message(error) or _find_message(data) or _get_plain_text(body)
    return ErrorBody(
        message=message[:_MAX_MESSAGE], kinds=_find_kinds(data, inner), code=_find_status(inner), facts=inner
    )


def _find_message(value: object) -> str:
    """Return the message: a string, or a field of an object, followed by what a router forwards."""
    if isinstance(value, str):
        return value
    if not isinstance(value, dict):
        return ""
    sentence = next((text for key in ("message", "detail", "error") if (text := _find_message(value.get(key)))), "")
    metadata = value.get("metadata")
    raw = metadata.get("raw") if isinstance(metadata, dict) else None  # OpenRouter
    return f"{sentence}: {raw}" if isinstance(raw, str) and raw else sentence


def _find_kinds(*objects: dict[str, Any]) -> frozenset[str]:
    words = (item.get(key) for item in objects for key in ("type", "code", "status", "error_type", "param"))
    return frozenset(word for word in words if isinstance(word, str))


def _find_status(inner: dict[str, Any]) -> int | None:
    code = inner.get("code")
    return code if type(code) is int and 400 <= code <= 599 else None  # noqa: PLR2004 - error statuses


def _get_plain_text(body: bytes) -> str:
    return " ".join(body[:_MAX_MESSAGE].decode(errors="replace").split())


@cache
def _compile_pattern(sentence: str) -> re.Pattern[str]:
    for hole, name in _PLACEHOLDERS.items():
        sentence = sentence.replace(hole, f"(?P<{name}>{_NUMBER_PATTERN})")
    return re.compile(sentence, re.IGNORECASE)


_TOTAL_PATTERNS: Final = (
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
"""Messages whose limit applies to prompt and completion together, or is not specified."""

_INPUT_PATTERNS: Final = (
    r"input token count \(«P»\) exceeds the maximum number of tokens allowed \(?«W»",  # Gemini
    r"input token count exceeds the maximum number of tokens allowed \(?«W»",  # Gemini, older
    r"maximum prompt length is «W» but the request contains «P»",  # xAI
    r"`inputs` must have less than «W» tokens\. Given: «P»",  # TGI
    r"range of input length should be \[\d+, ?«W»\]",  # Alibaba
    r"prompt token count of «P» exceeds the limit of «W»",  # GitHub Copilot
    r"request body too large for .{1,80} model\. max size: «W» tokens",  # GitHub Models
    r"maximum allowed input length of «W» tokens",
)
"""Messages whose limit applies to the prompt alone."""


_DETAIL_PATTERNS: Final = (
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
"""Further numbers in a message with a limit."""


class Overflow(msgspec.Struct, frozen=True, kw_only=True):
    """An overflow with the numbers that the server gave, if any; `input_only`: the window is for the prompt alone.

    `quote` are the words of its message that name the window, empty if a field of its own does.
    """

    window: int | None = None
    prompt: int | None = None
    completion: int | None = None
    input_only: bool = False
    quote: str = ""


def find_overflow(status: int | None, body: bytes) -> Overflow | None:
    """Return the overflow that an error response reports; None if it is another error.

    `status` is None for an error in a stream.

    >>> found = find_overflow(400, b'{"error": {"message": "prompt is too long: 209,003 tokens > 200,000 maximum"}}')
    >>> found.window, found.prompt, found.quote
    (200000, 209003, 'too long: 209,003 tokens > 200,000 maximum')
    >>> find_overflow(400, b'{"error": {"message": "max_tokens is too large: 99999."}}') is None
    True
    """
    return find_overflow_in_error(parse_error_body(body), status)


def find_overflow_in_error(error: ErrorBody, status: int | None = None) -> Overflow | None:
    """Return the overflow that a parsed error reports; None if it is another error."""
    if status in _UNRELATED_STATUSES or _RATE_LIMIT_PATTERN.search(error.message):
        return None
    found = _parse_overflow(error)
    if found is None:
        known = error.kinds & _OVERFLOW_KINDS or _NO_LIMIT_PATTERN.search(error.message)
        return Overflow() if known else None
    return found


def _parse_overflow(error: ErrorBody) -> Overflow | None:
    window, prompt = _positive_int(error.facts.get("n_ctx")), _positive_int(error.facts.get("n_prompt_tokens"))
    if window is not None and error.kinds & _OVERFLOW_KINDS:  # llama.cpp sends them as separate fields
        return Overflow(window=window, prompt=prompt)
    for forms, input_only in ((_INPUT_PATTERNS, True), (_TOTAL_PATTERNS, False)):
        for form in forms:
            found = _compile_pattern(form).search(error.message)
            if found:
                numbers = _parse_details(error.message) | _parse_numbers(found)
                return Overflow(**numbers, input_only=input_only, quote=found[0])
    return None


def _parse_details(message: str) -> dict[str, int]:
    numbers: dict[str, int] = {}
    for form in _DETAIL_PATTERNS:
        found = _compile_pattern(form).search(message)
        if found:
            numbers = _parse_numbers(found) | numbers
    return numbers


def _parse_numbers(found: re.Match[str]) -> dict[str, int]:
    return {name: int(re.sub(r"\D", "", text)) for name, text in found.groupdict().items() if text}


def _positive_int(value: object) -> int | None:
    return value if type(value) is int and value > 0 else None


class ErrorSource(msgspec.Struct, frozen=True, kw_only=True):
    """Where an error came from: the route, the variable of the API key, and secrets that no message may show."""

    route: str
    key_name: str = ""
    secrets: tuple[str, ...] = ()


def make_provider_error(
    source: ErrorSource, status: int | None, body: bytes, *, retry_after: float | None = None
) -> ProviderError:
    """Return the error for an error response, or for an error in a stream (status None).

    >>> error = make_provider_error(ErrorSource(route="r"), 401, b'{"error": {"message": "no such key"}}')
    >>> print(error)
    r: answered 401 (check the key): no such key
    """
    body = _redact(body, source.secrets)
    error = parse_error_body(body)
    status = error.code if status is None else status
    reason = f"answered {_describe_status(status, source)}: {shorten(error.message) or 'no message'}"
    overflow = find_overflow_in_error(error, status)
    if overflow is not None:
        numbers = msgspec.structs.asdict(overflow)
        return ContextOverflow(source.route, reason, status=status, body=body, **numbers)
    if _is_temporary(status, error):
        wait = retry_after if retry_after is not None else _parse_delay(body)
        return ProviderUnavailable(source.route, reason, status=status, body=body, retry_after=wait)
    return ProviderError(source.route, reason, status=status, body=body)


def find_secrets(headers: Mapping[str, str]) -> tuple[str, ...]:
    """Return the secrets in the headers of a request.

    >>> find_secrets({"Authorization": "Bearer sk-1", "accept": "*/*"})
    ('sk-1',)
    """
    values = (value for name, value in headers.items() if name.lower() in _SECRET_HEADERS)
    return tuple(value.rpartition(" ")[2] for value in values)


def shorten(text: str) -> str:
    """Shorten a message to one line."""
    return " ".join(text.split())[:_MAX_SHOWN]


def _redact(body: bytes, secrets: Iterable[str]) -> bytes:
    """Remove secrets, since some servers repeat the key that they reject."""
    for secret in secrets:
        if len(secret) >= _MIN_SECRET:
            body = body.replace(secret.encode(), "…".encode())
    return body


def _describe_status(status: int | None, source: ErrorSource) -> str:
    match status:
        case None:
            return "with an error"
        case 401 | 403:
            return f"{status} (check the key{': ' if source.key_name else ''}{source.key_name})"
        case status if 300 <= status < 400:  # noqa: PLR2004 - redirections
            return f"{status} (redirected: use the URL that it redirects to)"
        case 404:
            return "404 (check the model name and the URL)"
        case _:
            return str(status)


def _is_temporary(status: int | None, error: ErrorBody) -> bool:
    if error.kinds & _QUOTA_KINDS:
        return False
    if status is None:
        return bool(error.kinds & _TEMPORARY_KINDS)
    return status in (408, 409, 425, 429) or status >= 500  # noqa: PLR2004 - server errors


def _parse_delay(body: bytes) -> float | None:
    found = _DELAY.search(body.decode(errors="replace")) if b"retryDelay" in body else None
    return float(found[1]) if found else None
