"""The hooks of coding agents, called as the programs do."""

import asyncio
import json
import os
import re
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from typer.testing import CliRunner

import brimful
from brimful.cli.app import app
from brimful.plugins.hooks import answer_event
from brimful.plugins.sessions import SessionLog, file_name, store_url
from brimful.plugins.small_results import is_small_result
from brimful.plugins.tool_results import name_gaps
from brimful.shorten import Shortener, TextStructure

LIMIT = 400
TASK = "Find out which box holds the anchor. The code is QX-4417."
THINGS = ("rope", "lamp", "oil", "anchor", "ladder", "storm")
ROWS = "\n".join(f"row {i}: {THINGS[i * 7 % 6]} {i * i} box-{i * 37 % 91}" for i in range(600))
CODE = "\n".join(f"def step_{i}(a):\n    total = a + {i}\n\n    return total * {i}\n\n" for i in range(150))
BASH = {"interrupted": False, "isImage": False, "noOutputExpected": False}
TEXTS = {
    "rows": ROWS,
    "JSON": json.dumps([{"id": i, "name": f"box {i}", "note": "rope " * (i % 9)} for i in range(300)]),
    "log": "\n".join(f"2026-11-19 01:0{i % 10}:11 INFO poll {i} ok" for i in range(500)) + "\nERROR disk full",
    "code": CODE,
    "one line": "anchor box " * 3_000,
    "other scripts": "船の錨はどこですか。箱の中です。" * 400,
    "colours": "\n".join(f"\x1b[31mfailed\x1b[0m test {i} {i * i}" for i in range(800)),
    "a mark of ours": ROWS + '\n[… recall "r0123456789"]',
}


def event(name, session="s1", **fields):
    return {"session_id": session, "hook_event_name": name, "cwd": "/work", **fields}


def bash(text, call="call_1", session="s1", **more):
    """Return an event as Claude Code sends it."""
    result = {"stdout": text, "stderr": "", **BASH, **more}
    arguments = {"command": "cat rows.txt", "description": "Show the rows"}
    fields = {"tool_name": "Bash", "tool_input": arguments, "tool_response": result, "tool_use_id": call}
    return event("PostToolUse", session, **fields)


def answer(data, folder, program="claude-code"):
    """Return the answer to an event as data; None if there is none."""
    printed = answer_event(data, program, folder, LIMIT)
    return json.loads(printed) if printed else None


def replaced(data, folder):
    """Return what stands in the place of a result."""
    output = answer(data, folder)
    return None if output is None else output["hookSpecificOutput"]["updatedToolOutput"]


def context(data, folder, program="claude-code"):
    output = answer(data, folder, program)
    return "" if output is None else output["hookSpecificOutput"]["additionalContext"]


def handle_of(text):
    return re.findall(r'recall "?(r[0-9a-f]{10})', text)[-1]


def stored(folder, *handles):
    """Return the texts that are stored under handles."""

    async def read():
        async with brimful.Engine(store_url(folder), embedder="none") as engine:
            return [message.content for message in await engine.store.messages(handles)]

    return asyncio.run(read())


def said(folder, room):
    async def read():
        async with brimful.Engine(store_url(folder), embedder="none") as engine:
            history = await engine.store.history(room)
            return [(each.message.role, each.message.text) for each in reversed(history)]

    return asyncio.run(read())


