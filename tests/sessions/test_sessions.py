"""What session files tell: windows by category, causes of misses, losses of compactions, and rooms without secrets."""

import json
import sqlite3
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brimful.errors import InvalidValue, UnknownRecord
from brimful.secrets import mask
from brimful.sessions import claude_code, lost
from brimful.sessions import gemini_cli as gemini
from brimful.sessions.cache import find_misses
from brimful.sessions.events import Call, Compaction, Piece, Unknown
from brimful.sessions.files import find_session, find_sessions
from brimful.sessions.lost import find_losses
from brimful.sessions.records import SessionRecords
from brimful.sessions.window import Window, find_counter, read_windows
from sessions.session_files import PARA, START, ClaudeCode, all_programs, codex, gemini_cli, hermes, opencode, qwen_code

PROGRAMS = ["claude-code", "codex", "gemini-cli", "hermes", "opencode", "qwen-code"]


def read_messages(session, start=0, **options):
    return [message for batch, _ in SessionRecords(session, **options).read(start) for message in batch]


@pytest.fixture
def home(tmp_path):
    return all_programs(tmp_path)


def test_the_sessions_of_all_programs_are_found_the_newest_first(home):
    found = find_sessions(home, {})
    assert sorted(each.program for each in found) == PROGRAMS
    assert [each.modified for each in found] == sorted((each.modified for each in found), reverse=True)
    assert {each.title for each in found} == {"Which page mentions 1882?", "The report"}
    assert {each.folder for each in found if each.program != "gemini-cli"} == {"/work"}
    assert [each.program for each in find_sessions(home, {}, "codex")] == ["codex"]
    assert find_sessions(home / "elsewhere", {}) == []
    with pytest.raises(InvalidValue, match="must be one of claude-code"):
        find_sessions(home, {}, "vi")


def test_programs_may_keep_their_sessions_elsewhere(tmp_path, home):
    folders = {
        "CLAUDE_CONFIG_DIR": ".claude", "CODEX_HOME": ".codex", "HERMES_HOME": ".hermes", "QWEN_HOME": ".qwen",
    }  # fmt: skip
    environ = {name: str(home / folder) for name, folder in folders.items()} | {
        "XDG_DATA_HOME": str(home / ".local/share")
    }
    found = find_sessions(tmp_path / "empty", environ)
    assert sorted(each.program for each in found) == [each for each in PROGRAMS if each != "gemini-cli"]


def test_a_session_has_several_names(home):
    path = home / ".claude" / "projects" / "-work" / "5e55.jsonl"
    for name in ("5e55", str(path)):
        assert find_session(name, home, {}).program == "claude-code"
    assert find_session("ses_", home, {}).id == "ses_1"
    assert find_session("last", home, {}).id == find_sessions(home, {})[0].id
    assert find_session(str(codex(home)), home, {}).program == "codex"
    assert find_session(str(gemini_cli(home)), home, {}).program == "gemini-cli"
    assert find_session(str(qwen_code(home)), home, {}).program == "qwen-code"
    for name in ("nobody", "se"):
        with pytest.raises(UnknownRecord):
            find_session(name, home, {})
    (home / "notes.jsonl").write_text('{"a": 1}\n')
    with pytest.raises(InvalidValue, match="is not a session of"):
        find_session(str(home / "notes.jsonl"), home, {})


@pytest.mark.parametrize(
    ("program", "prompts", "read"),
    [
        ("codex", [2_000, 2_400, 1_900], 1_920),
        ("gemini-cli", [2_000, 2_500, 1_400], 2_000),
        ("hermes", [2_000, 2_600, 1_800], 1_920),
        ("opencode", [2_000, 2_000, 80], 3_840),
        ("qwen-code", [2_000, 2_500, 1_500], 2_000),
    ],
)
def test_usage_is_the_programs_own(home, program, prompts, read):
    [session] = find_sessions(home, {}, program)
    turns = list(read_windows(session.events()))
    assert [turn.call.prompt for turn in turns] == prompts
    assert sum(turn.call.read for turn in turns) == read
    for turn in turns:
        assert sum(turn.tokens.values()) + turn.unseen == pytest.approx(turn.call.prompt, abs=4)


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_file_that_was_read_fills_the_window_until_a_compaction(home, program):
    [session] = find_sessions(home, {}, program)
    category = "results" if program == "codex" else "files"  # a shell reads files, too
    turns = list(read_windows(session.events()))
    first = next(i for i, turn in enumerate(turns) if turn.tokens[category])
    assert turns[first].tokens[category] > 300
    assert turns[first].tokens["user"] > 5
    assert turns[first].tokens["assistant"] > 5
    compacted = [turn for turn in turns if turn.compacted]
    assert bool(compacted) == (program != "claude-code")
    assert all(turn.tokens[category] < 50 for turn in compacted)
    assert all(turn.tokens["summary"] for turn in compacted if program != "hermes" and turn is turns[-1])


