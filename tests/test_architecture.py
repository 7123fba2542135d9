"""Rules that the code follows everywhere."""

import ast
import io
import os
import re
import subprocess
import sys
import tokenize
import tomllib
from functools import cache
from pathlib import Path
from typing import get_args

import pytest

import brimful
from brimful import errors
from brimful.core.model import WrittenWire
from brimful.wires.registry import IncomingWire

SOURCE = Path(brimful.__file__).parent
TESTS = Path(__file__).parent
ERRORS = [
    name
    for name, value in vars(errors).items()
    if isinstance(value, type) and issubclass(value, errors.BrimfulError) and not name.startswith("_")
]
MAX_PUBLIC_NAMES = 40
PURE_PACKAGES = ("core", "lore", "packagers", "shorten", "views", "wires")
CLOCKS = {
    "now",
    "today",
    "utcnow",
    "time",
    "time_ns",
    "monotonic",
    "perf_counter",
    "getenv",
    "open",
    "print",
}
RULES = []


def rule(function):
    """Add a function that returns what breaks a rule, from a module's path in the package, its tree and all nodes."""
    RULES.append(function)
    return function


@cache
def breaches():
    """Return what breaks each rule, by module. To parse a module takes longer than to look at it."""
    found = {each: {} for each in RULES}
    for file in sorted(SOURCE.rglob("*.py")):
        path, tree = file.relative_to(SOURCE), ast.parse(file.read_text(encoding="utf-8"))
        nodes = list(ast.walk(tree))
        for each in RULES:
            if broken := list(each(path, tree, nodes)):
                found[each][str(path)] = broken
    return found


def test_every_pinned_version_has_hashes():
    pins = re.split(r"\n(?=\S)", (SOURCE.parents[1] / "constraints.txt").read_text())
    versions = [pin for pin in pins if not pin.startswith("#")]
    assert len(versions) > 100
    assert [
        pin for pin in versions if not re.fullmatch(r"[\w.-]+==\S+(?: \\\n    --hash=sha256:[0-9a-f]{64})+\n?", pin)
    ] == []


@rule
def calls_of_clocks(path, _tree, nodes):
    calls = [node.func for node in nodes if isinstance(node, ast.Call)]
    names = {call.attr if isinstance(call, ast.Attribute) else getattr(call, "id", "") for call in calls}
    return names & CLOCKS if path.parts[0] in PURE_PACKAGES else ()


def test_pure_packages_read_no_clock_environment_or_file():
    assert breaches()[calls_of_clocks] == {}


POSIX_MODULES = {"fcntl", "grp", "pwd", "resource", "syslog", "termios", "tty"}
WINDOWS_SIGNALS = {"SIGABRT", "SIGBREAK", "SIGFPE", "SIGILL", "SIGINT", "SIGSEGV", "SIGTERM"}
POSITION_OF_ENCODING = {"read_text": 0, "write_text": 1, "open": 2, "fdopen": 3}
"""Of methods of paths; ruff refuses the function `open`."""


@rule
def only_on_posix(_path, _tree, nodes):
    """Yield what fails in Windows: modules and signals that it has not, and texts in the encoding of its system."""
    tried = {id(inner) for node in nodes if isinstance(node, ast.Try) for each in node.body for inner in ast.walk(each)}
    for node in nodes:
        match node:
            case ast.Import(names=[ast.alias(name=name), *_]) | ast.ImportFrom(module=name) if id(node) not in tried:
                if name in POSIX_MODULES:
                    yield ast.unparse(node)
            case ast.Attribute(value=ast.Name(id="signal"), attr=name) if name.startswith("SIG") and name[3] != "_":
                if name not in WINDOWS_SIGNALS:
                    yield ast.unparse(node)
            case ast.Call(func=ast.Attribute(value=ast.Name(id="os"), attr="kill"), args=[_, ast.Constant()]):
                yield ast.unparse(node)  # there, 0 ends the process, too
            case ast.Call(func=ast.Attribute(attr=name)) if name in POSITION_OF_ENCODING:
                if not says_its_encoding(node, name):
                    yield ast.unparse(node)