def start(data, folder):
    """Start the command as a program does, and return what it printed."""
    environ = {**os.environ, "BRIMFUL_DATA": str(folder), "BRIMFUL_HOOK_LIMIT": str(LIMIT)}
    command = [sys.executable, "-m", "brimful", "hook", "--program", "claude-code"]
    done = subprocess.run(command, input=json.dumps(data).encode(), env=environ, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.decode()


def run(data, folder, *arguments, **environ):
    """Run the command in this process, which takes a hundredth of the time, and return what it printed."""
    environ = {"BRIMFUL_DATA": str(folder), "BRIMFUL_HOOK_LIMIT": str(LIMIT), **environ}
    command = ["hook", *(arguments or ("--program", "claude-code"))]
    event = data if isinstance(data, bytes) else json.dumps(data).encode()
    done = CliRunner().invoke(app, command, input=event, env=environ)
    assert done.exit_code == 0, done.output
    return done.stdout


# -- results -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_a_large_result_is_shortened_and_its_original_is_stored_exactly(tmp_path, text):
    result = replaced(bash(text), tmp_path)
    assert {**result, "stdout": ""} == {"stdout": "", "stderr": "", **BASH}
    assert brimful.count(result["stdout"], model="gpt-4o").tokens <= LIMIT
    assert stored(tmp_path, handle_of(result["stdout"])) == [text]
    [noted] = SessionLog(tmp_path, "claude-code", "s1").results
    assert noted["tokens"] == brimful.count(text, model="gpt-4o").tokens
    assert noted["shown"] == brimful.count(result["stdout"], model="gpt-4o").tokens


@pytest.mark.parametrize("text", [ROWS + "\0", ROWS + "\ud800", "\ufeff" + ROWS, ROWS.replace("\n", "\r\n")])
def test_a_result_is_left_as_it_is_unless_it_can_be_stored_exactly(tmp_path, text):
    try:
        result = replaced(bash(text), tmp_path)
    except brimful.errors.BrimfulError:
        assert SessionLog(tmp_path, "claude-code", "s1").results == []
    else:
        assert stored(tmp_path, handle_of(result["stdout"])) == [text]


def test_rows_that_the_user_asked_about_stay(tmp_path):
    answer(event("UserPromptSubmit", prompt="Which test failed: the one about the lighthouse?"), tmp_path)
    rows = ROWS.replace("row 317:", "row 317: the lighthouse test failed")
    assert "row 317: the lighthouse test failed" in replaced(bash(rows), tmp_path)["stdout"]


def test_a_json_result_stays_json(tmp_path):
    shown = replaced(bash(TEXTS["JSON"]), tmp_path)["stdout"]
    assert isinstance(json.loads(shown), list)


@pytest.mark.parametrize(
    "data",
    [
        bash("rope\n" * 20),
        bash(ROWS, isImage=True),
        bash("x" * 30_000, persistedOutputPath="/home/ada/.claude/tool-results/b1.txt"),
        event(
            "PostToolUse", tool_name="Task", tool_input={}, tool_response={"content": [{"type": "text", "text": ROWS}]}
        ),
        event("PostToolUse", tool_name="Edit", tool_input={}, tool_response={"originalFile": ROWS}),
        event("PostToolUse", tool_name="Bash", tool_input={}, tool_response={"stdout": [ROWS]}),
        event("PostToolUse", tool_name="Bash", tool_input=None, tool_response=ROWS),
        event("PostToolUse", tool_name=None, tool_response=None),
        event("PostToolUse", tool_name="mcp__plugin_brimful_brimful__recall", tool_response=ROWS),
        event("PostToolUse", tool_name="mcp__s__picture", tool_response=[{"type": "image", "data": "A" * 40_000}]),
        event("PostToolUseFailure", tool_name="Bash", error=ROWS),
        event("Stop", last_assistant_message=ROWS),
    ],
    ids=lambda data: f"{data['hook_event_name']} {data.get('tool_name')}",
)
def test_small_results_and_unknown_forms_are_left_as_they_are(tmp_path, data):
    assert answer(data, tmp_path) is None
    assert not any(tmp_path.iterdir())


def test_results_of_other_tools_keep_their_forms(tmp_path):
    grep = {"mode": "content", "numFiles": 0, "filenames": [], "content": ROWS, "numLines": 600}
    fetch = {"bytes": 9, "code": 200, "codeText": "OK", "result": ROWS, "durationMs": 3, "url": "https://x.example"}
    listed = [{"type": "text", "text": ROWS}, {"type": "image", "data": "A"}, {"type": "text", "text": "second"}]

    def changed(tool, result, **arguments):
        return replaced(event("PostToolUse", tool_name=tool, tool_input=arguments, tool_response=result), tmp_path)

    assert {**changed("Grep", grep), "content": ROWS} == grep
    assert {**changed("WebFetch", fetch), "result": ROWS} == fetch
    first, *others = changed("mcp__s__rows", listed)
    assert others == listed[1:]
    assert stored(tmp_path, handle_of(first["text"])) == [ROWS]
    assert stored(tmp_path, handle_of(changed("mcp__s__rows", ROWS))) == [ROWS]


def test_a_file_keeps_whole_lines_and_says_which_are_missing(tmp_path):
    file = {"filePath": "/srv/steps.py", "content": CODE, "numLines": 900, "startLine": 1, "totalLines": 900}
    data = event("PostToolUse", tool_name="Read", tool_input={}, tool_response={"type": "text", "file": file})
    lines, at = replaced(data, tmp_path)["file"]["content"].split("\n"), 0
    original = CODE.split("\n")
    for line in lines[:-2]:
        if line.startswith("[… lines "):
            start, end = map(int, line.removeprefix("[… lines ").removesuffix("]").split("-"))
            assert start == at + 1
            at = end
        else:
            assert line == original[at]
            at += 1
    assert at == len(original)
    part = {**data, "tool_input": {"file_path": "/srv/steps.py", "offset": 20}}
    assert replaced(part, tmp_path) is None


BLANK_LINES = (
    "\n\n\n    return a\n\n}\n\n\n    return a\n\n\n\na = 1\n\n\n\n\n"
    "def f(a):\n\n\nclass B:\n\nclass B:\n\n\n\ndef f(a):\n\n    return a\n"
)


@given(
    st.lists(st.sampled_from(["", "a = 1", "    return a", "def f(a):", "}", "class B:"]), min_size=30),
    st.integers(20, 90),
)
@example(BLANK_LINES.split("\n"), 69)
def test_named_gaps_and_lines_add_up_to_the_file(lines, limit):
    text = "\n".join(lines)
    shorter = Shortener(TextStructure(text, "", "code"), lambda part: len(part.split("\n")) * 3).shorten(limit)
    if shorter is None:
        return
    shown = [line for line in name_gaps(shorter.text, text).split("\n") if line]
    gaps = [tuple(map(int, line[9:-1].split("-"))) for line in shown if line.startswith("[… lines ")]
    hidden = [number for start, end in gaps for number in range(start, end + 1)]
    assert len(hidden) == len(set(hidden))
    seen = [line for number, line in enumerate(lines, start=1) if number not in hidden and line]
    assert seen == [line for line in shown if not line.startswith("[… ")]


def test_handles_differ_and_are_the_same_if_a_hook_runs_again(tmp_path):
    events = [bash(ROWS), bash(ROWS, call="call_2"), bash(ROWS, session="s2"), bash(ROWS[:-1])]
    handles = [handle_of(replaced(each, tmp_path)["stdout"]) for each in events]
    assert len(set(handles)) == len(events)
    assert handle_of(replaced(events[0], tmp_path)["stdout"]) == handles[0]
    assert stored(tmp_path, *handles) == [ROWS, ROWS, ROWS, ROWS[:-1]]


def test_without_the_mcp_server_nothing_is_shortened(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "mcp", None)
    with pytest.raises(brimful.errors.MissingExtra, match="mcp"):
        answer(bash(ROWS), tmp_path)
    assert not any(tmp_path.iterdir())


# -- Codex and Qwen Code -----------------------------------------------------------------------------------------------


def codex(result, tool="Bash", **more):
    """Return an event as Codex sends it."""
    fields = {"tool_name": tool, "tool_input": {"command": "cat rows.txt"}, "tool_use_id": "call_1", "model": "gpt-5.5"}
    return event("PostToolUse", tool_response=result, turn_id="t1", **fields, **more)


def test_codex_gets_no_field_that_it_does_not_know(tmp_path):
    output = answer(codex(ROWS), tmp_path, "codex")
    assert set(output) == {"decision", "reason"}
    assert output["decision"] == "block"
    assert stored(tmp_path, handle_of(output["reason"])) == [ROWS]


def test_results_of_codex_from_an_mcp_server(tmp_path):
    texts = {"content": [{"type": "text", "text": ROWS}, {"type": "text", "text": "second"}]}
    output = answer(codex(texts, "mcp__s__rows"), tmp_path, "codex")
    assert stored(tmp_path, handle_of(output["reason"])) == [f"{ROWS}\nsecond"]
    picture = {"content": [*texts["content"], {"type": "image", "data": "A"}]}
    assert answer(codex(picture, "mcp__s__rows"), tmp_path, "codex") is None
    assert answer(codex(texts, "mcp__brimful__recall"), tmp_path, "codex") is None


def test_codex_shows_the_exit_code_of_the_command_and_of_no_other(tmp_path):
    def done(id, code, output=""):
        item = {"type": "CommandExecution", "id": id, "aggregated_output": output, "exit_code": code}
        return json.dumps({"type": "event_msg", "payload": {"type": "item_completed", "item": item}})

    file = tmp_path / "rollout.jsonl"
    file.write_text("\n".join([done("call_0", 1), done("call_1", 3, '"exit_code":7'), done("call_2", 4), '{"call_1"']))
    output = answer(codex(ROWS, transcript_path=str(file)), tmp_path, "codex")
    assert output["reason"].startswith("Process exited with code 3\nrow 0")
    output = answer(codex(ROWS, transcript_path=str(tmp_path / "missing")), tmp_path, "codex")
    assert output["reason"].startswith("row 0")


def test_qwen_code_cannot_replace_results(tmp_path):
    assert answer(bash(ROWS), tmp_path, "qwen-code") is None


# -- the conversation --------------------------------------------------------------------------------------------------


def remember(folder, *texts):
    async def write():
        async with brimful.Engine(store_url(folder)) as engine:
            for text in texts:
                await engine.remember(text)

    asyncio.run(write())


def test_memories_that_match_a_prompt_come_once(tmp_path):
    remember(tmp_path, "The tests of the harbour service need Redis on port 6390.", "Ada likes green tea. " * 400)
    prompt = event("UserPromptSubmit", prompt="How do I run the tests of the harbour service?")
    text = context(prompt, tmp_path, "qwen-code")
    assert "port 6390" in text
    assert brimful.count(text, model="gpt-4o").tokens <= 500
    # Qwen Code repeats the event after each result of a tool.
    assert context(prompt, tmp_path, "qwen-code") == ""
    again = event("UserPromptSubmit", prompt="And which port do the tests of the harbour service need?")
    assert "port 6390" not in context(again, tmp_path, "qwen-code")
    answer(event("SessionStart", source="compact"), tmp_path, "qwen-code")
    assert "port 6390" in context(prompt, tmp_path, "qwen-code")


def test_a_prompt_without_memories_gets_no_answer(tmp_path):
    assert context(event("UserPromptSubmit", prompt=TASK), tmp_path) == ""
    assert context(event("UserPromptSubmit", prompt="<task-notification>\n<task-id>a1"), tmp_path) == ""
    assert SessionLog(tmp_path, "claude-code", "s1").prompts == [TASK]


@pytest.mark.parametrize("program", ["claude-code", "codex", "qwen-code"])
def test_a_session_begins_with_one_explanation(tmp_path, program):
    assert '[… recall "' in context(event("SessionStart", source="startup"), tmp_path, program)
    assert context(event("SessionStart", source="resume"), tmp_path, program) == ""


def test_after_a_compaction_the_task_and_the_handles_come_back(tmp_path):
    answer(event("SessionStart", source="startup"), tmp_path)
    for prompt in (TASK, "Go on."):
        answer(event("UserPromptSubmit", prompt=prompt), tmp_path)
    handle = handle_of(replaced(bash(ROWS), tmp_path)["stdout"])
    answer(bash(ROWS, session="other"), tmp_path)
    text = context(event("SessionStart", source="compact"), tmp_path)
    assert TASK in text
    assert "Go on." in text
    assert re.findall(r"r[0-9a-f]{10}", text.partition("results of this session")[2]) == [handle]
    assert "Bash: cat rows.txt" in text


def test_the_summarizer_is_told_to_keep_handles(tmp_path):
    compaction = event("PreCompact", trigger="auto", custom_instructions="")
    assert answer_event(compaction, "claude-code", tmp_path, LIMIT) == ""
    answer(event("UserPromptSubmit", prompt=TASK), tmp_path)
    handle = handle_of(replaced(bash(ROWS), tmp_path)["stdout"])
    text = answer_event(compaction, "claude-code", tmp_path, LIMIT)
    assert handle in text
    assert TASK in text
    assert answer_event(compaction, "codex", tmp_path, LIMIT) == ""


CLAUDE_LINES = [
    {"type": "queue-operation"},
    {"type": "user", "uuid": "u1", "timestamp": "2026-11-19T01:00:00Z", "message": {"content": TASK}},
    {"type": "user", "uuid": "u2", "isMeta": True, "message": {"content": "Caveat"}},
    {"type": "assistant", "uuid": "a1", "message": {"content": [{"type": "tool_use", "id": "t1", "name": "Bash"}]}},
    {"type": "user", "uuid": "u3", "message": {"content": [{"type": "tool_result", "content": "rows"}]}},
    {"type": "user", "uuid": "u4", "message": {"content": "<command-name>/compact</command-name>"}},
    {"type": "assistant", "uuid": "a2", "isSidechain": True, "message": {"content": "I am a subagent."}},
    {"type": "assistant", "uuid": "a3", "message": {"content": [{"type": "text", "text": "Box 12 holds it."}]}},
]
CODEX_LINES = [
    {"type": "response_item", "payload": {"type": "message", "role": "user", "content": [{"text": TASK}]}},
    *(
        {
            "type": "event_msg",
            "payload": {"type": "item_completed", "item": {"type": kind, "id": id, "content": content}},
        }
        for kind, id, content in [
            ("UserMessage", "u1", [{"type": "text", "text": TASK}]),
            ("CommandExecution", "c1", None),
            ("AgentMessage", "a1", [{"type": "Text", "text": "Box 12 holds it."}]),
        ]
    ),
    {
        "type": "response_item",
        "payload": {
            "type": "message",
            "id": "a1",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "Box 12 holds it."}],
        },
    },
]
QWEN_LINES = [
    {"type": "user", "uuid": "u1", "message": {"role": "user", "parts": [{"text": TASK}]}},
    {"type": "assistant", "uuid": "a1", "message": {"parts": [{"text": "Hm.", "thought": True}, {"functionCall": {}}]}},
    {"type": "assistant", "uuid": "a2", "message": {"parts": [{"text": "Box 12 holds it."}]}},
]


