"""Which provider a delivery goes to: the lane's order, what operators said, what the breakers say (semantics.md, 5).

`Routes.look` asks once a batch how the lane's accounts stand; where one healthy provider comes first, that and every
choice after it is a look into a dictionary. `Standing.choose` is pure.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final, NamedTuple
from uuid import UUID

from shared.core.breaker import Mark, Phase, mark, runs
from shared.core.control import Controls
from shared.core.outcome import Accepted, Outcome
from shared.delivery.order import LaneOrder, Order, Weighted
from shared.delivery.row import DeliveryRow
from shared.redis_store.breaker import Breakers, Guarded
from shared.wire.channel import Lane, MessageClass

_SLOW_PART: Final = 0.5
"""A call is slow that took more than this part of the lane's send deadline."""
_POINTS: Final = 1 << 16


class To(NamedTuple):
    """note: why it is not simply the first provider's, in words."""

    provider: str
    note: str | None


class Wait(NamedTuple):
    """No provider takes it before `until`."""

    until: datetime
    note: str


class Held(NamedTuple):
    """Nobody but paused accounts would take it."""

    pause_id: UUID


Choice = To | Wait | Held


@dataclass(slots=True)
class Account:
    """How one provider account stands, for one batch.

    share: which part of its deliveries it gets while it is coming back. probes: how many may try it, None for any
    number. why: in words, if it is not simply well. free_at: when it may be well again.
    """

    share: float = 1.0
    probes: int | None = None
    why: str | None = None
    free_at: datetime | None = None
    drained: bool = False
    pause_id: UUID | None = None

    @property
    def open(self) -> bool:
        """Whether its breaker lets anything through."""
        return self.probes is None or self.probes > 0


WELL: Final = Account()


@dataclass(slots=True)
class Standing:
    """The lane's accounts as they stand; those that are simply well are not named. For one batch."""

    order: LaneOrder
    accounts: Mapping[str, Account] = field(default_factory=dict)
    _undisputed: dict[str | None, To | None] = field(default_factory=dict)
    _last: tuple[UUID, str | None, Choice] | None = None

    def choose(self, row: DeliveryRow, now: datetime, address: str = "") -> Choice:
        """Recipients of one message, who come one after the other, have the same provider.

        address: asked for where the lane has providers that take some addresses alone. A provider that an operator's
        replay has chosen is the only one: its delivery waits for it.
        """
        if row.chosen_provider is not None:
            return self._as_chosen(row.chosen_provider, now)
        platform = row.platform
        if platform not in self._undisputed:
            self._undisputed[platform] = self._only_choice(platform)
        undisputed = self._undisputed[platform]
        if undisputed is not None:
            return undisputed
        if self._last is not None and self._last[:2] == (row.key.notification_id, platform):
            return self._last[2]
        choice = self._choose(self.order.taking(self.order.of(platform), address), row, now)
        self._last = (row.key.notification_id, platform, choice)
        return choice

    def _as_chosen(self, provider: str, now: datetime) -> Choice:
        account = self._at(provider)
        if account.pause_id is not None:
            return Held(account.pause_id)
        if not account.open:
            return Wait(max(account.free_at or now, now), "; ".join(self._told([provider])))
        if account.probes is not None:
            account.probes -= 1
        return To(provider, f"{provider}, as an operator's replay has chosen")

    def _only_choice(self, platform: str | None) -> To | None:
        """Where nothing about the delivery matters."""
        order = self.order.of(platform)
        if not order:
            return To(self.order.missing(platform), None)
        first, provider = order[0], order[0][0].provider
        plain = len(first) == 1 and provider not in self.accounts and provider not in self.order.prefixes
        return To(provider, None) if plain else None

    def _choose(self, order: Order, row: DeliveryRow, now: datetime) -> Choice:
        named = [member.provider for step in order for member in step]
        free = [name for name in named if (account := self._at(name)).pause_id is None and not account.drained]
        # A drained account is passed over as long as anybody else could take it, be it later.
        fit = free or [name for name in named if self._at(name).pause_id is None]
        by_share, anyhow = _point(row, 0), 0.0
        for point in (by_share, anyhow):  # what is coming back takes all where there is nobody else
            for step in order:
                members = [each for each in step if each.provider in fit and self._takes(each.provider, point)]
                if members:
                    chosen = _by_weight(members, _point(row, 16))
                    return To(chosen, self._note(chosen, order))
        if not fit:
            return Held(next(pause for name in named if (pause := self._at(name).pause_id) is not None))
        until = min((at for name in fit if (at := self._at(name).free_at) is not None), default=now)
        return Wait(max(until, now), "; ".join(self._told(named)))

    def _takes(self, provider: str, point: float) -> bool:
        account = self._at(provider)
        return account.open and point < account.share

    def _note(self, chosen: str, order: Order) -> str | None:
        """Counts the probe, too, if it is one."""
        account = self._at(chosen)
        if account.probes is not None:
            account.probes -= 1
            return f"{chosen} is tried again: {account.why}"
        passed: list[str] = []
        for step in order:
            names = [member.provider for member in step]
            passed += [name for name in names if name != chosen and name in self.accounts]
            if chosen in names:
                break
        if account.drained:
            return f"{chosen} although it is drained: no other provider takes it"
        return f"{chosen} instead of {'; '.join(self._told(passed))}" if passed else None

    def _told(self, providers: Sequence[str]) -> Iterator[str]:
        for name in providers:
            why = self._at(name).why
            yield name if why is None else f"{name}: {why}"

    def _at(self, provider: str) -> Account:
        return self.accounts.get(provider, WELL)


