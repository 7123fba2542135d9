"""Writers of session files, in the forms that the programs themselves write."""

import json
import sqlite3
from contextlib import closing
from datetime import UTC, datetime

START = 1_795_000_000.0
SETUP = "<session_context>\nThis is the Gemini CLI. We are setting up the context for our chat."
PARA = "The lighthouse of Porto was built in 1882 by the keeper Mia Reis. "


def stamp(seconds):
    return datetime.fromtimestamp(START + seconds, UTC).isoformat().replace("+00:00", "Z")


def write(path, lines):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


class ClaudeCode:
    """A session of Claude Code 2.1.326. `sent` are the requests as its server got them."""

    def __init__(self, *, model="claude-opus-5-5", system="Be terse.", tools=("Bash", "Read")):
        self.model, self.system, self.tools = model, system, list(tools)
        self.messages, self.lines, self.sent = [], [], []
        self.time, self.before, self.known = 0.0, None, {}
        self.add("user", message={"role": "user", "content": "Which page mentions 1882?"}, uuid="u0")
        self.messages.append({"role": "user", "content": "Which page mentions 1882?"})

    def add(self, type, **fields):
        self.time += 1
        common = {"isSidechain": False, "sessionId": "5e55", "cwd": "/work", "timestamp": stamp(self.time)}
        self.lines.append({"type": type, **common, **fields})

    def call(self, tool, arguments, result, *, read=0, written=0, lasts="5m"):
        """A request, its answer with a call, and the result."""
        number = len(self.sent)
        self._request(number)
        call = {"type": "tool_use", "id": f"toolu_{number}", "name": tool, "input": arguments}
        fresh = len(json.dumps(self.sent[-1])) // 4 - read - written
        usage = {
            "input_tokens": fresh,
            "cache_read_input_tokens": read,
            "cache_creation_input_tokens": written,
            "cache_creation": {"ephemeral_5m_input_tokens": written, "ephemeral_1h_input_tokens": 0},
            "output_tokens": 20,
        }
        answer = {"id": f"msg_{number}", "role": "assistant", "model": self.model, "usage": usage}
        for block in ({"type": "thinking", "thinking": "Let me look.", "signature": "s"}, call):
            said, uuid = {**answer, "content": [block]}, f"a{number}-{block['type']}"
            self.add("assistant", message=said, uuid=uuid, requestRef=f"r{number}", promptCacheRequested=lasts)
            self.messages.append({"role": "assistant", "content": [block]})
        self.messages[-2:] = [{"role": "assistant", "content": [*(each["content"][0] for each in self.messages[-2:])]}]
        block = {"type": "tool_result", "tool_use_id": call["id"], "content": result}
        self.add("user", message={"role": "user", "content": [block]}, uuid=f"t{number}", toolUseResult={"stdout": ""})
        self.messages.append({"role": "user", "content": [block]})
        return usage["input_tokens"] + read + written

    def _request(self, number):
        shape = {
            "system": [{"type": "text", "text": self.system}],
            "tools": [{"name": name, "description": f"Run {name}.", "input_schema": {}} for name in self.tools],
        }
        name = f"s{abs(hash_of(shape))}"
        if name not in self.known:
            self.known[name] = shape
            self.lines.append({"type": "api-request-shape", "sessionId": "5e55", "shapeHash": name, "shape": shape})
        base, keep = {}, 0
        if self.before is not None:
            pairs = zip(self.before, self.messages, strict=False)
            keep = next((i for i, (a, b) in enumerate(pairs) if a != b), len(self.before))
            base = {"base": f"r{number - 1}"}
        tail = []
        for at, message in enumerate(self.messages[keep:], keep):
            blob = f"h{abs(hash_of(message))}"
            is_answer = message["role"] == "assistant" and at == len(self.before or ())
            if not is_answer:
                self.lines.append({"type": "api-request-blob", "sessionId": "5e55", "hash": blob, "message": message})
            tail.append(f"answer{number}" if is_answer else blob)
        marks = [{"path": ["system", 0], "value": {"type": "ephemeral"}}]
        params = {"model": self.model, "max_tokens": 1_000}
        request = {"id": f"r{number}", "shapeHash": name, "params": params, "keep": keep, "tail": tail, **base}
        self.lines.append({"type": "api-request", "timestamp": stamp(self.time), "cacheControl": marks, **request})
        marked = {**shape, "system": [{**shape["system"][0], "cache_control": {"type": "ephemeral"}}]}
        self.sent.append(json.loads(json.dumps({**params, **marked, "messages": self.messages})))
        self.before = list(self.messages)

    def compact(self, summary, *, keep=()):
        kept = {"trigger": "auto", "preservedMessages": {"uuids": list(keep)}}
        self.add("system", subtype="compact_boundary", compactMetadata=kept, uuid=f"c{self.time}")
        said = {"role": "user", "content": summary}
        self.add("user", message=said, isCompactSummary=True, uuid=f"s{self.time}")
        self.messages = [said, *(self.messages[1:] if keep else ())]

    def write(self, home):
        return write(home / ".claude" / "projects" / "-work" / "5e55.jsonl", self.lines)