def says_its_encoding(call, name):
    """Tell whether a call that reads or writes a file names an encoding, is binary, or is of something else."""
    if len(call.args) > POSITION_OF_ENCODING[name] or any(each.arg == "encoding" for each in call.keywords):
        return True
    if name in ("read_text", "write_text"):
        return False
    modes = [each.value for each in call.args if isinstance(each, ast.Constant) and isinstance(each.value, str)]
    return any("b" in mode for mode in modes) or (name == "open" and not modes)


def test_nothing_works_only_on_posix():
    assert breaches()[only_on_posix] == {}


def test_the_tests_that_run_in_windows_can_be_imported_there():
    workflow = (TESTS.parent / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    folders = re.findall(r"tests/(\w+)", workflow)
    assert {"cli", "core"} <= set(folders)
    files = [*TESTS.glob("*.py"), *(file for folder in folders for file in (TESTS / folder).rglob("*.py"))]
    bodies = {file: ast.parse(file.read_text(encoding="utf-8")).body for file in files}
    assert [str(file) for file, body in bodies.items() if POSIX_MODULES & set(imported_packages(body))] == []


@pytest.mark.parametrize(
    "code",
    [
        "import fcntl",
        "if True:\n    from resource import getrlimit",
        "os.kill(1, signal.SIGKILL)",
        "os.kill(1, 0)",
        "path.read_text()",
        "path.write_text(text)",
        'path.open("w")',
        "os.fdopen(3)",
    ],
)
def test_the_rule_finds_what_works_only_on_posix(code):
    assert list(only_on_posix(None, None, list(ast.walk(ast.parse(code)))))


@pytest.mark.parametrize(
    "code",
    [
        "try:\n    import resource\nexcept ImportError:\n    pass",
        "os.kill(1, signal.SIGTERM)",
        'path.read_text("utf-8")',
        'path.write_text(text, encoding="utf-8")',
        'path.open("rb")',
        "database.open()",
        'os.fdopen(3, "wb")',
    ],
)
def test_the_rule_accepts_what_works_in_windows(code):
    assert not list(only_on_posix(None, None, list(ast.walk(ast.parse(code)))))


BRANCHES = (ast.If, ast.IfExp, ast.For, ast.While, ast.ExceptHandler, ast.comprehension, ast.match_case)
MAX_COMPLEXITY = 15


def complexity(function):
    """Return one and the number of branches in a function: conditions, loops, comprehensions, cases, `and` and `or`."""
    nodes = [node for each in function.body for node in ast.walk(each)]
    found = sum(isinstance(node, BRANCHES) for node in nodes)
    filters = sum(len(node.ifs) for node in nodes if isinstance(node, ast.comprehension))
    return 1 + found + filters + sum(len(node.values) - 1 for node in nodes if isinstance(node, ast.BoolOp))


@rule
def functions_with_many_branches(path, _tree, nodes):
    for node in nodes:
        if isinstance(node, ast.FunctionDef) and path.parts[0] == "core" and complexity(node) > MAX_COMPLEXITY:
            yield node.name, complexity(node)


def test_no_function_of_the_core_has_many_branches():
    assert breaches()[functions_with_many_branches] == {}


MAX_UNEXPLAINED = 10
MIN_NEW_WORDS = 3  # that the code does not have: a comment that repeats its line explains nothing


def comments_of(text):
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return {token.start[0]: token.string for token in tokens if token.type == tokenize.COMMENT}


def explains(sentence, code):
    """Tell whether a sentence says something that the names in the code do not."""
    return len(words_of(sentence) - words_of(code)) >= MIN_NEW_WORDS and not re.match(r"# (noqa|type):", sentence)


def is_explained(function, comments):
    """Tell whether a function has a comment that explains something, or a docstring that goes on after a sentence."""
    code = "\n".join(map(ast.unparse, function.body[ast.get_docstring(function) is not None :]))
    described = (ast.get_docstring(function) or "").partition(">>>")[0]
    _, _, more = re.sub(r"\s+", " ", described).partition(". ")
    own = [comments[line] for line in range(function.lineno, function.end_lineno + 1) if line in comments]
    return any(explains(sentence, code) for sentence in (*own, more))


@rule
def unexplained_functions(path, _tree, nodes):
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef) and complexity(node) > MAX_UNEXPLAINED]
    if path.parts[0] == "core" and functions:
        comments = comments_of((SOURCE / path).read_text(encoding="utf-8"))
        yield from (node.name for node in functions if not is_explained(node, comments))


