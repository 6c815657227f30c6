"""One mail's outcomes and what they make of its row, by hand-made values."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from services.relay.email.plan import Record, after_attempt, patience_sec, provider_is_down, put_back, refused
from services.relay.email.row import EmailRow
from shared.core.lifecycle import Reason
from shared.core.outcome import (
    Accepted,
    Ambiguous,
    FileUnread,
    NotSent,
    Outcome,
    Permanent,
    ProviderDown,
    Scope,
    TargetGone,
    Throttled,
    Transient,
)
from shared.core.retry import DOUBLING, STEPS, Backoff
from shared.wire.channel import MessageClass

NOW = datetime(2026, 1, 15, 12, 0, tzinfo=UTC)
ROW = EmailRow(
    id=UUID(int=7),
    message_class=MessageClass.TX,
    template="ORDER_SHIPPED",
    type=None,
    locale=None,
    user_id=None,
    recipients=b"{}",
    parameters=b"{}",
    sealed=True,
    attachments=[],
    attempt_count=0,
    outcomes={},
    expires_at=None,
    created_at=NOW - timedelta(seconds=20),
)
YES = Accepted("queue-1")
BUSY = Transient("end 451", not_processed=True)
SLOW = Throttled(Scope.DOMAIN, "end 421 4.7.28")
NO = Permanent("rcpt 550")
GONE = TargetGone("rcpt 550 5.1.1")
DOWN = ProviderDown("auth 535")
UNSENT = NotSent("the lease was too short")


def after(
    *answers: Outcome,
    row: EmailRow = ROW,
    left_out: Mapping[int, Reason] | None = None,
    left_sec: float = 86_400,
    backoff: Backoff = DOUBLING,
    jitter: float = 0.0,
) -> Record:
    """Of a mail whose recipients have these answers, and those with an outcome or left out besides."""
    done = {*row.outcomes, *(left_out or {})}
    positions = [position for position in range(len(answers) + len(done)) if position not in done]
    return after_attempt(
        row,
        dict(zip(positions, answers, strict=True)),
        recipients=len(answers) + len(done),
        left_out=left_out or {},
        provider="smtp",
        expires_at=NOW + timedelta(seconds=left_sec),
        backoff=backoff,
        now=NOW,
        jitter=jitter,
    )


@pytest.mark.parametrize(
    ("answers", "status", "attempts", "rest_sec", "error", "cleared"),
    [
        pytest.param([YES], "SENT", 1, None, None, True, id="accepted"),
        pytest.param([NO], "FAILED", 1, None, "permanent: rcpt 550", True, id="permanent"),
        pytest.param([GONE], "FAILED", 1, None, "target_gone: rcpt 550 5.1.1", True, id="gone"),
        pytest.param([BUSY], "PENDING", 1, 10, "end 451", False, id="transient"),
        pytest.param([Ambiguous("end timed out")], "PENDING", 1, 10, "end timed out", False, id="ambiguous"),
        pytest.param([SLOW], "PENDING", 0, 10, "end 421 4.7.28", False, id="throttled"),
        pytest.param([DOWN], "PENDING", 0, 10, "auth 535", False, id="provider-down"),
        pytest.param([UNSENT], "PENDING", 0, None, "the lease was too short", False, id="not-sent"),
        pytest.param([YES, YES], "SENT", 1, None, None, True, id="all-have-it"),
        pytest.param(
            [YES, NO, GONE],
            "FAILED",
            1,
            None,
            "permanent: 2 of 3 recipients refused: rcpt 550",
            True,
            id="nobody-left-two-refused",
        ),
        pytest.param([YES, BUSY], "PENDING", 1, 10, "end 451", False, id="one-left"),
        pytest.param([NO, BUSY], "PENDING", 1, 10, "end 451", False, id="one-refused-one-left"),
        pytest.param([SLOW, BUSY], "PENDING", 1, 10, "end 421 4.7.28", False, id="one-of-those-left-failed"),
        pytest.param([YES, SLOW], "PENDING", 0, 10, "end 421 4.7.28", False, id="those-left-were-only-throttled"),
    ],
)
def test_what_the_first_attempt_makes_of_a_row(
    answers: list[Outcome],
    status: str,
    attempts: int,
    rest_sec: float | None,
    error: str | None,
    cleared: bool,
) -> None:
    record = after(*answers)
    at = None if rest_sec is None else NOW + timedelta(seconds=rest_sec)
    assert (record.status, record.attempt_count, record.next_attempt_at) == (status, attempts, at)
    assert (record.error, record.cleared) == (error, cleared)
    assert record.provider == "smtp"


def test_a_missing_file_is_nobodys_refusal_and_can_be_mended() -> None:
    """Whoever has the mail keeps that; all others get it once the file is there and the row is requeued."""
    unread = FileUnread("attachment 1 of 1 is missing", permanent=True)
    record = after(unread, unread, row=replace(ROW, attempt_count=1, outcomes={0: "SENT"}))
    assert (record.status, record.reason, record.attempt_count) == ("FAILED", Reason.ATTACHMENT, 2)
    assert (record.outcomes, record.error) == ({0: "SENT"}, "attachment: attachment 1 of 1 is missing")
    assert not record.cleared
    assert record.provider is None, "it was not spoken to"


def test_storage_that_is_away_is_asked_again() -> None:
    record = after(FileUnread("attachment 1 of 1: S3 is away", permanent=False))
    assert (record.status, record.attempt_count, record.outcomes) == ("PENDING", 1, {})
    assert record.error == "attachment 1 of 1: S3 is away"


def test_outcomes_are_those_that_are_final() -> None:
    record = after(YES, NO, GONE, BUSY, SLOW)
    assert record.outcomes == {
        0: "SENT",
        1: "FAILED permanent: rcpt 550",
        2: "FAILED target_gone: rcpt 550 5.1.1",
    }
    assert record.provider_message_id == "queue-1"


def test_earlier_outcomes_count_in_the_end() -> None:
    row = replace(ROW, attempt_count=2, outcomes={0: "SENT", 2: "FAILED target_gone: rcpt 550 5.1.1"})
    record = after(YES, row=row)
    assert (record.status, record.reason, record.attempt_count) == ("FAILED", Reason.TARGET_GONE, 3)
    assert record.error == "target_gone: 1 of 3 recipients refused: rcpt 550 5.1.1"


def test_all_suppressed_is_no_attempt() -> None:
    record = after(left_out={0: Reason.SUPPRESSED, 1: Reason.SUPPRESSED})
    assert (record.status, record.reason, record.attempt_count) == ("FAILED", Reason.SUPPRESSED, 0)
    assert record.error == "suppressed: 2 of 2 recipients refused: suppressed"
    assert record.provider is None
    assert after(left_out={0: Reason.NO_CONSENT}).error == "no_consent"


@pytest.mark.parametrize(("backoff", "last"), [(DOUBLING, 7), (STEPS, 4)], ids=["seed-001", "seed-000"])
def test_the_last_attempt_exhausts_and_keeps_the_parameters(backoff: Backoff, last: int) -> None:
    record = after(BUSY, row=replace(ROW, attempt_count=last), backoff=backoff)
    assert (record.status, record.reason, record.error) == ("FAILED", Reason.EXHAUSTED, "exhausted: end 451")
    assert not record.cleared
    assert record.attempt_count == last + 1
    record = after(BUSY, row=replace(ROW, attempt_count=last - 1), backoff=backoff)
    assert record.status == "PENDING"


def test_exhausted_wins_over_an_earlier_refusal() -> None:
    row = replace(ROW, attempt_count=7, outcomes={0: "FAILED permanent: rcpt 550"})
    record = after(BUSY, YES, row=row)
    assert record.error == "exhausted: 1 of 3 recipients not reached: end 451"
    assert not record.cleared


@pytest.mark.parametrize(
    ("answers", "rest_sec"),
    [
        pytest.param([Throttled(Scope.ACCOUNT, "421", retry_after_sec=300)], 300, id="as-the-provider-said"),
        pytest.param([Throttled(Scope.ACCOUNT, "421", retry_after_sec=2)], 2, id="also-when-that-is-soon"),
        pytest.param([BUSY, Throttled(Scope.TARGET, "421", retry_after_sec=300)], 300, id="later-than-the-back-off"),
        pytest.param(
            [BUSY, Throttled(Scope.TARGET, "421", retry_after_sec=2)], 10, id="never-sooner-than-the-back-off"
        ),
    ],
)
def test_retry_after_is_honoured(answers: list[Outcome], rest_sec: float) -> None:
    assert after(*answers).next_attempt_at == NOW + timedelta(seconds=rest_sec)


@pytest.mark.parametrize(
    ("answer", "left_sec", "reason"),
    [
        pytest.param(BUSY, 10, Reason.EXPIRED, id="retry-at-the-end"),
        pytest.param(SLOW, 10, Reason.EXPIRED, id="patience-at-the-end"),
        pytest.param(
            Throttled(Scope.TARGET, "421", retry_after_sec=300), 299, Reason.EXPIRED, id="told-to-wait-longer"
        ),
        pytest.param(BUSY, 10.1, None, id="just-before"),
    ],
)
def test_nothing_is_planned_at_or_past_the_end(answer: Outcome, left_sec: float, reason: Reason | None) -> None:
    record = after(answer, left_sec=left_sec)
    assert record.reason is reason
    assert record.status == ("PENDING" if reason is None else "FAILED")
    assert record.cleared is (reason is not None)


def test_jitter_goes_on_top_of_the_back_off() -> None:
    assert after(BUSY, jitter=0.8).next_attempt_at == NOW + timedelta(seconds=12)


@pytest.mark.parametrize(
    ("age_sec", "message_class", "wait_sec"),
    [
        pytest.param(0, MessageClass.TX, 10, id="young"),
        pytest.param(400, MessageClass.TX, 100, id="a-quarter-of-its-age"),
        pytest.param(100_000, MessageClass.TX, 640, id="never-more-than-the-longest-delay"),
        pytest.param(100_000, MessageClass.CRITICAL, 10, id="critical"),
    ],
)
def test_patience(age_sec: float, message_class: MessageClass, wait_sec: float) -> None:
    row = replace(ROW, created_at=NOW - timedelta(seconds=age_sec), message_class=message_class)
    assert patience_sec(row, DOUBLING, NOW) == wait_sec


@pytest.mark.parametrize(
    ("reason", "cleared"),
    [
        (Reason.NO_CONSENT, True),
        (Reason.PREFERENCE, True),
        (Reason.EXPIRED, True),
        (Reason.PERMANENT, True),
        (Reason.RENDER, False),
        (Reason.ATTACHMENT, False),
        (Reason.NO_TEMPLATE, False),
        (Reason.UNKNOWN_TYPE, False),
        (Reason.UNSEALABLE, False),
        (Reason.CONFIG, False),
        (Reason.EXHAUSTED, False),
    ],
)
def test_what_a_person_can_mend_keeps_its_parameters(reason: Reason, cleared: bool) -> None:
    record = refused(ROW, reason, "why")
    assert (record.status, record.attempt_count, record.error) == ("FAILED", 0, f"{reason}: why")
    assert record.cleared is cleared
    assert refused(ROW, reason).error == reason


def test_long_errors_are_cut_to_their_column() -> None:
    assert len(refused(ROW, Reason.RENDER, "x" * 1000).error or "") == 256
    assert len(put_back(ROW, "x" * 1000).error or "") == 256


def test_a_row_that_is_put_back_is_as_it_was() -> None:
    record = put_back(ROW)
    assert (record.status, record.attempt_count, record.outcomes) == ("PENDING", 0, {})
    assert (record.next_attempt_at, record.cleared, record.provider) == (None, False, None)


@pytest.mark.parametrize(
    ("outcomes", "down"), [([], False), ([DOWN], True), ([DOWN, DOWN], True), ([DOWN, YES], False), ([BUSY], False)]
)
def test_provider_is_down_when_nothing_else_was_heard(outcomes: list[Outcome], down: bool) -> None:
    assert provider_is_down(outcomes) is down
