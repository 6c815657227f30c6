"""Ports that a test's service may listen on, which nobody takes between the asking and the listening."""

import os
import random
from collections.abc import Iterator
from itertools import cycle
from typing import Final

from ops.dev.ports import is_free

_FIRST: Final = 10_000
_EACH: Final = 1_000
"""A thousand for each worker of xdist, below those of `ulak dev` and of outgoing connections."""


def _own_range() -> Iterator[int]:
    """One after another, so that none comes twice within a test; from anywhere on, for the sake of another run."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    first = _FIRST + worker % 8 * _EACH
    start = random.SystemRandom().randrange(_EACH)
    return cycle([*range(first + start, first + _EACH), *range(first, first + start)])


_PORTS: Final = _own_range()


def free_port() -> int:
    return next(port for port in _PORTS if is_free(port))
