"""The program as a process: pipes, terminals, signals and shell completion."""

import json
import os
import re
import signal
import subprocess
import sys
import time

import pytest

BRIMFUL = (sys.executable, "-m", "brimful")
POSIX = pytest.mark.skipif(os.name != "posix", reason="pipes, terminals and signals of POSIX")


def brimful(*args, **how):
    return subprocess.run([*BRIMFUL, *args], capture_output=True, check=False, timeout=120, **how)


def in_terminal(*args, columns=80, code=0, **environment):
    """Run in a terminal of so many columns, and return what it showed."""
    pty, fcntl, termios = (pytest.importorskip(name) for name in ("pty", "fcntl", "termios"))
    outer, inner = pty.openpty()
    fcntl.ioctl(inner, termios.TIOCSWINSZ, bytes([30, 0, columns, 0, 0, 0, 0, 0]))
    clean = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "FORCE_COLOR", "COLUMNS")}
    env = {**clean, "TERM": "xterm-256color", **environment}
    with subprocess.Popen([*BRIMFUL, *args], stdin=inner, stdout=inner, stderr=inner, env=env) as process:
        os.close(inner)
        shown = b""
        while chunk := _read(outer):
            shown += chunk
    os.close(outer)
    assert process.returncode == code, shown
    return shown.decode()


def _read(descriptor):
    try:
        return os.read(descriptor, 65_536)
    except OSError:  # Linux reports the end of a terminal as an error
        return b""


def test_version():
    result = brimful("--version")
    assert (result.returncode, result.stderr) == (0, b"")
    assert re.fullmatch(rb"brimful \d+\.\d+\.\d+\S*\s+", result.stdout)


def test_piped_output_is_plain_and_uncut():
    shown = brimful("models", env={**os.environ, "COLUMNS": "40"}).stdout.decode()
    assert "\x1b" not in shown
    assert "─" not in shown
    assert "claude-3-5-sonnet" in shown
    assert max(map(len, shown.splitlines())) > 100


@POSIX
def test_a_long_command_shows_a_bar_in_a_terminal_and_none_in_a_pipe(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "[red]chat.jsonl").write_text('{"role": "user", "content": "Hi"}\n', encoding="utf-8")
    shown = in_terminal("import", "[red]chat.jsonl")
    assert "check" in shown
    assert "import" in shown
    assert re.search(r"\d+/\d+ bytes", shown)
    assert "1 message" in shown
    piped = brimful("import", "[red]chat.jsonl")
    assert (piped.returncode, piped.stderr) == (0, b"")
    assert b"bytes" not in piped.stdout


@POSIX
def test_an_export_shows_how_far_it_has_come_where_its_lines_do_not_go(tmp_path, run):
    rows = "".join(f'{{"role": "user", "content": "Number {at}"}}\n' for at in range(250))
    (tmp_path / "chat.jsonl").write_text(rows, encoding="utf-8")
    run("import", "chat.jsonl")
    assert re.search(r"export.*\d+ lines", in_terminal("export", "--out", "all.jsonl"))
    shown = in_terminal("export")
    assert "Number 249" in shown
    assert "lines" not in shown
    assert brimful("export").stderr == b""


def test_an_error_is_one_line_and_no_traceback():
    result = brimful("fill", "nowhere.jsonl", "--model", "gpt-4o")
    assert (result.returncode, result.stdout) == (1, b"")
    assert result.stderr.decode().splitlines() == ["brimful: error: nowhere.jsonl: no such file"]


@POSIX
def test_a_terminal_gets_tables_that_fit():
    shown = in_terminal("models", "--provider", "xai", columns=80)
    plain = re.sub(r"\x1b\[[0-9;]*m", "", shown)
    assert "───" in plain
    assert max(len(line) for line in plain.splitlines()) <= 80
    assert "\x1b[" in shown


@POSIX
def test_no_color():
    shown = in_terminal("models", "--provider", "xai", NO_COLOR="1")
    assert not re.search(r"\x1b\[[0-9;]*3[0-9]", shown)


