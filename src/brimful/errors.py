"""Everything that Brimful raises.

    BrimfulError
    ├── InvalidValue              a value is not valid; names the field
    │   ├── InvalidPackage        … in a content package
    │   ├── InvalidPolicy         … in a policy file; names file and key
    │   ├── InvalidModel          … in a model file; names file and key
    │   ├── InvalidConfig         … in a server configuration; names file and key
    │   ├── InvalidRecord         … in a stored context
    │   └── DamagedFile           … in a file to import, which cannot be read; names file and location
    ├── ImportRefused             files to import are damaged, and nothing was written; names files and locations
    ├── UnknownPolicy             there is no policy with that name
    ├── BudgetExceeded            the required parts alone do not fit; names ids and numbers
    ├── InvalidRequest            a finished request breaks a rule of its provider
    ├── CountingError             a text could not be counted
    │   └── TokenizerUnavailable  an exact count is not possible
    ├── EmbeddingError            a text could not be embedded; names the embedder
    ├── ProviderError             a provider did not answer; names the route, and the HTTP status if there was one
    │   ├── ProviderUnavailable   … but may answer later
    │   │   └── ProviderTimeout   … because it took too long
    │   └── ContextOverflow       … because the prompt is too long; carries the provider's numbers
    ├── SpendingLimitReached      a tenant's own calls of models have reached their daily limit; says until when
    ├── UnknownRecord             there is no record, or no candidate, with that id; names kind and id
    │   ├── ContentErased         … any more: it was deleted or erased
    │   └── NotRecorded           … in full: of this context, only a summary was stored
    ├── StoreError                a store operation failed
    │   ├── StoreUnavailable      … because the store cannot be used now; says whether to try again
    │   ├── StoreCorrupt          … because the store's data cannot be read
    │   ├── MigrationError        … because its tables belong to another version
    │   ├── EncryptionError       … because encrypted content cannot be read: no key, wrong key, or damage
    │   └── KeyUnavailable        … because the command that prints the keys failed
    └── MissingExtra              an optional dependency is not installed; names the extra

Errors carry facts as attributes, so that a program can act on them without reading the message.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Literal


class BrimfulError(Exception):
    """The base class of all errors that Brimful raises on purpose."""


class InvalidValue(BrimfulError, ValueError):
    """A value is not valid. `field` names it, and `reason` says what is expected."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field}: {reason}")
        self.field = field
        self.reason = reason


class InvalidPackage(InvalidValue):
    """A content package has an invalid value."""


class _InvalidFile(InvalidValue):
    def __init__(self, file: str, key: str, reason: str) -> None:
        super().__init__(f"{file}: {key}" if key else file, reason)
        self.file = file
        self.key = key


class InvalidPolicy(_InvalidFile):
    """A policy file has an invalid value: `file`, `key`, `reason`."""


class InvalidModel(_InvalidFile):
    """A model file has an invalid value: `file`, `key`, `reason`."""


class InvalidConfig(_InvalidFile):
    """A server configuration has an invalid value: `file`, `key`, `reason`."""


class InvalidRecord(InvalidValue):
    """A stored context cannot be read back."""


class DamagedFile(InvalidValue):
    """A file to import cannot be read. `field` is the location, as `file:line` or `file[index]`."""


class ImportRefused(BrimfulError):
    """Files to import are damaged, so nothing was written. `damage` holds the first location in the first files.

    `files` and `locations` count all damaged files and locations. `readable` is how many records could still be read.
    """

    def __init__(self, damage: Sequence[DamagedFile], *, files: int, locations: int, readable: int) -> None:
        shown = "; ".join(map(str, damage))
        if files > 1:
            shown = f"{files:,} files are damaged: {shown}{'; …' if files > len(damage) else ''}"
        elif locations > 1:
            shown += f" (and {locations - 1:,} more)"
        records = "1 record" if readable == 1 else f"{readable:,} records"
        going_on = f"; nothing was imported: use --salvage to import the {records} that can be read"
        super().__init__(f"{shown}{going_on if readable else ''}")
        self.damage = tuple(damage)
        self.files = files
        self.locations = locations
        self.readable = readable


