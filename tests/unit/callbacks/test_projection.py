"""What receipts make of a delivery: in any order, any number of times (S6)."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.callbacks.projection import Delivery, Effect, Statement, apply, apply_all
from shared.core.lifecycle import DeliveryStatus, Reason, ReceiptKind, may_become
from shared.core.receipt import Receipt
from shared.core.reference import DeliveryKey

S, K = DeliveryStatus, ReceiptKind
NOW = datetime(2026, 1, 15, 12, tzinfo=UTC)
NOTIFICATION = UUID("019bc000-0000-7000-8000-000000000001")


def delivery(status: DeliveryStatus, *, attempt: int = 1, channel: str = "SMS") -> Delivery:
    return Delivery(
        key=DeliveryKey(NOTIFICATION, channel, b"\x07" * 32),
        status=status,
        reason=Reason.AMBIGUOUS if status is S.UNKNOWN else None,
        attempt=attempt,
        provider="twilio",
        updated_at=NOW - timedelta(minutes=1),
    )


def statement(kind: ReceiptKind, *, attempt: int = 1, channel: str = "SMS", number: int = 0) -> Statement:
    receipt = Receipt(
        key=DeliveryKey(NOTIFICATION, channel, b"\x07" * 32),
        attempt=attempt,
        kind=kind,
        provider_message_id="SM1",
        event_key=f"{kind}{number}",
    )
    return Statement(receipt, "twilio", NOW, f"{kind}:{attempt}:{number}".encode().ljust(32, b"."))


@pytest.mark.parametrize(
    ("before", "kind", "attempt", "after", "effect"),
    [
        pytest.param(delivery(S.SENT), K.PROGRESS, 1, S.SENT, Effect.LOGGED, id="progress-is-only-logged"),
        pytest.param(delivery(S.SENT), K.DELIVERED, 1, S.DELIVERED, Effect.SETTLED, id="delivered"),
        pytest.param(delivery(S.UNKNOWN), K.DELIVERED, 1, S.DELIVERED, Effect.SETTLED, id="unknown-has-arrived"),
        pytest.param(delivery(S.SENT), K.UNDELIVERED, 1, S.FAILED, Effect.SETTLED, id="undelivered"),
        pytest.param(delivery(S.UNKNOWN), K.UNDELIVERED, 1, S.FAILED, Effect.SETTLED, id="unknown-has-not-arrived"),
        pytest.param(delivery(S.SENT, attempt=2), K.UNDELIVERED, 1, S.SENT, Effect.LOGGED, id="older-attempt-failed"),
        pytest.param(delivery(S.SENT, attempt=2), K.DELIVERED, 1, S.DELIVERED, Effect.SETTLED, id="older-one-arrived"),
        pytest.param(delivery(S.SENDING, attempt=0), K.DELIVERED, 1, S.DELIVERED, Effect.SETTLED, id="before-record"),
        pytest.param(delivery(S.PENDING, attempt=0), K.DELIVERED, 1, S.DELIVERED, Effect.SETTLED, id="before-claim"),
        pytest.param(delivery(S.SENDING, attempt=0), K.UNDELIVERED, 1, S.SENDING, Effect.PARKED, id="negative-early"),
        pytest.param(delivery(S.PENDING, attempt=0), K.UNDELIVERED, 1, S.PENDING, Effect.PARKED, id="not-claimed-yet"),
        pytest.param(delivery(S.PENDING, attempt=1), K.UNDELIVERED, 1, S.PENDING, Effect.LOGGED, id="waits-for-retry"),
        pytest.param(delivery(S.DELIVERED), K.UNDELIVERED, 1, S.DELIVERED, Effect.LOGGED, id="never-regresses"),
        pytest.param(delivery(S.DELIVERED), K.PROGRESS, 1, S.DELIVERED, Effect.LOGGED, id="late-progress"),
        pytest.param(delivery(S.FAILED), K.DELIVERED, 1, S.FAILED, Effect.LOGGED, id="failed-is-final"),
        pytest.param(delivery(S.SKIPPED), K.DELIVERED, 1, S.SKIPPED, Effect.LOGGED, id="skipped-is-final"),
    ],
)
def test_one_receipt(before: Delivery, kind: ReceiptKind, attempt: int, after: DeliveryStatus, effect: Effect) -> None:
    result, what = apply(before, statement(kind, attempt=attempt), NOW)

    assert (result.status, what) == (after, effect)
    assert (result is before) == (effect is not Effect.SETTLED)


def test_a_settled_delivery_counts_the_attempt_that_arrived_and_forgets_why_it_was_unknown() -> None:
    result, _ = apply(delivery(S.UNKNOWN, attempt=1), statement(K.DELIVERED, attempt=2), NOW)

    assert (result.attempt, result.reason, result.updated_at) == (2, None, NOW)
    assert result.provider_message_id == "SM1"


def test_an_email_that_bounces_after_it_was_delivered_has_failed_E9() -> None:
    result, _ = apply(delivery(S.DELIVERED, channel="EMAIL"), statement(K.UNDELIVERED, channel="EMAIL"), NOW)

    assert (result.status, result.reason) == (S.FAILED, Reason.BOUNCED)


@given(
    start=st.sampled_from([S.SENT, S.UNKNOWN]),
    final=st.sampled_from([K.DELIVERED, K.UNDELIVERED]),
    extra=st.lists(st.sampled_from([K.PROGRESS]), max_size=4),
    repeats=st.integers(min_value=1, max_value=3),
    data=st.data(),
)
def test_order_and_number_of_receipts_do_not_matter_S6(
    start: DeliveryStatus, final: ReceiptKind, extra: list[ReceiptKind], repeats: int, data: st.DataObject
) -> None:
    statements = [statement(kind, number=i) for i, kind in enumerate([*extra, *[final] * repeats])]
    shuffled = data.draw(st.permutations(statements))

    result, effects = apply_all(delivery(start), shuffled, NOW)

    assert result.status is (S.DELIVERED if final is K.DELIVERED else S.FAILED)
    assert [effect for _, effect in effects].count(Effect.SETTLED) == 1, "one event to our caller"


@given(
    start=st.sampled_from(list(S)),
    attempt=st.integers(min_value=0, max_value=3),
    receipts=st.lists(st.tuples(st.sampled_from(list(K)), st.integers(min_value=1, max_value=4)), max_size=8),
    channel=st.sampled_from(["SMS", "EMAIL", "PUSH"]),
)
def test_only_legal_changes_whatever_comes(
    start: DeliveryStatus, attempt: int, receipts: list[tuple[ReceiptKind, int]], channel: str
) -> None:
    current = delivery(start, attempt=attempt, channel=channel)
    for kind, receipt_attempt in receipts:
        following, _ = apply(current, statement(kind, attempt=receipt_attempt, channel=channel), NOW)
        assert following.status is current.status or may_become(current.status, following.status)
        assert following.attempt >= current.attempt
        current = following


def test_log_ids_are_the_same_for_the_same_statement_and_sort_by_time() -> None:
    first, again = statement(K.DELIVERED), statement(K.DELIVERED)
    later = Statement(first.receipt, "twilio", NOW + timedelta(milliseconds=1), b"\x00" * 32)

    assert first.log_id == again.log_id
    assert first.log_id.version == 7
    assert first.log_id < later.log_id