def test_a_function_of_the_core_with_ten_branches_says_why():
    assert breaches()[unexplained_functions] == {}


@pytest.mark.parametrize(
    ("body", "explained"),
    [
        ('"""Sort units."""\n    return sorted(units)', False),
        ("# Return the sorted units.\n    return sorted(units)", False),
        ("return sorted(units)  # noqa: ANN001 - this one is for the linter", False),
        ('"""Sort units.\n\n    >>> sort([2, 1]). Not a word of it is text.\n    """\n    return sorted(units)', False),
        ("# The newest may arrive last, because clients write at once.\n    return sorted(units)", True),
        ('"""Sort units. Clients write at once, so the newest may arrive last."""\n    return sorted(units)', True),
    ],
)
def test_the_rule_knows_a_reason(body, explained):
    text = f"def sort(units):\n    {body}\n"
    assert is_explained(ast.parse(text).body[0], comments_of(text)) is explained


CONTRACTS = tomllib.loads((SOURCE.parents[1] / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
LAYERS = [re.findall(r"brimful\.(\w+)", layer) for layer in CONTRACTS[0]["layers"]]
LEVELS = {name: level for level, names in enumerate(LAYERS) for name in names}


def imported_packages(nodes):
    """Yield the packages of ours that a module imports, also those that it names in a string."""
    for node in nodes:
        match node:
            case ast.Import(names=names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module=str(module), names=names):
                yield from (f"{module}.{alias.name}" for alias in names)
            case ast.Constant(value=str(text)) if re.fullmatch(r"brimful(\.\w+)+\.?", text):
                yield text
            case ast.JoinedStr(values=[ast.Constant(value=str(text)), *_]) if text.startswith("brimful."):
                yield text


@rule
def imports_from_above(path, _tree, nodes):
    own = path.parts[0]
    if len(path.parts) == 1:
        return set()
    imported = {name.split(".")[1] for name in imported_packages(nodes) if name.startswith("brimful.")}
    return {name for name in imported & LEVELS.keys() if name != own and LEVELS[name] <= LEVELS[own]}


def test_a_layer_imports_only_the_ones_below_it_also_by_name():
    assert breaches()[imports_from_above] == {}


def test_contributing_lists_every_package_with_its_layer():
    rows = re.findall(r"^\| (\d+) \| (.*?) \|", (SOURCE.parents[1] / "CONTRIBUTING.md").read_text(), re.MULTILINE)
    listed = {name: int(layer) - 1 for layer, names in rows for name in re.findall(r"`(\w+)(?:/|\.py)`", names)}
    assert listed == LEVELS
    found = {path.stem for path in SOURCE.iterdir() if path.suffix in ("", ".py") and not path.name.startswith("__")}
    assert listed.keys() | {"testing"} == found


WIRE_NAMES = {*get_args(WrittenWire), *get_args(IncomingWire)}
KNOWS_WIRES = ("wires", "models")  # and data: what servers speak is in providers/servers.toml
UNLIKE_WIRES = ("counting/overheads.py",)  # families of costs, some of which are called like a wire


def compared_wires(nodes):
    """Yield where a module decides something by the name of a wire, or holds one in a constant."""
    for node in nodes:
        match node:
            case ast.Compare(left=left, comparators=comparators):
                sides = [left, *comparators]
                if any(map(is_wire_name, sides)) and any("wire" in ast.unparse(side) for side in sides):
                    yield ast.unparse(node)
            case ast.match_case(pattern=pattern):
                values = [each.value for each in ast.walk(pattern) if isinstance(each, ast.MatchValue)]
                if any(map(is_wire_name, values)):
                    yield ast.unparse(pattern)
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=value)
                | ast.AnnAssign(target=ast.Name(id=name), value=value)
            ):
                if name.isupper() and is_wire_name(value):
                    yield ast.unparse(node)
            case ast.Dict(keys=keys) if sum(map(is_wire_name, filter(None, keys))) > 1:
                yield ast.unparse(node)


