"""What a server is told: where it listens, what it keeps, whom it asks. Read from TOML, checked, and never a secret."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal, get_args

import msgspec
from msgspec import Meta

from brimful.core.validation import preview
from brimful.engine.retention import parse_retention
from brimful.errors import InvalidConfig, InvalidValue
from brimful.providers import Limits
from brimful.providers.address import parse_address
from brimful.render.incoming import IncomingWire
from brimful.stores.urls import parse_url

ModeName = Literal["fit", "remember"]
"""What becomes of a request: it is made to fit, or it is answered from all that was ever said in its conversation."""
RecordMode = Literal["all", "trimmed", "none"]
"""Whose contexts are kept: all, those from which something was left out, or none."""
Authorization = Literal["key", "caller"]
"""Whose key an upstream gets: ours, or the caller's own."""

_PositiveInt = Annotated[int, Meta(ge=1, le=1_000_000_000)]
_Seconds = Annotated[float, Meta(gt=0, le=86_400)]
_ShortString = Annotated[str, Meta(min_length=1, max_length=200)]
_LISTEN: Final = re.compile(r"(?P<host>\[[0-9a-fA-F:.]+\]|[^:\s]+):(?P<port>\d{1,5})")
_MAX_PORT: Final = 65_535
_CHOICES: Final = {"mode": ModeName, "records": RecordMode, "authorization": Authorization, "wires": IncomingWire}
"""What keys take that take one of a few words."""
_INVALID_CHOICE: Final = "Invalid enum value "


class UpstreamLimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How long to wait for an upstream, in seconds, how often to try, and how many connections to hold."""

    connect: _Seconds = 10.0
    read: _Seconds = 600.0
    write: _Seconds = 60.0
    connections: _PositiveInt = 1_000
    attempts: Annotated[int, Meta(ge=1, le=10)] = 2
    longest_wait: _Seconds = 1.0

    def of_connection(self) -> Limits:
        """Return them as a connection takes them. Clients have patience of their own: little is added to it."""
        return Limits(**msgspec.structs.asdict(self))


class UpstreamConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A server that runs models.

    `key` is the name of an environment variable. `models` are patterns of names that it runs. `authorization` is
    whose key it gets: ours, or the caller's own. `like` names the model that its models are counted as, and `window`
    is the window that they have there, whatever their names say. `ask_usage` says whether streams are asked for their
    usage where the caller does not ask.
    """

    name: _ShortString
    url: _ShortString
    wires: Annotated[tuple[IncomingWire, ...], Meta(min_length=1)] | None = None
    key: Annotated[str, Meta(pattern="^[A-Za-z_][A-Za-z0-9_]*$")] | None = None
    authorization: Authorization = "key"
    models: Annotated[tuple[_ShortString, ...], Meta(min_length=1)] = ("*",)
    like: _ShortString | None = None
    window: _PositiveInt | None = None
    ask_usage: bool | None = None
    limits: UpstreamLimits = UpstreamLimits()


class ServerLimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a caller may ask of the server. All but `grace` are for each key, or for all who have none together.

    `grace` are the seconds that running answers have to end when the server stops.
    """

    body_bytes: _PositiveInt = 32 * 1024 * 1024
    concurrency: _PositiveInt = 256
    requests_per_minute: _PositiveInt = 6_000
    grace: _Seconds = 30.0


class FitConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How requests are made to fit. With `min_tokens`, texts may be cut down to so many tokens."""

    policy: _ShortString = "fit"
    min_tokens: _PositiveInt | None = None


class RememberConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How conversations are remembered: by which policy and embedder. `other_rooms` of a user may be searched, too."""

    policy: _ShortString = "default"
    embedder: _ShortString = "static"
    other_rooms: Annotated[int, Meta(ge=0, le=1_000)] = 0


class TelemetryConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is measured for other tools: `metrics` at /metrics, `otel` for OpenTelemetry; `tenants` are told apart."""

    metrics: bool = False
    tenants: bool = False
    otel: bool = False


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All of it. `models` is the path of a model file, `tenant` whose records they are where callers have no keys.

    Without `upstreams` nobody is asked: the records can be looked at, and that is all.
    """

    upstreams: tuple[UpstreamConfig, ...] = ()
    listen: str = "127.0.0.1:8080"
    store: _ShortString = "sqlite:///brimful.db"
    mode: ModeName = "fit"
    records: RecordMode = "all"
    keep: _ShortString | None = None
    tidy: _ShortString | None = None
    tenant: _ShortString = "default"
    keys: bool = False
    models: _ShortString | None = None
    limits: ServerLimits = ServerLimits()
    fit: FitConfig = FitConfig()
    remember: RememberConfig = RememberConfig()
    telemetry: TelemetryConfig = TelemetryConfig()

    @property
    def host(self) -> str:
        """Where to listen."""
        return self.listen.rpartition(":")[0].strip("[]")

    @property
    def port(self) -> int:
        """At which port; 0 for any that is free."""
        return int(self.listen.rpartition(":")[2])


def load_config(path: str | Path) -> Config:
    """Return the configuration that a file holds."""
    return parse_config(read_config(path), str(path))


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
    """Return a configuration from plain data; `file` is named in errors.

    >>> parse_config({"upstreams": [{"name": "local", "url": "http://127.0.0.1:8081/v1"}]}, "brimful.toml").port
    8080
    >>> parse_config({"upstreams": [{"name": "local", "url": "127.0.0.1"}]}, "brimful.toml")
    Traceback (most recent call last):
    ...
    brimful.errors.InvalidConfig: brimful.toml: upstreams.local.url: must be an http or https address, not '127.0.0.1'
    """
    try:
        config = msgspec.convert(data, Config)
    except msgspec.ValidationError as error:
        raise _invalid_config(str(error), data, file) from None
    _check_listen(config.listen, file)
    _check_store(config.store, file)
    _check_duration("keep", config.keep, file)
    _check_duration("tidy", config.tidy, file)
    seen: set[str] = set()
    for upstream in config.upstreams:
        if upstream.name in seen:
            raise InvalidConfig(file, f"upstreams.{upstream.name}", "two upstreams have this name")
        seen.add(upstream.name)
        try:
            parse_address(upstream.url)
        except InvalidValue as error:
            raise InvalidConfig(file, f"upstreams.{upstream.name}.url", error.reason) from None
    return config


def _check_listen(listen: str, file: str) -> None:
    found = _LISTEN.fullmatch(listen)
    if found is None or int(found["port"]) > _MAX_PORT:
        raise InvalidConfig(file, "listen", f"must be HOST:PORT, such as '127.0.0.1:8080', not {preview(listen)}")


def _check_store(store: str, file: str) -> None:
    try:
        parse_url(store)
    except InvalidValue as error:
        raise InvalidConfig(file, "store", error.reason) from None


def _check_duration(key: str, time: str | None, file: str) -> None:
    try:
        if time is not None:
            parse_retention(time)
    except InvalidValue as error:
        raise InvalidConfig(file, key, error.reason) from None


def _invalid_config(message: str, data: Mapping[str, Any], file: str) -> InvalidConfig:
    """Name the key, and the upstream that a path only numbers."""
    reason, _, path = message.partition(" - at `$")
    path = re.sub(
        r"^\.upstreams\[(\d+)\]", lambda found: f".upstreams.{_upstream_name(data, int(found[1]))}", path.rstrip("`")
    )
    unknown = re.search(r"unknown field `(.*)`", reason)
    key = ".".join(part for part in (path.strip("."), unknown[1] if unknown else "") if part)
    return InvalidConfig(file, key, "no such key; see docs/server.md" if unknown else _name_choices(key, reason))


def _name_choices(key: str, reason: str) -> str:
    """Say which words a key takes, where it got another one."""
    choices = get_args(_CHOICES.get(key.rpartition(".")[2].partition("[")[0]))
    if not choices or not reason.startswith(_INVALID_CHOICE):
        return reason
    return f"must be {' or '.join(map(repr, choices))}, not {reason.removeprefix(_INVALID_CHOICE)}"


def _upstream_name(data: Mapping[str, Any], at: int) -> str:
    upstream = data["upstreams"][at]
    name = upstream.get("name") if isinstance(upstream, dict) else None
    return name if isinstance(name, str) else f"[{at}]"
