"""brimful budget, by the numbers of the founding documents."""

import pytest


@pytest.mark.parametrize(("model", "target"), [("gpt-4", 3753), ("claude-3-sonnet", 157_200)])
def test_target_of_the_window_policy(model, target, run_json):
    data = run_json("budget", "--model", model, "--policy", "window", "--completion", 3000)
    assert data["target_tokens"] == target


def test_gpt_4_under_the_window_policy(run_json):
    assert run_json("budget", "--model", "gpt-4", "--policy", "window", "--completion", 3000) == {
        "model": "gpt-4",
        "policy": "window",
        "window": 8192,
        "completion": 3000,
        "margin": 0,
        "reserved": 3000,
        "available": 5192,
        "hard_limit": 5192,
        "pools": [{"name": "system", "limit": 5192}, {"name": "recent", "limit": 3753}],
        "target_tokens": 3753,
        "estimates": [],
        "total": 0,
        "percent": 0.0,
        "remaining": 5192,
        "status": "healthy",
    }


def test_a_policy_without_recent_targets_all_that_is_available(run_json):
    data = run_json("budget", "--model", "qwen2.5:7b", "--policy", "auction")
    assert data["target_tokens"] == data["available"] == 128_000 - 3000 - 12_800


def test_dry_run(run, run_json):
    args = ("budget", "-m", "qwen2.5:7b", "-p", "auction", "--messages", 20, "--memories", 5, "--images", 2)
    text = run(*args).stdout
    for line in (
        "System Prompt:    ~1,200 tokens",
        "Memories (5):     ~4,000 tokens",
        "Messages (20):    ~8,000 tokens",
        "Images (2):       ~2,600 tokens",
        "Total:           ~15,800 tokens (12.3%)",
        "Reserved:         15,800 tokens",  # completion 3,000 + max(10 %, 1,000)
        "Remaining:       ~96,400 tokens",
        "✅ Budget looks healthy",
    ):
        assert line in text
    data = run_json(*args)
    assert data["estimates"] == [
        {"name": "system", "items": 1, "tokens": 1200},
        {"name": "memories", "items": 5, "tokens": 4000},
        {"name": "messages", "items": 20, "tokens": 8000},
        {"name": "images", "items": 2, "tokens": 2600},
    ]
    assert (data["total"], data["percent"], data["remaining"]) == (15_800, 12.3, 96_400)


@pytest.mark.parametrize(
    ("messages", "status", "verdict"),
    [
        (200, "healthy", "✅ Budget looks healthy"),
        (260, "nearly full", "⚠️  Using 82.2% of context window (>80%)"),
        (400, "over budget", "⚠️  OVER BUDGET by 49,000 tokens!"),
    ],
)
def test_status(messages, status, verdict, run, run_json):
    args = ("budget", "-m", "qwen2.5:7b", "-p", "auction", "--messages", messages)
    assert run_json(*args)["status"] == status
    assert run(*args).stdout.splitlines()[-1] == verdict


def test_window_and_settings_replace_what_is_said_elsewhere(run_json):
    data = run_json("budget", "--window", 10_000, "--policy", "window", "--set", "pools.recent.limit.share=0.9")
    assert (data["window"], data["target_tokens"]) == (10_000, int((10_000 - 3000 - 500) * 0.9))


def test_an_unknown_model_has_8192(run):
    result = run("budget", "--model", "unknown-model")
    assert "8,192" in result.stdout
    assert "unknown model" in result.stderr


@pytest.mark.parametrize("args", [("--window", 0), ("--completion", -1), ("--messages", -1), ("--window", "many")])
def test_numbers_that_are_none_are_wrong_usage(args, run):
    run("budget", *args, code=2)


def test_a_completion_that_leaves_nothing(run_json):
    data = run_json("budget", "--window", 1000, "--completion", 3000)
    assert (data["available"], data["status"]) == (0, "over budget")
