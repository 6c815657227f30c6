"""Which providers there are. Built-in ones are listed here; others come from any distribution by entry point.

An entry point of group `ulak.providers` names a `Provider`: `acme = "acme_ulak:PROVIDER"`.
"""

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import Any, Final, Generic, TypeVar

from shared.core.ports import Sender
from shared.core.receipt import ReceiptReader
from shared.providers.settings import ProviderSettings

ENTRY_POINT_GROUP: Final = "ulak.providers"

S = TypeVar("S", bound=ProviderSettings)


@dataclass(frozen=True, slots=True)
class Provider(Generic[S]):
    """A provider as the registry knows it: name, channel, its settings model, and how to open a sender.

    `open` connects nothing yet; the sender lives as long as the context. platforms: for push, whose tokens it takes;
    empty means all addresses of the channel. prefixes: how the addresses begin that it takes (`+90`), empty: all.
    receipts: for providers that call back: what verifies and reads that, None as long as the settings lack what
    verifying needs.
    """

    name: str
    channel: str
    settings: type[S]
    open: Callable[[S], AbstractAsyncContextManager[Sender]]
    platforms: frozenset[str] = frozenset()
    prefixes: tuple[str, ...] = ()
    receipts: Callable[[S], ReceiptReader | None] | None = None


class DuplicateProviderError(ValueError):
    """Two distributions bring a provider of the same name: uninstall one."""


def providers() -> Mapping[str, Provider[Any]]:
    """All providers by name: the built-in ones, then those of entry points, sorted by name.

    Modules are imported when this is called, not before.
    """
    found: dict[str, Provider[Any]] = {provider.name: provider for provider in _built_in()}
    for point in sorted(entry_points(group=ENTRY_POINT_GROUP), key=lambda point: point.name):
        provider = point.load()
        if not isinstance(provider, Provider):
            raise TypeError(f"entry point {point.name} of {ENTRY_POINT_GROUP} is not a Provider: {point.value}")
        if found.setdefault(provider.name, provider) is not provider:
            raise DuplicateProviderError(f"provider {provider.name} is brought twice, also by {point.value}")
    return found


def _built_in() -> tuple[Provider[Any], ...]:
    from shared.providers.email.mailgun.client import MAILGUN
    from shared.providers.email.sendgrid.client import SENDGRID
    from shared.providers.email.ses.client import SES
    from shared.providers.email.smtp.client import SMTP
    from shared.providers.push.apns.client import APNS
    from shared.providers.push.fcm.client import FCM
    from shared.providers.push.webpush.client import WEB_PUSH
    from shared.providers.sms.netgsm.client import NETGSM
    from shared.providers.sms.twilio.client import TWILIO
    from shared.providers.sms.vonage.client import VONAGE

    return (SMTP, SES, SENDGRID, MAILGUN, APNS, FCM, WEB_PUSH, TWILIO, VONAGE, NETGSM)
