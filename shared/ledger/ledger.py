"""Requests into the ledger: decided, and written with all that follows from them in one transaction."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Final, Protocol
from uuid import UUID

from shared.core.catalogue import Catalogue
from shared.core.deduplication import EMAIL_MAPPING
from shared.core.lifecycle import Reason
from shared.decision.email import EmailDecision, decide_email
from shared.ledger.ask import NO_SOURCE, Answers, EmailAsk, Entered, Outgoing, Refused
from shared.ledger.facts import EmailFacts, load_facts
from shared.ledger.row import CONTENTS, DELIVERIES, INTAKES, LOG, NOTIFICATIONS, EmailEntry, refusal
from shared.postgres.errors import UnavailableError
from shared.postgres.pool import Connection, Pool
from shared.postgres.query import load_queries
from shared.runtime.keyring import RingSource

_SQL: Final = load_queries("ledger")
_REREAD_SEC: Final = 1.0
"""How old the catalogue may be before a request is refused by it: what was pushed a moment ago is found."""
_MENDABLE: Final = frozenset({Reason.UNKNOWN_TYPE, Reason.NO_TEMPLATE})


class CatalogueSource(Protocol):
    """What a `CatalogueCache` is to us."""

    async def get(self, *, max_age_sec: float | None = None) -> Catalogue:
        """The catalogue, at most that old; UnavailableError."""


class EmailLedger:
    """Ulak's own database. `enter` may be called again with the same requests: there is one entry for each.

    clock returns the present moment, aware.
    """

    def __init__(
        self,
        pool: Pool,
        catalogue: CatalogueSource,
        rings: RingSource,
        *,
        default_locale: str,
        clock: Callable[[], datetime],
    ) -> None:
        self._pool = pool
        self._catalogue = catalogue
        self._rings = rings
        self._default_locale = default_locale
        self._clock = clock

    async def enter(self, asks: Sequence[EmailAsk], *, available_at: datetime | None = None) -> Answers:
        """One answer per request; what is new is committed with its outbox rows, due at `available_at` (None: now).

        All or nothing: raises what asyncpg raises, and UnavailableError, with no entry written.
        """
        # No connection is held while the catalogue may have to be read: it is read from the same pool.
        catalogue = await self._catalogue.get()
        async with self._pool.acquire() as connection, connection.transaction():
            known = await self._known(connection, asks)
            fresh = [ask for ask in asks if ask.id not in known]
            facts = await load_facts(connection, fresh, self._rings.ring) if fresh else {}
        now = self._clock()
        entries, refused = _sorted(fresh, facts, await self._decide(fresh, facts, catalogue, now), now)
        holders: dict[UUID, Entered] = {}
        outgoing: Sequence[Outgoing] = ()
        if entries:
            async with self._pool.acquire() as connection, connection.transaction():
                won = await self._claim(connection, entries)
                outgoing = await self._write(connection, won, available_at or now)
                holders = {entry.id: Entered(entry.id, entry.ask.fingerprint) for entry in won}
                holders |= await self._holders(connection, [entry for entry in entries if entry.id not in holders])
        answers: Mapping[UUID, Entered | Refused] = {**known, **refused, **holders}
        return Answers([answers[ask.id] for ask in asks], outgoing)

    async def _known(self, connection: Connection, asks: Sequence[EmailAsk]) -> dict[UUID, Entered]:
        """Entries that a source's rows have already."""
        by_source: dict[str, dict[UUID, EmailAsk]] = {}
        for ask in asks:
            if ask.source != NO_SOURCE:
                by_source.setdefault(ask.source, {})[ask.source_id] = ask
        found: dict[UUID, Entered] = {}
        for source, by_id in by_source.items():
            for row in await connection.fetch(_SQL["take_up_intakes"], source, sorted(by_id)):
                ask = by_id[row["source_id"]]
                found[ask.id] = Entered(row["notification_id"], ask.fingerprint)
        return found

    async def _decide(
        self, asks: Sequence[EmailAsk], facts: Mapping[UUID, EmailFacts], catalogue: Catalogue, now: datetime
    ) -> dict[UUID, EmailDecision]:
        decisions = self._decided(asks, facts, catalogue, now)
        if any((skip := refusal(found)) is not None and skip.reason in _MENDABLE for found in decisions.values()):
            newer = await self._catalogue.get(max_age_sec=_REREAD_SEC)
            if newer is not catalogue:
                return self._decided(asks, facts, newer, now)
        return decisions

    def _decided(
        self, asks: Sequence[EmailAsk], facts: Mapping[UUID, EmailFacts], catalogue: Catalogue, now: datetime
    ) -> dict[UUID, EmailDecision]:
        return {
            ask.id: decide_email(ask.request, facts[ask.id].known, catalogue, now, default_locale=self._default_locale)
            for ask in asks
        }

    async def _claim(self, connection: Connection, entries: Sequence[EmailEntry]) -> list[EmailEntry]:
        """Those that are the first of their key, in the order of their ids."""
        rows = await connection.fetch(
            _SQL["claim_keys"],
            [entry.ask.application_id for entry in entries],
            [entry.ask.key for entry in entries],
            [EMAIL_MAPPING] * len(entries),
            [entry.id for entry in entries],
            [entry.ask.fingerprint for entry in entries],
            [entry.dedup_until for entry in entries],
        )
        first = {row["notification_id"] for row in rows}
        return sorted((entry for entry in entries if entry.id in first), key=lambda entry: entry.id)

    async def _write(
        self, connection: Connection, entries: Sequence[EmailEntry], available_at: datetime
    ) -> list[Outgoing]:
        """The entries' rows. COPY needs no ON CONFLICT: who holds the dedup row is the only one."""
        if not entries:
            return []
        ring = self._rings.ring
        deliveries = sorted((row for entry in entries for row in entry.deliveries(ring)), key=lambda row: row[:3])
        for table, columns, rows in (
            ("notifications", NOTIFICATIONS, [entry.notification() for entry in entries]),
            ("deliveries", DELIVERIES, deliveries),
            ("contents", CONTENTS, [entry.content(ring) for entry in entries]),
            ("delivery_log", LOG, [row for entry in entries for row in entry.log()]),
            ("email_intakes", INTAKES, [entry.intake() for entry in entries]),
        ):
            await connection.copy_records_to_table(table, schema_name="ulak", columns=columns, records=rows)
        outgoing = [message for entry in entries for message in entry.outgoing()]
        await connection.execute(
            _SQL["add_outbox"],
            [message.outbox_id for message in outgoing],
            [message.message_class for message in outgoing],
            [message.record.topic for message in outgoing],
            [message.record.key for message in outgoing],
            [message.record.value for message in outgoing],
            [{name: value.decode() for name, value in message.record.headers} for message in outgoing],
            available_at,
        )
        return outgoing

    async def _holders(self, connection: Connection, lost: Sequence[EmailEntry]) -> dict[UUID, Entered]:
        """Who stands for the keys of those that were not the first."""
        if not lost:
            return {}
        rows = await connection.fetch(
            _SQL["key_holders"],
            [entry.ask.application_id for entry in lost],
            [entry.ask.key for entry in lost],
            [EMAIL_MAPPING] * len(lost),
        )
        by_key = {
            (row["application_id"], row["key"]): Entered(row["notification_id"], row["request_hmac"]) for row in rows
        }
        found = {
            entry.id: by_key[key] for entry in lost if (key := (entry.ask.application_id, entry.ask.key)) in by_key
        }
        if len(found) < len(lost):
            raise UnavailableError("a dedup row was pruned in this very moment: try again")
        return found


