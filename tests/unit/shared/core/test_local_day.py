"""Days as users have them (T5): the right values from the zones' published rules."""

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.core.local_day import local_day
from shared.core.zone import zone_named, zone_names

H = timedelta(hours=1)


@pytest.mark.parametrize(
    ("zone", "now", "day", "begins", "length"),
    [
        pytest.param(
            "Europe/Istanbul", "2026-11-11T20:50Z", date(2026, 11, 11), "2026-11-10T21:00Z", 24 * H, id="23:50"
        ),
        pytest.param(
            "Europe/Istanbul", "2026-11-11T21:10Z", date(2026, 11, 12), "2026-11-11T21:00Z", 24 * H, id="00:10"
        ),
        pytest.param(
            "Europe/Berlin", "2026-10-25T12:00Z", date(2026, 10, 25), "2026-10-24T22:00Z", 25 * H, id="25-hours"
        ),
        pytest.param(
            "Europe/Berlin", "2026-03-29T12:00Z", date(2026, 3, 29), "2026-03-28T23:00Z", 23 * H, id="23-hours"
        ),
        # Lebanon's clocks go forward at midnight: 00:00 does not exist, the day begins at 01:00.
        pytest.param(
            "Asia/Beirut", "2026-03-29T12:00Z", date(2026, 3, 29), "2026-03-28T22:00Z", 23 * H, id="no-midnight"
        ),
        # Cuba's go back at 01:00 to 00:00: midnight comes twice, the day begins at the first.
        pytest.param("America/Havana", "2025-11-02T12:00Z", date(2025, 11, 2), "2025-11-02T04:00Z", 25 * H, id="two"),
        # Samoa had no 30 December 2011.
        pytest.param(
            "Pacific/Apia", "2011-12-30T12:00Z", date(2011, 12, 31), "2011-12-30T10:00Z", 24 * H, id="dateline"
        ),
    ],
)
def test_days_T5(zone: str, now: str, day: date, begins: str, length: timedelta) -> None:
    found = local_day(datetime.fromisoformat(now), zone_named(zone, "UTC"))
    assert (found.date, found.begins, found.ends - found.begins) == (day, datetime.fromisoformat(begins), length)


@given(
    zone=st.sampled_from(sorted(zone_names())).map(lambda name: zone_named(name, "UTC")),
    now=st.integers(631_152_000, 3_786_912_000).map(lambda second: datetime.fromtimestamp(second, UTC)),  # 1990 to 2090
)
def test_a_day_holds_its_moments_and_ends_where_the_next_begins(zone: ZoneInfo, now: datetime) -> None:
    day = local_day(now, zone)
    assert day.begins <= now < day.ends
    assert day.begins.astimezone(zone).date() == day.date
    assert (day.begins - timedelta(microseconds=1)).astimezone(zone).date() < day.date
    assert local_day(day.ends, zone).begins == day.ends
