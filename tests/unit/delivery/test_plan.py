"""What an outcome does to a delivery: promise by outcome, attempts, ends."""

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.core.lifecycle import SETTLED, DeliveryStatus, Reason, may_become
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
from shared.delivery.plan import Record, patience_sec, plan
from shared.wire.channel import DEFAULT_CHANNELS, MessageClass, Promise
from tests.unit.delivery.test_triage import LANE, NOW, row

S = DeliveryStatus
ONCE, AGAIN = Promise.AT_MOST_ONCE, Promise.AT_LEAST_ONCE


def planned(outcome: Outcome, promise: Promise = ONCE, *, attempt: int = 0, jitter: float = 0.0) -> Record:
    return plan(row(attempt=attempt, promise=promise), outcome, lane=LANE, provider="twilio", now=NOW, jitter=jitter)


@pytest.mark.parametrize(
    ("outcome", "promise", "status", "reason", "attempt", "wait_sec", "tier"),
    [
        pytest.param(Accepted("SM1"), ONCE, S.SENT, None, 1, None, None, id="accepted"),
        pytest.param(Transient("x"), AGAIN, S.PENDING, None, 1, 10, 10, id="transient"),
        pytest.param(Transient("x"), ONCE, S.UNKNOWN, Reason.AMBIGUOUS, 1, None, None, id="perhaps-processed"),
        pytest.param(Transient("x", not_processed=True), ONCE, S.PENDING, None, 1, 10, 10, id="not-processed"),
        pytest.param(Ambiguous("x"), ONCE, S.UNKNOWN, Reason.AMBIGUOUS, 1, None, None, id="ambiguous-once"),
        pytest.param(Ambiguous("x"), AGAIN, S.PENDING, None, 1, 10, 10, id="ambiguous-again"),
        pytest.param(Throttled(Scope.ACCOUNT, "x", 30), ONCE, S.PENDING, None, 0, 30, 60, id="throttled"),
        pytest.param(Throttled(Scope.TARGET, "x"), ONCE, S.PENDING, None, 0, 10, 10, id="throttled-unsaid"),
        pytest.param(ProviderDown("x"), ONCE, S.PENDING, None, 0, 10, 10, id="provider-down"),
        pytest.param(NotSent("x"), ONCE, S.PENDING, None, 0, 0, None, id="not-sent"),
        pytest.param(Permanent("x"), AGAIN, S.FAILED, Reason.PERMANENT, 1, None, None, id="permanent"),
        pytest.param(FileUnread("x", permanent=False), AGAIN, S.PENDING, None, 1, 10, 10, id="file-not-now"),
        pytest.param(
            FileUnread("x", permanent=True), AGAIN, S.FAILED, Reason.ATTACHMENT, 1, None, None, id="file-missing"
        ),
        pytest.param(TargetGone("x"), AGAIN, S.FAILED, Reason.TARGET_GONE, 1, None, None, id="gone"),
    ],
)
def test_outcome(
    outcome: Outcome,
    promise: Promise,
    status: DeliveryStatus,
    reason: Reason | None,
    attempt: int,
    wait_sec: float | None,
    tier: int | None,
) -> None:
    record = planned(outcome, promise)
    assert (record.status, record.reason, record.attempt) == (status, reason, attempt)
    if wait_sec is None:
        assert record.owed is None
        assert record.next_attempt_at is None
    else:
        assert record.owed is not None
        assert record.next_attempt_at == NOW + timedelta(seconds=wait_sec)
        assert (record.owed.tier_sec, record.owed.hint.attempt) == (tier, attempt)


@pytest.mark.parametrize(
    ("message_class", "age_sec", "wait_sec"),
    [
        pytest.param(MessageClass.TX, 0, 10, id="at-least-the-shortest-tier"),
        pytest.param(MessageClass.TX, 40, 10, id="a-quarter-of-40"),
        pytest.param(MessageClass.TX, 4_000, 1_000, id="grows-with-age"),
        pytest.param(MessageClass.TX, 86_400, 3_600, id="at-most-the-longest-tier"),
        pytest.param(MessageClass.CRITICAL, 100, 5, id="a-code-lives-minutes"),
    ],
)
def test_who_does_not_say_how_long_is_asked_ever_less_often(
    message_class: MessageClass, age_sec: float, wait_sec: float
) -> None:
    """A target that always answers "slow down" is not asked every second of the message's life."""
    lane = DEFAULT_CHANNELS.spec("SMS").lane(message_class)
    old = row(created_at=NOW - timedelta(seconds=age_sec), expires_at=NOW + timedelta(days=2))
    assert patience_sec(old, lane, NOW) == wait_sec


