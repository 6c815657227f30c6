"""Providers that fail, refuse or fall silent, over real sockets: who takes over, what waits, how the first returns."""

from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from prometheus_client import REGISTRY
from pydantic import SecretStr
from redis.asyncio import Redis

from shared.core.breaker import Phase, Policy
from shared.core.outcome import Transient
from shared.core.ports import Sender
from shared.core.sealing import KeyRing
from shared.kafka.settings import KafkaSettings
from shared.postgres.audit_log import Actor
from shared.postgres.control_watch import ControlWatch
from shared.postgres.pool import Pool
from shared.postgres.provider import ProviderEvents, drain_account, enable_account
from shared.providers.email.mailgun.client import MAILGUN
from shared.providers.email.sendgrid.client import SENDGRID
from shared.providers.push.apns.client import APNS
from shared.providers.sms.twilio.client import TWILIO
from shared.providers.sms.vonage.client import VONAGE
from shared.redis_store.breaker import Breakers, BreakerScript, Guarded
from shared.wire.channel import DEFAULT_CHANNELS, MessageClass, Promise
from tests.integration.delivery.conftest import Simulator
from tests.integration.delivery.test_worker_process import Workers, create, in_status, publish, workers
from tests.integration.delivery.world import (
    ScriptedSender,
    Seeded,
    Seeder,
    World,
    first_to_last,
    make_world,
    own_breakers,
    until,
)

__all__ = ["workers"]

pytestmark = pytest.mark.postgres

OPERATOR = Actor("operator ayse")


class Clock:
    """The time of day for the lane; for its breakers one that stands still. A test may put both forward."""

    def __init__(self) -> None:
        self.began = datetime.now(UTC)
        self.ahead = timedelta()

    def __call__(self) -> datetime:
        return datetime.now(UTC) + self.ahead

    def seconds(self) -> float:
        return (self.began + self.ahead).timestamp()

    def moves(self, seconds: float) -> None:
        self.ahead += timedelta(seconds=seconds)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def mails(pool: Pool, key_ring: KeyRing, simulator: Simulator, clock: Clock) -> AsyncIterator[World]:
    """The lane `email-tx` through SendGrid, else Mailgun."""
    async with AsyncExitStack() as stack:
        senders: dict[str, Sender] = {
            "sendgrid": await stack.enter_async_context(SENDGRID.open(simulator.sendgrid())),
            "mailgun": await stack.enter_async_context(MAILGUN.open(simulator.mailgun())),
        }
        yield make_world(
            "email-tx",
            pool,
            key_ring,
            senders=senders,
            order=first_to_last("sendgrid", "mailgun"),
            breakers=own_breakers(told=ProviderEvents(pool), clock=clock.seconds),
            clock=clock,
        )


async def seeded(world: World, count: int, channel: str = "EMAIL", **changes: Any) -> list[Seeded]:
    return [await world.seeder.delivery(channel, **changes) for _ in range(count)]


async def again(world: World, seeds: Sequence[Seeded]) -> None:
    """Their retry hints come round."""
    await world.work(*(replace(each, hint=replace(each.hint, attempt=1)) for each in seeds))


async def statuses(world: World, seeds: Sequence[Seeded]) -> Counter[tuple[str, int, str | None]]:
    rows = [await world.seeder.row(each.key) for each in seeds]
    return Counter((row["status"], row["attempt"], row["provider"]) for row in rows)


async def arrived(simulator: Simulator, *providers: str) -> dict[str, int]:
    return {name: len(await simulator.accepted(name)) for name in providers}