def hash_of(message):
    return hash(json.dumps(message, sort_keys=True))


def codex(home, *, legacy=False, compacted=True):
    """A session of Codex with two calls and a compaction; an older version reports usage in events only."""

    def line(at, kind, /, **payload):
        return {"timestamp": stamp(at), "type": kind, "payload": payload}

    def usage(at, prompt, cached, total):
        counts = {"input_tokens": prompt, "cached_input_tokens": cached, "output_tokens": 20}
        event = line(
            at,
            "event_msg",
            type="token_count",
            info={"total_token_usage": total, "last_token_usage": counts, "model_context_window": 258_400},
        )
        return (
            [event, event] if legacy else [line(at, "token_usage_record", response_id=f"resp{at}", usage=counts), event]
        )

    def said(role, text, kind):
        passthrough = {"content_item_kinds": [kind]}
        content = [{"type": "input_text", "text": text}]
        return {
            "type": "message",
            "role": role,
            "content": content,
            "internal_chat_message_metadata_passthrough": passthrough,
        }

    lines = [
        line(0, "session_meta", id="c0de", session_id="c0de", cwd="/work", base_instructions={"text": "Be terse."}),
        line(0, "turn_context", model="gpt-5-codex"),
        line(1, "response_item", **said("user", "<environment_context/>", "environments.environment_context")),
        line(1, "response_item", **said("user", "Which page mentions 1882?", "user.text"), id="msg_u1"),
        line(1, "event_msg", type="item_completed", item={"type": "UserMessage", "id": "u1", "content": []}),
        line(2, "response_item", type="reasoning", summary=[{"type": "summary_text", "text": "Look."}]),
        line(2, "response_item", type="function_call", name="shell", arguments='{"cmd":"cat a-4417"}', call_id="k1"),
        *usage(2, 2_000, 0, {"input_tokens": 2_000}),
        line(3, "response_item", type="function_call_output", call_id="k1", output=PARA * 20),
        line(4, "response_item", type="function_call", name="shell", arguments='{"cmd":"cat b"}', call_id="k2"),
        *usage(4, 2_400, 1_920, {"input_tokens": 4_400}),
        line(5, "response_item", type="function_call_output", call_id="k2", output="nothing"),
        line(
            6,
            "compacted",
            message="It read a.",
            replacement_history=[
                {**said("user", "Which page mentions 1882?", "user.text"), "id": "msg_u1"},
                said("user", "It read a.", ""),
            ],
        ),
        line(7, "response_item", type="function_call", name="shell", arguments='{"cmd":"cat a-4417"}', call_id="k3"),
        *usage(7, 1_900, 0, {"input_tokens": 6_300}),
        line(8, "surprise"),
    ]
    if not compacted:
        lines = lines[: next(number for number, each in enumerate(lines) if each["type"] == "compacted")]
    return write(home / ".codex" / "sessions" / "2026" / "11" / "19" / "rollout-x-c0de.jsonl", lines)


