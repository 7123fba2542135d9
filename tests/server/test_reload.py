"""Reloading: new requests are served with the new configuration, running ones finish with the old one."""

import asyncio
import os
import signal
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import httpx2
import pytest

from brimful.errors import InvalidConfig
from brimful.server.app import create_app
from brimful.server.background import Shutdown
from brimful.server.config import Config, load_config
from brimful.server.reload import ReloadableApp
from brimful.stores import connect
from server.test_processes import workers_of
from server.test_shutdown import CHAT, HI, running, stop
from server.upstream import chat_events, in_step, serving

RELOAD = "/brimful/v1/reload"
ALONE = {"connection": "close"}  # any worker may answer
needs_signal = pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="Windows has no SIGHUP")


def write_config(folder, upstream, model, *settings):
    """Write a configuration whose upstream calls the model by another name."""
    (folder / "brimful.toml").write_text(
        "\n".join(
            [
                f'store = "sqlite:///{folder}/brimful.db"',
                *settings,
                "[[upstreams]]",
                f'name = "local"\nurl = "{upstream.address}/v1"\nwindow = 8192',
                f'rename = {{"gpt-4o" = "{model}"}}',
            ]
        )
    )


@contextmanager
def reloadable(folder):
    """Serve the configuration in a folder."""
    read = partial(load_config, folder / "brimful.toml")
    with (
        serving(create_app(read(), file=str(folder / "brimful.toml"), environ={}, read=read)) as (address, _),
        httpx2.Client(base_url=address, timeout=120) as client,
    ):
        yield client


def models_of(upstream):
    return [body["model"] for body in upstream.bodies]


async def count_responses(folder):
    async with connect(f"sqlite:///{folder}/brimful.db") as database:
        return len(await database.tenant("default").responses())


def test_a_running_stream_finishes_with_the_configuration_that_it_began_with(tmp_path, upstream):
    words = [f"{number} " for number in range(40)]
    upstream.answers, upstream.pause = [list(chat_events(*words)), None], 0.03
    write_config(tmp_path, upstream, "old")
    with reloadable(tmp_path) as client, client.stream("POST", CHAT, json=HI | {"stream": True}) as answer:
        pieces = answer.iter_bytes()
        first = next(pieces)
        write_config(tmp_path, upstream, "new")
        assert client.post(RELOAD).json() == {"needs_restart": []}
        assert client.post(CHAT, json=HI).status_code == 200
        rest = b"".join(pieces)
    assert (first + rest).decode() == "".join(chat_events(*words))
    assert models_of(upstream) == ["old", "new"]
    assert asyncio.run(count_responses(tmp_path)) == 2


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        (['mode = "forget"'], "mode: must be 'fit' or 'remember', not 'forget'"),
        (["mode = "], "is not TOML"),
        (['models = "missing.toml"'], "missing.toml"),
        (['policies = ["missing.toml"]'], "missing.toml"),
    ],
)
def test_a_wrong_file_changes_nothing(tmp_path, upstream, settings, reason):
    write_config(tmp_path, upstream, "old")
    with reloadable(tmp_path) as client:
        write_config(tmp_path, upstream, "new", *settings)
        answer = client.post(RELOAD)
        assert answer.status_code == 400
        assert answer.json()["error"]["message"].startswith("nothing was changed: ")
        assert reason in answer.json()["error"]["message"]
        assert client.post(CHAT, json=HI).status_code == 200
        write_config(tmp_path, upstream, "newer")
        assert client.post(RELOAD).status_code == 200
        assert client.post(CHAT, json=HI).status_code == 200
    assert models_of(upstream) == ["old", "newer"]


class Services:
    """Services that cannot be used."""

    shutdown = Shutdown()
    app = None
    routes = ()

    async def warm_up(self):
        raise InvalidConfig("brimful.toml", "upstreams", "cannot be used")

    async def start(self):
        raise AssertionError

    async def close(self):
        pass


class Database:
    """A database whose keys must not be read again."""

    async def reload_keys(self):
        raise AssertionError


def test_keys_of_the_store_are_not_read_again_for_services_that_do_not_start():
    app = ReloadableApp(Config(), lambda *_: Services(), Database(), read=Config, file="brimful.toml")
    with pytest.raises(InvalidConfig, match="cannot be used"):
        asyncio.run(app.reload())


def test_settings_that_need_a_restart_are_named(tmp_path, upstream):
    write_config(tmp_path, upstream, "old")
    with reloadable(tmp_path) as client:
        changed = ['listen = "0.0.0.0:1"', "workers = 3", "limits.grace = 5", "limits.concurrency = 9"]
        write_config(tmp_path, upstream, "new", *changed)
        assert client.post(RELOAD).json() == {"needs_restart": ["listen", "workers", "limits.grace"]}
        assert client.post(CHAT, json=HI).status_code == 200
        assert client.post(RELOAD).json()["needs_restart"] == ["listen", "workers", "limits.grace"]
    assert models_of(upstream) == ["new"]


def test_a_reload_lets_nobody_in_without_a_key(tmp_path, upstream):
    write_config(tmp_path, upstream, "old", 'listen = "0.0.0.0:1"', "require_keys = true")
    read = partial(load_config, tmp_path / "brimful.toml")
    app = create_app(read(), environ={}, read=read)
    write_config(tmp_path, upstream, "new", 'listen = "0.0.0.0:1"')
    with pytest.raises(InvalidConfig, match="require API keys"):
        asyncio.run(app.reload())


