"""The breaker by itself: when it opens, what goes through meanwhile, how it closes."""

from dataclasses import replace

import pytest

from shared.core.breaker import Breaker, Mark, Phase, Policy, Run, Switch, allow, mark, observe, retry, runs
from shared.core.outcome import (
    Accepted,
    Ambiguous,
    NotSent,
    Outcome,
    Permanent,
    ProviderDown,
    Scope,
    TargetGone,
    Throttled,
    Transient,
)

POLICY = Policy()
NOW = 1_764_572_400_000
OK, FAILED, SLOW, REFUSED = Mark.OK, Mark.FAILED, Mark.SLOW, Mark.REFUSED


def after(*steps: tuple[int, Mark, int], breaker: Breaker | None = None) -> tuple[Breaker, list[Switch]]:
    """The breaker after runs of (milliseconds from NOW, mark, count), each of its phase at the time."""
    found, switches = breaker or Breaker(), []
    for at, said, count in steps:
        found, switch = observe(POLICY, found, NOW + at, since=found.since, seen=[Run(said, count)], detail="503")
        switches += [] if switch is None else [switch]
    return found, switches


def opened() -> Breaker:
    return after((0, FAILED, 10))[0]


@pytest.mark.parametrize(
    ("outcome", "slow", "said"),
    [
        (Accepted("1"), False, OK),
        (Accepted("1"), True, SLOW),
        (Permanent("550"), False, OK),
        (Permanent("BadDeviceToken", dead_letter=False, of_account=True), False, FAILED),
        (TargetGone("410"), False, OK),
        (Transient("503"), False, FAILED),
        (Transient("503"), True, FAILED),
        (Transient("451 greylisted", of_target=True), False, OK),
        (ProviderDown("401"), False, REFUSED),
        (ProviderDown("sender refused", whole_account=False), False, FAILED),
        (Ambiguous("timed out"), False, SLOW),
        (Ambiguous("299", unrecognised=True), False, None),
        (Throttled(Scope.ACCOUNT, "429"), False, None),
        (NotSent("stopping"), False, None),
    ],
)
def test_what_an_outcome_says_about_the_account(outcome: Outcome, said: Mark | None, *, slow: bool) -> None:
    assert mark(outcome, slow=slow) is said


def test_marks_become_runs_in_their_order() -> None:
    assert runs([OK, None, OK, FAILED, FAILED, OK, None]) == (Run(OK, 2), Run(FAILED, 2), Run(OK, 1))


@pytest.mark.parametrize(
    ("steps", "reason"),
    [
        ([(0, FAILED, 9)], None),
        ([(0, FAILED, 10)], "10 failures in a row, the last: 503"),
        ([(0, FAILED, 4), (60_000, FAILED, 6)], "10 failures in a row, the last: 503"),  # in a row, however slowly
        ([(0, FAILED, 9), (1, OK, 1), (2, FAILED, 9)], None),
        ([(0, FAILED, 9), (1, SLOW, 1), (2, FAILED, 1)], "10 failures in a row, the last: 503"),
        ([(0, REFUSED, 1)], "the account is refused, the last: 503"),
        ([(0, OK, 50), *[(1, FAILED, 5), (1, OK, 5)] * 9], None),  # 45 of 140
        ([*[(0, OK, 5), (0, FAILED, 5)] * 9], None),  # half, but of 90 only
        ([*[(0, OK, 5), (0, FAILED, 5)] * 10], "50 of 100 calls failed within 10 s, the last: 503"),
        ([*[(0, OK, 5), (0, FAILED, 5)] * 9, (10_000, OK, 5), (10_000, FAILED, 5)], None),  # the window has moved on
        ([(0, SLOW, 99)], None),
        ([(0, SLOW, 100)], "100 of 100 calls were slow within 10 s, the last: 503"),
        ([(0, OK, 100), (0, SLOW, 99)], None),
        ([(0, OK, 100), (0, SLOW, 100)], "100 of 200 calls were slow within 10 s, the last: 503"),
    ],
)
def test_it_opens_by_row_by_rate_and_at_a_refusal(steps: list[tuple[int, Mark, int]], reason: str | None) -> None:
    breaker, switches = after(*steps)
    if reason is None:
        assert (breaker.phase, switches) == (Phase.CLOSED, [])
    else:
        assert switches == [Switch(Phase.CLOSED, Phase.OPEN, reason)]
        assert breaker.phase is Phase.OPEN
        assert breaker.until == NOW + steps[-1][0] + 300_000


def test_what_came_before_the_switch_says_nothing_about_what_follows() -> None:
    closed = Breaker()
    breaker = opened()
    for seen in (Run(OK, 100), Run(REFUSED, 1)):
        assert observe(POLICY, breaker, NOW + 1, since=closed.since, seen=[seen], detail="") == (breaker, None)


def test_outcomes_behind_the_one_that_opens_it_are_of_the_phase_before() -> None:
    breaker, _ = observe(POLICY, Breaker(), NOW, since=0, seen=[Run(FAILED, 10), Run(OK, 50)], detail="503")
    assert breaker.phase is Phase.OPEN