def _sorted(
    asks: Sequence[EmailAsk],
    facts: Mapping[UUID, EmailFacts],
    decisions: Mapping[UUID, EmailDecision],
    now: datetime,
) -> tuple[list[EmailEntry], dict[UUID, Refused]]:
    """What goes into the ledger, and what is refused for its request's own sake.

    A user's word against it is an entry all the same: whoever asks what became of it is told.
    """
    entries: list[EmailEntry] = []
    refused: dict[UUID, Refused] = {}
    for ask in asks:
        decision = decisions[ask.id]
        skip = refusal(decision)
        if decision.type is None or decision.expires_at is None:
            refused[ask.id] = Refused(Reason.UNKNOWN_TYPE, _detail(Reason.UNKNOWN_TYPE, ask))
        elif skip is not None and skip.reason is not Reason.PREFERENCE:
            refused[ask.id] = Refused(skip.reason, _detail(skip.reason, ask))
        else:
            entries.append(EmailEntry(ask, facts[ask.id], decision, decision.type, decision.expires_at, now))
    return entries, refused


def _detail(reason: Reason, ask: EmailAsk) -> str:
    match reason:
        case Reason.UNKNOWN_TYPE:
            return f"there is no notification type {ask.request.type_name}: `ulak templates push` it, then requeue"
        case Reason.NO_TEMPLATE:
            return f"{ask.request.template} has no e-mail template: `ulak templates push` one, then requeue"
        case Reason.NO_CONSENT:
            return f"{ask.request.type_name} is marketing, and no recipient's consent to it by e-mail stands"
        case _:
            return "its time to live had passed before it was taken in"