def gemini_cli(home):
    """A session of Gemini CLI, resumed and compacted. A line with the same id replaces the one before it."""
    call = {"id": "k1", "name": "read_file", "args": {"path": "a"}}
    done = {**call, "result": [{"functionResponse": {"response": {"output": PARA * 20}}}]}
    tokens = {"input": 2_000, "output": 20, "cached": 0, "thoughts": 5}
    answer = {"id": "m2", "timestamp": stamp(2), "type": "gemini", "model": "gemini-2.5-pro", "tokens": tokens}
    first = {"id": "m0", "type": "user", "timestamp": stamp(0), "content": [{"text": SETUP}]}
    asked = {"id": "m1", "timestamp": stamp(1), "type": "user", "content": [{"text": "Which page mentions 1882?"}]}
    summary = {**asked, "id": "m6", "content": [{"text": "<state_snapshot>It read a.</state_snapshot>"}]}
    after = {"lastUpdated": stamp(6)}
    went_on = {**asked, "id": "m8", "content": [{"text": "Go on."}]}
    lines = [
        {"sessionId": "9e31", "projectHash": "p", "startTime": stamp(0)},
        {"$set": {"messages": [first]}},
        asked,
        {**answer, "content": "", "toolCalls": [call]},
        {**answer, "content": "", "toolCalls": [done], "thoughts": [{"description": "Read it."}]},
        {"id": "m3", "timestamp": stamp(3), "type": "user", "content": [{"functionResponse": {}}]},
        {**answer, "id": "m4", "tokens": {**tokens, "input": 2_500, "cached": 2_000}, "content": "Page one."},
        {"$set": {"messages": [first, asked, {**answer, "content": [{"functionCall": call}]}]}},  # resumed
        {"id": "m5", "timestamp": stamp(5), "type": "user", "content": [{"text": "Go on."}]},
        {
            "$set": {
                "messages": [first, summary, {**answer, "id": "m7", "content": [{"text": "Got it."}]}, went_on],
                **after,
            }
        },
        {**answer, "id": "m9", "timestamp": stamp(7), "tokens": {**tokens, "input": 1_400}, "content": "Page two."},
    ]
    return write(home / ".gemini" / "tmp" / "p" / "chats" / "session-x.jsonl", lines)


def qwen_code(home):
    """A session of Qwen Code with a compaction, which keeps the last call."""

    def line(at, kind, id, parts=None, /, **fields):
        message = {} if parts is None else {"message": {"role": "user", "parts": parts}}
        common = {"uuid": id, "sessionId": "93e4", "timestamp": stamp(at), "cwd": "/work", "version": "0.24.4"}
        return {**common, "type": kind, **message, **fields}

    def call(number, tool, **arguments):
        return {"functionCall": {"id": f"k{number}", "name": tool, "args": arguments}}

    def result(number, tool, output):
        return {"functionResponse": {"id": f"k{number}", "name": tool, "response": {"output": output}}}

    def usage(prompt, cached):
        counts = {"promptTokenCount": prompt, "cachedContentTokenCount": cached, "candidatesTokenCount": 20}
        return {"model": "qwen3-coder", "usageMetadata": counts, "contextWindowSize": 262_144}

    thought = {"text": "Let me look.", "thought": True}
    listed = [{"role": "model", "parts": [call(2, "shell", command="ls")]}]
    listed += [{"role": "user", "parts": [result(2, "shell", "a b")]}]
    summary = {"role": "user", "parts": [{"text": "<state_snapshot>It read a.</state_snapshot>"}]}
    compressed = [summary, {"role": "model", "parts": [{"text": "Got it."}]}, *listed]
    lines = [
        line(0, "user", "u1", [{"text": "Which page mentions 1882?"}], provenance="real_user"),
        line(0, "system", "s1", subtype="attribution_snapshot", systemPayload={}),
        line(1, "assistant", "a1", [thought, call(1, "read_file", path="a")], **usage(2_000, 0)),
        line(2, "tool_result", "t1", [result(1, "read_file", PARA * 20)], toolCallResult={"status": "success"}),
        line(2, "user", "n1", [{"text": "A task is done."}], subtype="notification", provenance="system"),
        line(3, "assistant", "a2", [call(2, "shell", command="ls")], **usage(2_500, 2_000)),
        line(4, "tool_result", "t2", [result(2, "shell", "a b")]),
        line(5, "system", "c1", subtype="chat_compression", systemPayload={"compressedHistory": compressed}),
        line(6, "user", "u2", [{"text": "Go on."}], provenance="real_user"),
        line(7, "assistant", "a3", [{"text": "Page one."}, {"hologram": {}}], **usage(1_500, 0)),
    ]
    return write(home / ".qwen" / "projects" / "-work" / "chats" / "93e4.jsonl", lines)


