"""Generated examples are the same in every run."""

import importlib

from hypothesis import given, settings
from hypothesis import strategies as st


def generate_texts() -> list[str]:
    texts = []

    @settings(derandomize=True, database=None, max_examples=500)
    @given(st.text())
    def collect(text: str) -> None:
        texts.append(text)

    collect()
    return texts


def test_examples_do_not_depend_on_loaded_modules(tmp_path, monkeypatch):
    before = generate_texts()
    (tmp_path / "with_constants.py").write_text("\n".join(f"C{i} = 'constant {i}'" for i in range(500)))
    monkeypatch.syspath_prepend(tmp_path)
    importlib.import_module("with_constants")
    assert generate_texts() == before
