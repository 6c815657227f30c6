"""Who we are, for push services (VAPID, RFC 8292): a signed token per push service, by py_vapid."""

from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from py_vapid import Vapid02

LIFE_SEC: Final = 12 * 3600
"""RFC 8292 section 2: at most 24 hours (P10); half of it leaves room for clocks."""
_RENEW_BEFORE_SEC: Final = 3600
_KEPT: Final = 1000
"""Audiences remembered: anybody can register a subscription at a push service of their own."""


class VapidTokens:
    """Authorization headers by push service; each is signed once and used until shortly before it runs out."""

    def __init__(self, key_file: Path, subject: str, clock: Callable[[], float]) -> None:
        """Reads the key; ValueError if the file holds no P-256 key. clock: seconds since the epoch."""
        try:
            key = load_pem_private_key(key_file.read_bytes(), password=None)
        except (ValueError, TypeError) as error:  # no PEM; or a password is needed
            raise ValueError("ULAK_WEBPUSH_VAPID_KEY_FILE holds no private key as PEM without a password") from error
        if not isinstance(key, EllipticCurvePrivateKey) or not isinstance(key.curve, SECP256R1):
            raise ValueError("ULAK_WEBPUSH_VAPID_KEY_FILE holds no key of P-256 (prime256v1)")  # noqa: TRY004  a wrong file, not a wrong type
        self._vapid: Any = Vapid02(key)  # type: ignore[no-untyped-call]  # untyped library
        self._subject = subject
        self._clock = clock
        self._kept: OrderedDict[str, tuple[str, float]] = OrderedDict()

    def authorization(self, audience: str) -> str:
        """The header's value for an origin (`https://push.example`). No claims are shared between two (P10)."""
        known = self._kept.get(audience)
        if known is not None and known[1] > self._clock():
            self._kept.move_to_end(audience)
            return known[0]
        now = self._clock()
        claims = {"aud": audience, "exp": int(now) + LIFE_SEC, "sub": self._subject}
        value: str = self._vapid.sign(claims)["Authorization"]
        self._kept[audience] = (value, now + LIFE_SEC - _RENEW_BEFORE_SEC)
        if len(self._kept) > _KEPT:
            self._kept.popitem(last=False)
        return value
