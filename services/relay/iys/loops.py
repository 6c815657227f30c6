"""The loops of the sync with the registry; none where it is not configured."""

import random
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from services.relay.iys.client import open_client
from services.relay.iys.pull import Pull
from services.relay.iys.settings import IysSettings
from services.relay.iys.store import RecordStore
from services.relay.iys.submission import FollowUp, Submission, Telling
from services.relay.loop import Loop
from shared.postgres.pool import Pool
from shared.runtime.keyring import RingSource


@asynccontextmanager
async def open_iys_loops(settings: IysSettings, own: Pool, rings: RingSource) -> AsyncIterator[list[Loop]]:
    """Telling, asking what became of it, and pulling; each fails alone. own: Ulak's database."""
    if not settings.configured:
        yield []
        return
    async with open_client(settings, monotonic=time.monotonic) as client:
        store = RecordStore(own)
        telling = Telling(store, client, rings, settings, jitter=random.random)
        yield [
            Loop("iys-submission", Submission(telling).round, settings.poll_sec),
            Loop("iys-results", FollowUp(telling).round, settings.poll_sec),
            Loop("iys-pull", Pull(store, client, rings, settings).round, settings.pull_sec),
        ]
