"""The files in `deploy`: what they run exists, and what they configure is valid."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from brimful.cli.app import COMMANDS, app
from brimful.server.config import load_config

ROOT = Path(__file__).parents[1]
DEPLOY = ROOT / "deploy"
GRACE_SECONDS = load_config(DEPLOY / "brimful.toml").limits.grace


COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
PODS = {
    document["metadata"]["name"]: document["spec"]["template"]["spec"]
    for document in yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text())
    if document["kind"] == "Deployment"
}


def containers():
    """Yield each container of Brimful: its arguments, its environment and the seconds in which it may stop."""
    for name in ("serve", "work"):
        service = COMPOSE["services"][name]
        yield service["command"], service["environment"], int(service["stop_grace_period"].removesuffix("s"))
        pod = PODS[f"brimful-{name}"]
        (container,) = pod["containers"]
        environment = {each["name"]: each.get("value", "") for each in container["env"]}
        yield container["args"], environment, pod["terminationGracePeriodSeconds"]


@pytest.mark.parametrize(("args", "environment", "seconds"), list(containers()))
def test_containers_run_what_there_is(args, environment, seconds):
    assert args[0] in COMMANDS
    shown = CliRunner().invoke(app, [args[0], "--help"], env={"COLUMNS": "200"}).stdout
    assert all(arg in shown for arg in args if arg.startswith("--"))
    assert "pgbouncer:5432" in environment["BRIMFUL_DB"]
    assert ":" not in environment["BRIMFUL_DB"].partition("@")[0].removeprefix("postgresql://")  # no password
    assert "PGPASSWORD" in environment
    assert seconds > GRACE_SECONDS


PROGRAMS = Path(sys.executable).parent
CHECKS = {
    "compose": ["check-jsonschema", "--builtin-schema", "vendor.compose-spec", "deploy/compose.yaml"],
    "kubernetes": ["kubernetes-validate", "--strict", "deploy/kubernetes.yaml"],
    "yaml": ["yamllint", "--strict", "deploy"],
    "image": ["hadolint", "Dockerfile"],
}


@pytest.mark.parametrize("command", CHECKS.values(), ids=CHECKS)
def test_the_files_are_valid(command):
    program = shutil.which(command[0], path=str(PROGRAMS))
    assert program, f"{command[0]} is not installed; run `make .venv/.dev`"
    done = subprocess.run([program, *command[1:]], cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", PODS)
def test_pods_have_no_more_rights_than_they_need(name):
    """The restricted Pod Security Standard, and a root file system that is read-only."""
    pod = PODS[name]
    assert pod["automountServiceAccountToken"] is False
    security = pod["securityContext"]
    assert security["runAsNonRoot"] is True
    assert security["runAsUser"] > 0
    assert security["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in pod["containers"]:
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert {"startupProbe", "livenessProbe"} <= container.keys()
        assert {each["name"] for each in container["volumeMounts"]} == {each["name"] for each in pod["volumes"]}


def test_services_have_no_more_rights_than_they_need():
    for name, service in COMPOSE["services"].items():
        assert service["security_opt"] == ["no-new-privileges:true"], name
        if name != "postgres":  # its start script changes the owner of its folder
            assert (service["read_only"], service["cap_drop"]) == (True, ["ALL"]), name


def test_no_image_starts_by_accident():
    """Brimful's image has to be named, and the others have a version."""
    used = [service["image"] for service in COMPOSE["services"].values()]
    used += [container["image"] for pod in PODS.values() for container in pod["containers"]]
    for image in used:
        must_be_set = image.startswith("${BRIMFUL_IMAGE:?") or image == "BRIMFUL_IMAGE"  # capitals are not valid
        assert must_be_set or re.search(r":(?!latest)[\w.-]*\d", image), image


def test_only_the_proxy_of_the_compose_file_is_trusted():
    (network,) = COMPOSE["networks"]["default"]["ipam"]["config"]
    assert load_config(DEPLOY / "brimful.toml").trusted_proxies == (network["subnet"],)
    assert COMPOSE["services"]["nginx"]["ports"] == ["127.0.0.1:8080:8080"]


def test_a_configuration_that_an_editor_replaced_is_seen():
    """A file that is mounted by itself stays the old one."""
    serve = COMPOSE["services"]["serve"]
    (folder, target, _), file = serve["volumes"][0].split(":"), Path(serve["command"][-1])
    assert (str(file.parent), DEPLOY / folder / file.name) == (target, DEPLOY / "brimful.toml")
    assert (DEPLOY / folder).is_dir()


def test_keys_of_upstreams_are_in_files():
    for args, environment, _ in containers():
        for upstream in load_config(DEPLOY / "brimful.toml").upstreams:
            assert upstream.key not in environment
            assert (f"{upstream.key}_FILE" in environment) == (args[0] == "serve")
    serve = COMPOSE["services"]["serve"]
    assert serve["environment"]["OPENAI_API_KEY_FILE"] == f"/run/secrets/{serve['secrets'][0]}"
    assert serve["secrets"] == list(COMPOSE["secrets"])


def test_nginx_passes_streams_on_and_names_its_version():
    text = (DEPLOY / "nginx.conf").read_text()
    assert re.search(r"^ +proxy_buffering off;", text, re.MULTILINE)
    assert "Needs nginx 1.27.3 or newer" in text  # for `resolve` of a server
    assert "resolve;" in text
    version = re.search(r"nginx-unprivileged:([\d.]+)", (DEPLOY / "compose.yaml").read_text())[1]
    assert tuple(map(int, version.split("."))) >= (1, 27, 3)


def test_workers_are_probed_by_their_heartbeat():
    for args, probe in (
        (COMPOSE["services"]["work"]["command"], COMPOSE["services"]["work"]["healthcheck"]["test"]),
        (
            PODS["brimful-work"]["containers"][0]["args"],
            PODS["brimful-work"]["containers"][0]["livenessProbe"]["exec"]["command"],
        ),
    ):
        assert f"find {args[args.index('--heartbeat') + 1]} -mmin -1" in probe[-1]


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
