"""What is refused of a user's words and devices, on every API that takes them."""

from typing import Final

from shared.web.problem import ProblemKind

SECURITY_LOCKED: Final = ProblemKind("security_locked", 422, "Security messages cannot be switched off")
UNKNOWN_TYPE: Final = ProblemKind("unknown_type", 422, "The notification type is unknown")
UNKNOWN_CHANNEL: Final = ProblemKind("unknown_channel", 422, "The channel is unknown")
INVALID_TOKEN: Final = ProblemKind("invalid_device_token", 422, "This cannot be a device's token")
INVALID_SUBSCRIPTION: Final = ProblemKind("invalid_subscription", 422, "This cannot be a Web Push subscription")
DEVICE_NOT_FOUND: Final = ProblemKind("device_not_found", 404, "There is no such device")
