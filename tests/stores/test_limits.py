"""Limits of keys and users in the store: what is reserved never passes them, on one server or several."""

import asyncio
import itertools

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from brimful.errors import InvalidValue
from brimful.records import User
from brimful.records.limits import PERIODS, Amount, OwnLimits, PeriodUsage, UsageLimits, Used, period_end, period_start
from brimful.stores import connect
from brimful.stores.admin.limits import LimitExceededError
from stores.encrypted import kek as keys_of

NUMBERS = itertools.count()
NOON = 1_700_000_000.0 // 86_400 * 86_400 + 43_200
DAY = UsageLimits(tokens_per_day=100)


async def try_to(reserve):
    """Return whether something could be reserved."""
    try:
        await reserve
    except LimitExceededError:
        return False
    return True


def of_ada(limits, now=NOON):
    return limits.ceilings("user", "ada", now)


def test_requests_are_counted_by_minute(database, run):
    limits, two = database.limits("acme"), UsageLimits(requests_per_minute=2)

    async def story():
        times = (NOON, NOON + 1, NOON + 59.9, NOON + 60)
        return [await try_to(limits.reserve(of_ada(two, now), Amount(requests=1))) for now in times]

    assert run(story()) == [True, True, False, True]


def test_a_reservation_that_exceeds_a_limit_reserves_nothing(database, run):
    limits = database.limits("acme")
    both = UsageLimits(requests_per_minute=5, tokens_per_day=100, dollars_per_month=1e-7)
    with pytest.raises(LimitExceededError) as caught:
        run(limits.reserve(of_ada(both), Amount(requests=1, tokens=60, nanodollars=101)))
    assert (caught.value.unit, caught.value.ceiling.period) == ("dollars", "month")
    assert set(run(limits.used("user", "ada", now=NOON)).values()) == {PeriodUsage()}
    run(limits.reserve(of_ada(both), Amount(requests=1, tokens=60, nanodollars=40)))
    with pytest.raises(LimitExceededError) as caught:
        run(limits.reserve(of_ada(both), Amount(requests=1, tokens=41, nanodollars=40)))
    assert (caught.value.unit, caught.value.ceiling.end) == ("tokens", NOON + 43_200)
    assert caught.value.used.tokens == caught.value.used.reserved_tokens == 60
    assert run(limits.used("user", "ada", now=NOON))["minute"].requests == 1


def test_limits_are_described_with_what_was_used(database, run):
    limits = database.limits("acme")
    own = run(limits.set_own("user", "ada", {"tokens_per_day": 100}))
    run(limits.reserve(of_ada(DAY), Amount(requests=1, tokens=60, nanodollars=250_000_000)))
    removed = OwnLimits(kind="user", name="", limits={})
    bob = run(limits.set_own("user", "bob", {}))
    found, nobody, unused = run(limits.in_use([own, removed, bob], now=NOON))
    assert (found.kind, found.name, found.limits) == ("user", "ada", {"tokens_per_day": 100})
    assert found.used["day"] == Used(requests=1, tokens=60, dollars=0.25)
    assert (nobody.used, unused.used["day"]) == ({}, Used(requests=0, tokens=0, dollars=0.0))
    assert run(limits.in_use([], now=NOON)) == []


def test_a_bill_takes_the_place_of_a_reservation(database, run):
    limits, most = database.limits("acme"), Amount(requests=1, tokens=90)
    run(limits.reserve(of_ada(DAY), most))
    run(limits.settle(of_ada(DAY), most, Amount(requests=1, tokens=30)))
    assert run(limits.used("user", "ada", now=NOON))["day"] == PeriodUsage(requests=1, tokens=30)
    run(limits.reserve(of_ada(DAY), Amount(requests=1, tokens=70)))
    assert not run(try_to(limits.reserve(of_ada(DAY), Amount(tokens=1))))
    run(limits.settle(of_ada(DAY), Amount(requests=1, tokens=70), Amount()))
    assert run(limits.used("user", "ada", now=NOON))["day"] == PeriodUsage(requests=1, tokens=30)


