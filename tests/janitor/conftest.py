"""An engine on a real store of either kind, and rooms to clean up."""

import asyncio

import pytest

from brimful.engine import Engine
from janitor_rooms import NOW


@pytest.fixture
def run():
    """Run a story to its end."""
    return asyncio.run


@pytest.fixture(params=["sqlite", "postgres"])
def new_engine(request):
    """Return a way to make engines that share one store, of either sort."""
    url = request.getfixturevalue(f"{request.param}_url")

    def make(**options) -> Engine:
        return Engine(url, **{"clock": lambda: NOW, "embedder": "none", "model": "gpt-4o", **options})

    return make
