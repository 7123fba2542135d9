"""`brimful install`: real files in a home of our own, and programs that only note how they were called."""

import json
import os
import stat
import sys
import tomllib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
import yaml
from hypothesis import assume, given
from hypothesis import strategies as st

import brimful
from brimful.plugins import install as plans
from brimful.plugins.config_text import JSON, TOML, YAML, Edit, Unreadable, apply, find, revert
from brimful.plugins.install import PROGRAMS, ConfigFile, Options, plan_install

PLUGIN = (Path(brimful.__file__).parent / "plugins" / "brimful.js").read_bytes()
PLAIN_FILES = {
    "hermes": (".hermes/config.yaml", "# mine\nmodel:\n  provider: custom  # a server of my own\n  # base_url: x"),
    "codex": (".codex/config.toml", '# mine\nmodel = "gpt-5-codex"\n\n[mcp_servers.other]\ncommand = "x"'),
    "gemini-cli": (".gemini/settings.json", '{"mcpServers": {"other": {"command": "x"}}}'),
    "qwen-code": (".qwen/settings.json", '{\r\n    "hooks": {"Stop": []}\r\n}\r\n'),
}
"""A file of each program, as its user may have written it."""


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """An empty home, without any of the programs but `brimful` itself."""
    home, commands = tmp_path / "home", tmp_path / "commands"
    home.mkdir()
    commands.mkdir()
    (commands / "brimful").write_text("#!/bin/sh\n")
    (commands / "brimful").chmod(0o755)
    for variable in (program.home.variable for program in PROGRAMS.values()):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.delenv("OPEN_WEBUI_TOKEN", raising=False)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("PATH", str(commands))
    return home


@pytest.fixture
def add_program(tmp_path):
    """Add a program that runs a script in Python; what it was called with is in the file NAME.log in its folder."""

    def add(name, script=""):
        path = tmp_path / "commands" / name
        log = f"import sys, json, os\nopen({str(path) + '.log'!r}, 'a').write(json.dumps(sys.argv[1:]) + '\\n')\n"
        path.write_text(f"#!{sys.executable}\n{log}{script}")
        path.chmod(0o755)
        return lambda: [json.loads(line) for line in Path(f"{path}.log").read_text().splitlines()]

    return add


def tree(folder):
    """Return all files below a folder, with their contents."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode())
    return path


# -- each program ------------------------------------------------------------------------------------------------------


def test_hermes_gets_the_engine_and_the_plugin_beside_what_is_there(home, run):
    path = write(
        home / ".hermes/config.yaml", "plugins:\n  enabled:\n  - other # mine\ncontext:\n  engine: compressor\n"
    )
    run("install", "hermes", "--yes")
    assert yaml.safe_load(path.read_text()) == {
        "plugins": {"enabled": ["brimful", "other"]},
        "context": {"engine": "brimful"},
    }
    assert "# mine" in path.read_text()


def test_codex_gets_hooks_and_the_server(home, run):
    run("install", "codex", "--yes")
    hooks = json.loads((home / ".codex/hooks.json").read_text())["hooks"]
    assert set(hooks) == {"SessionStart", "UserPromptSubmit", "PostToolUse", "SessionEnd"}
    assert hooks["PostToolUse"][0]["hooks"][0]["command"] == "brimful hook --program codex"
    config = tomllib.loads((home / ".codex/config.toml").read_text())
    assert config["mcp_servers"]["brimful"]["command"] == "brimful"


def test_qwen_code_and_gemini_cli_get_the_server_in_their_settings(home, run):
    run("install", "qwen-code", "--yes")
    run("install", "gemini-cli", "--yes")
    qwen, gemini = (json.loads((home / f".{name}/settings.json").read_text()) for name in ("qwen", "gemini"))
    assert qwen["mcpServers"]["brimful"]["command"] == gemini["mcpServers"]["brimful"]["command"] == "brimful"
    assert "--program qwen-code" in json.dumps(qwen["hooks"])
    assert "hooks" not in gemini


def test_opencode_and_pi_get_the_plugin_in_the_folder_that_they_load(home, run):
    assert (
        "set BRIMFUL_URL=http://127.0.0.1:9" in run("install", "opencode", "--yes", "--url=http://127.0.0.1:9").stdout
    )
    run("install", "pi", "--yes")
    assert tree(home) == {".config/opencode/plugin/brimful.js": PLUGIN, ".pi/agent/extensions/brimful.js": PLUGIN}


CLAUDE = """
path = os.path.expanduser("~/.claude/settings.json")
settings = json.load(open(path)) if os.path.exists(path) else {}
marketplaces = settings.setdefault("extraKnownMarketplaces", {})
plugins = settings.setdefault("enabledPlugins", {})
match sys.argv[2:]:
    case ["marketplace", "add", folder, *_]:
        marketplaces["brimful"] = {"source": {"source": "directory", "path": folder}}
    case ["install", name, *_]:
        plugins[name] = True
    case ["uninstall", name, *_]:
        del plugins[name]
    case ["marketplace", "remove", name, *_]:
        del marketplaces[name]
