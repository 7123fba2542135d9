"""Everything that Brimful raises.

    BrimfulError
    ├── InvalidValue              a value is out of its range; names the field
    │   ├── InvalidPackage        … of a content package
    │   ├── InvalidPolicy         … of a policy file; names file and key
    │   ├── InvalidModel          … of a model file; names file and key
    │   ├── InvalidConfig         … of a server's configuration; names file and key
    │   ├── InvalidRecord         … of a stored context
    │   └── DamagedFile           … of a file to import, which cannot be read; names file and place
    ├── ImportRefused             files to import are damaged, and nothing was written; names files and places
    ├── UnknownPolicy             no policy has that name
    ├── BudgetExceeded            the required parts alone do not fit; names ids and numbers
    ├── InvalidRequest            a finished request breaks a rule of its provider
    ├── CountingError             a text could not be counted
    │   └── TokenizerUnavailable  an exact count was asked for where none is possible
    ├── EmbeddingError            a text could not be embedded; names the embedder
    ├── ProviderError             a provider did not answer; names the route, and the HTTP status if there was one
    │   ├── ProviderUnavailable   … now: out of reach, overloaded, too slow, or asking to wait
    │   └── ContextOverflow       … because the prompt is too long for it; carries the numbers that it told
    ├── UnknownRecord             a store has no record of that id, or a context no candidate; names kind and id
    ├── StoreError                a store cannot do what it was asked
    │   ├── StoreUnavailable      … now: locked, full, read-only, out of reach; says whether to try again
    │   ├── StoreCorrupt          … ever: what it holds cannot be read
    │   ├── MigrationError        its tables are not those of this version
    │   ├── EncryptionError       encrypted data cannot be decrypted: no key, another key, or damage
    │   └── KeyUnavailable        the command that prints its keys failed
    └── MissingExtra              an optional dependency is not installed; names the extra

Errors carry facts as attributes, so that a program can act on them without reading the message.
"""

from collections.abc import Sequence
from typing import Literal


class BrimfulError(Exception):
    """The root of all errors that Brimful raises on purpose."""


class InvalidValue(BrimfulError, ValueError):
    """A value is out of its range. `field` names it, `reason` says what would be right."""

    def __init__(self, field: str, reason: str) -> None:
        """Keep the field and the reason as facts of their own."""
        super().__init__(f"{field}: {reason}")
        self.field = field
        self.reason = reason


class InvalidPackage(InvalidValue):
    """A content package has a value that no package may have."""


class _InvalidFile(InvalidValue):
    def __init__(self, file: str, key: str, reason: str) -> None:
        super().__init__(f"{file}: {key}" if key else file, reason)
        self.file = file
        self.key = key


class InvalidPolicy(_InvalidFile):
    """A policy file says something that cannot be meant: `file`, `key`, `reason`."""


class InvalidModel(_InvalidFile):
    """A model file says something that cannot be meant: `file`, `key`, `reason`."""


class InvalidConfig(_InvalidFile):
    """A server's configuration says something that cannot be meant: `file`, `key`, `reason`."""


class InvalidRecord(InvalidValue):
    """A stored context cannot be read back."""


class DamagedFile(InvalidValue):
    """A file to import cannot be read: it is cut off, no JSON, no UTF-8, a bomb, or gone. `field` is the place."""


class ImportRefused(BrimfulError):
    """Files to import are damaged, so nothing was written. `damage` holds the first place of the first files.

    `files` and `places` say how many are damaged in all, `readable` how many records could be read all the same.
    """

    def __init__(self, damage: Sequence[DamagedFile], *, files: int, places: int, readable: int) -> None:
        """Name what is damaged, and how to go on."""
        shown = "; ".join(map(str, damage))
        if files > 1:
            shown = f"{files:,} files are damaged: {shown}{'; …' if files > len(damage) else ''}"
        elif places > 1:
            shown += f" (and {places - 1:,} more places)"
        records = "1 record" if readable == 1 else f"{readable:,} records"
        going_on = f"; nothing was imported: --salvage brings the {records} that can be read"
        super().__init__(f"{shown}{going_on if readable else ''}")
        self.damage = tuple(damage)
        self.files = files
        self.places = places
        self.readable = readable


class UnknownPolicy(BrimfulError, LookupError):
    """No policy has that name."""

    def __init__(self, name: str, known: Sequence[str]) -> None:
        """Name what was asked for and what there is."""
        super().__init__(f"no policy {name!r}; known: {', '.join(known)} (or the path of a .toml file)")
        self.name = name
        self.known = tuple(known)


class BudgetExceeded(BrimfulError):
    """The required parts alone do not fit. `needed` > `limit`; `required` holds (id, tokens), largest first."""

    def __init__(self, *, needed: int, limit: int, required: Sequence[tuple[str, int]], where: str) -> None:
        """Say how much is needed, how much there is, and who needs it."""
        shown = ", ".join(f"{id} ({tokens:,})" for id, tokens in required[:8])
        more = f" and {len(required) - 8} more" if len(required) > 8 else ""  # noqa: PLR2004 - one line of text
        super().__init__(
            f"required parts need {needed:,} tokens, limit {limit:,} ({where}): {shown}{more}; "
            "use a larger window, a smaller completion reserve, or let a part shrink (min_tokens)",
        )
        self.needed = needed
        self.limit = limit
        self.required = tuple(required)
        self.where = where