def is_wire_name(node):
    match node:
        case ast.Constant(value=value):
            return value in WIRE_NAMES - {"text"}  # which is mostly the type of a block
        case ast.Tuple(elts=items) | ast.List(elts=items) | ast.Set(elts=items):
            return any(map(is_wire_name, items))
        case _:
            return False


@rule
def decisions_by_wire(path, _tree, nodes):
    return () if path.parts[0] in KNOWS_WIRES or str(path) in UNLIKE_WIRES else compared_wires(nodes)


def test_nobody_compares_the_name_of_a_wire():
    assert breaches()[decisions_by_wire] == {}


@pytest.mark.parametrize(
    "code",
    [
        'wire == "openai"',
        'request.wire in ("anthropic", "gemini")',
        '{"openai": 1, "ollama": 2}[wire]',
        'match wire:\n    case "openai" | "text":\n        pass',
        '_OWN_HARDWARE: Final = "ollama"',
    ],
)
def test_the_rule_finds_the_name_of_a_wire(code):
    assert list(compared_wires(ast.walk(ast.parse(code))))


def test_every_public_name_can_be_imported():
    for name in brimful.__all__:
        assert getattr(brimful, name) is not None
    assert list(brimful.__all__) == sorted(brimful.__all__, key=lambda name: (not name[0].isupper(), name))
    assert set(brimful.__all__) <= set(dir(brimful))
    assert len(brimful.__all__) <= MAX_PUBLIC_NAMES


def test_the_tree_of_errors_names_every_error():
    for name in ERRORS:
        assert f" {name} " in errors.__doc__.replace("\n", " ")


def test_importing_loads_no_tokenizer_and_no_heavy_library():
    code = "import sys, brimful; print(sorted({m.split('.')[0] for m in sys.modules}))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    heavy = ("splintr", "jinja2", "pydantic", "httpx2", "genai_prices", "typer", "rich", "asyncio", "numpy")
    assert not [name for name in heavy if f"'{name}'" in loaded]


def test_all_documented_names_are_there_after_one_import():
    pages = (Path(__file__).parents[1] / "docs" / "reference").glob("*.md")
    names = {name for page in pages for name in re.findall(r"^::: (brimful\.\S+)", page.read_text(), re.MULTILINE)}
    names = {name for name in names if name.count(".") <= 2 and not name.startswith("brimful.adapters.")}
    code = "import operator, sys, brimful\nfor name in sys.argv[1:]: operator.attrgetter(name)(brimful)"
    subprocess.run([sys.executable, "-c", code, *(name.removeprefix("brimful.") for name in names)], check=True)
    assert len(names) > 40


def test_nothing_is_logged_or_printed_on_import():
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", "import brimful"], capture_output=True, check=True, env=os.environ
    )
    assert (done.stdout, done.stderr) == (b"", b"")


