"""How fast lines may be taken in, all runs of the process together. Pure."""


class Pace:
    """At most so many rows a second, spread evenly: who takes many waits for them the next time."""

    def __init__(self, rows_per_second: int) -> None:
        self._rate = rows_per_second
        self._free_at = 0.0

    def take(self, rows: int, now: float) -> float:
        """Seconds to wait before taking these rows; now as of a clock that never goes back."""
        begins = max(now, self._free_at)
        self._free_at = begins + rows / self._rate
        return begins - now
