"""When to try again: tiers, jitter, the end by attempts or by time."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.core.lifecycle import Reason
from shared.core.retry import GiveUp, RetryAt, next_attempt, snooze
from shared.wire.channel import DEFAULT_CHANNELS, Lane

NOW = datetime(2026, 1, 15, 12, 0, tzinfo=UTC)
DAY = NOW + timedelta(days=1)

LANES = st.sampled_from(DEFAULT_CHANNELS.lanes)
JITTER = st.floats(min_value=0, max_value=1, exclude_max=True)


def lane(name: str) -> Lane:
    return DEFAULT_CHANNELS.lane(name)


@pytest.mark.parametrize(
    ("name", "tiers"),
    [
        pytest.param("otp-sms", [5, 15, 45, None], id="otp"),
        pytest.param("push-critical", [10, 60, 600, 3600, 3600, 3600, 3600, None], id="critical"),
        pytest.param("email-tx", [10, 60, 600, 3600, 3600, 3600, 3600, None], id="tx-repeats-the-last"),
        pytest.param("push-bulk", [600, 3600, None], id="bulk"),
        pytest.param("email-low", [600, 3600, None], id="low"),
    ],
)
def test_tiers_after_each_attempt(name: str, tiers: list[int | None]) -> None:
    """tiers[n] follows attempt n+1; None is the end."""
    for attempts_made, tier in enumerate(tiers, start=1):
        decision = next_attempt(lane(name), attempts_made=attempts_made, expires_at=DAY, now=NOW, jitter=0)
        if tier is None:
            assert decision == GiveUp(Reason.EXHAUSTED)
        else:
            assert decision == RetryAt(tier_sec=tier, at=NOW + timedelta(seconds=tier))


def test_jitter_adds_that_share_of_a_quarter() -> None:
    decision = next_attempt(lane("email-tx"), attempts_made=2, expires_at=DAY, now=NOW, jitter=0.5)
    assert decision == RetryAt(tier_sec=60, at=NOW + timedelta(seconds=67.5))


@given(LANES, st.integers(min_value=1, max_value=12), JITTER)
def test_jitter_never_shortens_and_adds_less_than_a_quarter(chosen: Lane, attempts_made: int, jitter: float) -> None:
    decision = next_attempt(chosen, attempts_made=attempts_made, expires_at=DAY, now=NOW, jitter=jitter)
    if isinstance(decision, RetryAt):
        delay = (decision.at - NOW).total_seconds()
        assert decision.tier_sec <= delay <= decision.tier_sec * 1.25
        assert decision.tier_sec in chosen.tiers


@pytest.mark.parametrize(
    ("left_sec", "decision"),
    [
        pytest.param(9.999, GiveUp(Reason.EXPIRED), id="ends-before"),
        pytest.param(10, GiveUp(Reason.EXPIRED), id="ends-at-that-moment"),
        pytest.param(10.001, RetryAt(10, NOW + timedelta(seconds=10)), id="ends-after"),
    ],
)
def test_no_retry_at_or_after_the_end(left_sec: float, decision: RetryAt | GiveUp) -> None:
    end = NOW + timedelta(seconds=left_sec)
    assert next_attempt(lane("push-tx"), attempts_made=1, expires_at=end, now=NOW, jitter=0) == decision


def test_attempts_and_time_at_their_end_together_is_exhausted() -> None:
    """Exhausted goes to the dead letters, where a person sees that the provider never took it."""
    assert next_attempt(lane("push-tx"), attempts_made=8, expires_at=NOW, now=NOW, jitter=0) == GiveUp(Reason.EXHAUSTED)


@pytest.mark.parametrize(
    ("name", "wait_sec", "tier"),
    [
        pytest.param("otp-sms", 3, 5, id="shortest-that-covers"),
        pytest.param("otp-sms", 5, 5, id="exactly"),
        pytest.param("otp-sms", 5.1, 15, id="next"),
        pytest.param("otp-sms", 300, 45, id="longer-than-all-looks-again"),
        pytest.param("email-bulk", 2, 600, id="bulk"),
    ],
)
def test_snooze_takes_the_shortest_tier_that_covers_the_wait(name: str, wait_sec: float, tier: int) -> None:
    decision = snooze(lane(name), wait_sec=wait_sec, expires_at=DAY, now=NOW)
    assert decision == RetryAt(tier_sec=tier, at=NOW + timedelta(seconds=wait_sec))


def test_snooze_past_the_end_is_expired() -> None:
    end = NOW + timedelta(seconds=30)
    assert snooze(lane("otp-sms"), wait_sec=30, expires_at=end, now=NOW) == GiveUp(Reason.EXPIRED)
    assert isinstance(snooze(lane("otp-sms"), wait_sec=29.9, expires_at=end, now=NOW), RetryAt)


@given(LANES, st.floats(min_value=0, max_value=1e6), st.floats(min_value=0.001, max_value=1e6))
def test_nothing_starts_at_or_after_its_end(chosen: Lane, wait_sec: float, left_sec: float) -> None:
    end = NOW + timedelta(seconds=left_sec)
    for decision in (
        snooze(chosen, wait_sec=wait_sec, expires_at=end, now=NOW),
        next_attempt(chosen, attempts_made=1, expires_at=end, now=NOW, jitter=0),
    ):
        assert decision == GiveUp(Reason.EXPIRED) or (isinstance(decision, RetryAt) and decision.at < end)
