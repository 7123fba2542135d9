"""Fit the requests of conversations, each as a continuation of the one before it."""

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any, Final, Unpack

import msgspec

from brimful.assembly.fit import FitOptions, fit
from brimful.assembly.messages import plain_messages
from brimful.cache import LRU
from brimful.core.compaction import Compaction
from brimful.core.context import Context
from brimful.core.model import ModelInfo
from brimful.core.selection import HistoryStart
from brimful.core.validation import is_whole_number, preview, require_unicode
from brimful.errors import InvalidValue
from brimful.wires.encode import encode_json
from brimful.wires.registry import DEFAULT_WIRE, find_incoming_wire

MAX_REQUESTS: Final = 16_384
CACHE_MARK: Final = "cache_control"
"""The field with which a client marks where a provider may cache a prompt."""
_START_BYTES: Final = 600  # memory of the start of a history, and of its key
_POSITION_BYTES: Final = 8  # memory of a position that a summary stands for; small numbers are shared

DigestChain = list[bytes]
"""A digest of each prefix of a list of messages."""


def digest_chain(messages: Iterable[bytes], seed: Sequence[str]) -> DigestChain:
    """Return a digest of each prefix of a list of encoded messages; `seed` separates conversations.

    >>> short, long = digest_chain([b"a"], ["acme"]), digest_chain([b"a", b"b"], ["acme"])
    >>> long[0] == short[0], digest_chain([b"a"], ["other"])[0] == short[0]
    (True, False)
    """
    digest = hashlib.blake2b(msgspec.json.encode(list(seed)), digest_size=16)
    chain = []
    for message in messages:
        digest.update(message)
        chain.append(digest.digest())
    return chain


class TrimmedRequests:
    """Remembers where history began in trimmed requests, and its summary, so that the next one keeps the prefix."""

    def __init__(self, limit: int = MAX_REQUESTS) -> None:
        self._starts: LRU[bytes, HistoryStart] = LRU(
            max_entries=limit, name="conversations", size=lambda _, __: _START_BYTES
        )
        self._summaries: LRU[bytes, Compaction] = LRU(
            max_entries=limit,
            name="conversations",
            size=lambda _, made: _START_BYTES + len(made.text) + _POSITION_BYTES * len(made.positions),
        )

    def __len__(self) -> int:
        """Return the number of remembered requests."""
        return len(self._starts)

    def last(self, chain: DigestChain) -> HistoryStart | None:
        """Return where history began in the longest earlier request that this one continues."""
        return next((start for digest in reversed(chain) if (start := self._starts.get(digest)) is not None), None)

    def last_position(self, chain: DigestChain) -> int:
        """Return the index of the longest request in the chain whose start is known, or -1."""
        return next((i for i in reversed(range(len(chain))) if chain[i] in self._starts), -1)

    def last_summary(self, chain: DigestChain) -> Compaction | None:
        """Return the summary in the longest earlier request that this one continues."""
        return next((found for digest in reversed(chain) if (found := self._summaries.get(digest))), None)

    def remember(self, chain: DigestChain, start: HistoryStart | None, summary: Compaction | None = None) -> None:
        """Remember where history began in a request, and its summary."""
        if start is not None and chain:
            self._starts[chain[-1]] = start
        if summary is not None and chain:
            self._summaries[chain[-1]] = summary


class Conversations:
    """Fits the requests of many conversations, each as a continuation of the request before it.

    A request begins with the same bytes as the one before it for as long as possible, so that prompt caches can be
    reused: `fit` here finds the `previous` of `brimful.fit` by itself. Conversations never share it, even if they begin
    with the same messages. The latest `max_requests` trimmed requests are remembered, without their content. Safe to
    use from several threads.

    >>> conversations = Conversations()
    >>> request = {"model": "gpt-4o", "messages": [{"role": "user", "content": "Hi"}]}
    >>> conversations.fit("thread-1", request).request == request
    True
    """

    def __init__(self, *, max_requests: int = MAX_REQUESTS) -> None:
        if not is_whole_number(max_requests):
            raise InvalidValue("max_requests", f"must be a positive whole number, not {preview(max_requests)}")
        self._trimmed = TrimmedRequests(max_requests)

    def fit(self, id: str, request: dict[str, Any], **options: Unpack[FitOptions]) -> Context:
        """Fit the next request of a conversation. The options are the same as for `brimful.fit`."""
        seed = (require_unicode("id", id, InvalidValue), *_settings(request, options))
        # As long as nothing was trimmed, there is no request to continue.
        chain = digest_chain(_encoded(request, options.get("wire", DEFAULT_WIRE)), seed) if self._trimmed else None
        context = fit(request, previous=None if chain is None else self._trimmed.last(chain), **options)
        if context.is_reduced:
            chain = chain or digest_chain(_encoded(request, options.get("wire", DEFAULT_WIRE)), seed)
            self._trimmed.remember(chain, context.history)
        return context


def _settings(request: dict[str, Any], options: FitOptions) -> tuple[str, str]:
    """Return what a continuation has in common with the request before it: tokens are counted for a model."""
    model = options.get("model") or (request.get("model") if isinstance(request, dict) else "")
    return (model.id if isinstance(model, ModelInfo) else str(model), str(options.get("window")))


def _encoded(request: dict[str, Any], name: str) -> Iterable[bytes]:
    """Return the messages of a request, encoded. If it is not valid, `fit` says so."""
    wire = find_incoming_wire(name)
    field = wire.message_field
    messages = request.get(field) if isinstance(request, dict) else None
    if not isinstance(messages, list | tuple):
        return ()
    encoded = [
        encode_json(message, wire.provider, f"{field}[{i}]") for i, message in enumerate(plain_messages(messages, wire))
    ]
    if not any(CACHE_MARK.encode() in each for each in encoded):
        return encoded
    return [msgspec.json.encode(without_cache_marks(msgspec.json.decode(each))) for each in encoded]


def without_cache_marks(message: Any) -> Any:
    """Return a message without `cache_control`. Clients move it every turn, so it says nothing about the conversation.

    To set it, they write a string as a text block, and as a string again in the next turn.

    >>> marked = {"type": "text", "text": "Hi", "cache_control": {"type": "ephemeral"}}
    >>> without_cache_marks({"role": "user", "content": [marked]})
    {'role': 'user', 'content': 'Hi'}
    """
    if not isinstance(message, dict):
        return message
    match plain := _without_marks(message):
        case {"content": [{"type": "text", "text": str(text), **rest}]} if not rest:
            return plain | {"content": text}
        case _:
            return plain


def _without_marks(block: dict[str, Any]) -> dict[str, Any]:
    plain = {key: value for key, value in block.items() if key != CACHE_MARK}
    content = plain.get("content")  # of a message, or of a tool result
    if isinstance(content, list):
        plain["content"] = [_without_marks(each) if isinstance(each, dict) else each for each in content]
    return plain
