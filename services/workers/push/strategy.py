"""Push: the platform of the device names the provider its token is of."""

from collections.abc import Sequence
from typing import Any, Final

from services.workers.strategy import Strategy
from shared.delivery.pipeline import Route
from shared.delivery.row import DeliveryRow
from shared.providers.registry import Provider

FALLBACK: Final = {"IOS": "apns", "ANDROID": "fcm", "WEB": "fcm"}
"""Whom to ask for where no configured provider takes the platform."""


def by_platform(providers: Sequence[Provider[Any]]) -> Route:
    """The first configured provider that takes tokens of the device's platform."""
    chosen = dict(FALLBACK)
    for provider in reversed(providers):
        chosen |= dict.fromkeys(provider.platforms or FALLBACK, provider.name)

    def route(row: DeliveryRow) -> str:
        return chosen.get(row.platform or "", "fcm")

    return route


PUSH: Final = Strategy("PUSH", by_platform)