def opencode(home):
    """A session of opencode with a compaction."""
    path = home / ".local" / "share" / "opencode" / "opencode.db"
    path.parent.mkdir(parents=True)
    answer = {"role": "assistant", "modelID": "gpt-4o", "time": {"created": (START + 2) * 1000}}
    tokens = {"input": 80, "output": 20, "reasoning": 0, "cache": {"read": 1_920, "write": 0}}
    tool = {"type": "tool", "tool": "read", "callID": "k1", "state": {"input": {"filePath": "a"}, "output": PARA * 20}}
    messages = [
        ({"role": "user", "time": {"created": START * 1000}}, [{"type": "text", "text": "Which page mentions 1882?"}]),
        ({**answer, "tokens": tokens}, [{"type": "step-start"}, tool, {"type": "step-finish"}]),
        ({"role": "user", "time": {"created": START * 1000}}, [{"type": "compaction", "auto": True}]),
        ({**answer, "tokens": tokens, "summary": True}, [{"type": "text", "text": "It read a."}]),
        ({**answer, "tokens": {**tokens, "cache": {}}}, [{"type": "text", "text": "Page one."}, {"type": "hologram"}]),
    ]
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(
            "CREATE TABLE session (id, parent_id, directory, title, time_updated)",
        )
        db.execute("CREATE TABLE message (id, session_id, data)")
        db.execute("CREATE TABLE part (id, message_id, data)")
        db.execute("INSERT INTO session VALUES ('ses_1', NULL, '/work', 'The report', ?)", (START * 1000,))
        for number, (message, parts) in enumerate(messages):
            db.execute("INSERT INTO message VALUES (?, 'ses_1', ?)", (f"msg_{number}", json.dumps(message)))
            for place, part in enumerate(parts):
                id = f"prt_{number}_{place}"
                db.execute("INSERT INTO part VALUES (?, ?, ?)", (id, f"msg_{number}", json.dumps(part)))
    return path


def hermes(home):
    """A session of Hermes with a compaction: what it kept is written again."""
    path = home / ".hermes" / "state.db"
    (path.parent / "logs").mkdir(parents=True)
    call = [{"id": "k1", "type": "function", "function": {"name": "read_file", "arguments": '{"path":"a"}'}}]
    later = [{"id": "k2", "type": "function", "function": {"name": "terminal", "arguments": '{"command":"ls"}'}}]
    rows = [
        ("user", "Which page mentions 1882?", None, None, None, 0, 1),
        ("assistant", "", json.dumps(call), None, None, 0, 1),
        ("tool", json.dumps({"output": PARA * 20, "exit_code": 0}), None, "k1", "read_file", 0, 1),
        ("assistant", "", json.dumps(later), None, None, 0, 1),
        ("tool", json.dumps({"output": "a b", "exit_code": 0}), None, "k2", "terminal", 0, 1),
        ("user", "Which page mentions 1882?", None, None, None, 1, 0),
        ("assistant", "", json.dumps(later), None, None, 1, 0),
        ("tool", json.dumps({"output": "a b", "exit_code": 0}), None, "k2", "terminal", 1, 0),
        ("assistant", "Page one.", None, None, None, 1, 0),
    ]
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("CREATE TABLE sessions (id, title, cwd, model, system_prompt, started_at, ended_at)")
        db.execute(
            "CREATE TABLE messages (id INTEGER PRIMARY KEY, session_id, role, content, tool_calls, tool_call_id,"
            " tool_name, active, compacted, timestamp, reasoning)"
        )
        db.execute("INSERT INTO sessions VALUES ('h1', NULL, '/work', 'gpt-4o', 'Be terse.', ?, NULL)", (START,))
        for number, (role, content, calls, id, tool, active, compacted) in enumerate(rows):
            at = number if number not in (6, 7) else 5 + number / 1_000_000  # kept messages are written at once
            values = (number + 1, role, content, calls, id, tool, active, compacted, START + at)
            db.execute("INSERT INTO messages VALUES (?, 'h1', ?, ?, ?, ?, ?, ?, ?, ?, NULL)", values)
    prompts = [(2_000, 0), (2_600, 1_920), (1_800, 0)]
    lines = [
        f"2026-11-19 01:13:1{n},174 INFO [h1] agent: API call #{n + 1}: model=gpt-4o provider=custom in={prompt} out=20"
        f" total={prompt + 20} latency=0.3s" + (f" cache={read}/{prompt} (70%)" if read else "")
        for n, (prompt, read) in enumerate(prompts)
    ]
    (path.parent / "logs" / "agent.log").write_text("\n".join(lines) + "\n")
    return path


def all_programs(home):
    """A home folder with a session of each program."""
    claude = ClaudeCode()
    claude.call("Read", {"file_path": "a"}, PARA * 20)
    claude.call("Bash", {"command": "ls"}, "a b")
    claude.write(home)
    for make in (codex, gemini_cli, opencode, hermes, qwen_code):
        make(home)
    return home
