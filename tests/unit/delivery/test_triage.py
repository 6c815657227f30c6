"""What a hint asks for, seen its row: the whole table."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from shared.core.lifecycle import SETTLED, DeliveryStatus, Reason
from shared.core.reference import DeliveryKey
from shared.delivery.row import DeliveryRow, Owed
from shared.delivery.triage import Attempt, Drop, PutOff, Repeat, Settle, Step, Wait, triage
from shared.wire.channel import DEFAULT_CHANNELS, MessageClass, Promise

NOW = datetime(2026, 1, 15, 9, 0, tzinfo=UTC)
LANE = DEFAULT_CHANNELS.lane("sms-tx")
S = DeliveryStatus


def row(**changes: Any) -> DeliveryRow:
    base = DeliveryRow(
        key=DeliveryKey(UUID(int=1), "SMS", b"k" * 32),
        status=S.PENDING,
        reason=None,
        message_class=MessageClass.TX,
        promise=Promise.AT_MOST_ONCE,
        mode="live",
        attempt=1,
        next_attempt_at=NOW,
        lease_until=None,
        provider=None,
        send_until=None,
        expires_at=NOW + timedelta(hours=6),
        created_at=NOW,
        updated_at=NOW,
    )
    return replace(base, **changes)


def wait(after_sec: float, tier_sec: int, *, attempt: int = 1) -> Wait:
    at = NOW + timedelta(seconds=after_sec)
    return Wait(Owed(row().hint(attempt=attempt, not_before=at), tier_sec))


@pytest.mark.parametrize(
    ("found", "hint_attempt", "step"),
    [
        pytest.param(None, 1, Drop("missing"), id="no-row"),
        pytest.param(row(), 1, Attempt(), id="due"),
        pytest.param(row(), 2, Drop("stale"), id="from-the-future"),
        pytest.param(row(attempt=3), 1, Drop("stale"), id="two-behind"),
        pytest.param(row(attempt=2), 1, wait(10, 10, attempt=2), id="one-behind-may-be-all-there-is"),
        pytest.param(row(next_attempt_at=NOW + timedelta(seconds=45)), 1, wait(45, 60), id="waits-in-a-tier"),
        pytest.param(row(next_attempt_at=NOW + timedelta(hours=3)), 1, wait(10800, 3600), id="beyond-the-longest-tier"),
        pytest.param(
            row(status=S.SENDING, lease_until=NOW + timedelta(seconds=25)), 1, wait(25, 60), id="leased-to-another"
        ),
        pytest.param(
            row(status=S.SENDING, lease_until=NOW - timedelta(seconds=5)), 1, wait(10, 10), id="lease-not-reaped-yet"
        ),
        pytest.param(row(expires_at=NOW), 1, Settle(Reason.EXPIRED), id="expired-to-the-second"),
        pytest.param(row(expires_at=NOW + timedelta(microseconds=1)), 1, Attempt(), id="not-yet-expired"),
        pytest.param(row(cancelled=True), 1, Settle(Reason.CANCELLED), id="cancelled"),
        pytest.param(row(cancelled=True, expires_at=NOW), 1, Settle(Reason.CANCELLED), id="cancel-names-the-reason"),
        pytest.param(row(allowed=False, mode="team"), 1, Settle(Reason.NOT_ON_ALLOW_LIST), id="team"),
        pytest.param(row(suppressed=True), 1, Settle(Reason.SUPPRESSED), id="suppressed"),
        pytest.param(row(suppressed=True, mode="test"), 1, Attempt(), id="test-mode-knows-no-suppression"),
        pytest.param(row(withdrawn=True), 1, Settle(Reason.PREFERENCE), id="withdrawn-C5"),
        pytest.param(
            row(expires_at=NOW, next_attempt_at=NOW + timedelta(hours=1)),
            1,
            Settle(Reason.EXPIRED),
            id="waits-too-long",
        ),
        pytest.param(row(send_until=NOW), 1, PutOff(), id="allowed-hours-over"),
        pytest.param(row(send_until=NOW + timedelta(seconds=1)), 1, Attempt(), id="allowed-hours"),
        *(pytest.param(row(status=status), 1, Repeat(), id=f"settled-{status}") for status in sorted(SETTLED)),
        pytest.param(row(status=S.SENT, attempt=7), 0, Repeat(), id="settled-whatever-the-attempt"),
    ],
)
def test_triage(found: DeliveryRow | None, hint_attempt: int, step: Step) -> None:
    hint = row().hint(attempt=hint_attempt, not_before=None)
    assert triage(hint, found, LANE, NOW) == step
