"""Messages with several recipients: entered as the relay enters them, worked on by an e-mail lane, told by address."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

from shared.content.render import Renderer
from shared.core.email import EmailRequest
from shared.core.outcome import Accepted, NotSent, Outcome, TargetGone, Transient
from shared.core.ports import Envelope, Prepared, SendWindow
from shared.core.reference import DeliveryKey
from shared.core.sealing import KeyRing, Purpose, open_sealed
from shared.core.storage import MissingFileError, Storage
from shared.delivery.email import EmailPreparation
from shared.delivery.envelope import bounds
from shared.delivery.mail import MailMaker
from shared.delivery.settings import EmailSettings
from shared.delivery.store import DeliveryStore
from shared.ledger.ask import Entered
from shared.postgres.catalogue import CatalogueCache
from shared.postgres.pool import Pool
from shared.runtime.keyring import FixedRingSource, RingSource
from shared.wire.channel import DEFAULT_CHANNELS
from shared.wire.message import DeliveryHint, decode
from tests.integration.delivery.world import ScriptedSender, Seeded, World, make_world
from tests.integration.ledger.world import ask, deliveries, ledger, request

ADA, BEN, CEM = "ada@example.com", "ben@example.com", "cem@example.com"
EVERYONE = {ADA, BEN, CEM}
GREYLISTED, NO_SUCH_USER = Transient("451 4.7.1 greylisted"), TargetGone("550 5.1.1 no such user")


class NoFiles:
    """A storage with nothing in it."""

    async def read(self, ref: str, *, max_bytes: int, timeout_sec: float) -> bytes:
        raise MissingFileError("there is no such file")

    async def delete(self, ref: str) -> None:
        raise NotImplementedError(ref)

    def owns(self, ref: str) -> bool:
        raise NotImplementedError(ref)


@dataclass(frozen=True, slots=True)
class SentMail:
    """What one transaction with the provider carried."""

    envelope: Envelope | None
    content: Mapping[str, str]
    recipients: frozenset[str]


@dataclass
class MailSender(ScriptedSender):
    """Answers by address: `answers` in turn, then Accepted. Keeps whole mails."""

    provider: str = "smtp"
    answers: dict[str, list[Outcome]] = field(default_factory=dict)
    mails: list[SentMail] = field(default_factory=list)

    async def send(self, batch: Sequence[Prepared], window: SendWindow) -> Sequence[Outcome]:
        self.batches.append(len(batch))
        self.entered.set()
        if self.gate is not None:
            await self.gate.wait()
        if not window.may_start():
            return [NotSent("stopping")] * len(batch)
        for start, end in pairwise(bounds(batch)):
            one = batch[start:end]
            self.mails.append(SentMail(one[0].envelope, one[0].content, frozenset(each.address for each in one)))
        if self.during is not None:
            await self.during()
        outcomes: list[Outcome] = []
        for each in batch:
            script = self.answers.get(each.address)
            outcomes.append(script.pop(0) if script else Accepted("id"))
        return outcomes

    @property
    def reached(self) -> list[set[str]]:
        """Recipients of each mail, in the order they were sent."""
        return [set(mail.recipients) for mail in self.mails]


@dataclass
class Mailing:
    """One e-mail lane over a database with the ledger's catalogue."""

    pool: Pool
    ring: KeyRing
    application: int
    world: World
    sender: MailSender
    clock: list[timedelta]

    async def enter(self, *to: str, asked: EmailRequest | None = None, **changes: Any) -> Seeded:
        """One message in the ledger, and its hint."""
        book = ledger(self.pool, self.ring)
        answers = await book.enter([ask(self.ring, self.application, asked or request(*to), **changes)])
        [entry] = answers.entries
        assert isinstance(entry, Entered)
        payload = await self.pool.fetchval(
            "DELETE FROM ulak.outbox WHERE id = $1 RETURNING payload", entry.notification_id
        )
        hint = decode(DeliveryHint, payload)
        return Seeded(DeliveryKey(hint.notification_id, hint.channel, hint.target_key), hint)

    async def work(self, *messages: Seeded) -> list[tuple[int, str]]:
        """Their hints in one poll."""
        return await self.world.work(*messages)

    def pass_by(self, seconds: float) -> None:
        """From now on it is so much later."""
        self.clock[0] += timedelta(seconds=seconds)

    def owed(self, message: Seeded) -> Seeded:
        """The message by the one hint that was published since the last call; fails if it was not one."""
        lane, producer = self.world.lane, self.world.producer
        [hint] = [hint for tier in (None, *lane.tiers) for hint in self.world.hints(tier)]
        producer.records[:] = producer.on("delivery-events")
        return Seeded(message.key, hint)

    async def rows(self, message: Seeded) -> dict[str, Any]:
        """The deliveries by address."""
        found = await deliveries(self.pool, message.key.notification_id)
        return {
            open_sealed(self.ring, Purpose.ADDRESS, row["target_key"], row["address_sealed"]).decode(): row
            for row in found
        }

    async def statuses(self, message: Seeded) -> dict[str, tuple[str, str | None, int]]:
        """Status, reason and attempt by address."""
        rows = await self.rows(message)
        return {address: (row["status"], row["reason"], row["attempt"]) for address, row in rows.items()}

    async def kept(self, message: Seeded) -> bool:
        """Whether what is to be said is still stored."""
        return bool(
            await self.pool.fetchval(
                "SELECT sealed IS NOT NULL FROM ulak.contents WHERE notification_id = $1", message.key.notification_id
            )
        )

    async def told(self, message: Seeded) -> Counter[tuple[str, str]]:
        """How often which recipient's status was told."""
        addresses = {row["target_key"]: address for address, row in (await self.rows(message)).items()}
        return Counter(
            (addresses[DeliveryKey.parse(event["data"]["reference"]).target_key], event["data"]["status"])
            for event in self.world.events()
        )


def make_mailing(
    pool: Pool,
    ring: KeyRing,
    application: int,
    *,
    lane_name: str = "email-tx",
    rings: RingSource | None = None,
    sender: MailSender | None = None,
    storage: Storage | None = None,
    **changes: Any,
) -> Mailing:
    """`changes` go to `make_world`. The catalogue is read anew for each batch, as if time had passed."""
    lane = DEFAULT_CHANNELS.lane(lane_name)
    source = rings or FixedRingSource(ring)
    maker = MailMaker(
        CatalogueCache(pool, ttl_sec=0.0),
        Renderer(),
        storage or NoFiles(),
        source,
        default_locale="en",
        limits=EmailSettings(),
    )
    clock = [timedelta()]
    sender = sender or MailSender()
    world = make_world(
        lane_name,
        pool,
        ring,
        sender=sender,
        prepare=EmailPreparation(DeliveryStore(pool, lane), maker, source),
        clock=lambda: datetime.now(UTC) + clock[0],
        **changes,
    )
    return Mailing(pool, ring, application, world, sender, clock)
