"""Which way a failed e-mail can go again, if it can."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from ops.cli.outbox.verdict import (
    CLEARED,
    EXPIRED,
    FailedEmail,
    LedgerDelivery,
    Stay,
    Way,
    way_by_ledger,
    way_by_table,
)
from shared.core.lifecycle import REPAIRABLE, DeliveryStatus, NotificationState, Reason

NOW = datetime(2026, 1, 15, 12, tzinfo=UTC)
ROW = FailedEmail(
    id=UUID(int=1),
    status="FAILED",
    template="ORDER_SHIPPED",
    type_name="ORDER_SHIPPED",
    error="exhausted: 451",
    notification_id=None,
    has_content=True,
    expires_at=None,
    created_at=NOW - timedelta(hours=1),
)
FAILED = LedgerDelivery(
    DeliveryStatus.FAILED, Reason.EXHAUSTED, NOW + timedelta(hours=1), NotificationState.DECIDED, has_content=True
)
SENT = replace(FAILED, status=DeliveryStatus.SENT, reason=None)
REFUSED = replace(FAILED, reason=Reason.PERMANENT)


@pytest.mark.parametrize(
    ("row", "ttl_hours", "way"),
    [
        (ROW, 2, Way.TABLE),
        (ROW, 1, Stay(EXPIRED)),
        (replace(ROW, expires_at=NOW + timedelta(seconds=1)), 1, Way.TABLE),
        (replace(ROW, expires_at=NOW), 2, Stay(EXPIRED)),
        (replace(ROW, has_content=False), 2, Stay(CLEARED)),
        (replace(ROW, status="PENDING"), 2, Stay("it is PENDING, and only what FAILED goes again")),
        (
            replace(ROW, type_name="OTHER"),
            2,
            Stay("there is no notification type OTHER: `ulak templates push` it first"),
        ),
    ],
)
def test_by_its_table(row: FailedEmail, ttl_hours: int, way: Way | Stay) -> None:
    assert way_by_table(row, {"ORDER_SHIPPED": timedelta(hours=ttl_hours)}, NOW) == way


@pytest.mark.parametrize(
    ("deliveries", "way"),
    [
        ([FAILED], Way.LEDGER),
        ([SENT, REFUSED, FAILED], Way.LEDGER),
        ([replace(FAILED, expires_at=NOW)], Stay(EXPIRED)),
        ([replace(FAILED, state=NotificationState.CANCELLED)], Stay("it was cancelled")),
        ([replace(FAILED, has_content=False)], Stay(CLEARED)),
        ([REFUSED], Stay(CLEARED)),
        ([SENT, REFUSED], Stay(CLEARED)),
        ([replace(SENT, status=DeliveryStatus.UNKNOWN)], Stay(CLEARED)),
        ([SENT, replace(SENT, status=DeliveryStatus.DELIVERED)], Way.FOLLOW),
        ([REFUSED, replace(SENT, status=DeliveryStatus.PENDING)], Way.FOLLOW),
    ],
)
def test_by_the_ledger(deliveries: list[LedgerDelivery], way: Way | Stay) -> None:
    assert way_by_ledger(deliveries, NOW) == way


def test_by_a_ledger_that_has_forgotten_it() -> None:
    assert isinstance(way_by_ledger([], NOW), Stay)


@pytest.mark.parametrize("reason", Reason)
def test_the_reasons_are_those_that_the_ledger_requeues(reason: Reason) -> None:
    assert (way_by_ledger([replace(FAILED, reason=reason)], NOW) is Way.LEDGER) is (reason in REPAIRABLE)
