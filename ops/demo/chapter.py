"""What a chapter of the demo is, and what it proves."""

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ops.demo.world import World

AYSE: Final = 7
"""Turkish, Istanbul, a phone, a tablet, an e-mail address (ops/demo/sample)."""


@dataclass(frozen=True, slots=True)
class Line:
    """One thing that was sent: what, where it arrived, and how long acceptance to provider took (None: not sent)."""

    what: str
    where: str
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Told:
    """What a chapter proved. `quote` is something to show whole (the e-mail as received)."""

    lines: Sequence[Line]
    quote: str | None = None
    notification_id: str | None = None


@dataclass(frozen=True, slots=True)
class Chapter:
    """A part of the story. `alongside`: it takes long and disturbs no other, so it starts with the first."""

    title: str
    tell: Callable[[World], Coroutine[Any, Any, Told]]
    alongside: bool = False
