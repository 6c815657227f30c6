"""The table of states (docs/semantics: section 2), written out here a second time, and what receipts do."""

from itertools import product

import pytest

from shared.core.lifecycle import (
    DELIVERY_TRANSITIONS,
    SETTLED,
    DeliveryStatus,
    ReceiptKind,
    after_receipt,
    may_become,
)

S = DeliveryStatus

LEGAL = {
    ("PENDING", "SENDING"),  # claim
    ("PENDING", "SKIPPED"),  # expired, cancelled, superseded, consent withdrawn, ...
    ("PENDING", "DELIVERED"),  # a positive receipt, whatever the attempt
    ("PENDING", "FAILED"),  # wrong configuration or unsealable, found before the claim
    ("SENDING", "SENT"),  # the provider accepted
    ("SENDING", "PENDING"),  # transient, throttled, provider down, never on the wire, lease ran out
    ("SENDING", "SKIPPED"),  # cancelled or expired meanwhile
    ("SENDING", "FAILED"),  # permanent, target gone, exhausted, render, config
    ("SENDING", "UNKNOWN"),  # ambiguous at most once
    ("SENDING", "DELIVERED"),  # a receipt that overtook the outcome
    ("SENT", "DELIVERED"),
    ("SENT", "FAILED"),  # negative receipt of this attempt
    ("SENT", "PENDING"),  # OTP's step timer
    ("UNKNOWN", "DELIVERED"),
    ("UNKNOWN", "FAILED"),
    ("DELIVERED", "FAILED"),  # e-mail that bounced afterwards (E9)
    ("FAILED", "PENDING"),  # an operator requeues
    ("FAILED", "SKIPPED"),  # an operator requeues, and it has expired
}


@pytest.mark.parametrize(("current", "following"), list(product(S, S)))
def test_transitions(current: DeliveryStatus, following: DeliveryStatus) -> None:
    assert may_become(current, following) is ((current.value, following.value) in LEGAL)


def test_every_status_has_its_line() -> None:
    assert set(DELIVERY_TRANSITIONS) == set(S)


def test_settled_owe_no_hint() -> None:
    assert set(S) - SETTLED == {S.PENDING, S.SENDING}


@pytest.mark.parametrize("current", list(S))
@pytest.mark.parametrize("attempt", [1, 2, 3])
@pytest.mark.parametrize("channel", ["SMS", "EMAIL", "PUSH"])
def test_a_positive_receipt_counts_whatever_its_attempt(current: DeliveryStatus, attempt: int, channel: str) -> None:
    expected = S.DELIVERED if current in {S.PENDING, S.SENDING, S.SENT, S.UNKNOWN} else None
    assert (
        after_receipt(current, ReceiptKind.DELIVERED, receipt_attempt=attempt, current_attempt=2, channel=channel)
        == expected
    )


@pytest.mark.parametrize(
    ("current", "channel", "expected"),
    [
        (S.PENDING, "SMS", None),
        (S.SENDING, "SMS", None),
        (S.SENT, "SMS", S.FAILED),
        (S.SENT, "PUSH", S.FAILED),
        (S.SENT, "EMAIL", S.FAILED),
        (S.UNKNOWN, "SMS", S.FAILED),
        (S.DELIVERED, "EMAIL", S.FAILED),  # E9: delivered, then bounced
        (S.DELIVERED, "SMS", None),  # S6
        (S.DELIVERED, "PUSH", None),
        (S.FAILED, "EMAIL", None),
        (S.SKIPPED, "SMS", None),
    ],
)
def test_a_negative_receipt_of_the_current_attempt(
    current: DeliveryStatus, channel: str, expected: DeliveryStatus | None
) -> None:
    assert (
        after_receipt(current, ReceiptKind.UNDELIVERED, receipt_attempt=2, current_attempt=2, channel=channel)
        == expected
    )


@pytest.mark.parametrize("current", list(S))
@pytest.mark.parametrize("attempt", [1, 3])
def test_a_negative_receipt_of_another_attempt_is_only_logged(current: DeliveryStatus, attempt: int) -> None:
    assert (
        after_receipt(current, ReceiptKind.UNDELIVERED, receipt_attempt=attempt, current_attempt=2, channel="EMAIL")
        is None
    )


@pytest.mark.parametrize("current", list(S))
def test_progress_is_only_logged(current: DeliveryStatus) -> None:
    assert after_receipt(current, ReceiptKind.PROGRESS, receipt_attempt=1, current_attempt=1, channel="SMS") is None


@pytest.mark.parametrize(("current", "kind", "channel"), list(product(S, ReceiptKind, ["SMS", "EMAIL", "PUSH"])))
def test_receipts_make_legal_changes_and_repeating_them_changes_nothing_S6(
    current: DeliveryStatus, kind: ReceiptKind, channel: str
) -> None:
    following = after_receipt(current, kind, receipt_attempt=1, current_attempt=1, channel=channel)
    if following is not None:
        assert may_become(current, following)
        assert after_receipt(following, kind, receipt_attempt=1, current_attempt=1, channel=channel) is None


def test_delivered_then_sent_then_delivered_is_one_change_S6() -> None:
    status, changes = S.SENT, 0
    for kind in (ReceiptKind.DELIVERED, ReceiptKind.PROGRESS, ReceiptKind.DELIVERED):
        following = after_receipt(status, kind, receipt_attempt=1, current_attempt=1, channel="SMS")
        if following is not None:
            status, changes = following, changes + 1
    assert (status, changes) == (S.DELIVERED, 1)
