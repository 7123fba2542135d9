"""brimful diff and brimful replay."""

import json
from pathlib import Path

import brimful

SCHEMA = {
    **dict.fromkeys(("before", "after"), str),
    **dict.fromkeys(("tokens_before", "tokens_after", "common_prefix"), int),
    **dict.fromkeys(("entered", "left", "changed"), list),
    "prefix_share": float,
}


def test_a_record_replays_to_itself(run, run_json, context):
    data = run_json("replay", context)
    assert {key: type(value) for key, value in data.items()} == SCHEMA
    assert data["before"] == data["after"]
    assert (data["entered"], data["left"], data["changed"]) == ([], [], [])
    assert data["prefix_share"] == 1.0
    text = run("replay", context, "--out", "again.json").stdout
    assert "100.0% of the request" in text
    assert Path("again.json").read_bytes() == Path(context).read_bytes()


def test_a_larger_window_lets_more_in(run, run_json, context):
    data = run_json("replay", context, "--window", 8000)
    assert {change["id"] for change in data["entered"]} >= {"m00", "m04"}
    assert "img" in {change["id"] for change in data["changed"]}  # from low detail to full
    assert data["left"] == []
    assert data["tokens_after"] > data["tokens_before"]
    text = run("replay", context, "--window", 8000).stdout
    assert "window       3,000 → 8,000" in text
    assert len([line for line in text.splitlines() if line.startswith("entered ")]) == len(data["entered"])


def test_another_model_policy_and_reserve(run, context):
    text = run("replay", context, "-m", "claude-3-sonnet", "-p", "window", "--completion", 100, "-o", "b.json").stdout
    assert "model        gpt-4-turbo → claude-3-sonnet" in text
    assert "policy       default → window" in text
    after = brimful.Context.from_json(Path("b.json").read_bytes())
    assert (after.budget.window, after.budget.completion) == (200_000, 100)


def test_settings(run_json, context):
    data = run_json("replay", context, "--set", "pools.recent.max_items=10")
    assert len(data["left"]) >= 20
    assert {change["after_reason"] for change in data["left"]} == {"max-items"}


def test_a_tokenizer_file_that_only_the_record_names_is_not_opened(run, context):
    record = json.loads(Path(context).read_bytes())
    record["inputs"]["model"]["tokenizer"] = "secret.json"
    Path("foreign.json").write_text(json.dumps(record))
    assert "the record names the file 'secret.json'" in run("replay", "foreign.json", code=1).stderr
    assert run("replay", "foreign.json", "--tokenizer", "cl100k_base").stdout


def test_an_unknown_model_is_warned_of(run, context):
    assert "unknown model 'acme-1'" in run("replay", context, "--model", "acme-1").stderr


def test_diff(run, run_json, context):
    run("replay", context, "--window", 2500, "--out", "small.json")
    data = run_json("diff", context, "small.json")
    assert {key: type(value) for key, value in data.items()} == SCHEMA
    assert data["left"] != []
    assert run_json("diff", "small.json", context)["entered"][0]["id"] == data["left"][0]["id"]
    text = run("diff", context, "small.json").stdout
    [tokens] = [line for line in text.splitlines() if line.startswith("tokens")]
    assert tokens.endswith(f"({data['tokens_after'] - data['tokens_before']:+,})")
    assert f"0 entered, {len(data['left'])} left" in text


def test_diff_with_itself(run, context):
    text = run("diff", context, context).stdout
    assert "0 entered, 0 left, 0 changed" in text
    assert "change " not in text


def test_items_that_were_no_candidate_are_named(run, chat, context):
    lines = Path(chat).read_text(encoding="utf-8").splitlines()
    Path("less.jsonl").write_text("\n".join(line for line in lines if "mem-episodic" not in line), encoding="utf-8")
    run("fill", "less.jsonl", "-m", "gpt-4-turbo", "--now", 1_763_211_000, "--window", 3000, "-o", "less.json")
    [row] = [line for line in run("diff", context, "less.json").stdout.splitlines() if "mem-episodic" in line]
    assert row.startswith("left")
    assert "not a candidate" in row
