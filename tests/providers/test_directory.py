"""Providers by name, URL and model."""

import pytest

from brimful.errors import InvalidValue
from brimful.models import resolve
from brimful.providers import (
    KNOWN_SERVERS,
    PROVIDER_FORMS,
    Limits,
    find_api_key,
    make_dialect,
    make_provider,
    make_provider_for_model,
)
from brimful.testing import ScriptedProvider
from brimful.wires.wire import ServerTraits

SECRET = "sk-very-secret"  # noqa: S105 - no secret
ALL_KEYS = {name: f"{SECRET}-{name}" for known in KNOWN_SERVERS.values() for name in known.keys}


def sent_headers(provider):
    return provider.connection.headers


@pytest.mark.parametrize(
    ("spec", "wire", "url", "route"),
    [
        ("openai", "openai", "https://api.openai.com/v1", "openai:api.openai.com"),
        ("anthropic", "anthropic", "https://api.anthropic.com", "anthropic:api.anthropic.com"),
        (
            "gemini",
            "gemini",
            "https://generativelanguage.googleapis.com/v1beta",
            "gemini:generativelanguage.googleapis.com",
        ),
        ("ollama", "ollama", "http://localhost:11434", "ollama:localhost:11434"),
        ("openrouter", "openai", "https://openrouter.ai/api/v1", "openai:openrouter.ai/api"),
        ("http://127.0.0.1:8081/v1", "openai", "http://127.0.0.1:8081/v1", "openai:127.0.0.1:8081"),
        ("openai:http://127.0.0.1:8081/v1/", "openai", "http://127.0.0.1:8081/v1", "openai:127.0.0.1:8081"),
        ("text:https://h.example/team/v1", "text", "https://h.example/team/v1", "text:h.example/team"),
        ("anthropic:http://h.example/v1", "anthropic", "http://h.example", "anthropic:h.example"),
        ("anthropic:https://h.example/api/a", "anthropic", "https://h.example/api/a", "anthropic:h.example/api/a"),
        ("ollama:http://GPU:11434", "ollama", "http://gpu:11434", "ollama:gpu:11434"),
        ("gemini:http://h/v1beta", "gemini", "http://h/v1beta", "gemini:h"),
    ],
)  # fmt: skip
def test_providers_by_name_and_url(spec, wire, url, route):
    provider = make_provider(spec, environ=ALL_KEYS)
    assert (provider.wire, provider.connection.url, provider.route) == (wire, url, route)


def test_a_provider_is_returned_unchanged():
    values = ScriptedProvider()
    assert make_provider(values) is values


@pytest.mark.parametrize(
    "spec", ["", "gpt-4o", "openai:", "openai:gpt-4o", "ftp://h", "grpc:http://h", "localhost:8081"]
)
def test_an_unknown_name_lists_the_known_ones(spec):
    with pytest.raises(InvalidValue) as caught:
        make_provider(spec)
    assert caught.value.field == "provider"
    assert all(form in caught.value.reason for form in PROVIDER_FORMS)


def test_a_password_in_an_invalid_url_is_hidden():
    with pytest.raises(InvalidValue) as caught:
        make_provider(f"ftp://me:{SECRET}@h")
    assert SECRET not in str(caught.value)


def test_limits_are_passed_to_the_connection():
    assert make_provider("http://h/v1", limits=Limits(read=7)).connection.limits.read == 7


# -- keys --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name, known in KNOWN_SERVERS.items() if known.keys])
def test_a_known_server_gets_its_own_key_and_needs_it(name):
    known = KNOWN_SERVERS[name]
    for variable in known.keys:
        provider = make_provider(name, environ={variable: f" {SECRET}\n", "BRIMFUL_PROVIDER_KEY": "other"})
        assert any(SECRET in value for value in sent_headers(provider).values())
        assert not any("other" in value for value in sent_headers(provider).values())
        assert SECRET not in f"{provider!r} {provider.connection!r} {provider.dialect!r} {provider.route}"
    with pytest.raises(InvalidValue, match=f"{name} needs an API key: set {known.keys[0]}"):
        make_provider(name, environ={"BRIMFUL_PROVIDER_KEY": "other"})


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:8081/v1",
        "http://api.openai.com/v1",  # in the clear
        "https://api.openai.com.evil.example/v1",
        "https://api.openai.com:8443/v1",
        "https://user@evil.example/https://api.openai.com/v1",
        "https://evil.example/?api.openai.com",
        "https://api.openai.com@evil.example/v1",
    ],
)
def test_the_key_of_a_known_server_is_sent_nowhere_else(url):
    environ = ALL_KEYS | {"BRIMFUL_PROVIDER_KEY": "mine"}
    for wire in ("openai", "anthropic", "gemini", "ollama"):
        try:
            provider = make_provider(f"{wire}:{url}", environ=environ)
        except InvalidValue:
            continue
        assert not any(SECRET in value for value in sent_headers(provider).values())
    assert find_api_key("http://127.0.0.1:8081/v1", environ) == ("mine", "BRIMFUL_PROVIDER_KEY")


def test_a_known_server_is_recognized_by_its_url():
    assert find_api_key("https://api.openai.com/v1/", {"OPENAI_API_KEY": "k"}) == ("k", "OPENAI_API_KEY")
    assert find_api_key("https://API.openai.com/v1", {"OPENAI_API_KEY": "k"}) == ("k", "OPENAI_API_KEY")


def test_an_explicit_key_overrides_the_environment(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "env")
    assert sent_headers(make_provider("openai"))["authorization"] == "Bearer env"
    assert sent_headers(make_provider("openai", key="given"))["authorization"] == "Bearer given"
    assert "authorization" not in sent_headers(make_provider("http://h/v1", key=""))


