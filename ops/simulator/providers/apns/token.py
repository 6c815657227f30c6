"""APNs provider tokens (Apple, 'Establishing a token-based connection to APNs')."""

from collections import OrderedDict
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final
from weakref import WeakKeyDictionary

import jwt

from ops.simulator.credential import ApnsKey
from ops.simulator.exchange import Connection
from ops.simulator.providers.apns.rule import Refusal

MAX_AGE_SEC: Final = 3600
"""'APNs rejects any token whose timestamp is more than one hour old.'"""
MIN_UPDATE_SEC: Final = 1200
"""'Update the authentication token no more than once every 20 minutes.'"""
CLOCK_SKEW_SEC: Final = 60
_VERIFIED_KEPT: Final = 1000


@dataclass(frozen=True, slots=True)
class _Use:
    token: str
    since: float
    issued_at: int


@dataclass(slots=True)
class ProviderTokens:
    """Verifies `authorization: bearer <JWT>`; a signature is checked once per token, its age at each use."""

    key: ApnsKey
    _verified: OrderedDict[str, int] = field(default_factory=OrderedDict)
    _in_use: WeakKeyDictionary[Connection, _Use] = field(default_factory=WeakKeyDictionary)

    def refusal(self, authorization: str | None, connection: Connection, now: datetime) -> Refusal | None:
        """The reason to refuse the token, or None."""
        scheme, _, token = (authorization or "").partition(" ")
        if scheme.lower() != "bearer" or not token:
            return Refusal("MissingProviderToken")
        issued_at = self._issued_at(token)
        seconds = now.timestamp()
        if issued_at is None or issued_at > seconds + CLOCK_SKEW_SEC:
            return Refusal("InvalidProviderToken")
        if seconds - issued_at > MAX_AGE_SEC:
            return Refusal("ExpiredProviderToken")
        return self._too_often(token, issued_at, connection, seconds)

    def _too_often(self, token: str, issued_at: int, connection: Connection, seconds: float) -> Refusal | None:
        last = self._in_use.get(connection)
        if last is not None and last.token == token:
            return None
        # A change is due, however soon, when the token before it had run out.
        if (
            last is not None
            and seconds - last.since < MIN_UPDATE_SEC
            and issued_at - last.issued_at < MIN_UPDATE_SEC
            and seconds - last.issued_at <= MAX_AGE_SEC
        ):
            return Refusal("TooManyProviderTokenUpdates")
        self._in_use[connection] = _Use(token, seconds, issued_at)
        return None

    def _issued_at(self, token: str) -> int | None:
        """The `iat` of a token that our key signed for our team, else None."""
        known = self._verified.get(token)
        if known is not None:
            return known
        try:
            header = jwt.get_unverified_header(token)
            claims = jwt.decode(
                token,
                self.key.public_key,
                algorithms=["ES256"],
                issuer=self.key.team_id,
                options={"require": ["iss", "iat"], "verify_iat": False, "verify_aud": False, "verify_exp": False},
            )
        except jwt.PyJWTError:
            return None
        issued_at = claims["iat"]
        if header.get("kid") != self.key.key_id or not isinstance(issued_at, int):
            return None
        self._verified[token] = issued_at
        if len(self._verified) > _VERIFIED_KEPT:
            self._verified.popitem(last=False)
        return issued_at