class UnknownPolicy(BrimfulError, LookupError):
    """There is no policy with that name."""

    def __init__(self, name: str, known: Sequence[str]) -> None:
        super().__init__(f"no policy {name[:80]!r}; known: {', '.join(known)} (or the path of a .toml file)")
        self.name = name
        self.known = tuple(known)


class BudgetExceeded(BrimfulError):
    """The required parts alone do not fit: `needed` > `limit`. `required` holds (id, tokens), largest first.

    `hint` says why the largest part cannot be shortened, if it would be otherwise.
    """

    def __init__(
        self, *, needed: int, limit: int, required: Sequence[tuple[str, int]], where: str, hint: str = ""
    ) -> None:
        shown = ", ".join(f"{id} ({tokens:,})" for id, tokens in required[:8])
        more = f" and {len(required) - 8} more" if len(required) > 8 else ""  # noqa: PLR2004 - one line of text
        super().__init__(
            f"required parts need {needed:,} tokens, limit {limit:,} ({where}): {shown}{more}; "
            f"{hint}{'; ' if hint else ''}use a larger window, a smaller completion reserve, "
            "or let a part shrink (min_tokens)"
        )
        self.needed = needed
        self.limit = limit
        self.required = tuple(required)
        self.where = where
        self.hint = hint


class InvalidRequest(BrimfulError):
    """A finished request breaks rules of its provider. `violations` lists them all."""

    def __init__(self, provider: str, violations: Sequence[str]) -> None:
        super().__init__(f"{provider} would refuse this request: {'; '.join(violations)}")
        self.provider = provider
        self.violations = tuple(violations)


class CountingError(BrimfulError):
    """A text could not be counted."""


class TokenizerUnavailable(CountingError):
    """An exact count was requested, but the tokenizer is not available."""

    def __init__(self, model: str, reason: str) -> None:
        super().__init__(f"no exact tokenizer for {model!r}: {reason}; use method 'calibrated' or 'hybrid'")
        self.model = model
        self.reason = reason


class EmbeddingError(BrimfulError):
    """Texts could not be embedded. `embedder` is its id; `refused` means that it works but rejects these texts.

    `status` is the HTTP status of a server's refusal.
    """

    may_be_billed = False

    def __init__(self, embedder: str, reason: str, *, refused: bool = False, status: int | None = None) -> None:
        super().__init__(f"{embedder}: {reason}")
        self.embedder = embedder
        self.reason = reason
        self.refused = refused
        self.status = status


class ProviderError(BrimfulError):
    """A provider did not answer. `route` names it; `status` is the HTTP status (None if there was no response).

    `body` and `headers` are what it sent instead of an answer. With `may_be_billed`, the request was sent, and nothing
    says that it was refused.
    """

    def __init__(self, route: str, reason: str, *, status: int | None = None, body: bytes = b"") -> None:
        super().__init__(f"{route}: {reason}")
        self.route = route
        self.reason = reason
        self.status = status
        self.body = body
        self.headers: Mapping[str, str] = {}
        self.may_be_billed = False


class ProviderUnavailable(ProviderError):
    """A provider cannot answer now, but the same request may succeed later. `retry_after` is in seconds, if known."""

    def __init__(
        self, route: str, reason: str, *, status: int | None = None, body: bytes = b"", retry_after: float | None = None
    ) -> None:
        super().__init__(route, reason, status=status, body=body)
        self.retry_after = retry_after


class ProviderTimeout(ProviderUnavailable):
    """A provider did not accept the connection or the request in time, or sent nothing for too long."""


class ContextOverflow(ProviderError):
    """The prompt is too long for the provider. `window`, `prompt` and `completion` are its numbers, if known.

    `window` is the limit that was exceeded: of prompt and completion together, or of the prompt alone (`input_only`).
    `quote` are the words of a message that name it. They may come from the prompt, which some servers repeat.
    """

    def __init__(  # noqa: PLR0913 - all that a provider may say
        self,
        route: str,
        reason: str,
        *,
        status: int | None = None,
        body: bytes = b"",
        window: int | None = None,
        prompt: int | None = None,
        completion: int | None = None,
        input_only: bool = False,
        quote: str = "",
    ) -> None:
        super().__init__(route, reason, status=status, body=body)
        self.window = window
        self.prompt = prompt
        self.completion = completion
        self.input_only = input_only
        self.quote = quote