BANNED_WORDS = {
    *(
        "aside",
        "asked",
        "found",
        "gathered",
        "given",
        "heft",
        "housekeeping",
        "kept",
        "least",
        "lent",
        "lesson",
        "lessons",
    ),
    *(
        "listed",
        "manyth",
        "medium",
        "most",
        "parted",
        "piled",
        "poured",
        "punched",
        "readdressing",
        "reckon",
        "reckoned",
    ),
    *(
        "said",
        "seal",
        "sealed",
        "sealing",
        "settled",
        "supposed",
        "tidied",
        "tidy",
        "told",
        "tongue",
        "turned",
        "vault",
    ),
    *("lessons", "whom"),
}
"""Words of a private language: use the usual term. See the terms in docs/explanation/how-it-works.md."""
ALLOWED_NAMES = {"Context.kept", "LedgerRules.clear_at_least"}  # the outcome `kept`, and a term of Anthropic's API


def words_of(name):
    return set(re.findall(r"[a-z]+", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()))


def defined_names(body):
    for node in body:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.Assign(targets=targets):
                yield from (target.id for target in targets if isinstance(target, ast.Name))
            case ast.AnnAssign(target=ast.Name(id=name)):
                yield name


def public_names(tree):
    yield from defined_names(tree.body)
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield from (f"{node.name}.{name}" for name in defined_names(node.body))


@rule
def banned_names(path, tree, _nodes):
    names = [path.stem, *(name for name in public_names(tree) if not name.rpartition(".")[2].startswith("_"))]
    return [name for name in names if words_of(name.rpartition(".")[2]) & BANNED_WORDS and name not in ALLOWED_NAMES]


def test_module_and_public_names_are_plain_words():
    assert breaches()[banned_names] == {}


def names_of_its_own(nodes):
    """Return the names of a module's functions and classes, and of what their methods keep in themselves."""
    kept = {node.attr for node in nodes if isinstance(node, ast.Attribute) and is_itself(node.value)}
    return kept | {
        node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    }


def is_itself(node):
    return isinstance(node, ast.Name) and node.id in ("self", "cls")


def is_private(name):
    return name.startswith("_") and not name.endswith("_")


def reaches_inside(node, own):
    """Tell whether a test uses a private name of another module, or replaces something in one of ours."""
    match node:
        case ast.Attribute(attr=name) if is_private(name):
            return name not in own and not is_itself(node.value)
        case ast.ImportFrom(module=str(module), names=names) if module.startswith("brimful"):
            return any(is_private(alias.name) for alias in names)
        case ast.Call(func=ast.Attribute(attr="setattr"), args=[ast.Constant(value=str(target)), *_]):
            return target.startswith("brimful")
        case ast.Call(func=ast.Attribute(attr="setattr"), args=[ast.Name(), *_]):
            return True
        case _:
            return False


def test_tests_use_public_names_and_replace_nothing_in_a_module():
    found = {}
    for path in sorted(TESTS.rglob("*.py")):
        nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
        own = names_of_its_own(nodes)
        if reaching := [ast.unparse(node) for node in nodes if reaches_inside(node, own)]:
            found[str(path.relative_to(TESTS))] = reaching
    assert found == {}


# -- iterators that are read twice -----------------------------------------------------------------------------------

LAZY = {"map", "filter", "zip", "reversed", "enumerate"}
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def type_name(annotation):
    match annotation:
        case ast.Subscript(value=ast.Name(id=name)) | ast.Name(id=name):
            return name
        case _:
            return ""


def once_readable(function, generators):
    """Return the parameters and variables of a function that may be empty when they are read again.

    A parameter that is read twice is a Sequence or a Collection. One that is read in pieces is an Iterator.
    """
    arguments = function.args
    names = {
        each.arg
        for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
        if type_name(each.annotation) in ("Iterable", "AsyncIterable")
    }
    for node in ast.walk(function):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if is_lazy(value, generators):
                names.add(name)
    return names


def is_lazy(value, generators):
    match value:
        case ast.GeneratorExp():
            return True
        case ast.Call(func=ast.Name(id=called)):
            return called in LAZY | generators
        case _:
            return False


