"""Where a Web Push message carries the sender's reference."""

from collections.abc import Mapping
from typing import Any


def reference(payload: Mapping[str, Any] | None) -> str | None:
    """`reference` in the payload, which only the browser can read: RFC 8030 has no field for it."""
    found = (payload or {}).get("reference")
    return found if isinstance(found, str) else None
