"""No test sees the API keys of its machine."""

import pytest

from brimful.providers import KEY_VARIABLES


@pytest.fixture(autouse=True)
def no_keys(monkeypatch):
    for name in KEY_VARIABLES:
        monkeypatch.delenv(name, raising=False)
