"""When what falls into the night goes: cases T1 to T4, and properties over all zones and a century of days."""

from dataclasses import replace
from datetime import UTC, datetime, time, timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.core.quiet_hours import MARKETING, QuietHours
from shared.core.zone import zone_named, zone_names
from shared.decision.facts import Facts, Mode
from shared.decision.rules.quiet_hours import quiet_hours, send_until
from shared.decision.verdict import GO, Defer, Verdict
from shared.wire.channel import PUSH
from tests.unit.shared.decision.sample import FACTS, OTP, SALE, SHIPPED

DAY = timedelta(days=1)
MINUTE = timedelta(minutes=1)


def marketing(now: datetime, zone: str | None, **changes: Any) -> Facts:
    """At `now`, with two days to live; the default zone is Istanbul's."""
    at_once = replace(MARKETING, spread=timedelta())
    facts = replace(FACTS, type=replace(SALE, quiet_hours=at_once), zone=zone, default_zone="Europe/Istanbul")
    return replace(facts, **({"expires_at": now + 2 * DAY} | changes))


@pytest.mark.parametrize(
    ("zone", "now", "until"),
    [
        pytest.param("Europe/Istanbul", "2026-01-15T00:30+03:00", "2026-01-15T09:00+03:00", id="past-midnight-T1"),
        pytest.param("Europe/Istanbul", "2026-01-15T22:00+03:00", "2026-01-16T09:00+03:00", id="at-its-start"),
        pytest.param("Europe/Istanbul", "2026-01-15T21:59:59+03:00", None, id="just-before"),
        pytest.param("Europe/Istanbul", "2026-01-15T09:00+03:00", None, id="at-its-end"),
        pytest.param("Europe/Istanbul", "2026-01-15T06:00+00:00", None, id="Istanbul-is-+03-T3"),
        pytest.param("Europe/Berlin", "2026-03-28T22:00+01:00", "2026-03-29T09:00+02:00", id="short-night-T2"),
        pytest.param("Europe/Berlin", "2026-10-25T02:30+01:00", "2026-10-25T09:00+01:00", id="second-02:30-T2"),
        pytest.param("America/New_York", "2026-01-15T08:00+00:00", "2026-01-15T14:00+00:00", id="the-users-own-night"),
        pytest.param("America/New_York", "2026-01-15T20:00+00:00", None, id="night-in-Istanbul-day-in-New-York"),
        pytest.param(None, "2026-01-15T23:00+03:00", "2026-01-16T09:00+03:00", id="no-zone-is-the-defaults-T4"),
        pytest.param("Mars/Olympus", "2026-01-15T23:00+03:00", "2026-01-16T09:00+03:00", id="nor-is-an-invalid-one-T4"),
        pytest.param("+03:00", "2026-01-15T23:00+03:00", "2026-01-16T09:00+03:00", id="nor-is-an-offset-T3"),
    ],
)
def test_nights(zone: str | None, now: str, until: str | None) -> None:
    moment = datetime.fromisoformat(now)
    verdict = quiet_hours(marketing(moment, zone), PUSH, moment)
    if until is None:
        assert verdict is GO
    else:
        assert isinstance(verdict, Defer)
        assert verdict.until == datetime.fromisoformat(until)


NIGHT = datetime(2026, 1, 15, 23, 0, tzinfo=UTC)
NAP = replace(SHIPPED, quiet_hours=QuietHours(time(22), time(23, 30), timedelta()))


@pytest.mark.parametrize(
    ("facts", "verdict"),
    [
        pytest.param(replace(FACTS, type=SHIPPED), GO, id="transactional-at-any-hour"),
        pytest.param(replace(FACTS, type=OTP), GO, id="security-at-any-hour"),
        pytest.param(replace(FACTS, type=replace(SALE, quiet_hours=None)), GO, id="marketing-that-has-none"),
        pytest.param(replace(FACTS, type=NAP), "2026-01-15T23:30+00:00", id="transactional-that-has-some"),
        pytest.param(replace(FACTS, type=NAP, mode=Mode.TEST), "2026-01-15T23:30+00:00", id="test-keys-wait-as-well"),
    ],
)
def test_types(facts: Facts, verdict: Verdict | str) -> None:
    found = quiet_hours(replace(facts, expires_at=NIGHT + DAY), PUSH, NIGHT)
    assert (found.until == datetime.fromisoformat(str(verdict))) if isinstance(found, Defer) else (found == verdict)


