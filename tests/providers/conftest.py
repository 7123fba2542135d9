"""No test waits between two attempts, and none sees a key of the machine that it runs on."""

import pytest
import stamina

from brimful.providers import KEY_VARIABLES


@pytest.fixture(autouse=True)
def at_once():
    """Try again without a wait, as often as a connection's limits say."""
    with stamina.set_testing(True, attempts=100, cap=True):
        yield


@pytest.fixture(autouse=True)
def no_keys(monkeypatch):
    for name in KEY_VARIABLES:
        monkeypatch.delenv(name, raising=False)
