"""The ledger of consents, and what stands by it: read from here and never from a cache."""

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from shared.core.consent import IYS_TYPES, Line, Purpose, RecipientKind, Source, Word, user_subject
from shared.core.identifier import CONSENT, public_id
from shared.core.lifecycle import Reason
from shared.core.sealing import KeyRing, SealError, open_sealed, seal
from shared.core.sealing import Purpose as Sealed
from shared.postgres.pool import Connection, Pool
from shared.postgres.query import load_queries

_SQL: Final = load_queries("consent")
PAGE: Final = 1000
BEGINNING: Final = UUID(int=0)
"""Sorts before every line."""

Subject = tuple[bytes, str, Purpose]
"""Whose consent, on which channel, to what."""


@dataclass(frozen=True, slots=True)
class Appended:
    """recorded: lines that are new, by their ids; the others were there by their reference. standing: those of them
    that are what stands now.
    """

    recorded: frozenset[UUID]
    standing: frozenset[UUID]


@dataclass(frozen=True, slots=True)
class Recorded:
    """A line as the ledger has it. user_id is the outside's; iys_state None: nothing the registry is told of."""

    id: UUID
    channel: str
    purpose: Purpose
    user_id: str | None
    subject: bytes
    address_sealed: bytes | None = field(repr=False)
    granted: bool
    at: datetime
    recorded_at: datetime
    source: Source
    wording_version: str | None
    evidence_sealed: bytes | None = field(repr=False)
    recipient_kind: RecipientKind
    reference: str | None
    recorded_by: str
    iys_state: str | None

    def body(self) -> dict[str, Any]:
        """All that is readable, as the API and the export tell it."""
        return {
            "consentId": public_id(CONSENT, self.id),
            "userId": self.user_id,
            "channel": self.channel,
            "purpose": self.purpose,
            "granted": self.granted,
            "at": self.at,
            "recordedAt": self.recorded_at,
            "source": self.source,
            "wordingVersion": self.wording_version,
            "recipientKind": self.recipient_kind,
            "reference": self.reference,
            "recordedBy": self.recorded_by,
            "iys": self.iys_state,
        }

    def opened(self, ring: KeyRing) -> dict[str, Any]:
        """Address and evidence in the clear, for an export; what does not open is told, and ends nothing."""
        try:
            return {"address": self.address(ring), "evidence": self.evidence(ring)}
        except SealError:
            return {"address": None, "evidence": None, "unsealable": True}

    def address(self, ring: KeyRing) -> str | None:
        """What it was given for, in the clear; raises a SealError."""
        if self.address_sealed is None:
            return None
        return open_sealed(ring, Sealed.ADDRESS, self.subject, self.address_sealed).decode()

    def evidence(self, ring: KeyRing) -> str | None:
        """Its proof, in the clear; raises a SealError."""
        if self.evidence_sealed is None:
            return None
        return open_sealed(ring, Sealed.CONSENT, self.id.bytes, self.evidence_sealed).decode()


@dataclass(frozen=True, slots=True)
class Person:
    """A user and the addresses known of them, unopened: channel -> (target key, sealed address)."""

    user_id: int
    addresses: Mapping[str, tuple[bytes, bytes]]

    def subjects(self, ring: KeyRing) -> tuple[bytes, ...]:
        """Everybody a consent of this user's can belong to."""
        return (user_subject(ring, self.user_id), *(key for key, _ in self.addresses.values()))


async def append(connection: Connection, ring: KeyRing, lines: Sequence[Line]) -> Appended:
    """Append lines and keep what stands with them, in the caller's transaction; of two with one reference, the first.

    Whoever reads what stands after the commit finds it: a withdrawal is at once. Raises what asyncpg raises.
    """
    if not lines:
        return Appended(frozenset(), frozenset())
    rows = await connection.fetch(
        _SQL["append"],
        [line.id for line in lines],
        [line.subject for line in lines],
        [line.channel for line in lines],
        [line.purpose for line in lines],
        [line.user_id for line in lines],
        [_sealed(ring, Sealed.ADDRESS, line.subject, line.address) for line in lines],
        [line.granted for line in lines],
        [line.at for line in lines],
        [line.source for line in lines],
        [line.wording_version for line in lines],
        [_sealed(ring, Sealed.CONSENT, line.id.bytes, line.evidence) for line in lines],
        [line.recipient_kind for line in lines],
        [line.reference for line in lines],
        [line.recorded_by for line in lines],
    )
    recorded = frozenset(row["id"] for row in rows)
    new = [line for line in lines if line.id in recorded]
    stood = await connection.fetch(
        _SQL["stand"],
        [line.id for line in new],
        [line.subject for line in new],
        [line.channel for line in new],
        [line.purpose for line in new],
        [line.granted for line in new],
        [line.at for line in new],
        [line.source for line in new],
        list(IYS_TYPES),
    )
    return Appended(recorded, frozenset(row["consent_id"] for row in stood))


