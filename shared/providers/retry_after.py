"""`Retry-After`, in either of its forms (RFC 9110 section 10.2.3)."""

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime


def retry_after_sec(value: str | None, now: datetime) -> float | None:
    """Seconds to wait: from a count of seconds or an HTTP date. None if absent or unreadable, never below zero."""
    if value is None:
        return None
    text = value.strip()
    if text.isascii() and text.isdigit():
        return float(text)
    try:
        moment = parsedate_to_datetime(text)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0.0, (moment - now).total_seconds())
