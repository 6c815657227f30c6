"""Who a token speaks for: JSON Web Tokens (RFC 7519), read by the rules of RFC 8725.

Which algorithms are believed goes by where the key comes from, never by what the token says: a secret is for HS256
alone, a JWKS for the asymmetric ones alone, so that nobody can sign with a public key as if it were a secret.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

import jwt
from jwt import PyJWK
from jwt.exceptions import PyJWTError

from shared.runtime.error import OperatorError

_MAX_BYTES: Final = 8 * 1024
_LONGEST_SUBJECT: Final = 128
_LONG: Final = 2**63
_REQUIRED: Final = ["exp", "iss", "aud", "sub"]


class KeysUnavailableError(OperatorError):
    """The signer's keys could not be read, and none are remembered."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Whom a token speaks for: the user's external id; and until when, in seconds since the epoch."""

    user: str
    expires_at: float


class Keys(Protocol):
    """Where the key of a token is found."""

    async def find(self, header: Mapping[str, Any]) -> tuple[PyJWK | bytes, str] | None:
        """The key for a token of this header, and the one algorithm that it is believed with; None: there is none.

        Raises KeysUnavailableError.
        """


class SecretKeys:
    """One secret, shared with the signer."""

    ALGORITHM: Final = "HS256"

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    async def find(self, header: Mapping[str, Any]) -> tuple[PyJWK | bytes, str] | None:
        return (self._secret, self.ALGORITHM) if header.get("alg") == self.ALGORITHM else None


class TokenReader:
    """Checks signature, `iss`, `aud`, `exp`, `nbf` and `sub`. Nothing of a token is ever logged or quoted."""

    def __init__(self, keys: Keys, *, issuer: str, audience: str, leeway_sec: float) -> None:
        self._keys = keys
        self._issuer = issuer
        self._audience = audience
        self._leeway_sec = leeway_sec

    async def read(self, token: str) -> Identity | None:
        """Whom it speaks for, or None for anything that is not a valid token. Raises KeysUnavailableError."""
        if len(token) > _MAX_BYTES:
            return None
        try:
            found = await self._keys.find(jwt.get_unverified_header(token))
            if found is None:
                return None
            key, algorithm = found
            claims = jwt.decode(
                token,
                key,
                algorithms=[algorithm],
                issuer=self._issuer,
                audience=self._audience,
                leeway=self._leeway_sec,
                options={"require": _REQUIRED, "verify_sub": False},  # an integer is taken too, see below
            )
            user = _subject(claims["sub"])
            return None if user is None else Identity(user, float(claims["exp"]))
        except (PyJWTError, ValueError, TypeError, OverflowError):  # the last three: odd numbers in a signed token
            return None


def _subject(value: object) -> str | None:
    """The user's id: a string of 1 to 128 printable characters, or an integer in its decimal form (data.md)."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value) if -_LONG <= value < _LONG else None
    if isinstance(value, str) and 0 < len(value) <= _LONGEST_SUBJECT and not any(map(_is_control, value)):
        return value
    return None


def _is_control(character: str) -> bool:
    return character < " " or character == "\x7f"
