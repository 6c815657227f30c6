"""Model A in a process: what all sources share, and the loops over one of them."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Final

from services.relay.email.archive import Archive, FolderArchive, make_archive
from services.relay.email.dispatcher import Dispatcher
from services.relay.email.facts import FactStore
from services.relay.email.gauges import EmailGauges
from services.relay.email.outlet import Account, open_senders
from services.relay.email.preparation import Preparer
from services.relay.email.reaper import EmailReaper
from services.relay.email.retention import Retention
from services.relay.email.settings import ModelASettings
from services.relay.email.store import EmailStore, SuppressionStore
from services.relay.loop import Loop
from services.relay.source import Source
from shared.content.render import Renderer
from shared.core.ports import Sender
from shared.core.storage import Storage
from shared.delivery.mail import MailMaker
from shared.delivery.settings import EmailSettings
from shared.postgres.catalogue import CatalogueCache
from shared.postgres.control_watch import ControlWatch
from shared.postgres.pool import Pool
from shared.redis_store.client import open_redis
from shared.redis_store.pacer import Pacer
from shared.redis_store.quota import LiveQuotas
from shared.redis_store.settings import RedisSettings
from shared.redis_store.token_bucket import TokenBuckets
from shared.runtime.keyring import RingSource
from shared.runtime.service import Stop
from shared.storage.client import open_storage
from shared.storage.settings import StorageSettings
from shared.wire.channel import EMAIL, MessageClass

EMAIL_CHANNEL: Final = "ulak_email"
_GAUGES_SEC: Final = 10.0


@dataclass(frozen=True, slots=True)
class EmailConfig:
    """Read in the composition root. account None: nothing is sent; redis None: each process paces by itself."""

    settings: ModelASettings
    mail: EmailSettings
    storage: StorageSettings
    default_locale: str
    default_zone: str
    public_url: str | None
    account: Account | None
    redis: RedisSettings | None


@dataclass(frozen=True, slots=True)
class ModelA:
    """What the loops of all sources share."""

    config: EmailConfig
    own: Pool
    rings: RingSource
    catalogue: CatalogueCache
    maker: MailMaker
    storage: Storage
    archive: Archive
    pacer: Pacer
    senders: Mapping[MessageClass, Sender]
    watch: ControlWatch
    stop: Stop

    def rests(self, message_class: MessageClass, provider: str) -> bool:
        """Whether nothing of a class begins: the process ends, or the class's lane or the provider is paused."""
        lane, controls = EMAIL.lane(message_class).name, self.watch.current
        paused = bool(controls.pauses) and (controls.lane(lane) or controls.provider(provider, lane))
        return self.stop.requested or bool(paused)


@asynccontextmanager
async def open_model_a(
    config: EmailConfig, own: Pool, rings: RingSource, watch: ControlWatch, stop: Stop
) -> AsyncIterator[ModelA]:
    """own: Ulak's database, where types, templates, preferences and suppressions are. Connects to no provider yet."""
    settings = config.settings
    async with AsyncExitStack() as stack:
        buckets: TokenBuckets | None = None
        retry_sec = 1.0
        if config.redis is not None:
            redis = await stack.enter_async_context(open_redis(config.redis))
            buckets, retry_sec = TokenBuckets(redis, config.redis.key_prefix), config.redis.retry_sec
        quotas = {} if config.account is None else config.account.quotas
        senders: Mapping[MessageClass, Sender] = {}
        if config.account is not None:
            senders = await stack.enter_async_context(open_senders(config.account))
        storage = await stack.enter_async_context(open_storage(config.storage))
        archive = make_archive(settings)
        if isinstance(archive, FolderArchive):
            stack.callback(archive.close)
        catalogue = CatalogueCache(own)
        maker = MailMaker(
            catalogue,
            Renderer(default_zone=config.default_zone),
            storage,
            rings,
            default_locale=config.default_locale,
            limits=config.mail,
            public_url=config.public_url,
        )
        pacer = Pacer(
            buckets, LiveQuotas(quotas, lambda: watch.current), workers=settings.processes, retry_sec=retry_sec
        )
        yield ModelA(config, own, rings, catalogue, maker, storage, archive, pacer, senders, watch, stop)


def email_loops(source: Source, model_a: ModelA) -> list[Loop]:
    """A loop per class, so that none waits for another, and the two that keep house: reaper and retention."""
    settings = model_a.config.settings
    store = EmailStore(source.pool)
    retention = Retention(source.name, source.pool, settings, storage=model_a.storage, archive=model_a.archive)
    loops = [Loop(f"email-retention@{source.name}", retention.round, settings.retention_poll_sec)]
    if not source.spec.email_model_a:
        return loops
    preparer = Preparer(
        source.name,
        rings=model_a.rings,
        facts=FactStore(model_a.own),
        catalogue=model_a.catalogue,
        maker=model_a.maker,
        backoff=settings.backoff_policy,
        default_locale=model_a.config.default_locale,
        default_zone=model_a.config.default_zone,
        paused=lambda type_name: model_a.watch.current.of(type_name=type_name, api_key_id=None),
    )
    for message_class, sender in model_a.senders.items():
        dispatcher = Dispatcher(
            source.name,
            store,
            message_class,
            settings,
            preparer=preparer,
            sender=sender,
            pacer=model_a.pacer,
            suppressions=SuppressionStore(model_a.own),
            rings=model_a.rings,
            stopping=partial(model_a.rests, message_class, sender.provider),
        )
        name = f"email-{message_class.label}@{source.name}"
        loops.append(Loop(name, dispatcher.round, settings.poll_sec, channel=EMAIL_CHANNEL))
    gauges = EmailGauges(source.name, store, sends=bool(model_a.senders))
    return [
        *loops,
        Loop(f"email-reaper@{source.name}", EmailReaper(source.name, store).round, settings.reaper_poll_sec),
        Loop(f"email-gauges@{source.name}", gauges.round, _GAUGES_SEC),
    ]
