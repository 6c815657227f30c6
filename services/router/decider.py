"""Load facts, decide, write the content: the same for requests and events."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from services.router.content import Writer
from services.router.facts import FactStore
from services.router.notification import Notification, Plan
from services.router.plan import Planner
from services.router.template import TemplateChoice
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
        self,
        facts: FactStore,
        catalogue: CatalogueCache,
        writer: Writer,
        planner: Planner,
        channels: Channels,
        default_locale: str,
    ) -> None:
        self._facts = facts
        self._catalogue = catalogue
        self._writer = writer
        self._planner = planner
        self._channels = channels
        self._default_locale = default_locale

    async def decide(self, notifications: Sequence[Notification], now: datetime) -> Decided:
        """Plans for open notifications. Raises UnavailableError only."""
        if not notifications:
            return Decided((), ())
        catalogue = await self._catalogue.get()
        if not _complete(notifications, catalogue):
            catalogue = await self._catalogue.get(max_age_sec=REREAD_SEC)
        templates = TemplateChoice(catalogue, self._channels, self._default_locale)
        typed = [(n, found) for n in notifications if (found := catalogue.type(n.type)) is not None]
        facts = await self._facts.load(typed, templates)
        types = {n.id: found for n, found in typed}
        plans: list[Plan] = []
        held: list[Notification] = []
        counts: Counter[tuple[str, str, str]] = Counter()
        for n in notifications:
            if n.id not in types:
                plans.append(self._planner.unknown_type(n))
                continue
            decision = decide(facts[n.id], now, channels=self._channels)
            try:
                plans.append(self._plan(n, types[n.id], decision, templates))
            except UnknownKeyError as error:
                _log.error("params_key_unknown", notification_id=str(n.id), key_id=error.key_id)
                held.append(n)
            else:
                counts.update(_labels(decision))
        for labels, count in counts.items():
            DECISIONS.labels(*labels).inc(count)
        return Decided(tuple(plans), tuple(held))

    def _plan(
        self, notification: Notification, found: NotificationType, decision: Decision, templates: TemplateChoice
    ) -> Plan:
        content = self._writer.write(notification, decision, templates)
        return self._planner.decided(notification, found, decision, content)


def _complete(notifications: Sequence[Notification], catalogue: Catalogue) -> bool:
    """Whether the catalogue has every type, and some template of each channel it is to go to."""
    for type_name, channels in {(n.type, n.channels) for n in notifications}:
        found = catalogue.type(type_name)
        if found is None or not all(
            catalogue.templates(type_name, name) for name in channels or found.default_channels
        ):
            return False
    return True


def _labels(decision: Decision) -> Iterator[tuple[str, str, str]]:
    """Channel, verdict and reason; a channel this installation does not have is `other`, so that labels stay few."""
    for channel in decision.channels:
        verdict = channel.verdict
        reason = "" if isinstance(verdict, Go) else str(verdict.reason)
        unknown = isinstance(verdict, Skip) and verdict.reason is Reason.CONFIG
        yield "other" if unknown else channel.channel, type(verdict).__name__.lower(), reason
