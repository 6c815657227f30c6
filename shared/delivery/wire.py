"""How much of a lane is claimed for one provider at once, over all its batches."""

import asyncio
from typing import NamedTuple
from uuid import UUID


class Claim(NamedTuple):
    """Rows that are ours until `lease_end` on the monotonic clock."""

    id: UUID
    lease_end: float


class Wire:
    """So many places; a claim takes its places before it is made and leaves them when its sends have ended.

    So what is claimed stays bounded by what the provider takes, however many batches are in flight: a kill makes no
    more at-most-once deliveries UNKNOWN than there are places (semantics.md section 3).
    """

    def __init__(self, places: int) -> None:
        self._places = places
        self._free = places
        self._changed = asyncio.Condition()

    async def take(self, wanted: int) -> "Places":
        """Between 1 and `wanted` places, as soon as a fair part is free: single ones would make single claims."""
        part = min(wanted, max(1, self._places // 4))
        async with self._changed:
            await self._changed.wait_for(lambda: self._free >= part)
            count = min(wanted, self._free)
            self._free -= count
        return Places(self, count)

    async def _give_back(self, count: int) -> None:
        async with self._changed:
            self._free += count
            self._changed.notify_all()


class Places:
    """`count` places of a wire, until they are left."""

    def __init__(self, wire: Wire, count: int) -> None:
        self._wire = wire
        self.count = count

    async def leave(self) -> None:
        """Give all of them back; again is no harm."""
        count, self.count = self.count, 0
        if count:
            await self._wire._give_back(count)  # noqa: SLF001  two halves of one thing
