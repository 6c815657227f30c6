"""Web Push to browsers' own push services (RFC 8030), each subscription at the host that it names."""

import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from typing import Final
from urllib.parse import urlsplit

import orjson

from shared.core.outcome import Outcome, Permanent
from shared.core.ports import Prepared, Sender, SendWindow, TransportError
from shared.core.web_push import InvalidSubscriptionError, WebPushSubscription, parse_subscription
from shared.providers.push.webpush.classify import classify, contained
from shared.providers.push.webpush.host import PushHosts
from shared.providers.push.webpush.request import RefusedError, build
from shared.providers.push.webpush.settings import WebPushSettings
from shared.providers.push.webpush.vapid import VapidTokens
from shared.providers.registry import Provider
from shared.providers.slots import Slots
from shared.providers.transport import open_transport
from shared.providers.unanswered import unanswered
from shared.runtime.push_host import Resolve, system_resolver

NAME: Final = "webpush"
PLATFORM: Final = "WEBPUSH"


class WebPushSender:
    """`Sender` for one VAPID key."""

    provider: Final = NAME

    def __init__(
        self,
        settings: WebPushSettings,
        hosts: PushHosts,
        tokens: VapidTokens,
        *,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._trusted = settings.push_hosts
        self._hosts = hosts
        self._tokens = tokens
        self._clock = clock
        self.concurrency: Final = settings.concurrency
        self._slots = Slots(settings.concurrency)

    async def send(self, batch: Sequence[Prepared], window: SendWindow) -> Sequence[Outcome]:
        return await self._slots.send_each(batch, self._send_one, window)

    async def _send_one(self, message: Prepared, deadline_sec: float) -> Outcome:
        try:
            subscription = _subscription(message.address, self._trusted)
            request = build(message, subscription, self._clock())
        except InvalidSubscriptionError as error:
            return _not_called(error)
        except RefusedError as error:
            return Permanent(str(error))
        authorization = self._tokens.authorization(_origin(subscription.endpoint))
        headers = {**request.headers, "authorization": authorization}
        try:
            reply = await self._hosts.post(subscription, headers, request.body, timeout_sec=deadline_sec)
        except InvalidSubscriptionError as error:
            return _not_called(error)
        except TransportError as error:
            outcome = unanswered(error)
        else:
            outcome = classify(reply, self._clock())
        return outcome if self._hosts.vouched_for(subscription) else contained(outcome)


def _subscription(address: str, trusted: frozenset[str]) -> WebPushSubscription:
    """Read back what was sealed; what was trusted when it was registered may not be any more."""
    try:
        found = orjson.loads(address)
        endpoint, keys = found["endpoint"], found["keys"]
        return parse_subscription(endpoint, keys["p256dh"], keys["auth"], trusted_hosts=trusted)
    except (orjson.JSONDecodeError, KeyError, TypeError):
        raise InvalidSubscriptionError("subscription", "not a browser's subscription") from None


def _not_called(error: InvalidSubscriptionError) -> Outcome:
    """The subscription stays: a name service that is bent for an hour must not cost all browsers theirs."""
    return Permanent(f"not called: {error}", dead_letter=False)


def _origin(endpoint: str) -> str:
    parts = urlsplit(endpoint)
    return f"https://{parts.netloc}"


@asynccontextmanager
async def open_web_push(settings: WebPushSettings, resolve: Resolve) -> AsyncIterator[WebPushSender]:
    """The sender for the length of the block; resolve: who looks names up."""
    assert settings.vapid_key_file is not None
    assert settings.vapid_subject is not None
    tokens = VapidTokens(settings.vapid_key_file, settings.vapid_subject, time.time)
    async with open_transport(ca_file=settings.ca_file) as kept:
        hosts = PushHosts(kept, partial(open_transport, ca_file=settings.ca_file), settings.push_hosts, resolve)
        yield WebPushSender(settings, hosts, tokens)


@asynccontextmanager
async def _open(settings: WebPushSettings) -> AsyncIterator[Sender]:
    async with open_web_push(settings, system_resolver()) as sender:
        yield sender


WEB_PUSH: Final = Provider(
    name=NAME, channel="PUSH", settings=WebPushSettings, open=_open, platforms=frozenset({PLATFORM})
)
