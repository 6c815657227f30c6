"""Finding what an operator names in one source, and telling it without what it says."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from ops.cli.errors import CommandError
from ops.cli.outbox import advice
from ops.cli.outbox.cloud_event import attributes, payload_of
from ops.cli.outbox.source import looking
from shared.core.address import masked
from shared.core.email import InvalidEmailError, Recipient, recipients_from_json
from shared.core.identifier import EMAIL, NOTIFICATION, InvalidIdError, created_at, parse_public_id, public_id
from shared.core.sealing import KeyRing, Purpose, SealError, TamperedError, key_id, open_sealed
from shared.postgres.pool import Connection
from shared.postgres.query import load_queries
from shared.postgres.source import OWN
from shared.wire.channel import MessageClass

_SQL: Final = load_queries("outbox_cli")
_PUBLISHED_WITHIN: Final = timedelta(minutes=1)
_CLOCKS: Final = timedelta(seconds=5)
LOOKED_AT: Final = 100_000
"""Of the newest rows: an event's own id has no index, which every enqueuing transaction would pay for."""


@dataclass(frozen=True, slots=True)
class Name:
    """What was typed: an id, an idempotency key, an event's own id, or what may be any of them."""

    text: str
    id: UUID | None

    @classmethod
    def parse(cls, text: str) -> "Name":
        """CommandError for what can only be meant as an id and is none."""
        try:
            return cls(text, parse_public_id(EMAIL, text))
        except InvalidIdError as error:
            if text.startswith(f"{EMAIL}_"):
                raise CommandError(str(error)) from error
            if text.startswith(f"{NOTIFICATION}_"):
                raise CommandError(f"`ulak why {text}` tells what became of a notification") from error
        return cls(text, None)


async def find_rows(
    source: str, connection: Connection, name: Name, ring: KeyRing | None, now: datetime
) -> list[dict[str, Any]]:
    """Everything in this source that has the name, as `--json` prints it."""
    found: list[dict[str, Any]] = []
    async with looking(connection):
        emails = await connection.fetch(_SQL["show_email"], name.id, name.text)
        found += [_email_body(source, row, ring, now) for row in emails]
        key = await connection.fetchrow(_SQL["show_event_key"], name.text)
        row_id, event_id = (name.id, name.text) if key is None else (_uuid(key["event_id"]), key["event_id"])
        event = None if row_id is None else await _event(source, connection, row_id, ring, now)
        events = await _named_events(source, connection, event_id, ring, now) if event is None else [event]
        found += events
        if key is not None and not events:
            found.append(_key_body(source, name, key))
        if not found and source == OWN and name.id is not None:
            notification_id = await connection.fetchval(_SQL["link_of_email"], name.id)
            found += [] if notification_id is None else [_link_body(source, name.id, notification_id)]
    return found


async def _event(
    source: str, connection: Connection, event_id: UUID, ring: KeyRing | None, now: datetime
) -> dict[str, Any] | None:
    row = await connection.fetchrow(_SQL["show_event"], event_id)
    if row is not None:
        return _waiting_body(source, row, ring, now)
    if event_id.version != 7:
        return None
    enqueued = created_at(event_id)
    row = await connection.fetchrow(_SQL["show_published"], event_id, enqueued - _CLOCKS, enqueued + _PUBLISHED_WITHIN)
    return None if row is None else _published_body(source, row, ring)


async def _named_events(
    source: str, connection: Connection, event_id: str, ring: KeyRing | None, now: datetime
) -> list[dict[str, Any]]:
    """Those whose own id it is, which need not be their row's; read piece by piece, as there may be many to look at."""
    if "\x00" in event_id:
        return []  # PostgreSQL's text cannot hold it
    asked = (event_id, event_id.encode(errors="replace"), LOOKED_AT, ring is not None)

    async def of_it(query: str) -> list[Any]:
        return [row async for row in connection.cursor(_SQL[query], *asked) if _event_id(row, ring) == event_id]

    waiting = [_waiting_body(source, row, ring, now) for row in await of_it("show_named_events")]
    return waiting or [_published_body(source, row, ring) for row in await of_it("show_named_published")]


def _event_id(row: Any, ring: KeyRing | None) -> str | None:
    return attributes(row["headers"], payload_of(row["id"], row["payload"], ring, sealed=row["sealed"])).get("id")


def _waiting_body(source: str, row: Any, ring: KeyRing | None, now: datetime) -> dict[str, Any]:
    state = "set aside" if row["set_aside"] else "due" if row["available_at"] <= now else "later"
    return _event_body(source, row, state, {"availableAt": _iso(row["available_at"]), "error": row["error"]}, ring)


def _published_body(source: str, row: Any, ring: KeyRing | None) -> dict[str, Any]:
    return _event_body(source, row, "published", {"publishedAt": _iso(row["published_at"])}, ring)