def test_open_one_lets_nothing_through_for_five_minutes() -> None:
    breaker = opened()
    assert allow(POLICY, breaker, NOW + 299_999, wanted=100, urgent=False) == (breaker, 0, None)
    half_open, granted, switch = allow(POLICY, breaker, NOW + 300_000, wanted=100, urgent=False)
    assert granted == 5
    assert switch == Switch(Phase.OPEN, Phase.HALF_OPEN, "tried again after 300 s")
    assert half_open.since > breaker.since


def test_half_open_one_lets_a_few_through_every_second() -> None:
    half_open, granted, _ = allow(POLICY, opened(), NOW + 300_000, wanted=3, urgent=False)
    assert granted == 3
    assert allow(POLICY, half_open, NOW + 300_999, wanted=100, urgent=True)[1] == 0
    assert allow(POLICY, half_open, NOW + 301_000, wanted=100, urgent=True)[1] == 5  # the probes may be lost


def test_probes_that_work_close_it_and_its_traffic_comes_back_gradually() -> None:
    half_open, _, _ = allow(POLICY, opened(), NOW + 300_000, wanted=100, urgent=False)
    nearly, switches = after((300_100, OK, 4), breaker=half_open)
    assert (nearly.phase, switches) == (Phase.HALF_OPEN, [])
    closed, switches = after((300_200, OK, 1), breaker=nearly)
    assert switches == [Switch(Phase.HALF_OPEN, Phase.CLOSED, "5 probes in a row worked")]
    shares = [closed.share(POLICY, NOW + 300_200 + at) for at in (0, 30_000, 59_999, 60_000, 1_000_000)]
    assert shares == sorted(shares)
    assert shares[0] == pytest.approx(0.1)
    assert shares[1] == pytest.approx(0.55)
    assert shares[2] < 1
    assert shares[3:] == [1.0, 1.0]
    assert not closed.settled(POLICY, NOW + 360_199)
    assert closed.settled(POLICY, NOW + 360_200)


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (FAILED, "a probe failed, the last: 503"),
        (REFUSED, "a probe failed, the last: 503"),
        (SLOW, "a probe was slow, the last: 503"),
    ],
)
def test_probe_that_does_not_work_opens_it_for_another_five_minutes(said: Mark, reason: str) -> None:
    half_open, _, _ = allow(POLICY, opened(), NOW + 300_000, wanted=100, urgent=False)
    again, switches = after((300_100, OK, 4), (300_200, said, 1), breaker=half_open)
    assert switches == [Switch(Phase.HALF_OPEN, Phase.OPEN, reason)]
    assert again.until == NOW + 600_200


def test_what_cannot_wait_tries_an_open_one_every_second() -> None:
    breaker = opened()
    assert allow(POLICY, breaker, NOW + 999, wanted=100, urgent=True)[1] == 0
    tried, granted, switch = allow(POLICY, breaker, NOW + 1000, wanted=100, urgent=True)
    assert (tried.phase, granted, switch) == (Phase.OPEN, 1, None)
    assert allow(POLICY, tried, NOW + 1001, wanted=100, urgent=True)[1] == 0
    still, switches = after((1500, FAILED, 1), breaker=tried)
    assert (still, switches) == (tried, [])  # it is open for no longer than it was
    better, switches = after((1600, OK, 1), breaker=tried)
    assert switches == [Switch(Phase.OPEN, Phase.HALF_OPEN, "a probe worked")]
    assert allow(POLICY, better, NOW + 1600, wanted=100, urgent=False)[1] == 5
    assert after((1700, OK, 4), breaker=better)[0].phase is Phase.CLOSED


def test_operator_who_has_mended_it_lets_it_be_tried_at_once() -> None:
    breaker = retry(opened(), NOW + 5)
    half_open, granted, switch = allow(POLICY, breaker, NOW + 5, wanted=9, urgent=False)
    assert (half_open.phase, granted, switch is not None) == (Phase.HALF_OPEN, 5, True)
    for other in (Breaker(), half_open, breaker):
        assert retry(other, NOW + 6) == other


def test_closed_one_lets_everything_through() -> None:
    assert allow(POLICY, Breaker(), NOW, wanted=1000, urgent=False) == (Breaker(), 1000, None)


def test_no_two_phases_begin_in_the_same_moment() -> None:
    breaker = opened()
    policy = replace(POLICY, open_ms=0)
    half_open, _, _ = allow(policy, replace(breaker, until=0), NOW - 5, wanted=1, urgent=False)
    assert half_open.since == breaker.since + 1


def test_clock_that_went_back_does_not_disturb_the_window() -> None:
    breaker, _ = after((5000, FAILED, 5), (0, OK, 3), (6000, OK, 1))
    numbers = [slot.number for slot in breaker.window]
    assert numbers == sorted(set(numbers))
    assert sum(slot.calls for slot in breaker.window) == 9


def test_when_it_is_worth_another_look() -> None:
    half_open, _, _ = allow(POLICY, opened(), NOW + 300_000, wanted=1, urgent=False)
    assert [each.free_at() for each in (Breaker(), opened(), half_open)] == [0, NOW + 300_000, NOW + 301_000]
