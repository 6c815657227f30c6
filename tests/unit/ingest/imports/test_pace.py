"""How long to wait before the next lines."""

from hypothesis import given
from hypothesis import strategies as st

from services.ingest.admin.imports.pace import Pace


def test_the_first_goes_at_once_and_the_next_when_it_has_been_paid() -> None:
    pace = Pace(1024)
    assert pace.take(512, now=10.0) == 0
    assert pace.take(512, now=10.125) == 0.375
    assert pace.take(1, now=10.5) == 0.5
    assert pace.take(1024, now=99.0) == 0, "idle time is not saved up: what was not taken is gone"


@given(st.lists(st.tuples(st.integers(1, 1000), st.floats(0, 2)), min_size=1, max_size=50), st.integers(1, 5000))
def test_never_faster_than_the_rate(takes: list[tuple[int, float]], rate: int) -> None:
    pace, now, rows = Pace(rate), 0.0, 0
    for wanted, passed in takes:
        now += passed
        now += pace.take(wanted, now)
        assert rows <= now * rate + 1e-6 * rate, "before these, so many seconds' worth at most"
        rows += wanted
