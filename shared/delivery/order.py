"""Which providers a lane has, in which order: written as `twilio=80 + netgsm=20, vonage`. Pure."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple


class Weighted(NamedTuple):
    """A provider, and how much it gets of what its step takes, compared with the others there."""

    provider: str
    weight: int


Order = tuple[tuple[Weighted, ...], ...]
"""Steps, the first one preferred: a later step is for what no provider of the steps before it can take."""


class OrderError(ValueError):
    """What was written is no order; the message says which part."""


def parse_order(text: str) -> Order:
    """Commas part the steps, + the providers of one step, =n is a weight (1 if unsaid). OrderError if it is none."""
    steps = tuple(tuple(_weighted(part) for part in step.split("+")) for step in text.split(","))
    names = [member.provider for step in steps for member in step]
    if len(set(names)) < len(names):
        raise OrderError(f"{text!r} names a provider twice")
    return steps


def in_turn(providers: Sequence[str]) -> Order:
    """One after the other."""
    return tuple((Weighted(provider, 1),) for provider in providers)


def only(order: Order, providers: Collection[str]) -> Order:
    """Without everybody else; steps that nobody is left of are gone."""
    kept = (tuple(member for member in step if member.provider in providers) for step in order)
    return tuple(step for step in kept if step)


@dataclass(frozen=True, slots=True)
class LaneOrder:
    """A lane's providers by the platform of the device; '' for addresses without one, and platforms not named.

    fallback: whom to name where nobody takes the platform, so that it is said which provider is missing; has '', too.
    prefixes: of providers that take only addresses which begin so (a country's numbers).
    """

    by_platform: Mapping[str, Order]
    fallback: Mapping[str, str]
    prefixes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def of(self, platform: str | None) -> Order:
        found = self.by_platform.get(platform or "")
        return self.by_platform.get("", ()) if found is None else found

    def taking(self, order: Order, address: str) -> Order:
        """Those of the order who take the address; all where none does, so that one of them says why it cannot."""
        if not self.prefixes:
            return order
        names = {member.provider for step in order for member in step}
        takers = {name for name in names if name not in self.prefixes or address.startswith(self.prefixes[name])}
        return only(order, takers) or order

    def missing(self, platform: str | None) -> str:
        """The provider to set up for the platform."""
        return self.fallback.get(platform or "", self.fallback[""])

    @property
    def providers(self) -> tuple[str, ...]:
        """All of them, each once."""
        return tuple(
            dict.fromkeys(member.provider for order in self.by_platform.values() for step in order for member in step)
        )


def _weighted(part: str) -> Weighted:
    name, sign, weight = (piece.strip() for piece in part.partition("="))
    if not name or (sign and not (weight.isascii() and weight.isdigit() and int(weight))):
        raise OrderError(f"{part.strip()!r} is no provider: write its name, or name=weight with a whole number from 1")
    return Weighted(name, int(weight) if sign else 1)
