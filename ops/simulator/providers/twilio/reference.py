"""Where a message to Twilio carries the sender's reference."""

import urllib.parse


def reference(status_callback: str | None) -> str | None:
    """The query parameter `ref` of the StatusCallback address: Twilio has no field of its own for it."""
    if not status_callback:
        return None
    try:
        query = urllib.parse.parse_qs(urllib.parse.urlsplit(status_callback).query)
    except ValueError:
        return None  # not an address; the rule for StatusCallback refuses it
    return next(iter(query.get("ref", [])), None)
