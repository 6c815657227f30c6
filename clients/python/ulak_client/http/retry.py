"""When a call is tried again. Pure: the time and the jitter come in as arguments."""

from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """At most `tries`, none begun `total_sec` or later after the first; a try begun in time may take its timeouts.

    Between them what Ulak asks for (Retry-After) and base_sec, doubled with each, up to cap_sec; of this a random half
    is left out, so that callers who failed together do not come back together. tries=1: never again.
    """

    tries: int = 5
    total_sec: float = 30.0
    base_sec: float = 0.2
    cap_sec: float = 5.0

    def __post_init__(self) -> None:
        if self.tries < 1 or min(self.total_sec, self.base_sec, self.cap_sec) < 0:
            raise ValueError("a retry policy has at least one try and no negative time")

    def wait_sec(self, tried: int, asked_sec: float | None, jitter: float) -> float:
        """Seconds before the next try, after `tried` of them; jitter from 0 to 1."""
        backoff: float = min(self.cap_sec, self.base_sec * 2 ** (tried - 1))
        return (asked_sec or 0.0) + backoff * (0.5 + jitter / 2)


def retry_after_sec(value: str | None, now: datetime) -> float | None:
    """`Retry-After` in seconds, from a count or an HTTP date (RFC 9110 section 10.2.3); None if there is none."""
    if value is None:
        return None
    text = value.strip()
    if text.isascii() and text.isdigit():
        return float(text)
    try:
        moment = parsedate_to_datetime(text)
    except ValueError:
        return None
    return max(0.0, (moment.replace(tzinfo=moment.tzinfo or UTC) - now).total_seconds())
