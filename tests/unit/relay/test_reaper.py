from datetime import UTC, datetime, timedelta

import pytest

from services.relay.reaper import Ruling, rule
from shared.core.lifecycle import DELIVERY_TRANSITIONS, DeliveryStatus, Reason
from shared.wire.channel import Promise

NOW = datetime(2026, 1, 15, 12, tzinfo=UTC)
LATER = NOW + timedelta(minutes=3)
ONCE, AGAIN = Promise.AT_MOST_ONCE, Promise.AT_LEAST_ONCE
UNKNOWN = Ruling(DeliveryStatus.UNKNOWN, Reason.AMBIGUOUS)


@pytest.mark.parametrize(
    ("promise", "attempts_made", "cancelled", "expires_at", "ruling"),
    [
        pytest.param(AGAIN, 1, False, LATER, Ruling(DeliveryStatus.PENDING), id="sent-again"),
        pytest.param(AGAIN, 7, False, LATER, Ruling(DeliveryStatus.PENDING), id="one-attempt-left"),
        pytest.param(AGAIN, 8, False, LATER, Ruling(DeliveryStatus.FAILED, Reason.EXHAUSTED), id="no-attempt-left"),
        pytest.param(AGAIN, 1, True, LATER, Ruling(DeliveryStatus.SKIPPED, Reason.CANCELLED), id="cancelled-meanwhile"),
        pytest.param(AGAIN, 1, False, NOW, Ruling(DeliveryStatus.SKIPPED, Reason.EXPIRED), id="expired-this-moment"),
        pytest.param(ONCE, 1, False, LATER, UNKNOWN, id="at-most-once"),
        pytest.param(ONCE, 1, True, NOW, UNKNOWN, id="at-most-once-it-may-have-gone-out-all-the-same"),
    ],
)
def test_a_lease_that_ran_out(
    promise: Promise, attempts_made: int, cancelled: bool, expires_at: datetime, ruling: Ruling
) -> None:
    assert ruling == rule(
        promise=promise,
        attempts_made=attempts_made,
        max_attempts=8,
        cancelled=cancelled,
        expires_at=expires_at,
        now=NOW,
    )
    assert ruling.status in DELIVERY_TRANSITIONS[DeliveryStatus.SENDING]
