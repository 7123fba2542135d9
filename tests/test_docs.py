"""The docs are true and whole: every example runs, and nothing that a user may name is missing.

Blocks of a page share one namespace and one empty directory, in the order of the page:

    ```pycon      run as a doctest, `...` matches anything, white space is free
    ```python     executed
    ```console    lines after `$` are run if they call brimful or a script in the directory; the output must be as
                  printed: `…` alone on a line stands for any lines, `...` within a line for anything
    <!-- file chat.jsonl -->      before a block: the block is written to that file
    <!-- policy mine.toml -->     before a block: … and must load as a policy
    <!-- models models.toml -->   before a block: … and must load as a file of models
    <!-- part -->                 before a block: a part of a file, shown and not run

The pages of the tutorial share one directory. The servers that they start run until the end, at ports that are free.
"""

import doctest
import os
import re
import shlex
import socket
import subprocess
import sys
import textwrap
from contextlib import ExitStack
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple, get_args, get_type_hints

import msgspec
import pytest
import typer
from typer.testing import CliRunner

import brimful
from brimful import embedding, errors, formats, lore, models, packagers, policies, providers, testing
from brimful.cli import options
from brimful.cli.app import app
from brimful.core.content import KNOWN_KINDS, ContentPackage, Flex, Form, Media, ToolCall, ToolResult
from brimful.core.context import COMPONENTS, Context, Inputs
from brimful.core.decision import Decision, Outcome, Reason
from brimful.core.model import CacheRule, ModelInfo, Prior, WrittenWire
from brimful.core.notice import NOTICE_KINDS
from brimful.core.policy import Method, Policy
from brimful.core.tokens import Basis, Count
from brimful.core.verify import Verification
from brimful.counting import LearnedCalibration
from brimful.counting.chat_template import template_names
from brimful.counting.features import FEATURES
from brimful.counting.media_rules import MEDIA_RULES
from brimful.counting.overheads import get_overheads
from brimful.counting.vocabularies import VOCABULARIES
from brimful.embedding import openai
from brimful.embedding.registry import EmbedderInfo
from brimful.formats import lorebooks
from brimful.lore import reasons
from brimful.models import Spending
from brimful.models.files import ENVIRONMENT_KEY, load_registry
from brimful.packagers.package import OTHER_DEFAULTS, PackageOptions, get_defaults
from brimful.records import Lorebook, LoreEntry, lorebook
from brimful.records.contexts import Build, LogPage, PruneReport
from brimful.records.reply import FinishReason, Reply, ReplyChunk
from brimful.records.statistics import Grouping, MemoryStatistics, ResponseStatistics, Statistics
from brimful.server.access import SCOPES
from brimful.server.config import Config, ModeName, RecordMode
from brimful.stores import KeyUsage, Store
from brimful.stores.encryption import keys as _encryption_keys
from brimful.stores.encryption.keys import SEARCHES
from brimful.views.explain import Difference

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
GENERATED = ("benchmarks.md",)
PUBLISHED = {
    "https://brimful.readthedocs.io/": DOCS,
    "https://github.com/brimful/brimful/blob/main/": ROOT,
    "https://github.com/brimful/brimful/tree/main/": ROOT,
    "https://raw.githubusercontent.com/brimful/brimful/main/": ROOT,
}
"""Where pages and files are published. The README names them so, since PyPI shows it, too."""
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", *sorted(DOCS.rglob("*.md"))]
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
TUTORIAL = DOCS / "tutorial"
SHOWN_ONLY = ("pip ", "make ", "git ", "cd ", "mkdir ", "source ", "python -m venv ", "python tools/sizing.py ")
"""What a console block may show without running it. The last one runs in test_sizing.py."""


# -- reading pages ---------------------------------------------------------------------------------------------------


class Block(NamedTuple):
    """A fenced block: its language, its text, its marker (`policy mine.toml`), and the line of its first line."""

    language: str
    text: str
    marker: str
    line: int


