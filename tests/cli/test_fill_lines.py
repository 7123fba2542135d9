"""Errors in packages name the line."""

import json
from pathlib import Path

import pytest

GOOD = '{"kind": "note", "content": "fine"}'


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ('{"kind": "note", "content": "x", "importance": 7}', "importance: must be a number from 0 to 1, not 7"),
        (
            '{"kind": "note", "content": "x", "priority": 11}',
            "flex.priority: must be a whole number from 1 to 10, not 11",
        ),
        ('{"kind": "note", "content": "x", "importence": 0.7}', "importence: unknown key"),
        ('{"kind": "note"}', "content: is missing"),
        ('{"kind": "", "content": "x"}', "kind: must not be empty"),
        ('{"kind": "note", "content": 5}', "content: Expected `str | array`, got `int`"),
        ('{"kind": "note", "content": [{"type": "media"}]}', "content[0].modality: is missing"),
        ('{"kind": "note", "content": "x", "role": "king"}', "role: Invalid enum value 'king'"),
        ('{"kind": "note", "content": "x", "timestamp": "once"}', "timestamp: 'once' is not an ISO 8601 time"),
        ('{"kind": "note", "content": "x", "timestamp": "2025-11-15"}', "timestamp: needs a time zone"),
        ('{"kind": "note", "content": "x", "tokens": -1}', "tokens: must not be negative, not -1"),
        ('{"id": "a", "kind": "n", "content": "x", "tokens": {"tokens": 1}}', "tokens.basis: is missing"),
        (
            '{"id": "a", "kind": "n", "content": "", "tokens": {"tokens":1, "basis":"bound"}, "flex": {"priority": 0}}',
            "flex.priority: must be a whole number from 1 to 10, not 0",
        ),
        (
            '{"role": "king", "content": "x"}',
            "role: must be one of system, developer, user, assistant, tool, not 'king'",
        ),
        ('{"role": "tool", "content": "x"}', "tool_call_id: must be a string, but is missing"),
        (
            '{"role": "tool", "tool_call_id": "c", "content": "x", "tool_calls": 5}',
            "tool_calls: only an assistant message may call tools",
        ),
        ('{"role": "user", "content": "x", "tool_calls": 5}', "tool_calls: only an assistant message may call tools"),
        ('{"kind": "note", "content": "x", "position": 1e400}', "is not JSON: "),
        ('{"kind": "note", "content": "\\ud800", "importance": NaN}', "is not JSON: "),
        ('{"kind": "note", "content": "\\ud800', "is not JSON: "),
        (f'{{"kind": "note", "content": "x", "timestamp": 1{"0" * 400}}}', "timestamp: must be a finite number"),
        (f'{{"kind": "note", "content": "x", "tokens": 1{"0" * 400}}}', "tokens: must be at most"),
        ('{"text": "x"}', "needs a 'kind' (content to package) or a 'role' (a message)"),
        ("5", "must be a JSON object, not 5"),
        ('{"kind": ', "is not JSON: "),
    ],
)
def test_lines(line, complaint, fails):
    Path("packages.jsonl").write_text(f"{GOOD}\n\n{line}\n{GOOD}\n", encoding="utf-8")
    assert fails("fill", "packages.jsonl", "-m", "gpt-4o").startswith(f"packages.jsonl:3: {complaint}")


def test_items_of_an_array(fails):
    Path("packages.json").write_text(f"[{GOOD}, 3]", encoding="utf-8")
    assert fails("fill", "packages.json", "-m", "gpt-4o") == "packages.json[1]: must be a JSON object, not 3"


def test_messages_of_a_request(fails):
    request = {"messages": [{"role": "user", "content": "x"}, {"role": "user", "content": 7}]}
    complaint = fails("fill", "-", "-m", "gpt-4o", stdin=json.dumps(request))
    assert complaint == "<stdin>: messages[1]: content: must be a string or a list of parts, not a number"


@pytest.mark.parametrize(
    ("tools", "complaint"),
    [('{"name": "f"}', "t.json: must be a list of tools"), ('[{"name": "no spaces"}]', "t.json: tools[0]")],
)
def test_tools(tools, complaint, fails):
    Path("t.json").write_text(tools, encoding="utf-8")
    Path("p.jsonl").write_text(GOOD, encoding="utf-8")
    assert fails("fill", "p.jsonl", "-m", "gpt-4o", "--tools", "t.json").startswith(complaint)


def test_a_separator_inside_of_a_text_ends_no_line(run):
    Path("p.jsonl").write_text('{"kind": "message-current", "content": "a\u2028b"}\n', encoding="utf-8")
    assert "a\u2028b" in run("fill", "p.jsonl", "-m", "gpt-4o", "--request").stdout


@pytest.mark.parametrize(
    "line",
    [
        '{"kind": "message-current", "content": "a\\ud800b"}',
        '{"role": "user", "content": "a\\uDC00b"}',
        '[{"role": "user", "content": "a\\uD800b"}]',
        '{"messages": [{"role": "user", "content": "a\\ud83d\\ud83db"}]}',
    ],
)
def test_half_a_pair_of_surrogates_is_replaced(line, run):
    Path("p.jsonl").write_text(line + "\n", encoding="utf-8")
    sent = json.loads(run("fill", "p.jsonl", "-m", "gpt-4o", "--request").stdout)["messages"][-1]["content"]
    assert sent.replace("\ufffd\ufffd", "\ufffd") == "a\ufffdb"


def test_a_whole_pair_stays_beside_half_a_one(run):
    Path("p.jsonl").write_text('{"role": "user", "content": "\\ud83c\\udf75 \\ud83c"}', encoding="utf-8")
    sent = json.loads(run("fill", "p.jsonl", "-m", "gpt-4o", "--request").stdout)["messages"][-1]["content"]
    assert sent == "\N{TEACUP WITHOUT HANDLE} \ufffd"
