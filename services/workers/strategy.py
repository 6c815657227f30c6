"""How a channel's lanes are worked: which provider a delivery goes to. One `strategy.py` per channel's folder."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from shared.delivery.pipeline import Route
from shared.providers.registry import Provider


@dataclass(frozen=True, slots=True)
class Strategy:
    """One channel's way.

    route(providers) gives the choice among the channel's configured providers, in the registry's order. It always names
    one, also where none is configured: the pipeline then says which is missing, and the delivery waits.
    """

    channel: str
    route: Callable[[Sequence[Provider[Any]]], Route]


def first_of(fallback: str) -> Callable[[Sequence[Provider[Any]]], Route]:
    """The first configured provider for every delivery; `fallback` is the one to ask for when there is none."""

    def route(providers: Sequence[Provider[Any]]) -> Route:
        name = providers[0].name if providers else fallback
        return lambda _row: name

    return route
