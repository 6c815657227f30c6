"""Stop buttons on worker processes: acting on all of them, and through kill -9 and restarts."""

import signal

import pytest

from services.relay.deferred import DeferredReleaser
from services.relay.release import PauseRelease
from shared.core.control import PauseKind
from shared.core.sealing import KeyRing
from shared.kafka.settings import KafkaSettings
from shared.postgres.audit_log import Actor
from shared.postgres.control_watch import watching
from shared.postgres.pause import begin_pause, end_pause
from shared.postgres.pool import Pool
from shared.wire.channel import DEFAULT_CHANNELS
from tests.integration.delivery.conftest import Simulator
from tests.integration.delivery.test_worker_process import (
    Workers,
    create,
    in_status,
    producing,
    publish,
    workers,  # noqa: F401  a fixture
)
from tests.integration.delivery.world import Seeder, until

pytestmark = [pytest.mark.postgres, pytest.mark.kafka, pytest.mark.redis]

ADA = Actor("operator ada")
LANE = DEFAULT_CHANNELS.lane("sms-tx")


async def pause(pool: Pool, kind: PauseKind, key: str) -> None:
    async with pool.acquire() as connection, connection.transaction():
        await begin_pause(connection, ADA, kind, key, "wrong price")


async def resume(pool: Pool, kind: PauseKind, key: str) -> None:
    async with pool.acquire() as connection, connection.transaction():
        await end_pause(connection, ADA, kind, key, per_second=None)


async def test_a_paused_type_waits_through_kill_9_and_is_sent_once_after_the_resume(
    workers: Workers,  # noqa: F811
    simulator: Simulator,
    pool: Pool,
    kafka_settings: KafkaSettings,
    key_ring: KeyRing,
) -> None:
    await create(kafka_settings, LANE)
    seeder = Seeder(pool, key_ring)
    first, _second = await workers.start(LANE.name), await workers.start(LANE.name)
    await pause(pool, PauseKind.TYPE, "ORDER_SHIPPED")
    seeded = [await seeder.delivery("SMS") for _ in range(20)]
    other = await seeder.delivery("SMS", type_name="OTHER")
    await publish(kafka_settings, *seeded, other)
    await in_status(seeder, other, "SENT")

    async def held() -> bool:
        return bool(await pool.fetchval("SELECT count(*) = 20 FROM ulak.deferred WHERE pause_id IS NOT NULL"))

    await until(held, timeout_sec=90, what="all of the type held")
    first.send_signal(signal.SIGKILL)
    first.wait(10)
    await publish(kafka_settings, *seeded)  # as after a crash before the offset moved
    await workers.start(LANE.name)
    assert len(await simulator.accepted("twilio")) == 1

    await resume(pool, PauseKind.TYPE, "ORDER_SHIPPED")
    async with watching(pool) as watch, producing(kafka_settings) as producer:
        release = PauseRelease(pool, per_second=1000)
        releaser = DeferredReleaser(pool, producer, DEFAULT_CHANNELS, watch=watch, visibility_sec=60)

        async def let_go() -> bool:
            await release.round()
            await releaser.round()
            return bool(await pool.fetchval("SELECT count(*) = 0 FROM ulak.pauses WHERE ended_at IS NULL"))

        await until(let_go, timeout_sec=90, what="the end of the release")
    for each in seeded:
        await in_status(seeder, each, "SENT")
    assert len(await simulator.accepted("twilio")) == 21


async def test_a_paused_lane_rests_in_all_processes_and_goes_on_after_the_resume(
    workers: Workers,  # noqa: F811
    simulator: Simulator,
    pool: Pool,
    kafka_settings: KafkaSettings,
    key_ring: KeyRing,
) -> None:
    await create(kafka_settings, LANE)
    seeder = Seeder(pool, key_ring)
    await workers.start(LANE.name)
    await pause(pool, PauseKind.LANE, LANE.name)
    seeded = [await seeder.delivery("SMS") for _ in range(20)]
    await publish(kafka_settings, *seeded)
    second = await workers.start(LANE.name)  # joins while the lane rests: it must not read either
    second.send_signal(signal.SIGKILL)
    second.wait(10)
    assert await simulator.accepted("twilio") == []
    assert await pool.fetchval("SELECT count(*) FROM ulak.deliveries WHERE status = 'PENDING'") == 20

    await resume(pool, PauseKind.LANE, LANE.name)
    for each in seeded:
        await in_status(seeder, each, "SENT")
    assert len(await simulator.accepted("twilio")) == 20
