"""API keys: what they allow, when they expire, and when they were used."""

import pytest

from brimful.errors import InvalidValue
from brimful.stores import connect
from brimful.stores.admin.api_keys import parse_api_key

LIMITS = {"expires": 100.0, "models": ("gpt-4o*", "o3"), "policies": ("agent",)}


def test_a_key_keeps_its_limits(run, url):
    async def made():
        async with connect(url) as database:
            keys = database.api_keys("acme")
            key, secret = await keys.create(name="bot", scopes=["chat"], at=1.0, **LIMITS)
            free, _ = await keys.create(name="free", scopes=["chat"], at=2.0)
            return key, free, await keys.list_keys(), await keys.verify(parse_api_key(secret))

    key, free, listed, verified = run(made())
    assert listed == [key, free]
    assert verified == key
    assert {name: getattr(key, name) for name in LIMITS} == LIMITS
    assert (free.expires, free.models, free.policies, free.used) == (None, None, None, None)


def test_the_last_use_is_stored_once_a_minute(run, url):
    async def used():
        async with connect(url) as database:
            keys = database.api_keys("acme")
            key, _ = await keys.create(name="bot", scopes=["chat"], at=1.0)
            times = []
            for at in (10.0, 69.0, 70.0):
                await keys.note_use(key.id, at=at)
                times += [each.used for each in await keys.list_keys()]
            return times

    assert run(used()) == [10.0, 10.0, 70.0]


@pytest.mark.parametrize(
    ("limits", "problem"),
    [
        ({"expires": 1.0}, "expires: must be in the future"),
        ({"expires": float("nan")}, "expires: "),
        ({"models": []}, "models: must not be empty: leave it out to allow all"),
        ({"models": [""]}, "models: must not be empty"),
        ({"policies": ["a\0"]}, "policies: must not contain a null character"),
    ],
)
def test_invalid_limits(run, sqlite_url, limits, problem):
    async def made():
        async with connect(sqlite_url) as database:
            await database.api_keys("acme").create(name="bot", scopes=["chat"], at=1.0, **limits)

    with pytest.raises(InvalidValue, match=problem):
        run(made())
