"""Accepted e-mails in PostgreSQL: model B's in the ledger, model A's in the table that the relay sends from."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, TypeVar
from uuid import UUID

import asyncpg
import orjson

from services.ingest.fast_publish import OUTBOX_DELAY_SEC, FastPublisher
from services.ingest.row import Standing, kept_until, standing
from services.ingest.store import storing
from shared.core.consent import Purpose as ConsentPurpose
from shared.core.deduplication import EMAIL_MAPPING
from shared.core.email import EmailRequest, attachments_json, recipients_json
from shared.core.sealing import Purpose, seal
from shared.decision.email import CHANNEL
from shared.ledger.ask import EmailAsk, Entered, Refused
from shared.ledger.facts import target_keys
from shared.ledger.ledger import EmailLedger
from shared.postgres.consent import read_states
from shared.postgres.errors import UnavailableError
from shared.postgres.pool import Connection, Pool
from shared.postgres.query import load_queries
from shared.runtime.keyring import RingSource
from shared.runtime.logs import get_logger
from shared.wire.channel import MessageClass

_SQL: Final = load_queries("email_api")
_TRIES: Final = 3
T = TypeVar("T")

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class EmailAcceptance:
    """The e-mail that holds the key, whether this request made it, and whether it stands in the ledger (model B)."""

    email_id: UUID
    standing: Standing
    in_ledger: bool


@dataclass(frozen=True, slots=True)
class TableAsk:
    """One e-mail of model A, ready to be stored. message_class is the one it gets."""

    ask: EmailAsk
    message_class: MessageClass

    @property
    def dedup_key(self) -> tuple[int, str]:
        return self.ask.application_id, self.ask.key


class LedgerStore:
    """Model B. `commit` is the group commit's: durable when it returns, and safe to call again with the same asks."""

    def __init__(
        self, pool: Pool, ledger: EmailLedger, publisher: FastPublisher, *, clock: Callable[[], datetime]
    ) -> None:
        self._pool = pool
        self._ledger = ledger
        self._publisher = publisher
        self._clock = clock

    async def commit(self, asks: Sequence[EmailAsk]) -> list[EmailAcceptance | Refused]:
        """One answer per ask, in order. Publishes the hints and events of those that are new.

        Raises BadRowError (split the group), PartitionMissingError or UnavailableError.
        """
        available_at = self._clock() + timedelta(seconds=OUTBOX_DELAY_SEC)
        answers = await _again(lambda: self._ledger.enter(asks, available_at=available_at))
        self._publisher.publish(
            [message.outbox_id for message in answers.outgoing], [message.record for message in answers.outgoing]
        )
        holders = {entry.notification_id for entry in answers.entries if isinstance(entry, Entered)}
        own = {ask.id for ask in asks}
        in_ledger = own | await _in_ledger(self._pool, sorted(holders - own))
        return [
            entry if isinstance(entry, Refused) else _acceptance(ask, entry, in_ledger)
            for ask, entry in zip(asks, answers.entries, strict=True)
        ]


