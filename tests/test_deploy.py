"""The files in `deploy`: what they run exists, and what they configure is valid."""

import re
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from brimful.cli.app import COMMANDS, app
from brimful.server.config import load_config

ROOT = Path(__file__).parents[1]
DEPLOY = ROOT / "deploy"
GRACE_SECONDS = load_config(DEPLOY / "brimful.toml").limits.grace


def containers():
    """Yield each container of Brimful: its arguments, its environment and the seconds in which it may stop."""
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    for service in services.values():
        if service["image"] == "brimful":
            yield service["command"], service["environment"], int(service["stop_grace_period"].removesuffix("s"))
    for document in yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text()):
        if document["kind"] == "Deployment" and "pgbouncer" not in document["metadata"]["name"]:
            pod = document["spec"]["template"]["spec"]
            (container,) = pod["containers"]
            environment = {each["name"]: each.get("value", "") for each in container["env"]}
            yield container["args"], environment, pod["terminationGracePeriodSeconds"]


@pytest.mark.parametrize(("args", "environment", "seconds"), list(containers()))
def test_containers_run_what_there_is(args, environment, seconds):
    assert args[0] in COMMANDS
    shown = CliRunner().invoke(app, [args[0], "--help"], env={"COLUMNS": "200"}).stdout
    assert all(arg in shown for arg in args if arg.startswith("--"))
    assert "pgbouncer:5432" in environment["BRIMFUL_DB"]
    assert seconds > GRACE_SECONDS


def test_the_configuration_leaves_the_work_to_workers():
    config = load_config(DEPLOY / "brimful.toml")
    assert config.require_keys
    assert not config.background_work
    keys = {upstream.key for upstream in config.upstreams}
    for text in ((DEPLOY / "compose.yaml").read_text(), (DEPLOY / "kubernetes.yaml").read_text()):
        assert all(f"{key}" in text for key in keys)


def test_pools_are_in_transaction_mode():
    for file in ("compose.yaml", "kubernetes.yaml"):
        assert re.search(r"POOL_MODE(: |, value: )transaction", (DEPLOY / file).read_text())


def test_the_image_has_what_a_server_needs_and_no_root_rights():
    text = (ROOT / "Dockerfile").read_text()
    extras = set(re.search(r"tools/requirements\.py ([\w ]+) >", text)[1].split())
    assert {"server", "postgres"} <= extras
    assert re.search(r"^USER 10001$", text, re.MULTILINE)
    assert "http://127.0.0.1:8080/health" in text
