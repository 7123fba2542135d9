"""Write what users build on to tests/api.txt: names, signatures, HTTP operations, policy keys and stored formats.

A test compares the file with the code. `make api` writes a change, but only after the changelog has one, too.
"""

import hashlib
import inspect
import re
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import msgspec

import brimful
from brimful.core.policy import Policy
from brimful.server.openapi import openapi_document

ROOT: Final = Path(__file__).parents[1]
FILE: Final = ROOT / "tests" / "api.txt"
CHANGELOG: Final = ROOT / "CHANGELOG.md"
MODULES: Final = ("embedding", "errors", "lore", "models", "packagers", "protocols", "providers", "records", "stores")
_HEADER: Final = "# What users build on. `make api` writes this file. Changelog: {}\n"
_OWN_MODULE: Final = re.compile(r"\b(?:brimful|collections\.abc|datetime|pathlib|typing)(?:\.[a-z_]+)*\.(?=[A-Za-z])")
_ADDRESS: Final = re.compile(r" at 0x[0-9a-f]+|<object object>")


def describe() -> str:
    """Return the interface, one line for each name, parameter list, field or key."""
    sections = {
        "Python": [line for name in sorted(_public_names()) for line in _describe(name)],
        "HTTP": list(_describe_http()),
        "Policies": sorted(_describe_schema("policy", msgspec.json.schema(Policy))),
        "Stored": list(_describe_stored()),
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
        yield f"{name}{_signature(value)}"
    elif inspect.ismodule(value):
        yield f"module {name}"
    else:
        yield f"{name}: {_plain(repr(value) if isinstance(value, str | int | float | tuple) else str(value))[:200]}"


def _describe_class(name: str, value: type) -> Iterator[str]:
    if issubclass(value, msgspec.Struct):
        for field in msgspec.structs.fields(value):
            end = "" if field.required else " = …"
            yield f"  {name}.{field.name}: {_plain(inspect.formatannotation(field.type))}{end}"
    elif not issubclass(value, BaseException):
        for field, kind in sorted(inspect.get_annotations(value).items()):
            if not field.startswith("_"):
                yield f"  {name}.{field}: {_plain(inspect.formatannotation(kind))}"
    for member, method in sorted(vars(value).items()):
        if not member.startswith("_") or member == "__init__":
            method = getattr(method, "__func__", method)  # noqa: PLW2901 - of a class method or a static method
            if inspect.isfunction(method):
                yield f"  {name}.{member}{_signature(method)}"
            elif isinstance(method, property):
                yield f"  {name}.{member}"


def _signature(value: Any) -> str:
    return _plain(str(inspect.signature(value)))


def _plain(text: str) -> str:
    return _ADDRESS.sub("", _OWN_MODULE.sub("", text))


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
            yield f"{kind} {name}.{field}{'' if field in required else '?'}: {_kind(values)}"


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
    source = ROOT / "src" / "brimful" / "stores"
    for file in sorted((source / "migrations").glob("*/*.sql")):
        yield f"migration {file.parent.name}/{file.name} {hashlib.sha256(file.read_bytes()).hexdigest()[:16]}"
    codec = (source / "log" / "context_codec.py").read_text(encoding="utf-8")
    yield f"format of stored contexts {re.findall(r'^_VERSION: Final = (.+)$', codec, re.MULTILINE)[0]}"


def write(api: str, changelog: str, written: str) -> str:
    """Return the file's new text. Fail if the interface has changed but the changelog has not."""
    header = _HEADER.format(hashlib.sha256(changelog.encode()).hexdigest()[:16])
    before, _, old = written.partition("\n")
    if old == api:
        return written
    if header == f"{before}\n":
        sys.exit(
            "The interface has changed, and CHANGELOG.md has not: say there what changed for users, then try again."
        )
    return header + api


if __name__ == "__main__":
    FILE.write_text(
        write(
            describe(), CHANGELOG.read_text(encoding="utf-8"), FILE.read_text(encoding="utf-8") if FILE.exists() else ""
        ),
        encoding="utf-8",
    )