def reads(node, name):
    """Return how often an expression may read a variable. Inside a loop it counts twice."""
    match node:
        case ast.Name(id=read, ctx=ast.Load()):
            return int(read == name)
        case ast.IfExp():
            return reads(node.test, name) + max(reads(node.body, name), reads(node.orelse, name))
        case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
            first = node.generators[0]
            repeated = [each for each in ast.iter_child_nodes(node) if each is not first]
            inside = sum(reads(each, name) for each in (*repeated, *first.ifs))
            return reads(first.iter, name) + 2 * inside
        case _:
            return sum(reads(each, name) for each in ast.iter_child_nodes(node))


def assigns(statement, name):
    stored = (node for node in ast.walk(statement) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))
    return any(node.id == name for node in stored)


def reads_on_a_path(body, name):
    """Return how often statements may read a variable on one path, and how often on one that reaches their end.

    The second is None if no path does. Reading starts again when the variable is assigned, and ends with
    `name = list(name)`.
    """
    total, most = 0, 0
    for statement in body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=assigned)], value=value) if assigned == name:
                most, total = max(most, total + reads(value, name)), 0
                if reads(value, name):
                    return most, 0
                continue
        longest, count = reads_in(statement, name)
        most = max(most, total + longest)
        if count is None:
            return most, None
        total += count
    return most, total


def reads_in(statement, name):
    """Return the same for one statement."""
    match statement:
        case ast.If():
            test, paths = reads(statement.test, name), [statement.body, statement.orelse]
        case ast.With() | ast.AsyncWith():
            test, paths = sum(reads(each, name) for each in statement.items), [statement.body]
        case ast.For() | ast.AsyncFor() | ast.While():
            head = statement.test if isinstance(statement, ast.While) else statement.iter
            most, count = reads_on_a_path(statement.body, name)
            is_repeated = bool(count) and not any(assigns(each, name) for each in statement.body)
            return (reads(head, name) + (2 if is_repeated else 1) * most,) * 2
        case ast.Assign(targets=[ast.Attribute()], value=ast.Name(id=stored)) if stored == name:
            return 2, 2  # nobody sees there that it can be read only once
        case ast.Return() | ast.Raise() | ast.Continue() | ast.Break():
            return reads(statement, name), None
        case _:
            return (reads(statement, name),) * 2
    counts = [reads_on_a_path(path, name) for path in paths]
    ends = [count for _, count in counts if count is not None]
    return test + max(most for most, _ in counts), test + max(ends) if ends else None


@rule
def read_twice(_path, _tree, nodes):
    """Yield the functions and variables of a module that read something twice that may be empty then."""
    functions = [node for node in nodes if isinstance(node, FUNCTIONS)]
    generators = {each.name for each in functions if type_name(each.returns) in ("Iterator", "Generator")}
    for function in functions:
        for name in sorted(once_readable(function, generators)):
            if reads_on_a_path(function.body, name)[0] > 1:
                yield f"{function.name}: {name}"


def find_read_twice(body):
    tree = ast.parse(f"def read(self, ids: Iterable[str], others: list[str]):\n    {body}\n")
    return list(read_twice(Path("example.py"), tree, list(ast.walk(tree))))


def test_nothing_that_can_be_read_once_is_read_twice():
    assert breaches()[read_twice] == {}


@pytest.mark.parametrize(
    "body",
    [
        "self.ids = ids",
        "return set(ids), list(ids)",
        "return [each for each in others if each in ids]",
        "for each in others:\n        print(*ids)",
        "found = (each for each in others)\n    return max(found) - min(found)",
        "if others:\n        print(*ids)\n    return list(ids)",
    ],
)
def test_the_rule_finds_what_is_read_twice(body):
    assert find_read_twice(body)


@pytest.mark.parametrize(
    "body",
    [
        "return [each for each in ids if each in others]",
        "ids = list(ids)\n    return len(ids), set(ids)",
        "if others:\n        return list(ids)\n    return set(ids)",
        "return list(ids) if others else set(ids)",
        "for each in others:\n        found = map(str, each)\n        print(*found)",
    ],
)
def test_the_rule_accepts_what_is_read_once(body):
    assert not find_read_twice(body)
