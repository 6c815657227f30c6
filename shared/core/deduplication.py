"""Keys from stable identifiers, and the fingerprint that tells the same request from another (data.md, Dedup)."""

from collections.abc import Mapping
from typing import Any, Final

import orjson

from shared.core.sealing import KeyRing, keyed_hash

EMAIL_MAPPING: Final = ":email"
"""The mapping of every e-mail request: its key is the caller's alone, whatever the type (no type is empty)."""


def request_fingerprint(ring: KeyRing, *, recipient: str, type_name: str, params: Mapping[str, Any]) -> bytes:
    """Keyed hash of what the caller asked for, in canonical form (sorted keys, no white space).

    recipient is the resolved one: the external user id, or the canonical address. Keyed, because the params may hold a
    six-digit code that a plain hash would give away.
    """
    canonical = orjson.dumps([recipient, type_name, params], option=orjson.OPT_SORT_KEYS).decode()
    return keyed_hash(ring, "request", canonical)


def mapping_key(type_name: str, role: str = "") -> str:
    """Second part of the dedup key, so that one event may notify buyer and seller: type + recipient role."""
    return f"{type_name}:{role}" if role else type_name
