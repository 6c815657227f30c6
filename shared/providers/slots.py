"""How many of a sender's messages are on the wire at once."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence

import structlog

from shared.core.outcome import Ambiguous, NotSent, Outcome
from shared.core.ports import Prepared, SendWindow

_log = structlog.get_logger(__name__)

SendOne = Callable[[Prepared, float], Awaitable[Outcome]]
"""Hands over one message within so many seconds."""


class Slots:
    """A sender's places on the wire: so many messages at once, over all the batches it is handed.

    A place is one task that takes message after message, of whichever batch, while any waits: under load there is no
    task to make for each message.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._waiting: deque[tuple[_Share, int]] = deque()
        self._places: dict[asyncio.Task[None], _Share | None] = {}

    async def send_each(self, batch: Sequence[Prepared], send_one: SendOne, window: SendWindow) -> Sequence[Outcome]:
        """`Sender.send` for providers that take one message a call; messages go out in the order they came.

        send_one(message, deadline_sec) gives the outcome and keeps the deadline itself, because only it knows what was
        written. Should it raise, which is a defect, that message alone is Ambiguous and the surprise is logged.
        If this call is cancelled, so is what it has on the wire, and nothing more of it starts.
        """
        if not batch:
            return []
        share = _Share(batch, send_one, window)
        self._waiting.extend((share, index) for index in range(len(batch)))
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
            while self._waiting:
                share, index = self._waiting.popleft()
                self._places[place] = share
                if not share.withdrawn and share.window.may_start():
                    message = share.batch[index]
                    try:
                        share.outcomes[index] = await share.send_one(message, share.window.deadline_sec)
                    except asyncio.CancelledError:
                        # What became of it nobody knows, so that no outcome is made up for it.
                        share.withdrawn = True
                        share.done.cancel()
                        raise
                    except Exception as error:  # noqa: BLE001  a surprise must not take its batch along; it is logged
                        name = type(error).__name__
                        _log.exception("send_surprise", reference=message.key.reference, error_class=name)
                        share.outcomes[index] = Ambiguous(f"surprise: {name}", unrecognised=True)
                share.ended()
        finally:
            del self._places[place]
            self._fill()  # a cancelled place leaves the others' messages behind


class _Share:
    """One batch on its way through the slots."""

    def __init__(self, batch: Sequence[Prepared], send_one: SendOne, window: SendWindow) -> None:
        self.batch = batch
        self.send_one = send_one
        self.window = window
        self.outcomes: list[Outcome] = [NotSent("the lease was too short")] * len(batch)
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.withdrawn = False
        self._left = len(batch)

    def ended(self) -> None:
        """One message more has its outcome."""
        self._left -= 1
        if not self._left and not self.done.done():
            self.done.set_result(None)