@pytest.mark.parametrize(
    ("program", "lines"), [("claude-code", CLAUDE_LINES), ("codex", CODEX_LINES), ("qwen-code", QWEN_LINES)]
)
def test_a_session_is_imported_piece_by_piece_and_each_message_once(tmp_path, program, lines):
    file, end = tmp_path / "session.jsonl", event("SessionEnd", transcript_path=str(tmp_path / "session.jsonl"))
    whole = "".join(f"{json.dumps(line)}\n" for line in ["not an object", *lines]).encode()
    half = len(whole) - 20
    file.write_bytes(whole[:half])  # the last line is half written
    answer(end, tmp_path, program)
    assert said(tmp_path, f"{program}/s1") == [("user", TASK)]
    file.write_bytes(whole)
    for _ in range(2):
        answer(end, tmp_path, program)
    everything = [("user", TASK), ("assistant", "Box 12 holds it.")]
    assert said(tmp_path, f"{program}/s1") == everything
    file.write_bytes(whole[half:])  # another file in its place
    answer(end, tmp_path, program)
    assert said(tmp_path, f"{program}/s1") == everything


def test_keys_in_a_session_are_masked_before_it_is_stored(tmp_path):
    key = "ghp_" + "a1B2" * 9
    line = {"type": "user", "uuid": "u1", "message": {"content": f"Use {key} for the upload."}}
    (tmp_path / "session.jsonl").write_text(json.dumps(line) + "\n")
    answer(event("SessionEnd", transcript_path=str(tmp_path / "session.jsonl")), tmp_path, "claude-code")
    assert said(tmp_path, "claude-code/s1") == [("user", "Use [masked: github-token] for the upload.")]


