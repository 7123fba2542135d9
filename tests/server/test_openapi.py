"""Requests of every kind, made from our own description: none of them breaks the server."""

import json

import httpx2
import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.specs.openapi.checks import content_type_conformance, response_schema_conformance

from brimful.server.app import create_app
from brimful.server.config import config_of
from brimful.server.openapi import description
from server.upstream import serving

schema = schemathesis.openapi.from_dict(json.loads(description()))


@pytest.fixture(scope="module", params=["fit", "remember"])
def address(request, upstream_server, tmp_path_factory):
    upstream_server.reset()
    local = {"name": "local", "url": f"{upstream_server.address}/v1", "window": 2048}
    store = f"sqlite:///{tmp_path_factory.mktemp('store')}/brimful.db"
    data = {"upstreams": [local], "store": store, "mode": request.param, "remember": {"embedder": "none"}}
    with serving(create_app(config_of(data, "brimful.toml"), environ={})) as (address, _):
        yield address


@schema.parametrize()
@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
def test_no_request_breaks_the_server(case, address):
    response = case.call(base_url=address)
    assert response.status_code < 500, response.text
    case.validate_response(response, checks=[response_schema_conformance, content_type_conformance])


def test_the_description_is_served(address):
    assert httpx2.get(f"{address}/openapi.json").json() == json.loads(description())
