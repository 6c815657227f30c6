"""The loops of Model B: an intake per class and a write-back for each source, and what `POST /emails` leaves behind."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from services.relay.intake.intake import ApplicationDirectory, EmailIntake
from services.relay.intake.retention import LinkRetention
from services.relay.intake.settings import IntakeSettings
from services.relay.intake.write_back import Closing, WriteBack
from services.relay.loop import Loop
from services.relay.source import Source
from shared.core.storage import Storage
from shared.ledger.ledger import EmailLedger
from shared.postgres.catalogue import CatalogueCache
from shared.postgres.pool import Pool, open_pool
from shared.postgres.settings import PostgresSettings
from shared.runtime.keyring import RingSource
from shared.wire.channel import MessageClass

EMAIL_CHANNEL: Final = "ulak_email"
_RETENTION_SEC: Final = 600.0
_CONNECTIONS: Final = 6


@dataclass(frozen=True, slots=True)
class Book:
    """What all sources' loops share: Ulak's own database as they use it."""

    own: Pool
    ledger: EmailLedger
    applications: ApplicationDirectory
    rings: RingSource
    settings: IntakeSettings
    clock: Callable[[], datetime]


@asynccontextmanager
async def open_book(
    settings: IntakeSettings,
    postgres: PostgresSettings,
    rings: RingSource,
    *,
    default_locale: str,
    clock: Callable[[], datetime],
) -> AsyncIterator[Book]:
    """With a pool of its own: an intake holds a connection of its source while it waits for one of these.

    Were they of one pool where the source is our own database, intakes could wait for each other.
    """
    async with open_pool(postgres, name="relay ledger", size=_CONNECTIONS) as own:
        ledger = EmailLedger(own, CatalogueCache(own), rings, default_locale=default_locale, clock=clock)
        yield Book(own, ledger, ApplicationDirectory(own), rings, settings, clock)


def intake_loops(source: Source, book: Book) -> list[Loop]:
    """One intake per class, so that a class that waits for anything holds no other, and the source's write-back."""
    settings = book.settings
    loops = [
        Loop(
            f"intake-{message_class.label}@{source.name}",
            EmailIntake(
                source,
                message_class,
                ledger=book.ledger,
                applications=book.applications,
                rings=book.rings,
                batch=settings.batch,
                key_wait_sec=settings.key_wait_sec,
                clock=book.clock,
            ).round,
            settings.poll_sec,
            channel=EMAIL_CHANNEL,
        )
        for message_class in MessageClass
    ]
    work = WriteBack(book.own, source, book.rings, page=settings.write_back_page, clock=book.clock)
    return [*loops, Loop(f"write-back@{source.name}", work.round, settings.write_back_sec)]


def link_loops(book: Book, storage: Storage, *, keep_days: int) -> list[Loop]:
    """Once per relay: links that have no source, and old ones."""
    closing = Closing(book.own, page=book.settings.write_back_page)
    retention = LinkRetention(book.own, storage, keep_days=keep_days)
    return [
        Loop("link-close", closing.round, book.settings.write_back_sec),
        Loop("link-retention", retention.round, _RETENTION_SEC),
    ]
