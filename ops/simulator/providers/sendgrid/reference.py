"""Where a request to SendGrid carries the sender's reference."""

from collections.abc import Mapping
from typing import Any


def reference(body: Mapping[str, Any]) -> str | None:
    """The custom argument `reference` of the first personalization; each of them has its own."""
    personalizations = body.get("personalizations")
    first = personalizations[0] if isinstance(personalizations, list) and personalizations else None
    arguments = first.get("custom_args") if isinstance(first, dict) else None
    found = arguments.get("reference") if isinstance(arguments, dict) else None
    return found if isinstance(found, str) else None