def metric(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(name, labels) or 0.0


def switches(phase: str) -> float:
    return metric("ulak_provider_switches_total", account="sendgrid", message_class="tx", phase=phase)


async def test_second_takes_over_and_the_first_comes_back_gradually(
    mails: World, simulator: Simulator, pool: Pool, clock: Clock
) -> None:
    opened, around = switches("open"), metric("ulak_routed_around_total", lane="email-tx", provider="mailgun")
    closed = switches("closed")
    await simulator.fault("sendgrid", status=503)
    first = await seeded(mails, 10)
    await mails.work(*first)
    assert await statuses(mails, first) == {("PENDING", 1, "sendgrid"): 10}
    assert switches("open") == opened + 1
    assert metric("ulak_breaker_phase", account="sendgrid", message_class="tx") == 2

    clock.moves(15)  # past the first tier
    await again(mails, first)
    assert await statuses(mails, first) == {("SENT", 2, "mailgun"): 10}
    assert await mails.seeder.log(first[0].key) == [("attempt", "transient"), ("route", "to"), ("attempt", "accepted")]
    detail = await pool.fetchval("SELECT detail FROM ulak.delivery_log WHERE kind = 'route' LIMIT 1")
    assert detail.startswith("mailgun instead of sendgrid: breaker open since ")
    assert "10 failures in a row, the last: 503" in detail
    assert metric("ulak_routed_around_total", lane="email-tx", provider="mailgun") == around + 10

    await simulator.forget()
    clock.moves(300)
    probing = await seeded(mails, 10)
    await mails.work(*probing)
    assert await statuses(mails, probing) == {("SENT", 1, "sendgrid"): 5, ("SENT", 1, "mailgun"): 5}

    back = await seeded(mails, 40)
    await mails.work(*back)
    counts = await statuses(mails, back)
    assert counts["SENT", 1, "sendgrid"] + counts["SENT", 1, "mailgun"] == 40
    assert counts["SENT", 1, "mailgun"] > 25  # a tenth of them goes to the first, by their ids

    clock.moves(60)
    usual = await seeded(mails, 10)
    await mails.work(*usual)
    assert await statuses(mails, usual) == {("SENT", 1, "sendgrid"): 10}
    events = await pool.fetch(
        "SELECT account, from_state, to_state, actor FROM ulak.provider_events WHERE message_class = 1 ORDER BY id"
    )
    assert [tuple(event) for event in events] == [
        ("sendgrid", "closed", "open", None),
        ("sendgrid", "open", "half_open", None),
        ("sendgrid", "half_open", "closed", None),
    ]
    assert switches("closed") == closed + 1
    assert metric("ulak_breaker_phase", account="sendgrid", message_class="tx") == 0


async def test_all_down_waits_with_its_reason_and_nothing_is_lost(
    mails: World, simulator: Simulator, clock: Clock
) -> None:
    await simulator.fault("sendgrid", status=503)
    await simulator.fault("mailgun", status=503)
    await mails.work(*await seeded(mails, 10))
    await mails.work(*await seeded(mails, 10))
    mails.producer.records.clear()

    waiting = await seeded(mails, 3)
    await mails.work(*waiting)
    assert await statuses(mails, waiting) == {("PENDING", 0, None): 3}
    hints = mails.hints(600)
    assert {hint.notification_id for hint in hints} == {each.key.notification_id for each in waiting}
    (not_before,) = {hint.not_before for hint in hints}
    assert not_before is not None
    assert abs(not_before - clock.began - timedelta(seconds=300)) <= timedelta(milliseconds=1)
    assert await mails.seeder.log(waiting[0].key) == [("route", "wait")]

    await simulator.forget()
    clock.moves(300)
    await mails.work(*waiting)
    assert await statuses(mails, waiting) == {("SENT", 1, "sendgrid"): 3}


async def test_what_expires_while_all_are_down_is_told_and_not_sent(
    mails: World, simulator: Simulator, clock: Clock
) -> None:
    await simulator.fault("sendgrid", status=503)
    await simulator.fault("mailgun", status=503)
    await mails.work(*await seeded(mails, 10))
    await mails.work(*await seeded(mails, 10))
    (code,) = await seeded(mails, 1, expires_in_sec=120)
    expires_at = (await mails.seeder.row(code.key))["expires_at"]
    mails.producer.records.clear()
    await mails.work(code)
    (hint,) = (hint for tier in mails.lane.tiers for hint in mails.hints(tier))
    assert hint.not_before is not None
    assert abs(hint.not_before - expires_at) < timedelta(milliseconds=1)  # it is looked at then, and not after minutes
    await simulator.forget()
    clock.moves(120)
    await mails.work(code)
    row = await mails.seeder.row(code.key)
    assert (row["status"], row["reason"]) == ("SKIPPED", "expired")
    assert await arrived(simulator, "sendgrid", "mailgun") == {"sendgrid": 0, "mailgun": 0}


async def test_refused_credentials_open_it_at_once_and_burn_no_message(
    pool: Pool, key_ring: KeyRing, simulator: Simulator, clock: Clock
) -> None:
    wrong = simulator.twilio(auth_token=SecretStr("0" * 32))
    async with TWILIO.open(wrong) as twilio, VONAGE.open(simulator.vonage()) as vonage:
        world = make_world(
            "sms-tx",
            pool,
            key_ring,
            senders={"twilio": twilio, "vonage": vonage},
            order=first_to_last("twilio", "vonage"),
            breakers=own_breakers(clock=clock.seconds),
            clock=clock,
        )
        (first,) = await seeded(world, 1, "SMS")
        await world.work(first)
        assert await statuses(world, [first]) == {("PENDING", 0, "twilio"): 1}
        others = await seeded(world, 5, "SMS")
        clock.moves(15)
        await world.work(first, *others)
        assert await statuses(world, [first, *others]) == {("SENT", 1, "vonage"): 6}
    assert len(await simulator.messages("twilio")) == 1


async def test_ambiguous_answer_never_goes_to_another_where_once_is_promised(
    pool: Pool, key_ring: KeyRing, simulator: Simulator, clock: Clock
) -> None:
    await simulator.fault("twilio", drop="afterAccept")
    async with TWILIO.open(simulator.twilio()) as twilio, VONAGE.open(simulator.vonage()) as vonage:
        world = make_world(
            "sms-tx",
            pool,
            key_ring,
            senders={"twilio": twilio, "vonage": vonage},
            order=first_to_last("twilio", "vonage"),
            breakers=own_breakers(clock=clock.seconds),
            clock=clock,
        )
        seeds = await seeded(world, 12, "SMS")
        await world.work(*seeds)
        clock.moves(60)
        await again(world, seeds)
    assert await statuses(world, seeds) == {("UNKNOWN", 1, "twilio"): 12}
    assert await arrived(simulator, "vonage") == {"vonage": 0}


async def test_burst_of_bad_tokens_opens_the_breaker_and_deletes_no_device_P6(
    pool: Pool, key_ring: KeyRing, simulator: Simulator, clock: Clock
) -> None:
    """The wrong environment answers so for every token there is."""
    async with APNS.open(simulator.apns()) as apns:
        breakers = own_breakers(clock=clock.seconds)
        world = make_world(
            "push-tx",
            pool,
            key_ring,
            senders={"apns": apns},
            order=first_to_last("apns"),
            breakers=breakers,
            clock=clock,
        )
        bad = [
            await world.seeder.delivery("PUSH", address=f"baddc0de{number:056x}", platform="IOS")
            for number in range(10)
        ]
        for each in bad:
            await pool.execute("INSERT INTO ulak.recipients (external_id) VALUES ($1)", str(each.key.notification_id))
            await pool.execute(
                "INSERT INTO ulak.devices (user_id, token_key, token_sealed, platform)"
                " SELECT user_id, $2, '', 'IOS' FROM ulak.recipients WHERE external_id = $1",
                str(each.key.notification_id),
                each.key.target_key,
            )
        await world.work(*bad)
        assert breakers.known(Guarded("apns", MessageClass.TX)).phase is Phase.OPEN
        (good,) = await seeded(world, 1, "PUSH")
        await world.work(good)
    assert await statuses(world, [good]) == {("PENDING", 0, None): 1}
    assert await pool.fetchval("SELECT count(*) FROM ulak.devices WHERE active") == 10


async def test_rest_of_a_batch_is_not_burnt_by_a_provider_that_went_down(
    pool: Pool, key_ring: KeyRing, clock: Clock
) -> None:
    down = ScriptedSender("sendgrid", concurrency=5, outcomes=[Transient("503")] * 100)
    other = ScriptedSender("mailgun", concurrency=50)
    world = make_world(
        "email-tx",
        pool,
        key_ring,
        senders={"sendgrid": down, "mailgun": other},
        order=first_to_last("sendgrid", "mailgun"),
        breakers=own_breakers(clock=clock.seconds),
        clock=clock,
    )
    seeds = await seeded(world, 60)
    await world.work(*seeds)
    assert 10 <= len(down.sent) <= 30  # what was on its way when the tenth had failed
    left = [each for each in seeds if (await world.seeder.row(each.key))["attempt"] == 0]
    assert len(left) == 60 - len(down.sent)
    assert {hint.notification_id for hint in world.hints()} == {each.key.notification_id for each in left}
    await world.work(*left)
    assert len(other.sent) == len(left)


@pytest.mark.redis
async def test_two_workers_share_one_breaker(
    pool: Pool, key_ring: KeyRing, simulator: Simulator, redis_client: Redis, key_prefix: str
) -> None:
    await simulator.fault("sendgrid", status=503)

    def breakers() -> Breakers:
        script = BreakerScript(redis_client, key_prefix, Policy())
        return Breakers(script, Policy(), told=ProviderEvents(pool), retry_sec=1.0)

    async with SENDGRID.open(simulator.sendgrid()) as sendgrid, MAILGUN.open(simulator.mailgun()) as mailgun:
        shared = [breakers(), breakers()]
        one, two = (
            make_world(
                "email-tx",
                pool,
                key_ring,
                senders={"sendgrid": sendgrid, "mailgun": mailgun},
                order=first_to_last("sendgrid", "mailgun"),
                breakers=each,
            )
            for each in shared
        )
        await one.work(*await seeded(one, 6))
        await two.work(*await seeded(two, 4))
        await shared[0].refresh()
        tried = len(await simulator.messages("sendgrid"))
        later = await seeded(one, 3)
        await one.work(*later)
    assert await statuses(one, later) == {("SENT", 1, "mailgun"): 3}
    assert len(await simulator.messages("sendgrid")) == tried
    assert await pool.fetchval("SELECT count(*) FROM ulak.provider_events") == 1


async def test_drained_account_gets_nothing_new_until_it_is_enabled(
    pool: Pool, key_ring: KeyRing, clock: Clock
) -> None:
    watch = ControlWatch(pool)
    await watch.other_than(watch.current.revision)
    twilio, vonage = ScriptedSender("twilio"), ScriptedSender("vonage")
    world = make_world(
        "otp-sms",
        pool,
        key_ring,
        senders={"twilio": twilio, "vonage": vonage},
        order=first_to_last("twilio", "vonage"),
        breakers=own_breakers(clock=clock.seconds),
        watch=watch,
    )

    async def one() -> None:
        await world.work(*await seeded(world, 1, "SMS", promise=Promise.AT_LEAST_ONCE))

    await one()
    async with pool.acquire() as connection:
        assert await drain_account(connection, OPERATOR, "twilio", "contract ends")
    await watch.other_than(watch.current.revision)
    await one()
    async with pool.acquire() as connection:
        assert await enable_account(connection, OPERATOR, "twilio", "")
    await watch.other_than(watch.current.revision)
    await one()
    assert (len(twilio.sent), len(vonage.sent)) == (2, 1)


@pytest.mark.kafka
@pytest.mark.redis
async def test_worker_process_heeds_its_order_and_a_drain_without_restart(
    workers: Workers, simulator: Simulator, pool: Pool, kafka_settings: KafkaSettings, key_ring: KeyRing
) -> None:
    lane = DEFAULT_CHANNELS.lane("otp-sms")
    await create(kafka_settings, lane)
    vonage = simulator.vonage()
    environment = {
        **workers.environment,
        "ULAK_VONAGE_API_KEY": str(vonage.api_key),
        "ULAK_VONAGE_API_SECRET_FILE": str(vonage.api_secret_file),
        "ULAK_VONAGE_SENDER_ID": str(vonage.sender_id),
        "ULAK_VONAGE_BASE_URL": vonage.base_url,
        "ULAK_WORKERS_PROVIDERS": '{"SMS": "twilio", "otp-sms": "vonage, twilio"}',
    }
    await replace(workers, environment=environment).start(lane.name)
    seeder = Seeder(pool, key_ring)

    async def carried_by() -> str:
        code = await seeder.delivery("SMS", message_class=MessageClass.CRITICAL, promise=Promise.AT_LEAST_ONCE)
        await publish(kafka_settings, code)
        await in_status(seeder, code, "SENT")
        return str((await seeder.row(code.key))["provider"])

    assert await carried_by() == "vonage"
    async with pool.acquire() as connection, connection.transaction():
        assert await drain_account(connection, OPERATOR, "vonage", "contract ends")

    async def goes_around() -> bool:
        return await carried_by() == "twilio"

    await until(goes_around, what="a code around the drained account")
    async with pool.acquire() as connection, connection.transaction():
        assert await enable_account(connection, OPERATOR, "vonage", "")

    async def comes_back() -> bool:
        return await carried_by() == "vonage"

    await until(comes_back, what="a code through the account again")
