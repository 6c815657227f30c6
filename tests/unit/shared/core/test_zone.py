"""Zones and their instants: the right values from the zones' published rules."""

from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo, available_timezones

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.core.zone import first_instant, zone_named, zone_names

ZONES = st.sampled_from(sorted(zone_names())).map(lambda name: zone_named(name, "UTC"))
DAYS = st.dates(date(1970, 1, 4), date(2070, 1, 1))


@pytest.mark.parametrize("name", [None, "", "Nowhere/At_all", "Europe", "../etc/passwd", "+03:00", "localtime"])
def test_whoever_has_no_zone_lives_in_the_default_T4(name: str | None) -> None:
    assert zone_named(name, "Europe/Istanbul").key == "Europe/Istanbul"


def test_a_zone_is_one_object() -> None:
    assert zone_named("Europe/Berlin", "UTC") is zone_named("Europe/Berlin", "Europe/Istanbul")
    assert zone_named("Europe/Berlin", "UTC").key == "Europe/Berlin"


def test_a_default_that_is_no_zone_is_refused() -> None:
    with pytest.raises(ValueError, match="IANA"):
        zone_named(None, "Europe/Constantinople")


def test_every_zone_of_the_running_system_is_one_of_ours() -> None:
    assert available_timezones() - {"localtime"} <= zone_names()


@pytest.mark.parametrize(
    ("zone", "day", "clock", "instant"),
    [
        pytest.param("Europe/Istanbul", date(2026, 1, 15), time(9), "2026-01-15T06:00Z", id="Istanbul-is-+03-T3"),
        pytest.param("Europe/Istanbul", date(2015, 1, 15), time(9), "2015-01-15T07:00Z", id="and-was-+02-in-2015"),
        # Berlin 2026-03-29: 02:00 becomes 03:00 at 01:00 UTC, so no time between them exists.
        pytest.param("Europe/Berlin", date(2026, 3, 29), time(1, 59), "2026-03-29T00:59Z", id="before-the-gap"),
        pytest.param("Europe/Berlin", date(2026, 3, 29), time(2), "2026-03-29T01:00Z", id="the-gaps-first"),
        pytest.param("Europe/Berlin", date(2026, 3, 29), time(2, 30), "2026-03-29T01:00Z", id="02:30-missing-T2"),
        pytest.param("Europe/Berlin", date(2026, 3, 29), time(3), "2026-03-29T01:00Z", id="after-the-gap"),
        # Berlin 2026-10-25: 03:00 becomes 02:00 at 01:00 UTC, so the hour from 02:00 comes twice.
        pytest.param("Europe/Berlin", date(2026, 10, 25), time(2, 30), "2026-10-25T00:30Z", id="02:30-twice-T2"),
        pytest.param("Europe/Berlin", date(2026, 10, 25), time(3), "2026-10-25T02:00Z", id="03:00-once"),
        # Toronto 1919-03-30: 23:30 became 00:30 of the next day, at 04:30 UTC.
        pytest.param("America/Toronto", date(1919, 3, 31), time(0), "1919-03-31T04:30Z", id="gap-over-midnight"),
        # Samoa went from 29 December 24:00 (-10) to 31 December 00:00 (+14), at 10:00 UTC.
        pytest.param("Pacific/Apia", date(2011, 12, 30), time(9), "2011-12-30T10:00Z", id="a-day-that-never-was"),
        pytest.param("Asia/Kathmandu", date(2026, 1, 15), time(9), "2026-01-15T03:15Z", id="quarter-hours"),
    ],
)
def test_first_instants(zone: str, day: date, clock: time, instant: str) -> None:
    assert first_instant(day, clock, zone_named(zone, "UTC")) == datetime.fromisoformat(instant)


@given(zone=ZONES, day=DAYS, clock=st.times())
def test_from_there_on_the_wall_shows_that_time_or_a_later_one(zone: ZoneInfo, day: date, clock: time) -> None:
    instant, wall = first_instant(day, clock, zone), datetime.combine(day, clock)
    assert instant.tzinfo is UTC
    assert instant.astimezone(zone).replace(tzinfo=None) >= wall
    assert (instant - timedelta(microseconds=1)).astimezone(zone).replace(tzinfo=None) < wall


@given(zone=ZONES, day=DAYS, clocks=st.tuples(st.times(), st.times()))
def test_later_on_the_wall_is_never_earlier(zone: ZoneInfo, day: date, clocks: tuple[time, time]) -> None:
    earlier, later = sorted(clocks)
    assert first_instant(day, earlier, zone) <= first_instant(day, later, zone)
