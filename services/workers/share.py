"""What each class of messages may use of a process that serves several (seed 004: 30/30/30/10)."""

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Final

from shared.kafka.record import Handler, Received, Rejection
from shared.wire.channel import MessageClass
from shared.wire.message import DeliveryHint

WEIGHTS: Final[Mapping[MessageClass, int]] = {
    MessageClass.CRITICAL: 30,
    MessageClass.TX: 30,
    MessageClass.BULK: 30,
    MessageClass.LOW: 10,
}
"""Seed 004: shares of the work in per cent, by priority."""


def guaranteed(classes: Collection[MessageClass], slots: int) -> Mapping[MessageClass, int]:
    """How many of the slots are each class's own: by weight, at least one, so that nobody starves. Pure."""
    total = sum(WEIGHTS[each] for each in classes)
    return {each: max(1, slots * WEIGHTS[each] // total) for each in classes}


def next_class(
    waiting: Collection[MessageClass], busy: Mapping[MessageClass, int], own: Mapping[MessageClass, int], slots: int
) -> MessageClass | None:
    """Whose batch may begin now, None if all have to wait. Pure.

    Below its own slots a class always may, even while others are still in those that they borrowed: a login code never
    waits for a campaign's batch to end. What nobody has a right to is lent to whoever uses least for its weight.
    """
    by_need = sorted(waiting, key=lambda each: (busy.get(each, 0) / WEIGHTS[each], each))
    for each in by_need:
        if busy.get(each, 0) < own[each]:
            return each
    return by_need[0] if by_need and sum(busy.values()) < slots else None


class Shares:
    """Turns for batches of all lanes of one process. For one event loop; first come, first served within a class."""

    def __init__(self, classes: Collection[MessageClass], slots: int) -> None:
        self._slots = slots
        self._own = guaranteed(classes, slots)
        self._busy: Counter[MessageClass] = Counter()
        self._waiting: dict[MessageClass, deque[asyncio.Future[None]]] = {each: deque() for each in classes}

    @asynccontextmanager
    async def turn(self, message_class: MessageClass) -> AsyncIterator[None]:
        """Waits until a batch of the class may begin, and ends its turn with the block, cancelled or not."""
        granted = asyncio.get_running_loop().create_future()
        self._waiting[message_class].append(granted)
        self._grant()
        try:
            await granted
        except asyncio.CancelledError:
            if not granted.cancelled():  # it had been granted in the same moment
                self._end(message_class)
            raise
        try:
            yield
        finally:
            self._end(message_class)

    def shared(self, message_class: MessageClass, handle: Handler[DeliveryHint]) -> Handler[DeliveryHint]:
        """The handler, at work in its class's turns."""

        async def handle_in_turn(received: Sequence[Received[DeliveryHint]]) -> Sequence[Rejection]:
            async with self.turn(message_class):
                return await handle(received)

        return handle_in_turn

    def _end(self, message_class: MessageClass) -> None:
        self._busy[message_class] -= 1
        self._grant()

    def _grant(self) -> None:
        while True:
            waiting = [each for each, queue in self._waiting.items() if queue]
            chosen = next_class(waiting, self._busy, self._own, self._slots)
            if chosen is None:
                return
            granted = self._waiting[chosen].popleft()
            if not granted.cancelled():
                granted.set_result(None)
                self._busy[chosen] += 1
