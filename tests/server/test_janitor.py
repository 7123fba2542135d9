"""The server runs the janitor for all tenants."""

import asyncio
import time

import pytest

from brimful.engine import Engine
from brimful.errors import InvalidConfig
from brimful.records import Message
from brimful.server.config import parse_config
from brimful.stores import connect


def test_the_janitor_visits_all_tenants(start, tmp_path):
    url = f"sqlite:///{tmp_path}/brimful.db"
    spam = "Click here, click here, and you will be rich before tomorrow!"

    now = time.time() - 60

    async def wrote():
        for tenant in ("one", "two"):
            async with Engine(url, tenant=tenant, embedder="none") as engine:
                messages = [Message(id=f"m{n}", room="r", content=spam, sender="bot", at=now + n) for n in range(20)]
                await engine.post_many(messages)

    async def tidied():
        """Look until both tenants have their line."""
        async with connect(url) as database, asyncio.timeout(120):
            lines = []
            while len(lines) != 2:
                lines = [each.content for name in ("one", "two") for each in await database.tenant(name).summaries("r")]
            return lines

    asyncio.run(wrote())
    start(janitor_interval="6h")
    for line in asyncio.run(tidied()):
        assert line.startswith("19 near-identical messages from bot, ")
        assert line.endswith("e.g. “Click here, click here, and you will be rich before …”")


@pytest.mark.parametrize("tidy", ["soon", "0h"])
def test_an_invalid_duration_is_rejected(tidy):
    with pytest.raises(InvalidConfig, match="janitor_interval"):
        parse_config({"janitor_interval": tidy}, "brimful.toml")
