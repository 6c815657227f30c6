"""Where a message to Netgsm carries the sender's reference."""

from collections.abc import Mapping
from typing import Any


def reference(body: Mapping[str, Any]) -> str | None:
    """`referansID`, which Netgsm gives back in its reports."""
    found = body.get("referansID")
    return found if isinstance(found, str) else None