FENCE = re.compile(
    r"(?:^<!-- (?P<marker>[^\n]+?) -->\n+)?^(?P<indent> *)```(?P<language>\w*)\n(?P<text>.*?)^(?P=indent)```$",
    re.DOTALL | re.MULTILINE,
)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
CODE = re.compile(r"`([^`\n]+)`")
ROW = re.compile(r"^\| `([^`]+)` \|(.*)\|$", re.MULTILINE)


def page_id(page: Path) -> str:
    return str(page.relative_to(ROOT))


def blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    return [
        Block(
            found["language"],
            textwrap.dedent(found["text"]),
            found["marker"] or "",
            text.count("\n", 0, found.start("text")) + 1,
        )
        for found in FENCE.finditer(text)
    ]


def prose(page: Path) -> str:
    return FENCE.sub("", page.read_text(encoding="utf-8"))


def section(page: Path, title: str) -> str:
    """Return what stands under a heading, up to the next one of its level."""
    level = title.partition(" ")[0]
    text = prose(page)
    assert f"\n{title}\n" in text, f"{page.name} has no section {title!r}"
    return re.split(rf"^#{{1,{len(level)}}} ", text.split(f"\n{title}\n")[1], maxsplit=1, flags=re.MULTILINE)[0]


def named_in(text: str) -> str:
    """Return all that stands in code spans: what a text names, as opposed to what it says in passing."""
    return "\n".join(CODE.findall(text))


def names(text: str, name: str) -> bool:
    return re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", named_in(text)) is not None


def anchors(page: Path) -> set[str]:
    titles = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}