class SpendingLimitReached(BrimfulError):
    """Own calls of models have reached their daily limit of a `unit`. They go on at the time `until`, in UTC seconds.

    `spent` were billed on this day, and calls under way have reserved what they may cost at most.
    """

    def __init__(
        self, unit: Literal["tokens", "dollars"], *, limit: float, spent: float, reserved: float, until: float
    ) -> None:
        sign, form = ("$", ",.4f") if unit == "dollars" else ("", ",.0f")
        numbers = f"{sign}{spent:{form}} of {sign}{limit:{form}}{' tokens' if unit == 'tokens' else ''} spent today"
        held = f" and {sign}{reserved:{form}} reserved by calls under way" if spent < limit else ""
        goes_on = datetime.fromtimestamp(until, UTC).strftime("%Y-%m-%d %H:%M UTC")
        super().__init__(
            f"the daily limit of own calls is reached: {numbers}{held}; they go on at {goes_on}, "
            f"or with a higher own_calls.{unit}_per_day"
        )
        self.unit = unit
        self.limit = limit
        self.spent = spent
        self.reserved = reserved
        self.until = until


class UnknownRecord(BrimfulError, LookupError):
    """There is no record, or no candidate, with that id. `near` holds similar ids that exist."""

    def __init__(self, kind: str, id: str, near: Sequence[str] = ()) -> None:
        hint = f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
        super().__init__(f"no {kind} {id!r}{hint}")
        self.kind = kind
        self.id = id
        self.near = tuple(near)


class ContentErased(UnknownRecord):
    """What a record or a candidate said was deleted or erased, so it cannot be recalled."""

    def __init__(self, kind: str, id: str) -> None:
        super().__init__(kind, id)
        self.args = (f"the content of {kind} {id!r} was deleted, so it cannot be recalled",)


class NotRecorded(UnknownRecord):
    """Only the one-line summary of a context was stored, without candidates, decisions and request."""

    def __init__(self, id: str) -> None:
        super().__init__("context", id)
        self.args = (f"context {id!r} was not recorded, only its summary: `record_share` chose it to be left out",)


class StoreError(BrimfulError):
    """A store operation failed. `store` names the store, without a password."""

    def __init__(self, store: str, reason: str) -> None:
        super().__init__(f"{store}: {reason}")
        self.store = store
        self.reason = reason


class StoreUnavailable(StoreError):
    """A store cannot be used now. If `retriable`, the same call may succeed a little later."""

    def __init__(self, store: str, reason: str, *, retriable: bool = False) -> None:
        super().__init__(store, reason)
        self.retriable = retriable


class StoreCorrupt(StoreError):
    """A store is not a database, or it is damaged."""


class MigrationError(StoreError):
    """The tables of a store belong to another version and cannot be migrated."""


EncryptionErrorCause = Literal["no-key", "wrong-key", "damaged", "clear"]


class EncryptionError(StoreError):
    """Encrypted content cannot be read. `tenant` is its owner and `cause` the problem. No key is ever shown."""

    def __init__(self, tenant: str, cause: EncryptionErrorCause, reason: str) -> None:
        super().__init__(f"tenant {tenant!r}", reason)
        self.tenant = tenant
        self.cause = cause


class KeyUnavailable(StoreError):
    """The command that prints the keys of a store failed, took too long, or did not print keys."""

    def __init__(self, reason: str) -> None:
        super().__init__("BRIMFUL_KEY_COMMAND", reason)


class MissingExtra(BrimfulError, ImportError):
    """An optional dependency is not installed."""

    def __init__(self, extra: str, needed_for: str) -> None:
        super().__init__(f"{needed_for} needs an optional dependency: pip install 'brimful[{extra}]'")
        self.extra = extra
