"""How a channel's lanes are worked: which providers its deliveries go to. One `strategy.py` per channel's folder."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from shared.delivery.order import LaneOrder, Order, in_turn, only
from shared.providers.registry import Provider


@dataclass(frozen=True, slots=True)
class Strategy:
    """One channel's way.

    fallback: whom to ask for where no configured provider takes a platform ('' for all others), so that the worker can
    say which provider is missing while the delivery waits.
    """

    channel: str
    fallback: Mapping[str, str]

    def order(self, providers: Sequence[Provider[Any]], wanted: Order | None = None) -> LaneOrder:
        """Of the channel's configured providers, in the registry's order: as wanted, or one after the other."""
        order = in_turn([provider.name for provider in providers]) if wanted is None else wanted
        return LaneOrder(
            {
                platform: only(
                    order, {each.name for each in providers if not each.platforms or platform in each.platforms}
                )
                for platform in self.fallback
            },
            self.fallback,
            {each.name: each.prefixes for each in providers if each.prefixes},
        )
