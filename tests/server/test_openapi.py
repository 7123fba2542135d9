"""Requests generated from the OpenAPI description do not break the server."""

import asyncio
import json
import re
from contextlib import ExitStack
from functools import cache
from pathlib import Path

import httpx2
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.generation.hypothesis.builder import HypothesisTestConfig, HypothesisTestMode, create_test
from schemathesis.specs.openapi.checks import content_type_conformance, response_schema_conformance

from brimful.server.app import create_app
from brimful.server.config import parse_config
from brimful.server.connections import connection_settings
from brimful.server.inspector.queries import (
    AssembleBody,
    BuildQuery,
    JanitorBody,
    MessageBody,
    RespondBody,
    RoomRecallQuery,
)
from brimful.server.openapi import inspector_operations, openapi_document
from server.inspector.conftest import tell_story
from server.upstream import serving
from strategies import examples

DOCUMENT = json.loads(openapi_document())
INSPECTOR = re.compile("^/brimful/v1/(?!events$)")  # which never ends
CHATS = re.compile(r"/(chat|chat/completions|messages|responses|\{model\}:\w*enerateContent)$")  # depend on the mode
ALL = [(method.upper(), path) for path, methods in DOCUMENT["paths"].items() for method in methods]
INSPECTING = [each for each in ALL if INSPECTOR.match(each[1])]
ASKING = [each for each in ALL if not each[1].startswith("/brimful/v1/")]

# Besides some dozen edge cases of each operation.
ANY = settings(max_examples=examples(4), deadline=None, suppress_health_check=list(HealthCheck))


def told_of(upstream, folder, mode):
    local = {"name": "local", "url": f"{upstream.address}/v1", "window": 2048}
    store = f"sqlite:///{folder}/brimful.db"
    data = {"upstreams": [local], "store": store, "mode": mode, "remember": {"embedder": "none"}}
    return parse_config(data, "brimful.toml")


@pytest.fixture(scope="module")
def addresses(upstream_server, tmp_path_factory):
    """The addresses of servers in both modes."""
    upstream_server.reset()
    with ExitStack() as servers:
        addresses = []
        for mode in ("fit", "remember"):
            config = told_of(upstream_server, tmp_path_factory.mktemp(mode), mode)
            serve = serving(create_app(config, environ={}), **connection_settings(config))
            addresses.append(servers.enter_context(serve)[0])
        yield addresses


@pytest.fixture(scope="module")
def inspector(upstream_server, tmp_path_factory):
    """The address of a server with something to look at."""
    folder = tmp_path_factory.mktemp("store")
    asyncio.run(tell_story(f"sqlite:///{folder}/brimful.db"))
    config = told_of(upstream_server, folder, "fit")
    with serving(create_app(config, environ={}), **connection_settings(config)) as (address, _):
        yield address


@pytest.fixture(scope="module")
def session():
    """Return a connection for all requests. Otherwise, each one reads the environment, and connects anew."""
    with requests.Session() as session:
        session.trust_env = False
        yield session


@cache
def schema():
    return schemathesis.openapi.from_dict(DOCUMENT)


def of_each(operations):
    return pytest.mark.parametrize(("method", "path"), operations, ids=map(" ".join, operations))


# The examples of an operation are made when its test runs: all of them take long, and every worker collects all tests.
def ask(method, path, addresses, session):
    """Send all examples of an operation, and want a sound answer to each.

    They take longer to make than to send, so several servers get the same ones.
    """

    @ANY
    def asked(case):
        for address in addresses:
            want_sound_answer(case, address, session)

    config = HypothesisTestConfig(project=schema().config, modes=list(HypothesisTestMode))
    create_test(operation=schema()[path][method], test_func=asked, config=config)()


@pytest.mark.hypothesis
@of_each([each for each in ASKING if CHATS.search(each[1])])
def test_no_chat_breaks_the_server(method, path, addresses, session):
    ask(method, path, addresses, session)


@pytest.mark.hypothesis
@of_each([each for each in ASKING if not CHATS.search(each[1])])
def test_no_request_breaks_the_server(method, path, addresses, session):
    ask(method, path, addresses[:1], session)


@pytest.mark.hypothesis
@of_each(INSPECTING)
def test_no_query_breaks_the_inspector(method, path, inspector, session):
    ask(method, path, [inspector], session)


def want_sound_answer(case, address, session):
    response = case.call(base_url=address, session=session, timeout=120)
    assert response.status_code < 500, f"{address}: {response.text}"
    case.validate_response(response, checks=[response_schema_conformance, content_type_conformance])


def test_every_route_is_described_and_everything_described_is_served(tmp_path):
    data = {"store": f"sqlite:///{tmp_path}/brimful.db", "telemetry": {"metrics": True}, "sessions": True}
    routes = create_app(parse_config(data, "brimful.toml"), environ={}).routes
    described = [route for route in routes if not route.path_format.startswith(("/assets/", "/index.html"))]
    served = {(route.path_format, method.lower()) for route in described for method in route.methods - {"HEAD"}}
    paths = DOCUMENT["paths"]
    assert served == {(path, method) for path, said in paths.items() for method in said}


def test_every_inspector_operation_names_its_scope():
    paths = DOCUMENT["paths"]
    inspected = [said for path, each in paths.items() if path.startswith("/brimful/v1") for said in each.values()]
    assert len(inspected) > 30
    assert all("scope `" in said["description"] for said in inspected)


def test_the_description_is_served(addresses):
    for address in addresses:
        assert httpx2.get(f"{address}/openapi.json").json() == json.loads(openapi_document())


def told_in(page):
    return (Path(__file__).parents[2] / "docs" / page).read_text(encoding="utf-8")


def test_every_operation_and_parameter_is_documented():
    text = told_in("inspector.md") + told_in("service.md")
    names = {"{id:path}": "ID", "{id}": "ID", "{item:path}": "ITEM", "{entry:path}": "ENTRY", "{other}": "OTHER"}
    missing = []
    for operation in inspector_operations():
        path = operation.path
        for name, shown in names.items():
            path = path.replace(name, shown)
        rows = [line for line in text.splitlines() if line.startswith("|") and re.search(rf"{path}[`,]", line)]
        if not any(operation.method in row.partition(" |")[0] for row in rows):
            missing.append(f"{operation.method} {path}")
        missing += [
            f"{path}?{field}"
            for field in (operation.query.__struct_fields__ if operation.query else ())
            if f"`{field}" not in text
        ]
    assert not missing


def test_every_field_of_the_service_is_documented():
    text = told_in("service.md")
    bodies = (MessageBody, RespondBody, AssembleBody, BuildQuery, RoomRecallQuery, JanitorBody)
    assert not [field for body in bodies for field in body.__struct_fields__ if f"`{field}`" not in text]
