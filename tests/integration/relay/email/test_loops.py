"""What runs over a source, and what the loops of all sources share."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from redis.asyncio import Redis

from services.relay.email.archive import FolderArchive, NoArchive, TableArchive
from services.relay.email.loops import EMAIL_CHANNEL, EmailConfig, ModelA, email_loops, open_model_a
from services.relay.email.outlet import Account
from services.relay.email.settings import ModelASettings
from services.relay.source import Source
from shared.core.sealing import KeyRing
from shared.delivery.settings import EmailSettings
from shared.postgres.control_watch import watching
from shared.postgres.pool import Pool
from shared.postgres.source import SourceSpec
from shared.providers.email.smtp.client import SMTP
from shared.providers.email.smtp.settings import SmtpSettings
from shared.redis_store.settings import RedisSettings
from shared.runtime.keyring import FixedRingSource
from shared.runtime.service import Stop
from shared.storage.settings import StorageSettings
from shared.wire.channel import MessageClass

pytestmark = pytest.mark.postgres

SMTP_SETTINGS = SmtpSettings(
    host="127.0.0.1", port=1, security="none", from_address="no-reply@shop.example", quota_per_second=100
)
CONFIG = EmailConfig(
    settings=ModelASettings(),
    mail=EmailSettings(),
    storage=StorageSettings(),
    default_locale="tr",
    default_zone="Europe/Istanbul",
    public_url=None,
    account=Account(SMTP, SMTP_SETTINGS),
    redis=None,
)
SPEC = SourceSpec("shop", "postgresql://shop@db/shop", "shop")
KEEPING = ["email-retention@shop", "email-reaper@shop", "email-gauges@shop"]


@asynccontextmanager
async def opened(config: EmailConfig, pool: Pool, ring: KeyRing) -> AsyncIterator[ModelA]:
    async with (
        watching(pool) as watch,
        open_model_a(config, pool, FixedRingSource(ring), watch, Stop()) as model_a,
    ):
        yield model_a


async def test_each_class_has_a_loop_that_notify_wakes(pool: Pool, key_ring: KeyRing) -> None:
    async with opened(CONFIG, pool, key_ring) as model_a:
        loops = email_loops(Source(SPEC, pool, pool), model_a)
    woken = {loop.name for loop in loops if loop.channel == EMAIL_CHANNEL}
    assert woken == {f"email-{label}@shop" for label in ("critical", "tx", "bulk", "low")}
    assert {loop.name for loop in loops} - woken == set(KEEPING)
    assert len({id(sender) for sender in model_a.senders.values()}) == 4, "no class waits for another's connections"


async def test_a_source_may_leave_model_a_to_others(pool: Pool, key_ring: KeyRing) -> None:
    """Its old rows still go."""
    async with opened(CONFIG, pool, key_ring) as model_a:
        loops = email_loops(Source(replace(SPEC, email_model_a=False), pool, pool), model_a)
    assert [loop.name for loop in loops] == ["email-retention@shop"]


async def test_without_a_provider_rows_wait_and_leases_are_still_looked_after(pool: Pool, key_ring: KeyRing) -> None:
    async with opened(replace(CONFIG, account=None), pool, key_ring) as model_a:
        loops = email_loops(Source(SPEC, pool, pool), model_a)
    assert [loop.name for loop in loops] == KEEPING


@pytest.mark.redis
async def test_where_there_is_redis_the_quota_is_shared_through_it(
    pool: Pool, key_ring: KeyRing, redis_url: str, redis_client: Redis, key_prefix: str
) -> None:
    config = replace(CONFIG, redis=RedisSettings(url=redis_url, key_prefix=key_prefix))
    async with opened(config, pool, key_ring) as model_a:
        assert await model_a.pacer.take("smtp", 1, critical=False, patience_sec=2.0) == 1
    assert [key async for key in redis_client.scan_iter(f"{key_prefix}*")]


@pytest.mark.parametrize(
    ("setting", "kind"), [("", NoArchive), ("table", TableArchive), ("/var/lib/ulak", FolderArchive)]
)
async def test_old_rows_go_where_the_setting_says(pool: Pool, key_ring: KeyRing, setting: str, kind: type) -> None:
    config = replace(CONFIG, settings=ModelASettings(archive=setting))
    async with opened(config, pool, key_ring) as model_a:
        assert isinstance(model_a.archive, kind)


@pytest.mark.parametrize(
    ("kind", "key", "rests"),
    [
        pytest.param("lane", "email-tx", {MessageClass.TX}, id="a-lane"),
        pytest.param("lane", "push-tx", set(), id="another-channel"),
        pytest.param("provider", "smtp", set(MessageClass), id="the-provider"),
        pytest.param("provider", "ses", set(), id="another-provider"),
    ],
)
async def test_a_pause_lets_classes_rest(
    pool: Pool, key_ring: KeyRing, kind: str, key: str, rests: set[MessageClass]
) -> None:
    await pool.execute("INSERT INTO ulak.pauses (kind, key, paused_by) VALUES ($1, $2, 'ada')", kind, key)
    async with opened(CONFIG, pool, key_ring) as model_a:
        assert {each for each in MessageClass if model_a.rests(each, "smtp")} == rests
