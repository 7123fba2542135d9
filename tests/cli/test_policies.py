"""brimful policies."""

from brimful import policy_names


def test_all(run, run_json):
    assert [line.split()[0] for line in run("policies").stdout.splitlines()] == ["policy", *policy_names()]
    assert [set(row) for row in run_json("policies")] == [{"name", "description"}] * len(policy_names())


def test_a_policy_is_shown_in_tokens_of_a_model(run):
    lines = run("policies", "window", "--model", "gpt-4").stdout.splitlines()
    [recent] = [line.split() for line in lines if line.startswith("recent ")]
    assert recent == ["recent", "3,753", "newest", "5", "100", "message-*,", "tool-*", "contiguous"]


def test_weights_of_the_auction(run):
    text = run("policies", "auction").stdout
    assert "0.4 priority + 0.3 importance + 0.2 relevance + 0.1 recency" in text
    assert "exp(−days / 30)" in text


def test_the_order_of_trimming(run):
    trim = "drop related, then summarize related, then summarize recent, then drop recent"
    assert trim in run("policies", "pools").stdout


def test_a_policy_is_shown_as_json(run_json):
    data = run_json("policies", "split", "--model", "claude-3-sonnet")
    assert data["policy"]["total_tokens"] == 200_000
    limits = {pool["name"]: pool["limit"] for pool in data["budget"]["pools"]}
    assert (limits["recent"], limits["related"]) == (150_000, 50_000)
    assert data["budget"]["reserved"] == 3000


def test_the_environment_is_heard(run_json, monkeypatch):
    monkeypatch.setenv("BRIMFUL_CONTEXT_COMPLETION_TOKENS", "1,234")
    data = run_json("policies", "window")
    assert data["policy"]["completion"]["tokens"] == data["budget"]["completion"] == 1234


def test_no_such_policy(fails):
    assert fails("policies", "nope").startswith(
        "no policy 'nope'; known: agent, auction, default, fit, pools, split, window"
    )