def test_a_local_server_needs_no_key():
    for spec in ("ollama", "http://127.0.0.1:8081/v1", "anthropic:http://127.0.0.1:8081"):
        assert not {"authorization", "x-api-key"} & set(sent_headers(make_provider(spec, environ={})))


def test_the_second_key_variable_works():
    assert find_api_key(KNOWN_SERVERS["gemini"].url, {"GOOGLE_API_KEY": "g"}) == ("g", "GOOGLE_API_KEY")
    assert find_api_key(KNOWN_SERVERS["gemini"].url, {"GOOGLE_API_KEY": "g", "GEMINI_API_KEY": "h"}) == (
        "h",
        "GEMINI_API_KEY",
    )


# -- ways with OpenAI's dialect ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "renames", "asks", "key"),
    [
        ("https://api.openai.com/v1", False, True, None),
        ("https://openrouter.ai/api/v1", False, True, None),
        ("https://me.openai.azure.com/openai/v1", False, True, "api-key"),
        ("https://me.openai.azure.com:443?api-version=1", False, True, "api-key"),
        ("https://api.mistral.ai/v1", True, False, None),
        ("https://api.deepseek.com/v1", True, True, None),
        ("http://127.0.0.1:8081/me.azure.com", True, True, None),
    ],
)
def test_each_server_has_its_dialect_options(url, renames, asks, key):
    traits = ServerTraits(uses_max_tokens=renames, requests_usage=asks, key_header=key)
    assert make_dialect("openai", url).traits == traits


# -- models ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "route", "named"),
    [
        ("gpt-4o", "openai:api.openai.com", "gpt-4o"),
        ("openai/gpt-4o", "openai:api.openai.com", "gpt-4o"),
        ("openai:gpt-4o", "openai:api.openai.com", "gpt-4o"),
        ("claude-sonnet-4-5", "anthropic:api.anthropic.com", "claude-sonnet-4-5"),
        ("anthropic/claude-sonnet-4-5", "anthropic:api.anthropic.com", "claude-sonnet-4-5"),
        ("gemini-2.5-pro", "gemini:generativelanguage.googleapis.com", "gemini-2.5-pro"),
        ("google/gemini-2.5-pro", "gemini:generativelanguage.googleapis.com", "gemini-2.5-pro"),
        ("deepseek-chat", "openai:api.deepseek.com", "deepseek-chat"),
        ("mistral-large-latest", "openai:api.mistral.ai", "mistral-large-latest"),
        ("grok-4", "openai:api.x.ai", "grok-4"),
        ("openrouter/anthropic/claude-3.5-sonnet:beta", "openai:openrouter.ai/api", "anthropic/claude-3.5-sonnet:beta"),
        ("groq/llama-3.1-8b-instant", "openai:api.groq.com/openai", "llama-3.1-8b-instant"),
        ("openrouter/auto", "openai:openrouter.ai/api", "openrouter/auto"),
        ("groq/compound", "openai:api.groq.com/openai", "groq/compound"),
        ("groq/openai/gpt-oss-120b", "openai:api.groq.com/openai", "openai/gpt-oss-120b"),
        ("llama3.1:8b", "ollama:localhost:11434", "llama3.1:8b"),
        ("mistral:7b", "ollama:localhost:11434", "mistral:7b"),
        ("ollama/llama3.1:8b", "ollama:localhost:11434", "llama3.1:8b"),
        ("hf.co/bartowski/x", "ollama:localhost:11434", "hf.co/bartowski/x"),
        ("nobody-knows-me:7b", "ollama:localhost:11434", "nobody-knows-me:7b"),
    ],
)
def test_a_model_is_sent_to_its_server_under_its_local_name(model, route, named):
    provider = make_provider_for_model(resolve(model), environ=ALL_KEYS)
    assert provider.route == route
    assert provider.with_local_name({"model": model})["model"] == named


@pytest.mark.parametrize(
    ("spec", "model", "named"),
    [
        ("openai", "openai/gpt-4o", "gpt-4o"),
        ("openrouter", "openai/gpt-4o", "openai/gpt-4o"),
        ("gemini", "models/gemini-2.5-pro", "models/gemini-2.5-pro"),
        ("gemini", "google/gemini-2.5-pro", "gemini-2.5-pro"),
        ("ollama", "OLLAMA/qwen3:8b", "qwen3:8b"),
        ("openai:http://127.0.0.1:8081/v1", "openai/gpt-4o", "openai/gpt-4o"),
        ("openai", "openai/", "openai/"),
    ],
)
def test_a_named_server_gets_local_model_names(spec, model, named):
    assert make_provider(spec, environ=ALL_KEYS).with_local_name({"model": model})["model"] == named


@pytest.mark.parametrize(
    "model",
    [
        "meta-llama/Llama-3.1-8B-Instruct",
        "phi-4",
        "nobody-knows-me",
        "azure/gpt-4o",
        "vllm/qwen3-8b",
        "lm_studio/phi-4",
    ],
)
def test_a_model_without_a_known_server_is_an_error(model):
    with pytest.raises(InvalidValue, match="no known server runs") as caught:
        make_provider_for_model(resolve(model), environ=ALL_KEYS)
    assert "openai:http://127.0.0.1:8081/v1" in caught.value.reason


def test_a_missing_key_names_its_variable():
    with pytest.raises(InvalidValue, match="set ANTHROPIC_API_KEY"):
        make_provider_for_model(resolve("claude-sonnet-4-5"), environ={})


def test_every_maker_has_at_most_one_server():
    for known in KNOWN_SERVERS.values():
        assert known.source.startswith("https://")
        assert known.url.startswith("https://") is bool(known.keys)
    makers = [maker for known in KNOWN_SERVERS.values() for maker in known.makers]
    assert len(makers) == len(set(makers))