@pytest.mark.parametrize(
    ("attempt", "status", "reason", "tier"),
    [
        (0, S.PENDING, None, 10),
        (1, S.PENDING, None, 60),
        (2, S.PENDING, None, 600),
        (3, S.PENDING, None, 3600),
        (6, S.PENDING, None, 3600),
        (7, S.FAILED, Reason.EXHAUSTED, None),
    ],
)
def test_tiers_until_eight_attempts_are_made(
    attempt: int, status: DeliveryStatus, reason: Reason | None, tier: int | None
) -> None:
    record = planned(Transient("451"), AGAIN, attempt=attempt)
    assert (record.status, record.reason) == (status, reason)
    assert (None if record.owed is None else record.owed.tier_sec) == tier
    assert record.dead_letter is (status is S.FAILED)


def test_jitter_lengthens_by_at_most_a_quarter() -> None:
    assert planned(Transient("x"), AGAIN, jitter=0.9999).next_attempt_at < NOW + timedelta(seconds=12.5)  # type: ignore[operator]  # a retry has a time


@pytest.mark.parametrize(
    ("outcome", "attempt"),
    [(Transient("x", not_processed=True), 1), (Throttled(Scope.ACCOUNT, "x", 7200), 0), (ProviderDown("x"), 0)],
)
def test_no_wait_beyond_the_end_of_life(outcome: Outcome, attempt: int) -> None:
    short = row(attempt=0, expires_at=NOW + timedelta(seconds=10))
    record = plan(short, outcome, lane=LANE, provider="twilio", now=NOW, jitter=0.0)
    assert (record.status, record.reason, record.attempt) == (S.SKIPPED, Reason.EXPIRED, attempt)
    assert not record.dead_letter


@pytest.mark.parametrize(
    ("outcome", "dead_letter"),
    [(Permanent("x"), True), (Permanent("x", dead_letter=False), False), (TargetGone("x"), False), (Accepted(), False)],
)
def test_dead_letters_are_what_a_person_must_see(outcome: Outcome, dead_letter: bool) -> None:
    assert planned(outcome).dead_letter is dead_letter


@pytest.mark.parametrize(("scope", "drain_sec"), [(Scope.ACCOUNT, 30.0), (Scope.TARGET, None), (Scope.DOMAIN, None)])
def test_only_an_accounts_throttle_drains_the_account(scope: Scope, drain_sec: float | None) -> None:
    assert planned(Throttled(scope, "x", 30.0)).drain_sec == drain_sec


def test_test_mode_switches_no_address_off() -> None:
    record = plan(row(mode="test"), TargetGone("x"), lane=LANE, provider="simulated", now=NOW, jitter=0.0)
    assert not record.target_gone


def test_bulk_success_is_not_logged_but_its_failures_are() -> None:
    bulk = row(message_class=MessageClass.BULK)
    lane = DEFAULT_CHANNELS.lane("sms-bulk")
    assert plan(bulk, Accepted(), lane=lane, provider="twilio", now=NOW, jitter=0.0).log is None
    assert plan(bulk, Ambiguous("x"), lane=lane, provider="twilio", now=NOW, jitter=0.0).log is not None


OUTCOMES = st.one_of(
    st.builds(Accepted, st.none() | st.text(max_size=10)),
    st.builds(Transient, st.text(max_size=300), st.booleans()),
    st.builds(Throttled, st.sampled_from(Scope), st.text(max_size=10), st.none() | st.floats(0, 1e6)),
    st.builds(Permanent, st.text(max_size=300), st.booleans()),
    st.builds(FileUnread, st.text(max_size=300), st.booleans()),
    st.builds(TargetGone, st.text(max_size=10)),
    st.builds(ProviderDown, st.text(max_size=10)),
    st.builds(Ambiguous, st.text(max_size=10), st.booleans()),
    st.builds(NotSent, st.text(max_size=10)),
)


@given(
    outcome=OUTCOMES,
    promise=st.sampled_from(Promise),
    attempt=st.integers(0, 10),
    jitter=st.floats(0, 1, exclude_max=True),
    left_sec=st.integers(1, 100_000),
    lane=st.sampled_from(DEFAULT_CHANNELS.lanes),
)
def test_every_plan_is_a_legal_change(
    outcome: Outcome, promise: Promise, attempt: int, jitter: float, left_sec: int, lane: object
) -> None:
    lane = DEFAULT_CHANNELS.lane(getattr(lane, "name", ""))
    found = replace(row(), promise=promise, attempt=attempt, expires_at=NOW + timedelta(seconds=left_sec))
    record = plan(found, outcome, lane=lane, provider="p", now=NOW, jitter=jitter)
    assert may_become(S.SENDING, record.status)
    assert (record.owed is None) == (record.status in SETTLED)
    assert record.attempt in {attempt, attempt + 1}
    assert len(record.last_error or "") <= 256
    if promise is ONCE and isinstance(outcome, Ambiguous):
        assert record.status is S.UNKNOWN
    if record.owed is not None and record.owed.hint.not_before is not None:
        assert record.owed.hint.not_before == record.next_attempt_at
        assert record.owed.hint.not_before < found.expires_at
