"""A small world for Model A: a service's table, Ulak's catalogue, scripted providers, the dispatcher over them."""

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import orjson

from services.relay.email.dispatcher import Dispatcher
from services.relay.email.facts import FactStore
from services.relay.email.preparation import Preparer
from services.relay.email.reaper import EmailReaper
from services.relay.email.settings import ModelASettings
from services.relay.email.store import EmailStore, SuppressionStore
from shared.content.render import Renderer
from shared.core.control import Pause
from shared.core.identifier import new_id
from shared.core.outcome import Accepted, NotSent, Outcome
from shared.core.ports import Prepared, Sender, SendWindow
from shared.core.sealing import KeyRing, Purpose, seal
from shared.core.storage import Storage
from shared.delivery.mail import MailMaker
from shared.delivery.settings import EmailSettings
from shared.postgres.catalogue import CatalogueCache
from shared.postgres.pool import Pool
from shared.redis_store.pacer import Pacer
from shared.redis_store.token_bucket import Quota
from shared.runtime.keyring import FixedRingSource, RingSource
from shared.wire.channel import MessageClass

AYSE, BORA, CEM = "ayse@example.com", "bora@example.com", "cem@example.com"
PARTS = {"subject": "Siparişiniz {{ orderNo }}", "text": "Merhaba,\n{{ orderNo }} yola çıktı.\n"}


@dataclass(frozen=True)
class SentMail:
    """One transaction with the provider: its Message-ID's reference, to whom, with which subject."""

    reference: str
    recipients: tuple[str, ...]
    subject: str
    to: tuple[str, ...]


@dataclass
class MailServer:
    """A sender whose answers are given by address, in turn; who has none is accepted. Keeps what it was handed."""

    answers: dict[str, list[Outcome]] = field(default_factory=dict)
    mails: list[SentMail] = field(default_factory=list)
    before: Callable[[], Awaitable[None]] | None = None
    provider: str = "smtp"
    concurrency: int = 10

    async def send(self, batch: Sequence[Prepared], window: SendWindow) -> Sequence[Outcome]:
        if self.before is not None:
            await self.before()
        outcomes: list[Outcome] = []
        at = 0
        while at < len(batch):
            envelope = batch[at].envelope
            assert envelope is not None
            end = at + 1
            while end < len(batch) and batch[end].envelope is envelope:
                end += 1
            outcomes += await self._mail(batch[at:end], window)
            at = end
        return outcomes

    async def _mail(self, batch: Sequence[Prepared], window: SendWindow) -> list[Outcome]:
        if not window.may_start():
            return [NotSent("stopping")] * len(batch)
        envelope = batch[0].envelope
        assert envelope is not None
        addresses = tuple(message.address for message in batch)
        to = tuple(mailbox.address.text for mailbox in envelope.to)
        self.mails.append(SentMail(envelope.message_reference, addresses, batch[0].content["subject"], to))
        accepted: Outcome = Accepted(f"queue-{len(self.mails)}")
        return [self.answers[each].pop(0) if self.answers.get(each) else accepted for each in addresses]


class NoFiles:
    """Where no attachment is read."""

    async def read(self, ref: str, *, max_bytes: int, timeout_sec: float) -> bytes:
        raise AssertionError("nothing is read here")

    async def delete(self, ref: str) -> None:
        raise AssertionError("nothing is deleted here")

    def owns(self, ref: str) -> bool:
        return False