# -- the command -------------------------------------------------------------------------------------------------------


def test_the_command_answers_as_the_function_does(tmp_path):
    output = json.loads(start(bash(ROWS), tmp_path))["hookSpecificOutput"]["updatedToolOutput"]
    assert output == replaced(bash(ROWS), tmp_path)


def test_a_small_result_ends_before_anything_is_imported(tmp_path):
    code = (
        "import sys; sys.argv = ['brimful', 'hook', '--program', 'codex']; from brimful.cli import main; main();"
        "print(*{'typer', 'msgspec', 'asyncio', 'sqlite3', 'brimful.plugins.hooks'} & sys.modules.keys())"
    )
    for text, imported in (("rope", ""), (ROWS, None)):
        given = json.dumps(codex(text)).encode()
        environ = {**os.environ, "BRIMFUL_DATA": str(tmp_path)}
        done = subprocess.run([sys.executable, "-c", code], input=given, env=environ, capture_output=True, check=True)
        assert (done.stdout.decode().strip() == imported) is (imported is not None)


BROKEN = [
    b"",
    b"\xff\xfe",
    b"null",
    b"[1]",
    b'{"hook_event_name": "PostToolUse"',
    b"[" * 100_000,
    json.dumps(event("SessionEnd", transcript_path=["x"])).encode(),
    json.dumps(event("SessionStart", session=7, source={})).encode(),
    json.dumps({"hook_event_name": 5}).encode(),
    json.dumps(event("UserPromptSubmit", session="../../etc/passwd", prompt=None)).encode(),
]


