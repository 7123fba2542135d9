"""Every common name finds its row, and never a similar one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brimful.models import load_registry, resolve
from brimful.models.names import MAX_NAME_CHARACTERS

REGISTRY = load_registry(environ={})

FOUND = {
    # exact, and in any case
    "gpt-4": "gpt-4",
    "GPT-4o": "gpt-4o",
    " gpt-4o ": "gpt-4o",
    "o1": "o1",
    "Claude-3-Opus": "claude-3-opus",
    # siblings
    "gpt-4o-mini": "gpt-4o-mini",
    "gpt-4-turbo": "gpt-4-turbo",
    "gpt-4.1": "gpt-4.1",
    "gpt-4.1-mini": "gpt-4.1-mini",
    "gpt-4-32k": "gpt-4-32k",
    "o1-mini": "o1-mini",
    "o1-preview": "o1-preview",
    "o1-pro": "o1-pro",
    "o3-mini": "o3-mini",
    "o4-mini": "o4-mini",
    "gpt-5": "gpt-5",
    "gpt-5-mini": "gpt-5-mini",
    "gpt-5.1": "gpt-5.1",
    "gpt-3.5-turbo-instruct": "gpt-3.5-turbo-instruct",
    "claude-opus-4": "claude-opus-4",
    "claude-opus-4-1": "claude-opus-4-1",
    "claude-opus-4-5": "claude-opus-4-5",
    "claude-sonnet-5": "claude-sonnet-5",
    "claude-sonnet-5-5": "claude-sonnet-5-5",
    "gemini-2.5-flash-lite": "gemini-2.5-flash-lite",
    "grok-4-fast": "grok-4-fast",
    # dates and moving names
    "gpt-4o-2024-08-06": "gpt-4o",
    "gpt-4o-2024-05-13": "gpt-4o-2024-05-13",
    "gpt-4o-mini-2024-07-18": "gpt-4o-mini",
    "gpt-4-0613": "gpt-4",
    "gpt-4-1106-preview": "gpt-4-turbo",
    "gpt-4-turbo-2024-04-09": "gpt-4-turbo",
    "gpt-3.5-turbo-0125": "gpt-3.5-turbo",
    "gpt-3.5-turbo-0613": "gpt-3.5-turbo-0613",
    "gpt-4.1-2025-04-14": "gpt-4.1",
    "o1-2024-12-17": "o1",
    "o1-mini-2024-09-12": "o1-mini",
    "chatgpt-4o-latest": "chatgpt-4o-latest",
    "gpt-5-chat-latest": "gpt-5-chat-latest",
    "claude-3-5-sonnet-20241022": "claude-3-5-sonnet",
    "claude-3-5-sonnet-latest": "claude-3-5-sonnet",
    "claude-3.5-sonnet": "claude-3-5-sonnet",
    "claude-sonnet-4-20250514": "claude-sonnet-4",
    "claude-sonnet-4@20250514": "claude-sonnet-4",
    "claude-sonnet-4-5-20250929": "claude-sonnet-4-5",
    "claude-opus-4-1-20250805": "claude-opus-4-1",
    "claude-3-5-sonnet-v2@20241022": "claude-3-5-sonnet",
    "gemini-2.0-flash-001": "gemini-2.0-flash",
    "gemini-2.5-pro-preview-06-05": "gemini-2.5-pro",
    "gemini-2.5-flash-preview-09-2025": "gemini-2.5-flash",
    "mistral-large-latest": "mistral-large-2512",
    "mistral-large-2411": "mistral-large-2411",
    "azure_ai/mistral-large": "mistral-large-2402",
    "grok-4-0709": "grok-4",
    "grok-4-latest": "grok-4",
    # providers' prefixes
    "openai/gpt-4o": "gpt-4o",
    "openai:gpt-4o": "gpt-4o",
    "azure/gpt-4o": "gpt-4o",
    "azure/gpt-35-turbo": "gpt-3.5-turbo",
    "anthropic/claude-3-opus-20240229": "claude-3-opus",
    "anthropic:claude-3-5-haiku-latest": "claude-3-5-haiku",
    "openrouter/anthropic/claude-3.5-sonnet": "claude-3-5-sonnet",
    "openrouter/anthropic/claude-3.5-sonnet:beta": "claude-3-5-sonnet",
    "openrouter/meta-llama/llama-3.1-8b-instruct:free": "llama-3.1-8b",
    "us.anthropic.claude-3-5-sonnet-20241022-v2:0": "claude-3-5-sonnet",
    "bedrock/anthropic.claude-3-haiku-20240307-v1:0": "claude-3-haiku",
    "bedrock/us-gov-west-1/anthropic.claude-sonnet-4-5-20250929-v1:0": "claude-sonnet-4-5",
    "eu.anthropic.claude-opus-4-6-v1": "claude-opus-4-6",
    "global.anthropic.claude-opus-4-8": "claude-opus-4-8",
    "arn:aws:bedrock:us-east-1:1234:inference-profile/us.anthropic.claude-sonnet-4-20250514-v1:0": "claude-sonnet-4",
    "meta.llama3-1-70b-instruct-v1:0": "llama-3.1-70b",
    "openai.gpt-oss-120b-1:0": "gpt-oss-120b",
    "us.deepseek.r1-v1:0": "deepseek-r1",
    "deepseek.v3.2": "deepseek-v3.2",
    "us.meta.llama4-scout-17b-instruct-v1:0": "llama-4-scout",
    "together_ai/meta-llama/Llama-3.3-70B-Instruct-Turbo": "llama-3.3-70b",
    "vertex_ai/claude-opus-4-7@default": "claude-opus-4-7",
    "vertex_ai/gemini-2.5-pro": "gemini-2.5-pro",
    "models/gemini-2.5-flash": "gemini-2.5-flash",
    "publishers/google/models/gemini-3.1-pro-preview": "gemini-3.1-pro-preview",
    "gemini/gemini-flash-latest": "gemini-3.8-flash",
    "xai/grok-beta": "grok-beta",
    "x-ai/grok-4.20": "grok-4.20",
    "deepseek/deepseek-chat": "deepseek-chat",
    "groq/llama-3.3-70b-versatile": "llama-3.3-70b",
    "fireworks_ai/accounts/fireworks/models/llama-v3p1-70b-instruct": "llama-3.1-70b",
    "mistral:mistral-small-latest": "mistral-small-2603",
    # open weights
    "meta-llama/Llama-3.1-8B-Instruct": "llama-3.1-8b",
    "meta-llama/Meta-Llama-3.1-8B-Instruct": "llama-3.1-8b",
    "meta-llama/Meta-Llama-3-70B-Instruct": "llama-3-70b",
    "meta-llama/Llama-4-Scout-17B-16E-Instruct": "llama-4-scout",
    "Qwen/Qwen2.5-7B-Instruct": "qwen2.5-7b",
    "Qwen/Qwen2.5-Coder-32B-Instruct-AWQ": "qwen2.5-coder-32b",
    "qwen/qwen-2.5-72b-instruct": "qwen2.5-72b",
    "Qwen/Qwen3-30B-A3B-Instruct-2507": "qwen3-30b-a3b-2507",
    "mistralai/Mistral-7B-Instruct-v0.3": "mistral-7b",
    "mistralai/Mistral-7B-Instruct-v0.1": "mistral-7b-v0.1",
    "bartowski/Llama-3.2-3B-Instruct-GGUF": "llama-3.2-3b",
    "unsloth/Llama-3.2-1B-Instruct-bnb-4bit": "llama-3.2-1b",
    "google/gemma-3-27b-it": "gemma-3-27b",
    "microsoft/phi-4": "phi-4",
    "HuggingFaceTB/SmolLM2-1.7B-Instruct": "smollm2-1.7b",
    "deepseek-ai/DeepSeek-V3": "deepseek-v3",
    "deepseek-r1": "deepseek-r1",
    # fine-tunes
    "ft:gpt-4o-mini-2024-07-18:org::id": "gpt-4o-mini",
    "ft:gpt-3.5-turbo-0125:org:name:id": "gpt-3.5-turbo",
    "gpt-4o-mini-2024-07-18.ft-abc123": "gpt-4o-mini",
    # Ollama
    "qwen2.5:7b": "qwen2.5:7b",
    "llama3.1:70b-instruct-q4_K_M": "llama3.1:70b",
    "llama3.1:latest": "llama3.1:8b",
    "llama3.1": "llama3.1:8b",
    "llama3.2:3b": "llama3.2:3b",
    "mistral:7b": "mistral:7b",
    "mistral": "mistral:7b",
    "mistral:7b-instruct-v0.2-q4_0": "mistral:7b-v0.2",
    "ollama/llama3.2": "llama3.2:3b",
    "ollama_chat/qwen3:8b": "qwen3:8b",
    "ollama/deepseek-r1": "deepseek-r1:8b",
    "deepseek-r1:latest": "deepseek-r1:8b",
    "gemma3:27b-it-qat": "gemma3:27b",
    "gpt-oss:20b": "gpt-oss:20b",
    "phi4": "phi4:14b",
    "hf.co/bartowski/Llama-3.2-3B-Instruct-GGUF:Q4_K_M": "llama-3.2-3b",
}

NOT_FOUND = [
    "",
    " ",
    ":",
    "/",
    "gpt",
    "gpt-4o-maxi",
    "gpt-4x",
    "gpt-41",
    "o",
    "o1-maxi",
    "o12",
    "claude",
    "claude-3",
    "claude-opus-9",
    "anthropic.claude-3-sonnet-20240229-v1:0:28k",  # a smaller window
    "gemini",
    "llama3.1:13b",
    "mistral:13b",
    "mistral-large-2403",
    "qwen2-57b",  # not qwen2.5-7b
    "deepseek-v9",
    "grok",
    "ft:",
    "acme/r1",
    "us.",
    "ft:acme-1:org::id",
    "azure/my-deployment",
    "latest",
    "-latest",
]


@pytest.mark.parametrize(("name", "canonical"), FOUND.items())
def test_found(name, canonical):
    info = REGISTRY.resolve(name)
    assert (info.known, info.canonical, REGISTRY.canonical(name)) == (True, canonical, canonical)
    assert info.id == name


@pytest.mark.parametrize("name", NOT_FOUND)
def test_not_found(name):
    info = REGISTRY.resolve(name)
    assert (info.known, info.canonical) == (False, "")
    assert REGISTRY.canonical(name) is None


@pytest.mark.parametrize(
    "name", ["", ":", "o12", "latest", "us.", "acme/r1", "azure/my-deployment", "model-from-nowhere", "open-model"]
)
def test_without_a_family_little_is_assumed(name):
    info = REGISTRY.resolve(name)
    assert (info.known, info.window, info.assumed_window, info.relative) == (False, 8192, True, "")


@pytest.mark.parametrize(
    ("name", "wire"),
    [
        ("gpt-4o", "openai"),
        ("claude-3-opus", "anthropic"),
        ("gemini-2.5-pro", "gemini"),
        ("qwen2.5:7b", "ollama"),
        ("Qwen/Qwen2.5-7B-Instruct", "openai"),
        ("ollama/qwen2.5", "ollama"),
        ("openrouter/anthropic/claude-3.5-sonnet", "openai"),
        ("vertex_ai/claude-opus-4-7@default", "anthropic"),
        ("nobody", "openai"),
        ("nobody:7b", "ollama"),
        ("nobody/x:7b", "ollama"),
        ("ollama/nobody", "ollama"),
        ("openai:nobody", "openai"),
        ("openai/nobody:x", "openai"),
        ("mistral:13b", "ollama"),
        ("us.anthropic.nobody-v1:0", "openai"),
    ],
)
def test_wire(name, wire):
    assert REGISTRY.resolve(name).wire == wire


def test_every_row_is_found_under_its_own_id():
    assert [row.id for row in REGISTRY if REGISTRY.resolve(row.id) != row] == []


def test_the_default_registry_answers_too():
    assert resolve("gpt-4o", REGISTRY) == REGISTRY.resolve("gpt-4o")


DECORATED = st.builds(
    "{}{}{}".format,
    st.sampled_from(["", "openai/", "ollama/", "us.anthropic.", "ft:", "openrouter/x/", "hf.co/a/"]),
    st.sampled_from([*REGISTRY.names(), "nobody"]),
    st.sampled_from(["", ":", ":7b", ":latest", "-latest", "-20240101", "-v1:0", ":a::b", "@default", "-GGUF:q4_0"]),
)


@given(st.text() | st.from_regex(r"[-a-z0-9:/.@ ]+", fullmatch=True) | DECORATED)
def test_resolve_takes_any_text(name):
    info = REGISTRY.resolve(name)
    assert info.id == name
    assert 1 <= info.max_output <= info.window
    assert info.tokenizer or info.prior


@pytest.mark.parametrize("unit", ["-q4", "-instruct", ":", "/", "-20240101", "llama3", "us."])
def test_a_very_long_name_is_no_model_and_takes_no_time(unit):
    assert not REGISTRY.resolve("gpt-4o" + unit * 100_000).known


def test_a_name_may_be_as_long_as_the_bound():
    prefix = "x" * (MAX_NAME_CHARACTERS - len("/gpt-4o"))
    assert REGISTRY.resolve(f"{prefix}/gpt-4o").known
    assert not REGISTRY.resolve(f"{prefix}x/gpt-4o").known
