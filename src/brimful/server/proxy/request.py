"""An incoming request that the proxy forwards."""

import re
from collections.abc import Callable
from typing import Any, Final, Literal, TypeVar

import msgspec

from brimful.assembly.arguments import require_positions, require_ties
from brimful.core.context import Context
from brimful.core.notice import Notice
from brimful.core.policy import RecallMode
from brimful.engine.options import RetrievalOverrides, read_retrieval
from brimful.errors import InvalidValue
from brimful.policies import policy_names
from brimful.records.reply import FinishReason, Reply
from brimful.server.access import Client, choose_policy
from brimful.server.errors import ApiError
from brimful.server.limits import UNLIMITED, Admission, Reservation
from brimful.server.proxy.upstreams import Upstream
from brimful.wires import Wire

PROMPT_LIMIT_HEADER: Final = "x-brimful-max-prompt-tokens"
RETRIEVAL_HEADER: Final = "x-brimful-retrieval"
PIN_HEADER: Final = "x-brimful-pin"
TIES_HEADER: Final = "x-brimful-ties"
RECALL_HEADER: Final = "x-brimful-recall"
POLICY_HEADER: Final = "x-brimful-policy"
T = TypeVar("T")

RecordState = Literal["stored", "unconfirmed", "failed"]
"""Whether a record is or will be stored: yes, unsure because the records before it could not be written, or no."""


def decode_header(value: str) -> str:
    """Decode a header as UTF-8 if possible.

    >>> decode_header("Café".encode().decode("latin-1")), decode_header("Café")
    ('Café', 'Café')
    """
    try:
        return value if value.isascii() else value.encode("latin-1").decode()
    except UnicodeError:
        return value


def record_error() -> ApiError:
    """Return the error for an exchange that must be recorded and cannot be."""
    message = "this exchange could not be recorded, and the server requires records"
    return ApiError("internal", message, status=503, code="record_failed", retry_after=5.0)


class ProxyRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request: raw and parsed, who sent it, its upstream, and the headers to forward there.

    `path` is that at the upstream. `streams` says whether the answer comes in pieces, and `in_array` that these are the
    items of one JSON array, as Gemini streams them unless the client asks for events.

    `notices` tell which upstreams were tried before this one; if it fails too, another follows unless this
    `is_last_attempt`.

    `hides_usage` means that usage was requested on behalf of the client and must be removed from the stream. The last
    `recalled` messages are recalls of earlier rounds, which the client does not know. In the last of several rounds,
    `recall_off` is set. Its `admission` holds it to the limits of its key and its user.
    """

    wire: Wire
    path: str
    model: str
    streams: bool
    in_array: bool = False
    raw: bytes
    body: dict[str, Any]
    headers: dict[str, str]
    forwarded: dict[str, str]
    query: str
    client: Client
    upstream: Upstream
    at: float
    is_last_attempt: bool = True
    notices: tuple[Notice, ...] = ()
    hides_usage: bool = False
    recalled: int = 0
    recall_off: bool = False
    admission: Admission = UNLIMITED

    async def reserve(self, context: Context) -> Reservation:
        """Reserve what its context and all answers that it asks for may use of the client's limits."""
        completion = self.wire.count_answers(self.body) * context.budget.completion
        model = self.upstream.with_maker(context.inputs.model)
        return await self.admission.reserve(model, prompt=context.tokens, completion=completion)

    @property
    def messages(self) -> list[Any]:
        """Its messages as they came; none if there is no list of them. A string is a message of the user."""
        messages = self.body.get(self.wire.message_field)
        if isinstance(messages, str) and self.wire.takes_text:
            return [{"role": "user", "content": messages}]
        return messages if isinstance(messages, list) else []

    @property
    def max_prompt_tokens(self) -> int | None:
        """The limit in the header, if there is one."""
        text = self.headers.get(PROMPT_LIMIT_HEADER)
        if text is None:
            return None
        if not re.fullmatch("[1-9][0-9]{0,14}", text):
            reason = f"must be a positive number of tokens, not {text[:40]!r}"
            raise ApiError("invalid", f"{PROMPT_LIMIT_HEADER}: {reason}", param=PROMPT_LIMIT_HEADER)
        return int(text)

    @property
    def policy(self) -> str | None:
        """The name of the built-in policy in the header, or else of the first policy of its key, if it has any."""
        name = self.headers.get(POLICY_HEADER)
        if name is not None and name not in policy_names():
            reason = f"must be one of {', '.join(policy_names())}, not {name[:40]!r}"
            raise ApiError("invalid", f"{POLICY_HEADER}: {reason}", param=POLICY_HEADER)
        return choose_policy(self.client, name, param=POLICY_HEADER)

    @property
    def retrieval(self) -> RetrievalOverrides:
        """The retrieval settings in the header, a JSON object."""
        try:
            return read_retrieval(msgspec.json.decode(self.headers.get(RETRIEVAL_HEADER, "{}")))
        except (msgspec.DecodeError, InvalidValue) as error:
            reason = error.reason if isinstance(error, InvalidValue) else f"must be a JSON object ({error})"
            raise ApiError("invalid", f"{RETRIEVAL_HEADER}: {reason}", param=RETRIEVAL_HEADER) from None

    @property
    def recall(self) -> RecallMode | None:
        """Whether the model may recall, if the header says so or this is the last round."""
        match "off" if self.recall_off else self.headers.get(RECALL_HEADER):
            case None | "off" | "tool" as mode:
                return mode
            case text:
                raise ApiError(
                    "invalid", f"{RECALL_HEADER}: must be tool or off, not {text[:40]!r}", param=RECALL_HEADER
                )

    @property
    def pin(self) -> tuple[int, ...]:
        """The indices of messages that must stay, in the header as a JSON list."""
        return self._read_positions(PIN_HEADER, lambda value: require_positions(PIN_HEADER, value, len(self.messages)))

    @property
    def ties(self) -> tuple[tuple[int, ...], ...]:
        """The messages that belong together, in the header as a JSON list of lists of indices."""
        return self._read_positions(TIES_HEADER, lambda value: require_ties(value, len(self.messages)))

    def _read_positions(self, header: str, read: Callable[[object], tuple[T, ...]]) -> tuple[T, ...]:
        try:
            return read(msgspec.json.decode(self.headers.get(header, "[]")))
        except (msgspec.DecodeError, InvalidValue) as error:
            reason = error.reason if isinstance(error, InvalidValue) else f"must be a JSON list ({error})"
            raise ApiError("invalid", f"{header}: {reason}", param=header) from None

    @property
    def betas(self) -> list[str]:
        """The beta features of Anthropic's API that it names."""
        return [name.strip() for name in self.headers.get("anthropic-beta", "").split(",")]


class ProxyResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of an exchange: the answer as far as it was received, why it ended, and how long it took.

    `recalls` are the calls of the recall tool in it that the proxy answered. If it `continues`, another round follows.
    """

    context: Context
    reply: Reply | None
    finish: FinishReason
    seconds: float
    recalls: tuple[Notice, ...] = ()
    continues: bool = False
