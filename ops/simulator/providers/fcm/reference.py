"""Where a message to FCM carries the sender's reference."""

from collections.abc import Mapping


def reference(message: Mapping[str, object]) -> str | None:
    """`fcm_options.analytics_label`, else `data.ulakReference`, else `data.notificationId`."""
    options, data = message.get("fcm_options"), message.get("data")
    candidates = [
        options.get("analytics_label") if isinstance(options, dict) else None,
        data.get("ulakReference") if isinstance(data, dict) else None,
        data.get("notificationId") if isinstance(data, dict) else None,
    ]
    return next((value for value in candidates if isinstance(value, str) and value), None)
