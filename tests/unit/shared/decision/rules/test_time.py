"""Too late (`ttl`) and too early (`schedule`)."""

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.core.lifecycle import Reason
from shared.decision.rules.schedule import schedule
from shared.decision.rules.ttl import ttl
from shared.decision.verdict import GO, Defer, Skip, Verdict
from shared.wire.channel import EMAIL
from tests.unit.shared.decision.sample import FACTS, NOW

INSTANT = timedelta(microseconds=1)
NEVER = timedelta()
EXPIRED = Skip(Reason.EXPIRED)


@pytest.mark.parametrize(
    ("left", "verdict"),
    [
        pytest.param(INSTANT, GO, id="just-in-time"),
        pytest.param(NEVER, EXPIRED, id="at-the-instant-itself"),
        pytest.param(-INSTANT, EXPIRED, id="too-late"),
    ],
)
def test_ttl(left: timedelta, verdict: Verdict) -> None:
    assert ttl(replace(FACTS, expires_at=NOW + left), EMAIL, NOW) == verdict


@pytest.mark.parametrize(
    ("wait", "verdict"),
    [
        pytest.param(None, GO, id="at-once"),
        pytest.param(-INSTANT, GO, id="overdue"),
        pytest.param(NEVER, GO, id="at-its-hour"),
        pytest.param(INSTANT, Defer(NOW + INSTANT, Reason.SCHEDULED), id="too-early"),
    ],
)
def test_schedule(wait: timedelta | None, verdict: Verdict) -> None:
    send_at = None if wait is None else NOW + wait
    assert schedule(replace(FACTS, send_at=send_at), EMAIL, NOW) == verdict


YEARS = st.timedeltas(timedelta(days=-3650), timedelta(days=3650))


@given(send_at=YEARS, left=YEARS, passed=st.timedeltas(NEVER, timedelta(days=3650)))
def test_time_only_brings_the_hour_and_the_end_nearer(send_at: timedelta, left: timedelta, passed: timedelta) -> None:
    facts = replace(FACTS, send_at=NOW + send_at, expires_at=NOW + left)
    if schedule(facts, EMAIL, NOW) == GO:
        assert schedule(facts, EMAIL, NOW + passed) == GO
    if ttl(facts, EMAIL, NOW) == EXPIRED:
        assert ttl(facts, EMAIL, NOW + passed) == EXPIRED
