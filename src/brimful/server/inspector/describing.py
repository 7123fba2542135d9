"""The operations of the inspector, as a description of the API has them."""

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from brimful.server.inspector.operation import Operation
from brimful.server.inspector.operations import OPERATIONS


def described_types() -> Iterator[type]:
    """Yield the forms of all answers and bodies."""
    for operation, _ in OPERATIONS:
        yield from (kind for kind in (operation.answer, operation.body) if kind is not None)


def operations() -> Iterator[Operation]:
    """Yield all operations."""
    yield from (operation for operation, _ in OPERATIONS)


def parameters_of(operation: Operation) -> list[dict[str, Any]]:
    """Return what an operation takes in its path, its query and its headers."""
    named = re.findall(r"{(\w+)}", operation.described_path)
    return [
        *({"name": name, "in": "path", "required": True, "schema": _name()} for name in named),
        *_query(operation.query),
        *(
            {"name": name, "in": "header", "description": what, "schema": {"type": "string", "pattern": "^[!-~]*$"}}
            for name, what in operation.headers.items()
        ),
    ]


def _name() -> dict[str, Any]:
    return {"type": "string", "minLength": 1}


def _query(kind: type) -> Iterator[dict[str, Any]]:
    schema = msgspec.json.schema(kind)["$defs"][kind.__name__]
    for name, said in schema["properties"].items():
        plain = _without_null(said)
        described = {"description": plain.pop("description")} if "description" in plain else {}
        yield {"name": name, "in": "query", "schema": plain} | described


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema without the null that stands for what is not said: a query says nothing, or something."""
    said = {key: value for key, value in schema.items() if not (key == "default" and value is None)}
    choices = [each for each in said.pop("anyOf", []) if each != {"type": "null"}]
    return said | (choices[0] if len(choices) == 1 else {"anyOf": choices} if choices else {})
