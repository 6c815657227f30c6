"""Nights in every zone (T1 to T3). The right instants are worked out from the zones' published rules."""

from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from shared.core.quiet_hours import MARKETING, QuietHours
from shared.core.zone import zone_named, zone_names

DAY = timedelta(days=1)
INSTANT = timedelta(microseconds=1)


@pytest.mark.parametrize(
    ("hours", "zone", "now", "end", "next_start"),
    [
        pytest.param(
            QuietHours(time(21), time(7)),
            "Europe/Istanbul",
            "2026-01-15T00:30+03:00",
            "2026-01-15T07:00+03:00",
            "2026-01-15T21:00+03:00",
            id="half-past-midnight-is-last-nights-T1",
        ),
        pytest.param(
            MARKETING,
            "Europe/Istanbul",
            "2026-01-15T22:00+03:00",
            "2026-01-16T09:00+03:00",
            "2026-01-16T22:00+03:00",
            id="the-start-is-in-it",
        ),
        pytest.param(
            QuietHours(time(13), time(15)),
            "Europe/Istanbul",
            "2026-01-15T14:00+03:00",
            "2026-01-15T15:00+03:00",
            "2026-01-16T13:00+03:00",
            id="an-afternoon",
        ),
        pytest.param(
            MARKETING,
            "Europe/Berlin",
            "2026-03-28T22:00+01:00",
            "2026-03-29T09:00+02:00",
            "2026-03-29T22:00+02:00",
            id="the-short-night-T2",
        ),
        pytest.param(
            QuietHours(time(22), time(2, 30)),
            "Europe/Berlin",
            "2026-03-28T22:00+01:00",
            "2026-03-29T03:00+02:00",
            "2026-03-29T22:00+02:00",
            id="an-end-that-is-jumped-over-is-the-jumps-T2",
        ),
        pytest.param(
            QuietHours(time(2, 30), time(7)),
            "Europe/Berlin",
            "2026-03-29T03:00+02:00",
            "2026-03-29T07:00+02:00",
            "2026-03-30T02:30+02:00",
            id="a-start-that-is-jumped-over-is-the-jumps-T2",
        ),
        pytest.param(
            QuietHours(time(22), time(2, 30)),
            "Europe/Berlin",
            "2026-10-25T02:29+02:00",
            "2026-10-25T02:30+02:00",
            "2026-10-25T22:00+01:00",
            id="an-end-that-comes-twice-is-its-first-T2",
        ),
        pytest.param(
            QuietHours(time(2, 30), time(7)),
            "Europe/Berlin",
            "2026-10-25T02:15+01:00",
            "2026-10-25T07:00+01:00",
            "2026-10-26T02:30+01:00",
            id="a-start-that-comes-twice-is-its-first-T2",
        ),
        # Samoa's 30 December 2011 never was: its nights touch at the end of the 29th, and the quiet goes on to 09:00.
        pytest.param(
            MARKETING,
            "Pacific/Apia",
            "2011-12-29T23:00-10:00",
            "2011-12-31T09:00+14:00",
            "2011-12-31T22:00+14:00",
            id="the-night-before-a-day-that-never-was",
        ),
    ],
)
def test_within(hours: QuietHours, zone: str, now: str, end: str, next_start: str) -> None:
    found, moment = zone_named(zone, "UTC"), datetime.fromisoformat(now)
    assert hours.contains(moment, found)
    assert hours.end_after(moment, found) == datetime.fromisoformat(end)
    assert not hours.contains(datetime.fromisoformat(end), found)
    assert hours.start_after(moment, found) == datetime.fromisoformat(next_start)


@pytest.mark.parametrize(
    ("hours", "zone", "now", "start"),
    [
        pytest.param(MARKETING, "Europe/Istanbul", "2026-01-15T09:00+03:00", "2026-01-15T22:00+03:00", id="the-end"),
        pytest.param(
            MARKETING, "Europe/Istanbul", "2026-01-15T21:59:59+03:00", "2026-01-15T22:00+03:00", id="just-before"
        ),
        pytest.param(
            QuietHours(time(22), time(2, 30)),
            "Europe/Berlin",
            "2026-10-25T02:15+01:00",
            "2026-10-25T22:00+01:00",
            id="the-second-pass-is-over-T2",
        ),
        pytest.param(
            QuietHours(time(2, 10), time(2, 50)),
            "Europe/Berlin",
            "2026-03-29T03:00+02:00",
            "2026-03-30T02:10+02:00",
            id="a-window-that-is-jumped-over-is-none-T2",
        ),
    ],
)
def test_without(hours: QuietHours, zone: str, now: str, start: str) -> None:
    found, moment = zone_named(zone, "UTC"), datetime.fromisoformat(now)
    assert not hours.contains(moment, found)
    assert hours.start_after(moment, found) == datetime.fromisoformat(start)
    assert hours.contains(datetime.fromisoformat(start), found)


