"""A store on a read-only disk: it can be read, and writing is a clear error."""

import asyncio
import os
import sys

import pytest

from brimful.engine import Engine
from brimful.errors import StoreUnavailable
from brimful.records import Room
from brimful.stores import connect

_NOBODY = 65_534

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="rights are different there")


async def use(url, *, write):
    async with Engine(url, model="gpt-4o") as engine:
        if write:
            await engine.post(room="tea", text="The demo is on Thursday.")
            await engine.remember("Ada drinks tea.", id="tea")
            await engine.wait_indexed()
        search = await engine.search("tea")
        context = await engine.assemble(room="tea", message="When is the demo?", save=write)
        return len(search.hits), len(context.kept), await engine.store.list_records(Room, limit=9)


@pytest.fixture
def read_only(tmp_path):
    """Return the URL of a store that cannot be written, and what it holds."""
    folder = tmp_path / "disk"
    folder.mkdir()
    file = folder / "chat.db"
    found = asyncio.run(use(f"sqlite:///{file}", write=True))
    for each in (*folder.iterdir(), folder):
        each.chmod(0o555)
    user = os.geteuid()
    if user == 0:  # root may write anything
        for parent in folder.parents:
            if not parent.stat().st_mode & 0o001:
                parent.chmod(0o755)
        os.seteuid(_NOBODY)
    yield f"sqlite:///{file}", found
    if user == 0:
        os.seteuid(user)
    folder.chmod(0o755)


def test_a_read_only_file_can_be_read(read_only):
    url, found = read_only
    assert asyncio.run(use(url, write=False)) == found


def test_a_read_only_file_can_be_checked(read_only):
    async def check():
        async with connect(read_only[0]) as database:
            return database.read_only, [each.text for each in await database.check()]

    assert asyncio.run(check()) == (
        True,
        ["the full-text index was not checked, since the file cannot be written"],
    )


def test_writing_is_an_error(read_only):
    async def write():
        async with Engine(read_only[0], model="gpt-4o") as engine:
            await engine.post(room="tea", text="More tea?")

    with pytest.raises(StoreUnavailable, match="the database may not be written"):
        asyncio.run(write())