class TableStore:
    """Model A: a row of `email_messages` in Ulak's own database, sealed at once. `commit` as the ledger store's."""

    def __init__(self, pool: Pool, rings: RingSource) -> None:
        self._pool = pool
        self._rings = rings

    async def commit(self, emails: Sequence[TableAsk]) -> list[EmailAcceptance]:
        """One answer per e-mail, in order; the relay hears of the new ones by NOTIFY. Raises as the ledger store's."""
        holders = await _again(lambda: self._store(emails))
        others = {holder.notification_id for holder in holders.values()} - {email.ask.id for email in emails}
        in_ledger = await _in_ledger(self._pool, sorted(others))
        return [_acceptance(email.ask, holders[email.dedup_key], in_ledger) for email in emails]

    async def _store(self, emails: Sequence[TableAsk]) -> Mapping[tuple[int, str], Entered]:
        """Who holds each key, after those that are first of theirs were inserted."""
        async with self._pool.acquire() as connection, connection.transaction():
            keys = (
                [email.ask.application_id for email in emails],
                [email.ask.key for email in emails],
                [EMAIL_MAPPING] * len(emails),
            )
            claimed = await connection.fetch(
                _SQL["claim_keys"],
                *keys,
                [email.ask.id for email in emails],
                [email.ask.fingerprint for email in emails],
                [kept_until(email.ask.created_at, email.ask.expires_at or email.ask.created_at) for email in emails],
            )
            first = {row["notification_id"] for row in claimed}
            await self._insert(connection, [email for email in emails if email.ask.id in first])
            rows = await connection.fetch(_SQL["key_holders"], *keys)
        holders = {
            (row["application_id"], row["key"]): Entered(row["notification_id"], row["request_hmac"]) for row in rows
        }
        if any(email.dedup_key not in holders for email in emails):
            raise UnavailableError("a dedup row was pruned in this very moment: try again")
        return holders

    async def _insert(self, connection: Connection, emails: Sequence[TableAsk]) -> None:
        if not emails:
            return
        ring = self._rings.ring
        asks = [email.ask for email in emails]
        await connection.execute(
            _SQL["store_emails"],
            [ask.id for ask in asks],
            [email.message_class for email in emails],
            [ask.request.template for ask in asks],
            [ask.request.type for ask in asks],
            [ask.request.locale for ask in asks],
            [ask.request.user_id for ask in asks],
            [
                seal(ring, Purpose.OUTBOX, ask.id.bytes + b"recipients", recipients_json(ask.request.recipients))
                for ask in asks
            ],
            [
                seal(ring, Purpose.OUTBOX, ask.id.bytes + b"parameters", orjson.dumps(ask.request.parameters))
                for ask in asks
            ],
            # As text: in a jsonb[] a list inside a list would be one more dimension.
            [orjson.dumps(attachments_json(ask.request.attachments)).decode() for ask in asks],
            [ask.expires_at for ask in asks],
            [ask.created_at for ask in asks],
            [ask.application_id for ask in asks],
        )


class ConsentStore:
    """What model A's e-mails are asked about when they are accepted; the relay asks again before it sends."""

    def __init__(self, pool: Pool, rings: RingSource) -> None:
        self._pool = pool
        self._rings = rings

    async def stand(self, request: EmailRequest) -> bool:
        """Whether anybody whom the request goes to has consented to marketing by e-mail. Raises UnavailableError."""
        keys = target_keys(self._rings.ring, request)
        with storing():
            found = await read_states(self._pool, [(key, CHANNEL, ConsentPurpose.MARKETING) for key in keys])
        return any(word.granted for word in found.values())


async def _again(store: Callable[[], Awaitable[T]]) -> T:
    """Tried again after a lost race or a lost connection: e-mails carry their ids, so nothing is stored twice."""
    for attempt in range(1, _TRIES + 1):
        try:
            with storing():
                return await store()
        except (UnavailableError, asyncpg.DeadlockDetectedError, asyncpg.SerializationError) as error:
            _log.warning("email_commit_retried", attempt=attempt, error=type(error).__name__)
    raise UnavailableError("PostgreSQL could not store the e-mail now")


async def _in_ledger(pool: Pool, ids: Sequence[UUID]) -> set[UUID]:
    """Those of the e-mails that stand in the ledger; the others have rows in the table."""
    if not ids:
        return set()
    with storing():
        return {row["notification_id"] for row in await pool.fetch(_SQL["in_ledger"], ids)}


def _acceptance(ask: EmailAsk, holder: Entered, in_ledger: set[UUID]) -> EmailAcceptance:
    found = standing(
        own_id=ask.id,
        own_fingerprint=ask.fingerprint,
        holder=holder.notification_id,
        holder_fingerprint=holder.fingerprint,
    )
    return EmailAcceptance(holder.notification_id, found, holder.notification_id in in_ledger)