@pytest.mark.parametrize("data", BROKEN, ids=range(len(BROKEN)))
def test_broken_input_breaks_nothing(tmp_path, data):
    folder = tmp_path / "data"
    assert is_small_result(data, str(LIMIT)) in (True, False)
    for arguments in (("--program", "claude-code"), ("--status-line",)):
        printed = run(data, folder, *arguments)
        assert printed == "" or json.loads(printed)["hookSpecificOutput"]["hookEventName"] == "SessionStart"
    assert {path.parent for path in tmp_path.rglob("*") if path.is_file()} <= {folder, folder / "sessions"}


def test_an_error_is_one_line_in_the_log(tmp_path):
    assert run(b"[1]", tmp_path, "--program", "claude-code") == ""
    assert run(bash(ROWS), tmp_path, "--program", "emacs") == ""
    assert run(bash(ROWS), tmp_path, BRIMFUL_HOOK_LIMIT="many") == ""
    lines = (tmp_path / "hooks.log").read_text().splitlines()
    assert len(lines) == 3
    assert "emacs" in lines[1]


def test_a_store_that_cannot_be_used_leaves_results_as_they_are(tmp_path):
    (tmp_path / "plugins.db").write_text("not a database")
    assert run(bash(ROWS), tmp_path) == ""
    assert "plugins.db" in (tmp_path / "hooks.log").read_text()
    file = tmp_path / "file"
    file.touch()
    assert run(bash(ROWS), file) == ""


