from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.relay.horizon import end_of, horizons, start_of
from shared.core.identifier import created_at, lowest_id_at

HOUR = 3600
NOW = datetime(2026, 1, 15, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("longest_ttl_sec", "ages"),
    [
        pytest.param(0, (600, HOUR), id="no-types"),
        pytest.param(180, (600, HOUR, 6 * HOUR), id="an-otp-of-three-minutes"),
        pytest.param(6 * HOUR, (600, HOUR, 6 * HOUR), id="exactly-six-hours"),
        pytest.param(6 * HOUR + 1, (600, HOUR, 6 * HOUR, 12 * HOUR), id="a-second-more"),
        pytest.param(24 * HOUR, (600, HOUR, 6 * HOUR, 12 * HOUR, 18 * HOUR, 24 * HOUR), id="a-day"),
    ],
)
def test_ten_minutes_one_hour_then_every_six_until_the_longest_ttl(longest_ttl_sec: int, ages: tuple[int, ...]) -> None:
    assert horizons((600, HOUR), repeat_sec=6 * HOUR, longest_ttl_sec=longest_ttl_sec) == ages


def test_repeats_that_lie_before_the_first_horizons_are_left_out() -> None:
    assert horizons((600, HOUR), repeat_sec=1800, longest_ttl_sec=2 * HOUR) == (600, HOUR, 5400, 7200)


def test_new_horizons_begin_where_the_next_older_one_ends() -> None:
    ages = (600, HOUR, 6 * HOUR)

    assert start_of(ages, 0, repeat_sec=6 * HOUR, now=NOW) == end_of(HOUR, now=NOW)
    assert start_of(ages, 1, repeat_sec=6 * HOUR, now=NOW) == end_of(6 * HOUR, now=NOW)
    assert start_of(ages, 2, repeat_sec=6 * HOUR, now=NOW) == end_of(12 * HOUR, now=NOW)


@given(st.integers(min_value=1, max_value=30 * 86_400), st.integers(min_value=600, max_value=86_400))
def test_every_notification_is_looked_at_once_more_after_its_life_is_over(ttl_sec: int, repeat_sec: int) -> None:
    ages = horizons((600, HOUR), repeat_sec=repeat_sec, longest_ttl_sec=ttl_sec)

    assert ages[-1] >= ttl_sec
    assert list(ages) == sorted(set(ages))


@given(st.datetimes(min_value=datetime(2026, 1, 1), max_value=datetime(2036, 1, 1), timezones=st.just(UTC)))  # noqa: DTZ001
def test_an_id_made_before_the_end_is_swept_and_one_made_after_is_not(made: datetime) -> None:
    end = end_of(600, now=made + timedelta(seconds=600))

    assert lowest_id_at(made - timedelta(milliseconds=1)) < end
    assert lowest_id_at(made + timedelta(milliseconds=1)) >= end
    assert abs(created_at(end) - made) <= timedelta(milliseconds=1)