def test_tenants_keys_and_users_are_counted_apart(database, run):
    async def story():
        reserved = []
        for tenant, kind, name in [("acme", "user", "ada"), ("acme", "key", "ada"), ("other", "user", "ada")]:
            ceilings = DAY.ceilings(kind, name, NOON)
            reserved.append(await try_to(database.limits(tenant).reserve(ceilings, Amount(tokens=100))))
        return reserved

    assert run(story()) == [True, True, True]


def test_limits_of_one_user_are_set_changed_and_removed(database, run):
    limits = database.limits("acme")
    assert not run(limits.has_own())
    run(limits.set_own("user", "ada", {"tokens_per_day": 5, "dollars_per_day": None}))
    run(limits.set_own("key", "k1", {"requests_per_minute": 3}))
    changed = run(limits.set_own("user", "ada", {"tokens_per_day": 7}))
    assert changed.limits == {"tokens_per_day": 7, "dollars_per_day": None}
    assert run(limits.has_own())
    assert not run(database.limits("other").has_own())
    assert [(each.kind, each.name) for each in run(limits.list_own())] == [("key", "k1"), ("user", "ada")]
    assert run(limits.find("user", "ada")) == changed.limits
    assert {type(each) for each in run(limits.find("key", "k1")).values()} == {int}  # a float is no number of requests
    assert run(limits.find("key", "ada")) == {}
    assert [run(limits.remove_own("user", "ada")) for _ in range(2)] == [True, False]
    for wrong in ({"tokens_per_day": -1}, {"requests_per_minute": 0}, {"dollars_per_day": "5"}, {"tokens": 5}):
        with pytest.raises(InvalidValue):
            run(limits.set_own("user", "ada", wrong))


def test_the_limits_of_a_removed_user_stay_without_the_name(url, keys, run):
    name = "ada-lovelace-1815"

    async def story():
        async with connect(url, keys=keys) as database:
            store, limits = database.tenant("acme"), database.limits("acme")
            await store.put(User(id=name))
            await limits.set_own("user", name, {"tokens_per_day": 100})
            await limits.reserve(DAY.ceilings("user", name, NOON), Amount(tokens=100))
            await store.remove(User, name)
            again = await try_to(limits.reserve(DAY.ceilings("user", name, NOON), Amount(tokens=1)))
            return again, await limits.find("user", name), [each.name for each in await limits.list_own()]

    assert run(story()) == (False, {"tokens_per_day": 100}, [""])


def test_old_counters_are_deleted(database, run):
    limits, minute = database.limits("acme"), UsageLimits(requests_per_minute=9)
    run(limits.reserve(of_ada(minute), Amount(requests=1)))
    run(limits.reserve(minute.ceilings("user", "bob", NOON + 3_600), Amount(requests=1)))
    assert run(limits.used("user", "ada", now=NOON))["minute"].requests == 1
    run(limits.reserve(minute.ceilings("user", "bob", NOON + 3_660), Amount(requests=1)))
    assert run(limits.used("user", "ada", now=NOON))["minute"].requests == 0


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_limits_stay_in_force_while_a_store_is_encrypted(request, kind, run):
    url = request.getfixturevalue(f"{kind}_url")

    async def used(database, tokens):
        return await try_to(database.limits("acme").reserve(of_ada(DAY), Amount(tokens=tokens)))

    async def story():
        async with connect(url) as database:
            await database.limits("acme").set_own("user", "ada", {"tokens_per_day": 100})
            assert await used(database, 60)
        async with connect(url, keys=keys_of()) as database:
            limits = database.limits("acme")
            assert await limits.find("user", "ada") == {"tokens_per_day": 100}
            assert await used(database, 10)
            await database.encryption("acme").encrypt(lambda _: None)
            day = (await limits.used("user", "ada", now=NOON))["day"]
            return day.tokens, await used(database, 31), await limits.find("user", "ada"), await limits.list_own()

    tokens, fits, limits, listed = run(story())
    assert (tokens, fits, limits, len(listed)) == (70, False, {"tokens_per_day": 100}, 1)


