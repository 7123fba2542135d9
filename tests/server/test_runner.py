"""How the server listens."""

import asyncio
import logging
import socket

from brimful.server.config import Config
from brimful.server.runner import LogFormatter, bind_socket


def test_small_answers_are_sent_at_once():
    """Each connection that comes in has Nagle's algorithm turned off, by asyncio, which must know what it is."""

    async def accepted():
        result = asyncio.get_running_loop().create_future()

        async def meet(_, writer):
            result.set_result(writer.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            writer.close()

        with bind_socket(Config(listen="127.0.0.1:0"), "brimful.toml") as listening:
            async with await asyncio.start_server(meet, sock=listening):
                _, writer = await asyncio.open_connection(*listening.getsockname()[:2])
                found = await result
                writer.close()
        return found

    assert asyncio.run(accepted())


def test_a_message_cannot_forge_a_line_of_the_log():
    record = logging.LogRecord(
        "brimful", logging.WARNING, "", 0, "failed: %s", ("x\nERROR \x1b[31mforged\r\x9bdone",), None
    )
    shown = LogFormatter("%(levelname)s %(message)s").format(record)
    assert shown == "WARNING failed: x\n    ERROR [31mforged\n    done"
