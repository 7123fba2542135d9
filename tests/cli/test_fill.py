"""brimful fill: input and output formats."""

import json
from pathlib import Path

import pytest

import brimful

NOW = 1_763_211_000
MESSAGES = [
    {"role": "system", "content": "You are brief."},
    {"role": "user", "content": "First question"},
    {"role": "assistant", "content": "First answer"},
    {"role": "user", "content": "Second question"},
]
TOOLS = [{"name": "search", "description": "Find.", "parameters": {"type": "object", "properties": {}}}]


def texts(request):
    return [message["content"] for message in request["messages"]]


def request_of(run, *args):
    return json.loads(run("fill", *args, "--now", NOW, "--request").stdout)


def test_the_report(run, chat):
    text = run("fill", chat, "--model", "gpt-4-turbo", "--now", NOW, "--window", 3000, "--completion", 500).stdout
    assert text.startswith("┌─ BRIMFUL: gpt-4-turbo ─")
    assert "Context Window: 3,000 tokens" in text
    assert "Memories:" in text
    assert "(3 items)" in text
    assert "1 duplicate" in text


def test_the_record_is_the_same_printed_and_written(run, chat):
    args = ("fill", chat, "--model", "gpt-4-turbo", "--now", NOW, "--window", 3000, "--completion", 500)
    printed = brimful.Context.from_json(run(*args, "--json", "--out", "written.json").stdout)
    assert printed == brimful.Context.from_json(Path("written.json").read_bytes())
    assert printed.tokens <= printed.budget.hard_limit == 2500


def test_the_request_is_printed_byte_for_byte(run, chat):
    args = ("fill", chat, "-m", "gpt-4o", "--now", NOW)
    printed = run(*args, "--request", "--out", "context.json").stdout
    record = json.loads(Path("context.json").read_text(encoding="utf-8"))
    assert printed == json.dumps(record["request"], separators=(",", ":"), ensure_ascii=False) + "\n"


def test_the_same_input_gives_the_same_bytes_whatever_the_order_of_lines(run, chat, write_lines):
    rows = [json.loads(line) for line in Path(chat).read_text(encoding="utf-8").splitlines()]
    for at, row in enumerate(rows):
        row["position"] = at
    write_lines("forth.jsonl", rows)
    write_lines("back.jsonl", reversed(rows))
    first, second = (
        run("fill", name, "-m", "gpt-4o", "--now", NOW, "--json") for name in ("forth.jsonl", "back.jsonl")
    )
    assert first.stdout == second.stdout


@pytest.mark.parametrize("now", ["1763211000", "2025-11-15T12:50:00Z", "2025-11-15T13:50:00+01:00"])
def test_now(now, run, chat):
    record = json.loads(run("fill", chat, "-m", "gpt-4o", "--now", now, "--json").stdout)
    assert record["inputs"]["now"] == NOW


@pytest.mark.parametrize("now", ["yesterday", "2025-11-15T12:50:00"])
def test_now_without_meaning_is_wrong_usage(now, run, chat):
    assert "--now" in run("fill", chat, "-m", "gpt-4o", "--now", now, code=2).stderr


def test_messages_are_one_conversation(run, write_lines):
    write_lines("chat.jsonl", MESSAGES)
    assert texts(request_of(run, "chat.jsonl", "-m", "gpt-4o")) == texts({"messages": MESSAGES})


def test_an_array_and_standard_input(run):
    result = run("fill", "-", "-m", "gpt-4o", "--request", stdin=json.dumps(MESSAGES, indent=2))
    assert texts(json.loads(result.stdout)) == texts({"messages": MESSAGES})


def test_a_request_with_its_tools(run):
    request = {"model": "gpt-4o", "messages": MESSAGES, "tools": [{"type": "function", "function": TOOLS[0]}]}
    Path("request.json").write_text(json.dumps(request, indent=2), encoding="utf-8")
    filled = request_of(run, "request.json", "-m", "claude-3-sonnet")
    assert [tool["name"] for tool in filled["tools"]] == ["search"]
    assert filled["model"] == "claude-3-sonnet"