@POSIX
def test_json_in_a_terminal_is_json_only():
    assert "\x1b" not in in_terminal("budget", "--json")


@POSIX
def test_nothing_to_count_at_a_terminal_is_wrong_usage():
    assert "nothing to count" in in_terminal("count", code=2)


@POSIX
@pytest.mark.parametrize("args", [("count", "hello"), ("models", "--json")])
def test_a_reader_who_leaves_is_no_error(args):
    env = {key: value for key, value in os.environ.items() if key != "PYTHONUNBUFFERED"}
    with subprocess.Popen([*BRIMFUL, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env) as process:
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 141


def _wait_until_read(pipe):
    """Wait until the process at the other end has taken what was written, and so waits for more."""
    fcntl, termios = (pytest.importorskip(name) for name in ("fcntl", "termios"))
    for _ in range(1000):
        if not any(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4))):
            return
        time.sleep(0.02)
    pytest.fail("nothing was read")


@POSIX
def test_ctrl_c_ends_quietly():
    pipe = subprocess.PIPE
    with subprocess.Popen([*BRIMFUL, "count", "-"], stdin=pipe, stdout=pipe, stderr=pipe) as process:
        process.stdin.write(b"some text, and more to come")
        process.stdin.flush()
        _wait_until_read(process.stdin)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=120)
    assert (process.returncode, out, err) == (130, b"", b"")


@POSIX
@pytest.mark.parametrize(
    ("words", "completed"),
    [
        ("brimful pol", "policies"),
        ("brimful fill --policy au", "auction"),
        ("brimful count --model gpt-4o-mi", "gpt-4o-mini"),
    ],
)
def test_a_shell_completes(words, completed):
    request = {"_BRIMFUL_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    assert completed in brimful(env={**os.environ, **request}).stdout.decode().split()


def test_nothing_on_standard_input():
    result = brimful("count", stdin=subprocess.DEVNULL)
    assert (result.returncode, result.stderr) == (1, b"brimful: error: <stdin>: is empty\n")


@POSIX
def test_bytes_that_are_no_text_are_shown_as_such(tmp_path):
    path = os.fsencode(tmp_path) + b"/\xff.txt"
    with open(path, "wb") as file:  # noqa: PTH123 - pathlib has no bytes
        file.write(b"hello")
    counted = json.loads(brimful("count", "--file", path, "--model", b"\xff", "--json").stdout)
    assert counted["model"] == "\N{REPLACEMENT CHARACTER}"
    assert counted["counts"][0]["source"].endswith("/\N{REPLACEMENT CHARACTER}.txt")


@POSIX
@pytest.mark.parametrize(
    ("command", "closed", "code"),
    [
        ("count hello", ">&-", 0),
        ("count hello", "<&- >&- 2>&-", 0),
        ("models --json", ">&-", 0),
        ("models --json", "2>&-", 0),
        ("fill nowhere.jsonl -m x", "2>&-", 1),
        ("fill nowhere.jsonl -m x", ">&- 2>&-", 1),
        ("--version", ">&-", 0),
        ("--version", ">&- 2>&-", 0),
    ],
)
def test_a_closed_stream_is_no_error(command, closed, code):
    shell = f"{sys.executable} -m brimful {command} {closed}"
    result = subprocess.run(["sh", "-c", shell], capture_output=True, check=False, timeout=120)
    assert result.returncode == code
    assert b"Traceback" not in result.stderr


@POSIX
def test_a_record_is_written_where_nobody_reads_the_report(tmp_path):
    (tmp_path / "p.jsonl").write_text('{"role": "user", "content": "hi"}', encoding="utf-8")
    shell = f"{sys.executable} -m brimful fill p.jsonl -m gpt-4o --out c.json >&-"
    result = subprocess.run(["sh", "-c", shell], capture_output=True, check=False, timeout=120, cwd=tmp_path)
    assert (result.returncode, result.stderr) == (0, b"")
    assert json.loads((tmp_path / "c.json").read_bytes())["format"] == "brimful/1"
