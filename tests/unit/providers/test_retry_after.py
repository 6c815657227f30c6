"""What Retry-After may say (RFC 9110, section 10.2.3)."""

import pytest

from shared.providers.retry_after import retry_after_sec
from tests.unit.providers.answer import NOW


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        ("17", 17.0),
        (" 0 ", 0.0),
        ("Thu, 15 Jan 2026 09:01:30 GMT", 90.0),
        ("Thu, 15 Jan 2026 08:00:00 GMT", 0.0),
        ("soon", None),
        ("-5", None),
        ("", None),
    ],
)
def test_retry_after_in_seconds_and_as_a_date_S7(value: str | None, expected: float | None) -> None:
    assert retry_after_sec(value, NOW) == expected
