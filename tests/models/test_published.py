"""Windows from price lists: for models without rows, and for hosts that serve less than the maker."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from brimful.models import load_registry
from brimful.models.registry import PublishedWindows

REGISTRY = load_registry(environ={})
WINDOWS = {name: window for each in REGISTRY.published for name, window in each.windows.items()}


def test_every_window_is_a_fact_with_a_source_and_a_date():
    assert all(re.match(r"(genai-prices|litellm) \d", each.source) for each in REGISTRY.published)
    assert {each.as_of for each in REGISTRY.published if not re.fullmatch(r"20\d\d-\d\d-\d\d", each.as_of)} == set()
    assert sum(len(each.windows) for each in REGISTRY.published) == len(WINDOWS) > 1_000
    assert [name for name, window in WINDOWS.items() if window < 1_024] == []


def test_no_window_competes_with_a_row():
    assert [name for name in WINDOWS if name in REGISTRY.hosted] == []
    rows = {name: REGISTRY.hosted.get(name.rpartition("/")[2]) for name in WINDOWS}
    assert [name for name, id in rows.items() if id and WINDOWS[name] >= REGISTRY.rows[id].window] == []


@pytest.mark.parametrize(
    "name",
    [
        "glm-5.3",
        "zai/glm-5.3",
        "openrouter/z-ai/glm-5.3:free",
        "GLM-5.3-FP8",
        "databricks/databricks-glm-5-3",
        "zai.glm-5.3",
    ],
)
def test_a_model_without_a_row_has_its_published_window(name):
    info = REGISTRY.resolve(name)
    assert (info.known, info.assumed_window, info.relative, info.provider) == (False, False, "", "zai")
    assert 1_000_000 <= info.window <= 1_048_576
    assert info.source.startswith("genai-prices")
    assert info.as_of


@pytest.mark.parametrize(
    "name", ["fireworks_ai/accounts/fireworks/models/glm-5p1", "accounts/fireworks/models/glm-5p1", "fireworks/glm-5.1"]
)
def test_a_host_has_one_window_under_all_its_names(name):
    assert REGISTRY.resolve(name).window == REGISTRY.resolve("fireworks/glm-5-1").window


def test_a_host_serves_less_than_the_maker():
    assert (REGISTRY.resolve("gpt-4o").window, REGISTRY.resolve("github_copilot/gpt-4o").window) == (128_000, 64_000)
    info = REGISTRY.resolve("github_copilot/gpt-4o")
    assert (info.known, info.tokenizer, info.max_output) == (True, "o200k_base", 16_384)


def test_models_that_a_host_limits_have_no_beta_window():
    published = PublishedWindows(source="a list", as_of="2026-11-18", windows={"narrow/claude-sonnet-4-5": 128_000})
    registry = REGISTRY.__class__(
        rows=REGISTRY.rows, hosted=REGISTRY.hosted, local=REGISTRY.local, published=(published,)
    )
    info = registry.resolve("narrow/anthropic/claude-sonnet-4.5")
    assert (info.window, info.with_betas(["context-1m-2025-08-07"]).window) == (128_000, 128_000)
    assert (info.source, info.as_of) == ("a list", "2026-11-18")


def test_a_users_row_is_not_narrowed(tmp_path):
    path = tmp_path / "models.toml"
    path.write_text('[models."gpt-4o"]\nwindow = 100_000\n[models."glm-5.3"]\nmax_output = 9_000\n', encoding="utf-8")
    registry = load_registry(path, environ={})
    assert registry.resolve("github_copilot/gpt-4o").window == 100_000
    assert registry.resolve("github_copilot/gpt-4o-mini").window == 64_000
    info = registry.resolve("glm-5.3")  # it inherits the published window
    assert (info.known, info.window, info.max_output) == (True, REGISTRY.resolve("glm-5.3").window, 9_000)


def test_a_users_rows_are_no_family(tmp_path):
    path = tmp_path / "models.toml"
    path.write_text("".join(f"[models.acme-{i}]\nwindow = 100_000\n" for i in range(5)), encoding="utf-8")
    assert load_registry(path, environ={}).resolve("acme-9").window == 8_192


_TOOL = """
import sys
sys.path.insert(0, sys.argv[1])
from refresh_windows import Fact, encode, publish
from brimful.models import load_registry
import msgspec
rows = msgspec.structs.replace(load_registry(environ={}), published=())
facts = [
    Fact("zai/glm-9", "zai", 200_000, "b"),
    Fact("zai/glm-9", "zai", 300_000, "a"),
    Fact("novita/zai-org/glm-9", "novita", 100_000, "a"),
    Fact("groq/zai-org/GLM-9-FP8", "groq", 200_000, "a"),
    Fact("one/inkling", "one", 9_000, "a"),
    Fact("two/inkling", "two", 8_000, "a"),
    Fact("azure/gpt-4o", "azure", 64_000, "a"),
    Fact("azure/gpt-4.1", "azure", 9_000_000, "a"),
    Fact("openai/gpt-4o", "openai", 1_000, "a"),
]
if sys.argv[2:]:
    facts.reverse()
print(encode(publish(facts, rows, "2026-11-18")), end="")
"""


def run_tool(*arguments):
    pytest.importorskip("genai_prices")
    folder = Path(__file__).parents[2] / "tools"
    command = [sys.executable, "-c", _TOOL, str(folder), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_the_rule_for_conflicts():
    text = run_tool().replace("\n", "")
    assert text == (
        '[{"source":"a","as_of":"2026-11-18","windows":'
        '{"azure/gpt-4o":64000,"inkling":8000,"novita/glm-9":100000,"one/inkling":9000}},'
        '{"source":"b (more by a)","as_of":"2026-11-18","windows":{"glm-9":200000}}]'
    )


def test_the_same_lists_give_the_same_bytes():
    assert run_tool() == run_tool("reversed")
