"""Push: the platform of the device names the providers its token is of."""

from typing import Final

from services.workers.strategy import Strategy

PUSH: Final = Strategy("PUSH", {"": "fcm", "IOS": "apns", "ANDROID": "fcm", "WEB": "fcm", "WEBPUSH": "webpush"})
"""WEB has a token of FCM, WEBPUSH a subscription."""
