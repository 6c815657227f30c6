"""Ids of rows, and of requests whose caller names none."""

import os
import time
from typing import Final
from uuid import UUID

_RANDOM_BYTES: Final = 10


def new_id() -> UUID:
    """A fresh UUIDv7 (RFC 9562 section 5.7): 48 bits of milliseconds, then randomness; Python has its own from 3.14."""
    value = (time.time_ns() // 1_000_000) << 80 | int.from_bytes(os.urandom(_RANDOM_BYTES))
    value = value & ~(0xF << 76) | 0x7 << 76  # version
    value = value & ~(0x3 << 62) | 0x2 << 62  # variant
    return UUID(int=value)
