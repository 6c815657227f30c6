"""What a row of the bench table says about itself."""

from dataclasses import replace

import pytest

from bench.__main__ import line
from bench.harness import Result

MEASURED = Result(
    name="start",
    unit="s",
    figure=9.0,
    limit=None,
    ratio=None,
    first=15.0,
    goal=5.0,
    smaller_is_better=True,
    cpu_sec_per_100k=None,
    peak_mib=60.0,
    foreign_load=0.0,
    notes=(),
)


@pytest.mark.parametrize(
    ("ratio", "first", "smaller_is_better", "reached"),
    [
        pytest.param(None, 15.0, True, True, id="a-figure-below-its-bound"),
        pytest.param(None, 9.0, True, True, id="a-figure-at-its-bound"),
        pytest.param(None, 8.0, True, False, id="a-figure-above-its-bound"),
        pytest.param(None, 8.0, False, True, id="a-figure-that-should-be-large"),
        pytest.param(None, None, True, None, id="only-measured"),
        pytest.param(0.6, 0.5, False, True, id="a-ratio-above-its-bound"),
        pytest.param(0.4, 0.5, False, False, id="a-ratio-below-its-bound"),
        pytest.param(4.0, 5.0, True, True, id="a-latency-of-few-limits"),
        pytest.param(6.0, 9.5, True, True, id="the-ratio-counts-where-there-is-one"),
        pytest.param(2.0, None, True, None, id="a-ratio-without-a-bound"),
    ],
)
def test_reached(ratio: float | None, first: float | None, smaller_is_better: bool, reached: bool | None) -> None:
    result = replace(MEASURED, ratio=ratio, first=first, smaller_is_better=smaller_is_better)
    assert result.reached is reached


def test_a_row_without_limit_shows_its_bounds_and_no_cost_per_thing() -> None:
    assert line(MEASURED) == "start          9 s (first 15, goal 5)  reached"


def test_a_row_with_limit_shows_ratio_and_cost() -> None:
    result = replace(
        MEASURED,
        name="push",
        unit="pushes/s",
        figure=8000.0,
        limit=10000.0,
        ratio=0.8,
        first=0.9,
        goal=0.95,
        smaller_is_better=False,
        cpu_sec_per_100k=5.25,
        notes=("a note",),
    )
    assert line(result) == (
        "push           8,000 pushes/s  limit 1e+04  ratio 0.80 (first 0.9, goal 0.95)  NOT REACHED"
        "  5.2 CPU s/100k  60 MiB\n    a note"
    )
