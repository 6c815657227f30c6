"""The provider token: one JWT shared by every connection (case P4)."""

from collections.abc import Callable
from typing import Final

import jwt

REFRESH_AFTER_SEC: Final = 40 * 60
"""Apple, "Establishing a token-based connection": not more than every 20 minutes, not less than every 60."""
MIN_AGE_SEC: Final = 20 * 60


class ProviderToken:
    """ES256 JWT of one key, made again after 40 minutes, or once when Apple says it has expired."""

    def __init__(self, *, key_pem: str, key_id: str, team_id: str, clock: Callable[[], float]) -> None:
        """key_pem: the .p8's text. clock: seconds since 1970. Raises jwt.InvalidKeyError for what is no EC key."""
        self._key: Final = jwt.get_algorithm_by_name("ES256").prepare_key(key_pem)
        self._key_id: Final = key_id
        self._team_id: Final = team_id
        self._clock: Final = clock
        self._token = ""
        self._made_at = float("-inf")

    def current(self) -> str:
        """The token to send with."""
        now = self._clock()
        if not now - self._made_at < REFRESH_AFTER_SEC:
            self._make(now)
        return self._token

    def renewed(self, refused: str) -> str | None:
        """After `ExpiredProviderToken` for the token `refused`: another one, or None if a new one would change nothing.

        A hundred requests that were refused together lead to one new token. One refused while young means that our
        clock or the key is wrong, and Apple punishes more than one update in 20 minutes.
        """
        if refused != self._token:
            return self._token
        now = self._clock()
        if now - self._made_at < MIN_AGE_SEC:
            return None
        self._make(now)
        return self._token

    def _make(self, now: float) -> None:
        self._token = jwt.encode(
            {"iss": self._team_id, "iat": int(now)}, self._key, algorithm="ES256", headers={"kid": self._key_id}
        )
        self._made_at = now
