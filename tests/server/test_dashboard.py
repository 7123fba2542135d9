"""The metrics of a running server, and the dashboard for Grafana that shows them."""

import json
import re
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from brimful.telemetry.prometheus import METRICS
from server.upstream import OVERFLOW, chat_answer

DASHBOARD = json.loads((Path(__file__).parents[2] / "deploy" / "grafana.json").read_text())
CHAT = "/v1/chat/completions"
HI = {"model": "gpt-4o", "messages": [{"role": "user", "content": "Hi"}]}
SCRAPE_LABELS = {"job", "instance"}  # which Prometheus adds
SUFFIXES = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count"), "gauge": ("",)}
LABELS = {
    f"{name}{suffix}": {*labels, *(["le"] if suffix == "_bucket" else [])}
    for name, (kind, _, labels, _) in METRICS.items()
    for suffix in SUFFIXES[kind]
}
TARGETS = [(panel["title"], target) for panel in DASHBOARD["panels"] for target in panel.get("targets", [])]


@pytest.fixture(scope="module")
def exposed(servers_of_file, upstream_server):
    """What a server shows after an answer, a stream, an overflow, a failure, a limit and an unknown path."""
    (start, _), upstream = servers_of_file, upstream_server
    upstream.reset()
    client = start(telemetry={"metrics": True}, limits={"max_body_bytes": 100_000})
    assert client.post(CHAT, json=HI).status_code == 200
    assert client.post(CHAT, json=HI | {"stream": True}).status_code == 200
    long = [{"role": "user" if n % 2 == 0 else "assistant", "content": f"{n} words " * 20} for n in range(41)]
    upstream.answers = [(400, OVERFLOW), chat_answer()]
    assert client.post(CHAT, json=HI | {"messages": long, "max_tokens": 20}).status_code == 200
    upstream.answers = [(500, {})]
    assert client.post(CHAT, json=HI).status_code == 500
    assert client.post(CHAT, content=b" " * 100_001).status_code == 413
    assert client.get("/nowhere").status_code == 404
    start.wait()
    return client.get("/metrics").text


def test_the_metrics_are_as_promtool_wants_them(exposed):
    families = list(text_string_to_metric_families(exposed))
    own = [family for family in families if not family.name.endswith("_created")]
    assert {family.name for family in own} == set(METRICS)
    for family in own:
        assert family.documentation
        assert re.fullmatch(r"[a-z][a-z0-9_]*[a-z]", family.name)
        assert not re.search(r"_(total|count|sum|bucket|ms|milliseconds|kb|mb)$", family.name)
        for sample in family.samples:
            if not sample.name.endswith("_created"):
                assert set(sample.labels) == LABELS[sample.name], sample.name
    assert exposed.endswith("\n")


def test_requests_are_counted_by_template_and_status(exposed):
    samples = {
        (sample.labels["path"], sample.labels["status"]): sample.value
        for family in text_string_to_metric_families(exposed)
        for sample in family.samples
        if sample.name == "brimful_requests_total"
    }
    assert samples == {(CHAT, "200"): 3, (CHAT, "500"): 1, (CHAT, "413"): 1, ("unknown", "404"): 1}


@pytest.mark.parametrize(("title", "target"), TARGETS)
def test_dashboards_show_only_existing_metrics(exposed, title, target):
    types = re.findall(r"^# TYPE (\S+)", exposed, re.MULTILINE)
    expr = target["expr"]
    names = set(re.findall(r"brimful_\w+", expr))
    grouped = [label for group in re.findall(r"by \(([^)]*)\)", expr) for label in group.split(", ")]
    matched = [label for group in re.findall(r"\{([^}]*)\}", expr) for label in re.findall(r"(\w+)\s*[=!]", group)]
    shown = re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])
    assert names
    for name in names:
        assert {name, re.sub(r"_(bucket|sum|count)$", "", name)} & set(types), f"{title}: {name}"
        unknown = {*grouped, *matched} - LABELS[name] - SCRAPE_LABELS
        assert not unknown, f"{title}: {name} has no label {unknown}"
    assert set(shown) <= set(grouped), title


def test_the_dashboard_is_complete():
    shown = {name for _, target in TARGETS for name in re.findall(r"brimful_\w+", target["expr"])}
    expected = "requests_total requests_in_flight first_token_seconds_bucket upstream_seconds_bucket limits_hit_total"
    expected += " prompt_tokens_total completion_tokens_total answer_dollars_total cache_hits_total cache_misses_total"
    expected += " database_pool_size database_pool_in_use database_pool_waiting jobs_waiting"
    expected += " jobs_failed upstream_available"
    assert {f"brimful_{name}" for name in expected.split()} <= shown
    panels = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    positions = {(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels}
    assert len(positions) == len(panels)
