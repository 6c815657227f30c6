"""Load facts, decide, write the content: the same for requests and events."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from services.router.content import Writer
from services.router.facts import FactStore
from services.router.notification import Notification, Plan
from services.router.plan import Planner
from shared.core.catalogue import Catalogue, NotificationType
from shared.core.lifecycle import Reason
from shared.core.sealing import UnknownKeyError
from shared.decision.chain import Decision, decide
from shared.decision.verdict import Go, Skip
from shared.postgres.catalogue import CatalogueCache
from shared.runtime.logs import get_logger
from shared.runtime.metrics import DECISIONS
from shared.wire.channel import Channels

_log = get_logger(__name__)

REREAD_SEC: Final = 1.0
"""How old the catalogue may be when it lacks something: a type or template that was pushed a moment ago is found."""


@dataclass(frozen=True, slots=True)
class Decided:
    """plans in the notifications' order; held are those whose parameters no key at hand opens: they stay as they are
    and the sweep brings them again.
    """

    plans: tuple[Plan, ...]
    held: tuple[Notification, ...]


class Decider:
    """Decides batches. One bad notification becomes a plan that says so; it never fails its batch."""

    def __init__(
        self, facts: FactStore, catalogue: CatalogueCache, writer: Writer, planner: Planner, channels: Channels
    ) -> None:
        self._facts = facts
        self._catalogue = catalogue
        self._writer = writer
        self._planner = planner
        self._channels = channels

    async def decide(self, notifications: Sequence[Notification], now: datetime) -> Decided:
        """Plans for open notifications. Raises UnavailableError only."""
        if not notifications:
            return Decided((), ())
        catalogue = await self._catalogue.get()
        if not all(self._complete(n, catalogue) for n in notifications):
            catalogue = await self._catalogue.get(max_age_sec=REREAD_SEC)
        typed = [(n, found) for n in notifications if (found := catalogue.type(n.type)) is not None]
        facts = await self._facts.load(typed, catalogue)
        types = {n.id: found for n, found in typed}
        plans: list[Plan] = []
        held: list[Notification] = []
        for n in notifications:
            if n.id not in types:
                plans.append(self._planner.unknown_type(n))
                continue
            decision = decide(facts[n.id], now, channels=self._channels)
            try:
                plans.append(self._plan(n, types[n.id], decision, catalogue))
            except UnknownKeyError as error:
                _log.error("params_key_unknown", notification_id=str(n.id), key_id=error.key_id)
                held.append(n)
            else:
                _count(decision)
        return Decided(tuple(plans), tuple(held))

    def _plan(
        self, notification: Notification, found: NotificationType, decision: Decision, catalogue: Catalogue
    ) -> Plan:
        content = self._writer.write(notification, decision, catalogue)
        return self._planner.decided(notification, found, decision, content)

    def _complete(self, notification: Notification, catalogue: Catalogue) -> bool:
        """Whether the catalogue has the type and some template of each channel it is to go to."""
        found = catalogue.type(notification.type)
        if found is None:
            return False
        channels = notification.channels or found.default_channels
        return all(catalogue.templates(notification.type, channel) for channel in channels)


def _count(decision: Decision) -> None:
    for channel in decision.channels:
        verdict = channel.verdict
        reason: Reason | str = "" if isinstance(verdict, Go) else verdict.reason
        label = channel.channel if not (isinstance(verdict, Skip) and verdict.reason is Reason.CONFIG) else "other"
        DECISIONS.labels(label, type(verdict).__name__.lower(), reason).inc()
