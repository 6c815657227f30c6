"""Sealed outbox rows are opened right before they are published, each under its own row's key.

A relay that lacks a key comes second: it leaves due rows that are sealed under it alone for some seconds, in which a
relay that has the key takes them. Only what nobody took it claims, looks for the key once more, and puts back.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from shared.core.sealing import LostKeyError, Purpose, TamperedError, UnknownKeyError, header, open_sealed
from shared.runtime.keyring import KeyRingError, RingSource
from shared.runtime.logs import get_logger

_SHORTEST_WAIT_SEC: Final = 1.0
_LONGEST_WAIT_SEC: Final = 60.0
_KEYS_REMEMBERED: Final = 1000
LEAVE_SEC: Final = 3.0
"""Three times as long as another relay needs to find a row at the latest (`full_scan_sec`)."""

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a row can never be published."""

    error_class: str
    detail: str


@dataclass(frozen=True, slots=True)
class Postponed:
    """Its key is not in this ring, or not yet: to be tried again in so many seconds, here or by another relay."""

    key_id: str
    wait_sec: float


@dataclass(frozen=True, slots=True)
class LeftAlone:
    """What a claim does not take: rows sealed with one of these headers, until they have been due for so long."""

    headers: list[bytes]
    sec: float


def wait_sec(missing_sec: float) -> float:
    """How long rows rest whose key has been missing that long: half as long again, from a second to a minute."""
    return min(max(missing_sec / 2, _SHORTEST_WAIT_SEC), _LONGEST_WAIT_SEC)


class Opener:
    """Belongs to one event loop. clock: a monotonic time in seconds."""

    def __init__(self, rings: RingSource, *, clock: Callable[[], float], leave_sec: float = LEAVE_SEC) -> None:
        """leave_sec: how long rows whose key this relay lacks are left to others once they are due."""
        self._rings = rings
        self._clock = clock
        self._leave_sec = leave_sec
        self._missing_since: dict[str, float] = {}
        self._looked_at = -_SHORTEST_WAIT_SEC

    def open(self, row_id: UUID, sealed: bytes) -> bytes | Refusal | Postponed:
        """The payload. A key that is not there is looked for once more, at most once a second."""
        try:
            try:
                return self._open(row_id, sealed)
            except UnknownKeyError as error:
                if not self._look_again():
                    return self._postponed(error.key_id)
            return self._open(row_id, sealed)
        except UnknownKeyError as error:
            return self._postponed(error.key_id)
        except LostKeyError as error:
            return Refusal("lost_key", str(error))
        except TamperedError as error:
            return Refusal("tampered", str(error))

    def left_alone(self) -> LeftAlone:
        """By the ring of this moment: a key that has come since, or is lost, holds nothing back."""
        ring = self._rings.ring
        lacking = [key_id for key_id in self._missing_since if key_id not in ring.keys and key_id not in ring.lost]
        return LeftAlone([header(key_id) for key_id in lacking], self._leave_sec)

    def _open(self, row_id: UUID, sealed: bytes) -> bytes:
        return open_sealed(self._rings.ring, Purpose.OUTBOX, row_id.bytes, sealed)

    def _look_again(self) -> bool:
        now = self._clock()
        if now - self._looked_at < _SHORTEST_WAIT_SEC:
            return False
        self._looked_at = now
        try:
            changed = self._rings.refresh()
        except KeyRingError as error:
            _log.error("key_ring_not_refreshed", reason=str(error))
            return False
        if changed:
            self._missing_since.clear()
        return changed

    def _postponed(self, key_id: str) -> Postponed:
        if len(self._missing_since) >= _KEYS_REMEMBERED:
            self._missing_since.clear()
        now = self._clock()
        return Postponed(key_id, wait_sec(now - self._missing_since.setdefault(key_id, now)))
