"""A version of a template, sent to a person who looks at it: through the ledger and the lanes, like anything else.

Decided by whoever asks, so preferences, caps and windows are not asked. What protects people stays: the allow-list of a
team key, suppressions, and for marketing consent and quiet hours, all of which the worker asks before it sends.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID
from zoneinfo import ZoneInfo

import asyncpg
import orjson

from services.ingest.admin import problem
from services.ingest.admin.change import Change
from services.ingest.caller import Caller
from services.ingest.outgoing import LogEntry, Outgoing, add_log, add_outbox
from services.ingest.row import Message
from shared.core.catalogue import NotificationType
from shared.core.identifier import new_id
from shared.core.reference import DeliveryKey
from shared.core.sealing import KeyRing, Purpose, seal
from shared.core.zone import zone_named
from shared.postgres.query import load_queries
from shared.postgres.template import StoredTemplate
from shared.publishing.preview import rendered
from shared.web.problem import RefusedError
from shared.wire.channel import DEFAULT_CHANNELS, AddressKind, Category, ChannelSpec
from shared.wire.message import DeliveryHint, encode

MARK: Final = "[test] "
"""Begins the first words that are seen, so that nobody takes a test for the real thing."""
_FIRST_WORDS: Final[Mapping[str, str]] = {"EMAIL": "subject", "PUSH": "title", "SMS": "text"}


@dataclass(frozen=True, slots=True)
class _Target:
    key: bytes
    sealed: bytes
    platform: str | None = None
    app_id: str | None = None


@dataclass(frozen=True, slots=True)
class Trial:
    """What is sent: the stored version with these params or the sample of its type, and to whom (the caller's own id
    of the user).
    """

    template: StoredTemplate
    type: NotificationType
    params: Mapping[str, Any] | None
    user: str


async def send_trial(
    change: Change, trial: Trial, caller: Caller, ring: KeyRing, now: datetime, default_zone: str
) -> UUID:
    """The new notification's id, within the change's transaction; the relay publishes its hints after the commit.

    default_zone: of a recipient without one. RefusedError for a channel that is not sent, and for whom it cannot
    reach; RenderError for what the version cannot say.
    """
    entry = trial.type
    channel = DEFAULT_CHANNELS.spec(trial.template.key.channel)
    if not channel.is_sent:
        raise RefusedError(problem.UNREACHABLE(f"{channel.name} is not sent: look at it with preview.", "channel"))
    queries = load_queries("test_send")
    person = await change.connection.fetchrow(queries["recipient"], trial.user)
    targets = [] if person is None else await _targets(change, channel, person, queries["devices"])
    if person is None or not targets:
        raise RefusedError(
            problem.UNREACHABLE(f"This user cannot be reached on {channel.name}: add an address or a device.", "userId")
        )
    zone = zone_named(person["time_zone"], default_zone)
    marked = {_FIRST_WORDS[channel.name]: MARK}
    content = rendered(trial.template, entry, trial.params, zone=zone.key, marked=marked)
    id_, expires_at = new_id(), now + entry.ttl
    await change.connection.execute(
        queries["add_notification"],
        *(id_, caller.application_id, f"test-send:{id_}", person["user_id"], entry.name, entry.message_class),
        *(caller.mode, trial.template.key.locale, expires_at, caller.key_id, now),
    )
    sealed = seal(ring, Purpose.CONTENT, id_.bytes + channel.name.encode(), orjson.dumps(content))
    await change.connection.execute(
        queries["add_content"], id_, channel.name, sealed, trial.template.key.locale, trial.template.version
    )
    await change.connection.execute(
        queries["add_deliveries"],
        *(id_, channel.name, [target.key for target in targets], [target.sealed for target in targets]),
        *([target.platform for target in targets], [target.app_id for target in targets]),
        *(entry.message_class, entry.promise(channel), caller.mode, now),
        _send_until(entry, now, zone),
        *(entry.category is Category.MARKETING, expires_at),
    )
    detail = f"version {trial.template.version}, asked for by {change.actor.name}"[:256]
    keys = [DeliveryKey(id_, channel.name, target.key) for target in targets]
    await add_log(change.connection, [LogEntry(key, new_id(), "operator", "test_send", None, detail) for key in keys])
    hints = [_hint(key, channel, entry, person["user_id"]) for key in keys]
    await add_outbox(change.connection, hints, entry.message_class, now)
    return id_


async def _targets(change: Change, channel: ChannelSpec, person: asyncpg.Record, devices: str) -> Sequence[_Target]:
    if channel.address_kind is AddressKind.DEVICE:
        rows = await change.connection.fetch(devices, person["user_id"])
        return [_Target(row["token_key"], row["token_sealed"], row["platform"], row["app_id"]) for row in rows]
    name = "email" if channel.address_kind is AddressKind.EMAIL_ADDRESS else "phone"
    key = person[f"{name}_key"]
    return [] if key is None else [_Target(key, person[f"{name}_sealed"])]


def _send_until(entry: NotificationType, now: datetime, zone: ZoneInfo) -> datetime | None:
    """The next quiet hours, or now if they are on: the worker puts it off until they are over."""
    if entry.quiet_hours is None:
        return None
    return now if entry.quiet_hours.contains(now, zone) else entry.quiet_hours.start_after(now, zone)


def _hint(key: DeliveryKey, channel: ChannelSpec, entry: NotificationType, user_id: int) -> Outgoing:
    value, headers = encode(DeliveryHint(key.notification_id, key.channel, key.target_key, 0, entry.message_class))
    topic = channel.lane(entry.message_class).topic
    return Outgoing(new_id(), str(user_id).encode(), Message(topic, value, tuple(headers)))
