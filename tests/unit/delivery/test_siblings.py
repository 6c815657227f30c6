"""One hint stands for all recipients of a message: what it asks for, whatever has become of each."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from shared.core.lifecycle import DeliveryStatus, Reason
from shared.core.reference import DeliveryKey
from shared.delivery.row import DeliveryRow, Owed
from shared.delivery.siblings import messages, soonest, steps
from shared.delivery.triage import Attempt, Drop, Repeat, Settle, Step, Wait
from shared.wire.channel import DEFAULT_CHANNELS, MessageClass, Promise
from shared.wire.message import DeliveryHint

NOW = datetime(2026, 1, 15, 9, 0, tzinfo=UTC)
LANE = DEFAULT_CHANNELS.lane("email-tx")
S = DeliveryStatus


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


def row(name: str, **changes: Any) -> DeliveryRow:
    base = DeliveryRow(
        key=DeliveryKey(UUID(int=1), "EMAIL", name.encode()),
        status=S.PENDING,
        reason=None,
        message_class=MessageClass.TX,
        promise=Promise.AT_LEAST_ONCE,
        mode="live",
        attempt=0,
        next_attempt_at=ago(100),
        lease_until=None,
        provider=None,
        send_until=None,
        expires_at=NOW + timedelta(hours=6),
        created_at=ago(100),
        updated_at=ago(100),
        content_purpose="email-v1",
    )
    return replace(base, **changes)


def first_hint(name: str = "a") -> DeliveryHint:
    return row(name).hint(attempt=0, not_before=None)


def retry_hint(name: str = "b", *, attempt: int = 1, due_ago: float = 1) -> DeliveryHint:
    """Published by whoever recorded the attempt, for the time the recipient is due again."""
    return row(name).hint(attempt=attempt, not_before=ago(due_ago))


def sent(name: str, *, at: datetime, attempt: int = 1) -> DeliveryRow:
    return row(name, status=S.SENT, attempt=attempt, updated_at=at)


def again(name: str, *, due_ago: float = 1, attempt: int = 1) -> DeliveryRow:
    """Waits for its next attempt; negative: is not due yet."""
    return row(name, attempt=attempt, next_attempt_at=ago(due_ago), updated_at=ago(11))


def wait(found: DeliveryRow, at: datetime, tier_sec: int) -> Wait:
    return Wait(Owed(found.hint(attempt=found.attempt, not_before=at), tier_sec))


def asked(*hints: DeliveryHint, rows: list[DeliveryRow]) -> Mapping[str, Step]:
    return {found.key.target_key.decode(): step for found, step in steps(hints, rows, LANE, NOW)}


SENDING = row("c", status=S.SENDING, lease_until=NOW + timedelta(seconds=25), updated_at=ago(5))
LATER = again("c", due_ago=-40)


@pytest.mark.parametrize(
    ("hint", "rows", "expected"),
    [
        pytest.param(
            first_hint(), [row("a"), row("b"), row("c")], {"a": Attempt(), "b": Attempt(), "c": Attempt()}, id="all-due"
        ),
        pytest.param(first_hint("z"), [row("a"), row("b")], {"a": Attempt(), "b": Attempt()}, id="names-no-row-of-it"),
        pytest.param(
            first_hint(),
            [row("a"), row("b", suppressed=True), row("c", cancelled=True)],
            {"a": Attempt(), "b": Settle(Reason.SUPPRESSED), "c": Settle(Reason.CANCELLED)},
            id="each-has-its-own-refusal",
        ),
        pytest.param(
            first_hint(),
            [row("a"), row("b", status=S.SKIPPED, reason=Reason.SUPPRESSED)],
            {"a": Attempt()},
            id="settled-from-the-start",
        ),
        pytest.param(
            retry_hint(),
            [sent("a", at=ago(11)), again("b"), again("c")],
            {"b": Attempt(), "c": Attempt()},
            id="a-retry-does-not-tell-again-of-those-who-have-it",
        ),
        pytest.param(
            retry_hint(),
            [again("b"), again("c", attempt=0)],
            {"b": Attempt(), "c": Attempt()},
            id="the-others-go-at-their-own-attempt",
        ),
        pytest.param(
            retry_hint(),
            [again("b"), LATER],
            {"b": Attempt(), "c": wait(LATER, NOW + timedelta(seconds=40), 60)},
            id="not-due",
        ),
        pytest.param(
            retry_hint(),
            [again("b"), SENDING],
            {"b": Attempt(), "c": wait(SENDING, NOW + timedelta(seconds=25), 60)},
            id="leased-to-another",
        ),
        pytest.param(
            first_hint(),
            [sent("a", at=ago(2)), sent("b", at=ago(2))],
            {"a": Repeat(), "b": Repeat()},
            id="came-again-after-all-was-settled",
        ),
        pytest.param(
            first_hint(),
            [sent("a", at=ago(2)), row("b")],
            {"a": Repeat(), "b": Attempt()},
            id="came-again-after-some-was-settled",
        ),
        pytest.param(
            retry_hint(due_ago=20),
            [sent("a", at=ago(31)), sent("b", at=ago(15), attempt=2), sent("c", at=ago(15), attempt=2)],
            {"a": Repeat(), "b": Repeat(), "c": Repeat()},
            id="a-retry-that-came-again",
        ),
        pytest.param(
            retry_hint("b", attempt=0),
            [sent("a", at=ago(15)), again("b", due_ago=-4)],
            {"a": Repeat(), "b": wait(again("b", due_ago=-4), NOW + timedelta(seconds=4), 10)},
            id="waited-for-the-lease-of-a-worker-that-died-before-it-told",
        ),
        pytest.param(
            retry_hint(attempt=1),
            [again("b", attempt=3), again("c", attempt=0)],
            {"b": Drop("stale")},
            id="another-hint-speaks-for-it",
        ),
        pytest.param(
            retry_hint(attempt=1),
            [row("b", status=S.DELIVERED, attempt=1, updated_at=ago(5)), again("c")],
            {"b": Repeat(), "c": Attempt()},
            id="a-receipt-settled-the-one-it-names",
        ),
    ],
)
def test_steps(hint: DeliveryHint, rows: list[DeliveryRow], expected: Mapping[str, Step]) -> None:
    assert asked(hint, rows=rows) == expected


def test_one_of_several_hints_that_nobody_told_of_is_enough() -> None:
    rows = [sent("a", at=ago(11)), again("b")]
    assert asked(retry_hint(), first_hint(), rows=rows) == {"a": Repeat(), "b": Attempt()}
    assert asked(retry_hint(), retry_hint(), rows=rows) == {"b": Attempt()}


def test_a_stale_hint_says_nothing_beside_a_live_one() -> None:
    rows = [sent("a", at=ago(11)), again("b", attempt=3)]
    assert asked(retry_hint(attempt=1), retry_hint(attempt=3), rows=rows) == {"b": Attempt()}


def test_messages_are_the_rows_of_requests() -> None:
    single = row("a", content_purpose="content-v1", key=DeliveryKey(UUID(int=2), "EMAIL", b"a"))
    assert messages([row("a"), single, row("b")]) == {UUID(int=1): [row("a"), row("b")]}


def test_the_soonest_hint_stands_for_all() -> None:
    def owed(name: str, after_sec: float, tier_sec: int | None) -> Owed:
        at = None if tier_sec is None else NOW + timedelta(seconds=after_sec)
        return Owed(row(name).hint(attempt=0, not_before=at), tier_sec)

    late, early, at_once = owed("a", 60, 60), owed("b", 10, 10), owed("c", 0, None)
    assert soonest([late, early]) == early
    assert soonest([late, at_once, early]) == at_once
