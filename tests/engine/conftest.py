"""An engine on a real store, with a clock that tests can set."""

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


@pytest.fixture(params=["sqlite", "postgres"])
def new_engine(request, clock):
    """Return a way to make engines that share one store, of either sort."""
    url = request.getfixturevalue(f"{request.param}_url")

    def make(**options) -> Engine:
        return Engine(url, **{"clock": clock, **options})

    return make
