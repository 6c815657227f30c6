"""All that runs over the outbox of one source."""

from typing import Final

from services.relay.gauges import Gauges
from services.relay.loop import Loop
from services.relay.ordered import OrderedReader
from services.relay.outbox import OutboxReader
from services.relay.prune import OutboxPruner
from services.relay.publication import Publication, Ways
from services.relay.settings import RelaySettings
from services.relay.source import Source
from shared.wire.channel import MessageClass

OUTBOX_CHANNEL: Final = "ulak_outbox"
_GAUGES_SEC: Final = 10.0


def reading_loops(source: Source, settings: RelaySettings, *, critical: Ways, others: Ways) -> list[Loop]:
    """Two loops per class, so that a class that waits for anything holds no other, and ordered rows hold no others."""
    batch = source.spec.batch or settings.batch
    longest = settings.outbox_poll_sec(source.spec)
    loops: list[Loop] = []
    for message_class in MessageClass:
        is_critical = message_class is MessageClass.CRITICAL
        pool = source.pool_of(message_class)
        ways = critical if is_critical else others
        publication = Publication(source.name, message_class, ways, keeps=_keep_sec(source, settings) > 0)
        reader = OutboxReader(
            pool,
            message_class,
            publication,
            batch=batch,
            drains=1 if is_critical else settings.drains,
            full_scan_sec=settings.full_scan_sec,
        )
        ordered = OrderedReader(pool, message_class, publication, batch=batch, full_scan_sec=settings.full_scan_sec)
        name = f"outbox-{message_class.label}"
        loops += [
            Loop(
                f"{name}{kind}@{source.name}",
                each.round,
                settings.poll_sec,
                channel=OUTBOX_CHANNEL,
                longest_idle_sec=longest,
                found=each.found,
            )
            for kind, each in (("", reader), ("-ordered", ordered))
        ]
    return loops


def keeping_loops(source: Source, settings: RelaySettings) -> list[Loop]:
    """What looks after a source, without Kafka."""
    pruner = OutboxPruner(source, keep_published_sec=_keep_sec(source, settings))
    return [
        Loop(f"prune@{source.name}", pruner.round, settings.upkeep_poll_sec),
        Loop(f"gauges@{source.name}", Gauges(source).round, _GAUGES_SEC),
    ]


def _keep_sec(source: Source, settings: RelaySettings) -> float:
    """Published rows are kept where a producer's events are; our own outbox holds hints, which the sweep repeats."""
    return 0.0 if source.is_own else settings.keep_published_sec
