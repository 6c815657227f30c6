"""When a process that died is started again: at once, then ever later, as Kubernetes does, scaled to a desk."""

from typing import Final

# Kubernetes: at once, then 10 s doubling to 5 minutes, forgotten after 10 minutes of health. A developer is waiting.
FIRST_DELAY_SEC: Final = 0.5
LONGEST_DELAY_SEC: Final = 10.0
STABLE_AFTER_SEC: Final = 30.0
# So many deaths before it was ready even once, and `up` stops waiting for it.
HOPELESS_AFTER: Final = 3


def restart_delay_sec(failures: int) -> float:
    """Seconds to wait after the given number of deaths in a row (1 is the first)."""
    if failures <= 1:
        return 0.0
    return min(LONGEST_DELAY_SEC, FIRST_DELAY_SEC * 2.0 ** min(failures - 2, 16))


def failures_in_a_row(failures: int, ran_for_sec: float) -> int:
    """The count after one more death: a run that lasted long enough clears what was before it."""
    return 1 if ran_for_sec >= STABLE_AFTER_SEC else failures + 1