def test_servers_of_one_database_let_exactly_as_many_requests_pass(postgres_url, run):
    both = UsageLimits(requests_per_minute=1_000, tokens_per_day=250)
    ceilings = [*of_ada(both), *UsageLimits(tokens_per_month=10_000).ceilings("key", "k1", NOON)]

    async def story():
        async with connect(postgres_url) as one, connect(postgres_url) as two:
            tries = [
                try_to(database.limits("acme").reserve(order, Amount(requests=1, tokens=10)))
                for database in (one, two)
                for order in (ceilings, ceilings[::-1])
                for _ in range(20)
            ]
            return sum(await asyncio.gather(*tries)), await one.limits("acme").used("user", "ada", now=NOON)

    passed, used = run(story())
    assert passed == 25
    assert (used["minute"].requests, used["day"].tokens) == (25, 250)


def test_a_restart_keeps_the_count(sqlite_url, run, tmp_path):
    async def reserve(url):
        async with connect(url) as database:
            return await try_to(database.limits("acme").reserve(of_ada(DAY), Amount(tokens=60)))

    async def copied():
        async with connect(sqlite_url) as database:
            await database.backup(tmp_path / "copy.backup")
        async with connect(f"sqlite:///{tmp_path}/copy.db") as database:
            await database.restore(tmp_path / "copy.backup")

    assert [run(reserve(sqlite_url)) for _ in range(2)] == [True, False]
    run(copied())
    assert run(reserve(f"sqlite:///{tmp_path}/copy.db")) is False


steps = st.lists(
    st.tuples(
        st.floats(0, 40_000),  # seconds since the step before
        st.integers(0, 60),  # tokens that are reserved
        st.one_of(st.none(), st.integers(0, 60)),  # tokens that are billed; None: still under way
    ),
    max_size=12,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(story=steps, per_day=st.integers(1, 100), per_month=st.integers(1, 200))
def test_reservations_never_pass_a_limit(sqlite_url, story, per_day, per_month):
    limits = UsageLimits(tokens_per_day=per_day, tokens_per_month=per_month)

    async def check():
        now, used = NOON, {}
        async with connect(sqlite_url) as database:
            stored = database.limits(f"acme-{next(NUMBERS)}")  # examples share a store
            for seconds, tokens, billed in story:
                now += seconds
                ceilings = of_ada(limits, now)
                places = {(each.period, each.start): each for each in ceilings}
                fits = all(used.get(place, 0) + tokens <= each.tokens for place, each in places.items())
                assert await try_to(stored.reserve(ceilings, Amount(tokens=tokens))) == fits
                if fits:
                    if billed is not None:
                        await stored.settle(ceilings, Amount(tokens=tokens), Amount(tokens=billed))
                    for place in places:
                        used[place] = used.get(place, 0) + (tokens if billed is None else billed)
                now_used = await stored.used("user", "ada", now=now)
                assert all(now_used[period].tokens == used.get((period, start), 0) for period, start in places)

    asyncio.run(check())


@given(st.sampled_from(PERIODS), st.floats(0, 240_000_000_000.0))
def test_every_time_is_in_one_period(period, at):
    start = period_start(period, at)
    end = period_end(period, start)
    assert start <= at < end
    assert period_start(period, end) == end
    assert period_start(period, end - 1) == start


@given(st.integers(0, 200), st.integers(0, 200), st.integers(0, 200))
def test_an_amount_fits_if_the_sum_is_within_the_limit(limit, used, amount):
    (ceiling,) = UsageLimits(tokens_per_day=limit).ceilings("user", "ada", NOON)
    fits = ceiling.find_exceeded(Amount(tokens=used), Amount(tokens=amount)) is None
    assert fits == (used + amount <= limit)
