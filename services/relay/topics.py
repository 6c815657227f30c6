"""Which topics the broker has: an outbox row may name any."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from shared.kafka.error import MissingTopicError, TopicAdminError
from shared.kafka.settings import KafkaSettings, client_options

_LOOK_AGAIN_SEC: Final = 1.0

ListTopics = Callable[[], Awaitable[frozenset[str]]]
"""The bare names of the topics that exist; TopicAdminError if the broker does not answer."""


class TopicDirectory:
    """Remembers the topics that exist and asks again for one it does not know, at most once a second."""

    def __init__(self, list_topics: ListTopics, *, declared: Collection[str]) -> None:
        self._list = list_topics
        self._declared = frozenset(declared)
        self._known: frozenset[str] = frozenset()
        self._asked_at = -_LOOK_AGAIN_SEC

    async def unknown(self, names: Collection[str]) -> frozenset[str]:
        """Those of `names` that do not exist and that Ulak does not declare: nobody will create them.

        A declared topic that is missing is a step of the installation not yet done, nothing wrong with a row: it
        raises MissingTopicError, and the rows wait.
        """
        strangers = frozenset(names) - self._known
        if strangers and time.monotonic() - self._asked_at >= _LOOK_AGAIN_SEC:
            self._known = await self._list()
            self._asked_at = time.monotonic()
            strangers -= self._known
        if missing := strangers & self._declared:
            raise MissingTopicError(sorted(missing))
        return strangers


@asynccontextmanager
async def broker_topics(settings: KafkaSettings) -> AsyncIterator[ListTopics]:
    """Ask the broker, in a thread of its own: the client blocks."""
    executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="relay-topics")
    client = AdminClient(client_options(settings, settings.names.full("relay-topics")))
    prefix = settings.topic_prefix

    def ask() -> frozenset[str]:
        try:
            found = client.list_topics(timeout=settings.request_timeout_sec).topics
        except KafkaException as error:
            raise TopicAdminError(f"the broker did not list its topics: {error.args[0].name()}") from error
        return frozenset(settings.names.bare(name) for name in found if name.startswith(prefix))

    async def list_topics() -> frozenset[str]:
        return await asyncio.get_running_loop().run_in_executor(executor, ask)

    try:
        yield list_topics
    finally:
        executor.shutdown(wait=False, cancel_futures=True)
