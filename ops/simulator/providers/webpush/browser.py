"""The browser behind every subscription of the simulator: its keys, and what it reads (RFC 8291)."""

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import http_ece
import orjson
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

_decrypt: Any = http_ece.decrypt  # untyped library


@dataclass(frozen=True, slots=True)
class Browser:
    """One key pair and secret for all subscriptions; only their endpoints differ."""

    key: EllipticCurvePrivateKey
    auth: bytes

    @property
    def p256dh_text(self) -> str:
        point = self.key.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
        return base64.urlsafe_b64encode(point).rstrip(b"=").decode()

    @property
    def auth_text(self) -> str:
        return base64.urlsafe_b64encode(self.auth).rstrip(b"=").decode()

    def read(self, body: bytes) -> Mapping[str, Any] | None:
        """The JSON object of an encrypted body; None for what no browser of ours can read."""
        try:
            value = orjson.loads(_decrypt(body, private_key=self.key, auth_secret=self.auth, version="aes128gcm"))
        except Exception:  # noqa: BLE001 - whatever the library's parser meets in bytes that anybody may send
            return None
        return value if isinstance(value, dict) else None
