"""brimful models."""

import sys
from pathlib import Path

import pytest

from brimful.models import default_registry


@pytest.fixture
def without_prices(monkeypatch):
    """As if the extra were not installed."""
    monkeypatch.setitem(sys.modules, "genai_prices", None)


def test_all(run, run_json):
    lines = run("models").stdout.splitlines()
    assert lines[0].split()[:3] == ["model", "provider", "window"]
    assert len(lines) - 1 == len(run_json("models")) == len(default_registry())


def test_models_are_filtered_by_provider(run_json):
    assert {row["provider"] for row in run_json("models", "--provider", "anthropic")} == {"anthropic"}


def test_no_such_provider(fails):
    assert fails("models", "--provider", "acme").startswith(
        "there are no models of provider 'acme'; providers are anthropic, "
    )


def test_details(run):
    text = run("models", "gpt-4o").stdout
    facts = dict(line.split(maxsplit=1) for line in text.splitlines() if not line.startswith(("max", "as of")))
    assert facts["window"] == "128,000 tokens"
    assert facts["tokenizer"] == "o200k_base (exact)"
    assert facts["wire"] == "openai"
    assert facts["cost"].startswith("$2.50 prompt, $10.00 completion per million tokens (genai-prices")


def test_names_as_people_write_them(run):
    text = run("models", "anthropic/claude-3-5-sonnet-20241022", "qwen2.5:7b").stdout
    assert "known as    claude-3-5-sonnet" in text
    assert "calibrated" in text
    assert "wire        ollama" in text


def test_details_as_json(run_json):
    [row] = run_json("models", "gpt-4o")
    assert (row["id"], row["window"], row["tokenizer"]) == ("gpt-4o", 128_000, "o200k_base")
    assert (row["cost_per_million"]["prompt"], row["cost_per_million"]["completion"]) == (2.5, 10)


@pytest.mark.usefixtures("without_prices")
def test_without_the_extra_the_error_explains_how_to_get_prices(run, run_json):
    assert "pip install 'brimful[prices]'" in run("models", "gpt-4o").stdout
    assert run_json("models", "gpt-4o")[0]["cost_per_million"] is None


def test_a_model_without_a_row_has_its_published_window(run):
    result = run("models", "glm-5.3")
    assert "window      1,000,000 tokens" in result.stdout
    assert "source      genai-prices 0.2.1 and litellm" in result.stdout


def test_a_new_member_of_a_family(run):
    result = run("models", "glm-6", code=1)
    assert (
        "error: unknown model 'glm-6': assuming a window of 200,000 tokens, the smallest of its family ("
        in result.stderr
    )


def test_an_unknown_one(run):
    result = run("models", "gpt-4o", "acme-1", code=1)
    assert "error: unknown model 'acme-1': assuming a window of 8,192 tokens" in result.stderr
    assert result.stdout == ""


def test_a_broken_file_of_ones_own(fails, monkeypatch):
    Path("models.toml").write_text("[models.mine]\nwindow = -1\n", encoding="utf-8")
    monkeypatch.setenv("BRIMFUL_MODELS", "models.toml")
    default_registry.cache_clear()
    try:
        assert fails("models") == "models.toml: models.mine.window: Expected `int` >= 1"
    finally:
        default_registry.cache_clear()
