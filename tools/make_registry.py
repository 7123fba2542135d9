"""Make src/brimful/models/data/registry.json: the models of the TOML files beside it, in a form that loads fast.

    python tools/make_registry.py

A test compares the file with the TOML files.
"""

import msgspec

from brimful.core.model import ModelInfo
from brimful.models.files import EMPTY_REGISTRY, REGISTRY_FILE, add_models, bundled_entries

DEFAULTS = {field.name: field.default for field in msgspec.structs.fields(ModelInfo)}


def main() -> None:
    """Write the file, one model per line."""
    registry = add_models(EMPTY_REGISTRY, bundled_entries())
    rows = ",\n".join(f"{encode(id)}:{encode(changed(row))}" for id, row in registry.rows.items())
    text = f'{{"rows":{{\n{rows}}},\n"hosted":{encode(registry.hosted)},\n"local":{encode(registry.local)}}}\n'
    REGISTRY_FILE.write_text(text, encoding="utf-8")


def changed(row: ModelInfo) -> dict[str, object]:
    """Return the fields of a model that do not have their default."""
    fields = {name: getattr(row, name) for name in row.__struct_fields__}
    return {name: value for name, value in fields.items() if value != DEFAULTS[name]}


def encode(value: object) -> str:
    """Return a value as JSON."""
    return msgspec.json.encode(value).decode()


if __name__ == "__main__":
    main()
