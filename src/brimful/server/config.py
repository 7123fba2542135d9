"""The server's configuration, read from TOML and validated. It contains no secrets."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal, get_args

import msgspec
from msgspec import Meta

from brimful.cache import DEFAULT_BUDGET, MEBIBYTE
from brimful.core.policy import Compacting, RecallMode
from brimful.core.validation import preview
from brimful.engine.options import MAX_OTHER_ROOMS
from brimful.engine.retention import parse_interval, parse_retention
from brimful.errors import InvalidConfig, InvalidValue
from brimful.mcp.tools import select_tools
from brimful.providers import Limits
from brimful.providers.address import parse_address
from brimful.records.limits import UsageLimits
from brimful.records.memory import Untrusted
from brimful.records.own_calls import SpendingLimit
from brimful.server.access import is_loopback_host
from brimful.stores import connect
from brimful.stores.urls import parse_url
from brimful.wires.registry import IncomingWire
from brimful.wires.wire import KeyHeader

ModeName = Literal["fit", "remember"]
"""Trim requests to fit, or build them from the stored conversation."""
RecordMode = Literal["all", "trimmed", "none", "required"]
"""Which contexts are stored: all, only those from which something was left out, or none.

`required` means all, and requests whose records cannot be written are refused.
"""
UnknownPaths = Literal["forward", "refuse"]
"""What happens to requests for other paths of the APIs."""
Authorization = Literal["server", "client"]
"""Whose API key is sent to an upstream."""
LogFormat = Literal["text", "json"]
"""Lines for people, or all of them as JSON."""

ANY_MODEL: Final = "*"
"""The pattern of an upstream that serves whatever no other one does."""
_PositiveInt = Annotated[int, Meta(ge=1, le=1_000_000_000)]
_Seconds = Annotated[float, Meta(gt=0, le=86_400)]
_ShortString = Annotated[str, Meta(min_length=1, max_length=200)]
_LISTEN: Final = re.compile(r"(?P<host>\[[0-9a-fA-F:.]+\]|[^:\s]+):(?P<port>\d{1,5})")
_ORIGIN: Final = re.compile(r"[a-z][a-z0-9+.-]*://[^\sA-Z/?#*]+")  # without a path; browsers write it in lower case
_MAX_PORT: Final = 65_535
_CHOICES: Final = {
    "mode": ModeName,
    "records": RecordMode,
    "unknown_paths": UnknownPaths,
    "authorization": Authorization,
    "key_header": KeyHeader,
    "wires": IncomingWire,
    "recall": RecallMode,
    "compaction": Compacting,
    "log_format": LogFormat,
}
"""Configuration keys with a fixed set of values."""
_INVALID_CHOICE: Final = "Invalid enum value "


class UpstreamLimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Timeouts in seconds, attempts, number of connections, and sizes of answers of an upstream."""

    connect: _Seconds = 10.0
    read: _Seconds = 600.0
    write: _Seconds = 60.0
    max_connections: _PositiveInt = 1_000
    max_attempts: Annotated[int, Meta(ge=1, le=10)] = 2
    max_wait: _Seconds = 1.0
    max_response_bytes: _PositiveInt = Limits().max_response_bytes
    max_stream_bytes: _PositiveInt = Limits().max_stream_bytes

    def to_limits(self) -> Limits:
        return Limits(**msgspec.structs.asdict(self))


class UpstreamConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A server that runs models.

    `key` is the name of an environment variable with the API key, or `key_file` the path of a file with it, and
    `key_header` the header in which it is sent. `authorization` tells whose API key is sent. `models` are patterns of
    model names, `rename` what this server calls some of them, `like` is the model to count tokens for, and `window`
    overrides the window of all models.
    `request_usage` asks for the usage of streams if the client does not. After a failure, other upstreams of a model
    are tried first for `cooldown` seconds.
    """

    name: _ShortString
    url: _ShortString
    wires: Annotated[tuple[IncomingWire, ...], Meta(min_length=1)] | None = None
    key: Annotated[str, Meta(pattern="^[A-Za-z_][A-Za-z0-9_]*$")] | None = None
    key_file: _ShortString | None = None
    key_header: KeyHeader | None = None
    authorization: Authorization = "server"
    models: Annotated[tuple[_ShortString, ...], Meta(min_length=1)] = (ANY_MODEL,)
    rename: dict[_ShortString, _ShortString] = {}
    like: _ShortString | None = None
    window: _PositiveInt | None = None
    request_usage: bool | None = None
    cooldown: Annotated[float, Meta(ge=0, le=86_400)] = 30.0
    limits: UpstreamLimits = UpstreamLimits()


class ServerLimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits of the server, with times in seconds.

    `concurrency` and `requests_per_minute` apply per API key, or to all requests together if there are no API keys;
    `failed_keys_per_minute` per address. `keys` and `users` limit what each key and each user may use of models.
    `max_engines` tenants stay in memory, each until it was idle for `engine_idle` seconds. `grace` is the time that
    running answers get on shutdown.

    A request may take `processor_seconds` of processor time, in one of `threads` threads, which tenants share. A
    process whose event loop is blocked for `stall_seconds` ends. On startup, the server waits for its store for up to
    `store_wait` seconds.
    """

    max_body_bytes: _PositiveInt = 32 * 1024 * 1024
    max_upload_bytes: _PositiveInt = 1_000_000_000
    concurrency: _PositiveInt = 256
    requests_per_minute: _PositiveInt = 6_000
    failed_keys_per_minute: _PositiveInt = 10
    keys: UsageLimits = UsageLimits()
    users: UsageLimits = UsageLimits()
    max_connections: _PositiveInt = 2_000
    max_header_bytes: _PositiveInt = 32_768
    header_timeout: _Seconds = 20.0
    write_timeout: _Seconds = 60.0
    max_engines: _PositiveInt = 1_000
    engine_idle: _Seconds = 900.0
    keep_alive: _Seconds = 75.0  # longer than the 60 of most clients and load balancers
    grace: _Seconds = 30.0
    threads: Annotated[int, Meta(ge=2, le=256)] = 6  # half of them for one tenant: all share one GIL
    processor_seconds: _Seconds = 30.0
    stall_seconds: Annotated[float, Meta(ge=2, le=86_400)] = 60.0
    store_wait: Annotated[float, Meta(ge=0, le=86_400)] = 30.0


class FitConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of `fit` mode. With `min_tokens`, texts may be shortened to that many tokens.

    Without a `policy`, `fit` chooses one for each request.

    `recall` overrides the policy's. A request may take `recall_rounds` rounds of recalls, whose results have at most
    `recall_tokens` together.

    `compaction` overrides that of the policy. `summarizer` is the model that writes summaries, at the upstream of the
    request; by default it is the model of the request. A request waits up to `compaction_wait` seconds for it.
    """

    policy: _ShortString | None = None
    min_tokens: _PositiveInt | None = None
    recall: RecallMode | None = None
    recall_rounds: Annotated[int, Meta(ge=1, le=20)] = 4
    recall_tokens: _PositiveInt = 8_000
    compaction: Compacting | None = None
    summarizer: _ShortString | None = None
    compaction_wait: _Seconds = 5.0


class RememberConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of `remember` mode. `other_rooms` is how many other rooms of the user are searched.

    Without a `policy`, conversations with tools get `agent`, and others `default`. `recall` overrides the policy's,
    within the limits of `fit` mode. `untrusted` says what becomes of text for memories that did not come from a user,
    in all modes and at `/mcp`.
    """

    policy: _ShortString | None = None
    recall: RecallMode | None = None
    embedder: _ShortString = "static"
    other_rooms: Annotated[int, Meta(ge=0, le=MAX_OTHER_ROOMS)] = 0
    untrusted: Untrusted = "propose"


class TelemetryConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Telemetry: `metrics` at `/metrics`, with a `tenant_label` on each, `otel` for OpenTelemetry, `logs` of builds.

    `log_format` is that of the whole log.
    """

    metrics: bool = False
    tenant_label: bool = False
    otel: bool = False
    logs: bool = False
    log_format: LogFormat = "text"


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The configuration of a server.

    `replica` is the URL of a PostgreSQL server that follows the store's, for lists and exports.
    `models` is the path of a model file, and `tenant` the tenant without API keys. `policies` are the paths of policy
    files that clients may name in addition to the built-in policies. `mcp_tools` are the tools at `/mcp`, by default
    all of them. `hosts` are names of this machine under which clients reach the server without API keys, and `origins`
    those of web pages that may use it from a browser. `trusted_proxies` are the addresses of reverse proxies whose
    `X-Forwarded-For` is believed.

    `own_calls` limits what calls of models that Brimful makes by itself may spend in a day, for each tenant.

    `workers` is the number of processes, `cache_mb` the limit of all caches of a process together. With
    `background_work` off, `brimful work` has to embed, run the janitor and delete old records.

    With `sessions`, the inspector also shows the session files of coding agents in the home folder. That is for local
    use only: `listen` must be a loopback address, and there may be no API keys, `hosts`, `origins` and proxies.

    Without `upstreams`, the server only shows existing records. With `ready_needs_upstreams`, it is not ready while all
    of them fail.
    """

    upstreams: tuple[UpstreamConfig, ...] = ()
    listen: str = "127.0.0.1:8080"
    store: Annotated[str, Meta(min_length=1, max_length=2_000)] = "sqlite:///brimful.db"
    replica: Annotated[str, Meta(min_length=1, max_length=2_000)] | None = None
    mode: ModeName = "fit"
    records: RecordMode = "all"
    record_share: Annotated[float, Meta(ge=0, le=1)] = 1.0
    unknown_paths: UnknownPaths = "forward"
    retention: _ShortString | None = None
    janitor_interval: _ShortString | None = None
    background_work: bool = True
    tenant: _ShortString = "default"
    require_keys: bool = False
    hosts: tuple[_ShortString, ...] = ()
    origins: tuple[_ShortString, ...] = ()
    trusted_proxies: tuple[_ShortString, ...] = ()
    models: _ShortString | None = None
    ready_needs_upstreams: bool = False
    workers: Annotated[int, Meta(ge=1, le=256)] = 1
    cache_mb: Annotated[int, Meta(ge=1, le=1_000_000)] = DEFAULT_BUDGET // MEBIBYTE
    policies: tuple[_ShortString, ...] = ()
    sessions: bool = False
    mcp_tools: Annotated[tuple[_ShortString, ...], Meta(min_length=1)] | None = None
    limits: ServerLimits = ServerLimits()
    fit: FitConfig = FitConfig()
    remember: RememberConfig = RememberConfig()
    own_calls: SpendingLimit = SpendingLimit()
    telemetry: TelemetryConfig = TelemetryConfig()

    @property
    def host(self) -> str:
        return self.listen.rpartition(":")[0].strip("[]")

    @property
    def port(self) -> int:
        """The port to listen on; 0 for any free port."""
        return int(self.listen.rpartition(":")[2])

    @property
    def shares_store(self) -> bool:
        """Whether other server processes may use the same store: workers, or any server of a PostgreSQL database."""
        return self.workers > 1 or parse_url(self.store).kind != "sqlite"


def load_config(path: str | Path, options: Mapping[str, Any] | None = None) -> Config:
    """Load a configuration file. Options override settings of the file."""
    return parse_config(read_config(path) | dict(options or {}), str(path))


def read_config(path: str | Path) -> dict[str, Any]:
    """Read a configuration file as plain data."""
    file = Path(path)
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise InvalidConfig(str(path), "", f"cannot be read: {reason}") from None
    try:
        data: dict[str, Any] = msgspec.toml.decode(text)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise InvalidConfig(str(path), "", f"is not TOML: {error}") from None
    return data


def parse_config(data: Mapping[str, Any], file: str) -> Config:
    """Convert plain data to a configuration; `file` is named in errors.

    >>> parse_config({"upstreams": [{"name": "local", "url": "http://127.0.0.1:8081/v1"}]}, "brimful.toml").port
    8080
    >>> parse_config({"upstreams": [{"name": "local", "url": "127.0.0.1"}]}, "brimful.toml")
    Traceback (most recent call last):
    ...
    brimful.errors.InvalidConfig: brimful.toml: upstreams.local.url: must be an http or https URL, not '127.0.0.1'
    """
    try:
        config = msgspec.convert(data, Config)
    except msgspec.ValidationError as error:
        raise _invalid_config(str(error), data, file) from None
    _check_listen(config.listen, file)
    _check_store(config, file)
    _check_durations(config, file)
    _check_origins(config.origins, file)
    _check_tools(config.mcp_tools, file)
    _check_sessions(config, file)
    seen: set[str] = set()
    for upstream in config.upstreams:
        if upstream.name in seen:
            raise InvalidConfig(file, f"upstreams.{upstream.name}", "duplicate name")
        seen.add(upstream.name)
        if upstream.key is not None and upstream.key_file is not None:
            raise InvalidConfig(file, f"upstreams.{upstream.name}.key_file", "cannot be combined with `key`")
        try:
            parse_address(upstream.url)
        except InvalidValue as error:
            raise InvalidConfig(file, f"upstreams.{upstream.name}.url", error.reason) from None
    return config


