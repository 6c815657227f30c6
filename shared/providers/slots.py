"""How many of a sender's messages are on the wire at once."""

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from itertools import accumulate
from typing import Any, Generic, TypeVar

import structlog

from shared.core.outcome import Ambiguous, NotSent, Outcome
from shared.core.ports import Prepared, SendWindow

_log = structlog.get_logger(__name__)

SendOne = Callable[[Prepared, float], Awaitable[Outcome]]
"""Hands over one message within so many seconds."""
SendGroup = Callable[[Sequence[Prepared], float], Awaitable[Sequence[Outcome]]]
"""Hands over messages together within so many seconds; an outcome each, in their order."""

A = TypeVar("A")


class Slots:
    """A sender's places on the wire: so many calls at once, over all the batches it is handed.

    A place is one task that makes call after call, for whichever batch, while any waits: under load there is no task to
    make for each message.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._waiting: deque[tuple[_Share[Any], int]] = deque()
        self._places: dict[asyncio.Task[None], _Share[Any] | None] = {}

    def resize(self, count: int) -> None:
        """So many places from now on; of too many, those end that come free."""
        self._count = count
        self._fill()

    async def send_each(self, batch: Sequence[Prepared], send_one: SendOne, window: SendWindow) -> Sequence[Outcome]:
        """`Sender.send` for providers that take one message a call; messages go out in the order they came.

        send_one(message, deadline_sec) gives the outcome and keeps the deadline itself, because only it knows what was
        written. Should it raise, which is a defect, that message alone is Ambiguous and the surprise is logged.
        If this call is cancelled, so is what it has on the wire, and nothing more of it starts.
        """
        return await self._all(_Singles(batch, send_one, window), len(batch))

    async def send_groups(
        self, groups: Sequence[Sequence[Prepared]], send_group: SendGroup, window: SendWindow
    ) -> Sequence[Outcome]:
        """`send_each` where a call takes messages that go out together; the outcomes of all groups in one sequence.

        What holds for a message there holds for a group here. No group is empty.
        """
        return await self._all(_Groups(groups, send_group, window), len(groups))

    async def _all(self, share: "_Share[Any]", count: int) -> Sequence[Outcome]:
        if not count:
            return []
        self._waiting.extend((share, index) for index in range(count))
        self._fill()
        try:
            await share.done
        except asyncio.CancelledError:
            share.withdrawn = True
            for place, busy_with in self._places.items():
                if busy_with is share:
                    place.cancel()
            raise
        return share.outcomes

    def _fill(self) -> None:
        """As many places at work as there is work for."""
        for _ in range(min(len(self._waiting), self._count - len(self._places))):
            self._places[asyncio.create_task(self._work())] = None

    async def _work(self) -> None:
        place = asyncio.current_task()
        assert place is not None
        try:
            while self._waiting and len(self._places) <= self._count:
                share, index = self._waiting.popleft()
                self._places[place] = share
                if not share.withdrawn and share.window.may_start():
                    try:
                        share.answered(index, await share.call(index))
                    except asyncio.CancelledError:
                        # What became of it nobody knows, so that no outcome is made up for it.
                        share.withdrawn = True
                        share.done.cancel()
                        raise
                    except Exception as error:  # noqa: BLE001  a surprise must not take its batch along; it is logged
                        name = type(error).__name__
                        _log.exception("send_surprise", reference=share.reference(index), error_class=name)
                        share.surprised(index, Ambiguous(f"surprise: {name}", unrecognised=True))
                share.ended()
        finally:
            del self._places[place]
            self._fill()  # a cancelled place leaves the others' messages behind


class _Share(ABC, Generic[A]):
    """One batch on its way through the slots, call by call."""

    def __init__(self, messages: int, calls: int, window: SendWindow) -> None:
        self.window = window
        self.outcomes: list[Outcome] = [NotSent("the lease was too short")] * messages
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.withdrawn = False
        self._left = calls

    @abstractmethod
    def call(self, index: int) -> Awaitable[A]:
        """Begin one call."""

    @abstractmethod
    def answered(self, index: int, answer: A) -> None:
        """Keep what a call gave."""

    @abstractmethod
    def surprised(self, index: int, outcome: Outcome) -> None:
        """One outcome for all that a call had."""

    @abstractmethod
    def reference(self, index: int) -> str:
        """What a call is known by."""

    def ended(self) -> None:
        """One call more is over."""
        self._left -= 1
        if not self._left and not self.done.done():
            self.done.set_result(None)


class _Singles(_Share[Outcome]):
    def __init__(self, batch: Sequence[Prepared], send_one: SendOne, window: SendWindow) -> None:
        super().__init__(len(batch), len(batch), window)
        self._batch = batch
        self._send_one = send_one

    def call(self, index: int) -> Awaitable[Outcome]:
        return self._send_one(self._batch[index], self.window.deadline_sec)

    def answered(self, index: int, answer: Outcome) -> None:
        self.outcomes[index] = answer

    def surprised(self, index: int, outcome: Outcome) -> None:
        self.outcomes[index] = outcome

    def reference(self, index: int) -> str:
        return self._batch[index].key.reference


class _Groups(_Share[Sequence[Outcome]]):
    def __init__(self, groups: Sequence[Sequence[Prepared]], send_group: SendGroup, window: SendWindow) -> None:
        starts = [0, *accumulate(map(len, groups))]
        super().__init__(starts[-1], len(groups), window)
        self._groups = groups
        self._starts = starts
        self._send_group = send_group

    def call(self, index: int) -> Awaitable[Sequence[Outcome]]:
        return self._send_group(self._groups[index], self.window.deadline_sec)

    def answered(self, index: int, answer: Sequence[Outcome]) -> None:
        assert len(answer) == len(self._groups[index]), "an outcome for each message of a group"
        self.outcomes[self._starts[index] : self._starts[index + 1]] = answer

    def surprised(self, index: int, outcome: Outcome) -> None:
        self.answered(index, [outcome] * len(self._groups[index]))

    def reference(self, index: int) -> str:
        return self._groups[index][0].key.reference
