"""How many deliveries may be let go after a pause, and how their time is counted."""

from datetime import UTC, datetime, timedelta

import pytest

from services.relay.release import may_go, used_to

NOW = datetime(2026, 12, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("since_sec", "per_second", "count"),
    [
        pytest.param(1.0, 100.0, 100, id="a-second"),
        pytest.param(0.5, 100.0, 50, id="half-a-second"),
        pytest.param(0.005, 100.0, 0, id="not-one-yet"),
        pytest.param(600.0, 100.0, 200, id="nobody-released-for-ten-minutes"),
        pytest.param(-1.0, 100.0, 0, id="used-up-ahead"),
        pytest.param(2.0, 0.5, 1, id="one-in-two-seconds"),
    ],
)
def test_as_many_as_the_pace_allows(since_sec: float, per_second: float, count: int) -> None:
    assert may_go(NOW - timedelta(seconds=since_sec), NOW, per_second)[0] == count


def test_over_many_rounds_it_is_the_pace_and_no_fraction_is_lost() -> None:
    released_to, total = NOW, 0
    for step in range(1, 101):  # ten seconds, looked at each 0.1 s
        count, since = may_go(released_to, NOW + timedelta(seconds=step / 10), 7.0)
        released_to, total = used_to(since, count, 7.0), total + count
    assert total in {69, 70}
