"""The way to a subscription's host, which its user chose (P12): no redirects, and nowhere into our own network."""

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import Final, Protocol

from shared.core.ports import Reply, Transport, UnsentError
from shared.core.web_push import WebPushSubscription
from shared.runtime.push_host import Resolve, ResolverError, is_vouched_for, public_addresses


class OpenPinned(Protocol):
    """Opens a transport that finds the first, a host, at the second, an address."""

    def __call__(self, *, pinned: tuple[str, str]) -> AbstractAsyncContextManager[Transport]: ...


STRANGER_SEC: Final = 5.0
"""How long a host that nobody vouches for may keep a place on the wire."""


class PushHosts:
    """Posts to browsers' own push services and trusted hosts over kept connections, to any other over one of its own.

    Such a host is looked up for each message and then called at the very address that was found to be of the internet,
    so that its name cannot lead elsewhere in between (DNS rebinding).
    """

    def __init__(self, kept: Transport, open_pinned: OpenPinned, trusted: frozenset[str], resolve: Resolve) -> None:
        self._kept = kept
        self._open_pinned = open_pinned
        self._trusted = trusted
        self._resolve = resolve

    def vouched_for(self, subscription: WebPushSubscription) -> bool:
        return is_vouched_for(subscription.host, self._trusted)

    async def post(
        self, subscription: WebPushSubscription, headers: Mapping[str, str], body: bytes, *, timeout_sec: float
    ) -> Reply:
        """As `Transport.post`; InvalidSubscriptionError for a host that is not of the internet, nothing being sent."""
        if self.vouched_for(subscription):
            return await self._kept.post(subscription.endpoint, headers, body, timeout_sec=timeout_sec)
        try:
            addresses = await public_addresses(subscription.host, self._resolve)
        except ResolverError as error:
            raise UnsentError("the name service does not answer") from error
        address = min(addresses, key=lambda found: found.version)  # not every network has IPv6
        async with self._open_pinned(pinned=(subscription.host, str(address))) as transport:
            return await transport.post(
                subscription.endpoint, headers, body, timeout_sec=min(timeout_sec, STRANGER_SEC)
            )