def test_messages_kept_by_a_compaction_stay_in_the_window(tmp_path):
    session = ClaudeCode()
    session.call("Read", {"file_path": "a"}, PARA * 20)
    session.call("Read", {"file_path": "b"}, '{"order": "W-2201-7734"}')
    session.compact("It read two files.", keep=["t0", "t1"])
    session.call("Bash", {"command": "refund W-2201-7734"}, "done")
    path = session.write(tmp_path)
    *_, before, after = read_windows(claude_code.read(path))
    assert after.compacted
    assert after.tokens["files"] > before.tokens["files"] > 300
    [loss] = find_losses(claude_code.read(path))
    assert loss.again == ()


def test_messages_that_hermes_rewrites_at_a_compaction_are_no_new_request(tmp_path):
    hermes(tmp_path)
    [session] = find_sessions(tmp_path, {})
    events = list(session.events())
    last = max(n for n, event in enumerate(events) if isinstance(event, Call))
    assert [event.text for event in events[last + 1 :]] == ["Page one."]


def test_messages_written_in_the_users_name_by_programs_are_not_the_users(tmp_path):
    session = ClaudeCode()
    for text in ("<command-name>/compact</command-name>", "<task-notification>done</task-notification>", "And page 9?"):
        session.add("user", message={"role": "user", "content": text}, uuid=f"x{text[:5]}")
    pieces = [event for event in claude_code.read(session.write(tmp_path)) if isinstance(event, Piece)]
    assert [piece.category for piece in pieces] == ["user", "system", "system", "user"]
    assert read_messages(find_sessions(tmp_path, {})[0])[-1].text == "And page 9?"


def test_an_older_codex_reports_usage_in_events_that_come_twice(tmp_path):
    codex(tmp_path, legacy=True)
    [session] = find_sessions(tmp_path, {})
    assert [turn.call.prompt for turn in read_windows(session.events())] == [2_000, 2_400, 1_900]


def test_unknown_lines_are_counted(home):
    unknown = {}
    for session in find_sessions(home, {}):
        window = Window()
        list(window.read(session.events()))
        unknown |= window.unknown
    assert unknown == {"a line of type 'surprise'": 1, "a part of type 'hologram'": 1, "a part of an unknown type": 1}


@pytest.mark.parametrize("program", ["claude-code", "codex", "gemini-cli", "qwen-code"])
@given(damage=st.binary(max_size=40), at=st.floats(0, 1))
def test_damage_is_skipped_and_never_an_error(tmp_path_factory, program, damage, at):
    home = all_programs(tmp_path_factory.mktemp("home"))
    [session] = find_sessions(home, {}, program)
    content = session.path.read_bytes()
    cut = int(len(content) * at)
    session.path.write_bytes(content[:cut] + damage + content[cut:])
    list(session.events())


@pytest.mark.parametrize("value", [None, 7, [], {}, "text", [None], [[]], {"type": []}])
@pytest.mark.parametrize("program", ["claude-code", "codex", "gemini-cli", "qwen-code"])
def test_fields_may_have_any_type(home, program, value):
    [session] = find_sessions(home, {}, program)
    lines = [json.loads(line) for line in session.path.read_text().splitlines()]
    for line in lines:
        for field in list(line):
            changed = [{**line, field: value}, *lines]
            session.path.write_text("".join(json.dumps(each) + "\n" for each in changed))
            list(session.events())
            for inner in list(line[field]) if isinstance(line[field], dict) else ():
                session.path.write_text(json.dumps({**line, field: {**line[field], inner: value}}) + "\n")
                list(session.events())