json.dump(dict(reversed(settings.items())), open(path, "w"), indent=2)
"""
"""What Claude Code does with its settings: it writes them in its own order, and leaves empty objects behind."""


@pytest.mark.parametrize("before", [None, '{"model": "opus",\n   "env": {}}'])
@pytest.mark.parametrize("line", [(), ("--status-line",)])
def test_claude_code_installs_the_plugin_and_undo_restores_its_settings(home, run, add_program, before, line):
    calls = add_program("claude", CLAUDE)
    (home / ".claude").mkdir()
    path = home / ".claude/settings.json"
    if before is not None:
        write(path, before)
    run("install", "claude-code", "--yes", *line)
    folder = str(plans.package_folder("claude-code"))
    assert calls() == [
        ["plugin", "marketplace", "add", folder, "--scope", "user"],
        ["plugin", "install", "brimful@brimful", "--scope", "user"],
    ]
    assert ("statusLine" in json.loads(path.read_text())) is bool(line)
    assert "already installed" in run("install", "claude-code", *line).stdout
    run("install", "claude-code", "--undo", "--yes")
    assert calls()[2:] == [
        ["plugin", "uninstall", "brimful@brimful", "--scope", "user"],
        ["plugin", "marketplace", "remove", "brimful", "--scope", "user"],
    ]
    assert tree(home) == ({} if before is None else {".claude/settings.json": before.encode()})


def test_settings_of_claude_code_that_changed_since_keep_their_changes(home, run, add_program):
    add_program("claude", CLAUDE)
    path = write(home / ".claude/settings.json", '{"model": "opus"}')
    run("install", "claude-code", "--yes", "--status-line")
    path.write_text(json.dumps({**json.loads(path.read_text()), "model": "sonnet"}))
    result = run("install", "claude-code", "--undo", "--yes")
    assert "was changed since" in result.stdout
    settings = json.loads(path.read_text())
    assert (settings["model"], settings["enabledPlugins"], "statusLine" in settings) == ("sonnet", {}, False)


def test_a_command_that_fails_is_an_error_with_what_it_said(run, add_program):
    add_program("claude", "print('no such plugin'); sys.exit(3)")
    result = run("install", "claude-code", "--yes", code=1)
    assert "failed with exit code 3: no such plugin" in result.stderr


def test_claude_code_that_is_not_there_is_named(run):
    assert "`claude` is not found" in run("install", "claude-code", "--yes", code=1).stderr


def test_hermes_without_brimful_in_its_environment_is_told_what_to_run(run, add_program, tmp_path):
    add_program("hermes")
    assert "note" not in run("install", "hermes", "--dry-run").stdout  # this environment has Brimful
    python = tmp_path / "python3"
    python.write_text("#!/bin/sh\nexit 1\n")
    python.chmod(0o755)
    (tmp_path / "commands/hermes").write_text(f"#!{python}\n")
    assert f"uv pip install --python {python} brimful" in run("install", "hermes", "--dry-run").stdout


def test_installed_files_come_from_the_package(home, run, monkeypatch):
    monkeypatch.undo()
    monkeypatch.setenv("HOME", str(home))
    for name in ("opencode", "pi", "codex"):
        run("install", name, "--yes")
    package = plans.package_folder(".")
    for path in (".config/opencode/plugin/brimful.js", ".pi/agent/extensions/brimful.js"):
        assert (home / path).read_bytes() == (package / "brimful.js").read_bytes()
        assert plans.OwnFile(path=home / path, content=b"another version").undo()[0] is not None
    assert (package / "claude-code/.claude-plugin/marketplace.json").is_file()
    assert json.loads((home / ".codex/hooks.json").read_text()) == json.loads(
        (package / "codex/hooks.json").read_text()
    )


# -- what holds for all ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(PROGRAMS.keys() - {"claude-code"}))
def test_a_second_run_changes_nothing_and_undo_restores_every_byte(home, run, name):
    if name in PLAIN_FILES:
        write(home / PLAIN_FILES[name][0], PLAIN_FILES[name][1])
    before = tree(home)
    run("install", name, "--yes")
    after = tree(home)
    copies = {key.removesuffix(plans.BACKUP): value for key, value in after.items() if key.endswith(plans.BACKUP)}
    assert before.items() <= (after | copies).items()
    assert after != before
    assert run("install", name).stdout.startswith(f"{name}: already installed")
    assert tree(home) == after
    run("install", name, "--undo", "--yes")
    assert tree(home) == before
    assert run("install", name, "--undo").stdout == f"{name}: not installed\n"


def test_a_dry_run_shows_the_difference_and_changes_nothing(home, run):
    path = write(home / ".hermes/config.yaml", "model: {}\n")
    result = run("install", "hermes", "--dry-run")
    assert f"+++ {path}\n" in result.stdout
    assert "+plugins: {enabled: [brimful]}\n" in result.stdout
    assert "nothing was changed" in result.stdout
    assert tree(home) == {".hermes/config.yaml": b"model: {}\n"}


def test_without_a_terminal_and_without_yes_nothing_is_changed(home, run):
    assert "pass --yes" in run("install", "codex", code=1).stderr
    assert tree(home) == {}


@pytest.mark.parametrize(
    ("name", "file", "text", "reason"),
    [
        ("hermes", ".hermes/config.yaml", "a: 1\nb: [1\nc: 2\n", "line 3: "),
        ("hermes", ".hermes/config.yaml", "a: 1\n\tb: 2\n", "line 2: "),
        ("hermes", ".hermes/config.yaml", "a: \x00", "line 1: "),
        ("hermes", ".hermes/config.yaml", "- a\n", "is not an object"),
        ("hermes", ".hermes/config.yaml", "plugins: [a]\n", "plugins is not an object"),
        ("codex", ".codex/config.toml", 'a = 1\nb = "\n', "line 2: "),
        ("codex", ".codex/config.toml", "mcp_servers = {}\n", "Add these entries by hand: mcp_servers.brimful"),
        ("codex", ".codex/hooks.json", '{\n"hooks": {,}}', "line 2: expected a key"),
        ("codex", ".codex/hooks.json", '{"hooks": {}, "hooks": {}}', "has the key 'hooks' twice"),
        ("codex", ".codex/hooks.json", '{"hooks": {"SessionStart": 1}}', "line 1: hooks.SessionStart is not a list"),
        ("qwen-code", ".qwen/settings.json", '{"a": 1\n "b": 2}', "line 2: expected ',' or '}'"),
        ("qwen-code", ".qwen/settings.json", '{"a": nul}', "line 1: expected a value, not 'nul'"),
        ("qwen-code", ".qwen/settings.json", "[" * 1_000, "containers in each other"),
        ("gemini-cli", ".gemini/settings.json", '{"a": "b', "line 1: expected a value"),
    ],
)
def test_a_file_that_cannot_be_edited_is_an_error_that_names_it_and_nothing_is_touched(
    home, run, name, file, text, reason
):
    write(home / file, text)
    result = run("install", name, "--yes", code=1)
    assert file in result.stderr
    assert reason in result.stderr
    assert tree(home) == {file: text.encode()}


def test_a_file_that_is_not_text_is_an_error(home, run):
    path = home / ".gemini/settings.json"
    path.parent.mkdir()
    path.write_bytes(b'{"a":\n"\xff"}')
    assert "line 2: is not UTF-8 text" in run("install", "gemini-cli", "--yes", code=1).stderr
    assert path.read_bytes() == b'{"a":\n"\xff"}'


def test_if_one_file_cannot_be_read_nothing_is_changed(home, run):
    write(home / ".codex/hooks.json", "{}")
    (home / ".codex/config.toml").mkdir()
    run("install", "codex", "--yes", code=1)
    assert tree(home) == {".codex/hooks.json": b"{}"}


def test_if_a_file_cannot_be_written_the_ones_before_it_are_restored(home):
    plan = plan_install("codex", Options())
    broken = plans.Action(path=home / ".codex/hooks.json/config.toml", before=None, after=b"")
    with pytest.raises(OSError, match="config"):
        plans.install(plans.Plan(program="codex", actions=(plan.actions[0], broken)))
    assert tree(home) == {}


def test_a_file_that_changes_after_the_question_is_not_overwritten(home):
    path = write(home / ".gemini/settings.json", "{}")
    plan = plan_install("gemini-cli", Options())
    path.write_text('{"new": 1}')
    with pytest.raises(plans.InvalidValue, match="changed in the meantime"):
        plans.install(plan)
    assert path.read_text() == '{"new": 1}'


def test_links_stay_links_and_permissions_stay(home, run):
    real = write(home / "dotfiles/settings.json", "{}")
    real.chmod(0o600)
    (home / ".gemini").mkdir()
    (home / ".gemini/settings.json").symlink_to(real)
    run("install", "gemini-cli", "--yes")
    assert (home / ".gemini/settings.json").is_symlink()
    assert stat.S_IMODE(real.stat().st_mode) == 0o600
    assert "brimful" in real.read_text()


def test_the_files_of_a_project_and_folders_that_variables_name(home, run, tmp_path, monkeypatch):
    project = tmp_path / "project"
    project.mkdir()
    run("install", "codex", "--yes", "--project", project)
    assert set(tree(project)) == {".codex/hooks.json", ".codex/config.toml"}
    run("install", "opencode", "--yes", "--project", project)
    assert ".opencode/plugin/brimful.js" in tree(project)
    assert "has no configuration for projects" in run("install", "hermes", "--project", project, code=1).stderr
    monkeypatch.setenv("CODEX_HOME", str(tmp_path / "elsewhere"))
    run("install", "codex", "--yes")
    assert set(tree(tmp_path / "elsewhere")) == {"hooks.json", "config.toml"}
    assert tree(home) == {}


def test_a_changed_file_keeps_its_changes_and_loses_only_our_entries(home, run):
    path = write(home / ".gemini/settings.json", '{\n  "a": 1 // one\n}\n')
    run("install", "gemini-cli", "--yes")
    path.write_text(path.read_text().replace('"a": 1', '"a": 2'))
    result = run("install", "gemini-cli", "--undo", "--yes")
    assert "settings.json was changed since it was installed: only Brimful's entries are removed" in result.stdout
    assert path.read_text() == '{\n  "a": 2 // one\n}\n'
    assert path.with_name("settings.json.before-brimful").read_text() == '{\n  "a": 1 // one\n}\n'


def test_replaced_settings_are_restored_even_if_the_file_was_changed(home, run):
    path = write(home / ".hermes/config.yaml", "context:\n  engine: 'mine'  # old\n")
    run("install", "hermes", "--yes")
    path.write_text(path.read_text() + "new: 1\n")
    run("install", "hermes", "--undo", "--yes")
    assert path.read_text() == "context:\n  engine: 'mine'  # old\nnew: 1\n"


def test_a_server_that_the_user_set_up_is_never_touched(home, run):
    text = '{"mcpServers": {"brimful": {"command": "brimful", "args": ["mcp", "--db", "mine.db"]}}}'
    write(home / ".gemini/settings.json", text)
    assert run("install", "gemini-cli").stdout.startswith("gemini-cli: already installed")
    run("install", "gemini-cli", "--undo", "--yes")
    assert tree(home) == {".gemini/settings.json": text.encode()}


def test_entries_of_another_version_are_removed_too(home, run):
    old = {"hooks": {"PreCompact": [{"hooks": [{"type": "command", "command": "brimful hook --program codex"}]}]}}
    path = write(home / ".codex/hooks.json", json.dumps({"a": 1, **old}))
    run("install", "codex", "--undo", "--yes")
    assert path.read_text() == '{"a": 1}'


def test_another_version_of_the_plugin_is_replaced_and_a_file_of_somebody_else_is_kept(home, run):
    path = write(home / ".pi/agent/extensions/brimful.js", "/**\n * Brimful for opencode and pi\n */\nold;\n")
    run("install", "pi", "--yes")
    assert tree(home) == {".pi/agent/extensions/brimful.js": PLUGIN}
    path.write_text("mine\n")
    assert "is not a file of Brimful and stays" in run("install", "pi", "--undo").stdout
    run("install", "pi", "--yes")
    run("install", "pi", "--undo", "--yes")
    assert tree(home) == {".pi/agent/extensions/brimful.js": b"mine\n"}


def test_json_has_what_was_changed(home, run_json):
    write(home / ".gemini/settings.json", "{}")
    done = run_json("install", "gemini-cli", "--yes")
    assert (done["program"], done["state"]) == ("gemini-cli", "done")
    [changed] = done["files"]
    assert changed["path"] == str(home / ".gemini/settings.json")
    assert changed["backup"] == f"{changed['path']}.before-brimful"
    assert '+    "brimful": {' in changed["diff"]
    assert run_json("install", "gemini-cli")["state"] == "nothing to do"


def test_the_list_says_what_is_found_and_installed(home, run, run_json):
    (home / ".hermes").mkdir()
    write(home / ".gemini/settings.json", "{")
    run("install", "codex", "--yes")
    found = {each["program"]: each for each in run_json("install")}
    assert (found["hermes"]["exists"], found["hermes"]["installed"]) == (True, False)
    assert (found["codex"]["exists"], found["codex"]["installed"]) == (True, True)
    assert (found["pi"]["exists"], found["pi"]["installed"]) == (False, False)
    assert "line 1: expected" in found["gemini-cli"]["problem"]
    table = run("install").stdout
    assert "open-webui" in table
    assert "settings.json: line 1: expected" in table


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["codex", "--url", "http://x"], "Codex needs none"),
        (["pi", "--status-line"], "only Claude Code has a status line"),
        (["pi", "--project", "nowhere"], "nowhere: is not a directory"),
        (["open-webui", "--url", "ftp://x", "--token", "t"], "must begin with http"),
    ],
)
def test_options_that_make_no_sense_are_errors(run, arguments, reason):
    assert reason in run("install", *arguments, code=1).stderr


def test_an_unknown_program_is_wrong_usage(run):
    assert "programs are hermes, claude-code" in run("install", "cursor", code=2).stderr


# -- the law: install and undo give back every byte --------------------------------------------------------------------


SPACES = st.sampled_from(["", " ", "  ", "\n", "\n  ", "\n\t", "\r\n    "])
COMMENTS = st.sampled_from(["", "", " // note\n", "/* x */", '\n// "a": {\n'])
KEYS = st.sampled_from(["a", "hooks", "mcpServers", "SessionStart", "brimful", "plugin", "compaction", "ä\\n", ","])
HOOK = '{"hooks": [{"type": "command", "command": "brimful hook --program codex"}]}'


@st.composite
def json_values(draw, depth=3):
    gap = lambda: draw(SPACES) + draw(COMMENTS)  # noqa: E731
    kind = draw(st.sampled_from(["scalar", "map", "list"] if depth else ["scalar"]))
    if kind == "scalar":
        return draw(st.sampled_from(["1", "null", "true", '"text // no comment"', '"}"', "-2.5e3", HOOK]))
    size = draw(st.integers(0, 3))
    members = [
        f"{gap()}{json.dumps(draw(KEYS))}{gap()}:{gap()}{draw(json_values(depth=depth - 1))}{gap()}"
        if kind == "map"
        else f"{gap()}{draw(json_values(depth=depth - 1))}{gap()}"
        for _ in range(size)
    ]
    comma = draw(st.sampled_from(["", ","])) if members else ""
    text = ",".join(members) + comma + gap()
    return f"{{{text}}}" if kind == "map" else f"[{text}]"


@st.composite
def json_texts(draw):
    values = [f"{draw(SPACES)}{json.dumps(draw(KEYS))}: {draw(json_values())}" for _ in range(draw(st.integers(0, 4)))]
    bom = draw(st.sampled_from(["", "\ufeff"]))
    return bom + draw(SPACES) + "{" + ",".join(values) + draw(SPACES) + draw(COMMENTS) + "}" + draw(SPACES)


@st.composite
def yaml_blocks(draw, indentation=0):
    """Return lines of a mapping: in blocks and in braces, with comments and blank lines between them."""
    unit = draw(st.sampled_from([1, 2, 4]))
    lines = []
    keys = draw(st.lists(st.sampled_from(["context", "plugins", "enabled", "engine", "x", "'q: r'"]), unique=True))
    for key in keys:
        lines += draw(st.sampled_from([[], [""], ["# note"], [f"{' ' * indentation}# its own"]]))
        start = f"{' ' * indentation}{key}:"
        note = draw(st.sampled_from(["", "  # why"]))
        kind = draw(st.sampled_from(["scalar", "flow", "null", "list", "block"] if indentation < 8 else ["scalar"]))
        if kind == "scalar":
            value = draw(st.sampled_from(["1", "brimful", "'x # y'", '"a: b"', "true", "null", "2024-01-01", ".nan"]))
            lines.append(f"{start} {value}{note}")
        elif kind == "flow":
            value = draw(st.sampled_from(["{}", "[]", "{enabled: [a, b]}", "[brimful]", "{engine: x, y: [1]}", "[a,]"]))
            lines.append(f"{start} {value}{note}")
        elif kind == "null":
            lines.append(f"{start}{note}")
        elif kind == "list":
            inner = " " * (indentation + draw(st.sampled_from([0, unit])))
            items = draw(st.lists(st.sampled_from(["a", "brimful", "b: 1", "'c'"]), min_size=1, max_size=3))
            lines += [f"{start}{note}", *(f"{inner}- {item}" for item in items)]
        else:
            below = draw(yaml_blocks(indentation=indentation + unit))
            lines += [f"{start}{note}", *below]
    return lines


@st.composite
def yaml_texts(draw):
    text = draw(st.sampled_from(["\n", "\r\n"])).join(draw(yaml_blocks()))
    return draw(st.sampled_from(["", "---\n", "# head\n"])) + text + draw(st.sampled_from(["", "\n", "\n\n# end"]))


@st.composite
def toml_texts(draw):
    heads = st.sampled_from(["[a]", "[mcp_servers]", "[mcp_servers.other]", "[[list]]", "[ mcp_servers . brimful ]"])
    lines = draw(st.lists(st.sampled_from(["k = 1", "# note", "", 's = """\n[a]\n"""', "nan = nan"]), unique=True))
    for head in draw(st.lists(heads, unique=True)):
        lines += [head, *draw(st.lists(st.sampled_from(["v = 1 # why", "w = [\n1,\n]", "# own", ""]), unique=True))]
    return draw(st.sampled_from(["\n", "\r\n"])).join(lines) + draw(st.sampled_from(["", "\n", "\n\n\n"]))


EDITS = {
    JSON: (
        *PROGRAMS["codex"].changes(Path(), Options())[0].edits,
        Edit(path=("mcpServers", "brimful"), value={"command": "brimful", "args": ["mcp"]}, keep=True),
        Edit(path=("plugin",), value="./brimful.js", item=True),
        Edit(path=("compaction", "auto"), value=False),
    ),
    YAML: PROGRAMS["hermes"].changes(Path(), Options())[0].edits,
    TOML: (Edit(path=("mcp_servers", "brimful"), value={"command": "brimful", "args": ["mcp"]}, keep=True),),
}


TEXTS = st.one_of(
    st.tuples(st.just(JSON), json_texts()),
    st.tuples(st.just(YAML), yaml_texts()),
    st.tuples(st.just(TOML), toml_texts()),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("law")


@given(TEXTS)
def test_install_and_undo_give_back_every_byte(folder, example):
    form, text = example
    path = folder / "config"
    file = ConfigFile(path=path, form=form, edits=EDITS[form])
    path.write_bytes(text.encode())
    try:
        action = file.install()
    except plans.InvalidValue:
        action = None  # it says why, and nothing is written
    if action is not None:
        action.carry_out()
        assert file.install() is None
        undone, note = file.undo()
        assert note == ""
        undone.carry_out()
    assert path.read_bytes() == text.encode()
    assert [each.name for each in folder.iterdir()] == ["config"]


def has_null(data, edits):
    """Whether a file has null where our entries go. They replace it, and nobody knows later that it was there."""
    return any(
        key in parent and parent[key] is None
        for edit in edits
        for depth, key in enumerate(edit.path)
        if isinstance(parent := find(data, edit.path[:depth]), dict)
    )


@given(json_texts())
def test_removing_our_entries_does_not_depend_on_the_version_that_added_them(text):
    text, former = text.removeprefix("\ufeff"), plans.hook_edits("codex", {"PreCompact": None})
    edits = (*EDITS[JSON], *former)
    try:
        assume(not has_null(JSON.parse(text), edits))
        installed = [apply(text, each, JSON) for each in (EDITS[JSON], edits)]
    except Unreadable:
        return
    left = [revert(each, edits, JSON, text) for each in installed]
    assert left[0] == left[1]


@given(TEXTS)
def test_only_our_entries_go_from_a_file_that_was_changed_since(example):
    form, text = example[0], example[1].removeprefix("\ufeff")
    try:
        assume(not has_null(form.parse(text), EDITS[form]))
        installed = apply(text, EDITS[form], form)
        mine = Edit(path=("mine",), value={"x": "y"})
        changed = apply(installed, [mine], form)
        rest = revert(changed, EDITS[form], form, "")
    except Unreadable:
        return
    data = form.parse(rest)
    assert data["mine"] == {"x": "y"}
    assert not any(edit.is_in(data) for edit in EDITS[form] if edit.item)
    assert not any(find(data, edit.path) == edit.value for edit in EDITS[form])
    for comment in ("// note", "/* x */", "# note", "# its own", "# head"):  # a comment on our own line goes with it
        assert rest.count(comment) == changed.count(comment)


# -- the doctor --------------------------------------------------------------------------------------------------------


def test_the_doctor_checks_what_is_installed(run, add_program, monkeypatch):
    add_program("opencode")
    run("install", "opencode", "--yes")
    monkeypatch.setenv("BRIMFUL_URL", "http://127.0.0.1:9")
    (found,) = [each for each in json.loads(run("doctor", "--json", code=1).stdout) if each["part"] == "opencode"]
    assert found["state"] == "failed"
    assert found["advice"].startswith("no server answers at http://127.0.0.1:9: run `brimful serve`")


def test_the_doctor_is_content_with_a_program_that_has_all_it_needs(run, add_program, tmp_path):
    add_program("codex")
    run("install", "codex", "--yes")
    assert "codex" in run("doctor").stdout
    (tmp_path / "commands/brimful").unlink()
    (found,) = [each for each in json.loads(run("doctor", "--json", code=1).stdout) if each["part"] == "codex"]
    assert "starts `brimful`, which is not on the PATH" in found["advice"]


# -- Open WebUI --------------------------------------------------------------------------------------------------------


class AdministratorApi(BaseHTTPRequestHandler):
    """The part of Open WebUI's API that we use, for the functions in `functions`."""

    def do_GET(self):
        is_admin = self.headers["authorization"] == "Bearer secret"
        self.answer({"role": "admin" if is_admin else "user"} if self.path.endswith("/auths/") else self.find())

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if self.path.endswith("/create"):
            self.server.functions[body["id"]] = {**body, "is_active": False, "is_global": False}
        elif self.path.endswith("/update"):
            self.find().update(body)
        else:
            self.find()["is_global" if self.path.endswith("/toggle/global") else "is_active"] ^= True
        self.answer(body)

    def do_DELETE(self):
        self.answer(self.server.functions.pop(self.find()["id"]) is not None)

    def find(self):
        return self.server.functions.get(self.path.split("/")[5])

    def answer(self, body):
        data = json.dumps({"detail": "Not found"} if body is None else body).encode()
        self.send_response(401 if body is None else 200)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *args):
        del args


