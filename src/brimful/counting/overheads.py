"""What a request costs beside its texts, by family; the numbers stand in `overheads.toml`."""

from functools import cache
from pathlib import Path
from typing import Literal

import msgspec

from brimful.core.learned import learn
from brimful.core.tokens import Basis
from brimful.errors import InvalidModel


class ToolCosts(msgspec.Struct, frozen=True, kw_only=True):
    """What the description of tools costs on top of its text.

    `outline` counts the names, types and descriptions of a schema; `json` counts the schema as it is sent.
    """

    style: Literal["outline", "json"]
    function: int
    end: int
    properties: int = 0
    property: int = 0
    enum: int = 0
    enum_item: int = 0


class Overheads(msgspec.Struct, frozen=True, kw_only=True):
    """One family's constants. `name` is None where the family sends no names."""

    message: int
    counts_role: bool
    request: int
    tool_call: int
    margin: float
    tools: ToolCosts
    basis: Basis
    source: str
    as_of: str
    name: int | None = None
    parallel_call: int = 0
    parallel_calls: int = 0


def overheads_of(family: str) -> Overheads:
    """Return the family's constants.

    >>> overheads_of("openai").message
    3
    """
    table = _table()
    if family not in table:
        raise InvalidModel("model", "overhead", f"no family {family!r}; known: {', '.join(table)}, template")
    return table[family]


learn(Overheads)


@cache
def _table() -> dict[str, Overheads]:
    text = Path(__file__).with_name("overheads.toml").read_text(encoding="utf-8")
    return msgspec.toml.decode(text, type=dict[str, Overheads])