class InvalidRequest(BrimfulError):
    """A finished request breaks a rule of its provider. `violations` lists them all."""

    def __init__(self, provider: str, violations: Sequence[str]) -> None:
        """Name the provider and every broken rule."""
        super().__init__(f"{provider} would refuse this request: {'; '.join(violations)}")
        self.provider = provider
        self.violations = tuple(violations)


class CountingError(BrimfulError):
    """A text could not be counted."""


class TokenizerUnavailable(CountingError):
    """An exact count was asked for where none is possible."""

    def __init__(self, model: str, reason: str) -> None:
        """Name the model and why its tokens cannot be counted exactly."""
        super().__init__(f"no exact tokenizer for {model!r}: {reason}; use method 'calibrated' or 'hybrid'")
        self.model = model
        self.reason = reason


class EmbeddingError(BrimfulError):
    """Texts could not be turned into vectors. `embedder` is its id; `refused` says that it may take other texts."""

    def __init__(self, embedder: str, reason: str, *, refused: bool = False) -> None:
        """Name the embedder and the reason."""
        super().__init__(f"{embedder}: {reason}")
        self.embedder = embedder
        self.reason = reason
        self.refused = refused


class ProviderError(BrimfulError):
    """A provider did not answer. `route` names it, `status` is that of HTTP (None if there was no response).

    `body` is what it sent instead of an answer, as it came.
    """

    def __init__(self, route: str, reason: str, *, status: int | None = None, body: bytes = b"") -> None:
        """Name the route and the reason."""
        super().__init__(f"{route}: {reason}")
        self.route = route
        self.reason = reason
        self.status = status
        self.body = body


class ProviderUnavailable(ProviderError):
    """A provider cannot answer now; the same request may well succeed later. `retry_after` is in seconds, if told."""

    def __init__(
        self,
        route: str,
        reason: str,
        *,
        status: int | None = None,
        body: bytes = b"",
        retry_after: float | None = None,
    ) -> None:
        """Say when to try again, if the provider said so."""
        super().__init__(route, reason, status=status, body=body)
        self.retry_after = retry_after


class ContextOverflow(ProviderError):
    """A provider says that the prompt is too long. `window`, `prompt` and `completion` are its numbers, where told.

    `window` is the limit that was overrun: of prompt and completion together, or of the prompt alone (`input_only`).
    """

    def __init__(
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
    ) -> None:
        """Keep the numbers."""
        super().__init__(route, reason, status=status, body=body)
        self.window = window
        self.prompt = prompt
        self.completion = completion
        self.input_only = input_only


class UnknownRecord(BrimfulError, LookupError):
    """A store has no record of that id, or a context no candidate."""

    def __init__(self, kind: str, id: str) -> None:
        """Name what was asked for."""
        super().__init__(f"no {kind} {id!r}")
        self.kind = kind
        self.id = id


class StoreError(BrimfulError):
    """A store cannot do what it was asked. `store` names it, without a password."""

    def __init__(self, store: str, reason: str) -> None:
        """Name the store and the reason."""
        super().__init__(f"{store}: {reason}")
        self.store = store
        self.reason = reason


class StoreUnavailable(StoreError):
    """A store cannot be used now. With `retriable`, the same call may well succeed a little later."""

    def __init__(self, store: str, reason: str, *, retriable: bool = False) -> None:
        """Say whether it is worth while to try again."""
        super().__init__(store, reason)
        self.retriable = retriable


class StoreCorrupt(StoreError):
    """What a store holds cannot be read: it is no database, or a damaged one."""


class MigrationError(StoreError):
    """The tables of a store are not those of this version, and cannot be made so."""


EncryptionErrorCause = Literal["no-key", "wrong-key", "damaged", "clear"]


class EncryptionError(StoreError):
    """What is encrypted cannot be opened. `tenant` names whose it is, `cause` what is amiss; no key is ever shown."""

    def __init__(self, tenant: str, cause: EncryptionErrorCause, reason: str) -> None:
        """Name the tenant and the cause."""
        super().__init__(f"tenant {tenant!r}", reason)
        self.tenant = tenant
        self.cause = cause


class KeyUnavailable(StoreError):
    """The command that prints the keys of a store failed, took too long, or printed something else."""

    def __init__(self, reason: str) -> None:
        """Name the variable that holds the command."""
        super().__init__("BRIMFUL_KEY_COMMAND", reason)


class MissingExtra(BrimfulError, ImportError):
    """An optional dependency is not installed."""

    def __init__(self, extra: str, needed_for: str) -> None:
        """Name the extra and the command that installs it."""
        super().__init__(f"{needed_for} needs an optional dependency: pip install 'brimful[{extra}]'")
        self.extra = extra
