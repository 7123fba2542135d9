"""Run the server with uvicorn until it receives a stop signal."""

import asyncio
import gc
import ipaddress
import logging
import socket
import sys
from collections.abc import Callable
from typing import Final

import uvicorn
from starlette.applications import Starlette

from brimful.errors import InvalidConfig
from brimful.server.app import create_app
from brimful.server.config import Config
from brimful.stores import connect

_STREAM_END_SECONDS: Final = 5.0  # for streams to send a last event, after the grace period
_KEEP_ALIVE: Final = 75  # seconds; longer than the 60 of most clients and load balancers
_GC_THRESHOLD: Final = 20_000  # objects; a request with hundreds of messages makes fewer, and almost no cycles
_SWITCH_INTERVAL: Final = 0.001  # seconds; Python's default of 5 ms would delay requests while another thread counts

Announce = Callable[[str], None]


class _Server(uvicorn.Server):
    """Announces its address, and gives running answers time to finish on shutdown."""

    def __init__(self, app: Starlette, config: Config, announce: Announce) -> None:
        grace = config.limits.grace
        super().__init__(
            uvicorn.Config(
                app,
                log_config=None,
                access_log=False,
                server_header=False,
                timeout_keep_alive=_KEEP_ALIVE,
                timeout_graceful_shutdown=int(grace + _STREAM_END_SECONDS) + 1,
            )
        )
        self._shutdown = app.state.shutdown
        self._grace = grace
        self._announce = announce

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        _tune_gc()
        for server in self.servers:
            for bound in server.sockets:
                host, port = bound.getsockname()[:2]
                self._announce(f"http://{f'[{host}]' if ':' in host else host}:{port}")

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._shutdown.started.set()
        asyncio.get_running_loop().call_later(self._grace, self._shutdown.forced.set)
        await super().shutdown(sockets)


def run(config: Config, *, file: str, announce: Announce) -> None:
    """Serve until a stop signal. `announce` is called with the address."""
    require_keys_or_loopback(config, file)
    app = create_app(config, file=file)
    asyncio.run(_check_store(config))
    with bind_socket(config, file) as listening:
        _configure_logging()
        sys.setswitchinterval(_SWITCH_INTERVAL)
        _Server(app, config, announce).run(sockets=[listening])


def _tune_gc() -> None:
    """Collect garbage less often, and never scan what is loaded at startup: each scan blocks all requests."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_GC_THRESHOLD, *gc.get_threshold()[1:])


def bind_socket(config: Config, file: str) -> socket.socket:
    """Bind the address to listen on."""
    family = socket.AF_INET6 if ":" in config.host else socket.AF_INET
    # With an explicit protocol asyncio sets TCP_NODELAY; otherwise small answers wait 40 ms for an ACK.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((config.host, config.port))
    except OSError as error:
        listening.close()
        raise InvalidConfig(file, "listen", f"cannot listen on {config.listen}: {error.strerror or error}") from None
    return listening


async def _check_store(config: Config) -> None:
    """Open the store once, to report problems before serving requests."""
    async with connect(config.store):
        pass


def require_keys_or_loopback(config: Config, file: str) -> None:
    """Reject a configuration that lets other machines in without API keys."""
    if not config.require_keys and not _is_loopback(config.host):
        raise InvalidConfig(
            file,
            "listen",
            f"{config.host} is reachable from other machines: require API keys (--require-keys; create one with "
            "`brimful api-key add`), or listen on 127.0.0.1",
        )


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _configure_logging() -> None:
    """Log one JSON line per request to standard output, and warnings to standard error."""
    for name, stream in (("brimful.access", sys.stdout), ("brimful", sys.stderr), ("uvicorn.error", sys.stderr)):
        logger, handler = logging.getLogger(name), logging.StreamHandler(stream)
        handler.setFormatter(logging.Formatter("%(message)s" if stream is sys.stdout else "%(levelname)s %(message)s"))
        logger.addHandler(handler)
        logger.propagate = False
        logger.setLevel(logging.INFO if stream is sys.stdout else logging.WARNING)
