"""One poll's hints at work: which of them stands for which delivery, what they ask for, what is still owed."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from uuid import UUID

from shared.core.reference import DeliveryKey
from shared.delivery.message import hint_record
from shared.delivery.row import DeliveryRow, Owed
from shared.delivery.siblings import messages, soonest, steps
from shared.delivery.triage import Step, by_key, triage
from shared.kafka.record import Received, Record, Rejection
from shared.wire.channel import Lane
from shared.wire.message import HEADER_TRACEPARENT, DeliveryHint


class Batch:
    """Keeps what one batch has found out so far; decides nothing itself."""

    def __init__(self, received: Sequence[Received[DeliveryHint]], lane: Lane) -> None:
        self._lane = lane
        self._named = by_key(received)
        self._of_message: dict[UUID, list[tuple[int, Received[DeliveryHint]]]] = {}
        self._owed: defaultdict[UUID, list[Owed]] = defaultdict(list)
        self.rejections: list[Rejection] = []
        self.route_notes: dict[DeliveryKey, str] = {}
        """Of deliveries that do not simply go to their first provider: why."""

    @property
    def keys(self) -> Collection[DeliveryKey]:
        """The deliveries that the hints name."""
        return self._named.keys()

    @property
    def requests(self) -> Collection[UUID]:
        """Notifications whose content is an e-mail request."""
        return self._of_message.keys()

    def steps(
        self, rows: Mapping[DeliveryKey, DeliveryRow], now: datetime
    ) -> Iterator[tuple[DeliveryRow | None, Step]]:
        """What is asked for: of each delivery named, and of all recipients of a message of which one is named."""
        shared = messages(rows.values()) if self._lane.channel == "EMAIL" else {}
        for key, (index, message) in self._named.items():
            if key.notification_id in shared:
                self._of_message.setdefault(key.notification_id, []).append((index, message))
            else:
                row = rows.get(key)
                yield row, triage(message.value, row, self._lane, now)
        for notification_id, found in self._of_message.items():
            hints = [message.value for _, message in found]
            yield from steps(hints, shared[notification_id], self._lane, now)

    def count(self, keys: Sequence[DeliveryKey]) -> int:
        """How many messages deliveries in key order are."""
        if not self._of_message:
            return len(keys)
        return len({key.notification_id if key.notification_id in self._of_message else key for key in keys})

    def hints(self, owed: Iterable[Owed]) -> list[Record]:
        """The hints to publish now. Those of messages with several recipients are kept: `left` has one for each."""
        found = []
        for each in owed:
            if each.hint.notification_id in self._of_message:
                self._owed[each.hint.notification_id].append(each)
            else:
                found.append(self._record(each))
        return found

    def left(self) -> list[Record]:
        """One hint for each message that still has open recipients; asked for when all work on it has ended."""
        return [self._record(soonest(owed)) for owed in self._owed.values()]

    def reject(self, key: DeliveryKey, reason: str, detail: str) -> None:
        """Its hint goes to the dead letters; of a message with several recipients there is one hint, so one letter."""
        index, _ = self._hint_for(key)
        self.rejections.append(Rejection(index, reason, detail))

    def _record(self, owed: Owed) -> Record:
        hint = owed.hint
        _, message = self._hint_for(DeliveryKey(hint.notification_id, hint.channel, hint.target_key))
        return hint_record(owed, self._lane, message.key, message.headers.get(HEADER_TRACEPARENT))

    def _hint_for(self, key: DeliveryKey) -> tuple[int, Received[DeliveryHint]]:
        found = self._of_message.get(key.notification_id)
        return self._named[key] if found is None else found[0]
