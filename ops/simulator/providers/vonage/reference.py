"""Where a message to Vonage carries the sender's reference."""

from collections.abc import Mapping


def reference(form: Mapping[str, str]) -> str | None:
    """The `client-ref`, which Vonage gives back in replies and receipts."""
    return form.get("client-ref") or None
