"""Load facts, decide, write the content: the same for requests and events."""

from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from services.router.content import Writer
from services.router.frequency import Frequency
from services.router.notification import Draft, Notification, Plan
from services.router.plan import Planner
from shared.core.catalogue import Catalogue
from shared.core.lifecycle import Reason
from shared.core.sealing import UnknownKeyError
from shared.decision.chain import Decision, decide
from shared.decision.verdict import Go, Skip
from shared.facts.store import FactStore
from shared.facts.template import TemplateChoice
from shared.postgres.catalogue import CatalogueCache
from shared.runtime.logs import get_logger
from shared.runtime.metrics import DECISIONS
from shared.wire.channel import Channels

_log = get_logger(__name__)

REREAD_SEC: Final = 1.0
"""How old the catalogue may be when it lacks something: a type or template that was pushed a moment ago is found."""


@dataclass(frozen=True, slots=True)
class Decided:
    """One plan each; held are those whose parameters no key at hand opens: they stay as they are
    and the sweep brings them again.
    """

    plans: tuple[Plan, ...]
    held: tuple[Notification, ...]


Signal = Callable[[Collection[int]], Awaitable[None]]
"""Takes user ids; never fails."""


class Decider:
    """Decides batches. One bad notification becomes a plan that says so; it never fails its batch."""

    def __init__(
        self,
        facts: FactStore,
        catalogue: CatalogueCache,
        writer: Writer,
        frequency: Frequency,
        planner: Planner,
        channels: Channels,
        default_locale: str,
        *,
        signal: Signal | None = None,
    ) -> None:
        """signal: told of whom something came into the inbox, after it did; None: nobody listens."""
        self._signal = signal
        self._facts = facts
        self._catalogue = catalogue
        self._writer = writer
        self._frequency = frequency
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
        facts = await self._facts.load(typed, templates, now)
        drafts: list[Draft] = []
        held: list[Notification] = []
        for n, found in typed:
            decision = decide(facts[n.id], now, channels=self._channels)
            try:
                content = self._writer.write(n, found, decision, templates)
            except UnknownKeyError as error:
                _log.error("params_key_unknown", notification_id=str(n.id), key_id=error.key_id)
                held.append(n)
            else:
                drafts.append(Draft(n, found, decision, content, facts[n.id].duplicate_of))
        limited = await self._frequency.limit(drafts, catalogue, now)
        plans = [
            self._planner.decided(draft, decision, now, reservation)
            for draft, (decision, reservation) in zip(drafts, limited, strict=True)
        ]
        for labels, count in Counter(labels for decision, _ in limited for labels in _labels(decision)).items():
            DECISIONS.labels(*labels).inc(count)
        known = {n.id for n, _ in typed}
        plans += [self._planner.unknown_type(n) for n in notifications if n.id not in known]
        return Decided(tuple(plans), tuple(held))

    async def settle(self, saved: Iterable[Plan]) -> None:
        """After the commit: what came second with the same content does not use its places in the user's day, and apps
        that listen hear of what is in their inbox.
        """
        plans = list(saved)
        await self._frequency.free([p.reservation for p in plans if p.is_duplicate and p.reservation is not None])
        users = {p.notification.user_id for p in plans if any(content.inbox_sealed for content in p.contents)}
        if self._signal is not None and users:
            await self._signal({user_id for user_id in users if user_id is not None})


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
        if isinstance(verdict, Go):
            yield channel.channel, "go", ""
        else:
            unknown = isinstance(verdict, Skip) and verdict.reason is Reason.CONFIG
            yield "other" if unknown else channel.channel, type(verdict).__name__.lower(), str(verdict.reason)
