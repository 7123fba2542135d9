"""The configuration and its error messages."""

import json
import re
from pathlib import Path

import pytest

from brimful.errors import InvalidConfig
from brimful.server.app import create_app
from brimful.server.config import load_config, parse_config
from brimful.server.errors import ApiError
from brimful.server.proxy.upstreams import Upstreams
from brimful.wires import find_wire

LOCAL = {"name": "local", "url": "http://127.0.0.1:8081/v1"}
OPERATING = Path(__file__).parents[2] / "docs" / "operating.md"


def upstreams_of(*upstreams, environ=None):
    return Upstreams(
        parse_config({"upstreams": list(upstreams)}, "brimful.toml"), file="brimful.toml", environ=environ or {}
    )


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        ({"upstreams": {}}, "upstreams: Expected `array`"),
        ({"own_calls": {"tokens_per_day": -1}}, "own_calls: tokens_per_day: must be a whole number of tokens from 0"),
        ({"own_calls": {"dollars_per_day": -0.5}}, "own_calls: dollars_per_day: must be an amount of US dollars"),
        ({"own_calls": {"per_day": 5}}, "own_calls.per_day: unknown key"),
        ({"upstreams": [{"name": "a"}]}, "upstreams.a: Object missing required field `url`"),
        ({"upstreams": [LOCAL | {"url": "ftp://x"}]}, "upstreams.local.url: must be an http or https URL"),
        ({"upstreams": [LOCAL, LOCAL]}, "upstreams.local: duplicate name"),
        (
            {"upstreams": [LOCAL | {"wires": ["cohere"]}]},
            r"upstreams.local.wires\[0\]: must be 'openai' or 'anthropic' or .* or 'gemini' or 'ollama', not 'cohere'",
        ),
        (
            {"upstreams": [LOCAL | {"authorization": "both"}]},
            "upstreams.local.authorization: must be 'server' or 'client', not 'both'",
        ),
        (
            {"upstreams": [LOCAL], "records": "some"},
            "records: must be 'all' or 'trimmed' or 'none' or 'required', not 'some'",
        ),
        ({"upstreams": [LOCAL], "mode": 3}, "mode: Expected `str`, got `int`"),
        ({"upstreams": [LOCAL | {"key": "sk-123 456"}]}, "upstreams.local.key: Expected `str` matching regex"),
        ({"upstreams": [LOCAL | {"window": 0}]}, "upstreams.local.window: Expected `int` >= 1"),
        ({"upstreams": [LOCAL | {"limits": {"conect": 1}}]}, "upstreams.local.limits.conect: unknown key"),
        ({"upstreams": [LOCAL], "listen": "8080"}, "listen: must be HOST:PORT"),
        ({"upstreams": [LOCAL], "listen": "127.0.0.1:99999"}, "listen: must be HOST:PORT"),
        ({"upstreams": [LOCAL], "store": "mysql://db/x"}, "store: must be one of sqlite:///chat.db"),
        ({"upstreams": [LOCAL], "store": "postgresql://db/x?wait=x"}, "store: wait must be a number of seconds"),
        ({"upstreams": [LOCAL], "replica": "postgresql://db/x"}, "replica: must be the URL of a PostgreSQL server"),
        ({"upstreams": [LOCAL], "mode": "forget"}, "mode: must be 'fit' or 'remember', not 'forget'"),
        ({"upstreams": [LOCAL], "limits": {"grace": -1}}, "limits.grace: Expected `float` > 0"),
        ({"upstreams": [LOCAL], "surprise": 1}, "surprise: unknown key"),
        ({"origins": ["*"]}, r"origins: must be origins as browsers send them, such as .*, not '\*'"),
        ({"origins": ["http://localhost:8000/"]}, "origins: must be origins"),
        ({"origins": ["localhost:8000"]}, "origins: must be origins"),
    ],
)
def test_errors_name_the_file_and_the_key(data, complaint):
    with pytest.raises(InvalidConfig, match=rf"^brimful\.toml: ?{complaint}"):
        parse_config(data, "brimful.toml")