@pytest.fixture
def open_webui():
    """The URL of a server, and its functions."""
    with ThreadingHTTPServer(("127.0.0.1", 0), AdministratorApi) as server:
        server.functions = {}
        Thread(target=server.serve_forever).start()
        yield f"http://127.0.0.1:{server.server_port}", server.functions
        server.shutdown()


def test_the_filter_is_added_updated_and_removed(run, open_webui):
    url, functions = open_webui
    access = ("--url", url, "--token", "secret")
    run("install", "open-webui", *access, "--yes")
    [found] = functions.values()
    assert found["content"].startswith('"""\ntitle: Brimful\n')
    assert (found["is_active"], found["is_global"]) == (True, True)
    assert "already installed" in run("install", "open-webui", *access).stdout
    found["content"] += "# an older version"
    run("install", "open-webui", *access, "--yes")
    assert "an older version" not in functions["brimful"]["content"]
    run("install", "open-webui", *access, "--undo", "--yes")
    assert functions == {}
    assert "not installed" in run("install", "open-webui", *access, "--undo").stdout


def test_a_function_of_somebody_else_with_our_id_is_not_replaced(run, open_webui):
    url, functions = open_webui
    functions["brimful"] = {"id": "brimful", "content": "class Filter: ..."}
    result = run("install", "open-webui", "--url", url, "--token", "secret", "--yes", code=1)
    assert "has another function" in result.stderr
    assert functions["brimful"]["content"] == "class Filter: ..."


def test_only_an_administrator_can_install_and_a_dead_server_is_named(run, open_webui):
    url, functions = open_webui
    assert "not an administrator's" in run("install", "open-webui", "--url", url, "--token", "x", code=1).stderr
    assert functions == {}
    dead = run("install", "open-webui", "--url", "http://127.0.0.1:9", "--token", "x", code=1)
    assert "http://127.0.0.1:9: no answer" in dead.stderr


def test_without_access_it_says_how_to_import_the_file(run):
    [line] = [each for each in run("install", "open-webui").stdout.splitlines() if "the filter is " in each]
    assert Path(line.rpartition(" ")[2]).read_text().startswith('"""\ntitle: Brimful\n')
    assert os.environ.get("OPEN_WEBUI_TOKEN") is None
