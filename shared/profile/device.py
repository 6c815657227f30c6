"""A device as it is registered: its token's shape, its keys, and what of it is shown."""

import re
from dataclasses import dataclass, field
from typing import Any, Final

import asyncpg

from shared.core.address import masked, target_key
from shared.core.identifier import DEVICE, public_id
from shared.core.sealing import KeyRing, Purpose, SealError, open_sealed, seal
from shared.core.web_push import InvalidSubscriptionError, WebPushSubscription, parse_subscription
from shared.profile import problem
from shared.profile.model import DeviceBody
from shared.runtime.push_host import Resolve, require_public
from shared.web.problem import INVALID_REQUEST, FieldError, Problem, RefusedError

CHANNEL: Final = "PUSH"
WEB_PUSH: Final = "WEBPUSH"
"""How a browser's subscription is stored: its messages go by another protocol than those of WEB with a token of FCM."""

_APNS_TOKEN: Final = re.compile(r"([0-9A-Fa-f]{2}){32,100}")
"""APNs: hexadecimal of variable length, 32 bytes so far (Apple, "Registering your app with APNs")."""
_FCM_TOKEN: Final = re.compile(r"[A-Za-z0-9_:.-]{20,4096}")


@dataclass(frozen=True, slots=True)
class Device:
    """Checked, not yet sealed. address is what is sent to: a token, or a subscription as JSON; sameness goes by `same`.

    host is that of a Web Push endpoint, which must be looked up before the device is stored. repr shows no address.
    """

    platform: str
    same: str = field(repr=False)
    address: str = field(repr=False)
    app_id: str
    environment: str
    permission: str
    device_id: str | None
    host: str | None = None

    @property
    def active(self) -> bool:
        """Whether it is sent to: a device that may show nothing is remembered, and left alone."""
        return self.permission != "denied"


def device_of(body: DeviceBody, trusted_hosts: frozenset[str]) -> Device | Problem:
    """What a request registers."""
    if (body.token is None) == (body.subscription is None):
        return INVALID_REQUEST("Send either token or subscription.", "token", "subscription")
    if body.token is not None:
        shape = _APNS_TOKEN if body.platform == "IOS" else _FCM_TOKEN
        if not shape.fullmatch(body.token):
            return problem.INVALID_TOKEN(f"Send the token as the {_SOURCE[body.platform]} gave it.", "token")
        # APNs reads both cases of a digit, so one device must not become two.
        token = body.token.lower() if body.platform == "IOS" else body.token
        return _device(body, body.platform, token, token)
    if body.platform != "WEB":
        return INVALID_REQUEST("A subscription is a browser's: send platform WEB, or a token.", "platform")
    assert body.subscription is not None
    keys = body.subscription.keys
    try:
        found = parse_subscription(body.subscription.endpoint, keys.p256dh, keys.auth, trusted_hosts=trusted_hosts)
    except InvalidSubscriptionError as error:
        return _subscription_problem(error)
    return _subscribed(body, found)


async def require_reachable(device: Device, trusted_hosts: frozenset[str], resolve: Resolve) -> None:
    """RefusedError for a browser whose push service is none of the internet; ResolverError."""
    if device.host is None:
        return
    try:
        await require_public(device.host, trusted_hosts, resolve)
    except InvalidSubscriptionError as error:
        raise RefusedError(_subscription_problem(error)) from error


def _subscription_problem(error: InvalidSubscriptionError) -> Problem:
    path = f"subscription.{error.path}"
    return problem.INVALID_SUBSCRIPTION(f"{path}: {error}.", errors=(FieldError(path, str(error)),))


def sealed(ring: KeyRing, device: Device) -> tuple[bytes, bytes]:
    """The device's target key, and its address sealed with it as its row."""
    key = target_key(ring, CHANNEL, device.same)
    return key, seal(ring, Purpose.ADDRESS, key, device.address.encode())


def device_body(row: asyncpg.Record, ring: KeyRing) -> dict[str, Any]:
    """A stored device as its user sees it."""
    platform = "WEB" if row["platform"] == WEB_PUSH else row["platform"]
    return {
        "deviceId": row["device_id"] or public_id(DEVICE, row["id"]),
        "platform": platform,
        "appId": row["app_id"],
        "environment": row["environment"],
        "permission": row["permission"],
        "active": row["active"],
        "token": _masked(row, ring),
        "lastSeen": row["last_seen"],
        "createdAt": row["created_at"],
    }


def _masked(row: asyncpg.Record, ring: KeyRing) -> str:
    if row["platform"] == WEB_PUSH:
        return "…"  # its end is the end of a key, not of a name
    try:
        return masked(CHANNEL, open_sealed(ring, Purpose.ADDRESS, row["token_key"], row["token_sealed"]).decode())
    except SealError:
        return "…"  # under a key that this process does not have: the device is listed all the same


def _device(body: DeviceBody, platform: str, same: str, address: str, host: str | None = None) -> Device:
    return Device(platform, same, address, body.app_id, body.environment, body.permission, body.device_id, host)


def _subscribed(body: DeviceBody, found: WebPushSubscription) -> Device:
    return _device(body, WEB_PUSH, found.endpoint, found.json().decode(), found.host)


_SOURCE: Final = {"IOS": "system (APNs)", "ANDROID": "Firebase SDK", "WEB": "Firebase SDK"}
