"""When a delivery whose hours are over may go next: the table."""

from datetime import UTC, datetime, time, timedelta
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest

from shared.core.quiet_hours import MARKETING, QuietHours
from shared.delivery.hours import Hours, next_hours

ISTANBUL = ZoneInfo("Europe/Istanbul")  # +03:00
EXACT = QuietHours(time(22), time(9), timedelta())
EXPIRES = datetime(2026, 11, 12, 12, tzinfo=UTC)
ID = UUID("01890a5d-ac96-774b-bcce-b302099a8057")


def utc(day: int, hour: int, minute: int = 0) -> datetime:
    return datetime(2026, 11, day, hour, minute, tzinfo=UTC)


@pytest.mark.parametrize(
    ("hours", "now", "expires_at", "found"),
    [
        pytest.param(EXACT, utc(10, 19, 5), EXPIRES, Hours(utc(11, 6), utc(11, 19)), id="evening"),
        pytest.param(EXACT, utc(10, 23, 30), EXPIRES, Hours(utc(11, 6), utc(11, 19)), id="after-midnight"),
        pytest.param(EXACT, utc(11, 7), EXPIRES, Hours(utc(11, 7), utc(11, 19)), id="by-day-again"),
        pytest.param(None, utc(10, 19, 5), EXPIRES, Hours(utc(10, 19, 5), None), id="no-quiet-hours-any-more"),
        pytest.param(EXACT, utc(10, 19, 5), utc(11, 2), Hours(utc(11, 2), utc(11, 19)), id="expires-in-the-night"),
    ],
)
def test_next_hours(hours: QuietHours | None, now: datetime, expires_at: datetime, found: Hours) -> None:
    assert next_hours(hours, ISTANBUL, now, expires_at=expires_at, notification_id=ID) == found


def test_the_morning_is_no_stampede() -> None:
    due = {
        next_hours(MARKETING, ISTANBUL, utc(10, 19, 5), expires_at=EXPIRES, notification_id=UUID(int=number)).due
        for number in range(1000)
    }
    assert len(due) > 990
    assert utc(11, 6) <= min(due)
    assert max(due) < utc(11, 6, 15)