def test_a_line_that_is_being_written_is_left_for_the_next_time(home):
    [session] = find_sessions(home, {}, "claude-code")
    whole = list(session.events())
    with session.path.open("a") as file:
        file.write('{"type": "user"')
    assert list(session.events()) == whole


def test_another_version_of_a_database_is_no_error(home):
    for path in (home / ".hermes" / "state.db", home / ".local" / "share" / "opencode" / "opencode.db"):
        path.write_bytes(b"something else")
    assert sorted(each.program for each in find_sessions(home, {})) == [
        *("claude-code", "codex", "gemini-cli", "qwen-code")
    ]


# -- requests of Claude Code -----------------------------------------------------------------------------------------


def test_the_requests_in_a_file_of_claude_code_are_those_that_were_sent(tmp_path):
    session = ClaudeCode()
    session.call("Read", {"file_path": "a"}, PARA * 20)
    session.call("Bash", {"command": "ls"}, "a b")
    session.tools.append("Grep")
    session.call("Grep", {"pattern": "1882"}, "a:1")
    session.compact("It read a.")
    session.call("Bash", {"command": "ls"}, "a b")
    rebuilt = [request for _, request in claude_code.rebuild_requests(session.write(tmp_path))]
    assert rebuilt == session.sent


# -- misses ----------------------------------------------------------------------------------------------------------


def long_session(change, *, wait=0.0, lasts="5m"):
    """A session whose fourth request reads nothing from the cache, after a change."""
    session = ClaudeCode(system="Be terse. " * 600)
    prompt = session.call("Read", {"file_path": "a"}, PARA * 20, written=2_000, lasts=lasts)
    for name in ("b", "c"):
        prompt = session.call("Read", {"file_path": name}, PARA * 20, read=prompt, written=500, lasts=lasts)
    session.time += wait
    change(session)
    session.call("Read", {"file_path": "d"}, PARA * 20, written=4_000, lasts=lasts)
    return session


def nothing(_):
    pass


def rewrite(session):
    session.messages[2] = {**session.messages[2], "content": [{**session.messages[2]["content"][0], "content": "gone"}]}


@pytest.mark.parametrize(
    ("change", "options", "cause"),
    [
        (lambda session: session.tools.append("Grep"), {}, "tools_changed"),
        (lambda session: setattr(session, "system", "Be kind. " * 700), {}, "system_prompt_changed"),
        (lambda session: setattr(session, "model", "claude-sonnet-4-5"), {}, "model_changed"),
        (rewrite, {}, "messages_rewritten"),
        (lambda session: session.compact("It read a. " * 300), {}, "compaction"),
        (nothing, {"wait": 301}, "ttl_expired_5m"),
        (nothing, {"wait": 3_601, "lasts": "1h"}, "ttl_expired_1h"),
        (nothing, {"wait": 301, "lasts": "1h"}, "likely_server_side"),
        (nothing, {}, "likely_server_side"),
    ],
)
def test_each_cause_of_a_miss_is_named(tmp_path, change, options, cause):
    path = long_session(change, **options).write(tmp_path)
    [miss] = find_misses(claude_code.read(path))
    assert (miss.turn, miss.cause) == (4, cause)
    assert miss.tokens > 1_024
    assert miss.cost > 0
    assert miss.advice
    assert miss.message == (2 if cause == "messages_rewritten" else None)


def test_without_a_cache_there_is_nothing_to_miss():
    calls = [Call(id=str(n), model="gpt-4o", uncached=5_000, at=float(n)) for n in range(9)]
    assert list(find_misses(calls)) == []


def test_a_file_that_says_nothing_has_unknown_causes(home):
    [session] = find_sessions(home, {}, "codex")
    assert [(miss.turn, miss.cause) for miss in find_misses(session.events(), prices=False)] == [(3, "compaction")]
    calls = [Call(id="1", model="m", read=3_000, uncached=10), Call(id="2", model="m", uncached=3_010)]
    assert [miss.cause for miss in find_misses(calls, prices=False)] == ["unknown"]


