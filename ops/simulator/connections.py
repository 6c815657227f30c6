"""The client connections that are open, so that they can all be cut when the simulator ends."""

import asyncio
from dataclasses import dataclass, field


@dataclass(slots=True)
class OpenConnections:
    """Filled and emptied by the protocols of all listeners."""

    _transports: set[asyncio.Transport] = field(default_factory=set)
    _empty: asyncio.Event = field(default_factory=asyncio.Event)

    def add(self, transport: asyncio.Transport) -> None:
        self._transports.add(transport)
        self._empty.clear()

    def discard(self, transport: asyncio.Transport) -> None:
        self._transports.discard(transport)
        if not self._transports:
            self._empty.set()

    async def cut(self, timeout_sec: float) -> None:
        """Cut all and wait until they are gone, so that no handler outlives its server, or the time is over."""
        if not self._transports:
            return
        for transport in self._transports:
            transport.abort()
        try:
            await asyncio.wait_for(self._empty.wait(), timeout_sec)
        except TimeoutError:
            return