def _check_listen(listen: str, file: str) -> None:
    match = _LISTEN.fullmatch(listen)
    if match is None or int(match["port"]) > _MAX_PORT:
        raise InvalidConfig(file, "listen", f"must be HOST:PORT, such as '127.0.0.1:8080', not {preview(listen)}")


def _check_store(config: Config, file: str) -> None:
    try:
        target = parse_url(config.store)
    except InvalidValue as error:
        raise InvalidConfig(file, "store", error.reason) from None
    if target.in_memory and config.workers > 1:
        raise InvalidConfig(file, "workers", f"several workers need a store on disk, not {config.store}")
    if config.replica is not None:
        try:
            connect(config.store, replica=config.replica)
        except InvalidValue as error:
            raise InvalidConfig(file, "replica", error.reason) from None


def _check_origins(origins: tuple[str, ...], file: str) -> None:
    for origin in origins:
        if not _ORIGIN.fullmatch(origin):
            reason = f"must be origins as browsers send them, such as 'http://localhost:8000', not {preview(origin)}"
            raise InvalidConfig(file, "origins", reason)


def _check_sessions(config: Config, file: str) -> None:
    """Refuse to show files of the home folder to anybody but local programs."""
    if not config.sessions:
        return
    if not is_loopback_host(config.listen):
        raise InvalidConfig(file, "sessions", f"is for local use: `listen` must be on 127.0.0.1, not {config.listen}")
    for name in ("require_keys", "hosts", "origins", "trusted_proxies"):
        if getattr(config, name):
            raise InvalidConfig(file, "sessions", f"is for local use: it cannot be combined with `{name}`")


def _check_tools(names: tuple[str, ...] | None, file: str) -> None:
    try:
        select_tools(names)
    except InvalidValue as error:
        raise InvalidConfig(file, "mcp_tools", error.reason) from None


def _check_durations(config: Config, file: str) -> None:
    try:
        if config.retention is not None:
            parse_retention(config.retention)
        if config.janitor_interval is not None:
            parse_interval(config.janitor_interval, "janitor_interval")
    except InvalidValue as error:
        raise InvalidConfig(file, error.field, error.reason) from None


def _invalid_config(message: str, data: Mapping[str, Any], file: str) -> InvalidConfig:
    """Return an error that names the key, with the upstream's name instead of its index."""
    reason, _, path = message.partition(" - at `$")
    path = re.sub(
        r"^\.upstreams\[(\d+)\]", lambda match: f".upstreams.{_upstream_name(data, int(match[1]))}", path.rstrip("`")
    )
    unknown = re.search(r"unknown field `(.*)`", reason)
    key = ".".join(part for part in (path.strip("."), unknown[1] if unknown else "") if part)
    return InvalidConfig(file, key, "unknown key; see docs/configuration.md" if unknown else _name_choices(key, reason))


def _name_choices(key: str, reason: str) -> str:
    """List the valid choices in an error about an invalid one."""
    choices = get_args(_CHOICES.get(key.rpartition(".")[2].partition("[")[0]))
    if not choices or not reason.startswith(_INVALID_CHOICE):
        return reason
    return f"must be {' or '.join(map(repr, choices))}, not {reason.removeprefix(_INVALID_CHOICE)}"


def _upstream_name(data: Mapping[str, Any], index: int) -> str:
    upstream = data["upstreams"][index]
    name = upstream.get("name") if isinstance(upstream, dict) else None
    return name if isinstance(name, str) else f"[{index}]"


def require_keys_or_loopback(config: Config, file: str) -> None:
    """Reject a configuration that lets other machines in without API keys."""
    if not config.require_keys and not is_loopback_host(config.listen):
        raise InvalidConfig(
            file,
            "listen",
            f"{config.host} is reachable from other machines: require API keys (--require-keys; create one with "
            "`brimful api-key add`), or listen on 127.0.0.1",
        )
