"""Enqueue into the schema `ulak` of your own database, through the connection you have. Never commits or connects."""

import json
import warnings
from typing import TYPE_CHECKING, Final
from uuid import UUID

from ulak_client.call import Call, Hidden
from ulak_client.connection import AutocommitWarning, async_driver, driver
from ulak_client.email import Email
from ulak_client.event import Event
from ulak_client.identifier import new_id
from ulak_client.priority import Priority, check_priority
from ulak_client.text import check_text

if TYPE_CHECKING:
    from ulak_client.sealing import KeyRing

MAX_EVENT_BYTES: Final = 900_000
"""As `ulak.enqueue_payload` refuses them, but before the transaction has failed."""
MAX_EMAIL_BYTES: Final = 262_144
"""Recipients and parameters together, as `ulak.enqueue_email_row` refuses them."""


def enqueue_event(
    connection: object,
    event: Event,
    *,
    priority: Priority = "tx",
    ordered: bool = False,
    idempotency_key: str | None = None,
    ring: "KeyRing | None" = None,
) -> str:
    """Enqueue in whatever transaction is open on the connection; returns the event's id.

    connection: psycopg, SQLAlchemy or Django; TypeError lists what is understood. Commit makes the event visible,
    rollback leaves nothing; outside a transaction it is durable at once (AutocommitWarning, before anything is done).
    ordered: Ulak publishes the events of `event.key` in the order in which they were enqueued.
    idempotency_key: the same key is the same intent; a repetition within 7 days adds nothing and returns the first
    event's id, waiting for another transaction that holds the key and is not finished.
    ring: seals the payload now; without it the event is readable in this database until Ulak has published it.
    ValueError before anything is sent to the database, whose own errors are the driver's.
    """
    return _run(connection, _event_call(event, priority, ordered, idempotency_key, ring))


async def enqueue_event_async(
    connection: object,
    event: Event,
    *,
    priority: Priority = "tx",
    ordered: bool = False,
    idempotency_key: str | None = None,
    ring: "KeyRing | None" = None,
) -> str:
    """`enqueue_event` for asyncpg, psycopg's AsyncConnection, SQLAlchemy's AsyncSession and AsyncConnection."""
    return await _run_async(connection, _event_call(event, priority, ordered, idempotency_key, ring))


def enqueue_email(
    connection: object, email: Email, *, idempotency_key: str | None = None, ring: "KeyRing | None" = None
) -> UUID:
    """Enqueue in whatever transaction is open on the connection; returns the message's id.

    As `enqueue_event`; the idempotency key holds as long as the message is kept (90 days by default). ring seals
    recipients and parameters, each bound to this row.
    """
    return UUID(_run(connection, _email_call(email, idempotency_key, ring)))


async def enqueue_email_async(
    connection: object, email: Email, *, idempotency_key: str | None = None, ring: "KeyRing | None" = None
) -> UUID:
    """`enqueue_email` for asyncpg, psycopg's AsyncConnection, SQLAlchemy's AsyncSession and AsyncConnection."""
    return UUID(await _run_async(connection, _email_call(email, idempotency_key, ring)))


def _event_call(
    event: Event, priority: Priority, ordered: bool, idempotency_key: str | None, ring: "KeyRing | None"
) -> Call:
    check_priority(priority)
    _check_key(idempotency_key)
    if ordered and event.key is None:
        raise ValueError("an ordered event needs a key: the id of the thing whose events keep their order")
    row_id = new_id()
    payload = event.payload()
    if ring is not None:
        payload = ring.seal(row_id.bytes, payload)
    if len(payload) > MAX_EVENT_BYTES:
        raise ValueError(f"the event has {len(payload)} bytes: keep it below {MAX_EVENT_BYTES}, send a reference")
    return Call(
        "ulak.enqueue_payload",
        {
            "row_id": ("uuid", str(row_id)),
            "event_id": ("text", event.id),
            "payload": ("bytea", Hidden(payload)),
            "sealed": ("boolean", ring is not None),
            "key": ("text", event.key or event.id),
            "priority": ("text", priority),
            "ordered": ("boolean", ordered),
            "idempotency_key": ("text", idempotency_key),
        },
    )


def _email_call(email: Email, idempotency_key: str | None, ring: "KeyRing | None") -> Call:
    _check_key(idempotency_key)
    row_id = new_id()
    recipients, parameters = email.recipients_json(), email.parameters_json()
    if ring is not None:
        recipients = ring.seal(row_id.bytes + b"recipients", recipients)
        parameters = ring.seal(row_id.bytes + b"parameters", parameters)
    if len(recipients) + len(parameters) > MAX_EMAIL_BYTES:
        raise ValueError("recipients and parameters have more than 256 KiB together: attach files, by reference")
    expires_in = None if email.expires_in is None else f"{email.expires_in.total_seconds():f} seconds"
    return Call(
        "ulak.enqueue_email_row",
        {
            "row_id": ("uuid", str(row_id)),
            "recipients": ("bytea", Hidden(recipients)),
            "template": ("text", email.template),
            "parameters": ("bytea", Hidden(parameters)),
            "sealed": ("boolean", ring is not None),
            "type": ("text", email.type),
            "priority": ("text", email.priority or "tx"),
            "locale": ("text", email.locale),
            "user_id": ("text", email.user_id),
            "attachments": ("jsonb", json.dumps([attachment.body() for attachment in email.attachments])),
            "expires_in": ("interval", expires_in),
            "idempotency_key": ("text", idempotency_key),
            "model": ("text", email.model),
        },
    )


def _check_key(idempotency_key: str | None) -> None:
    if idempotency_key is not None:
        check_text("idempotency_key", idempotency_key, longest=200)


def _run(connection: object, call: Call) -> str:
    found = driver(connection)
    if found.autocommits(connection):
        _warn()
    return found.execute(connection, call)


async def _run_async(connection: object, call: Call) -> str:
    found = async_driver(connection)
    if await found.autocommits(connection):
        _warn()
    return await found.execute(connection, call)


def _warn() -> None:
    warnings.warn(
        "enqueued outside a transaction: it is durable at once, even if what it tells of fails. Begin one around both, "
        "or filter AutocommitWarning where that is meant",
        AutocommitWarning,
        stacklevel=4,  # the line that enqueues: _warn, _run, enqueue_...
    )