# -- every example runs ----------------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def an_empty_home(tmp_path, monkeypatch):
    """Stand in an empty directory, with none of the caller's settings, and with our own commands on the path."""
    monkeypatch.chdir(tmp_path)
    for variable in [name for name in os.environ if name.startswith("BRIMFUL_")]:
        monkeypatch.delenv(variable)
    monkeypatch.setenv("PATH", os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"])))
    monkeypatch.setenv("HOME", str(tmp_path))  # where `brimful install` and `brimful doctor` look for programs
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("PYTHONUTF8", "1")


def is_importable(module: str) -> bool:
    try:
        return bool(import_module(module)) if module.startswith("brimful.") else find_spec(module) is not None
    except ImportError:
        return False
    except ValueError:  # a framework that loads its modules lazily
        return True


def imported(page: Path) -> set[str]:
    """Return the modules that the examples of a page import."""
    code = "\n".join(block.text for block in blocks(page) if block.language in ("python", "pycon") and not block.marker)
    return set(re.findall(r"^(?:>>> |\.\.\. )? *(?:from|import) ([\w.]+)", code, re.MULTILINE))


RUNNABLE = [page for page in PAGES if page.name not in GENERATED and all(map(is_importable, imported(page)))]
"""Pages whose examples run here. `tools/integrations.py` runs those on adapters, where their framework is installed."""


def test_only_pages_on_frameworks_wait_for_their_environment():
    waiting = {page.parent.name for page in PAGES if page not in RUNNABLE and page.name not in GENERATED}
    assert waiting <= {"adapters", "migrate"}


@pytest.mark.parametrize("page", [page for page in RUNNABLE if page.parent != TUTORIAL], ids=page_id)
def test_every_example_of_the_page_runs(page):
    run_page(page)


def test_the_tutorial_runs_from_its_first_page_to_its_last():
    index = TUTORIAL / "index.md"
    links = dict.fromkeys(LINK.findall(section(index, "## Pages")))
    pages = [index, *(TUTORIAL / link for link in links)]
    assert sorted(pages) == sorted(TUTORIAL.glob("*.md"))
    with Servers() as servers:
        for page in pages:
            run_page(page, servers)


def run_page(page: Path, servers: "Servers | None" = None) -> None:
    namespace: dict[str, Any] = {"__name__": "__main__", "brimful": brimful}
    for written in blocks(page):
        block = servers.with_free_ports(written) if servers else written
        place = f"{page.name}:{block.line}"
        if block.marker == "part":
            continue
        if block.marker:
            write(block, place)
        elif block.language == "pycon":
            run_pycon(block, namespace, place)
        elif block.language == "python":
            exec(compile("\n" * (block.line - 1) + block.text, str(page), "exec"), namespace)  # noqa: S102 - our own
        elif block.language == "console" and page.name != "CONTRIBUTING.md":
            run_console(block, place, servers)
        elif block.language in ("toml", "jsonl") and page.parent == DOCS:
            pytest.fail(f"{place}: say what it is: <!-- policy … -->, <!-- models … -->, <!-- part -->")


def write(block: Block, place: str) -> None:
    """Write the block to the file that its marker names, and load it as what the marker says it is."""
    what, _, name = block.marker.partition(" ")
    assert what in ("file", "policy", "models"), f"{place}: no such marker: {block.marker!r}"
    file = Path(name or f"{what}.toml")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(block.text, encoding="utf-8")
    if what == "policy":
        assert brimful.load_policy(file).pools, place
    elif what == "models":
        assert load_registry(file), place


def run_pycon(block: Block, namespace: dict[str, Any], place: str) -> None:
    test = doctest.DocTestParser().get_doctest(block.text, namespace, place, place, block.line - 1)
    test.globs = namespace  # shared by the blocks of a page; the parser made a copy
    said: list[str] = []
    failed = doctest.DocTestRunner(optionflags=FLAGS, verbose=False).run(test, out=said.append, clear_globs=False)
    assert not failed.failed, "".join(said)


class Servers(ExitStack):
    """The servers that console blocks started, by port."""

    def __init__(self) -> None:
        super().__init__()
        self._ports: dict[str, int] = {}
        self._running: dict[str, subprocess.Popen[str]] = {}

    def with_free_ports(self, block: Block) -> Block:
        """Replace the ports of local servers by ports that are free here."""
        ports = re.compile(r"(?<=127\.0\.0\.1:)\d+|(?<=--port )\d+")
        text = ports.sub(lambda found: str(self._port(found[0])), block.text)
        return Block(block.language, text, block.marker, block.line)

    def _port(self, port: str) -> int:
        if port not in self._ports:
            with socket.socket() as free:
                free.bind(("127.0.0.1", 0))
                self._ports[port] = free.getsockname()[1]
        return self._ports[port]

    def start(self, command: str, expected: str, place: str) -> None:
        """Start a server, and wait until it has printed what is expected."""
        (port,) = re.findall(r"(?:127\.0\.0\.1:|--port )(\d+)", command)
        if earlier := self._running.pop(port, None):
            stop(earlier)
        server = subprocess.Popen(
            ["bash", "-c", f"exec {command}"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self._running[port] = server
        self.callback(stop, server)
        printed = ""
        while not re.match(pattern(expected), trimmed(printed)):
            line = server.stdout.readline()
            assert line, f"{place}: $ {command}expected:\n{expected}\ngot:\n{printed}"
            printed += line


def stop(server: "subprocess.Popen[str]") -> None:
    with server:
        server.terminate()


def run_console(block: Block, place: str, servers: Servers | None) -> None:
    assert block.text.startswith("$ "), f"{place}: a console block begins with a command"
    for command, expected in re.findall(r"^\$ ((?:.*\\\n)*.*\n)((?:(?!\$ ).*\n)*)", block.text, re.MULTILINE):
        if servers and re.match(r"uvicorn |brimful serve ", command):
            servers.start(command, expected, place)
            continue
        if not re.search(r"(^|\| |^\w+=\S+ )(brimful |python \w+\.py)", command):
            assert command.startswith(SHOWN_ONLY), f"{place}: not run by the tests: {command}"
            continue
        output, code = run_command(command.replace("\\\n", " "), in_shell=servers is not None)
        assert re.fullmatch(pattern(expected), trimmed(output)), (
            f"{place}: $ {command}expected:\n{expected}\ngot:\n{output}"
        )
        assert (code == 0) is ("error:" not in expected), f"{place}: $ {command}exits {code}"


def run_command(command: str, *, in_shell: bool) -> tuple[str, int]:
    """Return the output of a command and its exit code. Outside of the tutorial, a shell runs what needs one."""
    if not in_shell and re.fullmatch(r"brimful [^|<>&;$`*~#]+", command):
        result = CliRunner().invoke(app, shlex.split(command)[1:], prog_name="brimful")
        return result.output, result.exit_code
    done = subprocess.run(
        ["bash", "-c", command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    return done.stdout, done.returncode


def pattern(expected: str) -> str:
    lines = [
        r"(?:.*\n)*?" if line == "…" else re.escape(line).replace(r"\.\.\.", ".*?") + r"\n"
        for line in trimmed(expected).splitlines()
    ]
    return "".join(lines)


def trimmed(text: str) -> str:
    return "".join(f"{line.rstrip()}\n" for line in text.strip("\n").splitlines())


# -- nothing is missing ----------------------------------------------------------------------------------------------


def keys(struct: type[msgspec.Struct], path: str = "") -> list[str]:
    """Return the dotted keys of a file that is read into the struct, those of nested tables and lists included."""
    found = []
    for name, hint in get_type_hints(struct).items():
        nested = [
            kind for kind in (hint, *get_args(hint)) if isinstance(kind, type) and issubclass(kind, msgspec.Struct)
        ]
        found += keys(nested[0], f"{path}{name}.") if nested else [f"{path}{name}"]
    return found


def properties(kind: type) -> list[str]:
    """Return the fields, properties and methods of a struct that its users see."""
    inherited = set(dir(msgspec.Struct))
    return [name for name in dir(kind) if not name.startswith("_") and name not in inherited]


STORE_INTERNALS = (  # what the engine, its indexer and its workers use
    *("add_job", "backlog", "count_undivided", "counts", "divide_documents", "documents", "find_postings"),
    *("list_contents", "memory_scopes", "record_access", "save_counts", "save_vectors", "scope_version"),
    *("participants", "room_contents", "save_room_counts", "search_vectors"),
)
ERRORS = [
    name
    for name, value in vars(errors).items()
    if isinstance(value, type) and issubclass(value, errors.BrimfulError) and not name.startswith("_")
]
FILE_ONLY = ("like", "aliases", "ollama", "extends")  # keys of a model file that are no field of a model
NOT_IN_FILE = ("id", "known", "assumed_window", "relative", "canonical")
MODEL_KEYS = [*keys(ModelInfo), *(f"prior.{key}" for key in keys(Prior)), *(f"cache.{key}" for key in keys(CacheRule))]
MODEL_FILE = [key for key in dict.fromkeys((*MODEL_KEYS, *FILE_ONLY)) if key not in NOT_IN_FILE]
RULE_NAMES = [name for rules in msgspec.structs.astuple(MEDIA_RULES) for name in rules]

EXPECTED = {
    "packages.md": {
        "kind": KNOWN_KINDS,
        "field": properties(ContentPackage),
        "field of Flex": properties(Flex),
        "field of Form": properties(Form),
        "field of Media": properties(Media),
        "field of ToolCall": properties(ToolCall),
        "field of ToolResult": properties(ToolResult),
        "option of package()": list(PackageOptions.__annotations__),
        "packager": packagers.__all__,
    },
    "counting.md": {
        "method": get_args(Method),
        "basis": get_args(Basis),
        "field of Count": properties(Count),
        "method of TokenCounter": properties(brimful.TokenCounter),
        "tokenizer": list(VOCABULARIES),
        "chat template": template_names(),
        "media rule": RULE_NAMES,
        "fake": testing.__all__,
        "feature that is learned from": FEATURES,
        "field of Learned": properties(LearnedCalibration),
        "function that learns": (
            "calibrate",
            "learn_calibration",
            "learned_window",
            "make_usage_report",
            "make_overflow_report",
        ),
    },
    "models.md": {
        "field of ModelInfo": properties(ModelInfo),
        "key of a model file": MODEL_FILE,
        "environment variable": [ENVIRONMENT_KEY],
        "name of brimful.models": models.__all__,
    },
    "policies.md": {
        "key of a policy": keys(Policy),
        "policy": brimful.policy_names(),
        "environment variable": list(policies.ENVIRONMENT_KEYS),
        "persona's override": properties(brimful.Overrides),
        "field of ContextBudget": properties(brimful.ContextBudget),
        "counting method": get_args(Method),
    },
    "fill.md": {
        "order of a pool": ("score", "newest", "relevance"),
        "pool's rule": ("min_items", "max_items"),
    },
    "explanation/prompt-caches.md": {"pool's rule": ("low_water",)},
    "requests.md": {"wire": get_args(WrittenWire)},
    "record.md": {
        "outcome": get_args(Outcome),
        "reason": get_args(Reason),
        "field of Context": properties(Context),
        "field of Inputs": properties(Inputs),
        "field of Decision": properties(Decision),
        "field of Difference": properties(Difference),
        "field of Verification": properties(Verification),
        "component": sorted(set(COMPONENTS.values())),
        "kind of warning": NOTICE_KINDS,
    },
    "stores.md": {"method of Store": [name for name in properties(Store) if name not in STORE_INTERNALS]},
    "log.md": {
        "field of Build": [name for name in properties(Build) if name != "history"],
        "field of LogPage": properties(LogPage),
        "field of PruneReport": properties(PruneReport),
        "field of Statistics": properties(Statistics),
        "field of ResponseStatistics": properties(ResponseStatistics),
        "field of MemoryStatistics": properties(MemoryStatistics),
        "grouping": [f'"{name}"' for name in get_args(Grouping) if name],
        "field of Spending": [name for name in properties(Spending) if name != "naive"],
    },
    "embeddings.md": {
        "form of a name": embedding.FORMS,
        "name of brimful.embedding": embedding.__all__,
        "field of Offer": properties(EmbedderInfo),
        "environment variable": openai.KEYS,
        "fake": ["HashEmbedder"],
    },
    "providers.md": {
        "form of a name": providers.PROVIDER_FORMS,
        "name of brimful.providers": providers.__all__,
        "environment variable": providers.KEY_VARIABLES,
        "wire": get_args(WrittenWire),
        "finish": get_args(FinishReason),
        "field of Reply": properties(Reply),
        "field of Piece": properties(ReplyChunk),
        "field of Limits": properties(providers.Limits),
        "field of Overflow": properties(providers.Overflow),
        "method of Reader": properties(providers.Reader),
        "method of Dialect": properties(providers.Dialect),
        "fake": ["ScriptedProvider"],
    },
    "lorebooks.md": {
        "field of a book": properties(Lorebook),
        "field of an entry": properties(LoreEntry),
        "logic": lorebook.LOGICS,
        "source": lorebook.SOURCES,
        "way in": get_args(reasons.ActivationKind),
        "location of a keyword": get_args(reasons.KeywordLocation),
        "reason to be held back": get_args(reasons.ExclusionKind),
        "decorator": [f"@@{name}" for name in ("activate", "dont_activate", "scan_depth", "additional_keys")],
        "name of brimful.lore": lore.__all__,
        "name of brimful.formats.lorebooks": (*lorebooks.__all__, *lorebooks.LOREBOOK_FORMATS),
    },
    "encryption.md": {
        "environment variable": _encryption_keys.KEY_VARIABLES,
        "kind of search": SEARCHES,
        "field of KeyUsage": properties(KeyUsage),
        "method of Encryption": ("keys", "rotate_kek", "rotate_data_key", "encrypt"),
    },
    "configuration.md": {"key of a configuration": keys(Config), "records": get_args(RecordMode)},
    "access.md": {"scope": SCOPES, "header": ("X-Brimful-Key",)},
    "server.md": {
        "mode": get_args(ModeName),
        "header": ("X-Brimful-Mode", "X-Brimful-Context", "X-Brimful-Conversation", "X-Brimful-User"),
    },
    "store-cli.md": {"environment variable": options.ENVIRONMENT},
    "importing.md": {
        "format": formats.format_names(),
        "entry point": [formats.ENTRY_POINT_GROUP],
        "property of a Source": ["name", "room", "modified", "size", "head", "keys", "lines()", "entries()"],
    },
    "errors.md": {"error": ERRORS},
}


@pytest.mark.parametrize(
    ("page", "what", "wanted"),
    [(page, what, wanted) for page, sorts in EXPECTED.items() for what, wanted in sorts.items()],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_everything_that_a_user_may_name_is_documented(page, what, wanted):
    text = prose(DOCS / page)
    missing = [name for name in wanted if not names(text, name)]
    assert not missing, f"docs/{page} must name, in `code`, each {what}; missing: {', '.join(missing)}"


@pytest.mark.parametrize(
    ("page", "title", "known"),
    [
        ("policies.md", "## Every key", keys(Policy)),
        ("policies.md", "## Environment variables", policies.ENVIRONMENT_KEYS),
        ("packages.md", "## Kinds", KNOWN_KINDS),
        ("record.md", "## Outcomes", get_args(Outcome)),
        ("record.md", "## Reasons", get_args(Reason)),
        ("requests.md", "## Wire formats", get_args(WrittenWire)),
        ("counting.md", "## Methods", get_args(Method)),
        ("counting.md", "## Basis", get_args(Basis)),
        ("counting.md", "## Tokenizers", VOCABULARIES),
        ("counting.md", "## Media rules", RULE_NAMES),
        ("models.md", "## Keys of a model file", MODEL_FILE),
        ("embeddings.md", "## Choose an embedder", embedding.FORMS),
        ("providers.md", "## Choosing one", providers.PROVIDER_FORMS),
        ("providers.md", "### Limits", properties(providers.Limits)),
        ("providers.md", "## Dialects", get_args(WrittenWire)),
    ],
)
def test_tables_hold_each_name_once_and_no_other(page, title, known):
    found = [name for name, _ in ROW.findall(section(DOCS / page, title))]
    extra = [name for name in found if name not in known or found.count(name) > 1]
    missing = [name for name in known if name not in found]
    assert not extra + missing, f"docs/{page}, {title}: rows missing: {missing}; rows too many: {extra}"


def test_the_table_of_kinds_tells_the_defaults():
    rows = dict(ROW.findall(section(DOCS / "packages.md", "## Kinds")))
    for kind in KNOWN_KINDS:
        implied = get_defaults(kind)
        cells = [cell.strip() for cell in rows[kind].split("|")][:3]
        assert cells == [str(implied.priority), str(implied.importance), "yes" if implied.can_drop else "no"], kind
    assert f"priority {OTHER_DEFAULTS.priority}, importance {OTHER_DEFAULTS.importance}" in prose(DOCS / "packages.md")


def test_the_table_of_tokenizers_tells_what_each_is_compared_with():
    rows = dict(ROW.findall(section(DOCS / "counting.md", "## Tokenizers")))
    for name, vocabulary in VOCABULARIES.items():
        assert rows[name].split("|")[0].strip() == (vocabulary.reference or "none"), name


def test_the_overheads_of_families_match_the_docs():
    rows = dict(ROW.findall(section(DOCS / "counting.md", "## Overhead")))
    for family in ("openai", "openai-cl100k", "anthropic", "gemini"):
        costs = get_overheads(family)
        cells = [cell.strip() for cell in rows[family].split("|")][:2]
        assert cells == [str(costs.message), str(costs.request)], family


def test_each_error_has_a_section_and_its_facts():
    titles = re.findall(r"^##+ `(\w+)`$", prose(DOCS / "errors.md"), re.MULTILINE)
    assert sorted(titles) == sorted(ERRORS)


def test_each_public_name_is_in_the_reference_once():
    found = re.findall(
        r"^::: (\S+)$", "".join(page.read_text() for page in (DOCS / "reference").glob("*.md")), re.MULTILINE
    )
    adapters = [file.stem for file in (ROOT / "src" / "brimful" / "adapters").glob("[a-z]*.py")]
    public = [*brimful.__all__, "testing", *(f"adapters.{name}" for name in adapters)]
    assert [name for name in public if found.count(f"brimful.{name}") != 1] == []


COMMANDS = {name: command for name, command in typer.main.get_command(app).commands.items() if not command.hidden}
COMMAND_PAGES = {
    "cli.md": "## Conventions",
    "store-cli.md": "## Common options",
    "server.md": "## Commands",
    "chat.md": "## Common options",
    "janitor.md": "## Common options",
    "lorebooks.md": "## Common options",
    "inspecting.md": "## Common options",
    "workers.md": "## Common options",
    "measuring.md": "## `brimful bench`",
}
"""Pages on commands, and where each tells of the options that its commands share."""


def titles_of(page: str) -> list[str]:
    return re.findall(r"^## `brimful ([\w-]+)`$", prose(DOCS / page), re.MULTILINE)


def with_inner(command: Any) -> list[Any]:
    """Return a command and those of its group."""
    return [command, *(inner for each in getattr(command, "commands", {}).values() for inner in with_inner(each))]


def test_there_is_a_section_for_each_command_and_no_other():
    titles = [title for page in COMMAND_PAGES for title in titles_of(page)]
    assert sorted(titles) == sorted(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_of_a_command_is_in_its_section(name):
    page = next(page for page in COMMAND_PAGES if name in titles_of(page))
    text = section(DOCS / page, f"## `brimful {name}`") + section(DOCS / page, COMMAND_PAGES[page])
    commands = with_inner(COMMANDS[name])
    missing = [wanted for command in commands for wanted in spelled(command) if not names(text, wanted)]
    missing += [command.name for command in commands[1:] if not names(text, command.name)]
    assert not missing, f"docs/{page}, brimful {name}: missing: {', '.join(missing)}"


def test_common_chat_options_apply_to_both_commands():
    result = set(re.findall(r"`(--[a-z]+)`", section(DOCS / "chat.md", COMMAND_PAGES["chat.md"])))
    chat = COMMANDS["chat"]
    assert result >= {"--room", "--model"}
    for command in (chat, chat.commands["send"]):
        assert not result - {option for param in command.params for option in param.opts}


def test_every_common_option_is_documented():
    text = section(DOCS / "cli.md", COMMAND_PAGES["cli.md"])
    assert not [wanted for wanted in spelled(typer.main.get_command(app)) if not names(text, wanted)]


def spelled(command: Any) -> list[str]:
    """Return the options and arguments of a command as a user types them."""
    options = [option for param in command.params for option in (*param.opts, *param.secondary_opts)]
    arguments = [param.metavar.strip("[].") for param in command.params if param.param_type_name == "argument"]
    return [*(option for option in options if option.startswith("-") and option not in ("--help", "-h")), *arguments]


# -- pages hang together ---------------------------------------------------------------------------------------------


def published(url: str) -> Path | None:
    """Return the file behind a URL of ours: a page of the site, or a file of the repository. Others are not checked."""
    for base, folder in PUBLISHED.items():
        if url.startswith(base):
            path = folder / url.removeprefix(base)
            return path.with_suffix(".md") if path.suffix == ".html" else path
    assert "brimful" not in url, f"where does {url} lead?"
    return None


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_links_lead_somewhere(page):
    for link in LINK.findall(prose(page)):
        file, _, anchor = link.partition("#")
        target = published(file) if "://" in link else (page.parent / file).resolve() if file else page
        if target is None:
            continue
        assert target.exists(), f"{page.name}: no file {link}"
        assert not anchor or anchor in anchors(target), f"{page.name}: no heading {link}"


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_pages_know_no_machine_but_the_readers(page):
    found = re.findall(r"(?<![\w.])/(?:home|root|tmp|usr|work|Users)/\S*", page.read_text(encoding="utf-8"))
    assert not found


def test_the_changelog_begins_with_this_version():
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    top = re.search(r"^## \[?v?([\w.]+)", text, re.MULTILINE)
    assert top, "CHANGELOG.md: a version is a heading of the second level"
    assert top[1] in (brimful.__version__, "Unreleased")