@pytest.mark.parametrize("wrapped", [False, True])
def test_tools_of_a_file(wrapped, run, write_lines):
    write_lines("chat.jsonl", MESSAGES)
    tools = [{"type": "function", "function": TOOLS[0]}] if wrapped else TOOLS
    Path("tools.json").write_text(json.dumps(tools), encoding="utf-8")
    filled = request_of(run, "chat.jsonl", "-m", "gpt-4o", "--tools", "tools.json")
    assert filled["tools"][0]["function"]["name"] == "search"


def test_whole_packages_keep_their_counts(run_json, write_lines):
    count = {"tokens": 500, "basis": "bound"}
    write_lines("p.jsonl", [{"id": "m", "kind": "message-current", "content": "Hello", "tokens": count}])
    [package] = run_json("fill", "p.jsonl", "-m", "gpt-4o", "--now", NOW)["inputs"]["packages"]
    assert package["tokens"] == {**count, "tokenizer": "", "margin": 0}


def test_packages_of_a_record_can_be_filled_again(run, context, write_lines):
    record = json.loads(Path(context).read_text(encoding="utf-8"))
    write_lines("again.jsonl", record["inputs"]["packages"])
    args = ("--now", NOW, "--window", 3000, "--completion", 500)
    again = json.loads(run("fill", "again.jsonl", "-m", "gpt-4-turbo", *args, "--json").stdout)
    assert again["id"] == record["id"]


def test_messages_without_a_time_keep_the_order_of_the_file(run, write_lines):
    lines = [f"line {at}" for at in (3, 1, 2, 9, 0)]
    rows = [{"kind": "message-recent", "role": "user", "content": text} for text in lines]
    write_lines("said.jsonl", [*rows, {"kind": "message-current", "content": "now"}])
    filled = request_of(run, "said.jsonl", "-m", "gpt-4o")
    order = json.dumps(filled)
    assert sorted(lines, key=order.index) == lines


def test_messages_out_of_turn_get_their_own_ids(run_json, write_lines):
    memory = {"kind": "memory-semantic", "content": "Ada likes tea."}
    ask = {"kind": "message-current", "content": "now", "id": "ask"}
    ids = []
    for rows in ([memory, ask], [ask, memory]):
        write_lines("p.jsonl", rows)
        record = run_json("fill", "p.jsonl", "-m", "gpt-4o", "--now", NOW)
        ids.append({package["id"] for package in record["inputs"]["packages"]})
    assert ids[0] == ids[1]


def test_previous_is_where_history_goes_on_from(run_json, chat, context):
    record = run_json("fill", chat, "-m", "gpt-4-turbo", "--now", NOW, "--previous", context)
    assert record["inputs"]["previous"] == json.loads(Path(context).read_text(encoding="utf-8"))["history"]


def test_settings_change_the_policy(run, chat):
    args = ("-m", "gpt-4o", "--now", NOW, "-p", "window", "--json")
    changes = ("--set", "pools.recent.min_items=1", "--set", "pools.recent.max_items=5")
    record = json.loads(run("fill", chat, *args, *changes).stdout)
    assert [pool["items"] for pool in record["pools"] if pool["name"] == "recent"] == [5]


def test_counting_by_another_method(run, chat):
    record = json.loads(run("fill", chat, "-m", "gpt-4o", "--set", "counting=approximate", "--json").stdout)
    assert {package["tokens"]["basis"] for package in record["inputs"]["packages"]} >= {"approximate"}


def test_wire(run, chat):
    assert "contents" in request_of(run, chat, "-m", "gpt-4o", "--wire", "gemini")


def test_a_policy_file(run, chat):
    policy = 'name = "mine"\n[[pools]]\nname = "all"\nkinds = ["*"]\n'
    Path("mine.toml").write_text(policy, encoding="utf-8")
    assert "Policy: mine" in run("fill", chat, "-m", "gpt-4o", "-p", "mine.toml").stdout


def test_the_required_parts_do_not_fit(fails, chat):
    line = fails("fill", chat, "-m", "gpt-4o", "--window", 20)
    assert line.startswith("required parts need ")
    assert "sys (" in line