def test_an_agent_of_opencode_has_tools_of_its_own(tmp_path):
    path = opencode(tmp_path)
    with closing(sqlite3.connect(path)) as db, db:
        for number, (agent, cached) in enumerate([("build", 1_920), ("build", 1_920), ("plan", 0)]):
            tokens = {"input": 2_000 - cached, "output": 20, "cache": {"read": cached}}
            time = {"created": (START + number) * 1000}
            said = {"role": "assistant", "modelID": "gpt-4o", "agent": agent, "tokens": tokens, "time": time}
            db.execute("INSERT INTO message VALUES (?, 'ses_1', ?)", (f"msg_a{number}", json.dumps(said)))
    [session] = find_sessions(tmp_path, {})
    assert [miss.cause for miss in find_misses(session.events(), prices=False)][-1] == "tools_changed"


def test_gemini_cli_rewrites_messages_when_a_session_is_resumed(tmp_path):
    path = gemini_cli(tmp_path)
    [compacted] = find_misses(gemini.read(path), prices=False)
    assert (compacted.turn, compacted.cause) == (3, "compaction")
    lines = [line for line in path.read_text().splitlines() if "state_snapshot" not in line]
    path.write_text("\n".join(lines) + "\n")
    [resumed] = find_misses(gemini.read(path), prices=False)
    assert (resumed.turn, resumed.cause, resumed.message) == (3, "messages_rewritten", None)


def test_a_shorter_prompt_that_comes_from_the_cache_is_no_miss():
    calls = [Call(id="1", model="m", read=9_000, uncached=9_000), Call(id="2", model="m", read=9_000, uncached=100)]
    assert list(find_misses(calls, prices=False)) == []


# -- losses ----------------------------------------------------------------------------------------------------------


def test_calls_and_values_that_a_compaction_dropped_and_that_are_used_again_are_losses(tmp_path):
    session = ClaudeCode()
    session.call("Read", {"file_path": "orders.json"}, '{"order": "W-2201-7734", "state": "broken"}')
    session.call("Bash", {"command": "ls"}, "orders.json")
    session.compact("It read the orders.")
    session.call("Bash", {"command": "refund W-2201-7734"}, "done")
    session.call("Read", {"file_path": "orders.json"}, '{"order": "W-2201-7734", "state": "broken"}')
    [loss] = find_losses(claude_code.read(session.write(tmp_path)))
    assert [(each.is_call, each.text) for each in loss.again] == [
        (False, "W-2201-7734"),
        (True, 'Read {"file_path":"orders.json"}'),
    ]
    counter = find_counter("claude-opus-5-5")
    handle = f"p{loss.again[0].place}"
    assert "broken" in lost.recall(claude_code.read(session.write(tmp_path)), handle, "", 500, counter).text


def test_texts_in_a_summary_are_not_lost(tmp_path):
    session = ClaudeCode()
    session.call("Read", {"file_path": "orders.json"}, '{"order": "W-2201-7734"}')
    session.compact("The broken order is W-2201-7734.")
    session.call("Bash", {"command": "refund W-2201-7734"}, "done")
    [loss] = find_losses(claude_code.read(session.write(tmp_path)))
    assert loss.again == ()
    assert loss.dropped > 2


def test_pieces_are_recalled_by_words_within_a_budget(home):
    counter = find_counter("gpt-4o")
    for session in find_sessions(home, {}):
        found = lost.recall(session.events(), "", "Who was the keeper of the lighthouse?", 120, counter)
        assert "Mia Reis" in found.text
        assert counter.text(found.text).tokens <= 120
        with pytest.raises(UnknownRecord):
            lost.recall(session.events(), "p999", "", 120, counter)


# -- rooms -----------------------------------------------------------------------------------------------------------


SAID = {
    "codex": ["Which page mentions 1882?"],
    "gemini-cli": ["Which page mentions 1882?", "Page one.", "Go on.", "Page two."],
    "hermes": ["Which page mentions 1882?", "Page one."],
    "qwen-code": ["Which page mentions 1882?", "Go on.", "Page one."],
}


