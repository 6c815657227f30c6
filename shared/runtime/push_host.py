"""Whether the host of a Web Push endpoint is one of the internet (P12).

Asked when a subscription is registered, and again by whoever sends to it, because a name may lead elsewhere later (DNS
rebinding).
"""

import asyncio
import ipaddress
import socket
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from shared.core.web_push import Address, InvalidSubscriptionError, is_public
from shared.runtime.error import OperatorError

Resolve = Callable[[str], Awaitable[Sequence[Address]]]
"""Every address of a name; none where it does not exist. Raises ResolverError."""

_KNOWN: Final = (
    "fcm.googleapis.com",
    "updates.push.services.mozilla.com",
    "web.push.apple.com",
    ".notify.windows.com",
    ".push.apple.com",
)
"""Names of the browsers' own push services, which need no look-up: Chrome, Firefox, Safari, Edge."""


class ResolverError(OperatorError):
    """The name service does not answer: try again later."""


def is_vouched_for(host: str, trusted: frozenset[str]) -> bool:
    """Whether the host is a browser's own push service, or one that the operator trusts: it needs no look-up."""
    return host in trusted or any(host == known or (known[0] == "." and host.endswith(known)) for known in _KNOWN)


async def public_addresses(host: str, resolve: Resolve) -> Sequence[Address]:
    """Where the host is, all of it on the internet; InvalidSubscriptionError otherwise, ResolverError."""
    addresses = await resolve(host)
    if not addresses:
        raise InvalidSubscriptionError("endpoint", "the host does not exist: give the browser's own endpoint")
    if not all(map(is_public, addresses)):
        raise InvalidSubscriptionError(
            "endpoint", "the host is not one of the internet: give the browser's own endpoint"
        )
    return addresses


async def require_public(host: str, trusted: frozenset[str], resolve: Resolve) -> None:
    """InvalidSubscriptionError unless the host is vouched for, or leads to addresses of the internet alone."""
    if not is_vouched_for(host, trusted):
        await public_addresses(host, resolve)


def system_resolver(*, timeout_sec: float = 3.0) -> Resolve:
    """The machine's own resolver."""

    async def resolve(host: str) -> Sequence[Address]:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(timeout_sec):
                found = await loop.getaddrinfo(host, 443, type=socket.SOCK_STREAM)
        except TimeoutError as error:
            raise ResolverError("the name service does not answer: check the machine's resolver") from error
        except socket.gaierror as error:
            if error.errno in {socket.EAI_NONAME, socket.EAI_NODATA}:
                return ()
            raise ResolverError("the name service does not answer: check the machine's resolver") from error
        return [ipaddress.ip_address(str(entry[4][0]).partition("%")[0]) for entry in found]

    return resolve