@pytest.mark.skipif(sys.platform == "win32", reason="rights of POSIX")
def test_only_the_owner_can_read_what_is_stored(tmp_path):
    folder = tmp_path / "data"
    run(event("UserPromptSubmit", prompt=TASK), folder)
    run(bash(ROWS), folder)
    run(b"null", folder)
    assert len(list(folder.rglob("*"))) >= 4
    for path in [folder, *folder.rglob("*")]:
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path


def test_hooks_that_run_at_once_lose_nothing(tmp_path):
    events = [bash(ROWS, call=f"call_{number}") for number in range(4)]
    with ThreadPoolExecutor(4) as pool:
        printed = list(pool.map(lambda each: start(each, tmp_path), events))
    handles = {handle_of(json.loads(each)["hookSpecificOutput"]["updatedToolOutput"]["stdout"]) for each in printed}
    assert len(handles) == len(events)
    assert {each["handle"] for each in SessionLog(tmp_path, "claude-code", "s1").results} == handles
    assert stored(tmp_path, *handles) == [ROWS] * len(events)


def test_names_of_log_files_differ():
    assert len({file_name(id) for id in ("a/b", "a_b", "a/../b", "a b", "A/b", "", "x" * 500, "x" * 501)}) == 8
    assert Path(file_name("codex/../../etc")).name == file_name("codex/../../etc")


def test_the_status_line(tmp_path):
    answer(bash(ROWS), tmp_path)
    saved = SessionLog(tmp_path, "claude-code", "s1").saved
    status = {
        "session_id": "s1",
        "context_window": {"total_input_tokens": 61_234, "context_window_size": 1_000_000, "used_percentage": 6.1},
        "prompt_cache": {"hit_ratio": 0.925, "last_miss_cause": "tools_changed"},
    }
    line = run(status, tmp_path, "--status-line")
    assert (
        line
        == f"61k of 1000k tokens · 6 % full · cache 92 % · last miss: tools_changed · Brimful saved {saved / 1000:.0f}k"
    )
    assert run({"session_id": "s1", "context_window": None}, tmp_path, "--status-line").startswith("Brimful saved")