def _event_body(source: str, row: Any, state: str, more: Mapping[str, Any], ring: KeyRing | None) -> dict[str, Any]:
    key: bytes | None = row["key"]
    return {
        "kind": "event",
        "source": source,
        "id": str(row["id"]),
        "state": state,
        **more,
        "class": MessageClass(row["message_class"]).label,
        "topic": row["topic"],
        "key": None if key is None else key.decode(errors="replace"),
        "ordered": row["ordered"],
        "sequence": row["sequence"],
        "headers": row["headers"],
        "payloadBytes": len(row["payload"]),
        "sealedUnder": _sealed_under(row["payload"]) if row["sealed"] else None,
        "event": attributes(row["headers"], payload_of(row["id"], row["payload"], ring, sealed=row["sealed"])) or None,
        "advice": advice.for_event(state, more.get("error")),
    }


def _key_body(source: str, name: Name, key: Any) -> dict[str, Any]:
    """Of an event that left the outbox and is no longer kept: then only its key is found by name."""
    return {
        "kind": "idempotency key",
        "source": source,
        "id": name.text,
        "eventId": key["event_id"],
        "usedAt": _iso(key["created_at"]),
        "advice": "The event of this key was enqueued then: `ulak why --event` tells what became of it.",
    }


def _link_body(source: str, email_id: UUID, notification_id: UUID) -> dict[str, Any]:
    return {
        "kind": "email",
        "source": source,
        "id": public_id(EMAIL, email_id),
        "model": "B",
        "notificationId": public_id(NOTIFICATION, notification_id),
        "advice": f"It came by the API and has no row: `ulak why {public_id(EMAIL, email_id)}` tells all of it.",
    }


def _email_body(source: str, row: Any, ring: KeyRing | None, now: datetime) -> dict[str, Any]:
    notification_id = row["notification_id"]
    return {
        "kind": "email",
        "source": source,
        "id": public_id(EMAIL, row["id"]),
        "model": row["model"],
        "status": row["status"],
        "error": row["error_message"],
        "class": MessageClass(row["message_class"]).label,
        "template": row["template"],
        "type": row["type"] or row["template"],
        "locale": row["locale"],
        "userId": row["user_id"],
        "idempotencyKey": row["idempotency_key"],
        "notificationId": None if notification_id is None else public_id(NOTIFICATION, notification_id),
        "recipients": list(_recipients(row, ring)),
        "sealedUnder": _sealed_under(row["recipients"]) if row["sealed"] else None,
        "contentKept": row["has_content"],
        "attachments": [_media_type(entry) for entry in row["attachments"]],
        "attempts": row["attempt_count"],
        "nextAttemptAt": _iso(row["next_attempt_at"]) if row["status"] == "PENDING" else None,
        "lockedAt": _iso(row["locked_at"]),
        "leaseUntil": _iso(row["lease_until"]),
        "provider": row["provider"],
        "providerMessageId": row["provider_message_id"],
        "createdAt": _iso(row["created_at"]),
        "expiresAt": _iso(row["expires_at"]),
        "sentAt": _iso(row["sent_at"]),
        "advice": advice.for_email(
            row["status"],
            row["error_message"],
            in_ledger=notification_id is not None,
            next_attempt_at=row["next_attempt_at"],
            expires_at=row["expires_at"],
            now=now,
        ),
    }


def _recipients(row: Any, ring: KeyRing | None) -> Iterator[dict[str, Any]]:
    """Each with what became of it; where they do not open, those that have an outcome, by position."""
    outcomes: Mapping[str, str] = row["outcomes"]
    known = opened_recipients(row, ring)
    if known is None:
        for place, told in sorted((int(place), told) for place, told in outcomes.items() if place.isdecimal()):
            yield {"position": place, "field": None, "address": "sealed", "outcome": told}
        return
    for position, recipient in enumerate(known):
        address = masked("EMAIL", recipient.mailbox.address.text)
        outcome = outcomes.get(str(position), row["status"])
        yield {"position": position, "field": recipient.field.value, "address": address, "outcome": outcome}


def opened_recipients(row: Any, ring: KeyRing | None) -> Sequence[Recipient] | None:
    """Of a row of `email_messages`; None where this ring does not open them."""
    plain = row["recipients"]
    try:
        if row["sealed"]:
            if ring is None:
                return None
            plain = open_sealed(ring, Purpose.OUTBOX, row["id"].bytes + b"recipients", plain)
        return recipients_from_json(plain)
    except (SealError, InvalidEmailError):
        return None


def _sealed_under(value: bytes) -> str:
    try:
        return key_id(value)
    except TamperedError:
        return "no key that this release knows"


def _media_type(entry: Any) -> str | None:
    """Of an attachment; its name and place may say what is in it."""
    return entry.get("contentType") if isinstance(entry, dict) else None


def _uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None


def _iso(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat()