def test_unreadable_files(tmp_path):
    (tmp_path / "broken.toml").write_text("listen = ")
    (tmp_path / "bytes.toml").write_bytes(b"\xff")
    for name, complaint in (
        ("none.toml", "cannot be read"),
        ("broken.toml", "is not TOML"),
        ("bytes.toml", "cannot be read"),
    ):
        with pytest.raises(InvalidConfig, match=complaint):
            load_config(tmp_path / name)


def test_a_key_variable_must_be_set():
    with pytest.raises(InvalidConfig, match=r"upstreams\.local\.key: MY_KEY is not set in the environment"):
        upstreams_of(LOCAL | {"key": "MY_KEY"})
    lines = upstreams_of(LOCAL | {"key": "MY_KEY"}, environ={"MY_KEY": "sk-secret-1"}).of(find_wire("openai"))
    assert len(lines) == 1
    assert "sk-secret-1" not in repr(lines)


def test_a_known_server_speaks_its_own_wire_format_and_others_both():
    known = upstreams_of({"name": "claude", "url": "https://api.anthropic.com"}, environ={"ANTHROPIC_API_KEY": "k"})
    assert (len(known.of(find_wire("openai"))), len(known.of(find_wire("anthropic")))) == (0, 1)
    other = upstreams_of(LOCAL)
    assert (len(other.of(find_wire("openai"))), len(other.of(find_wire("anthropic")))) == (1, 1)


@pytest.mark.parametrize(
    ("url", "openai", "anthropic"),
    [
        ("http://h:1", "http://h:1/v1", "http://h:1"),
        ("http://h:1/", "http://h:1/v1", "http://h:1"),
        ("http://h:1/v1", "http://h:1/v1", "http://h:1"),
        ("http://h:1/team/v1/", "http://h:1/team/v1", "http://h:1/team"),
    ],
)
def test_paths_are_relative_to_the_base_url(url, openai, anthropic):
    found = upstreams_of(LOCAL | {"url": url})
    assert [line.connection.url for line in found.of(find_wire("openai"))] == [openai]
    assert [line.connection.url for line in found.of(find_wire("anthropic"))] == [anthropic]


def test_the_docs_show_the_error_that_a_reload_answers():
    (line,) = re.findall(r'^{"error": .*"invalid_config"}}$', OPERATING.read_text(), re.MULTILINE)
    with pytest.raises(InvalidConfig) as wrong:
        upstreams_of(LOCAL | {"windw": 4096})
    assert json.loads(line)["error"]["message"] == f"nothing was changed: {wrong.value}"


def test_the_first_upstream_that_serves_a_model_gets_it():
    found = upstreams_of(LOCAL | {"models": ["qwen*"]}, LOCAL | {"name": "rest", "wires": ["openai"]})
    assert found.find(find_wire("openai"), "qwen2.5-7b").config.name == "local"
    assert found.find(find_wire("openai"), "llama").config.name == "rest"
    with pytest.raises(ApiError, match="rest only speaks openai"):
        found.find(find_wire("anthropic"), "llama")


def test_a_server_without_upstreams_only_shows_records(start):
    client = start(upstreams=[])
    assert client.get("/ready").status_code == 200
    request = {"model": "gpt-4o", "messages": [{"role": "user", "content": "Hi"}]}
    refused = client.post("/v1/chat/completions", json=request)
    assert (refused.status_code, refused.json()["error"]["code"]) == (404, "model_not_found")
    assert "has no upstream" in refused.json()["error"]["message"]
    assert client.get("/brimful/v1/contexts/ctx-1").json()["error"]["code"] == "context_not_found"


@pytest.mark.parametrize(
    "models",
    [{"fit": {"summarizer": "home-made"}}, {"remember": {"embedder": "openai:home-made@https://ai.example/v1"}}],
)
def test_dollars_are_limited_for_models_with_a_price_only(models, monkeypatch):
    monkeypatch.setenv("BRIMFUL_EMBEDDING_KEY", "k")
    limited = {"upstreams": [LOCAL], "store": "sqlite:///:memory:", "own_calls": {"dollars_per_day": 0.5}}
    create_app(parse_config(limited, "brimful.toml"))
    with pytest.raises(
        InvalidConfig, match=r"^brimful\.toml: own_calls\.dollars_per_day: the price of 'home-made' is not"
    ):
        create_app(parse_config(limited | models, "brimful.toml"))
