"""Hints lost, Kafka emptied: the sweep finds what is owed by the rows alone."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from uuid import UUID

import pytest

from services.relay.sweep import Sweep
from shared.core.identifier import lowest_id_at, new_id
from shared.core.lifecycle import DeliveryStatus, NotificationState
from shared.core.sealing import Purpose
from shared.kafka.error import PublishError
from shared.kafka.memory import InMemoryProducer
from shared.postgres.pool import Pool
from shared.wire.channel import DEFAULT_CHANNELS
from shared.wire.message import DeliveryHint, RequestHint, decode
from tests.integration.relay.rows import add_delivery, add_notification, add_request

pytestmark = pytest.mark.postgres

NOW = datetime.now(UTC)


def make(pool: Pool, broker: InMemoryProducer, *, page: int = 10, clock: Callable[[], datetime] = lambda: NOW) -> Sweep:
    """Horizons of 10 minutes and 1 hour, then every 6 hours."""
    return Sweep(
        pool,
        broker,
        DEFAULT_CHANNELS,
        first_horizons=(600, 3600),
        repeat_sec=21_600,
        page=page,
        pause_sec=0.0,
        clock=clock,
    )


def _same(moment: datetime) -> datetime:
    return moment


async def sweep_all(sweep: Sweep) -> None:
    while await sweep.round():
        pass


def aged(minutes: float, number: int = 1) -> UUID:
    """An id made that long ago."""
    return UUID(int=lowest_id_at(NOW - timedelta(minutes=minutes)).int | 7 << 76 | 2 << 62 | number)


def requests(broker: InMemoryProducer) -> list[UUID]:
    return [decode(RequestHint, record.value).notification_id for record in broker.on("notification-requests-tx")]


def deliveries(broker: InMemoryProducer) -> list[DeliveryHint]:
    return [decode(DeliveryHint, record.value) for record in broker.on("push-tx")]


async def test_finds_what_is_still_accepted_and_what_is_pending_past_its_time(
    pool: Pool, broker: InMemoryProducer
) -> None:
    accepted = await add_notification(pool, id=aged(11))
    decided = await add_notification(pool, id=aged(12), state=NotificationState.DECIDED)
    pending = await add_delivery(pool, decided, attempt=2)
    await add_delivery(pool, decided, target_key=b"\x08" * 32, status=DeliveryStatus.SENT)
    await add_delivery(pool, decided, target_key=b"\x09" * 32, next_attempt_at=NOW + timedelta(minutes=5))
    await add_notification(pool, id=aged(13), state=NotificationState.CANCELLED)

    await sweep_all(make(pool, broker))

    assert requests(broker) == [accepted]
    (hint,) = deliveries(broker)
    assert (hint.notification_id, hint.target_key, hint.attempt) == (decided, pending.target_key, 2)


async def test_what_a_pause_holds_is_owed_no_hint(pool: Pool, broker: InMemoryProducer) -> None:
    for number, pause_id in enumerate([None, new_id()]):
        key = await add_delivery(pool, await add_notification(pool, id=aged(30, number), state="DECIDED"))
        if pause_id is not None:
            await pool.execute(
                "INSERT INTO ulak.deferred (due_at, kind, notification_id, channel, target_key, pause_id)"
                " VALUES (now(), 'delivery', $1, $2, $3, $4)",
                key.notification_id,
                key.channel,
                key.target_key,
                pause_id,
            )
    await sweep_all(make(pool, broker))
    assert [hint.notification_id for hint in deliveries(broker)] == [aged(30, 0)]


async def test_a_message_is_owed_one_hint_and_anything_else_one_a_delivery(pool: Pool) -> None:
    broker, targets = InMemoryProducer(), [bytes([number]) * 32 for number in range(3)]
    made = [await add_notification(pool, id=aged(11, number), state=NotificationState.DECIDED) for number in range(4)]
    message, another, rendered, pushed = made
    for notification in made:
        channel = "PUSH" if notification == pushed else "EMAIL"
        for target in targets:
            await add_delivery(pool, notification, channel=channel, target_key=target)
    for notification in (message, another):
        await add_request(pool, notification)
    await add_request(pool, rendered, purpose=Purpose.CONTENT)

    await sweep_all(make(pool, broker))

    mails = [decode(DeliveryHint, record.value) for record in broker.on("email-tx")]
    assert [(hint.notification_id, hint.target_key) for hint in mails] == [
        (message, targets[0]),
        (another, targets[0]),
        *((rendered, target) for target in targets),
    ]
    assert [hint.target_key for hint in deliveries(broker)] == targets


async def test_leaves_the_young_alone_until_they_are_ten_minutes_old(pool: Pool, broker: InMemoryProducer) -> None:
    young = await add_notification(pool, id=aged(9))

    await sweep_all(make(pool, broker))
    assert requests(broker) == []

    await sweep_all(make(pool, broker, clock=lambda: NOW + timedelta(minutes=2)))
    assert requests(broker) == [young]


async def test_looks_once_at_each_horizon_and_goes_on_where_it_was_after_a_restart(
    pool: Pool, broker: InMemoryProducer
) -> None:
    waiting = await add_notification(pool, id=aged(11))

    for now in (NOW, NOW + timedelta(minutes=1), NOW + timedelta(minutes=30)):
        await sweep_all(make(pool, broker, clock=partial(_same, now)))
    assert requests(broker) == [waiting], "at ten minutes"

    await sweep_all(make(pool, broker, clock=lambda: NOW + timedelta(minutes=55)))
    assert requests(broker) == [waiting, waiting], "and at one hour"


async def test_goes_page_by_page_and_misses_none(pool: Pool, broker: InMemoryProducer) -> None:
    made = [await add_notification(pool, id=aged(11, number)) for number in range(1, 26)]

    await sweep_all(make(pool, broker, page=10))

    assert requests(broker) == made


async def test_a_page_whose_hints_were_not_acknowledged_is_swept_again(pool: Pool, broker: InMemoryProducer) -> None:
    waiting = await add_notification(pool, id=aged(11))
    broker.fail_next("_MSG_TIMED_OUT")
    sweep = make(pool, broker)

    with pytest.raises(PublishError):
        await sweep.round()
    await sweep_all(sweep)

    assert requests(broker) == [waiting]


async def test_two_relays_sweep_a_range_once(pool: Pool, broker: InMemoryProducer) -> None:
    made = [await add_notification(pool, id=aged(11, number)) for number in range(1, 101)]

    await asyncio.gather(*(sweep_all(make(pool, broker)) for _ in range(3)))
    await sweep_all(make(pool, broker))

    assert sorted(requests(broker)) == made


async def test_a_deferred_one_is_owed_a_hint_only_if_nothing_wakes_it_later(
    pool: Pool, broker: InMemoryProducer
) -> None:
    forgotten = await add_notification(pool, id=aged(11, 1), state=NotificationState.DEFERRED)
    asleep = await add_notification(pool, id=aged(11, 2), state=NotificationState.DEFERRED)
    await pool.execute(
        "INSERT INTO ulak.deferred (due_at, kind, notification_id) VALUES ($1, 'notification', $2)",
        NOW + timedelta(hours=8),
        asleep,
    )

    await sweep_all(make(pool, broker))

    assert requests(broker) == [forgotten]


async def test_texts_of_login_codes_go_when_their_life_is_over(pool: Pool, broker: InMemoryProducer) -> None:
    over = await add_notification(pool, id=aged(11, 1), expires_at=NOW - timedelta(minutes=8))
    alive = await add_notification(pool, id=aged(11, 2))
    for identifier in (over, alive):
        await pool.execute(
            "INSERT INTO ulak.contents (notification_id, channel, sealed, purpose, locale, template_version) "
            "VALUES ($1, 'SMS', 'x', 'otp-v1', 'tr', 1)",
            identifier,
        )

    await sweep_all(make(pool, broker))

    kept = await pool.fetch("SELECT notification_id FROM ulak.contents WHERE sealed IS NOT NULL")
    assert [row["notification_id"] for row in kept] == [alive]


async def test_the_last_horizon_lies_past_the_longest_ttl(pool: Pool, broker: InMemoryProducer) -> None:
    await pool.execute(
        "INSERT INTO ulak.notification_types (type, category, message_class, default_channels, ttl_seconds) "
        "VALUES ('ORDER_SHIPPED', 'TRANSACTIONAL', 1, '{PUSH}', 86400)"
    )

    await sweep_all(make(pool, broker))

    horizons = await pool.fetch("SELECT horizon_sec FROM ulak.sweep_progress ORDER BY 1")
    assert [row["horizon_sec"] for row in horizons] == [600, 3600, 21_600, 43_200, 64_800, 86_400]


async def test_an_id_of_this_moment_is_not_swept(pool: Pool, broker: InMemoryProducer) -> None:
    await add_notification(pool, id=new_id())

    await sweep_all(make(pool, broker))

    assert broker.records == []