class TestSpread:
    """Nine in the morning of 16 January 2026 in UTC, and the quarter of an hour after it."""

    MORNING = datetime(2026, 1, 16, 9, 0, tzinfo=UTC)

    def until(self, number: int, **changes: Any) -> datetime:
        facts = replace(FACTS, type=SALE, notification_id=UUID(int=number), expires_at=NIGHT + 2 * DAY)
        verdict = quiet_hours(replace(facts, **changes), PUSH, NIGHT)
        assert isinstance(verdict, Defer)
        return verdict.until

    def test_it_is_even(self) -> None:
        minutes = [(self.until(number) - self.MORNING) // MINUTE for number in range(1500)]
        assert set(minutes) == set(range(15))
        assert max(minutes.count(minute) for minute in range(15)) < 150

    def test_a_redelivery_waits_for_the_same_instant(self) -> None:
        facts = replace(FACTS, type=SALE, expires_at=NIGHT + 2 * DAY)
        assert quiet_hours(facts, PUSH, NIGHT) == quiet_hours(facts, PUSH, NIGHT + timedelta(hours=9, minutes=59))

    def test_it_leaves_half_of_what_is_left_to_live(self) -> None:
        minutes = {(self.until(n, expires_at=self.MORNING + 8 * MINUTE) - self.MORNING) // MINUTE for n in range(500)}
        assert minutes == {0, 1, 2, 3}

    def test_it_leaves_half_of_a_short_day(self) -> None:
        short = replace(SALE, quiet_hours=QuietHours(time(9, 10), time(9)))
        minutes = {(self.until(n, type=short) - self.MORNING) // MINUTE for n in range(500)}
        assert minutes == {0, 1, 2, 3, 4}

    def test_what_expires_at_night_is_told_so_by_the_chain(self) -> None:
        assert self.until(1, expires_at=NIGHT + MINUTE) == self.MORNING


@pytest.mark.parametrize(
    ("facts", "until"),
    [
        pytest.param(replace(FACTS, type=SALE, zone="Europe/Istanbul"), "2026-01-15T19:00+00:00", id="its-next-night"),
        pytest.param(replace(FACTS, type=SALE, zone=None), "2026-01-15T22:00+00:00", id="the-default-zones-night"),
        pytest.param(replace(FACTS, type=SHIPPED), None, id="none"),
    ],
)
def test_send_until(facts: Facts, until: str | None) -> None:
    found = send_until(facts, datetime(2026, 1, 15, 12, 0, tzinfo=UTC))
    assert found == (None if until is None else datetime.fromisoformat(until))
    assert found is None or found.tzinfo is UTC


@given(
    name=st.sampled_from(sorted(zone_names())) | st.sampled_from(["Mars/Olympus", "", "+03:00"]) | st.none(),
    now=st.datetimes(datetime(1970, 1, 5), datetime(2070, 1, 5)).map(lambda at: at.replace(tzinfo=UTC)),  # noqa: DTZ001
    spread=st.timedeltas(timedelta(), timedelta(hours=6)),
    left=st.timedeltas(timedelta(seconds=1), 3 * DAY),
    number=st.integers(0, 2**128 - 1),
)
def test_whatever_the_zone_and_day_nobody_is_woken(
    name: str | None, now: datetime, spread: timedelta, left: timedelta, number: int
) -> None:
    """What waits goes outside of the night, after now, and within a day and the spread; what does not wait is outside.

    Not before it expires, unless the night itself is longer.
    """
    hours = replace(MARKETING, spread=spread)
    facts = replace(
        FACTS, type=replace(SALE, quiet_hours=hours), zone=name, expires_at=now + left, notification_id=UUID(int=number)
    )
    verdict, zone = quiet_hours(facts, PUSH, now), zone_named(name, "UTC")
    if isinstance(verdict, Defer):
        assert hours.contains(now, zone)
        assert now < verdict.until <= now + DAY + spread
        assert not hours.contains(verdict.until, zone)
        assert quiet_hours(facts, PUSH, verdict.until) is GO
        night_end = hours.end_after(now, zone)
        assert verdict.until < facts.expires_at or night_end >= facts.expires_at
    else:
        assert verdict is GO
        assert not hours.contains(now, zone)