@pytest.mark.parametrize("program", SAID)
def test_kept_messages_and_texts_of_programs_are_no_repetitions(home, program):
    [session] = find_sessions(home, {}, program)
    assert [message.text for message in read_messages(session, texts_only=True)] == SAID[program]
    everything = [message.text for message in read_messages(session)]
    assert [text for text in everything if text in SAID[program]] == SAID[program]


def test_a_message_of_codex_has_the_id_of_its_event(home):
    [session] = find_sessions(home, {}, "codex")
    assert [message.id for message in read_messages(session, texts_only=True)] == ["codex/c0de/u1"]


@pytest.mark.parametrize("program", PROGRAMS)
def test_an_import_goes_on_where_it_was_stopped(home, program):
    [session] = find_sessions(home, {}, program)
    batches = list(SessionRecords(session, batch=1).read())
    assert len(batches) >= 4
    whole = read_messages(session)
    for number, (_, position) in enumerate(batches, 1):
        done = [message for batch, _ in batches[:number] for message in batch]
        again = read_messages(session, position)
        known = {message.id for message in done}
        new = [message for message in again if message.id not in known]
        assert [message.id for message in [*done, *new]] == [message.id for message in whole]
    assert read_messages(session, session.size + 1) == whole  # another file in its place


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_session_is_a_room_with_what_was_said(home, program):
    [session] = find_sessions(home, {}, program)
    records = SessionRecords(session)
    messages = read_messages(session)
    assert len({message.id for message in messages}) == len(messages)
    assert "Which page mentions 1882?" in [message.text for message in messages if message.role == "user"]
    calls = [
        part.id for message in messages if message.role == "assistant" for part in message.content if message.text == ""
    ]
    results = [message.content[0].id for message in messages if message.role == "tool"]
    assert results
    assert set(results) <= set(calls)
    [(_, position)] = records.read()
    room = records.make_room(position)
    assert (room.id.startswith(program), room.metadata["position"]) == (True, session.size)
    assert read_messages(session) == messages


SECRETS = {
    "aws-key": "AKIAIOSFODNN7EXAMPLE",
    "github-token": "ghp_" + "a1B2" * 9,
    "api-key": "sk-proj-" + "Ab3_" * 10,
    "google-key": "AIza" + "Sy0-_" * 7,
    "slack-token": "xoxb-1234567890-abcdefghij",
    "jwt": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N",
    "private-key": "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\n-----END RSA PRIVATE KEY-----",
}


@pytest.mark.parametrize("kind", SECRETS)
@given(before=st.text("abc .,\n", max_size=20), after=st.text("abc .,\n", max_size=20))
def test_secrets_are_masked_wherever_they_stand(kind, before, after):
    text, found = mask(f"{before} {SECRETS[kind]} {after}")
    assert SECRETS[kind] not in text
    assert found == {kind: 1}
    assert mask(text) == (text, {})


@pytest.mark.parametrize(
    "text",
    [
        "password=hunter22", "DB_PASSWORD=hunter22", '{"api_key": "hunter22"}', "Bearer hunter22hunter22hunter22",
        "https://ada:hunter22@example.com",
    ],
)  # fmt: skip
def test_passwords_are_masked_by_what_stands_before_them(text):
    masked, found = mask(text)
    assert "hunter22" not in masked
    assert sum(found.values()) == 1


@pytest.mark.parametrize(
    "text", ["the password is secret", "skip-this-test", "task-0123", "sk-learn", "token = 5", PARA]
)
def test_ordinary_text_is_not_masked(text):
    assert mask(text) == (text, {})


def test_events_are_in_order_of_time(home):
    for session in find_sessions(home, {}):
        times = [
            event.at for event in session.events() if isinstance(event, Piece | Call | Compaction) and event.at >= START
        ]
        if session.program != "hermes":  # its log has the time of the program's clock
            assert times == sorted(times)
        assert not any(isinstance(event, Unknown) and "no JSON" in event.reason for event in session.events())


def test_opencode_and_hermes_are_found_alone(tmp_path):
    opencode(tmp_path)
    hermes(tmp_path)
    assert sorted(each.program for each in find_sessions(tmp_path, {})) == ["hermes", "opencode"]
