"""`notification-requests-<class>`: accepted notifications are decided, and their deliveries put on the lanes."""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from uuid import UUID

from services.router.decider import Decider
from services.router.notification import LETTERED, Owed, owed_by
from services.router.plan import lettered
from services.router.publish import records
from services.router.store import RouterStore
from shared.core.lifecycle import NotificationState
from shared.kafka.record import Publisher, Received, Rejection
from shared.runtime.logs import get_logger
from shared.runtime.metrics import HINTS_DROPPED
from shared.wire.channel import Channels
from shared.wire.message import RequestHint

_log = get_logger(__name__)

_OPEN = frozenset({NotificationState.ACCEPTED, NotificationState.DEFERRED})


class RequestHandler:
    """Decides one poll's notifications.

    Offsets move only after it returns, so it may run twice on the same ones, also at the same time elsewhere: what is
    decided is not decided again, only what it still owes is published again (docs/data.md, notification states). A
    notification that is deferred and not due decides to wait again, which changes nothing.
    """

    def __init__(
        self,
        store: RouterStore,
        decider: Decider,
        publisher: Publisher,
        channels: Channels,
        clock: Callable[[], datetime],
    ) -> None:
        self._store = store
        self._decider = decider
        self._publisher = publisher
        self._channels = channels
        self._clock = clock

    async def __call__(self, batch: Sequence[Received[RequestHint]]) -> Sequence[Rejection]:
        """Returns when all is committed and acknowledged. Rejected is what a person must look at."""
        now = self._clock()
        found = await self._store.load(received.value.notification_id for received in batch)
        _count_dropped(batch, {n.id for n in found}, sum(n.state is NotificationState.CANCELLED for n in found))
        decided = await self._decider.decide([n for n in found if n.state in _OPEN], now)
        for _ in decided.held:
            HINTS_DROPPED.labels("router", "key_unknown").inc()
        saved = await self._store.save(decided.plans, now)
        await self._decider.settle(saved.plans)
        done = [n.id for n in found if n.state is NotificationState.DECIDED]
        repeated = await self._store.owed([*done, *saved.lost])
        owed = [delivery for plan in saved.plans for delivery in owed_by(plan, now)]
        await self._publisher.publish(records([*owed, *repeated], self._channels, now))
        problems = {
            **_known_problems(repeated),
            **{id_: (letter.reason, letter.detail) for id_, letter in lettered(saved.plans).items()},
            **{id_: ("unstorable", f"the database refused the row: {error}") for id_, error in saved.refused},
        }
        return list(_rejections(batch, problems))


def _known_problems(owed: Iterable[Owed]) -> dict[UUID, tuple[str, str]]:
    """Dead letters of an earlier run, whose writing this process cannot know of: told again."""
    return {
        delivery.key.notification_id: (delivery.reason, f"on {delivery.key.channel}; see `ulak why`")
        for delivery in owed
        if delivery.reason is not None and delivery.reason in LETTERED
    }


def _rejections(batch: Sequence[Received[RequestHint]], problems: dict[UUID, tuple[str, str]]) -> Iterable[Rejection]:
    """One per notification, at the first of its messages in the batch."""
    for index, received in enumerate(batch):
        problem = problems.pop(received.value.notification_id, None)
        if problem is not None:
            yield Rejection(index, *problem)


def _count_dropped(batch: Sequence[Received[RequestHint]], found: set[UUID], cancelled: int) -> None:
    missing = {received.value.notification_id for received in batch} - found
    if missing:
        HINTS_DROPPED.labels("router", "no_row").inc(len(missing))
        _log.warning("hints_without_row", count=len(missing), notification_id=str(min(missing)))
    if cancelled:
        HINTS_DROPPED.labels("router", "cancelled").inc(cancelled)