async def read_states(connection: Connection | Pool, asked: Collection[Subject]) -> Mapping[Subject, Word]:
    """What stands of each; whoever never said anything is absent."""
    if not asked:
        return {}
    rows = await connection.fetch(_SQL["states"], *zip(*asked, strict=True))
    return {(row["subject"], row["channel"], Purpose(row["purpose"])): Word(row["granted"], row["at"]) for row in rows}


@dataclass(frozen=True, slots=True)
class Going:
    """A marketing message about to be handed over. subject: whose consent it takes; None: nobody known.

    live: suppressions count (semantics.md: a test reaches nobody, so none keeps it).
    """

    subject: bytes | None
    target_key: bytes
    live: bool = True


async def read_refused(connection: Connection | Pool, channel: str, going: Sequence[Going]) -> Mapping[int, Reason]:
    """Which of the messages must not go, by position: NO_CONSENT or SUPPRESSED as it stands this very moment (C5)."""
    if not going:
        return {}
    rows = await connection.fetch(
        _SQL["refused"],
        [each.subject for each in going],
        [each.target_key for each in going],
        channel,
        [each.live for each in going],
    )
    return {row["position"] - 1: Reason(row["reason"]) for row in rows}


async def read_current(connection: Connection | Pool, subjects: Collection[bytes]) -> Mapping[Subject, Word]:
    """All that stands of some subjects, on every channel."""
    rows = await connection.fetch(_SQL["current"], list(subjects))
    return {(row["subject"], row["channel"], Purpose(row["purpose"])): Word(row["granted"], row["at"]) for row in rows}


async def read_history(
    connection: Connection | Pool,
    subjects: Collection[bytes],
    *,
    user_id: int | None = None,
    before: UUID | None = None,
    limit: int = PAGE,
) -> list[Recorded]:
    """Lines of the subjects, and of the user about whatever address; the newest first, before a line."""
    rows = await connection.fetch(_SQL["history"], list(subjects), user_id, before, limit)
    return [_recorded(row) for row in rows]


async def pages(pool: Pool, *, after: UUID = BEGINNING, size: int = PAGE) -> AsyncIterator[list[Recorded]]:
    """The whole ledger in the order it was recorded in, a page in memory at a time and no transaction held between.

    A line that another transaction commits late under an older id may be passed over: an export that must be complete
    ends before the present moment.
    """
    while rows := await pool.fetch(_SQL["page"], after, size):
        yield [_recorded(row) for row in rows]
        after = rows[-1]["id"]


async def find_people(
    connection: Connection, external_ids: Collection[str], *, create: bool = False
) -> dict[str, Person]:
    """Users by the outside's id. create: first sight makes one; else who is not known is absent."""
    wanted = sorted(set(external_ids))
    if not wanted:
        return {}
    rows = await connection.fetch(_SQL["people"], wanted)
    unseen = sorted(set(wanted) - {row["external_id"] for row in rows})
    if unseen and create:
        await connection.execute(_SQL["enter_people"], unseen)
        rows += await connection.fetch(_SQL["people"], unseen)
    return {row["external_id"]: _person(row) for row in rows}


def _sealed(ring: KeyRing, purpose: Sealed, row: bytes, text: str | None) -> bytes | None:
    return None if text is None else seal(ring, purpose, row, text.encode())


def _person(row: Any) -> Person:
    known = {"EMAIL": ("email_key", "email_sealed"), "SMS": ("phone_key", "phone_sealed")}
    return Person(
        row["user_id"],
        {channel: (row[key], row[sealed]) for channel, (key, sealed) in known.items() if row[key] is not None},
    )


def _recorded(row: Any) -> Recorded:
    return Recorded(
        id=row["id"],
        channel=row["channel"],
        purpose=Purpose(row["purpose"]),
        user_id=row["external_id"],
        subject=row["subject"],
        address_sealed=row["address_sealed"],
        granted=row["granted"],
        at=row["at"],
        recorded_at=row["recorded_at"],
        source=Source(row["source"]),
        wording_version=row["wording_version"],
        evidence_sealed=row["evidence_sealed"],
        recipient_kind=RecipientKind(row["recipient_kind"]),
        reference=row["reference"],
        recorded_by=row["recorded_by"],
        iys_state=row["iys_state"],
    )