def test_a_window_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="leave them out"):
        QuietHours(time(9), time(9))


ZONES = st.sampled_from(sorted(zone_names())).map(lambda name: zone_named(name, "UTC"))
CENTURY = st.datetimes(datetime(1970, 1, 5), datetime(2070, 1, 5)).map(lambda at: at.replace(tzinfo=UTC))  # noqa: DTZ001
CLOCKS = st.times() | st.sampled_from([time(0), time(2), time(2, 30), time(3), time(23, 59)])


@st.composite
def windows(draw: st.DrawFn) -> QuietHours:
    start, end = draw(CLOCKS), draw(CLOCKS)
    assume(start != end)
    return QuietHours(start, end)


@st.composite
def around_changes(draw: st.DrawFn) -> tuple[ZoneInfo, datetime]:
    """A zone and a moment, most of them within a day of a change of its clocks."""
    zone, at = draw(ZONES), draw(CENTURY)
    later = at + timedelta(days=200)
    if at.astimezone(zone).utcoffset() != later.astimezone(zone).utcoffset():
        low, high = at, later
        while high - low > timedelta(seconds=1):
            middle = low + (high - low) / 2
            same = middle.astimezone(zone).utcoffset() == at.astimezone(zone).utcoffset()
            low, high = (middle, high) if same else (low, middle)
        at = high + draw(st.timedeltas(-DAY, DAY))
    return zone, at


@given(hours=windows() | st.just(MARKETING), where=around_changes())
def test_bounds_are_where_it_begins_and_ends_T2(hours: QuietHours, where: tuple[ZoneInfo, datetime]) -> None:
    zone, now = where
    end, start = hours.end_after(now, zone), hours.start_after(now, zone)
    assert end > now
    assert start > now
    assert not hours.contains(end, zone)
    assert hours.contains(end - INSTANT, zone)
    assert hours.contains(start, zone)
    assert not hours.contains(start - INSTANT, zone)
    assert hours.contains(now, zone) == (end < start)


@given(hours=windows() | st.just(MARKETING), where=around_changes())
def test_away_from_changes_it_is_what_the_wall_clock_says(hours: QuietHours, where: tuple[ZoneInfo, datetime]) -> None:
    zone, now = where
    assume(len({(now + days * DAY).astimezone(zone).utcoffset() for days in (-2, -1, 0, 1, 2)}) == 1)
    wall = now.astimezone(zone).time()
    if hours.start < hours.end:
        assert hours.contains(now, zone) == (hours.start <= wall < hours.end)
    else:
        assert hours.contains(now, zone) == (wall >= hours.start or wall < hours.end)


@given(where=around_changes())
def test_the_marketing_night_is_no_longer_than_a_day(where: tuple[ZoneInfo, datetime]) -> None:
    """The longest is 11 hours and what the clocks go back."""
    zone, now = where
    assume(MARKETING.contains(now, zone))
    assert MARKETING.end_after(now, zone) - now <= DAY


@given(hours=windows(), where=around_changes())
def test_every_night_ends_exactly_once_T2(hours: QuietHours, where: tuple[ZoneInfo, datetime]) -> None:
    """Whoever waits at each end for the next start, and there for the next end, sees them in turn, days apart."""
    zone, now = where
    for _ in range(4):
        start = hours.start_after(now, zone)
        end = hours.end_after(start, zone)
        assert now < start < end
        assert hours.start_after(start, zone) > end
        now = end


@settings(max_examples=25, deadline=None)
@given(now=CENTURY)
def test_in_every_zone_there_is_a_morning(now: datetime) -> None:
    for name in zone_names():
        zone = zone_named(name, "UTC")
        end = MARKETING.end_after(now, zone)
        assert now < end <= now + 2 * DAY
        assert not MARKETING.contains(end, zone)
        assert end < MARKETING.start_after(end, zone) <= end + DAY
