from datetime import UTC, datetime, timedelta

from services.relay.scan import OLDEST, ScanPlan

NOON = datetime(2026, 1, 15, 12, tzinfo=UTC)
OVERLAP = timedelta(seconds=2)


def test_starts_with_a_full_scan() -> None:
    assert ScanPlan(full_every_sec=1).floor(at=100.0) == OLDEST


def test_between_full_scans_reading_starts_shortly_before_the_newest_row() -> None:
    plan = ScanPlan(full_every_sec=1)
    plan.claimed(floor=OLDEST, newest=NOON, full=False, at=100.0, took_sec=0.001)

    assert plan.floor(at=100.5) == NOON - OVERLAP
    assert plan.floor(at=101.0) == OLDEST


def test_slow_full_scans_come_seldom_O6() -> None:
    """Under a long transaction a full scan takes long: at most a twentieth of the time goes into them."""
    plan = ScanPlan(full_every_sec=1)
    plan.claimed(floor=OLDEST, newest=NOON, full=False, at=100.0, took_sec=2.0)

    assert plan.floor(at=139.9) == NOON - OVERLAP
    assert plan.floor(at=140.0) == OLDEST


def test_many_rows_that_became_visible_late_are_read_on_from_where_they_are_O1() -> None:
    plan = ScanPlan(full_every_sec=1)
    plan.claimed(floor=OLDEST, newest=NOON, full=False, at=100.0, took_sec=0.001)
    an_hour_ago = NOON - timedelta(hours=1)
    plan.claimed(floor=OLDEST, newest=an_hour_ago, full=True, at=101.0, took_sec=0.001)

    assert plan.floor(at=101.1) == an_hour_ago - OVERLAP

    plan.claimed(floor=an_hour_ago - OVERLAP, newest=an_hour_ago, full=False, at=101.2, took_sec=0.001)
    assert plan.floor(at=101.3) == NOON - OVERLAP


def test_an_empty_claim_keeps_the_position() -> None:
    plan = ScanPlan(full_every_sec=1)
    plan.claimed(floor=OLDEST, newest=NOON, full=False, at=100.0, took_sec=0.001)
    plan.claimed(floor=NOON - OVERLAP, newest=None, full=False, at=100.2, took_sec=0.001)

    assert plan.floor(at=100.3) == NOON - OVERLAP
