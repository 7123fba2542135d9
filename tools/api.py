"""Write what users build on to tests/api.txt: names, signatures, commands, HTTP operations, settings and formats.

A test compares the file with the code. `make api` writes a change, but only after the changelog has one, too.
"""

import ast
import hashlib
import inspect
import re
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, Final, get_args, get_type_hints

import msgspec
import typer

import brimful
from brimful.cli.app import app
from brimful.core.policy import Policy
from brimful.server.config import Config
from brimful.server.openapi import openapi_document

ROOT: Final = Path(__file__).parents[1]
FILE: Final = ROOT / "tests" / "api.txt"
CHANGELOG: Final = ROOT / "CHANGELOG.md"
MODULES: Final = (
    *("embedding", "errors", "lore", "models", "packagers", "protocols", "providers", "records", "stores"),
    *("telemetry", "testing"),
)
_SOURCE: Final = ROOT / "src" / "brimful"
_HEADER: Final = "# What users build on. `make api` writes this file. Changelog: {}, together with this file: {}\n"
_OWN_MODULE: Final = re.compile(r"\b(?:brimful|collections\.abc|datetime|pathlib|typing)(?:\.[a-z_]+)*\.(?=[A-Za-z])")
_CLASS: Final = re.compile(r"<class '(\w+)'>")
_VARIABLE: Final = re.compile(r'"(BRIMFUL_[A-Z_]+)"')


def describe() -> str:
    """Return the interface, one line for each name, parameter list, field or key."""
    names = [line for name in sorted(_public_names()) for line in _describe(name)]
    sections = {
        "Python": dict.fromkeys(names),  # some functions have the same options
        "Adapters": _describe_adapters(),
        "Commands": _describe_command("brimful", typer.main.get_command(app)),
        "HTTP": _describe_http(),
        "Settings": [*sorted(_describe_schema("setting", msgspec.json.schema(Config))), *_environment_variables()],
        "Policies": sorted(_describe_schema("policy", msgspec.json.schema(Policy))),
        "Stored": _describe_stored(),
    }
    return "".join(f"\n## {title}\n\n" + "".join(f"{line}\n" for line in lines) for title, lines in sections.items())


def _public_names() -> Iterator[str]:
    yield from brimful.__all__
    for name in MODULES:
        module = import_module(f"brimful.{name}")
        own = [each for each, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__]
        yield from (f"{name}.{each}" for each in getattr(module, "__all__", own) if not each.startswith("_"))


def _describe(name: str) -> Iterator[str]:
    value: Any = brimful
    for part in name.split("."):
        value = getattr(value, part)
    if inspect.isclass(value):
        bases = ", ".join(base.__name__ for base in value.__bases__ if base is not object)
        yield f"class {name}({bases})"
        yield from _describe_class(name, value)
    elif inspect.isroutine(value):
        yield from _describe_routine(name, value)
    elif inspect.ismodule(value):
        yield f"module {name}"
    else:
        yield f"{name}: {_plain(repr(value) if isinstance(value, str | int | float | tuple) else str(value))[:200]}"


def _describe_class(name: str, value: type) -> Iterator[str]:
    if issubclass(value, msgspec.Struct):
        for field in msgspec.structs.fields(value):
            default = field.default if field.default is not msgspec.NODEFAULT else field.default_factory
            end = "" if field.required else f" = {_default(default)}"
            yield f"  {name}.{field.name}: {_plain(inspect.formatannotation(field.type))}{end}"
    elif not issubclass(value, BaseException):
        for field, kind in sorted(inspect.get_annotations(value).items()):
            if not field.startswith("_"):
                yield f"  {name}.{field}: {_plain(inspect.formatannotation(kind))}"
    for member, method in sorted(vars(value).items()):
        if not member.startswith("_") or (member == "__init__" and not getattr(value, "_is_protocol", False)):
            method = getattr(method, "__func__", method)  # noqa: PLW2901 - of a class method or a static method
            if inspect.isfunction(method):
                yield from _describe_routine(f"  {name}.{member}", method)
            elif isinstance(method, property):
                yield f"  {name}.{member}"


def _describe_routine(name: str, value: Any) -> Iterator[str]:
    """Yield a signature, and the options that a caller may pass by name."""
    signature = inspect.signature(value)
    parameters = [
        each if each.default is each.empty else each.replace(default=_Shown(_default(each.default)))
        for each in signature.parameters.values()
    ]
    yield f"{name}{_plain(str(signature.replace(parameters=parameters)))}"
    for each in parameters:
        if each.kind is each.VAR_KEYWORD and get_args(each.annotation):
            [options] = get_args(each.annotation)
            for option, kind in sorted(get_type_hints(options).items()):
                yield f"  {options.__name__}.{option}: {_plain(inspect.formatannotation(kind))}"