class Routes:
    """Of one lane. Safe for several batches at once."""

    def __init__(self, lane: Lane, order: LaneOrder, breakers: Breakers) -> None:
        self._lane = lane
        self._order = order
        self._breakers = breakers
        self._guarded = {name: Guarded(name, lane.message_class) for name in order.providers}
        self._well = Standing(order)
        self._slow_sec = lane.send_deadline_sec * _SLOW_PART

    async def look(self, count: int, controls: Controls) -> Standing:
        """How the accounts stand for a batch of so many. Asks Redis only for places to try one that was down."""
        accounts: dict[str, Account] = {}
        for name, guarded in self._guarded.items():
            account = await self._account(guarded, count, controls)
            if account is not None:
                accounts[name] = account
        if not accounts:
            return self._well
        if self._lane.message_class is MessageClass.CRITICAL:
            await self._try_at_once(accounts)
        return Standing(self._order, accounts)

    def phase(self, provider: str) -> int:
        """Names what the provider's breaker goes through now: for `stops` and `report`."""
        guarded = self._guarded.get(provider)
        return 0 if guarded is None else self._breakers.known(guarded).since

    def stops(self, provider: str, phase: int) -> bool:
        """Whether sends that were chosen in that phase must not begin any more."""
        guarded = self._guarded.get(provider)
        if guarded is None:
            return False
        known = self._breakers.known(guarded)
        return known.since != phase and known.phase is not Phase.CLOSED

    async def report(self, provider: str, phase: int, outcomes: Sequence[Outcome], took_sec: float) -> None:
        """What came of sends that began in that phase."""
        guarded = self._guarded.get(provider)
        if guarded is None:
            return
        slow = took_sec > self._slow_sec
        marks = [mark(outcome, slow=slow) for outcome in outcomes]
        detail = ""
        if any(said is not Mark.OK for said in marks):
            troubles = (
                outcome.detail
                for outcome, said in zip(reversed(outcomes), reversed(marks), strict=True)
                if said not in {None, Mark.OK} and not isinstance(outcome, Accepted)
            )
            detail = next(troubles, "")
        await self._breakers.report(guarded, since=phase, seen=runs(marks), detail=detail)

    async def _account(self, guarded: Guarded, count: int, controls: Controls) -> Account | None:
        """None: simply well."""
        pause = controls.provider(guarded.account, self._lane.name) if controls.pauses else None
        if pause is not None:
            return Account(why=f"paused since {_clock(pause.paused_at)}", pause_id=pause.id)
        drain = controls.drains.get(guarded.account)
        breaker, policy, now = self._breakers.known(guarded), self._breakers.policy, self._breakers.now()
        if breaker.phase is Phase.CLOSED:
            share = breaker.share(policy, now)
            if drain is not None:
                return Account(why=f"drained since {_clock(drain.drained_at)}", drained=True)
            if share >= 1:
                return None
            return Account(share=share, why=f"getting its messages back since {_clock(_moment(breaker.since))}")
        probes = 0
        if drain is None and now >= breaker.free_at():
            probes = await self._breakers.allow(guarded, count, urgent=False)
            breaker = self._breakers.known(guarded)
        if breaker.phase is Phase.CLOSED:  # somebody else's probes were quicker
            return None
        return Account(
            probes=probes,
            why=f"breaker {breaker.phase.replace('_', ' ')} since {_clock(_moment(breaker.since))}, {breaker.reason}",
            free_at=_moment(breaker.free_at()),
            drained=drain is not None,
        )

    async def _try_at_once(self, accounts: Mapping[str, Account]) -> None:
        """Where nobody takes a login code, an open breaker is tried every second, in the lane's order."""
        if any(accounts.get(name, WELL).open and accounts.get(name, WELL).pause_id is None for name in self._guarded):
            return
        now = self._breakers.now()
        for name, guarded in self._guarded.items():
            account, breaker = accounts[name], self._breakers.known(guarded)
            if account.pause_id is not None:
                continue
            if now >= breaker.probe_at:
                account.probes = await self._breakers.allow(guarded, 1, urgent=True)
            account.free_at = _moment(min(breaker.free_at(), max(now, breaker.probe_at)))
            if account.open:
                return


def _by_weight(members: Sequence[Weighted], point: float) -> str:
    at = math.floor(point * sum(member.weight for member in members))
    for member in members:
        at -= member.weight
        if at < 0:
            return member.provider
    raise AssertionError("a point is below 1")


def _point(row: DeliveryRow, shift: int) -> float:
    """In [0, 1), of the id's random end: the same for all recipients of a message, and at every attempt."""
    return ((row.key.notification_id.int >> shift) % _POINTS) / _POINTS


def _moment(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


def _clock(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%H:%M:%S} UTC"
