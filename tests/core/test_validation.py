"""Values are checked where they come in."""

import pytest

from brimful.core.validation import require_calendar_time
from brimful.errors import InvalidPackage, InvalidValue


def test_a_time_of_the_calendar_is_a_float():
    assert require_calendar_time("at", 1_700_000_000) == 1_700_000_000.0


def test_milliseconds_are_refused_with_advice():
    with pytest.raises(InvalidPackage, match=r"at: .* must be in seconds since 1970, not in milliseconds"):
        require_calendar_time("at", 1_700_000_000_000)


def test_the_error_is_the_caller_s():
    with pytest.raises(InvalidValue, match="must be a finite number of seconds"):
        require_calendar_time("at", float("nan"), InvalidValue)
