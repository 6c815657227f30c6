"""When to try again: tiers, jitter, the end by attempts or by time."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.core.lifecycle import Reason
from shared.core.retry import DOUBLING, STEPS, Backoff, GiveUp, RetryAt, doubling, next_attempt, retry_at, snooze
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


@pytest.mark.parametrize(
    ("backoff", "rests"),
    [
        pytest.param(DOUBLING, [10, 20, 40, 80, 160, 320, 640, None], id="seed-001"),
        pytest.param(STEPS, [30, 120, 600, 600, None], id="seed-000"),
        pytest.param(
            doubling(first_sec=10, cap_sec=3600, max_attempts=12),
            [10, 20, 40, 80, 160, 320, 640, 1280, 2560, 3600, 3600, None],
            id="capped-at-an-hour",
        ),
        pytest.param(doubling(first_sec=10, cap_sec=3600, max_attempts=1), [None], id="one-attempt"),
    ],
)
def test_rests_of_a_backoff_after_each_attempt(backoff: Backoff, rests: list[int | None]) -> None:
    """rests[n] follows attempt n+1; None is the end."""
    for attempts_made, rest in enumerate(rests, start=1):
        decision = retry_at(backoff, attempts_made=attempts_made, expires_at=DAY, now=NOW, jitter=0)
        assert decision == (GiveUp(Reason.EXHAUSTED) if rest is None else NOW + timedelta(seconds=rest))


@pytest.mark.parametrize(
    ("attempts_made", "jitter", "rest_sec"),
    [
        pytest.param(1, 0.0, 10.0, id="none"),
        pytest.param(1, 0.5, 11.25, id="half"),
        pytest.param(3, 0.8, 48.0, id="most"),
        pytest.param(7, 0.25, 680.0, id="last-rest"),
    ],
)
def test_jitter_of_a_backoff_is_that_share_of_a_quarter(attempts_made: int, jitter: float, rest_sec: float) -> None:
    decision = retry_at(DOUBLING, attempts_made=attempts_made, expires_at=DAY, now=NOW, jitter=jitter)
    assert decision == NOW + timedelta(seconds=rest_sec)


def test_jitter_goes_on_top_of_the_cap() -> None:
    """Seed 001: the hour bounds the base; the real rest may be a little longer."""
    backoff = doubling(first_sec=3600, cap_sec=3600, max_attempts=3)
    decision = retry_at(backoff, attempts_made=2, expires_at=DAY, now=NOW, jitter=0.4)
    assert decision == NOW + timedelta(seconds=3960)


@pytest.mark.parametrize(
    ("left_sec", "decision"),
    [
        pytest.param(10, GiveUp(Reason.EXPIRED), id="ends-at-that-moment"),
        pytest.param(10.001, NOW + timedelta(seconds=10), id="ends-after"),
    ],
)
def test_no_retry_of_a_backoff_at_or_after_the_end(left_sec: float, decision: datetime | GiveUp) -> None:
    end = NOW + timedelta(seconds=left_sec)
    assert retry_at(DOUBLING, attempts_made=1, expires_at=end, now=NOW, jitter=0) == decision


@pytest.mark.parametrize(
    ("delays", "attempts"), [((), 3), ((0.0,), 3), ((20.0, 10.0), 3), ((10.0,), 0)], ids=["none", "zero", "fall", "no"]
)
def test_backoffs_that_make_no_sense_are_refused(delays: tuple[float, ...], attempts: int) -> None:
    with pytest.raises(ValueError):
        Backoff(delays, attempts)
