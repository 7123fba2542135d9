"""An engine on a real store, with a clock that a test may turn."""

import asyncio

import pytest

from brimful.engine import Engine


class Clock:
    """A clock that stands still until it is told otherwise."""

    def __init__(self, now: float) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock():
    return Clock(1_794_000_000.0)


@pytest.fixture
def run():
    """Run a story to its end."""
    return asyncio.run


@pytest.fixture
def new_engine(tmp_path, clock):
    """Return a way to make engines that share one store."""

    def make(**options) -> Engine:
        return Engine(f"sqlite:///{tmp_path}/chat.db", **{"clock": clock, **options})

    return make
