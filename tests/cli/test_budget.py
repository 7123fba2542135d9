"""brimful budget, with the numbers of the seed documents."""

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
        "pools": [
            {"name": "system", "limit": 5192},
            {"name": "recent", "limit": 3753},
            {"name": "media", "limit": 5192},
        ],
        "system_tokens": 500,
        "available_for_messages": 4692,
        "target_tokens": 3753,
        "estimates": [],
        "total": 0,
        "percent": 0.0,
        "remaining": 5192,
        "status": "fits",
        "notices": [],
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
        "Total:           ~15,800 tokens (14.1%)",
        "Reserved:         15,800 tokens",  # completion 3,000 + max(10 %, 1,000)
        "Remaining:       ~96,400 tokens",
        "Fits, with 96,400 tokens to spare.",
    ):
        assert line in text
    data = run_json(*args)
    assert data["estimates"] == [
        {"name": "system", "items": 1, "tokens": 1200, "rule": "typical"},
        {"name": "memories", "items": 5, "tokens": 4000, "rule": "typical"},
        {"name": "messages", "items": 20, "tokens": 8000, "rule": "typical"},
        {"name": "images", "items": 2, "tokens": 2600, "rule": "typical"},
    ]
    assert (data["total"], data["percent"], data["remaining"]) == (15_800, 14.1, 96_400)


@pytest.mark.parametrize(
    ("model", "size", "each", "rule"),
    [
        ("gpt-4o", "1024x1024", 765, "openai-tiles-85-170"),
        ("gpt-4o", "1920x1080", 1105, "openai-tiles-85-170"),
        ("claude-3-sonnet", "1920x1080", 1560, "claude-standard"),
        ("gemini-2.5-pro", "300x300", 258, "gemini-2"),
    ],
)
def test_images_cost_what_the_models_rule_says(model, size, each, rule, run, run_json):
    args = ("budget", "-m", model, "--images", 3, "--image-size", size)
    row = {"name": "images", "items": 3, "tokens": 3 * each, "rule": rule, "size": size}
    assert run_json(*args)["estimates"][-1] == row
    assert f"~{3 * each:,} tokens ({rule}, {size})" in run(*args).stdout


def test_images_are_1024_pixels_square_by_default(run_json):
    assert run_json("budget", "--images", 1)["estimates"][-1]["size"] == "1024x1024"


def test_a_model_without_a_rule_takes_the_typical_image(run):
    text = run("budget", "-m", "gpt-4", "--images", 2, "--image-size", "64x64").stdout
    assert "~2,600 tokens (typical size)" in text


@pytest.mark.parametrize("size", ["", "1024", "0x10", "10x0", "10x", "-1x5", "1e3x5", "123456x1", "１x１"])
def test_an_invalid_size_is_wrong_usage(size, run):
    assert "is not a size in pixels" in run("budget", "--images", 1, "--image-size", size, code=2).stderr


@pytest.mark.parametrize(
    ("messages", "status", "verdict"),
    [
        (200, "fits", "Fits, with 31,000 tokens to spare."),
        (260, "fits", "Fits, with 7,000 tokens to spare."),
        (400, "over budget", "Over budget by 49,000 tokens."),
    ],
)
def test_status(messages, status, verdict, run, run_json):
    args = ("budget", "-m", "qwen2.5:7b", "-p", "auction", "--messages", messages)
    assert run_json(*args)["status"] == status
    assert run(*args).stdout.splitlines()[-1] == verdict


@pytest.mark.parametrize(("messages", "full"), [(221, False), (222, True), (277, True), (278, False)])
def test_more_than_80_percent_is_a_warning(messages, full, run, run_json):
    args = ("budget", "-m", "qwen2.5:7b", "-p", "auction", "--messages", messages)
    notices = run_json(*args)["notices"]
    assert [each["kind"] for each in notices] == ["nearly-full"] * full
    assert ("Warning: " in run(*args).stdout) == full
    if full:
        total = 1_200 + 400 * messages
        assert notices[0]["facts"] == {"tokens": total, "available": 112_200}
        assert (
            f"Warning: {total / 1_122:.1f} % of the budget is used ({total:,} of 112,200 tokens)\n" in run(*args).stdout
        )


def test_memories_that_the_policy_has_no_pool_for_are_a_warning(run, run_json):
    args = ("budget", "-m", "gpt-4", "--memories", 1)
    assert run_json(*args, "-p", "default")["notices"] == []
    assert [each["kind"] for each in run_json(*args, "-p", "window")["notices"]] == ["no-memories"]
    assert "Warning: policy 'window' has no pool for memories" in run(*args, "-p", "window").stdout
    assert run_json("budget", "-m", "gpt-4", "--messages", 1, "-p", "window")["notices"] == []


def test_window_and_settings_override_other_values(run_json):
    data = run_json("budget", "--window", 10_000, "--policy", "window", "--set", "pools.recent.limit.share=0.9")
    assert (data["window"], data["target_tokens"]) == (10_000, int((10_000 - 3000 - 500) * 0.9))


def test_an_unknown_model_has_8192(run):
    result = run("budget", "--model", "unknown-model")
    assert "8,192" in result.stdout
    assert "unknown model" in result.stderr


@pytest.mark.parametrize("args", [("--window", 0), ("--completion", -1), ("--messages", -1), ("--window", "many")])
def test_numbers_that_are_none_are_wrong_usage(args, run):
    run("budget", *args, code=2)


def test_a_completion_that_leaves_nothing(run):
    error = run("budget", "--window", 1000, "--completion", 3000, code=1).stderr
    assert "3,000 tokens for the answer and 0 of margin leave nothing of a window of 1,000" in error
