"""Opening rows with the key ring of the moment, looked at again where it lacks a key."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from shared.core.lifecycle import DeliveryStatus
from shared.core.ports import Prepared
from shared.core.sealing import KeyRing
from shared.delivery.prepare import Unprepared, prepare
from shared.delivery.row import DeliveryRow
from shared.runtime.keyring import RingSource

T = TypeVar("T")

Preparation = Callable[[Sequence[DeliveryRow]], Awaitable[Sequence[Prepared | Unprepared]]]
"""Makes rows, in key order, ready for their next attempt; one answer each. Those of one message share an Envelope."""


def refreshing(rings: RingSource, open_with: Callable[[KeyRing], T | Unprepared]) -> T | Unprepared:
    """What is opened with the ring, or with a newer one where there is one and a key was missing."""
    found = open_with(rings.ring)
    if isinstance(found, Unprepared) and found.status is DeliveryStatus.PENDING and rings.refresh():
        return open_with(rings.ring)
    return found


class Opening:
    """The `Preparation` of lanes whose content was rendered before it was stored."""

    def __init__(self, rings: RingSource) -> None:
        self._rings = rings

    async def __call__(self, rows: Sequence[DeliveryRow]) -> Sequence[Prepared | Unprepared]:
        return [self._opened(row) for row in rows]

    def _opened(self, row: DeliveryRow) -> Prepared | Unprepared:
        return refreshing(self._rings, lambda ring: prepare(row, ring))
