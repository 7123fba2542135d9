"""The server removes old records of all tenants."""

import asyncio
import time

import pytest

from brimful.errors import InvalidConfig
from brimful.packagers import message
from brimful.records import Snapshot
from brimful.server.config import parse_config
from brimful.stores import connect
from strategies import COUNTER
from support import build

DAY = 86_400.0


def test_old_records_are_removed(start, tmp_path):
    now, url = time.time(), f"sqlite:///{tmp_path}/brimful.db"
    context = build([message("Tea?", counter=COUNTER, id="m1", current=True)])

    async def wrote():
        async with connect(url) as database:
            for tenant in ("one", "two"):
                for id, at in (("old", now - 9 * DAY), ("new", now)):
                    await database.tenant(tenant).save_context(Snapshot(id=id, room="r", context=context, at=at))

    async def pruned():
        """Look until both tenants have lost what is old."""
        async with connect(url) as database, asyncio.timeout(120):
            left = []
            while len(left) != 2:
                left = [each.id for name in ("one", "two") for each in await database.tenant(name).builds()]
            return left

    asyncio.run(wrote())
    start(retention="7d")
    assert asyncio.run(pruned()) == ["new", "new"]


@pytest.mark.parametrize("keep", ["soon", "0d", "59m"])
def test_an_invalid_duration_is_rejected(keep):
    with pytest.raises(InvalidConfig, match="retention"):
        parse_config({"retention": keep}, "brimful.toml")


def test_a_janitor_may_run_more_often_than_every_hour():
    assert parse_config({"janitor_interval": "10m"}, "brimful.toml").janitor_interval == "10m"
    with pytest.raises(InvalidConfig, match="janitor_interval"):
        parse_config({"janitor_interval": "0m"}, "brimful.toml")
