"""Usage reports are stored and read back unchanged, and invalid ones raise clear errors."""

import msgspec
import pytest

from brimful.errors import InvalidValue
from brimful.records.usage import UsageReport


def observed(**fields):
    return UsageReport(**{"id": "o1", "model": "m", "route": "r"} | fields)


def test_an_observation_written_out_is_read_back_equal():
    whole = observed(kind="overflow", window=4096, features={"tokens": 7, "han": 2.5}, at=3, room="general")
    assert msgspec.json.decode(msgspec.json.encode(whole), type=UsageReport) == whole
    assert msgspec.json.decode(msgspec.json.encode(whole))["record"] == "usage-report"


def test_the_error_is_a_share_of_what_was_reported():
    assert observed(counted=97, reported=100).error == -0.03
    assert observed(counted=97, reported=0).error == 0.0


@pytest.mark.parametrize(
    ("fields", "wrong"),
    [
        ({"model": ""}, "model"),
        ({"route": "a\0b"}, "route"),
        ({"kind": "guess"}, "kind"),
        ({"basis": "hope"}, "basis"),
        ({"at": float("nan")}, "at"),
        ({"counted": -1}, "counted"),
        ({"margin": 1.5}, "margin"),
        ({"reported": 10**13}, "reported"),
        ({"cached": None}, "cached"),
        ({"window": 0}, "window"),
        ({"context": ""}, "context"),
        ({"features": [1, 2]}, "features"),
        ({"features": {"han": float("inf")}}, "features.han"),
        ({"features": {"han": "many"}}, "features.han"),
        ({"features": {"\ud800": 1.0}}, "features"),
    ],
)
def test_values_that_no_store_can_return_are_refused_by_name(fields, wrong):
    with pytest.raises(InvalidValue) as refused:
        observed(**fields)
    assert refused.value.field == wrong
