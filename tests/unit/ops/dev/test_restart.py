"""What dies is started again at once, then ever later, and a long healthy run forgives what was before."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ops.dev.restart import LONGEST_DELAY_SEC, failures_in_a_row, restart_delay_sec


@pytest.mark.parametrize(
    ("failures", "delay_sec"),
    [(0, 0.0), (1, 0.0), (2, 0.5), (3, 1.0), (4, 2.0), (5, 4.0), (6, 8.0), (7, 10.0), (8, 10.0), (10_000, 10.0)],
)
def test_delay(failures: int, delay_sec: float) -> None:
    assert restart_delay_sec(failures) == delay_sec


@given(st.integers(0, 100_000))
def test_delay_never_shrinks_and_is_bounded(failures: int) -> None:
    assert restart_delay_sec(failures) <= restart_delay_sec(failures + 1) <= LONGEST_DELAY_SEC


@pytest.mark.parametrize(
    ("before", "ran_for_sec", "after"),
    [
        pytest.param(0, 0.1, 1, id="first"),
        pytest.param(4, 29.9, 5, id="not-long-enough"),
        pytest.param(4, 30.0, 1, id="long-enough-clears"),
    ],
)
def test_failures_in_a_row(before: int, ran_for_sec: float, after: int) -> None:
    assert failures_in_a_row(before, ran_for_sec) == after