def test_event_streams_end_so_that_browsers_connect_again(tmp_path, upstream):
    write_config(tmp_path, upstream, "old")
    with reloadable(tmp_path) as client:
        with client.stream("GET", "/brimful/v1/events") as events:
            pieces = events.iter_bytes()
            next(pieces)
            assert client.post(RELOAD).status_code == 200
            assert b"".join(pieces) == b""
        with client.stream("GET", "/brimful/v1/events") as events:
            assert events.status_code == 200


def test_keys_in_files_are_read_again(tmp_path, upstream):
    key = tmp_path / "key"
    key.write_text("sk-one\n")
    key.chmod(0o600)
    write_config(tmp_path, upstream, "old")
    with (tmp_path / "brimful.toml").open("a") as file:
        file.write('\nkey_file = "key"')
    with reloadable(tmp_path) as client:
        client.post(CHAT, json=HI)
        key.write_text("sk-two\n")
        assert client.post(RELOAD).status_code == 200
        client.post(CHAT, json=HI)
        key.write_text("")
        reason = client.post(RELOAD).json()["error"]["message"]
        assert reason.endswith(f"brimful.toml: upstreams.local.key_file: {key} is empty; write the secret to it")
        client.post(CHAT, json=HI)
    sent = [headers["authorization"] for _, headers, _ in upstream.requests]
    assert sent == ["Bearer sk-one", "Bearer sk-two", "Bearer sk-two"]


@pytest.mark.parametrize(("scope", "status"), [("admin", 200), ("write", 403)])
def test_reloading_needs_the_scope_admin(tmp_path, upstream, scope, status):
    write_config(tmp_path, upstream, "old", "require_keys = true")

    async def make_key():
        async with connect(f"sqlite:///{tmp_path}/brimful.db") as database:
            return (await database.api_keys("acme").create(name="x", scopes=[scope], at=1.0))[1]

    headers = {"authorization": f"Bearer {asyncio.run(make_key())}"}
    with reloadable(tmp_path) as client:
        assert client.post(RELOAD).status_code == 401
        assert client.post(RELOAD, headers=headers).status_code == status


def ask_until_all_answer_as(client, upstream, model):
    """Send requests until 20 in a row reached the upstream with this name of the model."""
    while models_of(upstream)[-20:] != [model] * 20:
        assert client.post(CHAT, json=HI, headers=ALONE).status_code == 200


def change(folder, old, new):
    file = folder / "brimful.toml"
    file.write_text(file.read_text().replace(old, new))


@needs_signal
@pytest.mark.parametrize("workers", [1, 2])
def test_all_processes_reload_on_a_signal_and_on_request(tmp_path, upstream, workers):
    settings = f"workers = {workers}"
    replaces = workers > 1 and Path("/proc/self/task").exists()  # where workers can be found
    with running(tmp_path, upstream, settings=settings) as (client, process):
        file = tmp_path / "brimful.toml"
        ask_until_all_answer_as(client, upstream, "gpt-4o")
        change(tmp_path, "window = 8192", 'window = 8192\nrename = {"gpt-4o" = "second"}')
        process.send_signal(signal.SIGHUP)
        ask_until_all_answer_as(client, upstream, "second")
        change(tmp_path, '"second"', '"third"')
        assert client.post(RELOAD).json() == {"needs_restart": []}
        ask_until_all_answer_as(client, upstream, "third")
        text = file.read_text()
        file.write_text("mode = 3\n" + text)
        process.send_signal(signal.SIGHUP)
        while "nothing was changed" not in (tmp_path / "errors").read_text():
            assert client.post(CHAT, json=HI, headers=ALONE).status_code == 200
        assert set(models_of(upstream)[-20:]) == {"third"}
        if replaces:
            replace_a_worker(client, process)
            for _ in range(20):
                assert client.post(CHAT, json=HI, headers=ALONE).status_code == 200
            assert set(models_of(upstream)[-20:]) == {"third"}
        stop(process)
        assert process.wait(120) == (0 if workers > 1 else -signal.SIGTERM)
    lines = (tmp_path / "errors").read_text().splitlines()
    errors = [line for line in lines if not line.startswith("INFO")]
    replaced = ["WARNING a worker ended with exit code -9 and is replaced"] * replaces
    assert errors == [f"ERROR nothing was changed: {file}: mode: Expected `str`, got `int`", *replaced]
    assert sum(line.endswith(f" reloaded {file}") for line in lines) >= 2 * workers


def replace_a_worker(client, process):
    """Kill a worker. The new one begins with the configuration that was reloaded, not with the broken file."""
    killed = min(workers_of(process))
    os.kill(killed, signal.SIGKILL)
    while len(workers_of(process) - {killed}) < 2:
        assert client.post(CHAT, json=HI, headers=ALONE).status_code == 200


def test_a_stream_from_before_a_reload_finishes_on_shutdown(tmp_path, upstream):
    words = [f"{number} " for number in range(4)]
    stream, arrived = in_step(list(chat_events(*words)))
    upstream.answers = [stream]
    with running(tmp_path, upstream) as (client, process):
        with client.stream("POST", CHAT, json=HI | {"stream": True}) as answer:
            pieces = answer.iter_raw()
            first = next(pieces)
            assert client.post(RELOAD).status_code == 200
            stop(process)
            arrived.release()
            rest = []
            for piece in pieces:
                rest.append(piece)
                arrived.release()
        process.wait(120)
    assert (first + b"".join(rest)).decode() == "".join(chat_events(*words))
    assert asyncio.run(count_responses(tmp_path)) == 1
