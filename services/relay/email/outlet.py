"""Where mails go out: the first e-mail provider that is configured, a sender per class, its quota."""

import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

from shared.core.outcome import Outcome
from shared.core.ports import Prepared, Sender, SendWindow
from shared.providers.registry import Provider, providers
from shared.providers.settings import ProviderSettings
from shared.redis_store.token_bucket import Quota
from shared.runtime.metrics import EMAIL_SEND
from shared.runtime.settings import load
from shared.wire.channel import MessageClass

_CHANNEL: Final = "EMAIL"


@dataclass(frozen=True, slots=True)
class Account:
    """A provider that has its settings."""

    provider: Provider[Any]
    settings: ProviderSettings

    @property
    def quotas(self) -> Mapping[str, Quota]:
        """Its contract by its name; nothing where there is none."""
        rate = self.settings.quota_per_second
        if rate is None:
            return {}
        name = self.provider.name
        return {name: Quota(name, rate, self.settings.quota_reserve_per_second)}


def email_providers() -> Sequence[str]:
    """The names of all that could take e-mail, configured or not."""
    return [name for name, provider in providers().items() if provider.channel == _CHANNEL]


def email_account() -> Account | None:
    """The first configured provider of e-mail, as the workers choose theirs. Read in the composition root."""
    for provider in providers().values():
        if provider.channel == _CHANNEL:
            settings = load(provider.settings)
            if settings.configured:
                return Account(provider, settings)
    return None


@asynccontextmanager
async def open_senders(account: Account) -> AsyncIterator[Mapping[MessageClass, Sender]]:
    """A sender for each class, over all sources: no class waits for another's connections, nor one source for long
    for another's mails, of which no more than its claims are under way.
    """
    async with AsyncExitStack() as stack:
        yield {
            message_class: TimedSender(await stack.enter_async_context(account.provider.open(account.settings)))
            for message_class in MessageClass
        }


class TimedSender:
    """A sender whose time is measured."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender
        self._seconds = EMAIL_SEND.labels(sender.provider)
        self.provider: Final = sender.provider
        self.concurrency: Final = sender.concurrency

    async def send(self, batch: Sequence[Prepared], window: SendWindow) -> Sequence[Outcome]:
        started = time.monotonic()
        outcomes = await self._sender.send(batch, window)
        self._seconds.observe(time.monotonic() - started)
        return outcomes
