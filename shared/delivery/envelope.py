"""Neighbours in a batch that share an Envelope are one message: where one ends and the next begins. Pure."""

from collections.abc import Iterator, Sequence

from shared.core.ports import Prepared


def bounds(batch: Sequence[Prepared]) -> Sequence[int]:
    """Positions at which a message begins, then the batch's end: message n is `batch[bounds[n] : bounds[n + 1]]`."""
    starts = [
        position
        for position, prepared in enumerate(batch)
        if prepared.envelope is None or not position or prepared.envelope is not batch[position - 1].envelope
    ]
    starts.append(len(batch))
    return starts


def parts(batch: Sequence[Prepared], messages: int) -> Iterator[tuple[int, int]]:
    """Start and end of consecutive parts of so many messages each (the last may have fewer); none cuts a message."""
    found = bounds(batch)
    for first in range(0, len(found) - 1, messages):
        yield found[first], found[min(first + messages, len(found) - 1)]