class _Shown(str):
    """A text that is shown without quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def _default(value: Any) -> str:
    """Return a default value, without what is ours alone: of a struct its name, of a function only a public one."""
    if isinstance(value, msgspec.Struct):
        return f"{type(value).__name__}(…)"
    name = str(getattr(value, "__name__", "…" if type(value) is object or callable(value) else repr(value)))
    return "…" if name.startswith(("_", "<")) else name


def _plain(text: str) -> str:
    return _CLASS.sub(r"\1", _OWN_MODULE.sub("", text))


def _describe_adapters() -> Iterator[str]:
    """Read the adapters without importing them, since their frameworks are not installed."""
    for file in sorted((_SOURCE / "adapters").glob("[a-z]*.py")):
        yield from _describe_body(f"adapters.{file.stem}", ast.parse(file.read_text(encoding="utf-8")).body)


def _describe_body(name: str, body: list[ast.stmt]) -> Iterator[str]:
    for node in body:
        match node:
            case ast.ClassDef(name=own) if not own.startswith("_"):
                yield f"class {name}.{own}({', '.join(map(ast.unparse, node.bases))})"
                yield from _describe_body(f"  {name}.{own}", node.body)
            case ast.FunctionDef(name=own) | ast.AsyncFunctionDef(name=own) if own == "__init__" or own[0] != "_":
                yield f"{name}.{own}({ast.unparse(node.args)}) -> {ast.unparse(node.returns) if node.returns else ''}"
            case ast.AnnAssign(target=ast.Name(id=own)) if name.startswith(" ") and not own.startswith("_"):
                yield f"{name}.{own}: {ast.unparse(node.annotation)}"


def _describe_command(name: str, command: Any) -> Iterator[str]:
    """Yield a line per command: its arguments and options with their types and default values."""
    inner = getattr(command, "commands", {})
    if command.params or not inner:
        yield " ".join((name, *map(_describe_parameter, command.params)))
    for own, each in sorted(inner.items()):
        yield from _describe_command(f"{name} {own}", each)


def _describe_parameter(parameter: Any) -> str:
    names = "/".join((*parameter.opts, *parameter.secondary_opts))
    kind = _plain(inspect.formatannotation(parameter.type_descriptor.annotation)).removeprefix("Literal")
    text = names if kind == "bool" else f"{names}:{kind}"
    text += f"={parameter.default}" if parameter.default else ""
    return text if parameter.required else f"[{text}]"


def _environment_variables() -> list[str]:
    texts = (file.read_text(encoding="utf-8") for file in _SOURCE.rglob("*.py"))
    return [f"variable {name}" for name in sorted({name for text in texts for name in _VARIABLE.findall(text)})]


def _describe_http() -> Iterator[str]:
    document = msgspec.json.decode(openapi_document())
    for path, methods in sorted(document["paths"].items()):
        for method, operation in sorted(methods.items()):
            query = [each["name"] for each in operation.get("parameters", ()) if each.get("in") == "query"]
            body = _reference(operation.get("requestBody", {}))
            answers = [
                f"{code} {_reference(answer)}".strip()
                for code, answer in sorted(operation["responses"].items())
                if code < "4"  # errors are the same everywhere
            ]
            address = f"{method.upper()} {path}{'?' if query else ''}{'&'.join(sorted(query))}"
            yield f"{address} {body} → {', '.join(answers)}"
    yield from sorted(_describe_schema("schema", {"$defs": document["components"]["schemas"]}))


def _reference(part: dict[str, Any]) -> str:
    found = re.search(r"schemas/(\w+)", str(part.get("content", "")))
    return found[1] if found else ""


def _describe_schema(kind: str, schema: dict[str, Any]) -> Iterator[str]:
    for name, fields in schema["$defs"].items():
        required = fields.get("required", ())
        for field, values in fields.get("properties", {}).items():
            default = values.get("default")
            text = "{…}" if isinstance(default, dict) else msgspec.json.encode(default).decode()
            end = f" = {text}" if default else ""
            yield f"{kind} {name}.{field}{'' if field in required else '?'}: {_kind(values)}{end}"


def _kind(values: dict[str, Any]) -> str:
    """Return a JSON type in a few characters: `string|null`, `Memory[]`."""
    if "$ref" in values:
        return str(values["$ref"].rpartition("/")[2])
    if "anyOf" in values:
        return "|".join(_kind(each) for each in values["anyOf"])
    if "enum" in values:
        return "|".join(map(repr, values["enum"]))
    if values.get("type") == "array":
        return f"{_kind(values['items'])}[]" if isinstance(values.get("items"), dict) else "array"
    return str(values.get("type", "any"))


def _describe_stored() -> Iterator[str]:
    source = _SOURCE / "stores"
    for file in sorted((source / "migrations").glob("*/*.sql")):
        yield f"migration {file.parent.name}/{file.name} {hashlib.sha256(file.read_bytes()).hexdigest()[:16]}"
    codec = (source / "log" / "context_codec.py").read_text(encoding="utf-8")
    yield f"format of stored contexts {re.findall(r'^_VERSION: Final = (.+)$', codec, re.MULTILINE)[0]}"


def write(api: str, changelog: str, written: str) -> str:
    """Return the file's new text. Fail if the interface has changed but the changelog has not."""
    changes = _hash(changelog)
    if is_own(written) and written.partition("\n")[2] == api:
        return written
    if f" {changes}, " in written.partition("\n")[0]:
        sys.exit(
            "The interface has changed, and CHANGELOG.md has not: say there what changed for users, then try again."
        )
    return _HEADER.format(changes, _hash(changes + api)) + api


def is_own(written: str) -> bool:
    """Tell whether `write` wrote a text, and nobody has edited it."""
    header, _, api = written.partition("\n")
    changes = re.findall(r" (\w{16}),", header)
    return bool(changes) and f"{header}\n" == _HEADER.format(changes[0], _hash(changes[0] + api))


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


if __name__ == "__main__":
    FILE.write_text(
        write(describe(), CHANGELOG.read_text(encoding="utf-8"), FILE.read_text(encoding="utf-8")), encoding="utf-8"
    )
