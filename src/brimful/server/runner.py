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

_STREAM_END_SECONDS: Final = 5.0  # seconds for streams to say that they end, after their grace
_KEEP_ALIVE: Final = 75  # seconds that a connection stays open unused; clients and load balancers give up after 60
_GC_THRESHOLD: Final = (
    20_000  # objects; a request of some hundred messages makes fewer, and nearly none of them in cycles
)
_SWITCH_INTERVAL: Final = (
    0.001  # seconds after which a thread that counts lets the others on; Python's own 5 ms would be felt
)

Announce = Callable[[str], None]


class _Server(uvicorn.Server):
    """Tells where it listens, and gives running answers their time when it stops."""

    def __init__(self, app: Starlette, config: Config, tell: Announce) -> None:
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
        self._stopping = app.state.stopping
        self._grace = grace
        self._tell = tell

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        _tune_gc()
        for server in self.servers:
            for listening in server.sockets:
                host, port = listening.getsockname()[:2]
                self._tell(f"http://{f'[{host}]' if ':' in host else host}:{port}")

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._stopping.begun.set()
        asyncio.get_running_loop().call_later(self._grace, self._stopping.now.set)
        await super().shutdown(sockets)


def run(config: Config, *, file: str, tell: Announce) -> None:
    """Serve until a signal comes. `tell` is told the address."""
    require_keys_or_loopback(config, file)
    app = create_app(config, file=file)
    asyncio.run(_check_store(config))
    with bind_socket(config, file) as listening:
        _configure_logging()
        sys.setswitchinterval(_SWITCH_INTERVAL)
        _Server(app, config, tell).run(sockets=[listening])


def _tune_gc() -> None:
    """Look for garbage seldom, and not among what is loaded by now, which stays: all would wait for that."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_GC_THRESHOLD, *gc.get_threshold()[1:])


def bind_socket(config: Config, file: str) -> socket.socket:
    """Take the address; if that cannot be had, say why."""
    family = socket.AF_INET6 if ":" in config.host else socket.AF_INET
    # By its protocol asyncio knows that small answers are to go out at once: else they wait 40 ms for a receipt.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((config.host, config.port))
    except OSError as error:
        listening.close()
        raise InvalidConfig(
            file, "listen", f"{config.listen} cannot be listened on: {error.strerror or error}"
        ) from None
    return listening


async def _check_store(config: Config) -> None:
    """Open the store once: what is wrong with it is better said before anybody is served."""
    async with connect(config.store):
        pass


def require_keys_or_loopback(config: Config, file: str) -> None:
    """Refuse to let anybody in who can reach the machine, and has no key."""
    if not config.keys and not _is_loopback(config.host):
        raise InvalidConfig(
            file,
            "listen",
            f"{config.host} can be reached by others, and callers need no keys: make keys (`brimful api-key add`) "
            "and say keys = true (--keys), or listen on 127.0.0.1",
        )


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _configure_logging() -> None:
    """Write one JSON line a request to standard output, and troubles to standard error."""
    for name, stream in (("brimful.access", sys.stdout), ("brimful", sys.stderr), ("uvicorn.error", sys.stderr)):
        logger, handler = logging.getLogger(name), logging.StreamHandler(stream)
        handler.setFormatter(logging.Formatter("%(message)s" if stream is sys.stdout else "%(levelname)s %(message)s"))
        logger.addHandler(handler)
        logger.propagate = False
        logger.setLevel(logging.INFO if stream is sys.stdout else logging.WARNING)
