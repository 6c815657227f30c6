"""Where a message to FCM carries the sender's reference."""

from collections.abc import Mapping


def reference(message: Mapping[str, object]) -> str | None:
    """`data.reference`, where Ulak puts it, else `fcm_options.analytics_label`, else `data.notificationId`."""
    options, data = message.get("fcm_options"), message.get("data")
    candidates = [
        data.get("reference") if isinstance(data, dict) else None,
        options.get("analytics_label") if isinstance(options, dict) else None,
        data.get("notificationId") if isinstance(data, dict) else None,
    ]
    return next((value for value in candidates if isinstance(value, str) and value), None)
