"""Stores, backups and exports can be read by nobody but their owner, whatever the umask."""

import asyncio
import os
import stat

import pytest

from brimful.private_files import open_private
from brimful.records import Lorebook
from brimful.stores import connect
from stores.samples import make_entry, make_message

pytestmark = pytest.mark.skipif(os.name == "nt", reason="Windows has no modes")


@pytest.fixture(params=[0o000, 0o022, 0o777])
def umask(request):
    before = os.umask(request.param)
    yield
    os.umask(before)


def modes(folder):
    return {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir() if path.is_file()}


def test_stores_and_backups(tmp_path, umask):  # noqa: ARG001 - sets it
    async def story():
        async with connect(f"sqlite:///{tmp_path}/chat.db") as database:
            await database.tenant("acme").post([make_message("m1")])
            used = modes(tmp_path)
            await database.backup(tmp_path / "copy.backup")
            return used

    used = asyncio.run(story())
    assert set(used) == {"chat.db", "chat.db-wal", "chat.db-shm"}
    assert set((used | modes(tmp_path)).values()) == {0o600}
    assert "copy.backup" in modes(tmp_path)


def test_a_backup_of_postgres(tmp_path, postgres_url, umask):  # noqa: ARG001 - sets it
    async def story():
        async with connect(postgres_url) as database:
            await database.tenant("acme").post([make_message("m1")])
            await database.backup(tmp_path / "copy.backup")

    asyncio.run(story())
    assert modes(tmp_path) == {"copy.backup": 0o600}


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (["db", "export", "--out"], "records.jsonl"),
        (["memory", "export", "--out"], "memories.jsonl"),
        (["lorebook", "export", "world", "--out"], "world.json"),
        (["context", "export", "--out"], "contexts.jsonl"),
        (["context", "export", "--out"], "contexts.parquet"),
        (["assemble", "--room", "general", "--model", "gpt-4o", "--out"], "context.json"),
    ],
)
def test_exports(tmp_path, run, command, name, umask):  # noqa: ARG001 - sets it
    db = f"sqlite:///{tmp_path}/chat.db"

    async def fill():
        async with connect(db) as database:
            store = database.tenant("default")
            await store.post([make_message("m1")])
            await store.put(Lorebook(id="world"))
            await store.save_lore([make_entry("l", "The tower is old", lorebook="world")])

    asyncio.run(fill())
    run(*command, str(tmp_path / name), "--db", db)
    assert modes(tmp_path)[name] == 0o600


def test_existing_files_keep_their_mode(tmp_path):
    for name, mode in (("shared", 0o644), ("strict", 0o400), ("new", None)):
        path = tmp_path / name
        if mode is not None:
            path.touch()
            path.chmod(0o600 | mode)
        with open_private(path) as file:
            file.write(b"x")
    assert modes(tmp_path) == {"shared": 0o644, "strict": 0o600, "new": 0o600}
