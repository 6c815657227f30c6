"""Web Push subscriptions (RFC 8030, 8291): what one is, and which endpoints may be called (P12). Pure.

An endpoint is a URL that a browser hands us, and that we call later: without a check, anybody could have us call
addresses of our own network.
"""

import base64
import binascii
import ipaddress
import re
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

import orjson
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePublicKey

_HOST: Final = re.compile(r"(?=.{4,253}$)([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z][a-z0-9-]{0,61}[a-z0-9]")
_BASE64URL: Final = re.compile(r"[A-Za-z0-9_-]+={0,2}")
_AUTH_BYTES: Final = 16
_POINT_BYTES: Final = 65
_NAT64: Final = ipaddress.ip_network("64:ff9b::/96")

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class InvalidSubscriptionError(ValueError):
    """What is wrong with a subscription, without anything of it; path names the field."""

    def __init__(self, path: str, detail: str) -> None:
        super().__init__(detail)
        self.path = path


@dataclass(frozen=True, slots=True)
class WebPushSubscription:
    """A checked one. host is that of the endpoint, with its port where it is not 443; repr shows no endpoint or key."""

    endpoint: str = field(repr=False)
    p256dh: str = field(repr=False)
    auth: str = field(repr=False)
    host: str

    def json(self) -> bytes:
        """As it is sealed: what a browser's `PushSubscription.toJSON()` says, without the expiration."""
        return orjson.dumps({"endpoint": self.endpoint, "keys": {"p256dh": self.p256dh, "auth": self.auth}})


def parse_subscription(
    endpoint: str, p256dh: str, auth: str, *, trusted_hosts: frozenset[str] = frozenset()
) -> WebPushSubscription:
    """Check its form; InvalidSubscriptionError. Whether the host is public, a look-up must tell (`is_public`).

    trusted_hosts: hosts, with a port where it is not 443, that may also be an address or stand on another port.
    """
    host = _host(endpoint, trusted_hosts)
    point = _decoded("keys.p256dh", p256dh, _POINT_BYTES)
    try:
        EllipticCurvePublicKey.from_encoded_point(SECP256R1(), point)
    except ValueError:
        raise InvalidSubscriptionError("keys.p256dh", "not a point on P-256: give the browser's own") from None
    secret = _decoded("keys.auth", auth, _AUTH_BYTES)
    return WebPushSubscription(endpoint, _encoded(point), _encoded(secret), host)


def is_public(address: Address) -> bool:
    """Whether an address is one of the internet: also behind the ways in which IPv6 wraps an IPv4 address."""
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return is_public(address.ipv4_mapped)
        if address.sixtofour is not None:
            return is_public(address.sixtofour)
        if address.teredo is not None:
            return False
        if address in _NAT64:
            return is_public(ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF))
    return address.is_global and not address.is_multicast and not address.is_reserved


def _host(endpoint: str, trusted_hosts: frozenset[str]) -> str:
    try:
        parts = urlsplit(endpoint)
        port = parts.port
    except ValueError:
        raise InvalidSubscriptionError("endpoint", "not a URL: give the browser's own") from None
    if parts.scheme != "https" or not endpoint.isascii() or not endpoint.isprintable() or " " in endpoint:
        raise InvalidSubscriptionError("endpoint", "not an https URL: give the browser's own")
    if "@" in parts.netloc or "\\" in endpoint or parts.fragment:
        raise InvalidSubscriptionError("endpoint", "neither a user nor a fragment stands in an endpoint")
    host = parts.hostname or ""
    shown = host if port in {None, 443} else f"{host}:{port}"
    if shown in trusted_hosts:
        return shown
    if port not in {None, 443}:
        raise InvalidSubscriptionError("endpoint", "push services listen on port 443")
    if not _HOST.fullmatch(host):
        raise InvalidSubscriptionError("endpoint", "the host is not a public name: give the browser's own endpoint")
    return host


def _decoded(path: str, text: str, size: int) -> bytes:
    try:
        value = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)) if _BASE64URL.fullmatch(text) else b""
    except (binascii.Error, ValueError):
        value = b""
    if len(value) != size:
        raise InvalidSubscriptionError(path, f"not {size} bytes in base64url: give the browser's own")
    return value


def _encoded(value: bytes) -> str:
    return base64.urlsafe_b64encode(value).rstrip(b"=").decode()