@dataclass
class World:
    """source: where the rows are; own: Ulak's database; both may be the same."""

    own: Pool
    source: Pool
    ring: KeyRing
    settings: ModelASettings
    server: MailServer = field(default_factory=MailServer)
    stopping: list[bool] = field(default_factory=lambda: [False])
    now: list[datetime] = field(default_factory=list)
    paused: dict[str, Pause] = field(default_factory=dict)

    def dispatcher(
        self,
        message_class: MessageClass = MessageClass.TX,
        *,
        sender: Sender | None = None,
        rings: RingSource | None = None,
        storage: Storage | None = None,
        quotas: Mapping[str, Quota] | None = None,
        maker: MailMaker | None = None,
        **settings: Any,
    ) -> Dispatcher:
        chosen = self.settings.model_copy(update=settings)
        rings = rings or FixedRingSource(self.ring)
        catalogue = CatalogueCache(self.own, ttl_sec=0.0)
        preparer = Preparer(
            "shop",
            rings=rings,
            facts=FactStore(self.own),
            catalogue=catalogue,
            maker=maker
            or MailMaker(
                catalogue, Renderer(), storage or NoFiles(), rings, default_locale="tr", limits=EmailSettings()
            ),
            backoff=chosen.backoff_policy,
            default_locale="tr",
            default_zone="Europe/Istanbul",
            paused=self.paused.get,
        )
        return Dispatcher(
            "shop",
            EmailStore(self.source),
            message_class,
            chosen,
            preparer=preparer,
            sender=sender or self.server,
            pacer=Pacer(None, quotas or {}, workers=1, retry_sec=1.0),
            suppressions=SuppressionStore(self.own),
            rings=rings,
            stopping=lambda: self.stopping[0],
            clock=lambda: self.now[0] if self.now else datetime.now(UTC),
            jitter=lambda: 0.0,
        )

    def reaper(self) -> EmailReaper:
        return EmailReaper("shop", EmailStore(self.source))

    async def drain(self, **settings: Any) -> None:
        """All that is due, to the end."""
        dispatcher = self.dispatcher(**settings)
        while await dispatcher.round():
            pass

    async def enqueue(
        self,
        *to: str,
        template: str = "ORDER_SHIPPED",
        parameters: Mapping[str, Any] | None = None,
        cc: Sequence[str] = (),
        bcc: Sequence[str] = (),
        model: str = "A",
        **named: Any,
    ) -> UUID:
        """By the plain SQL function, as any service does."""
        given = {
            "recipients": list(to or ("ayse@example.com",)),
            "template": template,
            "parameters": {"orderNo": "98213"} if parameters is None else parameters,
            "cc": list(cc),
            "bcc": list(bcc),
            "model": model,
            **named,
        }
        places = ", ".join(f"{name} => ${number}" for number, name in enumerate(given, start=1))
        made: UUID = await self.source.fetchval(f"SELECT ulak.enqueue_email({places})", *given.values())
        return made

    async def enqueue_sealed(self, ring: KeyRing, *to: str, parameters: bytes = b'{"orderNo": "98213"}') -> UUID:
        """As `ulak_client` does with a key ring."""
        row = new_id()
        recipients = orjson.dumps({"to": list(to or ("ayse@example.com",)), "cc": [], "bcc": []})
        await self.source.execute(
            "SELECT ulak.enqueue_email_row($1, $2, 'ORDER_SHIPPED', $3, true, model => 'A')",
            row,
            seal(ring, Purpose.OUTBOX, row.bytes + b"recipients", recipients),
            seal(ring, Purpose.OUTBOX, row.bytes + b"parameters", parameters),
        )
        return row

    async def row(self, row_id: UUID) -> Mapping[str, Any]:
        found = await self.source.fetchrow("SELECT * FROM ulak.email_messages WHERE id = $1", row_id)
        assert found is not None, "the row is gone"
        return dict(found)

    async def update(self, row_id: UUID, **columns: Any) -> None:
        sets = ", ".join(f"{name} = ${number}" for number, name in enumerate(columns, start=2))
        await self.source.execute(f"UPDATE ulak.email_messages SET {sets} WHERE id = $1", row_id, *columns.values())

    async def due_now(self, row_id: UUID) -> None:
        await self.update(row_id, next_attempt_at=datetime.now(UTC) - timedelta(seconds=1))

    async def statuses(self) -> dict[str, int]:
        rows = await self.source.fetch("SELECT status, count(*) FROM ulak.email_messages GROUP BY status")
        return {row["status"]: row["count"] for row in rows}


async def fill_catalogue(own: Pool) -> None:
    """Types of every category, each with a template whose subject and text name the order. None waits for the night's
    end, so that tests do the same at any hour.
    """
    for name, category, message_class, ttl in (
        ("ORDER_SHIPPED", "TRANSACTIONAL", MessageClass.TX, 86_400),
        ("PASSWORD_CHANGED", "SECURITY", MessageClass.CRITICAL, 86_400),
        ("WINTER_SALE", "MARKETING", MessageClass.BULK, 86_400),
    ):
        await own.execute(
            "INSERT INTO ulak.notification_types (type, category, message_class, default_channels, ttl_seconds, "
            "quiet_hours) VALUES ($1, $2, $3, '{EMAIL}', $4, '{}')",
            name,
            category,
            int(message_class),
            ttl,
        )
        await push_template(own, name, PARTS)


async def push_template(own: Pool, type_name: str, parts: Mapping[str, str], locale: str = "tr") -> None:
    """The next version of a type's e-mail template, active."""
    same = "type = $1 AND channel = 'EMAIL' AND locale = $2"
    await own.execute(f"UPDATE ulak.templates SET active = false WHERE {same}", type_name, locale)
    version = await own.fetchval(
        f"SELECT coalesce(max(version), 0) + 1 FROM ulak.templates WHERE {same}", type_name, locale
    )
    await own.execute(
        "INSERT INTO ulak.templates (type, channel, locale, version, parts, parameters, checksum, active) "
        "VALUES ($1, 'EMAIL', $2, $3, $4, '{orderNo}', $5, true)",
        type_name,
        locale,
        version,
        dict(parts),
        secrets.token_bytes(32),
    )


def counted(counter: Any, *labels: str) -> float:
    """A counter's value."""
    return float(counter.labels(*labels)._value.get())


async def until(holds: Callable[[], Awaitable[bool]], what: str, *, within_sec: float = 60.0) -> None:
    deadline = asyncio.get_running_loop().time() + within_sec
    while not await holds():
        assert asyncio.get_running_loop().time() < deadline, f"{what} did not come true within {within_sec} s"
        await asyncio.sleep(0.02)
